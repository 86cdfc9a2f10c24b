#include "program/stablehlo/inline_module.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "io/json.h"
#include "program/program_json.h"
#include "program/stablehlo/conversion.h"
#include "program/stablehlo/loop.h"
#include "program/stablehlo/survey.h"

namespace tessera::stablehlo {
namespace {

using Ids = std::vector<BoundId>;

/// A function that is being read: its names, and what stands before those of its steps.
struct Frame {
  std::string prefix;  ///< "%3/" in the function whose call makes %3
  StepOrigin origin;   ///< of the call
  int depth = 0;
  bool in_loop = false;  ///< a loop's body, whose end is another word
  absl::flat_hash_map<std::string, BoundId> values = {};
};

class Inliner {
 public:
  explicit Inliner(Builder& builder) : builder_(builder), module_(builder.module()) {}

  Status run() {
    const Function* main = nullptr;
    for (const Function& function : module_.functions) {
      if (function.name == "main") main = &function;
    }
    if (main == nullptr && module_.functions.size() == 1) main = &module_.functions[0];
    if (main == nullptr || !main->body) {
      return builder_.text().error(main == nullptr ? builder_.text().text.size() : main->offset,
                                   "expected a function @main with a body, or a single function");
    }
    Frame frame{.prefix = {}, .origin = {}};
    TSR_RETURN_IF_ERROR(declare(*main, frame));
    TSR_ASSIGN_OR_RETURN(const Ids results, read_body(*main->body, frame));
    return end(*main, results, frame);
  }

 private:
  Status error(std::size_t offset, const std::string& what) const {
    return builder_.text().error(offset, what);
  }

  Status declare(const Function& main, Frame& frame) {
    for (const Argument& argument : main.arguments) {
      const BoundId id =
          builder_.add(argument.label.empty() ? argument.name : argument.label, argument.type);
      if (argument.sharding) TSR_RETURN_IF_ERROR(builder_.place(id, *argument.sharding));
      ProgramValue& value = builder_.at(id).value;
      value.role = role_of(argument);
      builder_.at(id).made = true;
      builder_.program().values.push_back(value);
      TSR_RETURN_IF_ERROR(bind(argument.name, id, argument.offset, frame));
    }
    return absl::OkStatus();
  }

  /// jax names an argument by where it stands in the function's own: params['w'].
  static ValueRole role_of(const Argument& argument) {
    const std::string_view label = argument.label;
    if (label.starts_with("params")) return ValueRole::kParameter;
    return argument.taken_by || argument.donated ? ValueRole::kState : ValueRole::kInput;
  }

  Status bind(const std::string& name, BoundId id, std::size_t offset, Frame& frame) const {
    if (name.empty())
      return error(offset, "an argument without a name; expected one such as %arg0");
    frame.values[name] = id;
    return absl::OkStatus();
  }

  StatusOr<Ids> values_of(const std::vector<Token>& tokens, const Frame& frame) const {
    Ids ids;
    for (const Token& token : tokens) {
      // A single result may be called %0 or %0#0.
      auto found = frame.values.find(std::string(token.text));
      if (found == frame.values.end() && token.text.ends_with("#0")) {
        found = frame.values.find(std::string(token.text.substr(0, token.text.size() - 2)));
      }
      if (found == frame.values.end()) {
        return error(token.offset, describe(token) + ": no such value before it in this function");
      }
      ids.push_back(found->second);
    }
    return ids;
  }

  StepOrigin origin_of(const Statement& statement, const Frame& frame) const {
    StepOrigin origin = frame.origin;
    if (!statement.location) return origin;
    const Location location = module_.locations.of(*statement.location);
    const Scope scope = parse_scope(location.name);
    if (!scope.module.empty()) {
      origin.module += (origin.module.empty() ? "" : ".") + scope.module;
      constexpr std::size_t kMaxModuleBytes = 1000;
      if (origin.module.size() > kMaxModuleBytes) origin.module = frame.origin.module;
    }
    if (scope.phase) origin.phase = scope.phase;
    if (!location.site.empty()) origin.site = location.site;
    return origin;
  }

  StatusOr<Ids> read_body(std::size_t body, Frame& frame) {
    if (frame.depth > kMaxBrackets) {
      return error(body, absl::StrFormat("calls in more than %d others", kMaxBrackets));
    }
    Lexer lexer(builder_.text(), body);
    for (;;) {
      TSR_ASSIGN_OR_RETURN(const std::optional<Statement> statement, next_statement(lexer));
      if (!statement) {
        TSR_ASSIGN_OR_RETURN(const Token end, lexer.peek());
        return error(end.offset, "expected a return before the end");
      }
      TSR_RETURN_IF_ERROR(builder_.count(*statement, lexer.offset()));
      const bool returns = statement->op == "return" || statement->op == "func.return";
      TSR_ASSIGN_OR_RETURN(Ids operands, values_of(statement->operands(), frame));
      if (returns || (frame.in_loop && statement->op == "stablehlo.return")) return operands;
      TSR_ASSIGN_OR_RETURN(const Ids results, read(*statement, std::move(operands), frame));
      TSR_RETURN_IF_ERROR(bind_results(*statement, results, frame));
    }
  }

