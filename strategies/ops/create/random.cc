// Random values in place. An element's value depends on seed, stream and its index in the whole
// tensor only, so every placement holds the same numbers.
#include "kernels/random.h"

#include "strategies/ops/create/random_fill.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

using kernels::Distribution;
using kernels::RandomSpec;

/// The distribution that attributes state, for elements of a dtype.
using SpecOf = RandomSpec (*)(const Attrs& attrs, DType dtype);

OpDef random_op(std::string name, std::string doc, std::vector<AttrDef> attrs, SpecOf spec_of) {
  const Attrs sample = {{"seed", 17}, {"stream", -5}};
  return {.name = std::move(name),
          .doc = std::move(doc),
          .args = {in("self")},
          .attrs = ops::with_seed(std::move(attrs)),
          .rule = "* -> &A * | aff A | mono A",
          .kernel =
              [spec_of](KernelCall& call) {
                const Array& out = call.outputs[0];
                ops::fill_random(call, spec_of(call.attrs, out.dtype()), out);
              },
          .infer = [spec_of](std::span<const TensorMeta> inputs,
                             const Attrs& attrs) -> StatusOr<std::vector<TensorMeta>> {
            const DType dtype = inputs[0].dtype;
            TSR_RETURN_IF_ERROR(kernels::check_random(spec_of(attrs, dtype), dtype));
            return ops::infer_in_place(inputs, attrs);
          },
          .gradient = [](GradContext&) -> std::vector<Var> { return {Var{}}; },
          .samples = {{.shapes = {{8, 6}}, .attrs = sample, .differentiable = false},
                      {.shapes = {{5, 3}}, .attrs = sample, .differentiable = false}}};
}

void add_random(OpTable& table, std::string name, std::string doc, std::vector<AttrDef> attrs,
                SpecOf spec_of) {
  table.must_add(random_op(std::move(name), std::move(doc), std::move(attrs), spec_of));
}

void add_skewed(OpTable& table) {
  add_random(table, "log_normal_", "Values whose logarithms are normal.",
             {ops::double_attr("mean", 1.0), ops::double_attr("std", 2.0)},
             [](const Attrs& attrs, DType) {
               return RandomSpec{.distribution = Distribution::kLogNormal,
                                 .a = attrs.get_double("mean"),
                                 .b = attrs.get_double("std")};
             });
  add_random(table, "exponential_", "Exponential values of rate `lambd`.",
             {ops::double_attr("lambd", 1.0)}, [](const Attrs& attrs, DType) {
               return RandomSpec{.distribution = Distribution::kExponential,
                                 .a = attrs.get_double("lambd")};
             });
  add_random(table, "cauchy_", "Cauchy values.",
             {ops::double_attr("median", 0.0), ops::double_attr("sigma", 1.0)},
             [](const Attrs& attrs, DType) {
               return RandomSpec{.distribution = Distribution::kCauchy,
                                 .a = attrs.get_double("median"),
                                 .b = attrs.get_double("sigma")};
             });
}

/// Where random_ ends by default: what a dtype holds, up to 2^24, which F32 holds exactly.
double end_of(DType dtype) {
  if (dtype == DType::kBool) return 2.0;
  return dtype == DType::kU8 ? 256.0 : 0x1p24;
}

void add_discrete(OpTable& table) {
  OpDef bernoulli = random_op("bernoulli_.float", "1 with probability p, else 0, in place.",
                              {ops::double_attr("p", 0.5)}, [](const Attrs& attrs, DType) {
                                return RandomSpec{.distribution = Distribution::kBernoulli,
                                                  .a = attrs.get_double("p")};
                              });
  bernoulli.rule += " | prod A";  // 0 and 1 are their own powers
  table.must_add(std::move(bernoulli));
  add_random(table, "geometric_", "Tries until the first success of probability p, from 1.",
             {ops::double_attr("p", 0.5)}, [](const Attrs& attrs, DType) {
               return RandomSpec{.distribution = Distribution::kGeometric,
                                 .a = attrs.get_double("p")};
             });
  add_random(
      table, "random_", "Integers in [from, to); to is by default 2^24, or what BOOL and U8 hold.",
      {ops::int_attr("from", 0), ops::int_attr_or_none("to")}, [](const Attrs& attrs, DType dtype) {
        return RandomSpec{.distribution = Distribution::kInteger,
                          .a = attrs.get_double("from"),
                          .b = attrs.get_double_or("to", end_of(dtype))};
      });
}

}  // namespace

void add_random_ops(OpTable& table) {
  add_skewed(table);
  add_discrete(table);
  add_random(table, "uniform_", "Uniform values in [from, to).",
             {ops::double_attr("from", 0.0), ops::double_attr("to", 1.0)},
             [](const Attrs& attrs, DType) {
               return RandomSpec{.distribution = Distribution::kUniform,
                                 .a = attrs.get_double("from"),
                                 .b = attrs.get_double("to")};
             });
  add_random(table, "normal_", "Normal values.",
             {ops::double_attr("mean", 0.0), ops::double_attr("std", 1.0)},
             [](const Attrs& attrs, DType) {
               return RandomSpec{.distribution = Distribution::kNormal,
                                 .a = attrs.get_double("mean"),
                                 .b = attrs.get_double("std")};
             });
  add_random(table, "truncated_normal_", "Normal values kept inside [low, high].",
             {ops::double_attr("mean", 0.0), ops::double_attr("std", 1.0),
              ops::double_attr("low", -2.0), ops::double_attr("high", 2.0)},
             [](const Attrs& attrs, DType) {
               return RandomSpec{.distribution = Distribution::kTruncatedNormal,
                                 .a = attrs.get_double("mean"),
                                 .b = attrs.get_double("std"),
                                 .low = attrs.get_double("low"),
                                 .high = attrs.get_double("high")};
             });
}

}  // namespace tessera
