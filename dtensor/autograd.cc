#include "dtensor/autograd.h"

#include <algorithm>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "dtensor/dispatch.h"
#include "dtensor/dispatch_cache.h"
#include "dtensor/observer.h"
#include "dtensor/op_node.h"
#include "dtensor/ops.h"
#include "dtensor/redistribute.h"
#include "kernels/elementwise.h"
#include "kernels/memory_use.h"
#include "placement/reduce_op.h"

namespace tessera {

GradEdge edge_of(const DTensor& x) {
  if (!x.defined()) return {};
  const TensorImpl& impl = *x.impl();
  if (impl.node) return {impl.node, nullptr, impl.output_index};
  if (impl.leaf_needs_grad) return {nullptr, x.impl(), 0};
  return {};
}

SavedTensor save(const DTensor& x) {
  const TensorImpl& impl = *x.impl();
  const auto& returning = impl.runtime->cache().returning;
  if (!returning.empty() && !impl.local.is_null()) {
    const auto at = returning.find(impl.local.storage().get());
    if (at != returning.end()) {
      if (auto array = at->second->returning(impl.local)) {
        return {impl.spec, {}, 0, std::move(array)};
      }
    }
  }
  return {impl.spec, impl.local, impl.local.is_null() ? 0 : impl.local.storage()->version()};
}

GradNode::GradNode(Runtime& rt, const Site& where)
    : runtime(rt), sequence(rt.cache().next_sequence++), module(rt.cache().module), site(where) {}

GradNode::~GradNode() {
  // A chain of a million nodes must not destroy itself by recursion: take over what only we keep
  // alive.
  std::vector<std::shared_ptr<GradNode>> pending;
  const auto take = [&pending](GradNode& node) {
    for (GradEdge& edge : node.edges) {
      if (edge.node && edge.node.use_count() == 1) pending.push_back(std::move(edge.node));
    }
  };
  take(*this);
  while (!pending.empty()) {
    const std::shared_ptr<GradNode> node = std::move(pending.back());
    pending.pop_back();
    take(*node);
  }
}

DTensor GradNode::restore(const SavedTensor& saved, std::string_view what) const {
  if (saved.returning != nullptr) return make_tensor(runtime, saved.spec, saved.returning->bring());
  if (!saved.local.is_null() && saved.local.storage()->version() != saved.version) {
    throw Error(failed_precondition(
        absl::StrFormat("backward: %s needs its %s as it was in the forward pass, but it was "
                        "written in place since (version %d, "
                        "saved at %d); clone() it before the write. [%s, forward at %s:%d]",
                        name(), what, saved.local.storage()->version(), saved.version,
                        saved.spec->to_string(), site.file_name(), site.line())));
  }
  return make_tensor(runtime, saved.spec, saved.local);
}

namespace {
/// What `impl` knows of its history is older than its elements: another alias of them was written.
bool is_outdated(const TensorImpl& impl) {
  return !impl.local.is_null() && impl.local.storage()->version() != impl.history_version;
}
}  // namespace

bool records(const Runtime& runtime, const DTensor& x) {
  if (!runtime.grad_enabled || !x.defined()) return false;
  const TensorImpl& impl = *x.impl();
  // A view of a tensor that took a history only when it was written has none of its own.
  const bool lacks_history = !impl.needs_grad() && impl.is_view && impl.base->node != nullptr;
  if (!impl.needs_grad() && !lacks_history) return false;
  if ((impl.node || lacks_history) && is_outdated(impl)) {
    throw Error(
        failed_precondition(absl::StrFormat("%s was written through another alias since it was "
                                            "made, so its gradient would be that of the old value; "
                                            "clone() it before the write. [%s]",
                                            label_of(x, "a tensor"), impl.spec->to_string())));
  }
  return !lacks_history;
}

void attach(const DTensor& result, std::shared_ptr<GradNode> node, int index) {
  TensorImpl& impl = *result.impl();
  impl.node = std::move(node);
  impl.output_index = index;
  impl.leaf_needs_grad = false;
  if (!impl.local.is_null()) impl.history_version = impl.local.storage()->version();
}

void check_in_place(const Runtime& runtime, std::string_view op, const DTensor& x) {
  if (!runtime.grad_enabled) return;
  const TensorImpl& impl = *x.impl();
  std::optional<WriteHazard> hazard;
  if (impl.leaf_needs_grad) {
    hazard = WriteHazard::kLeaf;
  } else if (impl.base && impl.base->leaf_needs_grad) {
    hazard = WriteHazard::kViewOfLeaf;
  } else if (impl.base && impl.base->node) {
    hazard = WriteHazard::kViewOfHistory;
  }
  if (hazard) throw Error(write_refused(op, label_of(x, "the operand"), *hazard, *impl.spec));
}

void check_values_into_view(const Runtime& runtime, std::string_view op, const DTensor& written,
                            std::span<const DTensor* const> operands) {
  if (!runtime.grad_enabled || !written.impl()->base) return;
  for (const DTensor* each : operands) {
    if (!each->defined() || !each->impl()->needs_grad()) continue;
    throw Error(write_refused(op, label_of(written, "the operand"), WriteHazard::kValuesOfView,
                              written.spec()));
  }
}

namespace {
/// The axes of some levels, as bits.
std::uint64_t axes_of(const Levels& levels) {
  std::uint64_t axes = 0;
  for (const Level& level : levels) {
    if (level.kind == Level::Kind::kAxis) axes |= std::uint64_t{1} << level.axis;
  }
  return axes;
}
}  // namespace

void check_grad_count(std::string_view where, const Spec& spec, const GradPlacements& grad) {
  if (static_cast<int>(grad.size()) == spec.mesh().ndim()) return;
  throw Error(
      invalid_argument(absl::StrFormat("%s: %d gradient placements for a mesh of %d axes. [%s]",
                                       where, grad.size(), spec.mesh().ndim(), spec.to_string())));
}

std::int64_t averaged_parts(const Spec& spec) {
  std::int64_t parts = 1;
  for (int axis = 0; axis < spec.mesh().ndim(); ++axis) {
    const std::optional<ReduceOp>& partial = spec.layout().partial[axis];
    if (partial && divides(*partial)) parts *= spec.mesh().size(axis);
  }
  return parts;
}

Layout dual_layout(const Spec& source, const Spec& cotangent) {
  const Layout& src = source.layout();
  Layout dual = cotangent.layout();
  const int axes = source.mesh().ndim();
  for (int axis = 0; axis < axes; ++axis) {
    const bool free = src.dim_of_axis(axis) < 0 && !src.partial[axis];
    if (!free) dual.partial[axis].reset();
  }
  for (std::size_t dim = 0; dim < src.dims.size(); ++dim) {
    Levels levels = src.dims[dim];
    // Axes that cut neither the source nor hold summands of it may go on cutting the cotangent,
    // below its own cuts.
    for (const Level& level : cotangent.layout().dims[dim]) {
      const bool free = level.kind == Level::Kind::kAxis && src.dim_of_axis(level.axis) < 0 &&
                        !src.partial[level.axis];
      const bool leads = levels.empty() && &level == &cotangent.layout().dims[dim].front();
      if (free) levels.push_back(leads && level.sizes ? level : Level::of_axis(level.axis));
    }
    const Levels kept = canonical_levels(source.mesh(), source.global_shape()[dim], levels);
    const Levels& given = cotangent.layout().dims[dim];
    // Of a dim without elements all cuts are alike, but an axis cuts one dim only.
    const bool alike = axes_of(kept) == axes_of(given) &&
                       same_index_sets(source.mesh(), source.global_shape()[dim], kept, given);
    dual.dims[dim] = alike ? given : kept;
  }
  return dual;
}

bool leads_to_deferred_leaf(const GradEdge& edge) {
  const GradEdge* at = &edge;
  while (at->node && at->node->name() == "to" && at->node->edges.size() == 1) {
    at = &at->node->edges[0];
  }
  return at->leaf && at->leaf->reduction == GradReduction::kDeferred;
}

namespace {

DTensor sum_of(const DTensor& a, DTensor b, const Site& site) {
  if (!a.defined()) return b;
  const DTensor* operands[] = {&a, &b};
  Runtime& runtime = a.runtime();
  return dispatch(runtime, find_op(runtime, known_op("add")), operands, {}, site)[0];
}

/// A gradient that nobody else writes to or reads through.
DTensor owned(const DTensor& grad) {
  const TensorImpl& impl = *grad.impl();
  if (impl.local.is_null()) return make_tensor(*impl.runtime, impl.spec, impl.local);
  const bool alone = grad.impl().use_count() == 1 && impl.local.storage().use_count() == 1;
  if (alone && impl.local.is_contiguous()) return grad;
  Array copy =
      Array::empty(impl.local.shape(), impl.local.dtype(), impl.runtime->kernels().allocator);
  kernels::copy(impl.runtime->kernels(), impl.local, copy);
  DTensor result = make_tensor(*impl.runtime, impl.spec, std::move(copy));
  tell_region(*impl.runtime, "copy", RegionKind::kLocal, {grad}, result, Site::current());
  return result;
}

/// Where a leaf's gradient lies. A summand of P(sum) and P(avg) gets a whole gradient; of
/// P(max|min) its share.
Layout home_of(const Spec& leaf) {
  Layout layout = leaf.layout();
  for (std::optional<ReduceOp>& partial : layout.partial) {
    partial = partial && is_extreme(*partial) ? std::optional(ReduceOp::kSum) : std::nullopt;
  }
  return layout;
}

/// The cotangent as the leaf's gradient. Collective: yes, where it is placed otherwise.
DTensor bring_home(const TensorImpl& leaf, const DTensor& cotangent, std::string_view why,
                   const Site& site) {
  Runtime& runtime = *leaf.runtime;
  const Spec* home = intern_layout(runtime, *leaf.spec, home_of(*leaf.spec));
  DTensor grad = move(cotangent, home, {Origin::kExplicit, leaf.name, why}, site);
  const std::int64_t parts = averaged_parts(*leaf.spec);
  return parts == 1 ? grad : mul(grad, 1.0 / static_cast<double>(parts), site);
}

void tag_as_gradient(const DTensor& grad) {
  tag_memory(*grad.runtime().kernels().allocator, grad.local(), MemoryTag::kGradients);
}

void accumulate(TensorImpl& leaf, DTensor cotangent, const Site& site) {
  if (leaf.reduction == GradReduction::kEachBackward) {
    cotangent = bring_home(leaf, cotangent, "gradient to its leaf", site);
  }
  leaf.grad = leaf.grad.defined() ? sum_of(leaf.grad, cotangent, site) : owned(cotangent);
  tag_as_gradient(leaf.grad);
}

class BackwardDepth {
 public:
  explicit BackwardDepth(Runtime& runtime) : depth_(runtime.cache().backward_depth) { ++depth_; }
  ~BackwardDepth() { --depth_; }
  BackwardDepth(const BackwardDepth&) = delete;
  BackwardDepth& operator=(const BackwardDepth&) = delete;

