#include <algorithm>
#include <array>
#include <limits>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_format.h"
#include "io/json.h"
#include "io/json_token.h"
#include "placement/utf8.h"

namespace tessera {
namespace {

using Tape = std::vector<std::uint32_t>;

/// The keys of an object that is being read, by where they begin in the text. Few are compared one
/// by one, many are hashed.
class KeysSeen {
 public:
  explicit KeysSeen(std::string_view text) : text_(text) {}

  /// False where an equal key was there.
  bool insert(std::uint32_t at) {
    if (!many_.empty()) return many_.insert(at).second;
    const Equal equal{text_};
    for (std::size_t i = 0; i < count_; ++i) {
      if (equal(few_[i], at)) return false;
    }
    if (count_ < few_.size()) {
      few_[count_++] = at;
      return true;
    }
    many_ = Many(4 * few_.size(), Hash{text_}, equal);
    many_.insert(few_.begin(), few_.end());
    return many_.insert(at).second;
  }

 private:
  struct Hash {
    std::string_view text;
    std::size_t operator()(std::uint32_t at) const {
      const std::string_view raw = json_string_at(text, at);
      if (!is_escaped(raw)) return absl::Hash<absl::string_view>()(to_absl(raw));
      return absl::Hash<absl::string_view>()(json_unescaped(raw));
    }
  };
  struct Equal {
    std::string_view text;
    bool operator()(std::uint32_t a, std::uint32_t b) const {
      const std::string_view left = json_string_at(text, a), right = json_string_at(text, b);
      if (!is_escaped(left) && !is_escaped(right)) return left == right;
      return json_unescaped(left) == json_unescaped(right);
    }
  };
  using Many = absl::flat_hash_set<std::uint32_t, Hash, Equal>;
  static bool is_escaped(std::string_view raw) { return raw.find('\\') != std::string_view::npos; }

  std::string_view text_;
  std::array<std::uint32_t, 16> few_ = {};
  std::size_t count_ = 0;
  Many many_{0, Hash{}, Equal{}};
};

/// The most entries that a text can fill: a value is the first, or follows a comma, a colon or what
/// opens a list. Room that stays untouched takes no memory, and a list that grows would take twice.
std::size_t most_entries(std::string_view text) {
  std::size_t entries = 2;
  for (const char c : text) {
    entries += c == ',' || c == ':' ? 1 : 0;
    entries += c == '[' || c == '{' ? 2 : 0;
  }
  return entries + 1;
}

class Parser {
 public:
  Parser(std::string_view text, std::string_view source, int max_depth)
      : text_(text), source_(source), max_depth_(max_depth) {
    tape_.reserve(most_entries(text));
  }

  Status parse();
  Tape take() { return std::move(tape_); }

 private:
  struct Frame {
    std::uint32_t entry = 0;  ///< of the array or object on the tape
    bool is_object = false;
    std::int64_t items = 0;  ///< that are complete
    std::uint32_t key = 0;   ///< where that of the member being read begins; 0: none
    KeysSeen keys;
  };

  // Each reads what begins at at_ and stops after it. An array or object is read up to its first
  // value: `complete` says whether there is none.
  Status read_value(bool& complete);
  Status read_key();
  Status read_string();
  Status read_escape();
  Status read_number();
  Status read_word(std::string_view word);
  Status open(bool& complete);
  /// What follows a complete value, up to the next one or to the end.
  Status go_on();

  void skip_blanks() {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
  }
  static bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
  bool is_at(char c) const { return at_ < text_.size() && text_[at_] == c; }
  bool is_at_digit() const { return at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; }
  void put() { tape_.push_back(static_cast<std::uint32_t>(at_)); }
  void close() {
    tape_[frames_.back().entry + 1] = static_cast<std::uint32_t>(tape_.size());
    frames_.pop_back();
    ++at_;
  }

  /// Where the text is no JSON.
  Status unexpected(std::string_view expected) const;
  /// A value that is JSON but not taken.
  Status refused(std::string_view text) const;
  std::string path() const;

