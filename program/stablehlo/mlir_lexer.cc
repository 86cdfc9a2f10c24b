#include "program/stablehlo/mlir_lexer.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "io/json.h"
#include "placement/printable.h"

namespace tessera::stablehlo {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name(char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '$' || c == '-'; }

}  // namespace

Status MlirText::error(std::size_t offset, std::string_view what) const {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t begin = before.rfind('\n');
  const std::size_t column = before.size() - (begin == std::string_view::npos ? 0 : begin + 1) + 1;
  return invalid_argument(
      absl::StrFormat("%s:%d:%d: %s", source, line, column, printable(what, /*max_bytes=*/2000)));
}

std::string describe(const Token& token) {
  constexpr std::size_t kShown = 40;
  if (token.kind == Token::Kind::kEnd) return "the end of the text";
  return in_quotes(token.text.substr(0, kShown));
}

void Lexer::skip_blanks() {
  for (;;) {
    const char c = at(at_);
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == '/' && at(at_ + 1) == '/') {
      at_ = std::min(text_->text.find('\n', at_), text_->text.size());
    } else {
      return;
    }
  }
}

StatusOr<Token> Lexer::take_string() {
  const std::size_t begin = at_++;
  while (at_ < text_->text.size()) {
    const char c = text_->text[at_];
    if (c == '\n') break;
    if (c == '"') {
      ++at_;
      return Token{Token::Kind::kString, text_->text.substr(begin + 1, at_ - begin - 2), begin};
    }
    at_ += c == '\\' ? 2 : 1;
  }
  at_ = text_->text.size();
  return text_->error(begin, "a string that does not end; expected '\"'");
}

// at_ stands on the opening angle.
StatusOr<Token> Lexer::take_angled(Token::Kind kind, std::size_t begin) {
  const std::size_t inside = at_ + 1;
  int depth = 0;
  while (at_ < text_->text.size()) {
    const char c = text_->text[at_];
    if (c == '"') {
      TSR_RETURN_IF_ERROR(take_string().status());
      continue;
    }
    if (c == '<') ++depth;
    if (c == '>' && text_->text[at_ - 1] != '-' && --depth == 0) {
      ++at_;
      return Token{kind, text_->text.substr(inside, at_ - inside - 1), begin};
    }
    ++at_;
  }
  return text_->error(begin, "an angle that is not closed; expected '>'");
}

Token Lexer::take_number(std::size_t begin) {
  if (at(at_) == '-') ++at_;
  if (at(at_) == '0' && at(at_ + 1) == 'x') {
    at_ += 2;
    while (is_digit(at(at_)) || is_letter(at(at_))) ++at_;
  } else {
    while (is_digit(at(at_)) || at(at_) == '.') ++at_;
    if (at(at_) == 'e' || at(at_) == 'E') {
      ++at_;
      if (at(at_) == '+' || at(at_) == '-') ++at_;
      while (is_digit(at(at_))) ++at_;
    }
  }
  return {Token::Kind::kNumber, text_->text.substr(begin, at_ - begin), begin};
}

StatusOr<Token> Lexer::next() {
  skip_blanks();
  const std::size_t begin = at_;
  const auto token = [&](Token::Kind kind, std::size_t skipped = 0) {
    return Token{kind, text_->text.substr(begin + skipped, at_ - begin - skipped), begin};
  };
  if (begin >= text_->text.size()) return Token{Token::Kind::kEnd, {}, text_->text.size()};
  const char c = text_->text[begin];
  if (c == '"') return take_string();
  if (c == '-' && at(begin + 1) == '>') {
    at_ += 2;
    return token(Token::Kind::kArrow);
  }
  if (is_digit(c) || (c == '-' && is_digit(at(begin + 1)))) return take_number(begin);
  if (is_letter(c)) {
    // A hyphen is part of no word, and "a->b" has an arrow.
    while (is_name(at(at_)) && at(at_) != '-') ++at_;
    if (at(at_) == '<') {
      const std::string_view word = text_->text.substr(begin, at_ - begin);
      if (word == "tensor") return take_angled(Token::Kind::kTensor, begin);
      if (word == "dense" || word == "dense_resource") {
        return take_angled(Token::Kind::kDense, begin);
      }
      if (word == "array") return take_angled(Token::Kind::kArray, begin);
    }
    return token(Token::Kind::kWord);
  }
  if (c == '@') {
    ++at_;
    if (at(at_) == '"') {
      TSR_ASSIGN_OR_RETURN(const Token quoted, take_string());
      return Token{Token::Kind::kSymbol, quoted.text, begin};
    }
    while (is_name(at(at_))) ++at_;
    return token(Token::Kind::kSymbol, 1);
  }
  if (c == '%' || c == '#' || c == '^' || c == '!') {
    ++at_;
    while (is_name(at(at_)) && !(at(at_) == '-' && at(at_ + 1) == '>')) ++at_;
    if (c == '%' && at(at_) == '#') {
      ++at_;
      while (is_digit(at(at_))) ++at_;
    }
    if (c == '%') return token(Token::Kind::kValue);
    if (c == '#') return token(Token::Kind::kAlias);
    return token(c == '^' ? Token::Kind::kBlock : Token::Kind::kOtherType);
  }
  if (std::string_view("(){}[]<>,:=?*+-|/").find(c) != std::string_view::npos) {
    ++at_;
    return token(Token::Kind::kPunctuation);
  }
  return text_->error(begin, in_quotes(std::string_view(&text_->text[begin], 1)) +
                                 " begins nothing that MLIR's text has");
}

StatusOr<bool> Lexer::take(char punctuation) {
  TSR_ASSIGN_OR_RETURN(const Token token, peek());
  if (!token.is(punctuation)) return false;
  at_ = token.offset + 1;
  return true;
}

StatusOr<bool> Lexer::take_word(std::string_view word) {
  TSR_ASSIGN_OR_RETURN(const Token token, peek());
  if (!token.is_word(word)) return false;
  at_ = token.offset + word.size();
  return true;
}

StatusOr<Token> Lexer::expect(Token::Kind kind, std::string_view what) {
  TSR_ASSIGN_OR_RETURN(const Token token, next());
  if (token.kind == kind) return token;
  return text_->error(token.offset, describe(token) + ": expected " + std::string(what));
}

Status Lexer::expect(char punctuation) {
  TSR_ASSIGN_OR_RETURN(const Token token, next());
  if (token.is(punctuation)) return absl::OkStatus();
  return text_->error(token.offset, describe(token) + ": expected '" + punctuation + "'");
}

Status Lexer::skip_braces() {
  const std::size_t begin = at_;
  for (std::int64_t depth = 1; depth > 0;) {
    TSR_ASSIGN_OR_RETURN(const Token token, next());
    if (token.kind == Token::Kind::kEnd) {
      return text_->error(begin - 1, "a brace that is not closed; expected '}'");
    }
    if (token.is('{')) ++depth;
    if (token.is('}')) --depth;
  }
  return absl::OkStatus();
}

}  // namespace tessera::stablehlo
