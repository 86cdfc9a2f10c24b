#include "strategies/ops/pointwise/pointwise.h"

#include <algorithm>
#include <array>
#include <optional>

#include "kernels/elementwise.h"
#include "kernels/elementwise_ops.h"
#include "kernels/pointwise.h"

namespace tessera::ops {
namespace {

using kernels::Binary;
using kernels::Unary;

constexpr std::size_t kMaxParams = 4;
constexpr const char* kParamNames[] = {"a", "b", "c"};

/// The attributes as numbers, in order.
std::array<double, kMaxParams> params_of(const Attrs& attrs) {
  std::array<double, kMaxParams> params{};
  std::size_t i = 0;
  for (const auto& [name, value] : attrs) {
    if (i == kMaxParams) break;
    if (const bool* flag = std::get_if<bool>(&value)) params[i] = *flag ? 1.0 : 0.0;
    if (std::holds_alternative<std::int64_t>(value) || std::holds_alternative<double>(value)) {
      params[i] = attrs.get_double(name);
    }
    ++i;
  }
  return params;
}

/// What an op runs, and on how many operands.
struct Function {
  int num_operands;
  Kernel kernel;
};

template <class Op, std::size_t size>
std::optional<Op> find_in(const kernels::functions::Listed (&list)[size], std::string_view name) {
  for (std::size_t i = 0; i < size; ++i) {
    if (list[i].name == name) return static_cast<Op>(i);
  }
  return std::nullopt;
}

Function function_of(const Unary op) {
  return {
      1, [op](KernelCall& call) { kernels::unary(call.ctx, op, call.inputs[0], call.outputs[0]); }};
}
Function function_of(const Binary op) {
  return {2, [op](KernelCall& call) {
            kernels::binary(call.ctx, op, call.inputs[0], call.inputs[1], call.outputs[0]);
          }};
}
Function with_number(const Binary op) {
  return {1, [op](KernelCall& call) {
            kernels::binary_scalar(call.ctx, op, call.inputs[0], params_of(call.attrs)[0],
                                   call.outputs[0]);
          }};
}
Function function_of(const kernels::Pointwise& function) {
  return {function.num_operands, [&function](KernelCall& call) {
            const std::array<double, kMaxParams> params = params_of(call.attrs);
            kernels::pointwise(call.ctx, function, call.inputs, params, call.outputs[0]);
          }};
}

Function function_of(const std::string& name) {
  using namespace kernels::functions;
  if (!kernels::has_pointwise_function(name)) {
    if (const auto unary = find_in<Unary>(kUnaryList, name)) return function_of(*unary);
    if (const auto binary = find_in<Binary>(kBinaryList, name)) return function_of(*binary);
    const std::string of_two = name.substr(0, name.rfind("_scalar"));
    if (const auto binary = find_in<Binary>(kBinaryList, of_two)) return with_number(*binary);
  }
  return function_of(kernels::pointwise_function(name));
}

std::string slope_name(const std::string& function, int operand) {
  return function + "'" + std::to_string(operand);
}

std::vector<std::vector<Shape>> shapes_of(int num_operands) {
  if (num_operands == 1) return {{{8, 6}}, {{5, 3}}, {{6, 1, 7}}};
  if (num_operands == 2) return {{{8, 6}, {8, 6}}, {{5, 3}, {3}}, {{7, 1, 6}, {6, 1}}};
  return {{{8, 6}, {8, 6}, {8, 6}}, {{5, 3}, {3}, {5, 1}}, {{7, 6}, {7, 6}, {7, 6}}};
}

std::vector<ArgDef> args_of(int num_operands) {
  if (num_operands == 1) return {in("self")};
  if (num_operands == 2) return {in("self"), in("other")};
  return {in("self"), in("other"), in("third")};
}

void set_attrs(std::vector<Sample>& samples, const std::vector<Attrs>& variants) {
  if (variants.empty()) return;
  while (samples.size() < variants.size()) samples.push_back(samples[0]);
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i].attrs = variants[i % variants.size()];
}

/// The gradient that the definition gives, or that the lists have slopes for.
void set_gradient(OpDef& op, const PointwiseDef& def, int num_operands) {
  if (const BySaved of = def.by_input) {
    op.gradient = [of](GradContext& c) -> std::vector<Var> { return {of(c, c.input(0))}; };
    op.saved_inputs = {0};
  } else if (const BySaved of_result = def.by_output) {
    op.gradient = [of_result](GradContext& c) -> std::vector<Var> {
      return {of_result(c, c.output(0))};
    };
    op.saved_outputs = {0};
  } else if (!op.gradient && kernels::has_pointwise_function(slope_name(def.name, 0))) {
    op.gradient = pointwise_gradient(def.name);
    for (int i = 0; i < num_operands; ++i) op.saved_inputs.push_back(i);
  }
}

/// Samples with values in `range`, differentiated where the op has a gradient.
void fit_samples(OpDef& op, Range range) {
  for (Sample& sample : op.samples) {
    sample.differentiable = op.gradient != nullptr;
    if (range.low == Range().low && range.high == Range().high) continue;
    sample.adjust = [range](int, const Shape&, std::vector<double>& values) {
      move_to(range, values);
    };
  }
}

/// The result in A's storage; clauses under which A's own kind would change are of no use.
std::string in_place_rule(const std::string& rule) {
  std::string result;
  for (std::size_t at = 0; at < rule.size();) {
    const std::size_t end = std::min(rule.find(" | ", at), rule.size());
    const std::string clause = rule.substr(at, end - at);
    if (clause.find("anti") != 0) result += (at == 0 ? "" : " | ") + clause;
    at = end + 3;
  }
  return result.insert(result.find("->") + 2, " &A");
}

/// "P(max), R -> P(max)": whether A stays what it was; so it does where no result is named.
bool keeps_self(const std::string& row) {
  const std::size_t arrow = row.find("-> ");
  if (arrow == std::string::npos) return true;
  const std::string self = row.substr(0, row.find_first_of(", "));
  return row.substr(arrow + 3, self.size()) == self;
}

/// Without rows whose result is of another kind than A: they are none of the in-place form.
std::vector<std::string> in_place_declines(const std::vector<std::string>& declined) {
  std::vector<std::string> kept;
  for (const std::string& decline : declined) {
    const std::size_t colon = decline.find(": ");
    std::string rows;
    for (std::size_t at = 0; at < colon;) {
      const std::size_t end = std::min(decline.find("; ", at), colon);
      const std::string row = decline.substr(at, end - at);
      if (keeps_self(row)) rows += (rows.empty() ? "" : "; ") + row;
      at = end + 2;
    }
    if (!rows.empty()) kept.push_back(rows + decline.substr(colon));
  }
  return kept;
}

}  // namespace

