// Positions of a dim by a list of the host's, and the sums that go back.
#include <vector>

#include "kernels/cuda/index_table.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/rows.h"
#include "kernels/elementwise_functions.h"
#include "kernels/take_map.h"
#include "kernels/take_map_checks.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

/// The list by the place that its entries name: the entries of place p are entries[begins[p]], …,
/// before those of p + 1, in the list's order.
struct ByPlace {
  std::vector<std::int64_t> begins, entries;
};
ByPlace by_place(std::span<const std::int64_t> places, std::int64_t size) {
  ByPlace all{std::vector<std::int64_t>(static_cast<std::size_t>(size) + 1, 0), {}};
  for (const std::int64_t place : places) {
    if (place >= 0) ++all.begins[static_cast<std::size_t>(place) + 1];
  }
  for (std::size_t p = 1; p < all.begins.size(); ++p) all.begins[p] += all.begins[p - 1];
  all.entries.resize(static_cast<std::size_t>(all.begins.back()));
  std::vector<std::int64_t> next = all.begins;
  for (std::size_t o = 0; o < places.size(); ++o) {
    if (places[o] < 0) continue;
    std::int64_t& to = next[static_cast<std::size_t>(places[o])];
    all.entries[static_cast<std::size_t>(to++)] = static_cast<std::int64_t>(o);
  }
  return all;
}

/// `value` as an element of `dtype` holds it.
template <class C>
__device__ C held_as(DType dtype, C value) {
  alignas(8) std::byte word[8];
  const MapOperand one{word, dtype, {}};
  store(one, 0, value);
  return load<C>(one, 0);
}

/// How Binary::kAdd adds to an element of `out`.
struct Addition {
  DType out;
  DType of_integers;  // half precision, which integers take beside such; else I64: as they are

  template <class C>
  __device__ C operand(DType dtype, C value) const {
    return is_half(of_integers) && !is_floating(dtype) ? held_as(of_integers, value) : value;
  }
  template <class C>
  __device__ C add(C sum, DType dtype, C value) const {
    return held_as(out, functions::Add::apply(operand(out, sum), operand(dtype, value)));
  }
};

/// Operands: out, where the entries of its places begin, the first elements of grad's lines.
template <class C>
__global__ void add_entries(MapLayout<3> layout, const std::int64_t* entries, std::int64_t step,
                            Addition addition) {
  const MapOperand& grad = layout.operands[2];
  for_each_element(layout, [&](std::int64_t, const std::int64_t* offsets) {
    const auto* begins =
        reinterpret_cast<const std::int64_t*>(layout.operands[1].data) + offsets[1];
    C sum = 0;
    for (std::int64_t i = begins[0]; i < begins[1]; ++i) {
      sum = addition.add(sum, grad.dtype, load<C>(grad, offsets[2] + entries[i] * step));
    }
    store(layout.operands[0], offsets[0], sum);
  });
}

}  // namespace

void take_map(KernelContext& ctx, const Array& x, int dim, std::span<const std::int64_t> places,
              double otherwise, const Array& out) {
  check_places("take_map", places, out.size(dim), x.size(dim));
  if (out.num_elements() == 0) return;
  const Array source = as_dtype(ctx, x, out.dtype());
  take_rows(ctx, "take_map", source, dim, trusted_positions(index_table(ctx, places)),
            word_of(otherwise, out.dtype()), out);
}

void add_map(KernelContext& ctx, const Array& grad, int dim, std::span<const std::int64_t> places,
             const Array& out) {
  check_places("add_map", places, grad.size(dim), out.size(dim));
  if (out.num_elements() == 0) return;
  const ByPlace lists = by_place(places, out.size(dim));
  const Array begins = index_table(ctx, lists.begins), entries = index_table(ctx, lists.entries);
  Shape along_dim(out.shape().size(), 0);
  along_dim[static_cast<std::size_t>(dim)] = 1;
  const Array begin = begins.as_strided(out.shape(), along_dim, 0);
  const Array starts = line_starts(ctx, grad, dim, grad.shape());
  const DType promoted = promote(out.dtype(), grad.dtype());
  const bool is_mixed = is_floating(out.dtype()) != is_floating(grad.dtype());
  const Addition addition{out.dtype(), is_mixed && is_half(promoted) ? promoted : DType::kI64};
  visit_compute_type(promoted, [&]<class C>(TypeTag<C>) {
    run_layouts<3>(ctx, "add_map", {&out, &begin, &starts}, [&](const MapLayout<3>& layout) {
      return launch<add_entries<C>>(grid_for(layout.total), stream_of(ctx), layout,
                                    device_data<std::int64_t>(entries),
                                    grad.strides()[static_cast<std::size_t>(dim)], addition);
    });
  });
}

}  // namespace tessera::kernels::TSR_CUDA