  Status bind_results(const Statement& statement, const Ids& results, Frame& frame) const {
    std::size_t at = 0;
    for (const Result& result : statement.results) {
      for (int i = 0; i < result.count; ++i, ++at) {
        if (at >= results.size()) {
          return error(statement.offset, absl::StrFormat("%s: more names than its %d results",
                                                         statement.op, results.size()));
        }
        const std::string name =
            result.count == 1 ? result.name : absl::StrFormat("%s#%d", result.name, i);
        frame.values[name] = results[at];
      }
    }
    return absl::OkStatus();
  }

  StatusOr<Ids> read(const Statement& statement, Ids operands, Frame& frame) {
    if (statement.op == "call" || statement.op == "func.call") {
      return call(statement, std::move(operands), frame);
    }
    if (statement.op == "stablehlo.composite") {
      return composite(statement, std::move(operands), frame);
    }
    if (statement.op == "sdy.manual_computation") {
      return manual(statement, std::move(operands), frame);
    }
    if (statement.op == "stablehlo.while") {
      TSR_ASSIGN_OR_RETURN(const std::optional<Ids> results, repeat(statement, operands, frame));
      if (results) return *results;
    }
    Survey survey;
    TSR_ASSIGN_OR_RETURN(const std::optional<ProgramMove> move,
                         move_of(builder_, statement, module_.meshes.main(), survey));
    const bool holds_steps = statement.op == "stablehlo.while" ||
                             statement.op == "stablehlo.case" || statement.op == "stablehlo.if" ||
                             statement.op == "sdy.named_computation";
    if (move || holds_steps) {
      if (move) survey.moves.push_back(*move);
      return region(statement, std::move(operands), frame, std::move(survey));
    }
    Conversion conversion(builder_, statement, std::move(operands), origin_of(statement, frame),
                          frame.prefix);
    return conversion.run();
  }

  /// A loop of a known number of rounds is a repeat; none: it is another.
  StatusOr<std::optional<Ids>> repeat(const Statement& statement, const Ids& before,
                                      const Frame& frame) {
    const std::optional<Loop> loop = parts_of_loop(statement);
    if (!loop || loop->names.size() != before.size() || builder_.body_depth() == kMaxRepeatDepth) {
      return std::optional<Ids>();
    }
    TSR_ASSIGN_OR_RETURN(const std::optional<Rounds> rounds, rounds_of(builder_, *loop, before));
    if (!rounds) return std::optional<Ids>();
    StepOrigin origin = origin_of(statement, frame);
    origin.from = statement.op;
    Conversion conversion(builder_, statement, before, origin, frame.prefix);
    TSR_ASSIGN_OR_RETURN(Ids begin, conversion.declare_results());
    Frame inside = frame;
    inside.prefix += statement.results[0].name + '/';
    inside.origin = origin;
    inside.origin.from.clear();
    inside.in_loop = true;
    ++inside.depth;
    for (std::size_t i = 0; i < begin.size(); ++i) {
      if (rounds->passed[i]) {
        begin[i] = before[i];
      } else {
        TSR_RETURN_IF_ERROR(copy_value(builder_, before[i], begin[i], origin, statement.offset));
      }
      inside.values[loop->names[i]] = begin[i];
    }
    RepeatStep step{
        .count = rounds->count, .as = statement.results[0].name, .steps = {}, .carry = {}};
    TSR_RETURN_IF_ERROR(builder_.begin_body(statement.offset));
    TSR_ASSIGN_OR_RETURN(const Ids end, read_body(loop->body, inside));
    if (end.size() != begin.size()) {
      return error(statement.offset, "its body returns other than what goes round");
    }
    for (std::size_t i = 0; i < end.size(); ++i) {
      if (end[i] == begin[i]) continue;
      TSR_ASSIGN_OR_RETURN(const BoundId last, ready_for_next(builder_, begin[i], end[i],
                                                              inside.origin, statement.offset));
      step.carry.emplace_back(builder_.at(begin[i]).value.name, builder_.at(last).value.name);
    }
    step.steps = builder_.end_body();
    TSR_RETURN_IF_ERROR(builder_.push({std::move(step)}, {}, statement.offset));
    return std::optional<Ids>(begin);
  }

