#include "dtensor/redistribute.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtensor/autograd.h"
#include "dtensor/checked.h"
#include "dtensor/dispatch_cache.h"
#include "dtensor/dtensor.h"
#include "dtensor/host_read.h"
#include "dtensor/observer.h"
#include "dtensor/ops.h"
#include "dtensor/overlap.h"
#include "kernels/elementwise.h"
#include "placement/reduce_op.h"

namespace tessera {

namespace {

/// True where max (or min) is the only kind of Partial: each rank's share of the cotangent then
/// follows from its own elements. Of mixed kinds no rank's element is the result, and the cotangent
/// goes back whole.
bool is_one_extreme(const Spec& spec) {
  std::optional<ReduceOp> kind;
  for (const std::optional<ReduceOp>& partial : spec.layout().partial) {
    if (!partial) continue;
    if (kind && *kind != *partial) return false;
    kind = partial;
  }
  return kind && is_extreme(*kind);
}

/// `spec` with its extremes held otherwise (nullopt: whole).
Layout with_extremes_as(const Spec& spec, std::optional<ReduceOp> instead) {
  Layout layout = spec.layout();
  for (std::optional<ReduceOp>& partial : layout.partial) {
    if (partial && is_extreme(*partial)) partial = instead;
  }
  return layout;
}

/// Backward of a move. The cotangent of a Partial source is that of the logical tensor: where
/// summands differ (avg, max, min) each rank gets its own share, and the shares are a P(sum).
struct MoveNode final : GradNode {
  using GradNode::GradNode;
  std::string_view name() const override { return "redistribute"; }
  void run(std::span<const DTensor> cotangents, std::span<DTensor> grads) override;
  void release() override {
    source.reset();
    result.reset();
  }

  DTensor to_source(const DTensor& cotangent, const Spec& dual_of) const;
  Layout as_stated(Layout layout) const;
  DTensor shares_of_average(const DTensor& cotangent) const;
  DTensor shares_of_extreme(const DTensor& cotangent) const;

