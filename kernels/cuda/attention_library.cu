#include "kernels/cuda/attention_library.h"
#include "kernels/cuda/libraries.h"

#ifdef TSR_HAS_CUDNN_FRONTEND

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <map>
#include <string>
#include <unordered_map>

#include "kernels/cuda/lines.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // what its calls are looked up in
}

namespace tessera::kernels::TSR_CUDA {
namespace {

namespace graphs = cudnn_frontend::graph;
using TensorPtr = std::shared_ptr<graphs::Tensor_attributes>;
using GraphPtr = std::shared_ptr<graphs::Graph>;

/// By what a graph's tensors are called when it runs; the first in the order of a plan's strides.
enum Operand : std::int64_t { kQ = 1, kK, kV, kOut, kGrad, kGradQ, kGradK, kGradV, kLse };
using Memory = std::unordered_map<std::int64_t, void*>;

/// 0 where this machine has no such library. Opened once a process.
std::size_t cudnn_version() {
  static const std::size_t version = [] {
    cudnn_frontend::cudnn_dlhandle = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    return cudnn_frontend::cudnn_dlhandle == nullptr
               ? 0
               : cudnn_frontend::detail::get_backend_version();
  }();
  return version;
}

/// What graphs of both directions are made of.
class GraphMaker {
 public:
  explicit GraphMaker(const AttentionPlan& plan)
      : plan_(plan), graph_(std::make_shared<graphs::Graph>()) {
    const auto half = plan.dtype == DType::kBF16 ? cudnn_frontend::DataType_t::BFLOAT16
                                                 : cudnn_frontend::DataType_t::HALF;
    graph_->set_io_data_type(half)
        .set_intermediate_data_type(cudnn_frontend::DataType_t::FLOAT)
        .set_compute_data_type(cudnn_frontend::DataType_t::FLOAT);
  }

  GraphPtr forward() {
    auto options = graphs::SDPA_attributes().set_name("attention").set_generate_stats(true);
    bound(options);
    const auto [out, lse] = graph_->sdpa(input(kQ), input(kK), input(kV), options);
    give_out(out, kOut);
    lse->set_output(true).set_data_type(cudnn_frontend::DataType_t::FLOAT);
    place_lse(*lse);
    return graph_;
  }
  GraphPtr backward() {
    auto options = graphs::SDPA_backward_attributes()
                       .set_name("attention_grad")
                       .set_deterministic_algorithm(true);
    bound(options);
    graphs::Tensor_attributes lse;
    lse.set_data_type(cudnn_frontend::DataType_t::FLOAT);
    place_lse(lse);
    const auto [grad_q, grad_k, grad_v] = graph_->sdpa_backward(
        input(kQ), input(kK), input(kV), input(kOut), input(kGrad), graph_->tensor(lse), options);
    give_out(grad_q, kGradQ);
    give_out(grad_k, kGradK);
    give_out(grad_v, kGradV);
    return graph_;
  }

 private:
  template <class Options>
  void bound(Options& options) const {
    options.set_attn_scale(plan_.scale);
    if (plan_.bound == AttentionBound::kTopLeft) options.set_causal_mask(true);
    if (plan_.bound == AttentionBound::kBottomRight) options.set_causal_mask_bottom_right(true);
  }
  void place(graphs::Tensor_attributes& tensor, Operand operand) const {
    const bool is_of_keys =
        operand == kK || operand == kV || operand == kGradK || operand == kGradV;
    const bool is_wide = operand == kV || operand == kOut || operand == kGrad || operand == kGradV;
    const auto& strides = plan_.strides[static_cast<std::size_t>(operand - kQ)];
    tensor.set_uid(operand)
        .set_dim({plan_.batch, plan_.heads, is_of_keys ? plan_.keys : plan_.queries,
                  is_wide ? plan_.width : plan_.depth})
        .set_stride({strides.begin(), strides.end()});
  }
  void place_lse(graphs::Tensor_attributes& lse) const {
    lse.set_uid(kLse)
        .set_dim({plan_.batch, plan_.heads, plan_.queries, 1})
        .set_stride({plan_.heads * plan_.queries, plan_.queries, 1, 1});
  }
  TensorPtr input(Operand operand) {
    graphs::Tensor_attributes tensor;
    place(tensor, operand);
    return graph_->tensor(tensor);
  }
  void give_out(const TensorPtr& tensor, Operand operand) const {
    tensor->set_output(true);
    place(*tensor, operand);
  }

  const AttentionPlan& plan_;
  GraphPtr graph_;
};

/// A device's handle, and a graph for each plan that came; null for one that the library refused.
class Attention {
 public:
  explicit Attention(cudaStream_t stream) {
    if (cudnn_version() == 0) return;
    const bool is_ready =
        cudnn_frontend::detail::create_handle(&handle_) == CUDNN_STATUS_SUCCESS &&
        cudnn_frontend::detail::set_stream(handle_, stream) == CUDNN_STATUS_SUCCESS;
    if (!is_ready) refused_ = "no handle for this device";
    is_ready_ = is_ready;
  }
  ~Attention() {
    if (handle_ != nullptr) static_cast<void>(cudnn_frontend::detail::destroy_handle(handle_));
  }
  Attention(const Attention&) = delete;
  Attention& operator=(const Attention&) = delete;

