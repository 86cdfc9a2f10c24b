// program/solver/placement_problem.h: the choice of placements for a program as a network of costs:
// a variable for each call, for each value that is there from the start, and for what each value is
// moved to. Internal to program/solver/.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "program/solver/call_candidates.h"
#include "program/solver/cost_network.h"
#include "program/solver/prices.h"
#include "program/solver/propagate_program.h"
#include "program/solver/step_graph.h"

namespace tessera {

/// Steps that run alike: those of one number in StepGraph.
struct StepTwin {
  std::vector<int> steps;
  Attrs attrs;                            ///< complete, of a call
  std::vector<CallCandidate> candidates;  ///< one for what is no call: as it is written
  int variable = -1;
};

/// Values that lie alike and are used alike: made by one result of twins, or there from the start.
struct ValueClass {
  int twin = -1;  ///< -1: there from the start
  int result = 0;
  int maker = -1;                      ///< variable
  std::vector<int> made;               ///< per state of the maker: number of the spec
  std::vector<double> held;            ///< per state, of what is there from the start: price
  std::vector<ValueUse> uses;          ///< of the first of the values
  std::vector<int> values;             ///< all
  int copies = -1;                     ///< variable of what it is moved to; -1: none
  std::vector<std::vector<int>> sets;  ///< per state of that: specs that uses read
  /// Per state of that: it is moved once for each phase that reads it, and not kept between them.
  std::vector<bool> again;
  /// Per state of that, where it says how the value is made: the spec.
  std::vector<int> copied_from = {};
};

/// Which copies of what calls make count as held.
enum class CopiesHeld : std::uint8_t {
  kNone,  ///< what is counted is held, whatever is chosen
  kAll    ///< those that are the value itself, too, so that more may be counted than is held
};

class PlacementProblem {
 public:
  /// Errors: as propagate_program().
  static StatusOr<std::unique_ptr<PlacementProblem>> make(const StepGraph& graph,
                                                          const PropagateOptions& options);

  CostNetwork& network() noexcept { return network_; }
  Prices& prices() noexcept { return prices_; }
  const std::vector<StepTwin>& twins() const noexcept { return twins_; }
  const std::vector<ValueClass>& classes() const noexcept { return classes_; }
  /// Number of a value's class; -1 for a plain one.
  int class_of(int value) const { return class_of_[static_cast<std::size_t>(value)]; }
  const StepGraph& graph() const noexcept { return graph_; }

  /// What operand `use` reads under a candidate of its step; -1 where it has no placements.
  int spec_read(const ValueUse& use, int candidate);

  /// What a rank holds while step `step` runs, in bytes, by variables: results that share memory
  /// with operands are left out, and so may copies be of what calls make.
  CostCap held_at(int step, CopiesHeld copies);
  /// What is part of the network's cost, and of no program's.
  double price_of_held(const std::vector<int>& states) const;

 private:
  PlacementProblem(const StepGraph& graph, const PropagateOptions& options)
      : graph_(graph), options_(options), prices_(options) {}

  Status find_candidates();
  Status find_candidates(StepTwin& twin);
  std::string key_of(const CandidateQuery& query);
  Status keep_allowed(StepTwin& twin);
  Status add_twins();
  Status add_leaf(ValueClass& leaf);
  void make_classes();
  Status add_classes();
  void connect(ValueClass& each);
  void connect_copies(ValueClass& each, const std::vector<ValueUse>& readers);
  /// Per state of a variable: how the value is made, the number of its set of copies, the price.
  struct CopyWays {
    std::vector<int> from;
    std::vector<std::uint16_t> sets;
    std::vector<double> costs;
  };
  CopyWays copy_ways(ValueClass& each, const std::vector<int>& made,
                     const std::vector<std::vector<int>>& sets, int phases);
  bool connect_counted_copies(ValueClass& each, const std::vector<ValueUse>& readers);
  void connect_held(ValueClass& each, const std::vector<ValueUse>& readers);
  void connect_readers(const ValueClass& each, const std::vector<ValueUse>& readers,
                       const std::vector<std::vector<int>>& sets,
                       const std::vector<std::uint16_t>& set_ports);
  std::vector<std::vector<int>> sets_of(const std::vector<int>& wanted,
                                        std::size_t num_readers) const;
  std::vector<int> wanted_by(const std::vector<ValueUse>& readers);
  int num_phases(const std::vector<ValueUse>& readers) const;
  double bytes_of(int spec) const;
  void add_uncounted_copies(const ValueClass& each, int step, double copied,
                            const std::function<std::vector<double>&(int)>& amount);
  double price_of_held(int spec) const;
  std::string signature(int value) const;
  bool is_written(const ValueUse& use) const;
  std::vector<int> specs_read(const ValueUse& use);
  std::vector<Spec> made_for(const StepTwin& twin, std::size_t operand) const;
  StatusOr<Spec> whole(const ProgramValue& value) const;
  StatusOr<Spec> declared(const ProgramValue& value) const;
  const std::string& module_of(int value) const;
  std::shared_ptr<const CostTable> table_of(const std::vector<int>& from,
                                            const std::vector<int>& to, bool may_move);
  bool reads_later(const StepTwin& twin) const;
  Status take_as_written(StepTwin& twin);

  const StepGraph& graph_;
  const PropagateOptions& options_;
  Prices prices_;
  CostNetwork network_;
  std::vector<StepTwin> twins_;
  std::vector<ValueClass> classes_;
  std::vector<int> class_of_;
  std::vector<bool> constraint_used_;
  absl::flat_hash_map<std::string, std::vector<CallCandidate>> candidates_;  ///< by query
  absl::flat_hash_map<std::string, std::shared_ptr<const CostTable>> tables_;
};

}  // namespace tessera
