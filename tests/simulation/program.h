// tests/simulation/program.h: a program that a seed makes for all ranks: collectives on groups,
// redistributions, saves and loads, with what each rank must find, by plain sums and copies.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/call/communicator.h"
#include "tests/redistribute/executed.h"
#include "tests/simulation/draw.h"

namespace tessera::seeded {

using Ranks = std::vector<std::int64_t>;
using Values = std::vector<double>;

struct Action {
  enum class Kind : std::uint8_t {
    kBarrier,
    kAllReduce,
    kAllGather,
    kReduceScatter,
    kAllToAll,
    kBroadcast,
    kPair,  ///< group[0] sends, group[1] receives
    kRedistribute,
    kSave,
    kLoad,
    kPause
  };
  Kind kind = Kind::kBarrier;
  Ranks group;
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  std::int64_t width = 1;
  /// Rows: kAllToAll: rows[i][j] from group rank i to j; else rows[0][i] of group rank i.
  std::vector<Ranks> rows;
  int root = 0;
  bool later = false;      ///< waited for at the end, or before a save
  std::uint64_t salt = 0;  ///< of its values
  std::size_t redistribution = 0;
  Duration pause{};  ///< of each rank: up to this

  bool is_call() const { return kind <= Kind::kPair; }
  bool has(std::int64_t rank) const;
  int group_rank_of(std::int64_t rank) const;
  std::int64_t rows_of(int group_rank) const {
    return rows[0][static_cast<std::size_t>(group_rank)];
  }
  std::int64_t all_rows() const;
};

struct Program {
  int num_ranks = 1;
  std::vector<Action> actions;
  std::vector<judge::Expected> redistributions;
};
Program make_program(Draw& draw, int num_ranks);

/// A group rank's operand, and what it must end with.
Values operand_of(const Action& action, int group_rank);
Values result_of(const Action& action, int group_rank);

}  // namespace tessera::seeded
