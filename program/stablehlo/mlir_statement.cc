#include "program/stablehlo/mlir_statement.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "io/json.h"

namespace tessera::stablehlo {
namespace {

constexpr std::size_t kMaxNodes = 1'000'000;  // of one operation

char closing_of(char open) {
  switch (open) {
    case '(':
      return ')';
    case '[':
      return ']';
    case '<':
      return '>';
    default:
      return '}';
  }
}

/// Attributes and sets begin with "}", a key and '=', ',' or '}'; all else is operations.
StatusOr<bool> begins_region(Lexer lexer) {
  TSR_ASSIGN_OR_RETURN(const Token first, lexer.next());
  if (first.is('}')) return false;
  if (first.kind != Token::Kind::kWord && first.kind != Token::Kind::kString) {
    return first.kind == Token::Kind::kValue || first.kind == Token::Kind::kBlock;
  }
  TSR_ASSIGN_OR_RETURN(const Token second, lexer.next());
  return !second.is('=') && !second.is(',') && !second.is('}') && !second.is(':');
}

class NodeReader {
 public:
  explicit NodeReader(Lexer& lexer) : lexer_(lexer) {}

  StatusOr<Node> read(int depth) {
    TSR_ASSIGN_OR_RETURN(const Token token, lexer_.next());
    if (++num_nodes_ > kMaxNodes) {
      return error(token, absl::StrFormat("more than %d words in one operation", kMaxNodes));
    }
    Node node{.token = token};
    if (token.kind == Token::Kind::kEnd) return error(token, describe(token));
    if (token.kind != Token::Kind::kPunctuation) return node;
    const char open = token.text[0];
    if (std::string_view(")]}>").find(open) != std::string_view::npos) {
      return error(token, describe(token) + ": closes a bracket that is not open");
    }
    if (std::string_view("([{<").find(open) == std::string_view::npos) return node;
    if (depth == kMaxBrackets) {
      return error(token, absl::StrFormat("brackets in more than %d others", kMaxBrackets));
    }
    if (open == '{') {
      TSR_ASSIGN_OR_RETURN(const bool region, begins_region(lexer_));
      if (region) {
        node.kind = Node::Kind::kRegion;
        node.body = lexer_.offset();
        TSR_RETURN_IF_ERROR(lexer_.skip_braces());
        return node;
      }
    }
    node.kind = Node::Kind::kGroup;
    for (;;) {
      TSR_ASSIGN_OR_RETURN(const bool closed, lexer_.take(closing_of(open)));
      if (closed) return node;
      TSR_ASSIGN_OR_RETURN(const Token next, lexer_.peek());
      if (next.kind == Token::Kind::kEnd) {
        return error(token,
                     describe(token) + ": is not closed; expected '" + closing_of(open) + "'");
      }
      TSR_ASSIGN_OR_RETURN(Node inside, read(depth + 1));
      node.inside.push_back(std::move(inside));
    }
  }

