#include "moe/feed_forward.h"

namespace tessera {

FeedForward::FeedForward(const ModelContext& context, const std::string& name,
                         std::int64_t hidden_dim, std::int64_t layer) {
  const std::int64_t dim = context.config.dim;
  const Init back = truncated_init(depth_std(layer));
  w1_ = &context.declare(name + ".w1.weight", {hidden_dim, dim}, Shard{0}, truncated_init(0.02));
  w2_ = &context.declare(name + ".w2.weight", {dim, hidden_dim}, Shard{1}, back);
  w3_ = &context.declare(name + ".w3.weight", {hidden_dim, dim}, Shard{0}, back);
}

DTensor FeedForward::operator()(const ModelContext& context, const DTensor& x_BLD) const {
  const DTensor hidden = swiglu(project(context, x_BLD, *w1_), project(context, x_BLD, *w3_));
  return project(context, hidden, *w2_);
}

}  // namespace tessera