Kernel pointwise_kernel(const std::string& name) { return function_of(name).kernel; }

Gradient pointwise_gradient(std::string name) {
  return [name = std::move(name)](GradContext& c) {
    constexpr const char* kOps[] = {"pointwise_grad", "pointwise_grad_of_two",
                                    "pointwise_grad_of_three"};
    const std::array<double, kMaxParams> params = params_of(c.attrs());
    const auto count = static_cast<std::size_t>(c.num_inputs());
    std::vector<Var> grads(count);
    for (int i = 0; i < c.num_inputs(); ++i) {
      if (!c.needs(i)) continue;
      Attrs attrs = {{"function", slope_name(name, i)}};
      for (std::size_t p = 0; p < std::size(kParamNames); ++p) attrs.set(kParamNames[p], params[p]);
      std::vector<Var> operands = {c.cotangent(0)};
      for (int k = 0; k < c.num_inputs(); ++k) operands.push_back(c.input(k));
      const Var grad = c.call_all(kOps[count - 1], operands, attrs)[0];
      grads[static_cast<std::size_t>(i)] = grad_like(c, grad, i);
    }
    return grads;
  };
}

std::vector<Var> zero_gradient(GradContext& context) {
  return std::vector<Var>(static_cast<std::size_t>(context.num_inputs()));
}

