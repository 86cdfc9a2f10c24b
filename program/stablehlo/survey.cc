#include "program/stablehlo/survey.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_format.h"
#include "io/json.h"
#include "placement/plan.h"
#include "program/stablehlo/dot_dims.h"

namespace tessera::stablehlo {
namespace {

constexpr std::size_t kMaxMoves = 100'000;
constexpr std::size_t kMaxWarnings = 8;

/// A collective as a move between two layouts of one axis: that of a group. None: it exchanges.
struct Between {
  TensorType whole;
  Placement from, to;
};

StatusOr<std::int64_t> dim_of(const Builder& builder, const Statement& statement,
                              std::string_view key) {
  TSR_ASSIGN_OR_RETURN(const std::int64_t dim,
                       integer_of(builder.text(), statement.attribute(key)));
  if (dim >= 0 && dim < kMaxDims) return dim;
  return builder.text().error(statement.offset, absl::StrFormat("%s: dim %d; allowed are 0 to %d",
                                                                statement.op, dim, kMaxDims - 1));
}

/// Local types are a rank's: what a group holds together is larger along a dim.
StatusOr<std::optional<Between>> between(const Builder& builder, const Statement& statement,
                                         std::size_t index) {
  const std::string_view op = statement.op;
  const TensorType& result = statement.result_types[index];
  const bool has_operand = index < statement.operand_types.size();
  const TensorType& operand = has_operand ? statement.operand_types[index] : result;
  if (op == "stablehlo.all_reduce") {
    return Between{result, Partial{}, Replicate{}};
  }
  if (op == "stablehlo.all_gather") {
    TSR_ASSIGN_OR_RETURN(const std::int64_t dim, dim_of(builder, statement, "all_gather_dim"));
    return Between{result, Shard{static_cast<int>(dim)}, Replicate{}};
  }
  if (op == "stablehlo.reduce_scatter") {
    TSR_ASSIGN_OR_RETURN(const std::int64_t dim, dim_of(builder, statement, "scatter_dimension"));
    return Between{operand, Partial{}, Shard{static_cast<int>(dim)}};
  }
  return std::optional<Between>();
}

/// Each rank sends every other one as much of what it holds.
StatusOr<Volume> bytes_of_exchange(const TensorType& operand, std::int64_t ranks) {
  CheckedInt bytes = size_of(operand.dtype);
  for (const std::int64_t size : operand.shape) bytes *= size;
  const CheckedInt received = bytes - bytes / ranks;
  return Volume{.max = received.clamped(), .total = (received * ranks).clamped()};
}

StatusOr<Volume> bytes_of_group(const Between& between, std::int64_t ranks) {
  CheckedInt bytes = CheckedInt(size_of(between.whole.dtype)) * ranks;
  for (const std::int64_t size : between.whole.shape) bytes *= size;
  if (bytes > CheckedInt(kMaxTensorBytes)) {
    return out_of_range("what its ranks would receive does not fit 64 bits");
  }
  TSR_ASSIGN_OR_RETURN(const Mesh group, Mesh::make(std::vector<std::int64_t>{ranks}));
  const Placements from = {between.from}, to = {between.to};
  TSR_ASSIGN_OR_RETURN(const Spec src,
                       Spec::make(group, between.whole.shape, between.whole.dtype, from));
  TSR_ASSIGN_OR_RETURN(const Spec dst,
                       Spec::make(group, between.whole.shape, between.whole.dtype, to));
  TSR_ASSIGN_OR_RETURN(const Plan planned, plan(src, dst));
  Volume sum;
  for (const PlanStep& step : planned.steps) {
    const Volume of_step = bytes_of(step);
    sum.max += of_step.max;
    sum.total += of_step.total;
  }
  return sum;
}

/// dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>: groups of as many as its second dim says.
struct Groups {
  std::vector<std::int64_t> ranks;
  std::int64_t size = 0;
};
StatusOr<Groups> read_groups(const Builder& builder, const Statement& statement, Nodes found) {
  const MlirText& text = builder.text();
  Groups groups;
  if (found.size() < 3 || found[2].token.kind != Token::Kind::kTensor) {
    return text.error(statement.offset, statement.op +
                                            ": expected groups of ranks, such as dense<[[0, 1]]> : "
                                            "tensor<1x2xi64>");
  }
  TSR_ASSIGN_OR_RETURN(const TensorType type, parse_tensor_type(text, found[2].token));
  TSR_ASSIGN_OR_RETURN(groups.ranks, integers_of(text, found));
  const bool fits = type.shape.size() == 2 && type.shape[0] > 0 && type.shape[1] > 0 &&
                    num_elements(type.shape) == std::ssize(groups.ranks);
  if (!fits) {
    return text.error(found[0].token.offset,
                      "numbers of ranks that are not as many as their type "
                      "has");
  }
  groups.size = type.shape[1];
  return groups;
}

/// Every pair's target receives the whole of it.
StatusOr<ProgramMove> permutation(const Builder& builder, const Statement& statement) {
  TSR_ASSIGN_OR_RETURN(const Groups pairs,
                       read_groups(builder, statement, statement.attribute("source_target_pairs")));
  if (statement.result_types.empty() || pairs.size != 2) {
    return builder.text().error(statement.offset, statement.op + ": expected pairs of ranks");
  }
  const TensorType& type = statement.result_types[0];
  const CheckedInt bytes = CheckedInt(num_elements(type.shape)) * size_of(type.dtype);
  CheckedInt moved = 0;
  for (std::size_t i = 0; i + 1 < pairs.ranks.size(); i += 2) {
    if (pairs.ranks[i] != pairs.ranks[i + 1]) moved += bytes;
  }
  ProgramMove move{.collective = "exchange", .axes = {}, .ranks = 2, .bytes = {}};
  move.bytes = {.max = moved == CheckedInt(0) ? 0 : bytes.clamped(), .total = moved.clamped()};
  return move;
}

StatusOr<std::int64_t> flops_of(const MlirText& text, const Statement& statement) {
  if (statement.op != "stablehlo.dot_general" && statement.op != "stablehlo.dot") return 0;
  if (statement.operand_types.size() != 2 || statement.result_types.empty()) return 0;
  const Shape &left = statement.operand_types[0].shape, &right = statement.operand_types[1].shape;
  TSR_ASSIGN_OR_RETURN(const DotDims dims,
                       read_dot_dims(text, statement, left.size(), right.size()));
  CheckedInt flops = 2;
  flops *= num_elements(statement.result_types[0].shape);
  for (const std::int64_t dim : dims.left_contracting) flops *= left[static_cast<std::size_t>(dim)];
  return flops.clamped();
}

bool is_call(const Statement& statement) {
  return statement.op == "call" || statement.op == "func.call";
}

}  // namespace

void Survey::warn(const std::string& warning) {
  if (std::ranges::find(warnings, warning) != warnings.end()) return;
  if (warnings.size() < kMaxWarnings) warnings.push_back(warning);
}

std::string Survey::warning() const {
  std::string text;
  for (const std::string& each : warnings) text += (text.empty() ? "" : "; ") + each;
  return text;
}

StatusOr<std::optional<ProgramMove>> move_of(const Builder& builder, const Statement& statement,
                                             std::optional<int> mesh, Survey& survey) {
  if (statement.op == "stablehlo.collective_permute") {
    TSR_ASSIGN_OR_RETURN(ProgramMove move, permutation(builder, statement));
    return std::optional<ProgramMove>(std::move(move));
  }
  constexpr std::array kMoving = {"stablehlo.all_gather", "stablehlo.all_reduce",
                                  "stablehlo.all_to_all", "stablehlo.reduce_scatter"};
  if (std::ranges::find(kMoving, statement.op) == kMoving.end()) {
    if (statement.op.starts_with("stablehlo.collective_")) {
      survey.warn(statement.op + ": what it moves is not known");
    }
    return std::optional<ProgramMove>();
  }
  TSR_ASSIGN_OR_RETURN(const Groups groups,
                       read_groups(builder, statement, statement.attribute("replica_groups")));
  ProgramMove move{.collective = {}, .axes = {}, .ranks = groups.size, .bytes = {}};
  for (std::size_t i = 0; i < statement.result_types.size(); ++i) {
    TSR_ASSIGN_OR_RETURN(const std::optional<Between> moved, between(builder, statement, i));
    const StatusOr<Volume> bytes = moved
                                       ? bytes_of_group(*moved, groups.size)
                                       : bytes_of_exchange(statement.result_types[i], groups.size);
    if (!bytes.ok()) {
      return builder.text().error(statement.offset,
                                  statement.op + ": " + std::string(message_of(bytes.status())));
    }
    move.collective = statement.op.substr(statement.op.find('.') + 1);
    move.bytes.max = (CheckedInt(move.bytes.max) + bytes->max).clamped();
    move.bytes.total = (CheckedInt(move.bytes.total) + bytes->total).clamped();
  }
  if (move.collective.empty()) return std::optional<ProgramMove>();
  const auto count = static_cast<std::int64_t>(groups.ranks.size()) / groups.size;
  move.bytes.total = (CheckedInt(move.bytes.total) * count).clamped();
  if (mesh) move.axes = builder.module().meshes.axes_of_groups(*mesh, groups.size, groups.ranks);
  return std::optional<ProgramMove>(std::move(move));
}

Status survey_region(Builder& builder, std::size_t body, std::optional<int> mesh, int depth,
                     Survey& survey) {
  const MlirText& text = builder.text();
  if (depth > kMaxBrackets) {
    return text.error(body,
                      absl::StrFormat("calls and regions in more than %d others", kMaxBrackets));
  }
  Lexer lexer(text, body);
  for (;;) {
    TSR_ASSIGN_OR_RETURN(const std::optional<Statement> statement, next_statement(lexer));
    if (!statement) return absl::OkStatus();
    TSR_RETURN_IF_ERROR(builder.count(*statement, lexer.offset()));
    TSR_ASSIGN_OR_RETURN(const std::int64_t flops, flops_of(text, *statement));
    survey.flops += flops;
    TSR_ASSIGN_OR_RETURN(std::optional<ProgramMove> move,
                         move_of(builder, *statement, mesh, survey));
    if (move) {
      if (survey.moves.size() == kMaxMoves) {
        return text.error(statement->offset, absl::StrFormat("more than %d moves", kMaxMoves));
      }
      survey.moves.push_back(*std::move(move));
      continue;
    }
    if (is_call(*statement) && !statement->body.empty()) {
      const auto found = builder.module().by_name.find(std::string(statement->body[0].token.text));
      if (found == builder.module().by_name.end()) continue;
      const Function& called = builder.module().functions[static_cast<std::size_t>(found->second)];
      if (called.body) {
        TSR_RETURN_IF_ERROR(survey_region(builder, *called.body, mesh, depth + 1, survey));
      }
      continue;
    }
    if (statement->op == "stablehlo.while") survey.warn("a loop's rounds are counted as one");
    if (statement->op == "stablehlo.case" || statement->op == "stablehlo.if") {
      survey.warn("all branches are counted");
    }
    for (const Node* region : statement->regions()) {
      TSR_RETURN_IF_ERROR(survey_region(builder, region->body, mesh, depth + 1, survey));
    }
  }
}

}  // namespace tessera::stablehlo
