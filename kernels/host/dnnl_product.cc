#include "kernels/host/dnnl_product.h"

#include <omp.h>

#include <cstdlib>
#include <dnnl.hpp>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "placement/status.h"

namespace tessera::kernels {
namespace {

using DnnlType = dnnl::memory::data_type;

DnnlType library_type(DType dtype) {
  return dtype == DType::kBF16 ? DnnlType::bf16 : DnnlType::f32;
}

/// One primitive with its memory handles; the data pointers are set before each run.
class Product {
 public:
  Product(const ProductShape& shape, const dnnl::engine& engine) {
    using Desc = dnnl::memory::desc;
    using Dims = dnnl::memory::dims;
    const DnnlType in = library_type(shape.in);
    const Desc a({shape.m, shape.k}, in, Dims{shape.a_strides[0], shape.a_strides[1]});
    const Desc b({shape.k, shape.n}, in, Dims{shape.b_strides[0], shape.b_strides[1]});
    const Desc c({shape.m, shape.n}, library_type(shape.out), Dims{shape.c_line_stride, 1});
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (shape.alpha != 1.0F) attributes.set_output_scales(0, {shape.alpha});
    if (shape.accumulate == Accumulate::kYes) {
      dnnl::post_ops sum;
      sum.append_sum();
      attributes.set_post_ops(sum);
    }
    const dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(a, b, c), attributes, engine);
    primitive_ = dnnl::matmul(desc);
    scratch_bytes_ = desc.scratchpad_desc().get_size();
    arguments_ = {{DNNL_ARG_SRC, {a, engine, nullptr}},
                  {DNNL_ARG_WEIGHTS, {b, engine, nullptr}},
                  {DNNL_ARG_DST, {c, engine, nullptr}},
                  {DNNL_ARG_SCRATCHPAD, {desc.scratchpad_desc(), engine, nullptr}}};
  }

  std::size_t scratch_bytes() const { return scratch_bytes_; }
  void run(const dnnl::stream& stream, const void* a, const void* b, void* c, void* scratch) {
    // The library takes mutable pointers for all arguments and writes the target and the scratch
    // only.
    arguments_[DNNL_ARG_SRC].set_data_handle(const_cast<void*>(a));
    arguments_[DNNL_ARG_WEIGHTS].set_data_handle(const_cast<void*>(b));
    arguments_[DNNL_ARG_DST].set_data_handle(c);
    arguments_[DNNL_ARG_SCRATCHPAD].set_data_handle(scratch);
    primitive_.execute(stream, arguments_);
  }

 private:
  dnnl::matmul primitive_;
  std::size_t scratch_bytes_ = 0;
  std::unordered_map<int, dnnl::memory> arguments_;
};

/// The primitives of one thread, with the scratch memory that they share.
class ProductCache {
 public:
  void run(const ProductShape& shape, const void* a, const void* b, void* c) {
    Product& product = find(shape);
    if (scratch_bytes_ < product.scratch_bytes()) {
      scratch_bytes_ = product.scratch_bytes();
      scratch_.reset(static_cast<std::byte*>(::operator new(scratch_bytes_, kAlign)));
    }
    product.run(stream_, a, b, c, scratch_.get());
  }

 private:
  static constexpr std::align_val_t kAlign{64};
  /// Shapes of a training step number some hundreds; a program that goes beyond this starts afresh.
  static constexpr std::size_t kMaxProducts = 1024;

  struct Release {
    void operator()(std::byte* data) const { ::operator delete(data, kAlign); }
  };

  Product& find(const ProductShape& shape) {
    if (auto found = products_.find(shape); found != products_.end()) return *found->second;
    if (products_.size() >= kMaxProducts) products_.clear();
    auto product = std::make_unique<Product>(shape, engine_);
    return *products_.emplace(shape, std::move(product)).first->second;
  }

