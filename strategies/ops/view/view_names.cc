// Joins and views that stand for another op with its attributes chosen by shapes: hstack, vstack,
// column_stack, broadcast_to, view_as, reshape_as, ravel.
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

using Metas = StatusOr<std::vector<TensorMeta>>;

/// The op that a call stands for, and its attributes.
struct Meaning {
  const Op* op = nullptr;
  Attrs attrs;
};
/// From the shapes of the operands, which all have as many dims as the whole tensors.
using MeaningOf = std::function<Meaning(std::span<const Shape>)>;

std::vector<Shape> shapes_of(std::span<const TensorMeta> inputs) {
  std::vector<Shape> shapes;
  for (const TensorMeta& input : inputs) shapes.push_back(input.shape);
  return shapes;
}

/// Fills in `def` from what `meaning` says of a call's first `used` operands (all where 0); the
/// others give their shape only.
void stand_for(OpDef& def, const MeaningOf& meaning, std::size_t used) {
  const auto first = [used](std::size_t count) { return used == 0 ? count : used; };
  def.infer = [meaning, first](std::span<const TensorMeta> inputs, const Attrs&) -> Metas {
    const Meaning meant = meaning(shapes_of(inputs));
    return infer(*meant.op, inputs.first(first(inputs.size())), meant.attrs);
  };
  def.strategies = [meaning, first](std::span<const Spec* const> inputs,
                                    std::span<const TensorMeta> outputs,
                                    const Attrs&) -> StatusOr<std::vector<Strategy>> {
    std::vector<Shape> shapes;
    for (const Spec* input : inputs) shapes.push_back(input->global_shape());
    const Meaning meant = meaning(shapes);
    const std::size_t count = first(inputs.size());
    TSR_ASSIGN_OR_RETURN(auto found,
                         meant.op->def.strategies(inputs.first(count), outputs, meant.attrs));
    for (Strategy& strategy : found) {
      for (std::size_t i = count; i < inputs.size(); ++i) strategy.inputs.push_back(*inputs[i]);
    }
    return found;
  };
  def.localize = [meaning](const Attrs&, std::span<const Spec> inputs,
                           std::span<const Spec> outputs, const Coord& coord) {
    std::vector<Shape> shapes;
    for (const Spec& input : inputs) shapes.push_back(input.global_shape());
    const Meaning meant = meaning(shapes);
    if (meant.op->def.localize == nullptr) return meant.attrs;
    return meant.op->def.localize(meant.attrs, inputs, outputs, coord);
  };
  def.kernel = [meaning, first](KernelCall& call) {
    std::vector<Shape> shapes;
    for (const Array& input : call.inputs) shapes.push_back(input.shape());
    const Meaning meant = meaning(shapes);
    const std::size_t count = first(call.inputs.size());
    KernelCall inner{.ctx = call.ctx,
                     .inputs = call.inputs.first(count),
                     .attrs = call.attrs.empty() ? meant.attrs : call.attrs,
                     .outputs = call.outputs,
                     .absent = call.absent,
                     .input_views = call.input_views,
                     .output_views = call.output_views};
    meant.op->def.kernel(inner);
  };
}

OpDef joining(std::string name, std::string doc, std::vector<Sample> samples) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .args = {in_list("tensors")},
          .rule = "",
          .samples = std::move(samples)};
}

/// The cotangent of operand i: its place in the joined dim, or its slice of the new one.
std::vector<Var> join_gradient(GradContext& c, bool stacked, std::int64_t dim) {
  std::vector<Var> grads;
  std::int64_t start = 0;
  for (int i = 0; i < c.num_inputs(); ++i) {
    Var grad;
    const std::int64_t length = stacked ? 1 : c.input_shape(i)[static_cast<std::size_t>(dim)];
    if (c.needs(i)) {
      grad = stacked ? c.call("select", {c.cotangent(0)}, {{"dim", dim}, {"index", start}})
                     : c.call("narrow", {c.cotangent(0)},
                              {{"dim", dim}, {"start", start}, {"length", length}});
      grad = ops::grad_like(c, grad, i);
    }
    grads.push_back(grad);
    start += length;
  }
  return grads;
}

