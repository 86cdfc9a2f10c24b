#include "moe/layer/feed_forward.h"

namespace tessera {

FeedForward::FeedForward(const LayerContext& context, const std::string& name,
                         std::int64_t hidden_dim, std::int64_t layer) {
  const std::int64_t dim = context.config.dim;
  const Init back = truncated_init(depth_std(layer));
  w1_ = &context.declare(name + ".w1.weight", {hidden_dim, dim}, Shard{0},
                         truncated_init(kLinearStd));
  w2_ = &context.declare(name + ".w2.weight", {dim, hidden_dim}, Shard{1}, back);
  w3_ = &context.declare(name + ".w3.weight", {hidden_dim, dim}, Shard{0}, back);
}

DTensor FeedForward::operator()(const LayerContext& context, const DTensor& x_BLD) const {
  const DTensor hidden = swiglu(project(context, x_BLD, *w1_), project(context, x_BLD, *w3_));
  return project(context, hidden, *w2_);
}

}  // namespace tessera
