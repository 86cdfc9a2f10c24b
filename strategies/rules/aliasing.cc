#include "strategies/rules/aliasing.h"

namespace tessera {
namespace {

/// Where it is not, every rank's strides are those of one rank.
bool is_cut(const Spec& spec) {
  for (int axis = 0; axis < spec.mesh().ndim(); ++axis) {
    if (spec.mesh().size(axis) > 1 && spec.layout().dim_of_axis(axis) >= 0) return true;
  }
  return false;
}

}  // namespace

ViewAliasing view_aliasing(const Op& op, const Spec& operand, const Resolution& resolution) {
  using Order = OpDef::ViewOrder;
  using Kind = ViewAliasing::Kind;
  if (!op.def.is_view) return {};
  const Order order = op.def.view_order;
  ViewAliasing result{.kind = Kind::kShares};
  result.reorders = order == Order::kOther || order == Order::kOverlapping;
  result.repeats = order == Order::kOverlapping;
  const std::int64_t elements = num_elements(operand.global_shape());
  for (const Spec& output : resolution.outputs) {
    result.repeats |= num_elements(output.global_shape()) > elements;
  }
  // What moves may move no bytes: a rank takes its part of what it holds whole.
  const bool moved =
      operand.mesh().num_ranks() > 1 && operand.layout() != resolution.inputs[0].layout();
  if (resolution.lowering >= 0 || moved) {
    result.kind = Kind::kCopies;
  } else if (order == Order::kRowMajorOrCopy) {
    result.kind = is_cut(operand) ? Kind::kIfInOrder : Kind::kByStrides;
  }
  return result;
}

namespace {

/// Why ranks made a copy.
constexpr std::string_view kCutView =
    "is a view of a dim that is cut, or of a tensor that had to move, for which ranks made a copy";
constexpr std::string_view kReorderedView =
    "was given other sizes while its elements were not in row-major order, so some ranks may hold "
    "a copy";

/// What follows the tensor's name.
std::string refusal_of(WriteHazard hazard) {
  const std::string cannot = " cannot be written in place: ";
  switch (hazard) {
    case WriteHazard::kRepeats:
      return cannot +
             "it repeats elements (expand), so several of them share one place, or may (unfold); "
             "clone() it first";
    case WriteHazard::kCopiedByCut:
      return cannot + "it " + std::string(kCutView) +
             ", so a write would not reach what it is a view of; redistribute that before the "
             "view, write to it with select_scatter or slice_scatter, or clone() the view";
    case WriteHazard::kCopiedByOrder:
      return cannot + "it " + std::string(kReorderedView) +
             "; use view() where it is to be written, or clone() it";
    case WriteHazard::kLeaf:
      return ": a leaf that needs a gradient cannot be written in place; do it under NoGrad, or on "
             "a clone()";
    case WriteHazard::kViewOfLeaf:
      return ": a view of a leaf that needs a gradient cannot be written in place; do it under "
             "NoGrad, or on a clone()";
    case WriteHazard::kViewOfHistory:
      return ": a view of a tensor with history cannot be written in place; write to the tensor "
             "itself, or to a clone()";
    case WriteHazard::kValuesOfView:
      break;
  }
  return ": a view cannot be written in place with values that need a gradient, of which the "
         "tensor that it is a view of would not know; write to that tensor itself "
         "(select_scatter, slice_scatter), or to a clone()";
}

}  // namespace

Status write_refused(std::string_view op, std::string_view name, WriteHazard hazard,
                     const Spec& spec) {
  const std::string text = std::string(op) + ": " + std::string(name) + refusal_of(hazard);
  return failed_precondition(text + ". [" + spec.to_string() + "]");
}

Status stale_view_refused(std::string_view op, std::string_view name, bool by_cut,
                          const Spec& spec) {
  const std::string_view why = by_cut ? kCutView : kReorderedView;
  const std::string text = std::string(op) + ": " + std::string(name) + " " + std::string(why);
  return failed_precondition(text +
                             ", and what it is a view of was written since; take the view again, "
                             "or after the write. [" +
                             spec.to_string() + "]");
}

}  // namespace tessera
