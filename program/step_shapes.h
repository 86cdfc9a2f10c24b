// program/step_shapes.h: which steps of a list are equal but for the names of values and numbers in
// module paths, and how far two places of the list go on alike.
// Internal to program/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "program/program.h"

namespace tessera {

/// A module's path in parts: numbers between dots, and the text with "*" in their places.
struct NumberedPath {
  std::string text;
  std::vector<std::int64_t> numbers;
};
NumberedPath numbered(std::string_view path);
/// The path again, with "*" in place of the number `starred` and what is added to it there; −1:
/// none.
std::string path_text(const NumberedPath& path, int starred, std::int64_t offset);

class StepShapes {
 public:
  explicit StepShapes(const std::vector<AnyStep>& steps);

  std::int64_t size() const noexcept { return std::ssize(shapes_); }
  /// Equal for equal steps.
  int at(std::int64_t i) const { return shapes_[static_cast<std::size_t>(i)]; }
  /// Steps that are equal from i and from j > i on.
  std::int64_t alike(std::int64_t i, std::int64_t j) const;
  /// Distances at which equal steps follow each other, those that most steps have first.
  std::vector<std::int64_t> periods(std::size_t most) const;

 private:
  std::uint64_t hash(std::int64_t begin, std::int64_t length) const;

  std::vector<int> shapes_;
  std::vector<std::uint64_t> sums_, powers_;  ///< of prefixes; of the base
};

}  // namespace tessera
