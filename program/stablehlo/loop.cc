#include "program/stablehlo/loop.h"

#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_map.h"

namespace tessera::stablehlo {
namespace {

constexpr int kMaxStatements = 10'000;  // of a body, until its return

/// What a body's end returns, and what its values that are numbers and sums are.
struct Body {
  absl::flat_hash_map<std::string, Statement> made;  ///< constants, sums and comparisons, by result
  std::vector<std::string> returned;
};

std::optional<double> number_in(const Body& body, const std::string& name) {
  const auto found = body.made.find(name);
  if (found == body.made.end()) return std::nullopt;
  for (const Node& node : found->second.body) {
    if (node.token.kind != Token::Kind::kDense) continue;
    return literal_number(node.token.text, found->second.result_types[0].dtype);
  }
  return std::nullopt;
}

StatusOr<Body> read_body(const Builder& builder, std::size_t begin) {
  Body body;
  Lexer lexer(builder.text(), begin);
  for (int i = 0; i < kMaxStatements; ++i) {
    TSR_ASSIGN_OR_RETURN(std::optional<Statement> statement, next_statement(lexer));
    if (!statement) return body;
    const std::string& op = statement->op;
    if (op == "stablehlo.return") {
      for (const Token& token : statement->operands()) body.returned.emplace_back(token.text);
      return body;
    }
    const bool kept = op == "stablehlo.constant" || op == "sdy.constant" || op == "stablehlo.add" ||
                      op == "stablehlo.compare";
    if (!kept || statement->results.size() != 1 || statement->result_types.empty()) continue;
    body.made.insert_or_assign(statement->results[0].name, *std::move(statement));
  }
  return Body();
}

}  // namespace

std::optional<Loop> parts_of_loop(const Statement& statement) {
  Loop loop;
  if (statement.body.empty() || !statement.body[0].is_group('(')) return std::nullopt;
  const Nodes group = statement.body[0].inside;
  for (std::size_t i = 0; i + 1 < group.size(); ++i) {
    if (group[i + 1].is('=')) loop.names.emplace_back(group[i].token.text);
  }
  const std::vector<Node>& after = statement.trailer;
  for (std::size_t i = 0; i + 1 < after.size(); ++i) {
    if (after[i + 1].kind != Node::Kind::kRegion) continue;
    if (after[i].is_word("cond")) loop.condition = after[i + 1].body;
    if (after[i].is_word("do")) loop.body = after[i + 1].body;
  }
  const bool whole =
      loop.condition != 0 && loop.body != 0 && loop.names.size() == statement.result_types.size();
  return whole ? std::optional<Loop>(std::move(loop)) : std::nullopt;
}

StatusOr<std::optional<Rounds>> rounds_of(const Builder& builder, const Loop& loop,
                                          const std::vector<BoundId>& before) {
  const std::optional<Rounds> unknown;
  TSR_ASSIGN_OR_RETURN(const Body condition, read_body(builder, loop.condition));
  TSR_ASSIGN_OR_RETURN(const Body body, read_body(builder, loop.body));
  if (condition.returned.size() != 1 || body.returned.size() != before.size()) return unknown;
  const auto compared = condition.made.find(condition.returned[0]);
  if (compared == condition.made.end() || compared->second.op != "stablehlo.compare" ||
      compared->second.body.empty() || !compared->second.body[0].is_word("LT")) {
    return unknown;
  }
  const std::vector<Token> sides = compared->second.operands();
  if (sides.size() != 2) return unknown;
  const auto counter = std::ranges::find(loop.names, sides[0].text);
  const std::optional<double> end = number_in(condition, std::string(sides[1].text));
  if (counter == loop.names.end() || !end) return unknown;
  const auto index = static_cast<std::size_t>(counter - loop.names.begin());
  const auto next = body.made.find(body.returned[index]);
  if (next == body.made.end() || next->second.op != "stablehlo.add") return unknown;
  const std::vector<Token> terms = next->second.operands();
  if (terms.size() != 2 || terms[0].text != *counter) return unknown;
  const std::optional<double> by = number_in(body, std::string(terms[1].text));
  const std::optional<double> begin = builder.at(before[index]).splat;
  constexpr double kMost = 1'000'000;
  if (!by || !begin || *by != 1 || !(*end > *begin) || !(*end - *begin <= kMost)) return unknown;
  Rounds rounds{.count = static_cast<std::int64_t>(std::ceil(*end - *begin)), .passed = {}};
  for (std::size_t i = 0; i < before.size(); ++i) {
    rounds.passed.push_back(body.returned[i] == loop.names[i]);
  }
  return std::optional<Rounds>(std::move(rounds));
}

Status copy_value(Builder& builder, BoundId from, BoundId to, StepOrigin origin,
                  std::size_t offset) {
  if (builder.at(from).type != builder.at(to).type) {
    return builder.text().error(offset, "a value of another type than what goes round");
  }
  if (builder.at(from).splat && !builder.at(from).made) {
    RegionStep step{.name = "stablehlo.constant", .args = {}, .out = {builder.at(to).value}};
    origin.from = "stablehlo.constant";
    return builder.push({std::move(step), std::move(origin)}, {to}, offset);
  }
  TSR_ASSIGN_OR_RETURN(std::string name, builder.name_of(from, origin));
  CallStep step{.op = "clone", .args = {Json(std::move(name))}, .attrs = {}, .out = {}, .row = {}};
  step.out.push_back(builder.at(to).value);
  return builder.push({std::move(step), std::move(origin)}, {to}, offset);
}

StatusOr<BoundId> ready_for_next(Builder& builder, BoundId begin, BoundId end,
                                 const StepOrigin& origin, std::size_t offset) {
  const ProgramValue wanted = builder.at(begin).value;
  if (builder.at(end).type != builder.at(begin).type) {
    return builder.text().error(offset, "a round ends with another type than it begins with");
  }
  BoundId last = end;
  if (!builder.is_of_body(end)) {
    last = builder.add(wanted.name + ".next", builder.at(end).type, builder.at(end).value.mesh);
    builder.at(last).value.layout = builder.at(end).value.layout;
    TSR_RETURN_IF_ERROR(copy_value(builder, end, last, origin, offset));
  }
  const ProgramValue value = builder.at(last).value;
  if (value.mesh == wanted.mesh && value.layout == wanted.layout) return last;
  const BoundId moved = builder.add(wanted.name + ".next", builder.at(last).type, wanted.mesh);
  builder.at(moved).value.layout = wanted.layout;
  MoveStep step{.value = value.name,
                .out = builder.at(moved).value,
                .implicit = true,
                .needed_by = "the next round",
                .moves = {}};
  TSR_RETURN_IF_ERROR(builder.push({std::move(step), origin}, {moved}, offset));
  return moved;
}

}  // namespace tessera::stablehlo