  const Spec* from = nullptr;
  GradPlacements stated;              ///< per axis; empty where nothing is
  std::optional<SavedTensor> source;  ///< for P(max) and P(min)
  std::optional<SavedTensor> result;
};

Layout MoveNode::as_stated(Layout layout) const {
  for (int axis = 0; axis < static_cast<int>(stated.size()); ++axis) {
    const std::optional<Placement>& one = stated[static_cast<std::size_t>(axis)];
    if (!one || from->mesh().size(axis) == 1) continue;
    RowEntry entry;
    if (const auto* shard = std::get_if<Shard>(&*one)) {
      entry = {RowEntry::Kind::kShard, shard->dim < 0 ? shard->dim + from->ndim() : shard->dim};
    } else if (std::holds_alternative<Partial>(*one)) {
      entry.kind = RowEntry::Kind::kPartial;
    }
    layout = with_entry(std::move(layout), axis, entry);
  }
  return layout;
}

DTensor MoveNode::to_source(const DTensor& cotangent, const Spec& dual_of) const {
  const Spec* to = nullptr;
  if (cotangent.mesh() == dual_of.mesh()) {
    to =
        intern_layout(runtime, cotangent.spec(), as_stated(dual_layout(dual_of, cotangent.spec())));
  } else {
    Layout whole = dual_of.layout();
    for (std::optional<ReduceOp>& partial : whole.partial) partial.reset();
    to = intern_layout(runtime, dual_of.with_dtype(cotangent.dtype()), std::move(whole));
  }
  return move(cotangent, to, {Origin::kExplicit, "gradient", "backward of redistribute"}, site);
}

DTensor MoveNode::shares_of_average(const DTensor& cotangent) const {
  Layout layout = cotangent.spec().layout();
  for (int axis = 0; axis < from->mesh().ndim(); ++axis) {
    const std::optional<ReduceOp>& partial = from->layout().partial[axis];
    if (partial && divides(*partial)) layout.partial[axis] = ReduceOp::kSum;
  }
  const DTensor share = mul(cotangent, 1.0 / static_cast<double>(averaged_parts(*from)), site);
  return make_tensor(runtime, intern_layout(runtime, cotangent.spec(), std::move(layout)),
                     share.local());
}

DTensor MoveNode::shares_of_extreme(const DTensor& cotangent) const {
  const DTensor mine = restore(*source, "source");
  // Everything is compared at the source's cut, whole on the reduced axes.
  const Spec* whole = intern_layout(runtime, *from, with_extremes_as(*from, std::nullopt));
  const MoveInfo info{Origin::kExplicit, "gradient", "backward of redistribute from P(max|min)"};
  const DTensor best = move(restore(*result, "result"), whole, info, site);
  const DTensor grad =
      move(cotangent, runtime.intern(whole->with_dtype(cotangent.dtype())), info, site);
  const Spec* shares = intern_layout(runtime, grad.spec(), with_extremes_as(*from, ReduceOp::kSum));
  if (mine.local().is_null()) return make_tensor(runtime, shares, Array());
  const DTensor own = make_tensor(runtime, whole, mine.local());
  // The NaN that won, too.
  const DTensor hit = logical_or(eq(own, best, site), isnan(own, site), site);
  const DTensor count = cast(hit, grad.dtype(), site);
  const DTensor ties =
      move(make_tensor(runtime, shares, count.local()), grad.impl()->spec, info, site);
  // Chosen, not multiplied by 0 or 1: a cotangent that is not finite stays with the extreme.
  const DTensor share = where(hit, div(grad, ties, site), zeros_like(grad), site);
  return make_tensor(runtime, shares, share.local());
}

void MoveNode::run(std::span<const DTensor> cotangents, std::span<DTensor> grads) {
  if (leads_to_deferred_leaf(edges[0]) && stated.empty()) {
    grads[0] = cotangents[0];
    return;
  }
  if (source) {
    grads[0] = shares_of_extreme(cotangents[0]);
    return;
  }
  grads[0] = to_source(cotangents[0], *from);
  const auto& partial = from->layout().partial;
  const bool averages = std::any_of(partial.begin(), partial.end(),
                                    [](const auto& kind) { return kind && divides(*kind); });
  if (averages) grads[0] = shares_of_average(grads[0]);
}

void record_move(const DTensor& x, const DTensor& result, const MoveInfo& info, const Site& site) {
  const Spec& from = x.spec();
  auto node = std::make_shared<MoveNode>(x.runtime(), site);
  node->from = x.impl()->spec;
  node->stated.assign(info.grad.begin(), info.grad.end());
  node->edges.push_back(edge_of(x));
  if (is_one_extreme(from)) {
    node->source = save(x);
    node->result = save(result);
  }
  attach(result, std::move(node));
}

}  // namespace

namespace {

CachedPlan& cached_plan(Runtime& runtime, const Spec* src, const Spec* dst) {
  auto& plans = runtime.cache().plans;
  const auto found = plans.find({src, dst});
  if (found != plans.end()) return *found->second;
  auto made = std::make_unique<CachedPlan>();
  made->plan = value_or_throw(plan(*src, *dst, {.topology = &runtime.topology()}));
  return *plans.emplace(std::pair{src, dst}, std::move(made)).first->second;
}

/// `local` as the result of moving `x` to `to`, recorded.
DTensor moved(const DTensor& x, const Spec* to, Array local, const MoveInfo& info,
              const Site& site) {
  Runtime& runtime = x.runtime();
  DTensor result = make_tensor(runtime, to, std::move(local));
  result.impl()->name = x.name();
  const Array& held = result.local();
  const bool any = num_elements(to->global_shape()) > 0;  // else there is nothing to share
  if (any && !held.is_null() && !x.local().is_null() && held.storage() == x.local().storage()) {
    set_base(result, x);
  }
  if (records(runtime, x)) record_move(x, result, info, site);
  return result;
}

}  // namespace

const Plan& plan_between(Runtime& runtime, const Spec* src, const Spec* dst) {
  return cached_plan(runtime, src, dst).plan;
}

const PlanProgram& program_between(Runtime& runtime, const Spec* src, const Spec* dst) {
  CachedPlan& cached = cached_plan(runtime, src, dst);
  if (!cached.program) cached.program.emplace(runtime.world(), cached.plan);
  return *cached.program;
}

DTensor move(const DTensor& x, const Spec* to, const MoveInfo& info, const Site& site) {
  if (x.impl()->copied) [[unlikely]]
    check_current("redistribute", x);
  Runtime& runtime = x.runtime();
  if (x.impl()->spec == to) {
    const bool grad_moves = !info.grad.empty() && records(runtime, x);
    return grad_moves ? moved(x, to, x.local(), info, site) : x;
  }
  return move_by(x, to, program_between(runtime, x.impl()->spec, to), info, site);
}

DTensor move_by(const DTensor& x, const Spec* to, const PlanProgram& program, const MoveInfo& info,
                const Site& site) {
  Runtime& runtime = x.runtime();
  const std::string why(info.why);
  Array local = execute(runtime.world(), program, x.local(),
                        {.tensor = info.tensor, .origin = info.origin, .why = why, .site = site});
  DTensor result = moved(x, to, std::move(local), info, site);
  if (runtime.observer != nullptr) [[unlikely]] {
    runtime.observer->on_move({.from = {&x, 1},
                               .to = {&result, 1},
                               .origin = info.origin,
                               .needed_by = info.needed_by,
                               .site = site});
  }
  return result;
}

std::vector<DTensor> redistribute_all(std::span<const DTensor> xs, std::span<const Spec> to,
                                      const Site& site) {
  if (xs.size() != to.size()) {
    throw Error(invalid_argument(
        absl::StrFormat("redistribute_all: %d tensors, but %d specs to bring them to",
                        static_cast<int>(xs.size()), static_cast<int>(to.size()))));
  }
  std::vector<PlanProgram> programs;
  std::vector<Array> locals;
  std::vector<const Spec*> targets;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    Runtime& runtime = xs[i].runtime();
    if (xs[i].impl()->copied) [[unlikely]]
      check_current("redistribute_all", xs[i]);
    targets.push_back(runtime.intern(to[i]));
    programs.push_back(program_between(runtime, xs[i].impl()->spec, targets.back()));
    locals.push_back(xs[i].local());
  }
  if (xs.empty()) return {};
  std::vector<Array> arrays =
      execute_all(xs[0].runtime().world(), programs, locals, {.tensor = "bucket", .site = site});
  std::vector<DTensor> results;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const bool stays = xs[i].impl()->spec == targets[i];
    results.push_back(stays ? xs[i] : moved(xs[i], targets[i], std::move(arrays[i]), {}, site));
  }
  Runtime& runtime = xs[0].runtime();
  if (runtime.observer != nullptr) [[unlikely]] {
    runtime.observer->on_move({.from = xs, .to = results, .life = BucketLife::kCall, .site = site});
  }
  return results;
}