  dnnl::engine engine_ = [] {
    settle_library();
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  dnnl::stream stream_{engine_};
  absl::flat_hash_map<ProductShape, std::unique_ptr<Product>> products_;
  std::unique_ptr<std::byte[], Release> scratch_;
  std::size_t scratch_bytes_ = 0;
};

/// A line of one element may carry any stride; one value for all of them.
void settle_strides(std::int64_t rows, std::int64_t cols, std::int64_t* strides) {
  const bool plain = (strides[1] == 1 || cols == 1) && (strides[0] >= cols || rows == 1);
  if (plain) {
    strides[1] = 1;
    if (rows == 1) strides[0] = cols;
  } else {
    strides[0] = 1;
    if (cols == 1) strides[1] = rows;
  }
}

/// The same matrix in F32, line by line, in memory of the thread's.
const float* widened(const void* data, std::int64_t rows, std::int64_t cols, std::int64_t* strides,
                     std::vector<float>& memory) {
  const bool by_rows = strides[1] == 1;
  const std::int64_t lines = by_rows ? rows : cols, length = by_rows ? cols : rows;
  const std::int64_t line_stride = strides[by_rows ? 0 : 1];
  memory.resize(static_cast<std::size_t>(lines * length));
  for (std::int64_t line = 0; line < lines; ++line) {
    const BFloat16* from = static_cast<const BFloat16*>(data) + line * line_stride;
    float* to = memory.data() + line * length;
    for (std::int64_t i = 0; i < length; ++i) to[i] = static_cast<float>(from[i]);
  }
  strides[by_rows ? 0 : 1] = length;
  return memory.data();
}

/// In F32, which holds each product of two BF16 exactly.
void widened_product(ProductShape shape, const void* a, const void* b, void* c) {
  thread_local std::vector<float> wide_a, wide_b, wide_c;
  const float* of_a = widened(a, shape.m, shape.k, shape.a_strides, wide_a);
  const float* of_b = widened(b, shape.k, shape.n, shape.b_strides, wide_b);
  const std::int64_t c_stride = shape.c_line_stride;
  const bool rounds = shape.out == DType::kBF16;
  shape.in = shape.out = DType::kF32;
  if (!rounds) return dnnl_product(shape, of_a, of_b, c);
  wide_c.resize(static_cast<std::size_t>(shape.m * shape.n));
  shape.c_line_stride = shape.n;
  dnnl_product(shape, of_a, of_b, wide_c.data());
  for (std::int64_t i = 0; i < shape.m; ++i) {
    BFloat16* to = static_cast<BFloat16*>(c) + i * c_stride;
    const float* from = wide_c.data() + i * shape.n;
    for (std::int64_t j = 0; j < shape.n; ++j) to[j] = BFloat16(from[j]);
  }
}

/// The library's products of BF16 need AVX-512.
bool multiplies_bf16() {
  static const bool does = [] {
    settle_library();
    constexpr auto kWanted = static_cast<unsigned>(dnnl_cpu_isa_avx512_core);
    return (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & kWanted) == kWanted;
  }();
  return does;
}

}  // namespace

void settle_library() {
  static const bool held = [] {
    if (std::getenv("DNNL_MAX_CPU_ISA") != nullptr) return false;
    dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_bf16);
    return true;
  }();
  static_cast<void>(held);
}

void dnnl_product(ProductShape shape, const void* a, const void* b, void* c) {
  thread_local ProductCache cache;
  settle_strides(shape.m, shape.k, shape.a_strides);
  settle_strides(shape.k, shape.n, shape.b_strides);
  if (shape.m == 1) shape.c_line_stride = shape.n;
  if (shape.in == DType::kBF16 && !multiplies_bf16()) return widened_product(shape, a, b, c);
  // The library takes its thread count from this thread's OpenMP setting, when it makes and when it
  // runs.
  if (omp_in_parallel()) shape.threads = 1;
  if (omp_get_max_threads() != shape.threads) omp_set_num_threads(shape.threads);
  try {
    cache.run(shape, a, b, c);
  } catch (const dnnl::error& error) {
    throw Error(
        internal_error(absl::StrFormat("matmul: the library refuses %dx%dx%d %s: %s", shape.m,
                                       shape.n, shape.k, name_of(shape.in), error.what())));
  }
}

}  // namespace tessera::kernels
