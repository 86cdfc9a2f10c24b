// Dense products by cuBLASLt; in the emulation, which has none, by the processor's kernel.
#include "kernels/cuda/libraries.h"
#include "kernels/cuda/product.h"

#ifdef __CUDACC__

#include <cublasLt.h>

#include <limits>
#include <string>

#include "kernels/elementwise.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

void check_library(cublasStatus_t status, const Device& device, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(internal_error(to_string(device.id()) + ": " + call + ": " +
                             cublasLtGetStatusString(status)));
}

class Library {
 public:
  explicit Library(const Device& device) {
    check_library(cublasLtCreate(&handle_), device, "cublasLtCreate");
  }
  ~Library() { static_cast<void>(cublasLtDestroy(handle_)); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  cublasLtHandle_t handle() const noexcept { return handle_; }

 private:
  cublasLtHandle_t handle_ = nullptr;
};

cublasLtHandle_t handle_of(CudaDevice& device) {
  std::shared_ptr<void>& library = device.library(LibraryWork::kProduct).kept;
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

/// What cuBLASLt is told of one product.
class Description {
 public:
  Description(const ColumnProduct& product, const Device& device)
      : product_(product), device_(device), wide_(product.left.dtype == DType::kF64) {
    check_library(
        cublasLtMatmulDescInit(&operation_, wide_ ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                               wide_ ? CUDA_R_64F : CUDA_R_32F),
        device, "cublasLtMatmulDescInit");
    set_operation(CUBLASLT_MATMUL_DESC_TRANSA, product.left);
    set_operation(CUBLASLT_MATMUL_DESC_TRANSB, product.right);
    lay_out(left_, product.left);
    lay_out(right_, product.right);
    lay_out(out_, product.out);
  }

  /// The library's first choice. False where it has none.
  bool choose(cublasLtHandle_t handle) {
    if (product_.batch > std::numeric_limits<std::int32_t>::max()) return false;
    cublasLtMatmulPreferenceOpaque_t preference;
    check_library(cublasLtMatmulPreferenceInit(&preference), device_,
                  "cublasLtMatmulPreferenceInit");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, auto value) {
      check_library(cublasLtMatmulPreferenceSetAttribute(&preference, what, &value, sizeof value),
                    device_, "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspaceBytes);
    // Partial sums of halves add up in F32 too.
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(product_.left));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(product_.right));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(product_.out));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(product_.out));
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle, &operation_, &left_, &right_, &out_, &out_, &preference, 1, &choice_, &found);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return false;
    check_library(status, device_, "cublasLtMatmulAlgoGetHeuristic");
    return found > 0 && choice_.state == CUBLAS_STATUS_SUCCESS;
  }

  /// After choose(). `workspace`: of workspace_bytes().
  void run(cublasLtHandle_t handle, void* workspace, cudaStream_t stream) {
    const double one = 1.0, zero = 0.0;
    const float one_f32 = 1.0F, zero_f32 = 0.0F;
    const void* alpha = wide_ ? static_cast<const void*>(&one) : &one_f32;
    const void* beta = wide_ ? static_cast<const void*>(&zero) : &zero_f32;
    check_library(
        cublasLtMatmul(handle, &operation_, alpha, product_.left.data, &left_, product_.right.data,
                       &right_, beta, product_.out.data, &out_, product_.out.data, &out_,
                       &choice_.algo, workspace, choice_.workspaceSize, stream),
        device_, "cublasLtMatmul");
  }
  std::int64_t workspace_bytes() const { return static_cast<std::int64_t>(choice_.workspaceSize); }

 private:
  static constexpr std::uint64_t kMostWorkspaceBytes = std::uint64_t{32} << 20;

  void set_operation(cublasLtMatmulDescAttributes_t which, const ColumnMatrix& matrix) {
    const cublasOperation_t operation = matrix.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    check_library(cublasLtMatmulDescSetAttribute(&operation_, which, &operation, sizeof operation),
                  device_, "cublasLtMatmulDescSetAttribute");
  }
  void lay_out(cublasLtMatrixLayoutOpaque_t& layout, const ColumnMatrix& matrix) {
    check_library(cublasLtMatrixLayoutInit(&layout, type_of(matrix.dtype),
                                           static_cast<std::uint64_t>(matrix.rows),
                                           static_cast<std::uint64_t>(matrix.cols), matrix.leading),
                  device_, "cublasLtMatrixLayoutInit");
    if (product_.batch == 1) return;
    const auto count = static_cast<std::int32_t>(product_.batch);
    check_library(cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                   &count, sizeof count),
                  device_, "cublasLtMatrixLayoutSetAttribute");
    check_library(
        cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                         &matrix.batch_stride, sizeof matrix.batch_stride),
        device_, "cublasLtMatrixLayoutSetAttribute");
  }
  /// Of the first element of each matrix, up to what the library asks for at most.
  static std::uint32_t alignment_of(const ColumnMatrix& matrix) {
    const auto bits = reinterpret_cast<std::uintptr_t>(matrix.data) |
                      static_cast<std::uintptr_t>(matrix.batch_stride * size_of(matrix.dtype)) |
                      256U;
    return static_cast<std::uint32_t>(bits & (~bits + 1));
  }

  const ColumnProduct& product_;
  const Device& device_;
  bool wide_;
  cublasLtMatmulDescOpaque_t operation_;
  cublasLtMatrixLayoutOpaque_t left_, right_, out_;
  cublasLtMatmulHeuristicResult_t choice_;
};

void run_product(KernelContext& ctx, const BatchProduct& product) {
  const cublasLtHandle_t handle = handle_of(device_of(ctx));
  const ColumnProduct columns = column_product(product);
  Description description(columns, *ctx.device);
  if (!count_call(ctx, LibraryWork::kProduct, description.choose(handle))) {
    return tiled_product(ctx, product);
  }
  const Array workspace = Array::empty({description.workspace_bytes()}, DType::kU8, ctx.allocator);
  description.run(handle, workspace.bytes(), stream_of(ctx));
}

}  // namespace

void library_product(KernelContext& ctx, const Array& a, const Array& b, const Array& out) {
  const auto ready = [&](const Array& x) { return has_column_form(x) ? x : contiguous(ctx, x); };
  const bool is_direct = has_column_form(out);
  const Array target = is_direct ? out : Array::empty(out.shape(), out.dtype(), ctx.allocator);
  const Array left = ready(a), right = ready(b);
  const Current current(*ctx.device);
  for (const BatchProduct& product : batch_products(left, right, target)) {
    run_product(ctx, product);
  }
  if (!is_direct) kernels::copy(ctx, target, out);
}

std::string product_library(const Device&) {
  return "cuBLASLt " + std::to_string(cublasLtGetVersion());
}

}  // namespace tessera::kernels::TSR_CUDA

#else

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

std::string product_library(const Device&) { return "the processor's kernel"; }

}  // namespace tessera::kernels::TSR_CUDA

#endif