DTensor redistribute(const DTensor& x, const Layout& to, const Site& site) {
  const Spec& spec = x.spec();
  if (to == spec.layout() && !x.impl()->copied) return x;
  return move(x, intern_layout(x.runtime(), spec, to), {Origin::kExplicit, x.name(), {}}, site);
}

namespace {
/// The interned target of a list of placements, found again without decoding it.
const Spec* target_of(const DTensor& x, std::span<const Placement> to) {
  Runtime& runtime = x.runtime();
  auto& known = runtime.cache().targets[x.impl()->spec];
  for (const auto& [placements, target] : known) {
    if (std::equal(placements.begin(), placements.end(), to.begin(), to.end())) return target;
  }
  const Spec& spec = x.spec();
  StatusOr<Spec> made = Spec::make(spec.mesh(), spec.global_shape(), spec.dtype(), to);
  if (!made.ok()) {
    throw Error(Status(made.status().code(),
                       to_absl(absl::StrFormat("redistribute: %s. [%s]", message_of(made.status()),
                                               spec.to_string()))));
  }
  known.emplace_back(Placements(to.begin(), to.end()), runtime.intern(*std::move(made)));
  return known.back().second;
}
}  // namespace

namespace {
void check_stated(const DTensor& x, const GradPlacements& grad) {
  const Spec& spec = x.spec();
  check_grad_count("redistribute", spec, grad);
  for (int axis = 0; axis < spec.mesh().ndim(); ++axis) {
    const std::optional<Placement>& one = grad[static_cast<std::size_t>(axis)];
    if (!one) continue;
    const auto* shard = std::get_if<Shard>(&*one);
    const auto* partial = std::get_if<Partial>(&*one);
    const bool cuts = shard != nullptr && shard->dim < spec.ndim() && shard->dim >= -spec.ndim();
    const bool sums = partial != nullptr && partial->op == ReduceOp::kSum;
    if (cuts || sums || std::holds_alternative<Replicate>(*one)) continue;
    throw Error(invalid_argument(absl::StrFormat(
        "redistribute: the gradient on axis %s is stated as %s; allowed are R, S(d) with a dim of "
        "the tensor, and P. [%s]",
        spec.mesh().axis_label(axis), to_string(*one), spec.to_string())));
  }
  const auto& partial = spec.layout().partial;
  const bool passes = std::all_of(partial.begin(), partial.end(), [](const auto& kind) {
    return !kind || passes_cotangent(*kind);
  });
  if (passes) return;
  throw Error(failed_precondition(absl::StrFormat(
      "redistribute: what each rank gets of the cotangent of %s follows from its own elements; "
      "leave the placement of its gradient out. [%s]",
      label_of(x, "the tensor"), spec.to_string())));
}
}  // namespace

