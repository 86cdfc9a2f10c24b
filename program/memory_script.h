// program/memory_script.h: a program with numbers in the place of names: which values each step
// reads, makes and ends, and which of them share memory. Internal to program/.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "program/memory.h"

namespace tessera {

/// A name of the program, with all values that it stands for in turn.
struct ScriptValue {
  const ProgramValue* value = nullptr;
  std::int64_t bytes = 0;  ///< of the rank with most; 0 where it shares another's memory
  MemoryKind kind = MemoryKind::kActivation;
  int shares = -1;                    ///< the value whose memory it has, which shares no other's
  const StepOrigin* maker = nullptr;  ///< of the step that makes it
  bool is_declared = false;
  bool stays = false;    ///< parameters, states and buffers: not ended by a last use
  bool in_order = true;  ///< its elements stand in row-major order
};

struct ScriptResult {
  int value = 0;
  int shares = -1;  ///< index in ScriptStep::uses: the result has that one's memory
};

struct ScriptStep {
  int written = 0;  ///< index in Script::written
  int repeat = -1;  ///< index in Script::repeats, where it is one
  bool frees = false;
  std::vector<int> uses;  ///< values
  std::vector<ScriptResult> results;
};

struct ScriptRepeat {
  std::int64_t count = 1;
  std::int64_t length = 0;  ///< steps of a round, the repeats in it written out; held at 2^63
  std::vector<ScriptStep> steps;
  std::vector<std::pair<int, int>> carry;
};

struct WrittenStep {
  const AnyStep* step = nullptr;
  int outer = -1;  ///< the written step that is the repeat around it
  std::int64_t index = 0;
};

struct Script {
  std::vector<ScriptValue> values;  ///< declared ones first
  std::vector<ScriptStep> steps;
  std::deque<ScriptRepeat> repeats;
  std::vector<WrittenStep> written;
  std::int64_t length = 0;
  std::int64_t carried_rounds = 0;  ///< the most rounds that a value lives on by being carried
  bool frees = false;               ///< any step does
};

/// Errors: those of held_bytes().
StatusOr<Script> script_of(const Program& program, const OpTable& ops);

/// Sets the kinds of all values.
void find_kinds(Script& script);

}  // namespace tessera
