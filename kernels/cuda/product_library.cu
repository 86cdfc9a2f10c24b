// Dense products by cuBLASLt; in the emulation, which has none, by the processor's kernel.
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/product.h"

#ifdef __CUDACC__

#include <cublasLt.h>

#include <limits>
#include <string>
#include <utility>

#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/product_checks.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

void check(cublasStatus_t status, const Device& device, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(internal_error(to_string(device.id()) + ": " + call + ": " +
                             cublasLtGetStatusString(status)));
}

class Library {
 public:
  explicit Library(const Device& device) {
    check(cublasLtCreate(&handle_), device, "cublasLtCreate");
  }
  ~Library() { static_cast<void>(cublasLtDestroy(handle_)); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  cublasLtHandle_t handle() const noexcept { return handle_; }

 private:
  cublasLtHandle_t handle_ = nullptr;
};

cublasLtHandle_t handle_of(CudaDevice& device) {
  std::shared_ptr<void>& library = device.product_library();
  if (library == nullptr) library = std::make_shared<Library>(device);
  return static_cast<Library*>(library.get())->handle();
}

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return CUDA_R_64F;
    case DType::kBF16:
      return CUDA_R_16BF;
    case DType::kF16:
      return CUDA_R_16F;
    default:
      return CUDA_R_32F;
  }
}

/// What cuBLASLt is told of one product. Its matrices are columns: outᵀ = bᵀ·aᵀ.
class Description {
 public:
  Description(const BatchProduct& product, const Device& device) : device_(device) {
    const bool wide = product.a.dtype == DType::kF64;
    check(cublasLtMatmulDescInit(&operation_, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                 wide ? CUDA_R_64F : CUDA_R_32F),
          device, "cublasLtMatmulDescInit");
    const cublasOperation_t of_b = lay_out(left_, product.n, product.k, product.b.transposed()),
                            of_a = lay_out(right_, product.k, product.m, product.a.transposed());
    lay_out(out_, product.n, product.m, product.out.transposed());
    set_operation(CUBLASLT_MATMUL_DESC_TRANSA, of_b);
    set_operation(CUBLASLT_MATMUL_DESC_TRANSB, of_a);
    if (product.batch == 1) return;
    set_batch(left_, product.batch, product.b.batch_stride);
    set_batch(right_, product.batch, product.a.batch_stride);
    set_batch(out_, product.batch, product.out.batch_stride);
  }

  /// The library's first choice within `most_bytes` of memory. False where it has none.
  bool choose(cublasLtHandle_t handle, const BatchProduct& product, std::uint64_t most_bytes,
              cublasLtMatmulHeuristicResult_t& choice) {
    cublasLtMatmulPreferenceOpaque_t preference;
    check(cublasLtMatmulPreferenceInit(&preference), device_, "cublasLtMatmulPreferenceInit");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, auto value) {
      check(cublasLtMatmulPreferenceSetAttribute(&preference, what, &value, sizeof value), device_,
            "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_bytes);
    // Partial sums of halves add up in F32 too.
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(product.b));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(product.a));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(product.out));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(product.out));
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle, &operation_, &left_, &right_, &out_, &out_, &preference, 1, &choice, &found);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return false;
    check(status, device_, "cublasLtMatmulAlgoGetHeuristic");
    return found > 0 && choice.state == CUBLAS_STATUS_SUCCESS;
  }

  void run(cublasLtHandle_t handle, const BatchProduct& product,
           const cublasLtMatmulHeuristicResult_t& choice, void* memory, cudaStream_t stream) {
    const double one = 1.0, zero = 0.0;
    const float one_f32 = 1.0F, zero_f32 = 0.0F;
    const bool wide = product.a.dtype == DType::kF64;
    const void* alpha = wide ? static_cast<const void*>(&one) : &one_f32;
    const void* beta = wide ? static_cast<const void*>(&zero) : &zero_f32;
    check(cublasLtMatmul(handle, &operation_, alpha, product.b.data, &left_, product.a.data,
                         &right_, beta, product.out.data, &out_, product.out.data, &out_,
                         &choice.algo, memory, choice.workspaceSize, stream),
          device_, "cublasLtMatmul");
  }

 private:
  /// Requires as_column_major(). Returns what is to be done to what lies there.
  cublasOperation_t lay_out(cublasLtMatrixLayoutOpaque_t& layout, std::int64_t rows,
                            std::int64_t cols, const BatchMatrix& matrix) {
    const ColumnMajor columns = *as_column_major(rows, cols, matrix);
    const auto [down, across] = columns.transposed ? std::pair(cols, rows) : std::pair(rows, cols);
    check(cublasLtMatrixLayoutInit(&layout, type_of(matrix.dtype), static_cast<std::uint64_t>(down),
                                   static_cast<std::uint64_t>(across), columns.leading),
          device_, "cublasLtMatrixLayoutInit");
    return columns.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  }
  void set_operation(cublasLtMatmulDescAttributes_t which, cublasOperation_t operation) {
    check(cublasLtMatmulDescSetAttribute(&operation_, which, &operation, sizeof operation), device_,
          "cublasLtMatmulDescSetAttribute");
  }
  void set_batch(cublasLtMatrixLayoutOpaque_t& layout, std::int64_t batch, std::int64_t stride) {
    const auto count = static_cast<std::int32_t>(batch);
    check(cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                           sizeof count),
          device_, "cublasLtMatrixLayoutSetAttribute");
    check(cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                           &stride, sizeof stride),
          device_, "cublasLtMatrixLayoutSetAttribute");
  }
  /// Of each matrix of the batch's first element, up to what the library asks for at most.
  static std::uint32_t alignment_of(const BatchMatrix& matrix) {
    const auto bits = reinterpret_cast<std::uintptr_t>(matrix.data) |
                      static_cast<std::uintptr_t>(matrix.batch_stride * size_of(matrix.dtype)) |
                      256U;
    return static_cast<std::uint32_t>(bits & (~bits + 1));
  }

  const Device& device_;
  cublasLtMatmulDescOpaque_t operation_;
  cublasLtMatrixLayoutOpaque_t left_, right_, out_;
};