 private:
  int& depth_;
};

/// Restores the module path that a backward pass borrows.
class ModuleOfForward {
 public:
  explicit ModuleOfForward(EventLog& events) : events_(events), before_(events.module()) {}
  ~ModuleOfForward() { events_.set_module(before_); }
  ModuleOfForward(const ModuleOfForward&) = delete;
  ModuleOfForward& operator=(const ModuleOfForward&) = delete;
  void enter(const std::string* module) {
    if (module == entered_) return;
    entered_ = module;
    events_.set_module(module ? *module : std::string());
  }

 private:
  EventLog& events_;
  std::string before_;
  const std::string* entered_ = &before_;
};

[[noreturn]] void throw_reaches_outside(const GradNode& node) {
  throw Error(failed_precondition(absl::StrFormat(
      "recompute: the piece uses a result of %s (forward at %s:%d), which has a history but is not "
      "among the piece's inputs; pass it as an input",
      node.name(), node.site.file_name(), node.site.line())));
}

/// Cotangents of leaves: those of one leaf add up as they come, and are brought home once, with the
/// last.
class LeafSums {
 public:
  /// Counts the edges into each leaf that the roots reach.
  LeafSums(std::span<const BackwardRoot> roots, std::uint64_t oldest) {
    std::vector<const GradNode*> stack;
    absl::flat_hash_set<const GradNode*> seen;
    const auto visit = [&](const GradEdge& edge) {
      if (edge.leaf) ++sums_[edge.leaf.get()].expected;
      if (edge.node && seen.insert(edge.node.get()).second) stack.push_back(edge.node.get());
    };
    for (const BackwardRoot& root : roots) visit(root.edge);
    while (!stack.empty()) {
      const GradNode* node = stack.back();
      stack.pop_back();
      if (node->sequence < oldest) throw_reaches_outside(*node);
      for (const GradEdge& edge : node->edges) visit(edge);
    }
  }
  /// One edge's cotangent; undefined where nothing flowed back through it.
  void add(const std::shared_ptr<TensorImpl>& leaf, DTensor cotangent, const Site& site) {
    Sum& sum = sums_[leaf.get()];
    --sum.expected;
    if (cotangent.defined()) {
      if (!sum.cotangent.defined()) waiting_.push_back(leaf);
      sum.cotangent = sum_of(sum.cotangent, std::move(cotangent), site);
    }
    if (sum.expected == 0 && sum.cotangent.defined()) {
      accumulate(*leaf, std::exchange(sum.cotangent, {}), site);
    }
  }
  /// Leaves that some node's gradient never reached in full.
  void finish(const Site& site) {
    for (const std::shared_ptr<TensorImpl>& leaf : waiting_) {
      Sum& sum = sums_[leaf.get()];
      if (sum.cotangent.defined()) accumulate(*leaf, std::exchange(sum.cotangent, {}), site);
    }
  }

