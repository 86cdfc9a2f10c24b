// Operations that take element by element, and what numbers everywhere become in them.
#include <cmath>

#include "absl/strings/str_format.h"
#include "io/json.h"
#include "program/stablehlo/conversion.h"

namespace tessera::stablehlo {
namespace {

double rounded_to(DType dtype, double number) {
  if (dtype == DType::kBool) return number != 0 ? 1 : 0;
  return is_floating(dtype) ? number : std::trunc(number);
}

std::string_view mirrored(std::string_view direction) {
  if (direction == "LT") return "GT";
  if (direction == "LE") return "GE";
  if (direction == "GT") return "LT";
  if (direction == "GE") return "LE";
  return direction;
}

std::string_view compare_op(std::string_view direction) {
  for (const auto& [from, to] : {std::pair{"EQ", "eq"},
                                 {"NE", "ne"},
                                 {"GE", "ge"},
                                 {"GT", "gt"},
                                 {"LE", "le"},
                                 {"LT", "lt"}}) {
    if (direction == from) return to;
  }
  return {};
}

}  // namespace

StatusOr<Conversion::Ids> Conversion::constant() {
  if (results_.size() != 1) return error("one result is expected of it");
  for (const Node& node : statement_.body) {
    // value = dense<…> of the generic form stands in braces.
    const Nodes value = node.is_group('<') ? statement_.attribute("value") : Nodes(&node, 1);
    if (value.empty() || value[0].token.kind != Token::Kind::kDense) continue;
    builder_.at(results_[0]).splat = literal_number(value[0].token.text, result_type().dtype);
    if (builder_.at(results_[0]).splat) return results_;
  }
  return make_region();
}

StatusOr<Conversion::Ids> Conversion::iota() { return make_region(); }

StatusOr<BoundId> Conversion::make_splat(double number) {
  builder_.at(results_[0]).splat = rounded_to(result_type().dtype, number);
  return results_[0];
}

Conversion::Made Conversion::fold(const OpRow& row) {
  const double a = *splat(0), b = *splat(1);
  const bool exact = is_floating(result_type().dtype);
  if (row.ops == "add") return make_splat(a + b);
  if (row.ops == "sub") return make_splat(a - b);
  if (row.ops == "mul") return make_splat(a * b);
  if (row.ops == "div" && exact) return make_splat(a / b);
  if (row.ops == "maximum") return make_splat(std::fmax(a, b));
  if (row.ops == "minimum") return make_splat(std::fmin(a, b));
  if (row.ops == "pow_tensor" && exact) return make_splat(std::pow(a, b));
  return call(row.ops, operands_, {});
}

Conversion::Made Conversion::pair_with_number(const OpRow& row) {
  const bool number_right = splat(1).has_value();
  const double number = number_right ? *splat(1) : *splat(0);
  const Ids other = {operands_[number_right ? 0 : 1]};
  if (!number_right && row.ops == "div") {
    if (number == 1) return call("reciprocal", other, {});
    TSR_ASSIGN_OR_RETURN(const std::optional<BoundId> inverse,
                         call("reciprocal", other, {}, Gives::kOnTheWay));
    if (!inverse) return inverse;
    return call("mul_scalar", {*inverse}, {{"value", number}});
  }
  const std::string_view op = number_right ? row.right : row.left;
  if (op.empty()) return no("");
  return call(op, other, {{number_right ? row.right_attr : row.left_attr, number}});
}

Conversion::Made Conversion::pair(const OpRow& row) {
  TSR_RETURN_IF_ERROR(need_operands(2));
  if (splat(0) && splat(1)) return fold(row);
  if (splat(0) || splat(1)) {
    const Builder::Mark mark = builder_.mark();
    TSR_ASSIGN_OR_RETURN(const std::optional<BoundId> made, pair_with_number(row));
    if (made) return made;
    builder_.undo_to(mark);
  }
  return call(row.ops, operands_, {});
}

Conversion::Made Conversion::logical() {
  const std::string kind = statement_.op.substr(statement_.op.find('.') + 1);
  const bool truth = result_type().dtype == DType::kBool;
  return call((truth ? "logical_" : "bitwise_") + kind, operands_, {});
}

Conversion::Made Conversion::compare() {
  TSR_RETURN_IF_ERROR(need_operands(2));
  std::string_view direction;
  if (!statement_.body.empty()) direction = statement_.body[0].token.text;
  if (const Nodes found = statement_.attribute("comparison_direction"); !found.empty()) {
    // #stablehlo<comparison_direction EQ>
    const Node& last = found.back();
    if (last.is_group('<') && !last.inside.empty()) direction = last.inside.back().token.text;
  }
  const std::string_view op = compare_op(direction);
  if (op.empty()) {
    return error(in_quotes(direction) + ": allowed are EQ, NE, GE, GT, LE, LT");
  }
  if (splat(0).has_value() != splat(1).has_value()) {
    const bool right = splat(1).has_value();
    const std::string_view turned = right ? op : compare_op(mirrored(direction));
    const Builder::Mark mark = builder_.mark();
    TSR_ASSIGN_OR_RETURN(const std::optional<BoundId> made,
                         call(std::string(turned) + "_scalar", {operands_[right ? 0 : 1]},
                              {{"value", right ? *splat(1) : *splat(0)}}));
    if (made) return made;
    builder_.undo_to(mark);
  }
  return call(op, operands_, {});
}

Conversion::Made Conversion::select() {
  TSR_RETURN_IF_ERROR(need_operands(3));
  if (const std::optional<double> condition = splat(0)) {
    operands_ = {operands_[*condition != 0 ? 1 : 2]};
    TSR_ASSIGN_OR_RETURN(const Ids passed, pass());
    return std::optional<BoundId>(passed[0]);
  }
  const Builder::Mark mark = builder_.mark();
  if (splat(2) && !splat(1)) {
    TSR_ASSIGN_OR_RETURN(
        const std::optional<BoundId> made,
        call("where_scalar", {operands_[0], operands_[1]}, {{"other", *splat(2)}}));
    if (made) return made;
  } else if (splat(1) && !splat(2)) {
    TSR_ASSIGN_OR_RETURN(const std::optional<BoundId> made,
                         call("masked_fill", {operands_[2], operands_[0]}, {{"value", *splat(1)}}));
    if (made) return made;
  }
  builder_.undo_to(mark);
  return call("where", operands_, {});
}

Conversion::Made Conversion::clamp() {
  TSR_RETURN_IF_ERROR(need_operands(3));
  if (splat(0) && splat(2)) {
    return call("clamp", {operands_[1]}, {{"min", *splat(0)}, {"max", *splat(2)}});
  }
  return call("clamp_tensor", {operands_[1], operands_[0], operands_[2]}, {});
}

Conversion::Made Conversion::convert_type() {
  if (splat(0)) return make_splat(*splat(0));
  if (type(0) == result_type()) {
    TSR_ASSIGN_OR_RETURN(const Ids passed, pass());
    return std::optional<BoundId>(passed[0]);
  }
  return call("to", operands_, {{"dtype", result_type().dtype}});
}

}  // namespace tessera::stablehlo
