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

/// Infers a call of one of the table's ops; places its operands at random on 2, 3 and 2x2 ranks,
/// which has to be possible. Where all its tensors hold at most 1 MiB it runs on one rank and on
/// those, with ordinary and with special values: the results have to be those of one rank (of
/// special values: where no rank holds a Partial, as summands of infinities may be NaN), and the
/// gradient has to take their cotangents.
Judgement judge_call(const OpTable& table, const MutatedCall& call, Choices& choices);

}  // namespace tessera::testing
