// execute/program_run.h: a program whose values all have placements, run on each rank of a World:
// its calls by the rows that it names, its redistributions, its regions, as they stand. What it
// moves is what its steps say.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dtensor/dtensor.h"
#include "execute/regions.h"
#include "placement/api.h"
#include "program/program.h"

namespace tessera TSR_API {

/// By name. A value that is declared with a count has a name for each round, as unfold() gives it.
using ProgramTensors = std::map<std::string, DTensor>;

/// A value that has to be there before the first step.
struct WantedValue {
  std::string name;
  Spec spec;  ///< on this rank's slice, where its mesh is one of several alike
  ValueRole role = ValueRole::kInput;
  bool operator==(const WantedValue&) const = default;
};

/// What has just run, for whoever keeps account: a step of the program, neither a repeat nor a
/// `free`.
using AfterStep = std::function<void(const AnyStep& step)>;

/// A program made ready for one Runtime, for any number of runs. Belongs to its rank; every rank of
/// the World makes one of the same program, and runs it at the same time.
class ProgramRun {
 public:
  /// Everything is checked here, before any collective, and alike on all ranks. `runtime` must
  /// outlive it. Errors: InvalidArgument where the World has another number of ranks than the
  /// program, and for numbers that are no integers where no operand beside is floating (a number is
  /// a plain 0-d tensor of the dtype beside it); FailedPrecondition naming the values that have no
  /// placements, all regions that `regions` cannot run, or, with its place, the first call that its
  /// operands' placements, its results' and its row do not fit; those of unfold(). Cost: O(steps
  /// with every round), without data.
  static StatusOr<std::unique_ptr<ProgramRun>> make(Runtime& runtime, Program program,
                                                    const RegionTable& regions = own_regions());
  ~ProgramRun();
  ProgramRun(const ProgramRun&) = delete;
  ProgramRun& operator=(const ProgramRun&) = delete;

  const Program& program() const noexcept;
  const std::vector<WantedValue>& wanted() const noexcept;

  /// One run, without gradients. `given`: what wanted() names, each of its spec; parameters and
  /// states may be written. A value ends where the program frees it; where it frees nothing at all,
  /// and for what with_moves() added, after its last use. Returns what is left: parameters, states
  /// and buffers by the names that they began with (a result with a role has taken the place of its
  /// argument), and temporaries that have not ended. Collective: yes, as its steps are. Throws
  /// Error: InvalidArgument naming a value that is missing, is not asked for, or lies elsewhere,
  /// before any collective; those of its steps, with their places.
  ProgramTensors run(ProgramTensors given, const AfterStep& after_step = nullptr);

 private:
  struct State;
  explicit ProgramRun(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tessera