Var times(GradContext& c, Var value, double factor) {
  const Var grad = c.call("mul", {c.cotangent(0), value});
  return factor == 1.0 ? grad : c.call("mul_scalar", {grad}, {{"value", factor}});
}

std::vector<Var> cotangent_gradient(GradContext& context) { return {context.cotangent(0)}; }

void move_to(Range range, std::vector<double>& values) {
  if (values.empty()) return;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const double from = *least;
  const double width = std::max(*most - from, 1e-3);
  const double room = range.high - range.low;
  for (double& value : values) {
    value = range.low + room * (0.05 + 0.9 * (value - from) / width);
  }
}

std::vector<Sample> samples_of(const std::vector<std::vector<Shape>>& shapes) {
  std::vector<Sample> samples;
  for (const std::vector<Shape>& each : shapes) samples.push_back({.shapes = each});
  return samples;
}

OpDef pointwise_op(const PointwiseDef& def) {
  const auto [num_operands, kernel] = function_of(def.function.empty() ? def.name : def.function);
  const bool has_samples = !def.samples.empty();
  OpDef op = {.name = def.name,
              .doc = def.doc,
              .args = def.args.empty() ? args_of(num_operands) : def.args,
              .attrs = def.attrs,
              .rule = def.rule,
              .kernel = kernel,
              .infer = def.infer,
              .gradient = def.gradient,
              .saved_inputs = def.saved_inputs,
              .saved_outputs = def.saved_outputs,
              .finite = def.finite,
              .declined = def.declined,
              .samples = has_samples ? def.samples : samples_of(shapes_of(num_operands))};
  set_attrs(op.samples, def.attr_samples);
  set_gradient(op, def, num_operands);
  if (!has_samples) fit_samples(op, def.range);
  return op;
}

void add_pointwise(OpTable& table, std::initializer_list<PointwiseDef> defs) {
  for (const PointwiseDef& def : defs) table.must_add(pointwise_op(def));
}

OpDef integer_op(const PointwiseDef& def, std::int64_t below) {
  OpDef op = pointwise_op(def);
  constexpr DType kTypes[] = {DType::kI64, DType::kI32, DType::kU8};
  for (std::size_t i = 0; i < op.samples.size(); ++i) {
    Sample& sample = op.samples[i];
    sample.dtypes.assign(op.args.size(), kTypes[i % std::size(kTypes)]);
    sample.below.assign(op.args.size(), below);
    sample.differentiable = false;
  }
  return op;
}

OpDef in_place_form(const OpDef& functional) {
  OpDef op = functional;
  op.name += "_";
  op.doc += " In place.";
  op.rule = in_place_rule(functional.rule);
  op.declined = in_place_declines(functional.declined);
  const Infer infer_result = functional.infer;
  op.infer = [infer_result](std::span<const TensorMeta> inputs,
                            const Attrs& attrs) -> StatusOr<std::vector<TensorMeta>> {
    TSR_ASSIGN_OR_RETURN(auto out, infer_result(inputs, attrs));
    const TensorMeta operands[] = {inputs[0], out[0]};
    return infer_in_place(operands, attrs);
  };
  const bool reads_self =
      std::find(op.saved_inputs.begin(), op.saved_inputs.end(), 0) != op.saved_inputs.end();
  if (reads_self) {
    op.gradient = nullptr;
    op.saved_inputs.clear();
  }
  std::erase_if(op.samples, [](const Sample& sample) {
    Shape all = sample.shapes[0];
    for (const Shape& shape : sample.shapes) all = value_or_throw(broadcast(all, shape));
    return all != sample.shapes[0];
  });
  return op;
}

void add_in_place_forms(OpTable& table, std::initializer_list<std::string_view> functionals) {
  for (const std::string_view name : functionals) {
    table.must_add(in_place_form(value_or_throw(table.find(name))->def));
  }
}

}  // namespace tessera::ops
