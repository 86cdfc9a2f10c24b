// kernels/host/block_map.h: applies a function of dense blocks to operands of any strides and
// dtypes. Operands that are dense and of the computation type are read and written in place; others
// go through small blocks on the stack.
#pragma once

#include "kernels/parallel_loop.h"
#include "kernels/strided_loop.h"

namespace tessera::kernels {

/// Reads rows of T as C.
template <class C>
using LoadRows = void (*)(const std::byte* source, const RowBlock& rows, C* out);
template <class C>
using StoreRows = void (*)(const C* values, const RowBlock& rows, std::byte* target);

template <class C, class T>
void load_rows(const std::byte* source, const RowBlock& rows, C* out) {
  const T* from = reinterpret_cast<const T*>(source);
  const std::int64_t n = rows.inner;
  for (std::int64_t r = 0; r < rows.outer; ++r, from += rows.outer_stride, out += n) {
    if (rows.inner_stride == 1) {
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) out[i] = convert<C>(from[i]);
    } else if (rows.inner_stride == 0) {
      std::fill_n(out, n, convert<C>(from[0]));
    } else {
      for (std::int64_t i = 0; i < n; ++i) out[i] = convert<C>(from[i * rows.inner_stride]);
    }
  }
}

template <class C, class T>
void store_rows(const C* values, const RowBlock& rows, std::byte* target) {
  T* to = reinterpret_cast<T*>(target);
  const std::int64_t n = rows.inner;
  for (std::int64_t r = 0; r < rows.outer; ++r, to += rows.outer_stride, values += n) {
    if (rows.inner_stride == 1) {
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) to[i] = convert<T>(values[i]);
    } else {
      for (std::int64_t i = 0; i < n; ++i) to[i * rows.inner_stride] = convert<T>(values[i]);
    }
  }
}

template <class C>
LoadRows<C> loader(DType dtype) {
  return visit_dtype(dtype, []<class T>(TypeTag<T>) -> LoadRows<C> { return load_rows<C, T>; });
}
template <class C>
StoreRows<C> storer(DType dtype) {
  return visit_dtype(dtype, []<class T>(TypeTag<T>) -> StoreRows<C> { return store_rows<C, T>; });
}

/// A loop over `Outputs` outputs (all of the first's shape) and `Inputs` inputs that broadcast to
/// it.
template <class C, int Outputs, int Inputs>
class BlockMap {
 public:
  static constexpr int kOperands = Outputs + Inputs;
  static_assert(kOperands <= kMaxOperands);
  using Arrays = std::array<const Array*, kOperands>;

  /// Outputs stand first in `arrays`.
  BlockMap(std::string_view kernel, const Arrays& arrays) : loop_(kernel, arrays) {
    for (int k = 0; k < kOperands; ++k) {
      const Array& array = *arrays[k];
      if (k > 0 && k < Outputs) require_shape(kernel, "output", array, arrays[0]->shape());
      data_[k] = array.bytes();
      element_bytes_[k] = size_of(array.dtype());
      typed_[k] = array.dtype() == dtype_of<C>();
      linear_[k] = typed_[k] && loop_.is_linear(k);
      if (k < Outputs) store_[k] = storer<C>(array.dtype());
      load_[k] = loader<C>(array.dtype());
    }
  }

  /// f(const C* const* inputs, C* const* outputs, n); each element depends on its own inputs only.
  template <class F>
  void run(int threads, F f) const {
    const bool by_rows = loop_.size(0) >= 64 || loop_.ndim() == 1;
    parallel_ranges_inlined(threads, loop_.total(), 8192, 1,
                            [&](std::int64_t begin, std::int64_t end) {
                              if (by_rows) {
                                run_rows(begin, end, f);
                              } else {
                                run_staged(begin, end, f);
                              }
                            });
  }

 private:
  struct Buffers {
    alignas(64) C values[kOperands][kStagedElements];
  };

  bool is_row_direct(int k) const { return typed_[k] && loop_.stride(k, 0) == 1; }
  bool all_rows_direct() const {
    bool all = true;
    for (int k = 0; k < kOperands; ++k) all = all && is_row_direct(k);
    return all;
  }
  std::byte* at(int k, std::int64_t offset) const { return data_[k] + offset * element_bytes_[k]; }

