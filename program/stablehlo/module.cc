#include "program/stablehlo/module.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "io/json.h"

namespace tessera::stablehlo {
namespace {

constexpr std::size_t kMaxFunctions = 100'000;

StatusOr<Argument> read_argument(const Module& module, Nodes nodes) {
  const MlirText& text = *module.text;
  Argument argument;
  argument.offset = nodes[0].token.offset;
  std::size_t at = 0;
  if (nodes[0].token.kind == Token::Kind::kValue) {
    argument.name = std::string(nodes[0].token.text);
    at = 2;
  }
  if (at >= nodes.size()) return text.error(argument.offset, "expected \": type\" behind it");
  const Token& type = nodes[at].token;
  if (type.kind == Token::Kind::kTensor) {
    TSR_ASSIGN_OR_RETURN(argument.type, parse_tensor_type(text, type));
  } else if (type.kind == Token::Kind::kOtherType && type.text == "!stablehlo.token") {
    argument.type = {.shape = {0}, .dtype = DType::kU8, .stand_in = "token"};
  } else {
    return text.error(type.offset, describe(type) + ": expected tensor<…> of known sizes");
  }
  for (std::size_t i = at + 1; i < nodes.size(); ++i) {
    if (nodes[i].is_group('{')) {
      const Nodes attributes = nodes[i].inside;
      if (const Nodes found = find_attribute(attributes, "sdy.sharding"); !found.empty()) {
        TSR_ASSIGN_OR_RETURN(argument.sharding, parse_sharding(text, found));
      }
      if (const Nodes found = find_attribute(attributes, "tf.aliasing_output"); !found.empty()) {
        TSR_ASSIGN_OR_RETURN(const std::int64_t result, integer_of(text, found));
        argument.taken_by = static_cast<int>(std::clamp<std::int64_t>(result, -1, INT32_MAX));
      }
      argument.donated = has_flag(attributes, "jax.buffer_donor");
    }
    if (nodes[i].is_word("loc") && i + 1 < nodes.size() && nodes[i + 1].is_group('(')) {
      argument.label = module.locations.of(nodes[i + 1]).name;
    }
  }
  return argument;
}

bool names_something(const Token& token) {
  return token.kind == Token::Kind::kWord || token.kind == Token::Kind::kString;
}

class ModuleReader {
 public:
  explicit ModuleReader(const MlirText& text) : lexer_(text), module_(text) {}

  StatusOr<Module> read() {
    TSR_RETURN_IF_ERROR(read_ahead());
    for (;;) {
      TSR_ASSIGN_OR_RETURN(const Token token, lexer_.next());
      if (token.kind == Token::Kind::kEnd) return std::move(module_);
      TSR_RETURN_IF_ERROR(read_top(token));
    }
  }

 private:
  Status error(const Token& token, const std::string& what) const {
    return lexer_.text().error(token.offset, describe(token) + ": " + what);
  }

  /// Parts of axes and locations may stand behind what refers to them.
  Status read_ahead() {
    Lexer lexer(lexer_.text());
    Token last, before;  // the two tokens before
    bool opens_line = true;
    bool is_foreign = false;  // a call to outside, which jax gives a sharding of its own
    std::size_t end = 0;
    for (;;) {
      TSR_ASSIGN_OR_RETURN(const Token token, lexer.next());
      if (token.kind == Token::Kind::kEnd) return absl::OkStatus();
      const std::string_view between = lexer.text().text.substr(end, token.offset - end);
      opens_line = end == 0 || between.find('\n') != std::string_view::npos;
      end = lexer.offset();
      if (token.is('(') && last.is(':') && before.kind == Token::Kind::kString) {
        TSR_RETURN_IF_ERROR(read_part(lexer, before));
      }
      if (opens_line && token.kind == Token::Kind::kAlias) {
        TSR_ASSIGN_OR_RETURN(const bool defines, lexer.take('='));
        TSR_ASSIGN_OR_RETURN(const Token what, lexer.peek());
        if (defines && what.is_word("loc")) {
          TSR_RETURN_IF_ERROR(module_.locations.define(token.text, lexer));
        }
      }
      if (names_something(token) && token.text.starts_with("stablehlo.")) {
        is_foreign = token.text == "stablehlo.custom_call";
      }
      module_.is_propagated |= !is_foreign && token.kind == Token::Kind::kAlias &&
                               token.text == "#sdy.sharding_per_value";
      before = last;
      last = token;
    }
  }

  Status read_part(Lexer lexer, const Token& axis) {
    TSR_ASSIGN_OR_RETURN(const Token first, lexer.next());
    TSR_ASSIGN_OR_RETURN(const bool closed, lexer.take(')'));
    TSR_ASSIGN_OR_RETURN(const Token second, lexer.peek());
    if (!closed || first.kind != Token::Kind::kNumber || second.kind != Token::Kind::kNumber) {
      return absl::OkStatus();
    }
    const Node sizes[] = {{.token = first}, {.token = second}};
    AxisRef part{.name = std::string(axis.text), .offset = axis.offset};
    TSR_ASSIGN_OR_RETURN(part.before, integer_of(lexer.text(), Nodes(&sizes[0], 1)));
    TSR_ASSIGN_OR_RETURN(part.size, integer_of(lexer.text(), Nodes(&sizes[1], 1)));
    if (part.before < 1 || part.size < 1) return absl::OkStatus();  // read_sharding() says it
    return module_.meshes.add_part(part);
  }

