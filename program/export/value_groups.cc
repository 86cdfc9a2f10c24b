#include "program/export/value_groups.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "placement/checked_int.h"
#include "program/export/placement_words.h"
#include "program/export/value_flow.h"
#include "program/module_cost.h"

namespace tessera {
namespace {

void add_moves(std::vector<ProgramMove>& to, const std::vector<ProgramMove>& moves) {
  for (const ProgramMove& move : moves) {
    const auto same = std::ranges::find_if(to, [&](const ProgramMove& each) {
      return each.collective == move.collective && each.axes == move.axes;
    });
    if (same == to.end()) {
      to.push_back(move);
      continue;
    }
    same->bytes.max = (CheckedInt(same->bytes.max) + move.bytes.max).clamped();
    same->bytes.total = (CheckedInt(same->bytes.total) + move.bytes.total).clamped();
  }
}

class Grouping {
 public:
  explicit Grouping(const ValueFlow& flow) : flow_(flow), group_of_(flow.values().size(), -1) {}

  StatusOr<std::vector<ValueGroup>> run() {
    for (int i = 0; i < static_cast<int>(group_of_.size()); ++i) {
      if (flow_.at(i).root == i) TSR_RETURN_IF_ERROR(place(i));
    }
    for (std::int64_t step = 0; step < std::ssize(flow_.program().steps); ++step) {
      if (std::holds_alternative<MoveStep>(flow_.step(step).what)) {
        TSR_RETURN_IF_ERROR(add_move(step));
      } else if (const auto* call = std::get_if<CallStep>(&flow_.step(step).what)) {
        for (const int made : flow_.made_at(step)) {
          add_moves(group(made).in, call->moves);
          break;  // an op's own moves are one result's
        }
      }
    }
    return std::move(groups_);
  }

 private:
  ValueGroup& group(int value) {
    return groups_[static_cast<std::size_t>(group_of_[static_cast<std::size_t>(value)])];
  }

  std::string key_of(int index) const {
    const ProgramValue& value = flow_.at(index).value;
    return absl::StrCat(without_numbers(value.name), "\n", without_numbers(flow_.module_of(index)),
                        "\n", flow_.maker_of(index), "\n", type_in_words(value), "\n",
                        value.mesh.value_or(-1), "\n", placements_in_words(flow_.program(), value));
  }

  /// "row k:sum" of what a call makes by it; else "read by matmul", as it is or moved.
  std::string why_of(int index) const {
    const FlowValue& flow = flow_.at(index);
    if (flow.made_by != kBeforeAll) {
      const auto* call = std::get_if<CallStep>(&flow_.step(flow.made_by).what);
      if (call != nullptr && !call->row.empty()) return "row " + call->row;
    }
    for (const std::int64_t reader : flow.read_by) {
      std::int64_t at = reader;
      while (std::holds_alternative<MoveStep>(flow_.step(at).what)) {
        const std::vector<std::int64_t>& next = flow_.at(flow_.made_at(at)[0]).read_by;
        if (next.empty()) break;
        at = next[0];
      }
      const auto* call = std::get_if<CallStep>(&flow_.step(at).what);
      if (call != nullptr) return "read by " + call->op;
    }
    return "";
  }

  Status place(int index) {
    const ProgramValue& value = flow_.at(index).value;
    const auto [found, is_new] =
        by_key_.try_emplace(key_of(index), static_cast<int>(groups_.size()));
    group_of_[static_cast<std::size_t>(index)] = found->second;
    if (!is_new) {
      ValueGroup& group = groups_[static_cast<std::size_t>(found->second)];
      group.name = without_numbers(value.name);
      group.module = without_numbers(flow_.module_of(index));
      ++group.count;
      return absl::OkStatus();
    }
    TSR_ASSIGN_OR_RETURN(const std::int64_t held, held_bytes(flow_.program(), value));
    groups_.push_back({.name = value.name,
                       .module = flow_.module_of(index),
                       .made_by = flow_.maker_of(index),
                       .why = why_of(index),
                       .first = value,
                       .held_bytes = held});
    return absl::OkStatus();
  }

  Status add_move(std::int64_t step) {
    const auto& move = std::get<MoveStep>(flow_.step(step).what);
    const int from = flow_.read_at(step)[0], to = flow_.made_at(step)[0];
    std::vector<ProgramMove> moves;
    if (move.moves) {
      moves = *move.moves;
    } else {
      TSR_ASSIGN_OR_RETURN(moves,
                           moves_of(flow_.program(), flow_.at(from).value, flow_.at(to).value));
    }
    add_moves(group(flow_.at(to).root).out, moves);
    for (const std::int64_t reader : flow_.at(to).read_by) {
      for (const int made : flow_.made_at(reader)) {
        if (flow_.at(made).root == made) add_moves(group(made).in, moves);
      }
    }
    return absl::OkStatus();
  }

  const ValueFlow& flow_;
  std::vector<int> group_of_;
  std::vector<ValueGroup> groups_;
  absl::flat_hash_map<std::string, int> by_key_;
};

}  // namespace

StatusOr<std::vector<ValueGroup>> value_groups(const Program& program) {
  TSR_ASSIGN_OR_RETURN(const ValueFlow flow, ValueFlow::make(program));
  return Grouping(flow).run();
}

}  // namespace tessera
