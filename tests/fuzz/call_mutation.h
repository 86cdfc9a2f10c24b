// tests/fuzz/call_mutation.h: calls of ops that somebody might make by mistake or by malice: an
// op's own sample with attributes, shapes, dtypes and operands changed. A mutation is a small
// decision; decisions come from bytes (a fuzz target) or from a seed (a test).
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "strategies/rules/op.h"

namespace tessera::testing {

/// A source of small numbers; equal bytes or seeds give equal numbers.
class Choices {
 public:
  explicit Choices(std::uint64_t seed) : random_(seed), seeded_(true) {}
  explicit Choices(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  /// A number in [0, limit); 0 once the bytes are used up. Requires limit > 0.
  std::uint64_t below(std::uint64_t limit);
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  template <class T>
  const T& pick(std::span<const T> list) {
    return list[below(list.size())];
  }

 private:
  std::mt19937_64 random_;
  bool seeded_ = false;
  std::span<const std::uint8_t> bytes_;
};

/// One call as a user would write it: attributes are neither checked nor completed.
struct MutatedCall {
  const Op* op = nullptr;
  const Sample* sample = nullptr;    ///< what it was made of
  std::vector<TensorMeta> operands;  ///< those not given are absent
  Attrs attrs;
};

/// One op of `ops` with one of its samples, changed in one to four places. Shapes are those of
/// tensors that could be: no size is negative, and the elements can be counted.
MutatedCall mutated_call(std::span<const Op* const> ops, Choices& choices);
/// "sum(F64[8, 6]; dim=[1])"
std::string describe(const MutatedCall& call);

}  // namespace tessera::testing