  template <class F>
  void run_rows(std::int64_t begin, std::int64_t end, F& f) const {
    if (all_rows_direct()) {
      loop_.for_rows(begin, end, [&](const Offsets& offsets, std::int64_t n) {
        const C* inputs[Inputs];
        C* outputs[Outputs];
        for (int k = 0; k < Outputs; ++k) outputs[k] = reinterpret_cast<C*>(at(k, offsets[k]));
        for (int k = Outputs; k < kOperands; ++k) {
          inputs[k - Outputs] = reinterpret_cast<const C*>(at(k, offsets[k]));
        }
        f(inputs, outputs, n);
      });
      return;
    }
    Buffers buffers;
    loop_.for_rows(begin, end, [&](const Offsets& offsets, std::int64_t n) {
      for (std::int64_t done = 0; done < n; done += kStagedElements) {
        run_piece(offsets, done, std::min(kStagedElements, n - done), buffers, f);
      }
    });
  }

  /// `count` elements of one row from its element `done` on.
  template <class F>
  void run_piece(const Offsets& offsets, std::int64_t done, std::int64_t count, Buffers& buffers,
                 F& f) const {
    const C* inputs[Inputs];
    C* outputs[Outputs];
    for (int k = Outputs; k < kOperands; ++k) {
      const std::int64_t stride = loop_.stride(k, 0);
      const std::byte* from = at(k, offsets[k] + done * stride);
      inputs[k - Outputs] = is_row_direct(k) ? reinterpret_cast<const C*>(from) : buffers.values[k];
      // A broadcast value stays in its block for the rest of the row: the first piece is the
      // longest.
      if (is_row_direct(k) || (stride == 0 && done > 0)) continue;
      load_[k](from, RowBlock{.inner = count, .inner_stride = stride}, buffers.values[k]);
    }
    for (int k = 0; k < Outputs; ++k) {
      std::byte* to = at(k, offsets[k] + done * loop_.stride(k, 0));
      outputs[k] = is_row_direct(k) ? reinterpret_cast<C*>(to) : buffers.values[k];
    }
    f(inputs, outputs, count);
    for (int k = 0; k < Outputs; ++k) {
      if (is_row_direct(k)) continue;
      const std::int64_t stride = loop_.stride(k, 0);
      store_[k](buffers.values[k], RowBlock{.inner = count, .inner_stride = stride},
                at(k, offsets[k] + done * stride));
    }
  }

  /// Many short rows to a block.
  template <class F>
  void run_staged(std::int64_t begin, std::int64_t end, F& f) const {
    Buffers buffers;
    for (std::int64_t position = begin; position < end; position += kStagedElements) {
      const std::int64_t n = std::min(kStagedElements, end - position);
      const C* inputs[Inputs];
      C* outputs[Outputs];
      for (int k = Outputs; k < kOperands; ++k) {
        inputs[k - Outputs] = stage_input(k, position, n, buffers.values[k]);
      }
      for (int k = 0; k < Outputs; ++k) {
        outputs[k] = linear_[k] ? reinterpret_cast<C*>(at(k, position)) : buffers.values[k];
      }
      f(inputs, outputs, n);
      for (int k = 0; k < Outputs; ++k) {
        if (!linear_[k]) unstage_output(k, position, n, buffers.values[k]);
      }
    }
  }

  const C* stage_input(int k, std::int64_t position, std::int64_t n, C* buffer) const {
    if (linear_[k]) return reinterpret_cast<const C*>(at(k, position));
    C* to = buffer;
    loop_.for_row_blocks(k, position, position + n, [&](std::int64_t offset, const RowBlock& rows) {
      load_[k](at(k, offset), rows, to);
      to += rows.inner * rows.outer;
    });
    return buffer;
  }

  void unstage_output(int k, std::int64_t position, std::int64_t n, const C* buffer) const {
    const C* from = buffer;
    loop_.for_row_blocks(k, position, position + n, [&](std::int64_t offset, const RowBlock& rows) {
      store_[k](from, rows, at(k, offset));
      from += rows.inner * rows.outer;
    });
  }

  StridedLoop loop_;
  std::array<std::byte*, kOperands> data_;
  std::array<std::int64_t, kOperands> element_bytes_;
  std::array<bool, kOperands> typed_;
  std::array<bool, kOperands> linear_;
  std::array<LoadRows<C>, kOperands> load_;
  std::array<StoreRows<C>, Outputs> store_;
};

}  // namespace tessera::kernels
