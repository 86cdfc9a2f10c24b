#include "dtensor/attached_loss.h"

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtensor/autograd.h"

namespace tessera {
namespace {

/// The identity on its first operand; the others are 0-d losses.
struct AttachNode final : GradNode {
  AttachNode(Runtime& rt, const Site& where) : GradNode(rt, where) {}
  std::string_view name() const override { return "attach_losses"; }
  void run(std::span<const DTensor> cotangents, std::span<DTensor> grads) override {
    grads[0] = cotangents[0];
    for (std::size_t i = 0; i < losses.size(); ++i) grads[i + 1] = ones_like(losses[i]);
  }
  void release() override { losses.clear(); }

  std::vector<DTensor> losses;  ///< without history
};

}  // namespace

DTensor attach_losses(const DTensor& x, std::span<const DTensor> losses, const Site& site) {
  Runtime& runtime = x.runtime();
  bool recorded = records(runtime, x);
  for (const DTensor& loss : losses) {
    if (loss.ndim() != 0) {
      throw Error(invalid_argument(
          absl::StrFormat("attach_losses: a loss of shape %s; only 0-d ones can be attached. [%s]",
                          to_string(loss.global_shape()), loss.spec().to_string())));
    }
    recorded |= records(runtime, loss);
  }
  if (!recorded) return x;
  auto node = std::make_shared<AttachNode>(runtime, site);
  node->edges.push_back(edge_of(x));
  for (const DTensor& loss : losses) {
    node->edges.push_back(edge_of(loss));
    node->losses.push_back(loss.detach());
  }
  DTensor result = make_tensor(runtime, x.impl()->spec, x.local());
  set_base(result, x);
  attach(result, std::move(node));
  return result;
}

}  // namespace tessera
