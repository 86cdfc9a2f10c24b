#include "strategies/verify/verify_gradient.h"

#include <algorithm>
#include <cmath>

#include "kernels/elementwise.h"
#include "strategies/rules/local_op.h"

namespace tessera {
namespace {

bool contains(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

/// A gradient's calls run at once, on whole arrays.
class PlainGradient : public GradContext {
 public:
  PlainGradient(const OpTable& table, const Op& op, const Attrs& attrs)
      : table_(table), op_(op), attrs_(attrs) {}

  std::vector<Array> forward_inputs;
  std::vector<Array> forward_outputs;
  std::vector<Array> cotangents;  ///< null where nothing flows back

  Var input(int i) override {
    if (!contains(op_.def.saved_inputs, i)) {
      throw Error(internal_error("its gradient reads operand " + std::to_string(i) +
                                 ", which saved_inputs does not list"));
    }
    return add(forward_inputs[static_cast<std::size_t>(i)]);
  }
  Var output(int i) override {
    if (!contains(op_.def.saved_outputs, i)) {
      throw Error(internal_error("its gradient reads result " + std::to_string(i) +
                                 ", which saved_outputs does not list"));
    }
    return add(forward_outputs[static_cast<std::size_t>(i)]);
  }
  Var cotangent(int i) override { return add(cotangents[static_cast<std::size_t>(i)]); }
  const Attrs& attrs() const override { return attrs_; }
  int num_inputs() const override { return static_cast<int>(forward_inputs.size()); }
  bool needs(int i) const override {
    const Array& array = forward_inputs[static_cast<std::size_t>(i)];
    return !array.is_null() && is_floating(array.dtype());
  }
  const Shape& input_shape(int i) const override {
    return forward_inputs[static_cast<std::size_t>(i)].shape();
  }
  DType input_dtype(int i) const override {
    return forward_inputs[static_cast<std::size_t>(i)].dtype();
  }
  const Shape& output_shape(int i) const override {
    return forward_outputs[static_cast<std::size_t>(i)].shape();
  }
  const Shape& shape(Var value) const override { return array(value).shape(); }
  DType dtype(Var value) const override { return array(value).dtype(); }
  std::vector<Var> call_all(std::string_view name, std::span<const Var> operands,
                            const Attrs& attrs) override {
    const Op& called = *value_or_throw(table_.find(name));
    std::vector<Array> inputs;
    for (const Var operand : operands) {
      inputs.push_back(operand.defined() ? array(operand) : Array());
    }
    const Attrs complete = value_or_throw(complete_attrs(called, attrs));
    std::vector<Var> results;
    for (const Array& result : run_plain(called, inputs, complete)) results.push_back(add(result));
    return results;
  }

  const Array& array(Var value) const { return arrays_[static_cast<std::size_t>(value.id)]; }

 private:
  Var add(const Array& array) {
    if (array.is_null()) return {};
    arrays_.push_back(array);
    return {static_cast<int>(arrays_.size()) - 1};
  }

  const OpTable& table_;
  const Op& op_;
  const Attrs& attrs_;
  std::vector<Array> arrays_;
};

/// Σ cotangent · result over the floating results.
double weighted_sum(std::span<const Array> outputs, std::span<const std::vector<double>> weights) {
  double sum = 0.0;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    if (weights[o].empty()) continue;
    const std::vector<double> values = outputs[o].to_vector();
    for (std::size_t e = 0; e < values.size(); ++e) sum += weights[o][e] * values[e];
  }
  return sum;
}

}  // namespace

std::vector<Array> arrays_of(std::span<const WholeTensor> operands) {
  std::vector<Array> arrays;
  for (const WholeTensor& operand : operands) arrays.push_back(array_of(operand));
  return arrays;
}

std::vector<Array> run_plain(const Op& op, std::span<const Array> inputs, const Attrs& attrs) {
  std::vector<Spec> specs;
  specs.reserve(inputs.size());
  std::vector<const Spec*> pointers;
  for (const Array& input : inputs) {
    specs.push_back(input.is_null() ? Spec() : Spec::plain(input.shape(), input.dtype()));
    pointers.push_back(input.is_null() ? nullptr : &specs.back());
  }
  Resolution resolution = value_or_throw(propagate(op, pointers, attrs));
  const LocalOp local = LocalOp::make(op, std::move(resolution), attrs, {});
  KernelContext ctx;
  std::vector<Array> own(inputs.begin(), inputs.end());
  for (const int aliased : op.in_place) {
    if (aliased < 0) continue;
    const Array& given = inputs[static_cast<std::size_t>(aliased)];
    Array copy = Array::empty(given.shape(), given.dtype());
    kernels::copy(ctx, given, copy);
    own[static_cast<std::size_t>(aliased)] = std::move(copy);
  }
  std::vector<Array> outputs(local.resolution().outputs.size());
  local.run(ctx, own, outputs);
  return outputs;
}

GradientAt::GradientAt(const OpTable& table, const Op& op, const Attrs& attrs,
                       std::vector<Array> operands)
    : table_(table), op_(op), attrs_(attrs), operands_(std::move(operands)) {
  operands_.resize(std::max(operands_.size(), op.def.args.size()));
  results_ = run_plain(op, operands_, attrs);
}

std::vector<Array> GradientAt::run(std::span<const Array> cotangents) const {
  PlainGradient context(table_, op_, attrs_);
  context.forward_inputs = operands_;
  context.forward_outputs = results_;
  context.cotangents.assign(cotangents.begin(), cotangents.end());
  std::vector<Array> gradients(operands_.size());
  const std::vector<Var> vars = op_.def.gradient(context);
  for (std::size_t i = 0; i < std::min(vars.size(), gradients.size()); ++i) {
    if (vars[i].defined()) gradients[i] = context.array(vars[i]);
  }
  return gradients;
}

std::vector<std::vector<double>> GradientAt::run(
    std::span<const std::vector<double>> cotangents) const {
  std::vector<Array> arrays(results_.size());
  for (std::size_t o = 0; o < results_.size(); ++o) {
    if (cotangents[o].empty()) continue;
    arrays[o] = Array::from_values(results_[o].shape(), results_[o].dtype(), cotangents[o]);
  }
  std::vector<std::vector<double>> gradients;
  for (const Array& gradient : run(arrays)) {
    std::vector<double>& values = gradients.emplace_back();
    if (!gradient.is_null()) values = gradient.to_vector();
  }
  return gradients;
}

std::vector<Array> gradients_of(const OpTable& table, const Op& op, const Attrs& attrs,
                                std::span<const Array> operands,
                                const std::function<Array(const Array& result)>& cotangent_of) {
  const GradientAt gradient(table, op, attrs, {operands.begin(), operands.end()});
  std::vector<Array> cotangents;
  for (const Array& result : gradient.results()) {
    cotangents.push_back(is_floating(result.dtype()) ? cotangent_of(result) : Array());
  }
  return gradient.run(cotangents);
}

std::string gradient_error(const OpTable& table, const Op& op, const Attrs& attrs,
                           std::span<const WholeTensor> operands, VerifyRandom& random) {
  PlainGradient context(table, op, attrs);
  context.forward_inputs = arrays_of(operands);
  while (context.forward_inputs.size() < op.def.args.size()) {
    context.forward_inputs.emplace_back();  // optional operands that the sample leaves out
  }
  context.forward_outputs = run_plain(op, context.forward_inputs, attrs);
  std::vector<std::vector<double>> weights;
  for (const Array& output : context.forward_outputs) {
    std::vector<double>& weight = weights.emplace_back();
    Array& cotangent = context.cotangents.emplace_back();
    if (!is_floating(output.dtype())) continue;
    std::uniform_real_distribution<double> draw(-1.0, 1.0);
    for (std::int64_t e = 0; e < output.num_elements(); ++e) weight.push_back(draw(random));
    cotangent = Array::from_values(output.shape(), output.dtype(), weight);
  }
  const std::vector<Var> grads = op.def.gradient(context);
  std::vector<WholeTensor> moved(operands.begin(), operands.end());
  constexpr double kStep = 1e-5;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!is_floating(operands[i].dtype)) continue;
    const Var grad = i < grads.size() ? grads[i] : Var{};
    std::vector<double> analytic(operands[i].values.size(), 0.0);
    if (grad.defined()) {
      if (context.shape(grad) != operands[i].shape) {
        return "the cotangent of operand " + std::to_string(i) + " has shape " +
               to_string(context.shape(grad)) + ", the operand " + to_string(operands[i].shape);
      }
      analytic = context.array(grad).to_vector();
    }
    for (std::size_t e = 0; e < analytic.size(); ++e) {
      const auto loss = [&](double step) {
        moved[i].values[e] = operands[i].values[e] + step;
        std::vector<Array> arrays = arrays_of(moved);
        arrays.resize(context.forward_inputs.size());
        return weighted_sum(run_plain(op, arrays, attrs), weights);
      };
      const double numeric = (loss(kStep) - loss(-kStep)) / (2.0 * kStep);
      moved[i].values[e] = operands[i].values[e];
      const double allowed = 1e-6 * std::max({1.0, std::abs(numeric), std::abs(analytic[e])});
      if (!(std::abs(numeric - analytic[e]) <= allowed)) {
        return "operand " + std::to_string(i) + ", element " + std::to_string(e) +
               ": the gradient says " + std::to_string(analytic[e]) + ", differences say " +
               std::to_string(numeric);
      }
    }
  }
  return "";
}

}  // namespace tessera
