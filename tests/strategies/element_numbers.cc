// A number given as an attribute that meets elements of a tensor is one that its dtype holds, or
// the call is refused: by all ops alike.
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "tests/strategies/ops_call.h"

namespace tessera {
namespace {

using Catch::Contains;
using testing::builtin_table;
using testing::call_values;
using testing::ints;
using testing::reals;
using testing::refusal_of;
using Values = std::vector<double>;

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNaN = std::numeric_limits<double>::quiet_NaN();

/// A call of one number on operands that are of `dtype` where the op takes integers.
struct NumberCall {
  std::string op;
  std::string attr;
  std::vector<Shape> shapes;
  std::map<int, DType> fixed = {};  ///< operands of a dtype of their own
  Attrs others = {};
};
const std::vector<NumberCall>& number_calls() {
  static const std::vector<NumberCall> kCalls = {
      {"add_scalar", "value", {{4}}},
      {"add_scalar_", "value", {{4}}},
      {"sub_scalar", "value", {{4}}},
      {"mul_scalar", "value", {{4}}},
      {"mul_scalar_", "value", {{4}}},
      {"remainder_scalar", "value", {{4}}},
      {"floor_divide_scalar", "value", {{4}}},
      {"fmod_scalar", "value", {{4}}},
      {"add", "alpha", {{4}, {4}}},
      {"sub", "alpha", {{4}, {4}}},
      {"rsub", "alpha", {{4}, {4}}},
      {"where_scalar", "other", {{4}, {4}}, {{0, DType::kBool}}},
      {"masked_fill", "value", {{4}, {4}}, {{1, DType::kBool}}},
      {"masked_fill_", "value", {{4}, {4}}, {{1, DType::kBool}}},
      {"index_fill", "value", {{4}, {2}}, {{1, DType::kI64}}, {{"dim", 0}}},
      {"scatter_value", "value", {{4}, {2}}, {{1, DType::kI64}}, {{"dim", 0}}},
      {"fill_", "value", {{4}}},
      {"full_like", "fill_value", {{4}}},
      {"new_full", "fill_value", {{4}}, {}, {{"size", Shape{2}}}},
      {"constant_pad_nd", "value", {{4}}, {}, {{"pad", Shape{1, 1}}}},
      {"threshold", "value", {{4}}, {}, {{"threshold", 0.0}}},
      {"hardtanh", "max_val", {{4}}, {}, {{"min_val", 0.0}}},
      {"addcmul", "value", {{4}, {4}, {4}}},
      {"clamp", "min", {{4}}},
      {"clamp_min", "min", {{4}}},
      {"clamp_max", "max", {{4}}},
      {"arange_", "start", {{4}}},
      {"linspace_", "end", {{4}}, {}, {{"start", 0.0}}},
  };
  return kCalls;
}

std::string refused(const NumberCall& call, DType dtype, double value) {
  std::vector<TensorMeta> operands;
  for (std::size_t i = 0; i < call.shapes.size(); ++i) {
    const auto fixed = call.fixed.find(static_cast<int>(i));
    operands.push_back({call.shapes[i], fixed == call.fixed.end() ? dtype : fixed->second});
  }
  Attrs attrs = call.others;
  attrs.set(call.attr, value);
  return refusal_of(call.op, operands, attrs);
}

}  // namespace

TEST_CASE("a fraction, NaN or infinity never meets integers", "[strategies][numbers]") {
  for (const NumberCall& call : number_calls()) {
    for (const DType dtype : {DType::kI64, DType::kI32, DType::kU8}) {
      CAPTURE(call.op, call.attr, std::string(name_of(dtype)));
      CHECK(refused(call, dtype, 2.0).empty());
      CHECK_THAT(refused(call, dtype, 2.75),
                 Contains(call.op + ": " + call.attr + " is 2.75, but must be whole where "));
      CHECK_THAT(refused(call, dtype, kNaN), Contains(call.attr + " is nan, but must be whole"));
      const bool lower = call.attr == "min", upper = call.attr == "max";
      CHECK(refused(call, dtype, kInf).empty() == upper);
      CHECK(refused(call, dtype, -kInf).empty() == lower);
    }
  }
}

TEST_CASE("a number beyond an integer dtype never meets its elements", "[strategies][numbers]") {
  for (const NumberCall& call : number_calls()) {
    CAPTURE(call.op, call.attr);
    CHECK_THAT(refused(call, DType::kU8, 300), Contains("is 300, but must be from 0 to 255 where"));
    CHECK(refused(call, DType::kU8, 255).empty());
    CHECK_THAT(refused(call, DType::kI32, 0x1p40), Contains("must be from -2^31 to 2^31 - 1"));
    CHECK(refused(call, DType::kI32, 2147483647).empty());
    CHECK(refused(call, DType::kI64, 0x1p40).empty());
    CHECK_THAT(refused(call, DType::kI64, 0x1p63), Contains("must be from -2^63 to 2^63 - 1"));
  }
}

TEST_CASE("floating tensors take any number", "[strategies][numbers]") {
  const std::set<std::string> bounded = {"hardtanh"};  // its bounds must leave something
  for (const NumberCall& call : number_calls()) {
    if (bounded.contains(call.op)) continue;
    CAPTURE(call.op, call.attr);
    for (const double value : {-0.75, kInf, -kInf, kNaN, 1e300}) {
      CHECK(refused(call, DType::kF32, value).empty());
    }
  }
}

TEST_CASE("truth values are written as 0 and 1, and know no arithmetic with numbers",
          "[strategies][numbers]") {
  const std::vector<TensorMeta> truth = {{{4}, DType::kBool}};
  CHECK(refusal_of("fill_", truth, {{"value", 1.0}}).empty());
  CHECK(refusal_of("fill_", truth, {{"value", 2.0}}) ==
        "fill_: value is 2, but must be 0 or 1 where self is BOOL. [self BOOL[4]]");
  CHECK_THAT(
      refusal_of("full_like", {{{4}, DType::kF32}}, {{"fill_value", 0.5}, {"dtype", DType::kBool}}),
      Contains("fill_value is 0.5, but must be whole where the result is BOOL"));
  for (const std::string name : {"add_scalar", "sub_scalar", "mul_scalar", "remainder_scalar",
                                 "floor_divide_scalar", "fmod_scalar"}) {
    CHECK_THAT(refusal_of(name, truth, {{"value", 1.0}}),
               Contains(name + ": self is BOOL; it takes a dtype of numbers"));
  }
  CHECK_THAT(refusal_of("clamp", truth, {{"min", 0.0}}), Contains("clamp: self is BOOL"));
}

TEST_CASE("integers have no quotient by 0 that is known before the run", "[strategies][numbers]") {
  for (const std::string name : {"remainder_scalar", "floor_divide_scalar", "fmod_scalar"}) {
    CHECK_THAT(refusal_of(name, {{{4}, DType::kI64}}, {{"value", 0.0}}),
               Contains(name + ": value is 0, by which I64 has no quotient"));
    CHECK(refusal_of(name, {{{4}, DType::kF64}}, {{"value", 0.0}}).empty());
  }
}

TEST_CASE("integers are compared with fractions exactly", "[strategies][numbers]") {
  const double big = 0x1p60;
  const Array x = ints({5}, {-3, 0, 1, 2, big});
  const std::map<std::string, bool (*)(double, double)> relations = {
      {"eq_scalar", [](double a, double b) { return a == b; }},
      {"ne_scalar", [](double a, double b) { return a != b; }},
      {"lt_scalar", [](double a, double b) { return a < b; }},
      {"le_scalar", [](double a, double b) { return a <= b; }},
      {"gt_scalar", [](double a, double b) { return a > b; }},
      {"ge_scalar", [](double a, double b) { return a >= b; }}};
  for (const auto& [name, holds] : relations) {
    for (const double value : {0.5, -2.5, 1.0, 2.0, -3.0, big, 1e300, -1e300, kInf, -kInf, kNaN}) {
      Values expected;
      for (const double each : {-3.0, 0.0, 1.0, 2.0, big}) expected.push_back(holds(each, value));
      CAPTURE(name, value);
      CHECK(call_values(name, {x}, {{"value", value}}) == expected);
    }
  }
  // 2^53 + 1 is no double, but differs from 2^53 all the same.
  Array odd = Array::zeros({1}, DType::kI64);
  *odd.data<std::int64_t>() = (std::int64_t{1} << 53) + 1;
  CHECK(call_values("eq_scalar", {odd}, {{"value", 0x1p53}}) == Values{0});
  CHECK(call_values("gt_scalar", {odd}, {{"value", 0x1p53}}) == Values{1});
  Array below = Array::zeros({1}, DType::kI64);
  *below.data<std::int64_t>() = -(std::int64_t{1} << 53) - 1;
  CHECK(call_values("lt_scalar", {below}, {{"value", -0x1p53}}) == Values{1});
}

TEST_CASE("every number of an op that meets elements is declared to do so",
          "[strategies][numbers]") {
  // Doubles that no element meets: tolerances, probabilities, orders, slopes of floating ops.
  std::set<std::string> unmet;
  for (const Op* op : builtin_table().ops()) {
    const Sample& sample = op->def.samples[0];
    std::vector<TensorMeta> operands;
    for (std::size_t i = 0; i < sample.shapes.size(); ++i) {
      const bool stated = i < sample.dtypes.size() && !is_floating(sample.dtypes[i]);
      operands.push_back({sample.shapes[i], stated ? sample.dtypes[i] : DType::kI64});
    }
    while (operands.size() < op->def.args.size()) operands.emplace_back().absent = true;
    for (const AttrDef& attr : op->def.attrs) {
      if (attr.type != AttrDef::Type::kDouble) continue;
      Attrs attrs = sample.attrs;
      for (const AttrDef& other : op->def.attrs) {
        if (other.type == AttrDef::Type::kDouble) attrs.set(other.name, 2.0);
      }
      const StatusOr<Attrs> whole = complete_attrs(op->def, attrs);
      attrs.set(attr.name, 2.25);
      const StatusOr<Attrs> fraction = complete_attrs(op->def, attrs);
      if (!whole.ok() || !infer(*op, operands, *whole).ok()) continue;
      const auto results = infer(*op, operands, *fraction);
      if (results.ok() && !is_floating((*results)[0].dtype)) unmet.insert(op->def.name);
    }
  }
  // Comparisons, and what replaces a NaN or an infinity, of which integers have none.
  CHECK(unmet == std::set<std::string>{"allclose", "eq_scalar", "ge_scalar", "gt_scalar", "isclose",
                                       "le_scalar", "logspace_", "lt_scalar", "nan_to_num",
                                       "nan_to_num_", "ne_scalar"});
}

}  // namespace tessera
