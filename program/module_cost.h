// program/module_cost.h: what the modules of a program move, read and hold, each with what lies in
// it: the sums that the audit shows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "placement/api.h"
#include "program/program.h"

namespace tessera TSR_API {

/// The collectives of one kind along the same axes.
struct MoveTotal {
  std::string collective, axes;  ///< "all_gather", "dp,tp"
  bool implicit = false;
  std::int64_t calls = 0;
  Volume bytes;  ///< received
  bool operator==(const MoveTotal&) const = default;
};

/// Every count is of the module with all modules inside of it, in all rounds of repeats and in all
/// copies. Bytes of the rank with most are sums over moves, in each of which another rank may be
/// the one: no rank receives more.
struct ModuleCost {
  std::string name;  ///< the last part of its path; "0-31" for equal ones; "" for the program
  std::int64_t copies = 1;  ///< equal modules that this one stands for
  std::int64_t steps = 0, host_reads = 0;
  std::int64_t unplaced_moves = 0;  ///< redistributions of what has no placements: not in `bytes`
  std::int64_t calls = 0;
  Volume bytes, implicit_bytes;
  /// What its parameters, states and buffers take on the rank with most of each.
  std::int64_t held_bytes = 0;
  std::vector<MoveTotal> moves;    ///< those that move most come first
  std::vector<int> values;         ///< its own, of one copy: indices in Program::values
  std::vector<ModuleCost> inside;  ///< in the order in which they first appear
};

/// The modules are the parts of paths between dots, at most 32 deep; what has none belongs to the
/// program. Neighbours whose names are numbers in a row and that cost the same are one, with
/// copies. Errors: OutOfRange where a sum passes 2^63, and for more than 100,000 modules or kinds
/// of moves in modules; those of moves_of(), but for values without placements. Cost: O(steps as
/// written), a plan for each redistribution without moves.
StatusOr<ModuleCost> module_cost(const Program& program);

/// The moves that are a module's own, not of modules inside of it.
struct ModuleMoves {
  std::string module;  ///< its path; "" for the program
  std::vector<MoveTotal> moves;
};
/// Of modules that have any, in the order in which they first appear; no module stands for others.
/// Errors and cost: those of module_cost().
StatusOr<std::vector<ModuleMoves>> moves_by_module(const Program& program);

/// The module of a path: "layers.7.attn" is found in copies as well; "" is `root`. Errors: NotFound
/// naming the modules that there are.
StatusOr<const ModuleCost*> find_module(const ModuleCost& root, std::string_view path);

/// Bytes of a value on the rank of its mesh that holds most; of all where it has no placements yet.
/// Errors: OutOfRange beyond 2^63; those of spec_of().
StatusOr<std::int64_t> held_bytes(const Program& program, const ProgramValue& value);

}  // namespace tessera
