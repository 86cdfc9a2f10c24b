// tests/fuzz/fuzz.h: what the fuzz targets share. A target takes bytes; whatever they are, it
// returns, and a property that does not hold aborts with the values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "io/json.h"
#include "placement/status.h"

/// The name that libFuzzer calls; a replay of kept inputs gives each target one of its own.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace tessera::testing {

/// An error's text begins with its place and could stand on a terminal: no control characters but
/// tabs, as printable() leaves it.
inline void check_text(const Status& status, std::string_view place) {
  if (status.ok()) return;
  const std::string_view text = message_of(status);
  TSR_CHECK(text.starts_with(place), std::string(text));
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    TSR_CHECK((byte >= ' ' || byte == '\t') && byte != 0x7F, std::string(text));
  }
}

/// What `written` says, for whatever reads documents: read(JsonView).
template <class Read>
auto read_again(const Json& written, const Read& read) {
  const std::string text = written.to_string();
  const JsonDocument document = value_or_throw(JsonDocument::parse(text, "again"));
  return read(document.root());
}

/// Numbers taken off the front of an input; 0 once nothing is left.
class Bytes {
 public:
  explicit Bytes(std::span<const std::uint8_t> bytes) : rest_(bytes) {}
  std::uint8_t next() {
    if (rest_.empty()) return 0;
    const std::uint8_t byte = rest_.front();
    rest_ = rest_.subspan(1);
    return byte;
  }
  /// A number in [0, below).
  int next_below(int below) { return next() % below; }
  std::span<const std::uint8_t> take(std::size_t size) {
    const auto taken = rest_.first(std::min(size, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  std::string_view rest_as_text() const {
    return {reinterpret_cast<const char*>(rest_.data()), rest_.size()};
  }

 private:
  std::span<const std::uint8_t> rest_;
};

}  // namespace tessera::testing
