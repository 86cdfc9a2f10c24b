// Updates at an index that combine with what is there: scatter_reduce and index_reduce. The rule
// depends on the reduction.
#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/index.h"
#include "strategies/ops/index/index_local.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

using kernels::Combine;
using Metas = StatusOr<std::vector<TensorMeta>>;

const DType kF = DType::kF64;
const DType kI = DType::kI64;

constexpr std::string_view kReductions[] = {"sum", "prod", "mean", "amax", "amin"};
enum Reduction : std::size_t { kSum, kProd, kMean, kAmax, kAmin };

/// Which of kReductions `reduce` names; 5 for none.
std::size_t reduction_of(const Attrs& attrs) {
  const std::string name = attrs.get_string("reduce");
  std::size_t i = 0;
  while (i < std::size(kReductions) && kReductions[i] != name) ++i;
  return i;
}

Status check_reduction(const TensorMeta& self, const Attrs& attrs, std::size_t first) {
  const std::size_t which = reduction_of(attrs);
  if (which >= std::size(kReductions) || which < first) {
    std::string allowed;
    for (std::size_t i = first; i < std::size(kReductions); ++i) {
      allowed += (allowed.empty() ? "" : ", ") + std::string(kReductions[i]);
    }
    return invalid_argument("reduce is '" + attrs.get_string("reduce") + "', but must be one of " +
                            allowed);
  }
  if (which == kMean && !is_floating(self.dtype)) {
    return invalid_argument("the mean of " + std::string(name_of(self.dtype)) +
                            " is no integer; cast with `to` first");
  }
  return {};
}

Metas infer_scatter_reduce(std::span<const TensorMeta> inputs, const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const int dim,
                       ops::dim_attr(attrs, static_cast<int>(inputs[0].shape.size())));
  TSR_RETURN_IF_ERROR(check_reduction(inputs[0], attrs, kSum));
  TSR_RETURN_IF_ERROR(ops::check_index(inputs[0], inputs[1], dim));
  TSR_RETURN_IF_ERROR(ops::check_source(inputs[0], inputs[1], inputs[2]));
  return std::vector<TensorMeta>{inputs[0]};
}

Metas infer_index_reduce(std::span<const TensorMeta> inputs, const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const int dim,
                       ops::dim_attr(attrs, static_cast<int>(inputs[0].shape.size())));
  TSR_RETURN_IF_ERROR(check_reduction(inputs[0], attrs, kProd));
  TSR_RETURN_IF_ERROR(ops::check_integer(inputs[1], "index"));
  TensorMeta slices = inputs[0];
  if (inputs[1].shape.size() == 1) {
    slices.shape[static_cast<std::size_t>(dim)] = inputs[1].shape[0];
  }
  if (inputs[1].shape.size() != 1 || inputs[2] != slices) {
    return invalid_argument("index " + to_string(inputs[1].shape) +
                            " must have one dim, and source " + to_string(inputs[2].shape) +
                            " self's shape " + to_string(inputs[0].shape) +
                            " and dtype with the index's length at dim " + std::to_string(dim));
  }
  return std::vector<TensorMeta>{inputs[0]};
}

/// The index as one of scatter's: a 1-D index stands alike on all lines.
Array as_scatter_index(const Array& index, const Array& src, int dim) {
  if (index.ndim() == src.ndim() && src.ndim() != 1) return index;
  Shape strides(src.shape().size(), 0);
  strides[static_cast<std::size_t>(dim)] = index.strides()[0];
  Shape shape = src.shape();
  shape[static_cast<std::size_t>(dim)] = index.size(0);
  return index.as_strided(shape, strides, index.offset());
}

/// Without self, elements that are written start from what changes nothing.
void leave_out_self(KernelCall& call, std::size_t which, int dim, const Array& index,
                    const Array& src) {
  const Array& out = call.outputs[0];
  const kernels::Absent absent = kernels::Absent::kSkip;
  if (which == kAmax || which == kAmin) {
    kernels::scatter(call.ctx, out, dim, index, src, absent);
  } else {
    kernels::scatter_value(call.ctx, out, dim, index, which == kProd ? 1.0 : 0.0, absent);
  }
}

