// program/stablehlo/mlir_statement.h: one operation of MLIR's text at a time, generic or pretty
// form: its results, what stands between its name and its types, its types, regions as places in
// the text that are read when they are wanted. Internal to program/stablehlo/.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "placement/dtype.h"
#include "placement/shape.h"
#include "program/stablehlo/mlir_lexer.h"

namespace tessera::stablehlo {

inline constexpr int kMaxBrackets = 64;  ///< in one another; regions likewise

/// A token, or a pair of brackets with what stands in them.
struct Node {
  enum class Kind : std::uint8_t { kToken, kGroup, kRegion };
  Kind kind = Kind::kToken;
  Token token = {};               ///< of a group and a region: the opening bracket
  std::vector<Node> inside = {};  ///< kGroup
  std::size_t body = 0;           ///< kRegion: where its text begins, behind the brace

  bool is_group(char open) const noexcept { return kind == Kind::kGroup && token.is(open); }
  bool is_string() const noexcept {
    return kind == Kind::kToken && token.kind == Token::Kind::kString;
  }
  bool is_word(std::string_view word) const noexcept {
    return kind == Kind::kToken && token.is_word(word);
  }
  bool is(char punctuation) const noexcept { return kind == Kind::kToken && token.is(punctuation); }
};
using Nodes = std::span<const Node>;

/// A type of a value. Element types that the table of dtypes lacks are held in one of their size.
struct TensorType {
  Shape shape;
  DType dtype = DType::kF32;
  std::string stand_in;  ///< "ui32" where dtype stands for it; empty: as it is
  bool operator==(const TensorType&) const = default;
};

struct Result {
  std::string name;  ///< "%0"
  int count = 1;     ///< "%0:2" has 2: %0#0 and %0#1
};

struct Statement {
  std::size_t offset = 0;
  std::vector<Result> results;
  std::string op;             ///< "stablehlo.add"
  std::vector<Node> body;     ///< between the name and the types
  std::vector<Node> trailer;  ///< behind the types: reducer(…) {…}, cond {…} do {…}
  std::vector<TensorType> operand_types;  ///< none where only the result's are given
  std::vector<TensorType> result_types;
  std::optional<Node> location;  ///< the brackets behind loc

  /// The values that it takes, in order: those outside of regions and attributes.
  std::vector<Token> operands() const;
  std::vector<const Node*> regions() const;
  /// What follows `key =`, in the body or its attributes, up to the next comma. Empty: none.
  Nodes attribute(std::string_view key) const;
};

/// The next operation, or none where a region or the text ends (the lexer stands before the brace).
/// Block labels are skipped. Errors: InvalidArgument with the place, what was seen and is allowed.
StatusOr<std::optional<Statement>> next_statement(Lexer& lexer);

/// "4x8xf32", what stands in tensor<…>. Errors: InvalidArgument for sizes that are not known, and
/// for element types that have no size in bytes.
StatusOr<TensorType> parse_tensor_type(const MlirText& text, const Token& token);

/// One node, from the lexer's place on. Errors: as above, also for kMaxBrackets in one another.
StatusOr<Node> read_node(Lexer& lexer, int depth = 0);
/// What follows `key =` among `nodes`, up to the next comma. Empty: none.
Nodes find_attribute(Nodes nodes, std::string_view key);
/// True for a unit attribute, or one that is followed by "= true".
bool has_flag(Nodes nodes, std::string_view key);

/// The whole numbers of "[0, 1]", "array<i64: 0, 1>", "dense<[[0, 1]]> : …", "dense<0>". Errors:
/// InvalidArgument for anything else, and more than 2^20 of them.
StatusOr<std::vector<std::int64_t>> integers_of(const MlirText& text, Nodes nodes);
StatusOr<std::int64_t> integer_of(const MlirText& text, Nodes nodes);

/// The number that "dense<…>" says for all elements; none: there are several, or bytes.
std::optional<double> literal_number(std::string_view literal, DType dtype);

}  // namespace tessera::stablehlo