  Status read_top(const Token& token) {
    if (token.is_word("module") || token.is_word("builtin.module")) return begin_module();
    if (token.is('}')) return end_module(token);
    if (token.is_word("sdy.mesh")) return read_mesh();
    if (token.is_word("func.func")) return read_function();
    if (token.is_word("loc")) return read_node(lexer_).status();
    if (token.kind == Token::Kind::kAlias || token.kind == Token::Kind::kOtherType) {
      TSR_RETURN_IF_ERROR(lexer_.expect('='));
      return skip_attribute();
    }
    return error(token, "expected module, sdy.mesh, func.func or an alias such as #loc = loc(…)");
  }

  /// `loc(…)`, `#dialect.name<…>`, `dense<…> : type`.
  Status skip_attribute() {
    TSR_RETURN_IF_ERROR(read_node(lexer_).status());
    TSR_ASSIGN_OR_RETURN(const Token next, lexer_.peek());
    if (next.is('(') || next.is('<')) return read_node(lexer_).status();
    return absl::OkStatus();
  }

  Status begin_module() {
    TSR_ASSIGN_OR_RETURN(Token token, lexer_.next());
    if (token.kind == Token::Kind::kSymbol) {
      module_.name = std::string(token.text);
      TSR_ASSIGN_OR_RETURN(token, lexer_.next());
    }
    if (token.is_word("attributes")) {
      TSR_RETURN_IF_ERROR(read_node(lexer_).status());
      TSR_ASSIGN_OR_RETURN(token, lexer_.next());
    }
    if (!token.is('{')) return error(token, "expected '{' with the module's functions");
    ++open_;
    return absl::OkStatus();
  }
  Status end_module(const Token& token) {
    if (open_ == 0) return error(token, "closes no module");
    --open_;
    return absl::OkStatus();
  }

  Status read_mesh() {
    TSR_ASSIGN_OR_RETURN(const Token name, lexer_.expect(Token::Kind::kSymbol, "a mesh's name"));
    TSR_RETURN_IF_ERROR(lexer_.expect('='));
    TSR_RETURN_IF_ERROR(module_.meshes.add(name, lexer_));
    TSR_ASSIGN_OR_RETURN(const Token next, lexer_.peek());
    if (next.is('{')) return read_node(lexer_).status();
    return absl::OkStatus();
  }

  Status read_function() {
    Function function;
    TSR_ASSIGN_OR_RETURN(Token token, lexer_.next());
    while (token.kind == Token::Kind::kWord) {  // public, private
      TSR_ASSIGN_OR_RETURN(token, lexer_.next());
    }
    if (token.kind != Token::Kind::kSymbol) return error(token, "expected a function's name");
    function.name = std::string(token.text);
    function.offset = token.offset;
    TSR_ASSIGN_OR_RETURN(const Node arguments, read_node(lexer_));
    if (!arguments.is_group('('))
      return error(arguments.token, "expected the function's arguments");
    TSR_ASSIGN_OR_RETURN(function.arguments, read_arguments(module_, arguments.inside));
    TSR_ASSIGN_OR_RETURN(token, lexer_.peek());
    if (token.kind == Token::Kind::kArrow) {
      TSR_RETURN_IF_ERROR(lexer_.next().status());
      TSR_ASSIGN_OR_RETURN(const Node results, read_node(lexer_));
      const Nodes inside = results.is_group('(') ? Nodes(results.inside) : Nodes(&results, 1);
      TSR_ASSIGN_OR_RETURN(function.results, read_arguments(module_, inside));
    }
    TSR_ASSIGN_OR_RETURN(const bool has_attributes, lexer_.take_word("attributes"));
    if (has_attributes) TSR_RETURN_IF_ERROR(read_node(lexer_).status());
    TSR_ASSIGN_OR_RETURN(const bool has_body, lexer_.take('{'));
    if (has_body) {
      function.body = lexer_.offset();
      TSR_RETURN_IF_ERROR(lexer_.skip_braces());
    }
    if (module_.functions.size() == kMaxFunctions) {
      return lexer_.text().error(function.offset,
                                 absl::StrFormat("more than %d functions", kMaxFunctions));
    }
    const auto [at, is_new] =
        module_.by_name.emplace(function.name, static_cast<int>(module_.functions.size()));
    if (!is_new) {
      return lexer_.text().error(function.offset,
                                 in_quotes("@" + at->first) + ": a function has this name already");
    }
    module_.functions.push_back(std::move(function));
    return absl::OkStatus();
  }

  Lexer lexer_;
  Module module_;
  int open_ = 0;
};

}  // namespace

StatusOr<std::vector<Argument>> read_arguments(const Module& module, Nodes inside) {
  std::vector<Argument> arguments;
  for (std::size_t begin = 0; begin < inside.size();) {
    std::size_t end = begin;
    while (end < inside.size() && !inside[end].is(',')) ++end;
    if (end == begin) return module.text->error(inside[begin].token.offset, "expected an argument");
    TSR_ASSIGN_OR_RETURN(Argument argument,
                         read_argument(module, inside.subspan(begin, end - begin)));
    arguments.push_back(std::move(argument));
    begin = end + 1;
  }
  return arguments;
}

StatusOr<Module> read_module(const MlirText& text) { return ModuleReader(text).read(); }

}  // namespace tessera::stablehlo
