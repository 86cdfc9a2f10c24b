#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "io/json.h"
#include "placement/printable.h"

namespace tessera {
namespace {

// nlohmann reads the grammar; this keeps what its own document would lose: repeated keys, the
// exactness of integers, and a bound on the depth.
class StrictHandler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  StrictHandler(std::string_view source, int max_depth) : source_(source), max_depth_(max_depth) {}

  bool null() override { return put(Json()); }
  bool boolean(bool value) override { return put(Json(value)); }
  bool number_integer(number_integer_t value) override { return put(Json(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(INT64_MAX)) return too_large(std::to_string(value));
    return put(Json(static_cast<std::int64_t>(value)));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    // What has neither point nor exponent is an integer that did not fit.
    if (text.find_first_of(".eE") == std::string::npos) return too_large(text);
    return put(Json(value));
  }
  bool string(string_t& value) override { return put(Json(std::move(value))); }
  bool binary(binary_t&) override { return fail("binary values are no JSON"); }

  bool start_object(std::size_t) override { return open(Json(Json::Object())); }
  bool start_array(std::size_t) override { return open(Json(Json::Array())); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& value) override {
    Frame& frame = frames_.back();
    if (!frame.keys.insert(value).second) {
      return fail(
          absl::StrFormat("key %s stands twice; an object names each key once", in_quotes(value)));
    }
    frame.key = std::move(value);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    position_ = position;
    problem_ = error.what();
    return false;
  }

  Json take_root() { return std::move(root_); }
  Status refusal(std::string_view text) const;

 private:
  struct Frame {
    Json value;
    std::optional<std::string> key;  // of the member being read
    absl::flat_hash_set<std::string> keys;
  };

  bool open(Json value) {
    if (static_cast<int>(frames_.size()) >= max_depth_) {
      return fail(absl::StrFormat("nested deeper than %d levels", max_depth_));
    }
    frames_.push_back({std::move(value), std::nullopt, {}});
    return true;
  }
  bool close() {
    Json value = std::move(frames_.back().value);
    frames_.pop_back();
    return put(std::move(value));
  }
  bool put(Json value) {
    if (frames_.empty()) {
      root_ = std::move(value);
      return true;
    }
    Frame& frame = frames_.back();
    if (frame.value.if_array() != nullptr) {
      frame.value.push(std::move(value));
    } else {
      frame.value.set(*std::move(frame.key), std::move(value));
      frame.key.reset();
    }
    return true;
  }
  bool too_large(const std::string& text) {
    return fail(absl::StrFormat("integer %s does not fit; integers are -2^63 to 2^63 - 1",
                                text.size() > 40 ? text.substr(0, 40) + "…" : text));
  }
  bool fail(std::string text) {
    refused_ = std::move(text);
    return false;
  }
  std::string path() const;

  std::string_view source_;
  int max_depth_;
  std::vector<Frame> frames_;
  Json root_;
  std::string refused_;
  std::string problem_;
  std::size_t position_ = 0;
};

std::string StrictHandler::path() const {
  std::string path;
  for (const Frame& frame : frames_) {
    if (const Json::Array* items = frame.value.if_array()) {
      path += '/' + std::to_string(items->size());
    } else if (frame.key) {
      std::string key = in_quotes(*frame.key);
      path += '/' + key.substr(1, key.size() - 2);
    }
    if (path.size() > 160) return path.substr(0, 160) + "…";
  }
  return path.empty() ? "/" : path;
}

// nlohmann's text is "[json.exception.parse_error.101] parse error at line 1, column 5: syntax
// error while parsing value - invalid literal; last read: 'NaN'": what follows the place is worth
// telling.
std::string reason_of(const std::string& problem) {
  std::size_t at = problem.find("column ");
  if (at != std::string::npos) at = problem.find(": ", at);
  if (at == std::string::npos) at = problem.find("] ");
  return at == std::string::npos ? problem : problem.substr(at + 2);
}

Status StrictHandler::refusal(std::string_view text) const {
  if (!refused_.empty()) {
    return invalid_argument(absl::StrFormat("%s: %s: %s", source_, path(), refused_));
  }
  const std::size_t end = std::min(position_ > 0 ? position_ - 1 : 0, text.size());
  const std::string_view before = text.substr(0, end);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t break_at = before.rfind('\n');
  const std::size_t column = end - (break_at == std::string_view::npos ? 0 : break_at + 1) + 1;
  return invalid_argument(
      absl::StrFormat("%s:%d:%d: %s", source_, line, column, printable(reason_of(problem_), 200)));
}

}  // namespace

StatusOr<Json> parse_json(std::string_view text, std::string_view source,
                          const JsonLimits& limits) {
  if (static_cast<std::int64_t>(text.size()) > limits.bytes) {
    return invalid_argument(absl::StrFormat("%s: %d bytes of JSON; at most %d are read", source,
                                            text.size(), limits.bytes));
  }
  StrictHandler handler(source, limits.depth);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &handler)) return handler.refusal(text);
  return handler.take_root();
}

}  // namespace tessera