void divide_by_counts(KernelCall& call, int dim, const Array& index, bool include_self) {
  const Array& out = call.outputs[0];
  const DType dtype = out.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  const Array counts = ops::scratch(call, out.shape(), dtype);
  const Array one = ops::scratch(call, {}, dtype);
  kernels::fill(call.ctx, 1.0, one);
  kernels::fill(call.ctx, 1.0, counts);
  const auto absent = kernels::Absent::kSkip;
  if (!include_self) kernels::scatter_value(call.ctx, counts, dim, index, 0.0, absent);
  const Array ones = one.as_strided(index.shape(), Shape(index.shape().size(), 0), 0);
  kernels::scatter_add(call.ctx, counts, dim, index, ones, absent);
  kernels::binary(call.ctx, kernels::Binary::kDiv, out, counts, out);
}

void run_reduce(KernelCall& call) {
  const Array& out = call.outputs[0];
  const int dim = ops::kernel_dim(call, out);
  if (out.storage() != call.inputs[0].storage()) kernels::copy(call.ctx, call.inputs[0], out);
  ops::AddressedDim addressed = ops::addressed_dim(call, "scatter_reduce", 0, dim);
  addressed.negative = ops::AddressedDim::Negative::kRefused;
  const Array local = ops::local_positions(call, addressed, call.inputs[1]);
  const Array& src = call.inputs[2];
  const Array index = as_scatter_index(local, src, dim);
  const std::size_t which = reduction_of(call.attrs);
  const bool include_self = call.attrs.get_bool("include_self");
  if (!include_self) leave_out_self(call, which, dim, index, src);
  constexpr Combine kCombine[] = {Combine::kAdd, Combine::kProduct, Combine::kAdd, Combine::kMax,
                                  Combine::kMin};
  kernels::scatter_combine(call.ctx, out, dim, index, src, kCombine[which], kernels::Absent::kSkip);
  if (which == kMean) divide_by_counts(call, dim, index, include_self);
}

// ---- gradients ----

/// The reads and writes that an op's index stands for.
struct Addressing {
  std::string_view gather, add, fill;
};
constexpr Addressing kScatter = {"gather", "scatter_add", "scatter_value"};
constexpr Addressing kSlices = {"index_select", "index_add", "index_fill"};

class ReduceGradient {
 public:
  ReduceGradient(GradContext& c, const Addressing& by)
      : c_(c), by_(by), include_(c.attrs().get_bool("include_self")) {}

  std::vector<Var> run() {
    switch (reduction_of(c_.attrs())) {
      case kSum:
        return {kept(c_.cotangent(0)), Var{}, at_source(gather(c_.cotangent(0)))};
      case kMean:
        return mean();
      case kProd:
        return product();
      default:
        return extreme();
    }
  }

 private:
  Attrs dim() const { return {{"dim", c_.attrs().get_int("dim")}}; }
  Var gather(Var x) { return c_.call(by_.gather, {x, c_.input(1)}, dim()); }
  Var add(Var to, Var src) { return c_.call(by_.add, {to, c_.input(1), src}, dim()); }
  Var fill(Var x, double value) {
    return c_.call(by_.fill, {x, c_.input(1)},
                   {{"dim", c_.attrs().get_int("dim")}, {"value", value}});
  }
  Var like(Var x, double value) { return c_.call("full_like", {x}, {{"fill_value", value}}); }
  Var as_number(Var flags) { return c_.call("to", {flags}, {{"dtype", c_.input_dtype(0)}}); }
  Var where_true(Var flags, Var x, double value) {
    return c_.call("masked_fill", {x, flags}, {{"value", value}});
  }
  /// What self keeps of a cotangent.
  Var kept(Var grad) { return include_ ? grad : fill(grad, 0.0); }

