// tests/fuzz/call_judge.h: what a call may come to: values, or one clear error before anything
// runs.
#pragma once

#include <string>

#include "tests/fuzz/call_mutation.h"

namespace tessera::testing {

/// How a call ended.
enum class Ending : std::uint8_t {
  kRefused,       ///< by attributes or inference
  kTooLarge,      ///< accepted; its tensors are too large to be tried
  kValueRefused,  ///< accepted; a value of an operand addresses or counts what is not there
  kValues
};
struct Judgement {
  Ending ending = Ending::kRefused;
  std::string flaw;  ///< empty where the call ended as it should
};

/// Infers a call; runs it on one rank where all its tensors hold at most 1 MiB, with ordinary and
/// with special values; then on 2, 3 and 2x2 ranks with its operands placed at random, where the
/// results of ordinary values have to be those of one rank.
Judgement judge_call(const MutatedCall& call, Choices& choices);

}  // namespace tessera::testing
