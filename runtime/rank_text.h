// runtime/rank_text.h: errors that name the rank they come from, once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

/// "rank 3: " and the text; the text alone where it begins so already, as an error that all ranks
/// have agreed on does, whichever rank passes it on.
inline std::string told_by(std::int64_t rank, std::string_view text) {
  constexpr std::string_view kBegin = "rank ";
  if (text.starts_with(kBegin)) {
    const std::size_t colon = text.find_first_not_of("0123456789", kBegin.size());
    const bool has_number = colon != std::string_view::npos && colon > kBegin.size();
    if (has_number && text.substr(colon).starts_with(": ")) return std::string(text);
  }
  return std::string(kBegin) + std::to_string(rank) + ": " + std::string(text);
}

}  // namespace tessera