  /// The part of the source that the index reaches.
  Var source() {
    Var src = c_.input(2);
    const Shape reached = c_.shape(gather(c_.input(0)));
    for (std::size_t d = 0; d < reached.size(); ++d) {
      if (c_.shape(src)[d] == reached[d]) continue;
      src = c_.call("narrow", {src},
                    {{"dim", static_cast<std::int64_t>(d)}, {"start", 0}, {"length", reached[d]}});
    }
    return src;
  }
  /// Zeros where the index does not reach.
  Var at_source(Var grad) {
    const Shape& whole = c_.input_shape(2);
    for (std::size_t d = 0; d < whole.size(); ++d) {
      if (c_.shape(grad)[d] == whole[d]) continue;
      grad = c_.call("slice_grad", {grad},
                     {{"dim", static_cast<std::int64_t>(d)}, {"start", 0}, {"size", whole[d]}});
    }
    return grad;
  }

  std::vector<Var> mean() {
    const Var grad = c_.cotangent(0);
    Var counts = like(grad, 1.0);
    if (!include_) counts = fill(counts, 0.0);
    counts = add(counts, like(source(), 1.0));
    const Var share = c_.call("div", {grad, counts});
    return {kept(share), Var{}, at_source(gather(share))};
  }

  /// Ties share equally; where the result is NaN, the gradient is, as in PyTorch.
  std::vector<Var> extreme() {
    const Var result = c_.output(0);
    const Var is_self = c_.call("eq", {c_.input(0), result});
    const Var is_src = c_.call("eq", {source(), gather(result)});
    const Var ties = add(kept(as_number(is_self)), as_number(is_src));
    const Var share = c_.call("div", {c_.cotangent(0), ties});
    const Var otherwise = where_true(c_.call("isnan", {result}), like(result, 0.0), std::nan(""));
    return {kept(c_.call("where", {is_self, share, otherwise})), Var{},
            at_source(c_.call("where", {is_src, gather(share), gather(otherwise)}))};
  }

  /// Products without one factor: by division, or anew with a 1 in place of a lone 0.
  std::vector<Var> product() {
    const Var grad = c_.cotangent(0), self = c_.input(0), src = source();
    const Attrs& attrs = c_.attrs();
    const Var self_zero = c_.call("eq", {self, like(self, 0.0)});
    const Var whole_self = where_true(self_zero, self, 1.0);
    const Var without_self = c_.call(op_, {whole_self, c_.input(1), src}, attrs);
    const Var grad_self = c_.call("div", {c_.call("mul", {grad, without_self}), whole_self});
    const Var zero = c_.call("eq", {src, like(src, 0.0)});
    const Var zeros = gather(add(like(self, 0.0), as_number(zero)));
    const Var lone = c_.call("logical_and", {zero, c_.call("eq", {zeros, like(zeros, 1.0)})});
    const Var without = c_.call(op_, {self, c_.input(1), where_true(lone, src, 1.0)}, attrs);
    const Var by_division =
        c_.call("div", {gather(c_.call("mul", {grad, c_.output(0)})), where_true(zero, src, 1.0)});
    const Var anew = gather(c_.call("mul", {grad, without}));
    return {kept(grad_self), Var{}, at_source(c_.call("where", {lone, anew, by_division}))};
  }

  GradContext& c_;
  Addressing by_;
  bool include_;
  std::string_view op_ = by_.gather == kScatter.gather ? "scatter_reduce" : "index_reduce";
};

// ---- rules ----

/// In the order of kReductions, with self and then without.
std::vector<std::string> rules_of(const std::string& operands, bool in_place) {
  const std::string head = operands + (in_place ? " -> &A *g | " : " -> *g | ");
  return {head + "g#:own i:sum | lin A+C",
          head + "g#:own i! | lin A | prod A*C",
          head + "g#:own i! | lin A+C",
          head + "g#:own i:max | max A,C | mono A",
          head + "g#:own i:min | min A,C | mono A",
          head + "g#:own i! | lin A+C | mono A",
          head + "g#:own i! | aff A | prod A*C | mono A",
          head + "g#:own i! | lin A+C | mono A",
          head + "g#:own i! | max A,C | mono A",
          head + "g#:own i! | min A,C | mono A"};
}