  std::string_view text_;
  std::string_view source_;
  int max_depth_;
  std::size_t at_ = 0;
  Tape tape_;
  std::vector<Frame> frames_;
};

Status Parser::parse() {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  for (;;) {
    skip_blanks();
    bool complete = true;
    TSR_RETURN_IF_ERROR(read_value(complete));
    if (!complete) continue;
    TSR_RETURN_IF_ERROR(go_on());
    if (frames_.empty()) return absl::OkStatus();
  }
}

Status Parser::go_on() {
  for (;;) {
    skip_blanks();
    if (frames_.empty()) {
      return at_ == text_.size() ? absl::OkStatus() : unexpected("the end of the text");
    }
    Frame& frame = frames_.back();
    ++frame.items;
    if (is_at(',')) {
      ++at_;
      skip_blanks();
      return frame.is_object ? read_key() : absl::OkStatus();
    }
    if (!is_at(frame.is_object ? '}' : ']')) {
      return unexpected(frame.is_object ? "',' or '}'" : "',' or ']'");
    }
    close();
  }
}

Status Parser::read_value(bool& complete) {
  switch (at_ < text_.size() ? text_[at_] : '\0') {
    case '{':
    case '[':
      return open(complete);
    case '"':
      put();
      return read_string();
    case 't':
      return read_word("true");
    case 'f':
      return read_word("false");
    case 'n':
      return read_word("null");
    default:
      if (!is_at('-') && !is_at_digit()) return unexpected("a value");
      put();
      return read_number();
  }
}

Status Parser::open(bool& complete) {
  if (static_cast<int>(frames_.size()) >= max_depth_) {
    return refused(absl::StrFormat("nested deeper than %d levels", max_depth_));
  }
  const bool is_object = is_at('{');
  frames_.push_back({.entry = static_cast<std::uint32_t>(tape_.size()),
                     .is_object = is_object,
                     .keys = KeysSeen(text_)});
  put();
  tape_.push_back(0);
  ++at_;
  skip_blanks();
  complete = is_at(is_object ? '}' : ']');
  if (complete) {
    close();
  } else if (is_object) {
    return read_key();
  }
  return absl::OkStatus();
}

Status Parser::read_key() {
  if (!is_at('"')) return unexpected("a key in quotes");
  Frame& frame = frames_.back();
  frame.key = 0;
  const auto key = static_cast<std::uint32_t>(at_);
  put();
  TSR_RETURN_IF_ERROR(read_string());
  if (!frame.keys.insert(key)) {
    return refused(absl::StrFormat("key %s stands twice; an object names each key once",
                                   in_quotes(json_unescaped(json_string_at(text_, key)))));
  }
  frame.key = key;
  skip_blanks();
  if (!is_at(':')) return unexpected("':' after a key");
  ++at_;
  return absl::OkStatus();
}

Status Parser::read_string() {
  for (++at_; at_ < text_.size() && text_[at_] != '"';) {
    const auto byte = static_cast<unsigned char>(text_[at_]);
    if (byte == '\\') {
      TSR_RETURN_IF_ERROR(read_escape());
    } else if (byte < ' ') {
      return unexpected("a string without control characters");
    } else if (byte < 0x80) {
      ++at_;
    } else {
      const CodePoint point = first_code_point(text_.substr(at_));
      if (point.bytes == 0) return unexpected("a string in UTF-8");
      at_ += point.bytes;
    }
  }
  if (at_ == text_.size()) return unexpected("a string to end with '\"'");
  ++at_;
  return absl::OkStatus();
}

Status Parser::read_escape() {
  constexpr std::string_view kPlain = "\"\\/bfnrt";
  const std::string_view rest = text_.substr(at_ + 1);
  if (!rest.empty() && kPlain.find(rest[0]) != std::string_view::npos) {
    at_ += 2;
    return absl::OkStatus();
  }
  const JsonEscape escape = json_escape(text_.substr(at_));
  if (escape.bytes == 0) return unexpected("an escape such as \\n or \\u00e9, surrogates in pairs");
  at_ += escape.bytes;
  return absl::OkStatus();
}

Status Parser::read_number() {
  const std::size_t begin = at_;
  const auto digits = [&] {
    const std::size_t first = at_;
    while (is_at_digit()) ++at_;
    return at_ > first;
  };
  if (is_at('-')) ++at_;
  if (is_at('0')) {
    ++at_;
    if (is_at_digit()) return unexpected("no digit after a leading 0");
  } else if (!digits()) {
    return unexpected("a digit");
  }
  const std::size_t whole = at_;
  if (is_at('.')) {
    ++at_;
    if (!digits()) return unexpected("a digit after the point");
  }
  if (is_at('e') || is_at('E')) {
    ++at_;
    if (is_at('+') || is_at('-')) ++at_;
    if (!digits()) return unexpected("a digit of the exponent");
  }
  const std::string_view number = text_.substr(begin, at_ - begin);
  const std::string shown(number.size() > 40 ? number.substr(0, 40) : number);
  const char* more = number.size() > 40 ? "…" : "";
  if (at_ == whole && !json_integer(number)) {
    return refused(
        absl::StrFormat("integer %s%s does not fit; integers are -2^63 to 2^63 - 1", shown, more));
  }
  if (at_ != whole && !json_double(number)) {
    return refused(absl::StrFormat("number %s%s is beyond the largest double", shown, more));
  }
  return absl::OkStatus();
}

Status Parser::read_word(std::string_view word) {
  if (!text_.substr(at_).starts_with(word)) return unexpected("a value");
  put();
  at_ += word.size();
  return absl::OkStatus();
}

Status Parser::unexpected(std::string_view expected) const {
  const std::string_view before = text_.substr(0, at_);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t break_at = before.rfind('\n');
  const std::size_t column = at_ - (break_at == std::string_view::npos ? 0 : break_at + 1) + 1;
  constexpr std::size_t kShown = 20;
  std::string_view rest = text_.substr(at_, kShown);
  rest = rest.substr(0, rest.find_first_of("\r\n"));
  const std::string seen = at_ == text_.size() ? "the text ends here"
                           : rest.empty()      ? "the line ends here"
                                               : "not " + in_quotes(rest);
  return invalid_argument(absl::StrFormat("%s:%d:%d: syntax error: expected %s, %s", source_, line,
                                          column, expected, seen));
}

Status Parser::refused(std::string_view text) const {
  return invalid_argument(absl::StrFormat("%s: %s: %s", source_, path(), text));
}

std::string Parser::path() const {
  std::string path;
  for (const Frame& frame : frames_) {
    if (!frame.is_object) {
      path += '/' + std::to_string(frame.items);
    } else if (frame.key != 0) {
      path += '/' + json_path_step(json_unescaped(json_string_at(text_, frame.key)));
    }
    if (path.size() > 160) return path.substr(0, 160) + "…";
  }
  return path.empty() ? "/" : path;
}

}  // namespace

StatusOr<JsonDocument> JsonDocument::parse(std::string_view text, std::string_view source,
                                           const JsonLimits& limits) {
  constexpr auto kMost = std::int64_t{std::numeric_limits<std::uint32_t>::max()};  // of the tape
  const std::int64_t most = std::min(limits.bytes, kMost);
  if (static_cast<std::int64_t>(text.size()) > most) {
    return invalid_argument(
        absl::StrFormat("%s: %d bytes of JSON; at most %d are read", source, text.size(), most));
  }
  Parser parser(text, source, limits.depth);
  TSR_RETURN_IF_ERROR(parser.parse());
  return JsonDocument(text, source, parser.take());
}

StatusOr<Json> parse_json(std::string_view text, std::string_view source,
                          const JsonLimits& limits) {
  TSR_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::parse(text, source, limits));
  return document.root().to_json();
}

}  // namespace tessera