 private:
  Status error(const Token& token, const std::string& what) const {
    return lexer_.text().error(token.offset, what);
  }
  Lexer& lexer_;
  std::size_t num_nodes_ = 0;
};

StatusOr<TensorType> read_type(Lexer& lexer) {
  TSR_ASSIGN_OR_RETURN(const Token token, lexer.next());
  if (token.kind == Token::Kind::kTensor) return parse_tensor_type(lexer.text(), token);
  // A token orders operations and holds nothing.
  if (token.kind == Token::Kind::kOtherType && token.text == "!stablehlo.token") {
    return TensorType{.shape = {0}, .dtype = DType::kU8, .stand_in = "token"};
  }
  return lexer.text().error(token.offset,
                            describe(token) + ": expected tensor<…> of known sizes as a type");
}

/// "t, t" or "(t, t)".
StatusOr<std::vector<TensorType>> read_types(Lexer& lexer) {
  std::vector<TensorType> types;
  TSR_ASSIGN_OR_RETURN(const bool bracketed, lexer.take('('));
  if (bracketed) {
    TSR_ASSIGN_OR_RETURN(const bool none, lexer.take(')'));
    if (none) return types;
  }
  for (;;) {
    TSR_ASSIGN_OR_RETURN(TensorType type, read_type(lexer));
    types.push_back(std::move(type));
    TSR_ASSIGN_OR_RETURN(const bool more, lexer.take(','));
    if (!more) break;
  }
  if (bracketed) TSR_RETURN_IF_ERROR(lexer.expect(')'));
  return types;
}

Status read_signature(Lexer& lexer, Statement& statement) {
  TSR_ASSIGN_OR_RETURN(std::vector<TensorType> first, read_types(lexer));
  TSR_ASSIGN_OR_RETURN(const Token arrow, lexer.peek());
  if (arrow.kind != Token::Kind::kArrow) {
    // "i1, f32" of a select: the last are those of the results.
    std::size_t results = 0;
    for (const Result& result : statement.results)
      results += static_cast<std::size_t>(result.count);
    const bool mixed = results > 0 && first.size() > results;
    const auto begin =
        first.begin() + static_cast<std::ptrdiff_t>(mixed ? first.size() - results : 0);
    statement.operand_types.assign(first.begin(), begin);
    statement.result_types.assign(begin, first.end());
    return absl::OkStatus();
  }
  TSR_RETURN_IF_ERROR(lexer.next().status());
  statement.operand_types = std::move(first);
  TSR_ASSIGN_OR_RETURN(statement.result_types, read_types(lexer));
  return absl::OkStatus();
}

Status read_results(Lexer& lexer, Statement& statement) {
  for (;;) {
    TSR_ASSIGN_OR_RETURN(const Token name, lexer.expect(Token::Kind::kValue, "a value's name"));
    Result& result = statement.results.emplace_back();
    result.name = std::string(name.text);
    TSR_ASSIGN_OR_RETURN(const bool several, lexer.take(':'));
    if (several) {
      TSR_ASSIGN_OR_RETURN(const Token count, lexer.expect(Token::Kind::kNumber, "a count"));
      const Node node{.token = count};
      TSR_ASSIGN_OR_RETURN(const std::int64_t number, integer_of(lexer.text(), Nodes(&node, 1)));
      constexpr std::int64_t kMost = 65'536;
      if (number < 1 || number > kMost) {
        return lexer.text().error(
            count.offset, absl::StrFormat("%d results; allowed are 1 to %d", number, kMost));
      }
      result.count = static_cast<int>(number);
    }
    TSR_ASSIGN_OR_RETURN(const bool more, lexer.take(','));
    if (!more) return lexer.expect('=');
  }
}

/// What stands between the name and the types, if any.
Status read_body(Lexer& lexer, Statement& statement) {
  NodeReader reader(lexer);
  for (;;) {
    TSR_ASSIGN_OR_RETURN(const Token token, lexer.peek());
    if (token.kind == Token::Kind::kEnd || token.is('}') || token.is_word("loc")) {
      return absl::OkStatus();
    }
    if (token.is(':')) {
      TSR_RETURN_IF_ERROR(lexer.next().status());
      return read_signature(lexer, statement);
    }
    if (token.is('=') && !statement.body.empty() &&
        statement.body.back().token.kind == Token::Kind::kValue) {
      return lexer.text().error(statement.offset,
                                statement.op + ": expected ':' and types behind it");
    }
    TSR_ASSIGN_OR_RETURN(Node node, reader.read(0));
    statement.body.push_back(std::move(node));
  }
}

Status read_trailer(Lexer& lexer, Statement& statement) {
  NodeReader reader(lexer);
  for (;;) {
    TSR_ASSIGN_OR_RETURN(const Token token, lexer.peek());
    if (token.is_word("loc")) {
      TSR_RETURN_IF_ERROR(lexer.next().status());
      TSR_ASSIGN_OR_RETURN(statement.location, reader.read(0));
      if (statement.location->is_group('(')) return absl::OkStatus();
      return lexer.text().error(token.offset, "loc: expected '(' behind it");
    }
    const bool known = token.is_word("reducer") || token.is_word("cond") || token.is_word("do") ||
                       token.is_word("attributes");
    const bool follows = !statement.trailer.empty() && (token.is('(') || token.is('{'));
    if (!known && !follows) return absl::OkStatus();
    TSR_ASSIGN_OR_RETURN(Node node, reader.read(0));
    statement.trailer.push_back(std::move(node));
  }
}

/// Of "%iterArg = %0" the second.
void add_operands(const std::vector<Node>& nodes, std::vector<Token>& found) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    const bool is_value = node.kind == Node::Kind::kToken && node.token.kind == Token::Kind::kValue;
    const bool is_named = i + 1 < nodes.size() && nodes[i + 1].is('=');
    if (is_value && !is_named) found.push_back(node.token);
  }
}

