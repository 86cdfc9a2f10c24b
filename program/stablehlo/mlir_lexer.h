// program/stablehlo/mlir_lexer.h: the words of MLIR's text, as jax and Shardy print it. Literals of
// tensors and tensor types are one token each, whatever is in them, so that a large constant is no
// list of its elements. Internal to program/stablehlo/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "placement/status.h"

namespace tessera::stablehlo {

struct Token {
  enum class Kind : std::uint8_t {
    kEnd,
    kWord,       ///< stablehlo.add, dims, true
    kNumber,     ///< 12, -1.5e+00, 0xFF800000
    kString,     ///< the text between the quotes, as written
    kSymbol,     ///< @main: the text behind @
    kValue,      ///< %0, %arg1, %3#2: with the %
    kAlias,      ///< #loc12, #sdy.sharding: with the #
    kBlock,      ///< ^bb0
    kOtherType,  ///< !stablehlo.token
    kTensor,     ///< tensor<4x8xf32>: what stands between the angles
    kDense,      ///< dense<[1, 2]>: likewise
    kArray,      ///< array<i64: 1, 2>: likewise
    kArrow,
    kPunctuation
  };
  Kind kind = Kind::kEnd;
  std::string_view text;
  std::size_t offset = 0;  ///< of its first byte in the text

  bool is(char punctuation) const noexcept {
    return kind == Kind::kPunctuation && text[0] == punctuation;
  }
  bool is_word(std::string_view word) const noexcept { return kind == Kind::kWord && text == word; }
};

/// The text and its name in errors. Views of the text must not outlive it.
struct MlirText {
  std::string_view text;
  std::string source;

  /// InvalidArgument "source:line:col: what". Cost: O(offset).
  Status error(std::size_t offset, std::string_view what) const;
};

/// A place in the text that goes forward token by token.
class Lexer {
 public:
  explicit Lexer(const MlirText& text, std::size_t offset = 0) : text_(&text), at_(offset) {}

  /// Errors: InvalidArgument for a byte that begins no token, and what does not end.
  StatusOr<Token> next();
  StatusOr<Token> peek() const { return Lexer(*this).next(); }
  std::size_t offset() const noexcept { return at_; }
  const MlirText& text() const noexcept { return *text_; }

  /// Skips the next token where it is that. Errors: those of next().
  StatusOr<bool> take(char punctuation);
  StatusOr<bool> take_word(std::string_view word);
  /// Errors: InvalidArgument naming what stands there and `what` was expected.
  StatusOr<Token> expect(Token::Kind kind, std::string_view what);
  Status expect(char punctuation);
  /// Behind an opening brace: to behind the brace that closes it. Errors: those of next().
  Status skip_braces();

 private:
  void skip_blanks();
  char at(std::size_t index) const noexcept {
    return index < text_->text.size() ? text_->text[index] : '\0';
  }
  StatusOr<Token> take_string();
  StatusOr<Token> take_angled(Token::Kind kind, std::size_t begin);
  Token take_number(std::size_t begin);

  const MlirText* text_;
  std::size_t at_ = 0;
};

/// "end of text", "'{'", "\"add\"": for errors.
std::string describe(const Token& token);

}  // namespace tessera::stablehlo
