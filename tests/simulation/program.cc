#include "tests/simulation/program.h"

#include <algorithm>
#include <numeric>

namespace tessera::seeded {
namespace {

using Kind = Action::Kind;

std::int64_t sum_of(const Ranks& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

double value_of(const Action& action, int group_rank, std::int64_t at) {
  std::uint64_t bits = action.salt + static_cast<std::uint64_t>(group_rank) * 0x9e3779b97f4a7c15U +
                       static_cast<std::uint64_t>(at) * 0xbf58476d1ce4e5b9U;
  bits = (bits ^ (bits >> 29)) * 0x94d049bb133111ebU;
  const double whole = static_cast<double>((bits >> 40) % 2001) - 1000.0;
  // Tenths round differently in every order of a sum.
  const double value = action.dtype == DType::kI64 ? whole : whole * 0.1;
  return action.dtype == DType::kF32 ? static_cast<double>(static_cast<float>(value)) : value;
}

double folded(const Action& action, double a, double b) {
  if (action.op == ReduceOp::kMax) return std::max(a, b);
  if (action.op == ReduceOp::kMin) return std::min(a, b);
  if (action.dtype != DType::kF32) return a + b;
  return static_cast<double>(static_cast<float>(a) + static_cast<float>(b));
}

/// Of all operands, in order of group rank.
Values fold_of(const Action& action) {
  Values sum = operand_of(action, 0);
  for (int other = 1; other < static_cast<int>(action.group.size()); ++other) {
    const Values next = operand_of(action, other);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = folded(action, sum[i], next[i]);
  }
  return sum;
}

Values rows_of(const Values& all, std::int64_t begin, std::int64_t count, std::int64_t width) {
  return {all.begin() + begin * width, all.begin() + (begin + count) * width};
}

Ranks draw_group(Draw& draw, int num_ranks) {
  Ranks ranks(static_cast<std::size_t>(num_ranks));
  std::iota(ranks.begin(), ranks.end(), 0);
  if (draw.once_in(2)) return ranks;
  draw.shuffle(ranks);
  ranks.resize(static_cast<std::size_t>(draw.between(1, num_ranks)));
  return ranks;
}

/// Mostly few; sometimes none, sometimes more than what is copied when it is published.
std::int64_t draw_rows(Draw& draw) {
  if (draw.once_in(8)) return draw.between(1500, 3000);
  return draw.between(0, 5);
}

Ranks draw_counts(Draw& draw, std::size_t count) {
  Ranks counts(count);
  for (std::int64_t& each : counts) each = draw_rows(draw);
  return counts;
}

judge::Expected draw_redistribution(Draw& draw, int num_ranks) {
  const std::vector<std::string> choices = {"S(0)", "S(1)", "R", "P(sum)", "S(2)"};
  judge::HeldCache cache;
  std::vector<Shape> meshes{{num_ranks}};
  if (num_ranks == 4) meshes.push_back({2, 2});
  const Shape shape = draw.one_of(meshes);
  const Mesh mesh = value_or_throw(Mesh::make(view_of(shape)));
  const Shape tensor{draw.between(1, 7), draw.between(0, 6), draw.between(1, 3)};
  const auto placements = [&](bool may_be_partial) {
    std::string text;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      std::string one = draw.one_of(choices);
      if (!may_be_partial && one == "P(sum)") one = "R";
      text += (axis == 0 ? "" : ", ") + one;
    }
    return text;
  };
  return judge::expected_of({judge::spec_of(mesh, tensor, placements(true)),
                             judge::spec_of(mesh, tensor, placements(false))},
                            cache);
}

void draw_call(Draw& draw, int num_ranks, Action& action) {
  action.kind = static_cast<Kind>(draw.below(7));
  action.group = draw_group(draw, num_ranks);
  action.dtype = std::vector{DType::kF32, DType::kF64, DType::kI64}[draw.below(3)];
  action.op =
      std::vector{ReduceOp::kSum, ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin}[draw.below(4)];
  action.width = draw.between(1, 3);
  action.later = draw.once_in(2);
  action.salt = draw.below(~std::uint64_t{0});
  if (action.kind == Kind::kPair) {
    if (num_ranks < 2) action.kind = Kind::kBarrier;
    action.group.resize(0);
    for (std::int64_t rank = 0; rank < num_ranks; ++rank) action.group.push_back(rank);
    draw.shuffle(action.group);
    action.group.resize(std::min<std::size_t>(2, action.group.size()));
  }
  const std::size_t size = action.group.size();
  action.root = static_cast<int>(draw.below(size));
  if (action.kind == Kind::kAllToAll) {
    for (std::size_t i = 0; i < size; ++i) action.rows.push_back(draw_counts(draw, size));
  } else if (action.kind == Kind::kAllGather || action.kind == Kind::kReduceScatter) {
    action.rows = {draw_counts(draw, size)};
  } else {
    action.rows = {Ranks(size, draw_rows(draw))};
  }
}

}  // namespace

bool Action::has(std::int64_t rank) const {
  return std::find(group.begin(), group.end(), rank) != group.end();
}

int Action::group_rank_of(std::int64_t rank) const {
  return static_cast<int>(std::find(group.begin(), group.end(), rank) - group.begin());
}

std::int64_t Action::all_rows() const { return sum_of(rows[0]); }

Values operand_of(const Action& action, int group_rank) {
  const auto own = static_cast<std::size_t>(group_rank);
  std::int64_t rows = 0;
  if (action.kind == Kind::kAllToAll) {
    rows = sum_of(action.rows[own]);
  } else if (action.kind == Kind::kReduceScatter) {
    rows = action.all_rows();
  } else if (action.kind != Kind::kBarrier) {
    rows = action.rows[0][own];
  }
  Values values(static_cast<std::size_t>(rows * action.width));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = value_of(action, group_rank, static_cast<std::int64_t>(i));
  }
  return values;
}

