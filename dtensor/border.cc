// Borders between DTensors and plain local tensors: what crosses says how its cotangent is placed.
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtensor/autograd.h"
#include "dtensor/checked.h"
#include "dtensor/dispatch_cache.h"
#include "dtensor/dtensor.h"
#include "dtensor/observer.h"
#include "dtensor/ops.h"
#include "dtensor/overlap.h"
#include "dtensor/redistribute.h"
#include "placement/reduce_op.h"

namespace tessera {

namespace {

std::string placement_on(const Spec& spec, int axis) {
  const Layout& layout = spec.layout();
  if (layout.partial[axis]) return absl::StrFormat("P(%s)", name_of(*layout.partial[axis]));
  const int dim = layout.dim_of_axis(axis);
  if (dim < 0) return "R";
  for (const Level& level : layout.dims[static_cast<std::size_t>(dim)]) {
    if (level.axis == axis && level.sizes) return to_string(Ragged{dim, level.sizes});
  }
  return absl::StrFormat("S(%d)", dim);
}

/// The cotangent's placement on one axis of a border, or why it is refused.
struct AxisGrad {
  enum class Border : std::uint8_t { kToLocal, kFromLocal };
  Border border;
  const Spec& spec;
  const std::string& label;
  int axis;
  const std::optional<Placement>& stated;