  bool is_ready() const noexcept { return is_ready_; }
  /// What the library said when it last refused something; empty where it never did.
  const std::string& refused() const noexcept { return refused_; }

  GraphPtr graph_of(const AttentionPlan& plan, bool is_capturing) {
    const auto found = graphs_.find(plan);
    if (found != graphs_.end()) return found->second;
    if (is_capturing || graphs_.size() >= kMostGraphs) return nullptr;
    return graphs_[plan] = made(plan);
  }

  void run(KernelContext& ctx, const char* op, graphs::Graph& graph, Memory& memory) const {
    const auto check_graph = [&](cudnn_frontend::error_t status) {
      if (status.is_good()) return;
      throw Error(internal_error(to_string(ctx.device->id()) + ": " + op +
                                 ": cuDNN: " + status.get_message()));
    };
    std::int64_t bytes = 0;
    check_graph(graph.get_workspace_size(bytes));
    const Array workspace = scratch_for<std::byte>(ctx, bytes);
    check_graph(graph.execute(handle_, memory, workspace.bytes()));
  }

 private:
  GraphPtr made(const AttentionPlan& plan) {
    try {
      GraphMaker maker(plan);
      const GraphPtr graph = plan.strides.size() >= kGrad ? maker.backward() : maker.forward();
      auto status = graph->build(handle_, {cudnn_frontend::HeurMode_t::A});
      if (status.is_good()) return graph;
      refused_ = status.get_message();
    } catch (const std::exception& failed) {  // what it opens itself, and lacks
      refused_ = failed.what();
    }
    return nullptr;
  }

  /// None is ever dropped: captured work may use it. Shapes that never come again are the kernels'.
  static constexpr std::size_t kMostGraphs = 1024;

  cudnnHandle_t handle_ = nullptr;
  bool is_ready_ = false;
  std::string refused_;
  std::map<AttentionPlan, GraphPtr> graphs_;
};

Attention& attention_of(CudaDevice& device) {
  std::shared_ptr<void>& kept = device.library(LibraryWork::kAttention).kept;
  if (kept == nullptr) {
    const Current current(device);
    kept = std::make_shared<Attention>(static_cast<CudaStream&>(device.compute()).handle());
  }
  return *static_cast<Attention*>(kept.get());
}

bool run_plan(KernelContext& ctx, const char* op, const std::optional<AttentionPlan>& plan,
              Memory memory) {
  if (!plan.has_value()) return false;
  CudaDevice& device = device_of(ctx);
  const bool is_new = device.library(LibraryWork::kAttention).kept == nullptr;
  if (is_new && device.is_capturing()) return false;
  Attention& attention = attention_of(device);
  if (!attention.is_ready()) return false;
  const Current current(device);
  const GraphPtr graph = attention.graph_of(*plan, device.is_capturing());
  if (graph == nullptr) return false;
  attention.run(ctx, op, *graph, memory);
  return true;
}

}  // namespace

bool run_library_attention(KernelContext& ctx, const Array& q, const Array& k, const Array& v,
                           const AttentionOptions& options, const Array& out, const Array& lse) {
  return run_plan(ctx, "attention", plan_attention(q, k, v, options, out, lse),
                  {{kQ, q.bytes()},
                   {kK, k.bytes()},
                   {kV, v.bytes()},
                   {kOut, out.bytes()},
                   {kLse, lse.bytes()}});
}

bool run_library_attention_grad(KernelContext& ctx, const Array& grad, const Array& q,
                                const Array& k, const Array& v, const Array& out, const Array& lse,
                                const AttentionOptions& options, const AttentionGradients& grads) {
  return run_plan(ctx, "attention_grad",
                  plan_attention_grad(grad, q, k, v, out, lse, options, grads),
                  {{kQ, q.bytes()},
                   {kK, k.bytes()},
                   {kV, v.bytes()},
                   {kOut, out.bytes()},
                   {kLse, lse.bytes()},
                   {kGrad, grad.bytes()},
                   {kGradQ, grads.q.bytes()},
                   {kGradK, grads.k.bytes()},
                   {kGradV, grads.v.bytes()}});
}

std::string attention_library(Device& device) {
  const std::size_t version = cudnn_version();
  if (version == 0) return "plain kernel: this machine has no libcudnn.so.9";
  const Attention& attention = attention_of(static_cast<CudaDevice&>(device));
  const std::string name = "cuDNN " + std::to_string(version / 10000) + "." +
                           std::to_string(version / 100 % 100) + "." +
                           std::to_string(version % 100);
  if (!attention.is_ready()) return "plain kernel: " + name + ": " + attention.refused();
  return attention.refused().empty() ? name : name + ", refused: " + attention.refused();
}

}  // namespace tessera::kernels::TSR_CUDA

#else

namespace tessera::kernels::TSR_CUDA {

bool run_library_attention(KernelContext&, const Array&, const Array&, const Array&,
                           const AttentionOptions&, const Array&, const Array&) {
  return false;
}
bool run_library_attention_grad(KernelContext&, const Array&, const Array&, const Array&,
                                const Array&, const Array&, const Array&, const AttentionOptions&,
                                const AttentionGradients&) {
  return false;
}
std::string attention_library(Device&) { return "plain kernel: built without cudnn-frontend"; }

}  // namespace tessera::kernels::TSR_CUDA

#endif
