// tests/support/changed_text.h: a text of which a few characters are others, gone or there twice:
// what a reader takes, or refuses with its place.
#pragma once

#include <random>
#include <string>

namespace tessera::testing {

/// One to three changes of up to 40 characters. Requires: a text that is not empty, nor becomes so.
inline std::string changed_text(std::string text, std::mt19937& random) {
  const auto below = [&](std::size_t count) { return random() % count; };
  const std::size_t changes = 1 + below(3);
  for (std::size_t change = 0; change < changes; ++change) {
    const std::size_t at = below(text.size()), from = below(text.size());
    switch (below(4)) {
      case 0:
        text[at] = text[from];
        break;
      case 1:
        text.erase(at, 1 + below(8));
        break;
      case 2:
        text.insert(at, text.substr(from, 1 + below(40)));
        break;
      default:
        text[at] = static_cast<char>('0' + below(10));
    }
  }
  return text;
}

}  // namespace tessera::testing
