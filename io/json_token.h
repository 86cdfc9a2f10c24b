// io/json_token.h: the tokens of a JSON text: strings, escapes, numbers. Not installed with the
// library's interface: JsonDocument and JsonView read with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera {

/// What stands between the quotes of the string that begins at byte `at`, escapes as they are
/// written. Requires a string that was checked.
std::string_view json_string_at(std::string_view text, std::size_t at);
/// That without escapes, in UTF-8.
std::string json_unescaped(std::string_view raw);

/// "\u00e9" or "\ud83d\ude00".
struct JsonEscape {
  std::uint32_t point = 0;
  std::size_t bytes = 0;  ///< 0: no such escape begins here, or a surrogate without its pair
};
JsonEscape json_escape(std::string_view text);

/// The number that `text` begins with.
std::string_view json_number_at(std::string_view text);
/// Of a number that was checked; none where it does not fit.
std::optional<std::int64_t> json_integer(std::string_view number);
/// None where it is beyond the largest double; what is nearer to 0 than the smallest is 0.
std::optional<double> json_double(std::string_view number);

/// A key as a step of a JSON pointer, which writes ~ and / as ~0 and ~1; it breaks no line.
std::string json_path_step(std::string_view key);

}  // namespace tessera