constexpr std::int64_t kMostWorkspaceBytes = std::int64_t{32} << 20;

void run_product(KernelContext& ctx, const BatchProduct& product) {
  CudaDevice& device = device_of(ctx);
  const cublasLtHandle_t handle = handle_of(device);
  Description description(product, device);
  cublasLtMatmulHeuristicResult_t choice;
  const bool is_offered = product.batch <= std::numeric_limits<std::int32_t>::max() &&
                          description.choose(handle, product, kMostWorkspaceBytes, choice);
  if (!is_offered) return tiled_product(ctx, product);
  Array workspace;
  if (choice.workspaceSize > 0) {
    workspace =
        Array::empty({static_cast<std::int64_t>(choice.workspaceSize)}, DType::kU8, ctx.allocator);
  }
  description.run(handle, product, choice, workspace.is_null() ? nullptr : workspace.bytes(),
                  stream_of(ctx));
}

/// Whether the library takes its matrices as they lie.
bool is_taken(const Array& x) {
  const std::size_t ndim = x.strides().size();
  for (std::size_t d = 0; d + 2 < ndim; ++d) {
    if (x.strides()[d] < 0 && x.shape()[d] > 1) return false;
  }
  return is_dense_matrix(rows_of(x), cols_of(x), x.strides()[ndim - 2], x.strides()[ndim - 1]);
}

bool has_column_form(const BatchProduct& product) {
  const auto form = as_column_major(product.n, product.m, product.out.transposed());
  return form.has_value() && !form->transposed;
}

}  // namespace

void library_product(KernelContext& ctx, const Array& a, const Array& b, const Array& out) {
  const Array ready_a = is_taken(a) ? a : contiguous(ctx, a);
  const Array ready_b = is_taken(b) ? b : contiguous(ctx, b);
  const Array ready_out =
      is_taken(out) ? out : Array::empty(out.shape(), out.dtype(), ctx.allocator);
  const Current current(*ctx.device);
  for (const BatchProduct& product : batch_products(ready_a, ready_b, ready_out)) {
    run_product(ctx, has_column_form(product) ? product : product.transposed());
  }
  if (!is_taken(out)) kernels::copy(ctx, ready_out, out);
}

}  // namespace tessera::kernels::TSR_CUDA

#else

#include <algorithm>

namespace tessera::kernels::TSR_CUDA {
namespace {

/// Memory of a device that the processor reaches as well.
class ReachedMemory final : public Allocator {
 public:
  explicit ReachedMemory(std::byte* data) : data_(data) {}
  void* allocate(std::size_t) override { return data_; }
  void release(void*, std::size_t) noexcept override {}

 private:
  std::byte* data_;
};

/// How an array lies. Does not keep its memory: what is released serves the stream in its order.
class ArrayView {
 public:
  explicit ArrayView(const Array& array)
      : first_(array.bytes()),
        dtype_(array.dtype()),
        shape_(array.shape()),
        strides_(array.strides()) {}

  /// The same elements as an array of the processor.
  Array array() const {
    std::int64_t before = 0, after = 0;
    for (std::size_t d = 0; d < shape_.size(); ++d) {
      const std::int64_t reach = (shape_[d] - 1) * strides_[d];
      (reach < 0 ? before : after) += reach;
    }
    const auto memory = std::make_shared<ReachedMemory>(first_ + before * size_of(dtype_));
    return Array::empty({after - before + 1}, dtype_, memory).as_strided(shape_, strides_, -before);
  }

 private:
  std::byte* first_;
  DType dtype_;
  Shape shape_, strides_;
};

}  // namespace

void library_product(KernelContext& ctx, const Array& a, const Array& b, const Array& out) {
  const auto multiply = [threads = ctx.threads, a = ArrayView(a), b = ArrayView(b),
                         out = ArrayView(out)] {
    KernelContext on_processor{.threads = threads};
    kernels::cpu::matmul(on_processor, a.array(), b.array(), out.array());
  };
  check(emulation::call_on(stream_of(ctx), multiply), *ctx.device, "matmul");
}

}  // namespace tessera::kernels::TSR_CUDA

#endif
