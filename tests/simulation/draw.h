// tests/simulation/draw.h: choices that a seed decides, alike on every machine and with every
// standard library.
#pragma once

#include <chrono>
#include <cstdint>
#include <random>
#include <vector>

namespace tessera::seeded {

using Duration = std::chrono::steady_clock::duration;

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}
  /// 0 … n − 1. Requires n > 0.
  std::uint64_t below(std::uint64_t n) { return engine_() % n; }
  int between(int least, int most) {
    return least + static_cast<int>(below(static_cast<std::uint64_t>(most - least + 1)));
  }
  /// Once in `times`.
  bool once_in(std::uint64_t times) { return below(times) == 0; }
  template <class T>
  const T& one_of(const std::vector<T>& choices) {
    return choices[below(choices.size())];
  }
  template <class T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace tessera::seeded
