// runtime/plan/plan_program.h: what a PlanProgram holds: the steps of a plan as one rank takes
// them, with nothing left to work out at the call.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/call/communicator.h"
#include "runtime/plan/box_parts.h"
#include "runtime/plan/execute.h"

namespace tessera {

/// One step of one rank.
struct ProgramStep {
  enum class Way : std::uint8_t {
    kNothing,       ///< the rank has no part in the step
    kLocal,         ///< copies and fills on the rank itself
    kExchange,      ///< boxes among the group
    kAllReduce,     ///< the native collective, as all of these on consecutive rows
    kAllGather,     ///< likewise
    kReduceScatter  ///< likewise
  };
  Way way = Way::kNothing;
  std::string_view event = {};  ///< the step's kind
  Communicator* group = nullptr;
  std::string axes = {};   ///< labels of the mesh axes, for events
  std::uint64_t hash = 0;  ///< ranks compare it

  bool reads = false;                 ///< this rank has an array to read
  bool writes = false;                ///< it has one to write
  bool in_place = false;              ///< the array written is the one read
  Shape written = {};                 ///< its local shape
  std::optional<ReduceOp> fill = {};  ///< of the elements that no box covers; nullopt: none
  std::shared_ptr<const ExchangeBoxes> boxes = {};
  /// kLocal: where in the array read the one written lies, row-major elements from there on.
  std::optional<std::int64_t> alias = {};

  ReduceOp reduce = ReduceOp::kSum;  ///< native folds
  std::int64_t divisor = 1;
  std::vector<std::int64_t> rows = {};  ///< of each rank of the group: native collectives on rows
  std::int64_t first_row = 0;           ///< kReduceScatter: of its own in the array written
  /// What it writes may be the array that it reads, where nobody else holds that: peers read
  /// nothing that this rank writes.
  bool may_overwrite = false;
  /// kAllReduce: the same in exchanges on the array as one line of elements. Small ones fold the
  /// whole in one; of others each rank folds its slice, then all slices are gathered in place. For
  /// buckets: exchanges merge.
  std::shared_ptr<const std::vector<ProgramStep>> lines = {};
  bool is_line = false;  ///< one of these exchanges
};

struct ProgramShare {
  Spec src;
  Shape local;         ///< this rank's part of the source
  bool gives = false;  ///< it has one
  bool takes = false;  ///< it has a part of the target
  std::int64_t pack_bytes = 0;
  std::vector<ProgramStep> steps;
  bool moves = false;             ///< some step is a collective
  std::vector<std::string> axes;  ///< labels of all axes along which bytes move, without repeats
};

}  // namespace tessera
