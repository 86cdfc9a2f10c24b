// The values of the problem: those that lie alike and are used alike are one class, with an edge
// from its maker to its only reader, or to a variable of the placements in which it is had.
#include <algorithm>
#include <optional>
#include <set>

#include "absl/strings/str_format.h"
#include "placement/printable.h"
#include "program/solver/constraints.h"
#include "program/solver/placement_problem.h"

namespace tessera {
namespace {

// States of what a value is moved to: in programs of few steps all sets of placements that there
// can be, in others fewer.
constexpr std::size_t kFewSteps = 64;
constexpr std::size_t kMostSetsOfFew = 4096;
constexpr std::size_t kMostSets = 512;
constexpr std::size_t kMostCopies = 3;
constexpr std::size_t kMostCuts = 256;
constexpr std::size_t kMostCounted = 512;  // ways to make a value and to have it

/// Subsets of at least one and at most `most` items, small ones first; the larger ones only where
/// no more than `limit` are there with them.
std::vector<std::vector<int>> subsets(const std::vector<int>& items, std::size_t most,
                                      std::size_t limit) {
  std::vector<std::vector<int>> sets;
  std::size_t begin = 0, of_size = items.size();
  for (const int item : items) sets.push_back({item});
  for (std::size_t size = 2; size <= most; ++size) {
    of_size = of_size * (items.size() - size + 1) / size;
    if (sets.size() + of_size > limit) break;
    const std::size_t end = sets.size();
    for (std::size_t s = begin; s < end; ++s) {
      const auto last = std::find(items.begin(), items.end(), sets[s].back());
      for (auto next = last + 1; next != items.end(); ++next) {
        std::vector<int> larger = sets[s];
        larger.push_back(*next);
        sets.push_back(std::move(larger));
      }
    }
    begin = end;
  }
  return sets;
}

/// Ports of states that show `shown`: its different values in order of appearance.
std::vector<std::uint16_t> ports_of(const std::vector<int>& shown, std::vector<int>& different) {
  std::vector<std::uint16_t> ports;
  for (const int each : shown) {
    const auto found = std::find(different.begin(), different.end(), each);
    ports.push_back(static_cast<std::uint16_t>(found - different.begin()));
    if (found == different.end()) different.push_back(each);
  }
  return ports;
}

std::string table_key(const std::vector<int>& from, const std::vector<int>& to, char kind) {
  std::string key(1, kind);
  for (const int each : from) key += absl::StrFormat("%d,", each);
  key += '>';
  for (const int each : to) key += absl::StrFormat("%d,", each);
  return key;
}

/// Every way to cut the value on some axes by one dim each, the whole first.
std::vector<Spec> cuts_of(const Spec& whole) {
  std::vector<Spec> cuts = {whole};
  const Mesh& mesh = whole.mesh();
  for (int axis = 0; axis < mesh.ndim(); ++axis) {
    if (mesh.size(axis) == 1) continue;
    const std::size_t before = cuts.size();
    for (std::size_t c = 0; c < before; ++c) {
      for (int dim = 0; dim < whole.ndim() && cuts.size() < kMostCuts; ++dim) {
        if (whole.global_shape()[static_cast<std::size_t>(dim)] < 2) continue;
        const RowEntry entry = {RowEntry::Kind::kShard, dim, ReduceOp::kSum};
        StatusOr<Spec> cut = Spec::make(mesh, whole.global_shape(), whole.dtype(),
                                        with_entry(cuts[c].layout(), axis, entry));
        if (cut.ok()) cuts.push_back(*std::move(cut));
      }
    }
  }
  return cuts;
}

}  // namespace

/// What tells a class from others.
std::string PlacementProblem::signature(int value) const {
  const SolverValue& known = graph_.value(value);
  const ProgramValue& written = *known.value;
  std::string key;
  if (known.made_by >= 0) {
    key = absl::StrFormat("%d.%d", graph_.step(known.made_by).twin, known.result);
  } else {
    key = absl::StrFormat("%d %s %d %d ", static_cast<int>(written.role),
                          to_string(written.global_shape), static_cast<int>(written.dtype),
                          *written.mesh);
    if (const StatusOr<Spec> spec = spec_of(graph_.program, written); spec.ok()) {
      key += spec->to_string();
    }
    for (const PlacementConstraint& each : options_.constraints) {
      key += concerns(each, written, module_of(value)) ? '!' : '.';
    }
  }
  for (const ValueUse& use : known.uses) {
    key += absl::StrFormat(" %d.%d", graph_.step(use.step).twin, use.operand);
  }
  return key;
}

void PlacementProblem::make_classes() {
  absl::flat_hash_map<std::string, int> numbers;
  class_of_.assign(graph_.values.size(), -1);
  for (std::size_t v = 0; v < graph_.values.size(); ++v) {
    const SolverValue& value = graph_.values[v];
    if (!value.on_mesh()) continue;
    const auto [at, is_new] =
        numbers.try_emplace(signature(static_cast<int>(v)), static_cast<int>(classes_.size()));
    if (is_new) {
      ValueClass& made = classes_.emplace_back();
      made.twin = value.made_by < 0 ? -1 : graph_.step(value.made_by).twin;
      made.result = value.result;
      made.uses = value.uses;
    }
    class_of_[v] = at->second;
    classes_[static_cast<std::size_t>(at->second)].values.push_back(static_cast<int>(v));
  }
}

Status PlacementProblem::add_classes() {
  for (ValueClass& each : classes_) {
    if (each.twin < 0) {
      TSR_RETURN_IF_ERROR(add_leaf(each));
    } else {
      const StepTwin& maker = twins_[static_cast<std::size_t>(each.twin)];
      each.maker = maker.variable;
      for (const CallCandidate& candidate : maker.candidates) {
        each.made.push_back(
            prices_.specs().of(candidate.outputs[static_cast<std::size_t>(each.result)]));
      }
    }
    connect(each);
  }
  return absl::OkStatus();
}

/// Its placements: the one that it has, or those in which it is read, and all cuts.
Status PlacementProblem::add_leaf(ValueClass& leaf) {
  const ProgramValue& value = *graph_.value(leaf.values.front()).value;
  std::vector<Spec> specs;
  if (value.layout) {
    TSR_ASSIGN_OR_RETURN(specs.emplace_back(), spec_of(graph_.program, value));
  } else {
    TSR_ASSIGN_OR_RETURN(const Spec uncut, whole(value));
    specs = cuts_of(uncut);
    for (const ValueUse& use : leaf.uses) {
      const StepTwin& twin = twins_[static_cast<std::size_t>(graph_.step(use.step).twin)];
      for (std::size_t c = 0; c < twin.candidates.size(); ++c) {
        const int read = spec_read(use, static_cast<int>(c));
        if (read >= 0) specs.push_back(prices_.specs().spec(read));
      }
    }
  }
  for (std::size_t c = 0; c < options_.constraints.size(); ++c) {
    const PlacementConstraint& constraint = options_.constraints[c];
    if (!concerns(constraint, value, module_of(leaf.values.front()))) continue;
    constraint_used_[c] = true;
    std::erase_if(specs, [&](const Spec& spec) { return !allows(constraint, spec); });
    if (specs.empty()) {
      return invalid_argument(absl::StrFormat("%s: it leaves %s no placement",
                                              in_quotes(constraint.text), in_quotes(value.name)));
    }
  }
  for (const Spec& spec : specs) {
    const bool stands =
        spec.mesh() == specs.front().mesh() && (value.layout || !spec.has_partial());
    if (!stands) continue;
    const int number = prices_.specs().of(spec);
    const bool is_new = std::find(leaf.made.begin(), leaf.made.end(), number) == leaf.made.end();
    if (is_new) leaf.made.push_back(number);
  }
  return absl::OkStatus();
}

/// Prices of moves, or, where none may move, which pairs are equal.
std::shared_ptr<const CostTable> PlacementProblem::table_of(const std::vector<int>& from,
                                                            const std::vector<int>& to,
                                                            bool may_move) {
  std::shared_ptr<const CostTable>& table = tables_[table_key(from, to, may_move ? 'm' : 'e')];
  if (table) return table;
  CostTable made{.rows = static_cast<int>(from.size()), .columns = static_cast<int>(to.size())};
  for (const int a : from) {
    for (const int b : to) {
      made.costs.push_back(a == b ? 0.0 : may_move ? prices_.of_move(a, b) : kForbidden);
    }
  }
  return table = std::make_shared<const CostTable>(std::move(made));
}

std::vector<int> PlacementProblem::specs_read(const ValueUse& use) {
  const StepTwin& twin = twins_[static_cast<std::size_t>(graph_.step(use.step).twin)];
  std::vector<int> read;
  for (std::size_t c = 0; c < twin.candidates.size(); ++c) {
    read.push_back(spec_read(use, static_cast<int>(c)));
  }
  return read;
}

/// Next to nothing: of placements that cost the same, that which takes least memory is better.
double PlacementProblem::price_of_held(int spec) const {
  constexpr double kUsOfByte = 1e-10, kBytesOfByte = 1e-6;
  return bytes_of(spec) * (options_.topology == nullptr ? kBytesOfByte : kUsOfByte);
}

double PlacementProblem::price_of_held(const std::vector<int>& states) const {
  double price = 0.0;
  for (const ValueClass& each : classes_) {
    if (!each.held.empty()) {
      price += each.held[static_cast<std::size_t>(states[static_cast<std::size_t>(each.maker)])];
    }
  }
  return price;
}

void PlacementProblem::connect(ValueClass& each) {
  std::vector<ValueUse> readers, writers;
  for (const ValueUse& use : each.uses) (is_written(use) ? writers : readers).push_back(use);
  const auto weight = static_cast<double>(each.values.size());
  const auto add = [&](const ValueUse& use, bool may_move) {
    std::vector<int> read, made;
    const std::vector<std::uint16_t> made_ports = ports_of(each.made, made);
    const std::vector<std::uint16_t> ports = ports_of(specs_read(use), read);
    const int reader = twins_[static_cast<std::size_t>(graph_.step(use.step).twin)].variable;
    network_.add_edge(each.maker, made_ports, reader, ports, table_of(made, read, may_move),
                      weight);
  };
  if (each.twin < 0 && options_.memory_cap && !readers.empty()) {
    connect_held(each, readers);
  } else {
    if (each.twin < 0) {
      for (const int spec : each.made) each.held.push_back(price_of_held(spec) * weight);
      each.maker = network_.add_variable(each.held);
    }
    if (readers.size() == 1) add(readers[0], true);
    const bool counts = options_.memory_cap && connect_counted_copies(each, readers);
    if (readers.size() > 1 && !counts) connect_copies(each, readers);
  }
  for (const ValueUse& use : writers) add(use, false);
}

std::vector<int> PlacementProblem::wanted_by(const std::vector<ValueUse>& readers) {
  std::vector<int> wanted;
  for (const ValueUse& use : readers) ports_of(specs_read(use), wanted);
  return wanted;
}

std::vector<std::vector<int>> PlacementProblem::sets_of(const std::vector<int>& wanted,
                                                        std::size_t num_readers) const {
  const bool is_small = graph_.steps.size() <= kFewSteps;
  return subsets(wanted, std::min({num_readers, kMostCopies, wanted.size()}),
                 is_small ? kMostSetsOfFew : kMostSets);
}

/// What a value becomes is a variable of its own.
void PlacementProblem::connect_copies(ValueClass& each, const std::vector<ValueUse>& readers) {
  const std::vector<int> wanted = wanted_by(readers);
  each.sets = sets_of(wanted, readers.size());
  each.again.assign(each.sets.size(), false);
  each.copies = network_.add_variable(std::vector<double>(each.sets.size(), 0.0));
  std::vector<std::uint16_t> own(each.sets.size());
  for (std::size_t s = 0; s < own.size(); ++s) own[s] = static_cast<std::uint16_t>(s);

  std::vector<int> made;
  const std::vector<std::uint16_t> made_ports = ports_of(each.made, made);
  std::shared_ptr<const CostTable>& moves =
      tables_[table_key(made, wanted, 'c') + absl::StrFormat(" %d", each.sets.size())];
  if (!moves) {
    CostTable table{.rows = static_cast<int>(made.size()),
                    .columns = static_cast<int>(each.sets.size())};
    for (const int from : made) {
      for (const std::vector<int>& set : each.sets) {
        table.costs.push_back(prices_.copies(from, set).cost);
      }
    }
    moves = std::make_shared<const CostTable>(std::move(table));
  }
  network_.add_edge(each.maker, made_ports, each.copies, own, moves,
                    static_cast<double>(each.values.size()));
  connect_readers(each, readers, each.sets, own);
}

int PlacementProblem::num_phases(const std::vector<ValueUse>& readers) const {
  std::set<std::optional<StepPhase>> phases;
  for (const ValueUse& use : readers) phases.insert(graph_.written(use.step).origin.phase);
  return static_cast<int>(phases.size());
}

/// Every way to have a value that is made as one of `made`: the copies of it, and whether they are
/// kept, or made again in each phase. Fills the class's sets.
PlacementProblem::CopyWays PlacementProblem::copy_ways(ValueClass& each,
                                                       const std::vector<int>& made,
                                                       const std::vector<std::vector<int>>& sets,
                                                       int phases) {
  CopyWays ways;
  const auto weight = static_cast<double>(each.values.size());
  const auto add = [&](int from, std::size_t set, bool again) {
    const double cost = prices_.copies(from, sets[set]).cost * weight * (again ? phases : 1);
    if (cost == kForbidden) return;
    each.sets.push_back(sets[set]);
    each.again.push_back(again);
    ways.from.push_back(from);
    ways.sets.push_back(static_cast<std::uint16_t>(set));
    ways.costs.push_back(cost);
  };
  for (const int from : made) {
    for (std::size_t set = 0; set < sets.size(); ++set) {
      add(from, set, false);
      if (phases > 1 && sets[set].size() == 1 && sets[set][0] != from) add(from, set, true);
    }
  }
  return ways;
}

/// Under a cap, a value that is there from the start and what it becomes are one variable: what is
/// held is the two together, and copies may be made again in each phase instead of being kept.
void PlacementProblem::connect_held(ValueClass& each, const std::vector<ValueUse>& readers) {
  const std::vector<std::vector<int>> sets = sets_of(wanted_by(readers), readers.size());
  CopyWays ways = copy_ways(each, each.made, sets, num_phases(readers));
  each.made = std::move(ways.from);
  for (std::size_t s = 0; s < each.made.size(); ++s) {
    each.held.push_back(price_of_held(each.made[s]) * static_cast<double>(each.values.size()));
    ways.costs[s] += each.held.back();
  }
  each.maker = each.copies = network_.add_variable(std::move(ways.costs));
  connect_readers(each, readers, sets, ways.sets);
}

/// Under a cap, what a call makes and the copies of it that are had are told together, so that what
/// is held can be counted. False where there would be too many combinations.
bool PlacementProblem::connect_counted_copies(ValueClass& each,
                                              const std::vector<ValueUse>& readers) {
  if (readers.size() < 2) return false;
  const std::vector<std::vector<int>> sets = sets_of(wanted_by(readers), readers.size());
  std::vector<int> made, from;
  const std::vector<std::uint16_t> made_ports = ports_of(each.made, made);
  if (made.size() * sets.size() > kMostCounted) return false;
  CopyWays ways = copy_ways(each, made, sets, num_phases(readers));
  each.copied_from = std::move(ways.from);
  each.copies = network_.add_variable(std::move(ways.costs));
  const std::vector<std::uint16_t> from_ports = ports_of(each.copied_from, from);
  network_.add_edge(each.maker, made_ports, each.copies, from_ports, table_of(made, from, false));
  connect_readers(each, readers, sets, ways.sets);
  return true;
}

/// Each reads one of the set.
void PlacementProblem::connect_readers(const ValueClass& each, const std::vector<ValueUse>& readers,
                                       const std::vector<std::vector<int>>& sets,
                                       const std::vector<std::uint16_t>& set_ports) {
  const std::vector<int> wanted = wanted_by(readers);
  for (const ValueUse& use : readers) {
    std::vector<int> read;
    const std::vector<std::uint16_t> ports = ports_of(specs_read(use), read);
    std::shared_ptr<const CostTable>& serves =
        tables_[table_key(wanted, read, 's') + absl::StrFormat(" %d", sets.size())];
    if (!serves) {
      CostTable table{.rows = static_cast<int>(sets.size()),
                      .columns = static_cast<int>(read.size())};
      for (const std::vector<int>& set : sets) {
        for (const int spec : read) {
          const bool has = std::find(set.begin(), set.end(), spec) != set.end();
          table.costs.push_back(has ? 0.0 : kForbidden);
        }
      }
      serves = std::make_shared<const CostTable>(std::move(table));
    }
    const int reader = twins_[static_cast<std::size_t>(graph_.step(use.step).twin)].variable;
    network_.add_edge(each.copies, set_ports, reader, ports, serves);
  }
}

}  // namespace tessera
