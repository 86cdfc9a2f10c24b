// program/findings/context.h: what rules look at: the steps and values of a program in order, who
// makes and who uses them, where they lie and what moves; and where their findings go. Internal to
// program/findings/.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "placement/checked_int.h"
#include "program/findings/finding.h"
#include "strategies/rules/propagate.h"

namespace tessera {

/// A step as written.
struct StepNode {
  const AnyStep* step = nullptr;
  CheckedInt rounds = 1;                  ///< how often it runs
  int body = 0;                           ///< number of the list of steps in which it stands
  std::vector<int> reads, makes, writes;  ///< values; those written in place are read, too
};

struct ValueNode {
  const ProgramValue* value = nullptr;
  int made_by = -1;        ///< a step; -1: it was there before
  std::vector<int> users;  ///< steps, ascending
};

/// What a pair of placements moves: one round, all slices alike.
struct PairCost {
  bool known = false;
  std::vector<ProgramMove> moves;
  Volume bytes, bound;
};

class FindingContext {
 public:
  FindingContext(const Program& program, const OpTable& ops);

  const Program& program() const noexcept { return program_; }
  const std::vector<StepNode>& steps() const noexcept { return steps_; }
  const StepNode& step(int index) const { return steps_[static_cast<std::size_t>(index)]; }
  const std::vector<ValueNode>& values() const noexcept { return values_; }
  const ValueNode& value(int index) const { return values_[static_cast<std::size_t>(index)]; }
  /// -1 where there is none.
  int find_value(std::string_view name) const;
  /// Null where a value has no placements.
  const Spec* spec(int value);
  const Op* op(const CallStep& call) const;
  /// Operands in the op's order, lists spread: values, or -1 for a number or null.
  const std::vector<int>& operands(int step) const {
    return operands_[static_cast<std::size_t>(step)];
  }
  /// Complete attributes of a call; none where they do not fit the op.
  std::optional<Attrs> attrs(const CallStep& call) const;

  /// A redistribution by the planner; `known` is false where a side has no placements, or no plan
  /// leads there.
  const PairCost& pair(const ProgramValue& from, const Spec& src, const Spec& dst);
  /// What a step moves in one round.
  const std::vector<ProgramMove>& moves(int step);
  Volume bytes(int step);

  /// The site of a step, or of the nearest step before it on which it hangs and that has one.
  std::string site_near(int step) const;

  /// A finding of a rule about a step, with its place, op, collectives and bytes filled in.
  Finding start(std::string_view rule, int step);
  /// Whether another fix may be searched for: so many a program are.
  bool may_search() noexcept { return searches_left_-- > 0; }
  /// Whether no place equal to this one was added before: only then texts are worth their time.
  bool is_first(const Finding& finding) const;
  /// Joins equal places. `step` says how often it stands for: -1 for once.
  void add(Finding finding, int step);
  Status take(Findings& findings);

 private:
  struct Sum {
    CheckedInt count = 0, max = 0, total = 0, saved = 0;
  };
  void read(const std::vector<AnyStep>& steps, CheckedInt rounds, int body);
  int declare(const ProgramValue& value, int made_by);
  void use(int step, const std::string& name);
  void use_all(int step, const Json& args);
  void read_call(int step, const CallStep& call);

  const Program& program_;
  const OpTable& ops_;
  std::vector<StepNode> steps_;
  std::vector<ValueNode> values_;
  std::vector<std::vector<int>> operands_;
  absl::flat_hash_map<std::string, int> names_;
  std::vector<std::optional<Spec>> specs_;
  std::vector<bool> has_spec_;
  std::vector<std::optional<std::vector<ProgramMove>>> moves_;
  absl::flat_hash_map<std::string, std::unique_ptr<PairCost>> pairs_;
  int num_bodies_ = 1, searches_left_ = 256;

  std::vector<Finding> found_;
  std::vector<Sum> sums_;
  absl::flat_hash_map<std::string, std::size_t> by_id_;
};

std::string id_of(const Finding& finding);

}  // namespace tessera