  static std::string_view name_of(Border border) {
    return border == Border::kToLocal ? "to_local" : "from_local";
  }
  std::string where() const { return absl::StrFormat("[%s]", spec.to_string()); }
  Status refuse(std::string_view text) const {
    return failed_precondition(absl::StrFormat("%s: %s is %s on axis %s: %s. %s", name_of(border),
                                               label, placement_on(spec, axis),
                                               spec.mesh().axis_label(axis), text, where()));
  }
  /// Sets the axis' partial in the cotangent's layout.
  Status apply(Layout& layout) const {
    const std::optional<ReduceOp> partial = spec.layout().partial[axis];
    const int dim = spec.layout().dim_of_axis(axis);
    if (dim >= 0) return check_shard(dim);
    if (!partial) return apply_replicate(layout);
    const bool leaves = border == Border::kFromLocal;
    if (leaves && !is_linear(*partial)) {
      return failed_precondition(absl::StrFormat(
          "from_local: %s is %s on axis %s and needs a gradient, which only P(sum) and P(avg) hand "
          "back; reduce it inside the region. %s",
          label, placement_on(spec, axis), spec.mesh().axis_label(axis), where()));
    }
    if (!leaves && !passes_cotangent(*partial)) {
      return refuse(
          "only P(sum) has a cotangent that each rank can use; redistribute it to R or S first");
    }
    if (stated && !std::holds_alternative<Replicate>(*stated)) {
      return refuse(
          absl::StrFormat("its cotangent is R (every summand has the same one), but %s is stated",
                          to_string(*stated)));
    }
    layout.partial[axis].reset();
    return Status();
  }
  Status check_shard(int dim) const {
    if (!stated) return Status();
    const Shard* shard = std::get_if<Shard>(&*stated);
    const StridedShard* strided = std::get_if<StridedShard>(&*stated);
    const Ragged* ragged = std::get_if<Ragged>(&*stated);
    const bool owned = std::holds_alternative<Owned>(*stated);
    const int given = shard     ? shard->dim
                      : strided ? strided->dim
                      : ragged  ? ragged->dim
                      : owned   ? 0
                                : -1;
    if ((shard || strided || ragged || owned) && (given == dim || given + spec.ndim() == dim))
      return Status();
    if (std::holds_alternative<Partial>(*stated)) {
      return refuse(
          absl::StrFormat("its cotangent is S(%d) like it, but %s is stated, which would add the "
                          "gradients of different shards; leave "
                          "it out, or state it on the axis along which the data is replicated",
                          dim, to_string(*stated)));
    }
    return refuse(absl::StrFormat("its cotangent is S(%d) like it, but %s is stated; leave it out",
                                  dim, to_string(*stated)));
  }
  Status apply_replicate(Layout& layout) const {
    if (!stated && border == Border::kFromLocal) return Status();  // R, like it
    if (!stated) {
      return failed_precondition(absl::StrFormat(
          "to_local: %s is R on axis %s and needs a gradient, so the placement of its cotangent "
          "there must be stated: P "
          "if each rank goes on with other data (the cotangents are then summed over %s), R if "
          "each rank computes the "
          "same from it (the cotangents are then equal). %s",
          label, spec.mesh().axis_label(axis), spec.mesh().axis_label(axis), where()));
    }
    if (std::holds_alternative<Replicate>(*stated)) return Status();
    const Partial* stated_partial = std::get_if<Partial>(&*stated);
    if (stated_partial == nullptr || stated_partial->op != ReduceOp::kSum) {
      return refuse(
          absl::StrFormat("its cotangent may be stated as P or R, not %s", to_string(*stated)));
    }
    layout.partial[axis] = ReduceOp::kSum;
    return Status();
  }
};

/// The cotangent's layout, per axis of the mesh of `spec`.
Layout cotangent_layout(AxisGrad::Border border, const Spec& spec, const std::string& label,
                        const GradPlacements& grad) {
  if (!grad.empty()) check_grad_count(AxisGrad::name_of(border), spec, grad);
  Layout layout = spec.layout();
  const std::optional<Placement> none;
  for (int axis = 0; axis < spec.mesh().ndim(); ++axis) {
    if (spec.mesh().size(axis) == 1) {
      layout.partial[axis].reset();  // one rank: all placements are the same
      continue;
    }
    throw_if_error(
        AxisGrad{border, spec, label, axis, grad.empty() ? none : grad[axis]}.apply(layout));
  }
  return layout;
}

struct ToLocalNode final : GradNode {
  using GradNode::GradNode;
  std::string_view name() const override { return "to_local"; }
  void run(std::span<const DTensor> cotangents, std::span<DTensor> grads) override {
    grads[0] = make_tensor(runtime, cotangent, cotangents[0].local());
    tell_region(runtime, "from_local", RegionKind::kLocal, {cotangents[0]}, grads[0], site);
    check_replicas(grads[0], "backward of to_local", site);
    warn_if_partial_looks_replicated(grads[0], "backward of to_local", site);
  }
  const Spec* cotangent = nullptr;
};

struct FromLocalNode final : GradNode {
  using GradNode::GradNode;
  std::string_view name() const override { return "from_local"; }
  void run(std::span<const DTensor> cotangents, std::span<DTensor> grads) override {
    const DTensor& given = cotangents[0];
    DTensor mine = move(given, intern_layout(runtime, given.spec(), dual->layout()),
                        {Origin::kExplicit, "gradient", "backward of from_local"}, site);
    if (parts > 1) mine = mul(mine, 1.0 / static_cast<double>(parts), site);
    if (mine.local().is_null()) return;
    grads[0] = make_tensor(runtime, local, mine.local());
    tell_region(runtime, "to_local", RegionKind::kLocal, {mine}, grads[0], site);
  }
  const Spec* dual = nullptr;   ///< S stays, P becomes R, R may be stated as P
  const Spec* local = nullptr;  ///< of the plain operand
  std::int64_t parts = 1;       ///< summands of an average
};

struct ReinterpretNode final : GradNode {
  using GradNode::GradNode;
  std::string_view name() const override { return "reinterpret"; }
  void run(std::span<const DTensor> cotangents, std::span<DTensor> grads) override {
    const DTensor& given = cotangents[0];
    const DTensor mine = move(given, intern_layout(runtime, given.spec(), to->layout()),
                              {Origin::kExplicit, "gradient", "backward of reinterpret"}, site);
    grads[0] = make_tensor(runtime, from, mine.local());
    tell_region(runtime, "reinterpret", RegionKind::kLocal, {mine}, grads[0], site);
  }
  const Spec* from = nullptr;
  const Spec* to = nullptr;
};

}  // namespace

DTensor to_local(const DTensor& x, const GradPlacements& grad, const Site& site) {
  Runtime& runtime = x.runtime();
  if (x.mesh().ndim() == 0) return x;
  if (x.impl()->copied) [[unlikely]]
    check_current("to_local", x);
  const bool recorded = records(runtime, x);
  const Spec* cotangent = nullptr;
  if (recorded) {
    cotangent = intern_layout(
        runtime, x.spec(),
        cotangent_layout(AxisGrad::Border::kToLocal, x.spec(), label_of(x, "the tensor"), grad));
  }
  if (x.local().is_null()) {
    return make_tensor(runtime, runtime.intern(Spec::plain(x.global_shape(), x.dtype())), Array());
  }
  check_replicas(x, "to_local", site);
  const Spec* own = runtime.intern(Spec::plain(x.local().shape(), x.dtype()));
  DTensor result = make_tensor(runtime, own, x.local());
  result.impl()->name = x.name();
  set_base(result, x);
  tell_region(runtime, "to_local", RegionKind::kLocal, {x}, result, site);
  if (!recorded) return result;
  auto node = std::make_shared<ToLocalNode>(runtime, site);
  node->cotangent = cotangent;
  node->edges.push_back(edge_of(x));
  attach(result, std::move(node));
  return result;
}

DTensor from_local(const DTensor& local, const Mesh& mesh, std::span<const Placement> placements,
                   const Shape& global_shape, const GradPlacements& grad, const Site& site) {
  Runtime& runtime = local.runtime();
  if (local.mesh().ndim() != 0) {
    throw Error(invalid_argument(
        absl::StrFormat("from_local: the operand must be a plain tensor; to_local() it first. [%s]",
                        local.spec().to_string())));
  }
  const Spec* spec =
      runtime.intern(value_or_throw(Spec::make(mesh, global_shape, local.dtype(), placements)));
  const Coord* coord = runtime.coord_on(spec);
  if (coord == nullptr) return make_tensor(runtime, spec, Array());
  const Shape expected = spec->local_shape(*coord);
  if (local.local().is_null() || local.global_shape() != expected) {
    throw Error(invalid_argument(
        absl::StrFormat("from_local: rank %d holds %s, but its part of %s is %s", runtime.rank(),
                        to_string(local.global_shape()), spec->to_string(), to_string(expected))));
  }
  DTensor result = make_tensor(runtime, spec, local.local());
  result.impl()->name = local.name();
  set_base(result, local);
  tell_region(runtime, "from_local", RegionKind::kLocal, {local}, result, site);
  if (!records(runtime, local)) return result;
  auto node = std::make_shared<FromLocalNode>(runtime, site);
  node->parts = averaged_parts(*spec);
  Layout dual =
      cotangent_layout(AxisGrad::Border::kFromLocal, *spec, label_of(local, "the tensor"), grad);
  node->dual = intern_layout(runtime, *spec, std::move(dual));
  node->local = local.impl()->spec;
  node->edges.push_back(edge_of(local));
  attach(result, std::move(node));
  return result;
}

namespace {

/// Throws where some rank's elements under `to` are others than under `from`, or Partials do not
/// match.
void check_same_elements(const Spec& from, const Spec& to) {
  const auto refuse = [&](const std::string& why) {
    throw Error(
        failed_precondition(absl::StrFormat("reinterpret: %s; redistribute instead. [%s as %s]",
                                            why, from.to_string(), to.to_string())));
  };
  if (from.global_shape() != to.global_shape() || from.dtype() != to.dtype())
    refuse("shape or dtype differs");
  if (from.mesh().num_ranks() != to.mesh().num_ranks()) refuse("the meshes have different ranks");
  for (std::int64_t i = 0; i < from.mesh().num_ranks(); ++i) {
    Coord coord(static_cast<std::size_t>(from.mesh().ndim()));
    std::int64_t rest = i;
    for (int axis = from.mesh().ndim() - 1; axis >= 0; --axis) {
      coord[static_cast<std::size_t>(axis)] = rest % from.mesh().size(axis);
      rest /= from.mesh().size(axis);
    }
    const std::int64_t rank = from.mesh().rank_of(coord);
    const std::optional<Coord> other = to.mesh().coord_of(rank);
    if (!other)
      refuse(absl::StrFormat("rank %d is not on the mesh %s", rank, to.mesh().to_string()));
    for (int dim = 0; dim < from.ndim(); ++dim) {
      const std::int64_t size = from.global_shape()[dim];
      if (local_intervals(from.mesh(), size, from.layout().dims[dim], coord) !=
          local_intervals(to.mesh(), size, to.layout().dims[dim], *other)) {
        refuse(absl::StrFormat("rank %d holds other indices of dim %d", rank, dim));
      }
    }
  }
}

/// Partials must stand for the same sum: equal kinds over the same groups of ranks.
void check_same_partials(const Spec& from, const Spec& to) {
  const auto groups = [](const Spec& spec) {
    std::vector<std::pair<std::int64_t, std::int64_t>> strides;  // (stride, size) of Partial axes
    std::optional<ReduceOp> kind;
    for (int axis = 0; axis < spec.mesh().ndim(); ++axis) {
      if (!spec.layout().partial[axis] || spec.mesh().size(axis) == 1) continue;
      kind = spec.layout().partial[axis];
      const std::int64_t stride = spec.mesh().axis(axis).stride;
      std::int64_t size = spec.mesh().size(axis);
      // Nested axes join: (stride·size of the minor) = stride of the major.
      if (!strides.empty() && strides.back().first == stride * size) {
        size *= strides.back().second;
        strides.pop_back();
      }
      strides.emplace_back(stride, size);
    }
    return std::pair{kind, strides};
  };
  if (groups(from) == groups(to)) return;
  throw Error(
      failed_precondition(absl::StrFormat("reinterpret: the Partial axes do not stand for the same "
                                          "groups of ranks; reduce first. [%s as %s]",
                                          from.to_string(), to.to_string())));
}

}  // namespace

DTensor reinterpret(const DTensor& x, const Spec& to, const Site& site) {
  Runtime& runtime = x.runtime();
  const Spec* target = runtime.intern(to);
  if (target == x.impl()->spec) return x;
  auto& proven = runtime.cache().reinterpreted;
  if (!proven.contains({x.impl()->spec, target})) {
    check_same_elements(x.spec(), to);
    check_same_partials(x.spec(), to);
    proven.insert({x.impl()->spec, target});
  }
  DTensor result = make_tensor(runtime, target, x.local());
  result.impl()->name = x.name();
  if (!x.local().is_null()) set_base(result, x);
  tell_region(runtime, "reinterpret", RegionKind::kLocal, {x}, result, site);
  if (!records(runtime, x)) return result;
  auto node = std::make_shared<ReinterpretNode>(runtime, site);
  // The cotangent crosses back where it stands as the forward tensor does, P(sum) as R.
  Layout from_dual = x.spec().layout();
  for (auto& partial : from_dual.partial) partial.reset();
  Layout to_dual = to.layout();
  for (auto& partial : to_dual.partial) partial.reset();
  node->from = intern_layout(runtime, x.spec(), std::move(from_dual));
  node->to = intern_layout(runtime, to, std::move(to_dual));
  node->edges.push_back(edge_of(x));
  attach(result, std::move(node));
  return result;
}

}  // namespace tessera