std::size_t choose_rule(const Attrs& attrs) {
  return reduction_of(attrs) + (attrs.get_bool("include_self") ? 0 : std::size(kReductions));
}

std::vector<Sample> reduce_samples(const std::vector<std::vector<Shape>>& shapes, const Shape& dims,
                                   std::size_t first) {
  std::vector<Sample> samples;
  for (std::size_t r = first; r < std::size(kReductions); ++r) {
    for (const bool include : {true, false}) {
      for (std::size_t i = 0; i < shapes.size(); ++i) {
        if (i > 0 && include == ((r + i) % 2 == 0)) continue;
        const std::int64_t size = shapes[i][0][static_cast<std::size_t>(dims[i])];
        samples.push_back({.shapes = shapes[i],
                           .attrs = {{"dim", dims[i]},
                                     {"reduce", std::string(kReductions[r])},
                                     {"include_self", include}},
                           .dtypes = {kF, kI, kF},
                           .below = {2, size, 2}});
      }
    }
  }
  return samples;
}

void add_reduce(OpTable& table, OpDef def, const std::string& operands) {
  def.declined = {
      "P(prod), S, S -> P(prod); P(max), S, S -> P(max); P(min), S, S -> P(min): beside cut "
      "updates "
      "the notation carries a Partial self for sums only; self is reduced first",
      "P(max), R, R; P(min), R, R: where sums of updates are infinite, a rank that holds the "
      "opposite infinity of self, as one without elements does, gives NaN",
      "P(avg), R, R -> P(avg): the gradient asks which element the result is, and an average of "
      "equal numbers may round"};
  def.finite = {2};
  OpDef in_place = def;
  ops::use_rule_cases(def, rules_of(operands, false), choose_rule);
  table.must_add(std::move(def));
  in_place.name += "_";
  in_place.doc += " In place.";
  in_place.gradient = nullptr;
  in_place.saved_inputs.clear();
  in_place.saved_outputs.clear();
  ops::use_rule_cases(in_place, rules_of(operands, true), choose_rule);
  in_place.rule = operands + " -> &A *g | g#:own i!";
  table.must_add(std::move(in_place));
}

}  // namespace

void add_index_reduce_ops(OpTable& table) {
  const std::vector<AttrDef> attrs = {ops::int_attr("dim"),
                                      {"reduce", AttrDef::Type::kString, {}},
                                      ops::bool_attr("include_self", true)};
  add_reduce(table,
             {.name = "scatter_reduce",
              .doc = "self with src[.., i, ..] combined (sum, prod, mean, amax, amin) into [.., "
                     "index[.., i, ..], ..] along a dim, with self's element or without it.",
              .args = {in("self"), in("index"), in("src")},
              .attrs = attrs,
              .rule = "",
              .kernel = run_reduce,
              .infer = infer_scatter_reduce,
              .gradient = [](GradContext& c) { return ReduceGradient(c, kScatter).run(); },
              .saved_inputs = {0, 1, 2},
              .saved_outputs = {0},
              .samples = reduce_samples({{{8, 6}, {8, 7}, {8, 7}}, {{5, 3}, {8, 2}, {9, 3}}},
                                        {1, 0}, kSum)},
             "*g@dim, *i@dim, *i@dim");
  add_reduce(
      table,
      {.name = "index_reduce",
       .doc = "self with slices of source combined (prod, mean, amax, amin) into those at a "
              "1-D index of a dim, with self's slice or without it.",
       .args = {in("self"), in("index"), in("source")},
       .attrs = attrs,
       .rule = "",
       .kernel = run_reduce,
       .infer = infer_index_reduce,
       .gradient = [](GradContext& c) { return ReduceGradient(c, kSlices).run(); },
       .saved_inputs = {0, 1, 2},
       .saved_outputs = {0},
       .samples = reduce_samples({{{8, 6}, {9}, {9, 6}}, {{5, 3}, {7}, {5, 7}}}, {0, 1}, kProd)},
      "*g@dim, i, *i@dim");
}

}  // namespace tessera