DTensor redistribute(const DTensor& x, std::span<const Placement> to, const GradPlacements& grad,
                     const Site& site) {
  check_stated(x, grad);
  return move(x, target_of(x, to), {Origin::kExplicit, x.name(), {}, grad}, site);
}

DTensor redistribute(const DTensor& x, std::span<const Placement> to, const Site& site) {
  return move(x, target_of(x, to), {Origin::kExplicit, x.name(), {}}, site);
}

DTensor redistribute(const DTensor& x, const Mesh& mesh, std::span<const Placement> to,
                     const Site& site) {
  const Spec& spec = x.spec();
  StatusOr<Spec> made = Spec::make(mesh, spec.global_shape(), spec.dtype(), to);
  if (!made.ok()) {
    throw Error(Status(made.status().code(),
                       to_absl(absl::StrFormat("redistribute: %s. [%s]", message_of(made.status()),
                                               spec.to_string()))));
  }
  return move(x, x.runtime().intern(*std::move(made)), {Origin::kExplicit, x.name(), {}}, site);
}

DTensor redistribute(const DTensor& x, std::initializer_list<Placement> to, const Site& site) {
  return redistribute(x, std::span<const Placement>(to.begin(), to.size()), site);
}

Array full_tensor(const DTensor& x, const Site& site) {
  const NoGrad no_grad(x.runtime());
  check_replicas(x, "full_tensor", site);
  Layout whole;
  whole.dims.resize(static_cast<std::size_t>(x.ndim()));
  whole.partial.resize(static_cast<std::size_t>(x.mesh().ndim()));
  return redistribute(x, whole, site).local();
}

double item(const DTensor& x, const Site& site) {
  if (num_elements(x.global_shape()) != 1) {
    throw Error(invalid_argument(absl::StrFormat(
        "item: only a tensor of one element has a value on the host. [%s]", x.spec().to_string())));
  }
  const Array whole = full_tensor(x, site);
  if (whole.is_null()) {
    throw Error(failed_precondition(absl::StrFormat("item: rank %d is outside the mesh. [%s]",
                                                    x.runtime().rank(), x.spec().to_string())));
  }
  return read_to_host(x.runtime(), whole, {.why = "item", .tensor = x.name()}, site).to_vector()[0];
}

}  // namespace tessera
