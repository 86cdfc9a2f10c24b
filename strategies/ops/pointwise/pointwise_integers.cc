// Bits, divisors and shifts: integers only.
#include "kernels/elementwise.h"
#include "strategies/ops/pointwise/pointwise.h"

namespace tessera {
namespace {

using ops::PointwiseDef;

StatusOr<std::vector<TensorMeta>> infer_integers(std::span<const TensorMeta> inputs,
                                                 const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(auto out, ops::infer_elementwise(inputs, attrs));
  if (is_floating(out[0].dtype)) {
    return invalid_argument("dtype " + std::string(name_of(out[0].dtype)) +
                            " where integers or BOOL are needed; cast with `to` first");
  }
  return out;
}

constexpr std::int64_t kBelow = 7;  // of samples

void add(OpTable& table, PointwiseDef def) {
  def.infer = infer_integers;
  table.must_add(ops::integer_op(def, kBelow));
}

StatusOr<std::vector<TensorMeta>> infer_multiples(std::span<const TensorMeta> inputs,
                                                  const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(auto out, infer_integers(inputs, attrs));
  if (out[0].dtype != DType::kBool) return out;
  return invalid_argument("both are BOOL, whose values have no divisors; cast with `to` first");
}

void add_of_multiples(OpTable& table, PointwiseDef def) {
  def.rule = "*, * -> *";
  def.infer = infer_multiples;
  table.must_add(ops::integer_op(def, kBelow));
}

/// Of BOOL the one bit is turned over, not those of the word that holds it.
void run_not(KernelCall& call) {
  static const Kernel kOfIntegers = ops::pointwise_kernel("bitwise_not");
  if (call.inputs[0].dtype() != DType::kBool) return kOfIntegers(call);
  kernels::unary(call.ctx, kernels::Unary::kLogicalNot, call.inputs[0], call.outputs[0]);
}

void add_not(OpTable& table) {
  OpDef op = ops::integer_op({.name = "bitwise_not",
                              .doc = "All bits turned over: -x - 1; true and false of BOOL.",
                              .rule = "* -> * | anti A",
                              .infer = infer_integers},
                             kBelow);
  op.kernel = run_not;
  op.samples.push_back({.shapes = {{8, 6}}, .dtypes = {DType::kBool}, .differentiable = false});
  table.must_add(std::move(op));
}

void add_with_scalar(OpTable& table, std::string name, std::string doc) {
  add(table, {.name = std::move(name),
              .doc = std::move(doc),
              .rule = "* -> *",
              .attrs = {ops::int_attr("value").with(AttrDef::Number::kElement)},
              .attr_samples = {{{"value", 5}}, {{"value", 2}}, {{"value", 5}}}});
}

/// BOOL has no bits to shift.
void add_shifts(OpTable& table) {
  const std::vector<ArgDef> args = {in("self").integers(), in("other").integers()};
  add(table,
      {.name = "bitwise_left_shift",
       .doc = "self times 2 to the power of other; bits leave at the top, all of them beyond the "
              "word.",
       .rule = "*, * -> * | lin A",
       .args = args,
       .declined = {
           "P(max), _; P(min), _; _, P(max); _, P(min): what leaves at the top breaks the order"}});
  add(table, {.name = "bitwise_right_shift",
              .doc = "self over 2 to the power of other, rounded towards -inf.",
              .rule = "*, * -> * | mono A",
              .args = args,
              .declined = {
                  "R, P(min) -> P(max); R, P(max) -> P(min): of a negative number less is left"}});
}

}  // namespace

void add_pointwise_integers_ops(OpTable& table) {
  const char plain[] = "*, * -> *";
  add_not(table);
  add(table, {.name = "bitwise_and", .doc = "Bits set in both.", .rule = plain});
  add(table, {.name = "bitwise_or", .doc = "Bits set in one.", .rule = plain});
  add(table, {.name = "bitwise_xor", .doc = "Bits set in one but not in both.", .rule = plain});
  add_shifts(table);
  add_of_multiples(
      table,
      {.name = "gcd",
       .doc = "Greatest common divisor; that of 0 and 0 is 0.",
       .declined = {"P(prod), R -> P(prod); R, P(prod) -> P(prod): factors may share a divisor"}});
  add_of_multiples(
      table,
      {.name = "lcm", .doc = "Least common multiple; 0 where one is 0. It wraps, as products do."});
  add_with_scalar(table, "bitwise_and_scalar", "Bits set in both self and `value`.");
  add_with_scalar(table, "bitwise_or_scalar", "Bits set in self or `value`.");
  add_with_scalar(table, "bitwise_xor_scalar", "Bits set in self or `value` but not in both.");
  ops::add_in_place_forms(table, {"bitwise_not", "bitwise_and", "bitwise_or", "bitwise_xor"});
}

}  // namespace tessera
