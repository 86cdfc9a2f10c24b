// Random values in place. An element's value depends on seed, stream and its index in the whole
// tensor only, so every placement holds the same numbers.
#include "kernels/random.h"

#include "strategies/ops/random_fill.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

using kernels::Distribution;
using kernels::RandomSpec;

void fill_random(KernelCall& call, RandomSpec spec) {
  ops::fill_random(call, spec, call.outputs[0]);
}

OpDef random_op(std::string name, std::string doc, std::vector<AttrDef> attrs, Kernel kernel) {
  const Attrs sample = {{"seed", 17}, {"stream", -5}};
  return {.name = std::move(name),
          .doc = std::move(doc),
          .args = {in("self")},
          .attrs = ops::with_seed(std::move(attrs)),
          .rule = "* -> &A * | aff A | mono A",
          .kernel = std::move(kernel),
          .infer = ops::infer_in_place,
          .gradient = [](GradContext&) -> std::vector<Var> { return {Var{}}; },
          .samples = {{.shapes = {{8, 6}}, .attrs = sample, .differentiable = false},
                      {.shapes = {{5, 3}}, .attrs = sample, .differentiable = false}}};
}

void add_random(OpTable& table, std::string name, std::string doc, std::vector<AttrDef> attrs,
                Kernel kernel) {
  table.must_add(random_op(std::move(name), std::move(doc), std::move(attrs), std::move(kernel)));
}

void add_skewed(OpTable& table) {
  add_random(table, "log_normal_", "Values whose logarithms are normal.",
             {ops::double_attr("mean", 1.0), ops::double_attr("std", 2.0)}, [](KernelCall& call) {
               fill_random(call, {.distribution = Distribution::kLogNormal,
                                  .a = call.attrs.get_double("mean"),
                                  .b = call.attrs.get_double("std")});
             });
  add_random(table, "exponential_", "Exponential values of rate `lambd`.",
             {ops::double_attr("lambd", 1.0)}, [](KernelCall& call) {
               fill_random(call, {.distribution = Distribution::kExponential,
                                  .a = call.attrs.get_double("lambd")});
             });
  add_random(table, "cauchy_", "Cauchy values.",
             {ops::double_attr("median", 0.0), ops::double_attr("sigma", 1.0)},
             [](KernelCall& call) {
               fill_random(call, {.distribution = Distribution::kCauchy,
                                  .a = call.attrs.get_double("median"),
                                  .b = call.attrs.get_double("sigma")});
             });
}

void add_discrete(OpTable& table) {
  OpDef bernoulli = random_op("bernoulli_.float", "1 with probability p, else 0, in place.",
                              {ops::double_attr("p", 0.5)}, [](KernelCall& call) {
                                fill_random(call, {.distribution = Distribution::kBernoulli,
                                                   .a = call.attrs.get_double("p")});
                              });
  bernoulli.rule += " | prod A";  // 0 and 1 are their own powers
  table.must_add(std::move(bernoulli));
  add_random(table, "geometric_", "Tries until the first success of probability p, from 1.",
             {ops::double_attr("p", 0.5)}, [](KernelCall& call) {
               fill_random(call, {.distribution = Distribution::kGeometric,
                                  .a = call.attrs.get_double("p")});
             });
  add_random(table, "random_", "Integers in [from, to).",
             {ops::int_attr("from", 0), ops::int_attr("to", 1 << 24)}, [](KernelCall& call) {
               fill_random(call, {.distribution = Distribution::kInteger,
                                  .a = call.attrs.get_double("from"),
                                  .b = call.attrs.get_double("to")});
             });
}

}  // namespace

void add_random_ops(OpTable& table) {
  add_skewed(table);
  add_discrete(table);
  add_random(table, "uniform_", "Uniform values in [from, to).",
             {ops::double_attr("from", 0.0), ops::double_attr("to", 1.0)}, [](KernelCall& call) {
               fill_random(call, {.distribution = Distribution::kUniform,
                                  .a = call.attrs.get_double("from"),
                                  .b = call.attrs.get_double("to")});
             });
  add_random(table, "normal_", "Normal values.",
             {ops::double_attr("mean", 0.0), ops::double_attr("std", 1.0)}, [](KernelCall& call) {
               fill_random(call, {.distribution = Distribution::kNormal,
                                  .a = call.attrs.get_double("mean"),
                                  .b = call.attrs.get_double("std")});
             });
  add_random(table, "truncated_normal_", "Normal values kept inside [low, high].",
             {ops::double_attr("mean", 0.0), ops::double_attr("std", 1.0),
              ops::double_attr("low", -2.0), ops::double_attr("high", 2.0)},
             [](KernelCall& call) {
               fill_random(call, {.distribution = Distribution::kTruncatedNormal,
                                  .a = call.attrs.get_double("mean"),
                                  .b = call.attrs.get_double("std"),
                                  .low = call.attrs.get_double("low"),
                                  .high = call.attrs.get_double("high")});
             });
}

}  // namespace tessera