  StatusOr<Ids> call(const Statement& statement, Ids operands, const Frame& frame) {
    Nodes callee = statement.attribute("callee");
    if (callee.empty()) callee = Nodes(statement.body).first(statement.body.empty() ? 0 : 1);
    if (callee.empty() || callee[0].token.kind != Token::Kind::kSymbol) {
      return error(statement.offset, "expected a function's name, such as call @f(%0)");
    }
    const Token& name = callee[0].token;
    const auto found = module_.by_name.find(std::string(name.text));
    if (found == module_.by_name.end()) {
      return error(name.offset, in_quotes("@" + std::string(name.text)) + ": no such function");
    }
    const Function& function = module_.functions[static_cast<std::size_t>(found->second)];
    if (!function.body) return region(statement, std::move(operands), frame, {});
    return run_function(statement, function, operands, frame);
  }

  StatusOr<Ids> run_function(const Statement& statement, const Function& function,
                             const Ids& operands, const Frame& frame) {
    if (operands.size() != function.arguments.size()) {
      return error(statement.offset, absl::StrFormat("@%s takes %d values, not %d", function.name,
                                                     function.arguments.size(), operands.size()));
    }
    const std::string result = statement.results.empty() ? "call" : statement.results[0].name;
    Frame inside{.prefix = frame.prefix + result + '/',
                 .origin = origin_of(statement, frame),
                 .depth = frame.depth + 1};
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Argument& argument = function.arguments[i];
      if (argument.type != builder_.at(operands[i]).type) {
        return error(statement.offset,
                     absl::StrFormat("@%s takes another type as %s", function.name, argument.name));
      }
      TSR_RETURN_IF_ERROR(bind(argument.name, operands[i], argument.offset, inside));
    }
    return read_body(*function.body, inside);
  }

  /// Known by its name, or by the function that says the same.
  StatusOr<Ids> composite(const Statement& statement, Ids operands, const Frame& frame) {
    const bool named =
        !statement.body.empty() && statement.body[0].token.kind == Token::Kind::kString;
    if (named && find_op_row(statement.body[0].token.text) != nullptr) {
      Statement known = statement;
      known.op = std::string(statement.body[0].token.text);
      if (const Nodes found = statement.attribute("composite_attributes");
          !found.empty() && found[0].is_group('{')) {
        known.body.push_back(found[0]);
      }
      return Conversion(builder_, known, std::move(operands), origin_of(statement, frame),
                        frame.prefix)
          .run();
    }
    const Nodes decomposition = statement.attribute("decomposition");
    if (!decomposition.empty()) {
      const auto found = module_.by_name.find(std::string(decomposition[0].token.text));
      if (found != module_.by_name.end()) {
        const Function& function = module_.functions[static_cast<std::size_t>(found->second)];
        if (function.body) return run_function(statement, function, operands, frame);
      }
    }
    return region(statement, std::move(operands), frame, {});
  }

  /// Operands go where the body of local tensors wants them; the body is one region.
  StatusOr<Ids> manual(const Statement& statement, Ids operands, const Frame& frame) {
    const MlirText& text = builder_.text();
    TSR_ASSIGN_OR_RETURN(const std::vector<Sharding> in,
                         parse_shardings(text, statement.attribute("in_shardings")));
    TSR_ASSIGN_OR_RETURN(const std::vector<Sharding> out,
                         parse_shardings(text, statement.attribute("out_shardings")));
    if (in.size() != operands.size() || out.size() != statement.result_types.size()) {
      return error(statement.offset,
                   absl::StrFormat("%s: %d in_shardings of %d operands, %d out_shardings of %d "
                                   "results",
                                   statement.op, in.size(), operands.size(), out.size(),
                                   statement.result_types.size()));
    }
    StepOrigin origin = origin_of(statement, frame);
    origin.from = statement.op;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      ProgramValue wanted = builder_.at(operands[i]).value;
      TSR_RETURN_IF_ERROR(module_.meshes.place(in[i], wanted));
      if (!wanted.layout || wanted.layout == builder_.at(operands[i]).value.layout) continue;
      TSR_ASSIGN_OR_RETURN(
          operands[i], builder_.redistribute(
                           operands[i], in[i], wanted.name + ".in", /*implicit=*/true,
                           absl::StrFormat("%s.%d", statement.op, i), origin, statement.offset));
    }
    Survey survey;
    const std::optional<int> mesh =
        operands.empty() ? module_.meshes.main() : builder_.at(operands[0]).value.mesh;
    TSR_RETURN_IF_ERROR(warn_of_free_axes(statement, mesh, survey));
    return region(statement, std::move(operands), frame, std::move(survey), &out);
  }