 private:
  struct Sum {
    DTensor cotangent;
    std::int64_t expected = 0;
  };
  absl::flat_hash_map<const TensorImpl*, Sum> sums_;
  std::vector<std::shared_ptr<TensorImpl>> waiting_;  ///< in order of arrival, equal on all ranks
};

/// Nodes yet to run, the latest made first: a node's consumers were all made after it.
class Pending {
 public:
  Pending(std::span<const BackwardRoot> roots, std::uint64_t oldest) : leaves_(roots, oldest) {}
  void add(const GradEdge& edge, DTensor cotangent, const Site& site) {
    if (edge.leaf) return leaves_.add(edge.leaf, std::move(cotangent), site);
    if (!cotangent.defined()) return;
    auto [slot, fresh] = cotangents_.try_emplace(edge.node.get());
    if (fresh) {
      slot->second.resize(static_cast<std::size_t>(edge.node->num_results));
      queue_.push({edge.node->sequence, edge.node});
    }
    DTensor& held = slot->second[static_cast<std::size_t>(edge.output_index)];
    held = sum_of(held, std::move(cotangent), site);
  }
  bool empty() const { return queue_.empty(); }
  std::pair<std::shared_ptr<GradNode>, Results> pop() {
    std::shared_ptr<GradNode> node = queue_.top().node;
    queue_.pop();
    auto slot = cotangents_.find(node.get());
    Results cotangents = std::move(slot->second);
    cotangents_.erase(slot);
    return {std::move(node), std::move(cotangents)};
  }
  void finish(const Site& site) { leaves_.finish(site); }