/// cat along `dim`, or, where operands have one dim, `one_dim` of it.
struct Join {
  std::int64_t dim = 0;
  bool stacks_lines = false;
  std::int64_t line_dim = 0;
};

void add_join(OpTable& table, OpDef def, Join join) {
  const Op* cat = value_or_throw(table.find("cat"));
  const Op* stack = value_or_throw(table.find("stack"));
  def.lowerings = cat->def.lowerings;
  def.gradient = [join](GradContext& c) {
    const bool lines = c.input_shape(0).size() == 1;
    return join_gradient(c, lines && join.stacks_lines, lines ? join.line_dim : join.dim);
  };
  stand_for(
      def,
      [=](std::span<const Shape> shapes) -> Meaning {
        const bool lines = shapes[0].size() == 1;
        return {lines && join.stacks_lines ? stack : cat,
                {{"dim", lines ? join.line_dim : join.dim}}};
      },
      0);
  table.must_add(std::move(def));
}

std::vector<Sample> wide_samples(const Shape& second) {
  return {{.shapes = {{8, 6}, second}}, {.shapes = {{5}, {5}}}};
}

void add_joins(OpTable& table) {
  add_join(table,
           joining("hstack", "Tensors joined along dim 1, or along their only dim.",
                   wide_samples({8, 7})),
           {.dim = 1});
  add_join(table,
           joining("vstack", "Tensors joined along dim 0; those of one dim are rows.",
                   wide_samples({7, 6})),
           {.dim = 0, .stacks_lines = true});
  add_join(table,
           joining("column_stack", "Tensors joined along dim 1; those of one dim are columns.",
                   wide_samples({8, 7})),
           {.dim = 1, .stacks_lines = true, .line_dim = 1});
}

std::vector<Var> back_to_shape(GradContext& c) {
  std::vector<Var> grads(static_cast<std::size_t>(c.num_inputs()));
  grads[0] = c.call("reshape", {c.cotangent(0)}, {{"shape", c.input_shape(0)}});
  return grads;
}

void add_views(OpTable& table) {
  const Op* view = value_or_throw(table.find("view"));
  const Op* reshape = value_or_throw(table.find("reshape"));
  const std::vector<Sample> samples = {{.shapes = {{8, 6}, {6, 8}}}, {.shapes = {{5, 3}, {15}}}};
  OpDef view_as = {.name = "view_as",
                   .doc = "The same storage under other's sizes.",
                   .args = {in("self"), in("other")},
                   .rule = "",
                   .gradient = back_to_shape,
                   .is_view = true,
                   .view_order = OpDef::ViewOrder::kRowMajor,
                   .samples = samples};
  OpDef reshape_as = view_as;
  stand_for(
      view_as,
      [view](auto shapes) {
        return Meaning{view, {{"size", shapes[1]}}};
      },
      1);
  table.must_add(std::move(view_as));
  reshape_as.name = "reshape_as";
  reshape_as.doc = "The same values under other's sizes.";
  reshape_as.view_order = OpDef::ViewOrder::kRowMajorOrCopy;
  stand_for(
      reshape_as,
      [reshape](auto shapes) {
        return Meaning{reshape, {{"shape", shapes[1]}}};
      },
      1);
  table.must_add(std::move(reshape_as));
  OpDef ravel = {.name = "ravel",
                 .doc = "All dims as one.",
                 .args = {in("self")},
                 .rule = "",
                 .gradient = back_to_shape,
                 .is_view = true,
                 .view_order = OpDef::ViewOrder::kRowMajorOrCopy,
                 .samples = {{.shapes = {{8, 6}}}, {.shapes = {{5, 3}}}}};
  stand_for(
      ravel,
      [reshape](auto) {
        return Meaning{reshape, {{"shape", Shape{-1}}}};
      },
      1);
  table.must_add(std::move(ravel));
}

void add_broadcast_to(OpTable& table) {
  OpDef broadcast = value_or_throw(table.find("expand"))->def;
  broadcast.name = "broadcast_to";
  broadcast.doc = "expand under its other name.";
  table.must_add(std::move(broadcast));
}

}  // namespace

void add_view_names_ops(OpTable& table) {
  add_joins(table);
  add_views(table);
  add_broadcast_to(table);
}

}  // namespace tessera