  Status warn_of_free_axes(const Statement& statement, std::optional<int> mesh, Survey& survey) {
    const Nodes manual = statement.attribute("manual_axes");
    if (!mesh || manual.empty() || !manual[0].is_group('{')) return absl::OkStatus();
    std::string free;
    for (const MeshAxis& axis :
         module_.meshes.meshes()[static_cast<std::size_t>(*mesh)].mesh.axes()) {
      const bool named = std::ranges::any_of(manual[0].inside, [&](const Node& node) {
        return node.token.kind == Token::Kind::kString &&
               (axis.name == node.token.text ||
                axis.name.starts_with(std::string(node.token.text) + "_"));
      });
      if (!named && axis.size > 1) free += (free.empty() ? "" : ", ") + axis.name;
    }
    if (!free.empty()) {
      survey.warn("what it moves and computes is counted as if whole along " + free +
                  ", which are not manual");
    }
    return absl::OkStatus();
  }

  StatusOr<Ids> region(const Statement& statement, Ids operands, const Frame& frame, Survey survey,
                       const std::vector<Sharding>* out = nullptr) {
    StepOrigin origin = origin_of(statement, frame);
    origin.from = statement.op;
    const bool is_collective = !survey.moves.empty();
    const bool is_manual = out != nullptr;
    Conversion conversion(builder_, statement, operands, origin, frame.prefix);
    TSR_ASSIGN_OR_RETURN(const Ids results, conversion.declare_results());
    std::optional<int> mesh = module_.meshes.main();
    if (!operands.empty()) mesh = builder_.at(operands[0]).value.mesh;
    if (!is_collective) {
      for (const Node* inside : statement.regions()) {
        TSR_RETURN_IF_ERROR(survey_region(builder_, inside->body, mesh, frame.depth + 1, survey));
      }
    }
    if (statement.op == "stablehlo.while") survey.warn("a loop's rounds are counted as one");
    if (statement.op == "stablehlo.case" || statement.op == "stablehlo.if") {
      survey.warn("all branches are counted");
    }
    if (!is_manual && !is_collective) {
      survey.warn("what it would move by its placements is not known");
    }
    RegionStep step;
    step.name = statement.op;
    for (const BoundId id : operands) {
      TSR_ASSIGN_OR_RETURN(std::string name, builder_.name_of(id, origin));
      step.args.emplace_back(std::move(name));
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (is_manual) TSR_RETURN_IF_ERROR(builder_.place(results[i], (*out)[i]));
      step.out.push_back(builder_.at(results[i]).value);
    }
    if (survey.flops > CheckedInt(0)) step.flops = survey.flops.clamped();
    step.moves = std::move(survey.moves);
    step.warning = survey.warning();
    TSR_RETURN_IF_ERROR(builder_.push({std::move(step), origin}, results, statement.offset));
    return results;
  }

  /// Results go where they are declared, and may take an argument's place.
  Status end(const Function& main, const Ids& results, const Frame& frame) {
    if (results.size() != main.results.size()) {
      return error(main.offset, absl::StrFormat("@%s returns %d values, and declares %d", main.name,
                                                results.size(), main.results.size()));
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      BoundId id = results[i];
      const Argument& declared = main.results[i];
      if (builder_.at(id).type != declared.type) {
        return error(declared.offset, absl::StrFormat("result %d is of another type", i));
      }
      if (declared.sharding) {
        ProgramValue wanted = builder_.at(id).value;
        TSR_RETURN_IF_ERROR(module_.meshes.place(*declared.sharding, wanted));
        if (wanted.layout && wanted.layout != builder_.at(id).value.layout) {
          TSR_ASSIGN_OR_RETURN(
              id, builder_.redistribute(id, *declared.sharding, absl::StrFormat("result%d", i),
                                        /*implicit=*/true, absl::StrFormat("result %d", i),
                                        frame.origin, declared.offset));
        }
      }
      take_place(main, static_cast<int>(i), id);
    }
    return absl::OkStatus();
  }

  void take_place(const Function& main, int result, BoundId id) {
    const bool taken = std::ranges::any_of(
        main.arguments, [&](const Argument& argument) { return argument.taken_by == result; });
    const Bound& bound = builder_.at(id);
    if (!taken || bound.step < 0) return;
    AnyStep& step = builder_.program().steps[static_cast<std::size_t>(bound.step)];
    if (auto* call = std::get_if<CallStep>(&step.what))
      call->out[bound.out].role = ValueRole::kState;
    // A redistribution has no place for a role.
    if (auto* region = std::get_if<RegionStep>(&step.what)) {
      region->out[bound.out].role = ValueRole::kState;
    }
  }

  Builder& builder_;
  const Module& module_;
};

}  // namespace

Status inline_main(Builder& builder) { return Inliner(builder).run(); }

}  // namespace tessera::stablehlo
