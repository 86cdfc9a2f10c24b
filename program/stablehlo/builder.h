// program/stablehlo/builder.h: a program as it grows: values by what the text calls them, steps
// with what they make. Internal to program/stablehlo/.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "program/program.h"
#include "program/stablehlo/module.h"
#include "strategies/rules/op.h"

namespace tessera::stablehlo {

/// A value of the module. One number everywhere is no value of the program until some step needs it
/// as a tensor.
struct Bound {
  TensorType type;
  ProgramValue value;
  std::optional<double> splat;
  bool made = false;  ///< a step or a declaration of the program has it
  /// The step that makes it in Program::steps, and which of its results; -1: none does, or one in
  /// a repeat.
  std::ptrdiff_t step = -1;
  std::size_t out = 0;
  std::size_t serial = 0;  ///< in order of what was made
};
using BoundId = int;

class Builder {
 public:
  Builder(const Module& module, const OpTable& ops) : module_(module), ops_(ops) {}

  const Module& module() const noexcept { return module_; }
  const OpTable& ops() const noexcept { return ops_; }
  const MlirText& text() const noexcept { return *module_.text; }
  Program& program() noexcept { return program_; }
  const Bound& at(BoundId id) const { return bounds_[static_cast<std::size_t>(id)]; }
  Bound& at(BoundId id) { return bounds_[static_cast<std::size_t>(id)]; }

  /// A name that no other value has: `wanted`, or with #2, #3 behind it.
  std::string fresh(const std::string& wanted);
  /// A value without a step. What no sharding places is left free, or is whole everywhere where the
  /// module was propagated.
  BoundId add(const std::string& wanted, TensorType type) {
    return add(wanted, std::move(type), module_.meshes.main());
  }
  BoundId add(const std::string& wanted, TensorType type, std::optional<int> mesh);
  /// Errors: those of Meshes::place().
  Status place(BoundId id, const Sharding& sharding);
  void place_everywhere(BoundId id);

  /// The value's name in the program, made first where it is a number everywhere.
  StatusOr<std::string> name_of(BoundId id, const StepOrigin& origin);
  /// Appends a step that makes `made`. Errors: InvalidArgument at `offset` beyond kMaxProgramSteps.
  Status push(AnyStep step, const std::vector<BoundId>& made, std::size_t offset);
  /// `id` where the sharding wants it: a step where that is elsewhere.
  StatusOr<BoundId> redistribute(BoundId id, const Sharding& sharding, const std::string& wanted,
                                 bool implicit, const std::string& needed_by,
                                 const StepOrigin& origin, std::size_t offset);
  /// Steps so far, and back to them: what was made since is made no more.
  struct Mark {
    std::size_t steps = 0, made = 0;
  };
  Mark mark() const noexcept { return {program_.steps.size(), made_.size()}; }
  void undo_to(const Mark& mark);
  /// Steps from here on are a repeat's body, until end_body() gives them. Errors: InvalidArgument
  /// for more in one another than programs have.
  Status begin_body(std::size_t offset);
  std::vector<AnyStep> end_body();
  int body_depth() const noexcept { return static_cast<int>(bodies_.size()); }
  /// Made since begin_body().
  bool is_of_body(BoundId id) const;
  /// Counts an operation that was read, with its operands and results, and the bytes of its text.
  /// Errors: InvalidArgument beyond what one module may have, its functions as often as they are
  /// called.
  Status count(const Statement& statement, std::size_t end);

 private:
  const Module& module_;
  const OpTable& ops_;
  Program program_;
  std::deque<Bound> bounds_;  // references to them stay
  absl::flat_hash_map<std::string, int> names_;
  std::vector<BoundId> made_;
  struct Body {
    std::vector<AnyStep> steps_before;
    std::size_t made_before = 0;
  };
  std::vector<Body> bodies_;
  std::int64_t num_steps_ = 0;  ///< in all bodies
  std::int64_t num_counted_ = 0, num_bytes_ = 0;
};

}  // namespace tessera::stablehlo