 private:
  struct Entry {
    std::uint64_t sequence;
    std::shared_ptr<GradNode> node;
    bool operator<(const Entry& other) const { return sequence < other.sequence; }
  };
  std::priority_queue<Entry> queue_;
  absl::flat_hash_map<const GradNode*, Results> cotangents_;
  LeafSums leaves_;
};

/// Runs a node and frees it; its operands' cotangents go on.
void run_node(GradNode& node, std::span<const DTensor> cotangents, Pending& pending) {
  if (node.freed) {
    throw Error(failed_precondition(
        absl::StrFormat("backward: the history of %s (forward at %s:%d) was freed by an earlier "
                        "backward(); run the forward pass again",
                        node.name(), node.site.file_name(), node.site.line())));
  }
  absl::InlinedVector<DTensor, 4> grads(node.edges.size());
  node.run(cotangents, {grads.data(), grads.size()});
  const auto edges = std::exchange(node.edges, {});
  node.release();
  node.freed = true;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    if (edges[i].wanted()) pending.add(edges[i], std::move(grads[i]), node.site);
  }
}

DTensor first_cotangent(const DTensor& root, const DTensor& given) {
  if (!root.requires_grad()) {
    throw Error(failed_precondition(
        absl::StrFormat("backward: %s does not depend on a tensor that needs a gradient. [%s]",
                        label_of(root, "the root"), root.spec().to_string())));
  }
  if (!given.defined()) {
    if (root.ndim() == 0) return ones_like(root.detach());
    throw Error(invalid_argument(absl::StrFormat(
        "backward: the root has shape %s; only a 0-d root may leave out the cotangent. [%s]",
        to_string(root.global_shape()), root.spec().to_string())));
  }
  if (given.global_shape() != root.global_shape() || !(given.mesh() == root.mesh())) {
    throw Error(
        invalid_argument(absl::StrFormat("backward: cotangent %s does not fit the root %s",
                                         given.spec().to_string(), root.spec().to_string())));
  }
  return given.detach();
}

}  // namespace

void backward_within(Runtime& runtime, std::vector<BackwardRoot> roots, std::uint64_t oldest) {
  if (roots.empty()) return;
  const NoGrad no_grad(runtime);
  const BackwardDepth depth(runtime);
  ModuleOfForward module(runtime.events());
  Pending pending(roots, oldest);
  const GradNode* last = roots.back().edge.node.get();
  const Site site = last ? last->site : Site::current();
  for (BackwardRoot& root : roots) pending.add(root.edge, std::move(root.cotangent), site);
  roots.clear();
  while (!pending.empty()) {
    auto [node, cotangents] = pending.pop();
    module.enter(node->module);
    run_node(*node, {cotangents.data(), cotangents.size()}, pending);
  }
  pending.finish(site);
}

void backward(const DTensor& root, const DTensor& cotangent) {
  DTensor first = first_cotangent(root, cotangent);
  std::vector<BackwardRoot> roots;
  roots.push_back({edge_of(root), std::move(first)});
  backward_within(root.runtime(), std::move(roots), 0);
}

void reduce_grad(const DTensor& leaf) {
  if (!leaf.grad().defined()) return;
  Runtime& runtime = leaf.runtime();
  const NoGrad no_grad(runtime);
  leaf.impl()->grad = owned(
      bring_home(*leaf.impl(), leaf.grad(), "deferred gradient to its leaf", Site::current()));
  tag_as_gradient(leaf.impl()->grad);
}

}  // namespace tessera