void add_regions(const std::vector<Node>& nodes, std::vector<const Node*>& found) {
  for (const Node& node : nodes) {
    if (node.kind == Node::Kind::kRegion) found.push_back(&node);
    if (node.is_group('(')) add_regions(node.inside, found);
  }
}

}  // namespace

std::vector<Token> Statement::operands() const {
  std::vector<Token> found;
  for (std::size_t i = 0; i < body.size(); ++i) {
    const Node& node = body[i];
    // The names of a block's arguments stand in brackets before its region.
    const bool names_arguments = i + 1 < body.size() && body[i + 1].kind == Node::Kind::kRegion;
    if (node.is_group('(') && !names_arguments) add_operands(node.inside, found);
    if (node.kind == Node::Kind::kToken && node.token.kind == Token::Kind::kValue) {
      found.push_back(node.token);
    }
  }
  return found;
}

std::vector<const Node*> Statement::regions() const {
  std::vector<const Node*> found;
  add_regions(body, found);
  add_regions(trailer, found);
  return found;
}

Nodes find_attribute(Nodes nodes, std::string_view key) {
  for (std::size_t i = 0; i + 2 < nodes.size(); ++i) {
    const Token& token = nodes[i].token;
    const bool named = nodes[i].kind == Node::Kind::kToken && token.text == key &&
                       (token.kind == Token::Kind::kWord || token.kind == Token::Kind::kString);
    if (!named || !nodes[i + 1].is('=')) continue;
    std::size_t end = i + 2;
    while (end < nodes.size() && !nodes[end].is(',')) ++end;
    return nodes.subspan(i + 2, end - i - 2);
  }
  return {};
}

bool has_flag(Nodes nodes, std::string_view key) {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!nodes[i].is_word(key)) continue;
    return i + 2 >= nodes.size() || !nodes[i + 1].is('=') || nodes[i + 2].is_word("true");
  }
  return false;
}

Nodes Statement::attribute(std::string_view key) const {
  if (const Nodes found = find_attribute(body, key); !found.empty()) return found;
  for (const std::vector<Node>* nodes : {&body, &trailer}) {
    for (const Node& node : *nodes) {
      // <{…}> holds what the generic form calls properties.
      const bool angled = node.is_group('<') && !node.inside.empty();
      const Node& group = angled ? node.inside[0] : node;
      if (!group.is_group('{') && !group.is_group('(')) continue;
      if (const Nodes found = find_attribute(group.inside, key); !found.empty()) return found;
    }
  }
  return {};
}

StatusOr<std::optional<Statement>> next_statement(Lexer& lexer) {
  Token token;
  for (;;) {
    TSR_ASSIGN_OR_RETURN(token, lexer.peek());
    if (token.kind != Token::Kind::kBlock) break;
    TSR_RETURN_IF_ERROR(lexer.next().status());
    TSR_ASSIGN_OR_RETURN(const Token next, lexer.peek());
    if (next.is('(')) TSR_RETURN_IF_ERROR(read_node(lexer).status());
    TSR_RETURN_IF_ERROR(lexer.expect(':'));
  }
  if (token.kind == Token::Kind::kEnd || token.is('}')) return std::optional<Statement>();
  Statement statement;
  statement.offset = token.offset;
  if (token.kind == Token::Kind::kValue) TSR_RETURN_IF_ERROR(read_results(lexer, statement));
  TSR_ASSIGN_OR_RETURN(const Token name, lexer.next());
  if (name.kind != Token::Kind::kWord && name.kind != Token::Kind::kString) {
    return lexer.text().error(name.offset, describe(name) + ": expected an operation's name");
  }
  statement.op = std::string(name.text);
  TSR_RETURN_IF_ERROR(read_body(lexer, statement));
  TSR_RETURN_IF_ERROR(read_trailer(lexer, statement));
  return std::optional<Statement>(std::move(statement));
}

StatusOr<Node> read_node(Lexer& lexer, int depth) { return NodeReader(lexer).read(depth); }

}  // namespace tessera::stablehlo