Values result_of(const Action& action, int group_rank) {
  const auto own = static_cast<std::size_t>(group_rank);
  Values result;
  const auto append = [&](const Values& more) {
    result.insert(result.end(), more.begin(), more.end());
  };
  switch (action.kind) {
    case Kind::kAllReduce:
      return fold_of(action);
    case Kind::kAllGather:
      for (int i = 0; i < static_cast<int>(action.group.size()); ++i) append(operand_of(action, i));
      return result;
    case Kind::kReduceScatter: {
      const Ranks before(action.rows[0].begin(), action.rows[0].begin() + group_rank);
      return rows_of(fold_of(action), sum_of(before), action.rows[0][own], action.width);
    }
    case Kind::kAllToAll:
      for (std::size_t i = 0; i < action.group.size(); ++i) {
        const Ranks before(action.rows[i].begin(), action.rows[i].begin() + group_rank);
        append(rows_of(operand_of(action, static_cast<int>(i)), sum_of(before), action.rows[i][own],
                       action.width));
      }
      return result;
    case Kind::kBroadcast:
      return operand_of(action, action.root);
    case Kind::kPair:
      return group_rank == 1 ? operand_of(action, 0) : Values{};
    default:
      return {};
  }
}

Program make_program(Draw& draw, int num_ranks) {
  Program program{.num_ranks = num_ranks};
  const int count = draw.between(3, 12);
  const bool has_checkpoints = draw.once_in(3);
  bool saved = false;
  for (int i = 0; i < count; ++i) {
    Action action;
    const std::uint64_t kind = draw.below(10);
    if (kind == 0) {
      action.kind = Kind::kPause;
      // Some are long enough for others to say what they wait for.
      action.pause = std::chrono::microseconds(draw.below(draw.once_in(4) ? 400'000 : 20'000));
    } else if (kind <= 2) {
      action.kind = Kind::kRedistribute;
      action.redistribution = program.redistributions.size();
      program.redistributions.push_back(draw_redistribution(draw, num_ranks));
    } else if (kind <= 4 && has_checkpoints) {
      action.kind = saved && draw.once_in(3) ? Kind::kLoad : Kind::kSave;
      action.later = draw.once_in(2);  // by a thread of its own
      saved = true;
    } else {
      draw_call(draw, num_ranks, action);
    }
    program.actions.push_back(std::move(action));
  }
  return program;
}

}  // namespace tessera::seeded
