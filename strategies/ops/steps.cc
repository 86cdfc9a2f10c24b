#include "strategies/ops/steps.h"

namespace tessera::ops {
namespace {

using Kind = LoweringStep::Kind;

std::vector<int> numbers_of(const Steps::Values& values) {
  std::vector<int> numbers;
  for (const Steps::Value value : values) numbers.push_back(value.number);
  return numbers;
}

}  // namespace

Steps::Values Steps::counted(int first, int count) {
  Values values;
  for (int i = 0; i < count; ++i) values.push_back({first + i});
  return values;
}

void Steps::local(const Values& in, const Values& out, Kernel kernel) {
  steps_.push_back({.kind = Kind::kLocal,
                    .in = numbers_of(in),
                    .out = numbers_of(out),
                    .kernel = std::move(kernel)});
}

void Steps::all_reduce(const Values& in, const Values& out, ReduceOp op) {
  steps_.push_back(
      {.kind = Kind::kReduce, .in = numbers_of(in), .out = numbers_of(out), .reduce = op});
}

Steps::Value Steps::gather(Value own) {
  const Value all = value();
  steps_.push_back({.kind = Kind::kGather, .in = {own.number}, .out = {all.number}, .dim = 0});
  return all;
}

Steps::Value Steps::window(Value operand, int dim, WindowFn windows) {
  const Value fetched = value();
  steps_.push_back({.kind = Kind::kWindow,
                    .in = {operand.number},
                    .out = {fetched.number},
                    .dim = dim,
                    .windows = std::move(windows)});
  return fetched;
}

std::vector<LoweringStep> window_steps(Steps steps, int dim, WindowFn windows, Kernel make) {
  Steps::Values in = steps.operands();
  in.push_back(steps.window(steps.operand(0), dim, std::move(windows)));
  steps.local(in, steps.results(), std::move(make));
  return std::move(steps).take();
}

}  // namespace tessera::ops
