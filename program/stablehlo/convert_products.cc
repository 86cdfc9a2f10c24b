// Products, folds of dims, and rows by their numbers.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "io/json.h"
#include "program/stablehlo/conversion.h"
#include "program/stablehlo/dot_dims.h"

namespace tessera::stablehlo {
namespace {

using Dims = std::vector<std::int64_t>;

/// "bik,bkj->bij" for those dims; empty where there are more than letters.
std::string equation_of(const DotDims& dims, std::size_t left_ndim, std::size_t right_ndim) {
  std::string left(left_ndim, ' '), right(right_ndim, ' '), result;
  char letter = 'a';
  const auto next = [&] {
    const char taken = letter;
    letter = letter == 'z' ? 'A' : static_cast<char>(letter + 1);
    return taken;
  };
  for (std::size_t i = 0; i < dims.left_batch.size(); ++i) {
    result += next();
    left[static_cast<std::size_t>(dims.left_batch[i])] = result.back();
    right[static_cast<std::size_t>(dims.right_batch[i])] = result.back();
  }
  for (std::size_t i = 0; i < dims.left_contracting.size(); ++i) {
    const char shared = next();
    left[static_cast<std::size_t>(dims.left_contracting[i])] = shared;
    right[static_cast<std::size_t>(dims.right_contracting[i])] = shared;
  }
  for (std::string* operand : {&left, &right}) {
    for (char& each : *operand) {
      if (each != ' ') continue;
      each = next();
      result += each;
    }
  }
  return left + ',' + right + "->" + result;
}

/// Whether a fold from `first` is one without it.
bool is_neutral(std::string_view op, double first, DType dtype) {
  const double infinity = std::numeric_limits<double>::infinity();
  double least = -infinity, most = infinity;
  if (dtype == DType::kI32) {
    least = -0x1p31;
    most = 0x1p31 - 1;
  } else if (dtype == DType::kI64) {
    least = -0x1p63;
    most = 0x1p63;
  } else if (dtype == DType::kU8 || dtype == DType::kBool) {
    least = 0;
    most = dtype == DType::kBool ? 1 : 255;
  }
  if (op == "stablehlo.add" || op == "stablehlo.or") return first == 0;
  if (op == "stablehlo.multiply" || op == "stablehlo.and") return first == 1;
  if (op == "stablehlo.maximum") return first == least;
  return op == "stablehlo.minimum" && first == most;
}

std::string_view fold_op(std::string_view op, DType dtype) {
  if (dtype == DType::kBool) {
    if (op == "stablehlo.or" || op == "stablehlo.maximum") return "any";
    return op == "stablehlo.and" || op == "stablehlo.minimum" ? "all" : "";
  }
  if (op == "stablehlo.add") return "sum";
  if (op == "stablehlo.multiply") return "prod";
  if (op == "stablehlo.maximum") return "amax";
  return op == "stablehlo.minimum" ? "amin" : "";
}

}  // namespace

Conversion::Made Conversion::dot() {
  TSR_RETURN_IF_ERROR(need_operands(2));
  const std::size_t left = type(0).shape.size(), right = type(1).shape.size();
  TSR_ASSIGN_OR_RETURN(const DotDims dims, read_dot_dims(builder_.text(), statement_, left, right));
  const bool last_left = dims.left_contracting == Dims{static_cast<std::int64_t>(left) - 1};
  if (dims.left_batch.empty() && last_left && right == 2 && left >= 2) {
    const bool first_right = dims.right_contracting == Dims{0};
    if (!first_right) return call("linear", operands_, {});
    return call(left == 2 ? "mm" : "matmul", operands_, {});
  }
  if (dims.left_batch == Dims{0} && dims.right_batch == Dims{0} && left == 3 && right == 3 &&
      last_left && dims.right_contracting == Dims{1}) {
    return call("bmm", operands_, {});
  }
  constexpr std::size_t kLetters = 52;
  if (left + right > kLetters) return no("it has more dims than an equation has letters");
  return call("einsum", operands_, {{"equation", equation_of(dims, left, right)}});
}

StatusOr<std::string> Conversion::folded_by() const {
  for (std::size_t i = 0; i + 1 < statement_.body.size(); ++i) {
    if (statement_.body[i].is_word("applies")) {
      return std::string(statement_.body[i + 1].token.text);
    }
  }
  const std::vector<const Node*> regions = statement_.regions();
  if (regions.size() != 1) return std::string();
  // One op of the two arguments, and its return.
  Lexer lexer(builder_.text(), regions[0]->body);
  TSR_ASSIGN_OR_RETURN(const std::optional<Statement> first, next_statement(lexer));
  TSR_ASSIGN_OR_RETURN(const std::optional<Statement> second, next_statement(lexer));
  if (!first || !second || first->results.size() != 1) return std::string();
  const std::vector<Token> given = first->operands(), returned = second->operands();
  const bool folds = second->op.ends_with("return") && given.size() == 2 &&
                     given[0].text != given[1].text && returned.size() == 1 &&
                     returned[0].text == first->results[0].name;
  return folds ? first->op : std::string();
}

Conversion::Made Conversion::reduce() {
  if (operands_.size() != 2) return no("it folds several tensors at once");
  TSR_ASSIGN_OR_RETURN(const std::string by, folded_by());
  const std::string_view op = fold_op(by, type(0).dtype);
  if (op.empty()) return no("no op of the table folds as its region does");
  const std::optional<double> first = splat(1);
  if (!first || !is_neutral(by, *first, type(0).dtype)) {
    return no("it does not begin with the number that changes nothing");
  }
  TSR_ASSIGN_OR_RETURN(const Dims dims, ints("dimensions"));
  operands_.resize(1);
  if (dims.empty()) {
    TSR_ASSIGN_OR_RETURN(const Ids passed, pass());
    return std::optional<BoundId>(passed[0]);
  }
  return call(op, operands_, {{"dim", to_shape(dims)}, {"keepdim", false}});
}

/// A sum over all that stands before is a window as long as the dim, padded by all but one.
Conversion::Made Conversion::reduce_window() {
  if (operands_.size() != 2) return no("it folds several tensors at once");
  TSR_ASSIGN_OR_RETURN(const std::string by, folded_by());
  const bool adds = by == "stablehlo.add" && splat(1) == std::optional<double>(0);
  TSR_ASSIGN_OR_RETURN(const Dims window, ints("window_dimensions"));
  TSR_ASSIGN_OR_RETURN(const Dims padding, ints("padding"));
  const Shape sizes = type(0).shape;
  std::optional<std::size_t> along;
  bool whole = adds && window.size() == sizes.size() && padding.size() == 2 * sizes.size();
  for (const char* key : {"window_strides", "base_dilations", "window_dilations"}) {
    TSR_ASSIGN_OR_RETURN(const Dims steps, ints(key));
    whole = whole && std::ranges::all_of(steps, [](std::int64_t step) { return step == 1; });
  }
  for (std::size_t dim = 0; whole && dim < sizes.size(); ++dim) {
    if (window[dim] == 1 && padding[2 * dim] == 0 && padding[2 * dim + 1] == 0) continue;
    const std::int64_t low = padding[2 * dim], high = padding[2 * dim + 1];
    whole = !along && window[dim] == sizes[dim] && (low == 0 || high == 0) &&
            (low == 0 ? high : low) == sizes[dim] - 1;
    along = dim;
  }
  if (!whole || !along) return no("no op of the table folds such windows");
  const bool backwards = padding[2 * *along] == 0;
  return call(backwards ? "cumsum_grad" : "cumsum", {operands_[0]},
              {{"dim", static_cast<std::int64_t>(*along)}});
}

StatusOr<std::optional<Conversion::Ids>> Conversion::top_k() {
  TSR_RETURN_IF_ERROR(need_operands(1));
  if (results_.size() != 2) return error("two results are expected of it");
  if (!builder_.ops().find("topk").ok()) {
    why_ = "the op table has no topk";
    return std::optional<Ids>();
  }
  TSR_ASSIGN_OR_RETURN(const std::int64_t k,
                       integer_of(builder_.text(), statement_.attribute("k")));
  const Nodes largest = statement_.attribute("largest");
  const bool takes_largest = largest.empty() || !largest[0].is_word("false");
  TSR_ASSIGN_OR_RETURN(std::string name, builder_.name_of(operands_[0], origin_));
  Shape shape = type(0).shape;
  if (shape.empty()) return error("an operand without dims");
  shape.back() = k;
  for (const TensorType& declared : statement_.result_types) {
    if (declared.shape != shape) return error("results of other shapes than its k gives");
  }
  CallStep step{.op = "topk", .args = {Json(std::move(name))}, .attrs = {}, .out = {}, .row = {}};
  step.attrs = {{"k", Json(k)},
                {"dim", Json(std::int64_t{-1})},
                {"largest", Json(takes_largest)},
                {"sorted", Json(true)}};
  for (const BoundId id : results_) step.out.push_back(builder_.at(id).value);
  TSR_RETURN_IF_ERROR(builder_.push({std::move(step), origin_}, results_, statement_.offset));
  return std::optional<Ids>(results_);
}

Conversion::Made Conversion::gather() {
  TSR_RETURN_IF_ERROR(need_operands(2));
  const MlirText& text = builder_.text();
  const Nodes numbers = inside_of_angles(statement_.attribute("dimension_numbers"));
  const auto list = [&](std::string_view key) {
    return integers_of(text, find_attribute(numbers, key));
  };
  TSR_ASSIGN_OR_RETURN(const Dims offset, list("offset_dims"));
  TSR_ASSIGN_OR_RETURN(const Dims collapsed, list("collapsed_slice_dims"));
  TSR_ASSIGN_OR_RETURN(const Dims batch, list("operand_batching_dims"));
  TSR_ASSIGN_OR_RETURN(const Dims start, list("start_index_map"));
  TSR_ASSIGN_OR_RETURN(const Dims sizes, ints("slice_sizes"));
  const Shape from = type(0).shape, to = result_type().shape;
  Shape index = type(1).shape;
  if (index.empty() || index.back() != 1 || start.size() != 1 || collapsed != start ||
      from.empty() || sizes.size() != from.size()) {
    return no("it takes other than whole rows by one number each");
  }
  index.pop_back();
  const bool whole_rows = collapsed == Dims{0} && batch.empty() &&
                          std::equal(sizes.begin() + 1, sizes.end(), from.begin() + 1) &&
                          offset.size() + 1 == from.size();
  bool at_end = true;
  for (std::size_t i = 0; i < offset.size(); ++i) {
    at_end = at_end && offset[i] == static_cast<std::int64_t>(index.size() + i);
  }
  const bool along_dim = offset.empty() && batch.size() + 1 == from.size() && to == index;
  if ((!whole_rows || !at_end) && !along_dim) return no("it takes other than rows of one dim");
  TSR_ASSIGN_OR_RETURN(const std::optional<BoundId> rows,
                       call("view", {operands_[1]}, {{"size", index}}, Gives::kOnTheWay));
  if (!rows) return rows;
  if (along_dim) return call("gather", {operands_[0], *rows}, {{"dim", collapsed[0]}});
  if (from.size() == 2) return call("embedding", {operands_[0], *rows}, {});
  if (index.size() == 1)
    return call("index_select", {operands_[0], *rows}, {{"dim", collapsed[0]}});
  return no("its rows are of several dims and its numbers too");
}

Conversion::Made Conversion::scatter() {
  if (operands_.size() != 3) return no("it writes several tensors at once");
  TSR_ASSIGN_OR_RETURN(const std::string by, folded_by());
  if (by != "stablehlo.add") return no("what it writes is not added to what is there");
  const MlirText& text = builder_.text();
  const Nodes numbers = inside_of_angles(statement_.attribute("scatter_dimension_numbers"));
  const auto list = [&](std::string_view key) {
    return integers_of(text, find_attribute(numbers, key));
  };
  TSR_ASSIGN_OR_RETURN(const Dims window, list("update_window_dims"));
  TSR_ASSIGN_OR_RETURN(const Dims inserted, list("inserted_window_dims"));
  TSR_ASSIGN_OR_RETURN(const Dims batch, list("input_batching_dims"));
  TSR_ASSIGN_OR_RETURN(const Dims to, list("scatter_dims_to_operand_dims"));
  const Shape whole = type(0).shape, update = type(2).shape;
  Shape index = type(1).shape;
  if (index.empty() || index.back() != 1 || to.size() != 1 || inserted != to || to[0] < 0 ||
      to[0] >= std::ssize(whole)) {
    return no("it writes other than whole rows by one number each");
  }
  index.pop_back();
  const bool along_dim = window.empty() && batch.size() + 1 == whole.size() && update == index;
  const bool rows_at_end = batch.empty() && to == Dims{0} && window.size() + 1 == whole.size() &&
                           (window.empty() || window[0] == std::ssize(index));
  if (!along_dim && !rows_at_end) return no("it writes other than rows of one dim");
  if (along_dim) {
    TSR_ASSIGN_OR_RETURN(const std::optional<BoundId> rows,
                         call("view", {operands_[1]}, {{"size", index}}, Gives::kOnTheWay));
    if (!rows) return rows;
    return call("scatter_add", {operands_[0], *rows, operands_[2]}, {{"dim", to[0]}});
  }
  Shape flat_update = whole;
  flat_update[0] = num_elements(index);
  TSR_ASSIGN_OR_RETURN(
      const std::optional<BoundId> rows,
      call("view", {operands_[1]}, {{"size", Shape{num_elements(index)}}}, Gives::kOnTheWay));
  if (!rows) return rows;
  BoundId source = operands_[2];
  if (flat_update != update) {
    TSR_ASSIGN_OR_RETURN(const std::optional<BoundId> flat,
                         call("view", {source}, {{"size", flat_update}}, Gives::kOnTheWay));
    if (!flat) return flat;
    source = *flat;
  }
  return call("index_add", {operands_[0], *rows, source}, {{"dim", std::int64_t{0}}});
}

}  // namespace tessera::stablehlo
