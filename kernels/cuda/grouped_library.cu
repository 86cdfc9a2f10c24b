#include "kernels/cuda/grouped_library.h"
#include "kernels/cuda/libraries.h"

#ifdef TSR_HAS_CUTLASS

#include <cutlass/cutlass.h>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cutlass/version.h>

#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <type_traits>

#include "kernels/cuda/grouped_lists.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

/// Products of pointer arrays with sums in F32. Each pair of a cluster's blocks shares the tile of
/// the right factor that both multiply by.
template <class Half, class LeftLayout, class RightLayout>
struct CutlassProduct {
  using Sizes = cute::Shape<int, int, int>;
  using TileShape = cute::Shape<cute::_128, cute::_256, cute::_64>;
  using ClusterShape = cute::Shape<cute::_2, cute::_1, cute::_1>;
  using OutLayout = cutlass::layout::RowMajor;
  static constexpr int kAlignment = 16 / sizeof(Half);

  using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, TileShape, ClusterShape,
      cutlass::epilogue::collective::EpilogueTileAuto, float, float, void, OutLayout*, kAlignment,
      Half, OutLayout*, kAlignment,
      cutlass::epilogue::PtrArrayTmaWarpSpecializedCooperative>::CollectiveOp;
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Half, LeftLayout*, kAlignment, Half,
      RightLayout*, kAlignment, float, TileShape, ClusterShape,
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(
          sizeof(typename Epilogue::SharedStorage))>,
      cutlass::gemm::KernelPtrArrayTmaWarpSpecializedCooperative>::CollectiveOp;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::GroupProblemShape<Sizes>,
                                                      Mainloop, Epilogue>;
  using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;
};

/// A list of ours as one of the library's values, which lie in memory as ours do.
template <class To, class From>
To* listed(From* list) {
  static_assert(sizeof(To) == sizeof(From) && std::is_trivially_copyable_v<From>);
  return static_cast<To*>(static_cast<void*>(list));
}

void check_cutlass(cutlass::Status status, KernelContext& ctx, const char* op) {
  if (status == cutlass::Status::kSuccess) return;
  throw Error(internal_error(to_string(ctx.device->id()) + ": " + op +
                             ": CUTLASS: " + cutlass::cutlassGetStatusString(status)));
}

/// What a card is asked once a call; the runtime keeps it.
int attribute_of(const Device& device, cudaDeviceAttr attribute) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, attribute, device.id().ordinal), device,
        "cudaDeviceGetAttribute");
  return value;
}
bool is_for(const Device& device) {
  return attribute_of(device, cudaDevAttrComputeCapabilityMajor) == 9 &&
         attribute_of(device, cudaDevAttrComputeCapabilityMinor) == 0;
}

template <class Product>
void run_cutlass(KernelContext& ctx, const char* op, std::int64_t num_groups,
                 const GroupPointers& lists) {
  using Gemm = typename Product::Gemm;
  using Kernel = typename Product::Kernel;
  using Half = typename Gemm::ElementA;
  typename Gemm::Arguments arguments;
  arguments.mode = cutlass::gemm::GemmUniversalMode::kGrouped;
  arguments.problem_shape = {static_cast<int>(num_groups),
                             listed<typename Product::Sizes>(lists.sizes), nullptr};
  arguments.mainloop = {listed<const Half*>(lists.left),
                        listed<typename Kernel::InternalStrideA>(lists.left_stride),
                        listed<const Half*>(lists.right),
                        listed<typename Kernel::InternalStrideB>(lists.right_stride)};
  arguments.epilogue = {{},
                        nullptr,
                        nullptr,
                        listed<Half*>(lists.result),
                        listed<typename Kernel::InternalStrideD>(lists.result_stride)};
  arguments.epilogue.thread.alpha = 1.0F;
  arguments.epilogue.thread.beta = 0.0F;
  arguments.hw_info.device_id = ctx.device->id().ordinal;
  arguments.hw_info.sm_count = attribute_of(*ctx.device, cudaDevAttrMultiProcessorCount);
  const Array workspace =
      scratch_for<std::byte>(ctx, static_cast<std::int64_t>(Gemm::get_workspace_size(arguments)));
  Gemm gemm;
  check_cutlass(gemm.can_implement(arguments), ctx, op);
  check_cutlass(gemm.initialize(arguments, workspace.bytes(), stream_of(ctx)), ctx, op);
  check_cutlass(gemm.run(stream_of(ctx)), ctx, op);
}

using InRows = cutlass::layout::RowMajor;
using InColumns = cutlass::layout::ColumnMajor;
using Bf16 = cutlass::bfloat16_t;

}  // namespace

bool library_grouped_product(KernelContext& ctx, const Groups& groups,
                             const GroupedProduct& product) {
  const std::optional<MatrixOrder> weights = plan_grouped_product(product);
  if (!weights.has_value() || !is_for(*ctx.device)) return false;
  const char* op = "grouped_matmul";
  const GroupLists lists = list_products(ctx, groups, product, *weights);
  if (*weights == MatrixOrder::kRows) {
    run_cutlass<CutlassProduct<Bf16, InRows, InRows>>(ctx, op, product.num_groups, lists.pointers);
  } else {
    run_cutlass<CutlassProduct<Bf16, InRows, InColumns>>(ctx, op, product.num_groups,
                                                         lists.pointers);
  }
  return true;
}

bool library_grouped_weight_grad(KernelContext& ctx, const Groups& groups,
                                 const GroupedProduct& product) {
  if (!takes_grouped_weight_grad(product) || !is_for(*ctx.device)) return false;
  const GroupLists lists = list_weight_grads(ctx, groups, product);
  run_cutlass<CutlassProduct<Bf16, InColumns, InRows>>(ctx, "grouped_matmul_weight_grad",
                                                       product.num_groups, lists.pointers);
  return true;
}

std::string grouped_library(const Device& device) {
  const std::string name = "CUTLASS " + std::to_string(CUTLASS_MAJOR) + "." +
                           std::to_string(CUTLASS_MINOR) + "." + std::to_string(CUTLASS_PATCH);
  if (is_for(device)) return name;
  return "plain kernel: " + name + " is used on cards of compute capability 9.0";
}

}  // namespace tessera::kernels::TSR_CUDA

#else

namespace tessera::kernels::TSR_CUDA {

bool library_grouped_product(KernelContext&, const Groups&, const GroupedProduct&) { return false; }
bool library_grouped_weight_grad(KernelContext&, const Groups&, const GroupedProduct&) {
  return false;
}
std::string grouped_library(const Device&) { return "plain kernel: built without CUTLASS"; }

}  // namespace tessera::kernels::TSR_CUDA

#endif
