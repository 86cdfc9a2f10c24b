#include "program/module_cost.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "placement/checked_int.h"

namespace tessera {
namespace {

constexpr int kMaxDepth = 32;
// They bound memory, whatever a program's text says: sums of each kind of move stand in all modules
// around it.
constexpr std::size_t kMaxModules = 100'000;
constexpr std::int64_t kMaxKinds = 100'000;

// What is summed before it is known to fit.
struct Sum {
  CheckedInt calls = 0, max = 0, total = 0;
  void add(const Sum& other) {
    calls += other.calls;
    max += other.max;
    total += other.total;
  }
};
using MoveKey = std::tuple<std::string, std::string, bool>;

struct Module {
  std::string name, path;
  int parent = -1;
  std::vector<int> inside;
  CheckedInt steps = 0, host_reads = 0, unplaced = 0, held = 0;
  std::map<MoveKey, Sum> moves;
  std::vector<int> values;
};

StatusOr<std::int64_t> fitting(CheckedInt sum, std::string_view what) {
  if (CheckedInt(sum.clamped()) == sum) return sum.clamped();
  return out_of_range(absl::StrFormat("the program's %s come to more than 2^63", what));
}

class Counter {
 public:
  explicit Counter(const Program& program) : program_(program) { modules_.emplace_back(); }

  StatusOr<ModuleCost> run() {
    TSR_RETURN_IF_ERROR(count_all());
    add_to_parents();
    return cost_of(0);
  }

  StatusOr<std::vector<ModuleMoves>> own_moves() {
    TSR_RETURN_IF_ERROR(count_all());
    std::vector<ModuleMoves> all;
    for (std::size_t i = 0; i < modules_.size(); ++i) {
      const Module& module = modules_[i];
      if (module.moves.empty()) continue;
      ModuleMoves& own = all.emplace_back();
      TSR_ASSIGN_OR_RETURN(own.moves, totals_of(module));
      own.module = module.path;
    }
    return all;
  }

 private:
  Status count_all() {
    for (std::size_t i = 0; i < program_.values.size(); ++i) {
      const ProgramValue& value = program_.values[i];
      known_[value.name] = &value;
      TSR_ASSIGN_OR_RETURN(const int index, at(value.module));
      Module& module = modules_[static_cast<std::size_t>(index)];
      module.values.push_back(static_cast<int>(i));
      TSR_ASSIGN_OR_RETURN(const std::int64_t bytes, held_bytes(program_, value));
      module.held += CheckedInt(bytes) * value.count;
    }
    return count(program_.steps, 1);
  }
  static StatusOr<std::vector<MoveTotal>> totals_of(const Module& module);

  /// The module of a path, made where it is new.
  StatusOr<int> at(const std::string& path) {
    const auto found = by_path_.find(path);
    if (found != by_path_.end()) return found->second;
    int parent = 0;
    std::size_t begin = 0;
    for (int depth = 0; begin < path.size(); ++depth) {
      std::size_t end = depth + 1 < kMaxDepth ? path.find('.', begin) : std::string::npos;
      end = std::min(end, path.size());
      const auto [entry, is_new] =
          by_path_.emplace(path.substr(0, end), static_cast<int>(modules_.size()));
      if (is_new) {
        if (modules_.size() == kMaxModules) {
          return out_of_range(absl::StrFormat("the program has more than %d modules", kMaxModules));
        }
        modules_[static_cast<std::size_t>(parent)].inside.push_back(entry->second);
        Module& made = modules_.emplace_back();
        made.name = path.substr(begin, end - begin);
        made.path = path.substr(0, end);
        made.parent = parent;
      }
      parent = entry->second;
      begin = end + 1;
    }
    return parent;
  }

  Status count(const std::vector<AnyStep>& steps, CheckedInt rounds) {
    for (const AnyStep& step : steps) {
      if (const auto* repeat = std::get_if<RepeatStep>(&step.what)) {
        TSR_RETURN_IF_ERROR(count(repeat->steps, rounds * repeat->count));
        continue;
      }
      if (std::holds_alternative<FreeStep>(step.what)) continue;
      TSR_ASSIGN_OR_RETURN(const int index, at(step.origin.module));
      Module& module = modules_[static_cast<std::size_t>(index)];
      module.steps += rounds;
      if (const auto* call = std::get_if<CallStep>(&step.what)) {
        for (const ProgramValue& out : call->out) known_[out.name] = &out;
        TSR_RETURN_IF_ERROR(add_moves(module, call->moves, false, rounds));
      } else if (const auto* region = std::get_if<RegionStep>(&step.what)) {
        for (const ProgramValue& out : region->out) known_[out.name] = &out;
        TSR_RETURN_IF_ERROR(add_moves(module, region->moves, false, rounds));
      } else if (const auto* move = std::get_if<MoveStep>(&step.what)) {
        TSR_RETURN_IF_ERROR(count_move(*move, module, rounds));
      } else {
        module.host_reads += rounds;
      }
    }
    return absl::OkStatus();
  }

  Status count_move(const MoveStep& step, Module& module, CheckedInt rounds) {
    const auto from = known_.find(step.value);
    const ProgramValue* source = from == known_.end() ? nullptr : from->second;
    known_[step.out.name] = &step.out;
    if (step.moves) {
      return add_moves(module, *step.moves, step.implicit, rounds);
    }
    const auto is_placed = [](const ProgramValue& value) { return !value.mesh || value.layout; };
    if (source == nullptr || !is_placed(*source) || !is_placed(step.out)) {
      module.unplaced += rounds;
      return absl::OkStatus();
    }
    TSR_ASSIGN_OR_RETURN(const std::vector<ProgramMove> moves,
                         moves_of(program_, *source, step.out));
    return add_moves(module, moves, step.implicit, rounds);
  }

  Status add_moves(Module& module, const std::vector<ProgramMove>& moves, bool implicit,
                   CheckedInt rounds) {
    for (const ProgramMove& move : moves) {
      const auto [entry, is_new] = module.moves.try_emplace(
          MoveKey{move.collective, absl::StrJoin(move.axes, ","), implicit});
      if (is_new && ++kinds_ > kMaxKinds) {
        return out_of_range(
            absl::StrFormat("the program's modules have more than %d kinds of moves", kMaxKinds));
      }
      entry->second.calls += rounds;
      entry->second.max += rounds * move.bytes.max;
      entry->second.total += rounds * move.bytes.total;
    }
    return absl::OkStatus();
  }

  // Parents stand before what is in them.
  void add_to_parents() {
    for (std::size_t i = modules_.size() - 1; i > 0; --i) {
      const Module& module = modules_[i];
      Module& parent = modules_[static_cast<std::size_t>(module.parent)];
      parent.steps += module.steps;
      parent.host_reads += module.host_reads;
      parent.unplaced += module.unplaced;
      parent.held += module.held;
      for (const auto& [key, sum] : module.moves) parent.moves[key].add(sum);
    }
  }

  StatusOr<ModuleCost> cost_of(int index);

  const Program& program_;
  std::int64_t kinds_ = 0;
  std::vector<Module> modules_;
  absl::flat_hash_map<std::string, int> by_path_;
  absl::flat_hash_map<std::string, const ProgramValue*> known_;
};

bool costs_the_same(const ModuleCost& a, const ModuleCost& b) {
  return a.steps == b.steps && a.host_reads == b.host_reads && a.held_bytes == b.held_bytes &&
         a.unplaced_moves == b.unplaced_moves && a.moves == b.moves &&
         std::ranges::equal(a.inside, b.inside, [](const ModuleCost& x, const ModuleCost& y) {
           return x.name == y.name && x.copies == y.copies && costs_the_same(x, y);
         });
}

// No sum of copies passes their parent's, which fits.
void multiply(ModuleCost& cost, std::int64_t copies) {
  cost.steps *= copies;
  cost.host_reads *= copies;
  cost.unplaced_moves *= copies;
  cost.calls *= copies;
  cost.held_bytes *= copies;
  for (Volume* volume : {&cost.bytes, &cost.implicit_bytes}) {
    volume->max *= copies;
    volume->total *= copies;
  }
  for (MoveTotal& move : cost.moves) {
    move.calls *= copies;
    move.bytes.max *= copies;
    move.bytes.total *= copies;
  }
  for (ModuleCost& each : cost.inside) multiply(each, copies);
}

std::optional<std::int64_t> number_of(std::string_view name) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size() || number < 0) return std::nullopt;
  return number;
}

/// Neighbours of numbers in a row that cost the same, as one.
std::vector<ModuleCost> fold_copies(std::vector<ModuleCost> modules) {
  std::vector<ModuleCost> folded;
  for (std::size_t first = 0; first < modules.size();) {
    const std::optional<std::int64_t> number = number_of(modules[first].name);
    std::size_t last = first + 1;
    while (number && last < modules.size() &&
           number_of(modules[last].name) == *number + static_cast<std::int64_t>(last - first) &&
           costs_the_same(modules[first], modules[last])) {
      ++last;
    }
    ModuleCost& one = folded.emplace_back(std::move(modules[first]));
    if (const auto copies = static_cast<std::int64_t>(last - first); copies > 1) {
      one.name += absl::StrFormat("-%d", *number + copies - 1);
      one.copies = copies;
      multiply(one, copies);
    }
    first = last;
  }
  return folded;
}

StatusOr<std::vector<MoveTotal>> Counter::totals_of(const Module& module) {
  std::vector<MoveTotal> totals;
  for (const auto& [key, sum] : module.moves) {
    MoveTotal& move = totals.emplace_back();
    std::tie(move.collective, move.axes, move.implicit) = key;
    TSR_ASSIGN_OR_RETURN(move.calls, fitting(sum.calls, "collectives"));
    TSR_ASSIGN_OR_RETURN(move.bytes.max, fitting(sum.max, "bytes received"));
    TSR_ASSIGN_OR_RETURN(move.bytes.total, fitting(sum.total, "bytes received"));
  }
  return totals;
}

StatusOr<ModuleCost> Counter::cost_of(int index) {
  Module& module = modules_[static_cast<std::size_t>(index)];
  ModuleCost cost{.name = module.name, .values = std::move(module.values)};
  TSR_ASSIGN_OR_RETURN(cost.steps, fitting(module.steps, "steps"));
  TSR_ASSIGN_OR_RETURN(cost.host_reads, fitting(module.host_reads, "host reads"));
  TSR_ASSIGN_OR_RETURN(cost.unplaced_moves, fitting(module.unplaced, "redistributions"));
  TSR_ASSIGN_OR_RETURN(cost.held_bytes, fitting(module.held, "bytes held"));
  Sum all, implicit;
  for (const auto& [key, sum] : module.moves) {
    all.add(sum);
    if (std::get<2>(key)) implicit.add(sum);
  }
  TSR_ASSIGN_OR_RETURN(cost.moves, totals_of(module));
  TSR_ASSIGN_OR_RETURN(cost.calls, fitting(all.calls, "collectives"));
  TSR_ASSIGN_OR_RETURN(cost.bytes.max, fitting(all.max, "bytes received"));
  TSR_ASSIGN_OR_RETURN(cost.bytes.total, fitting(all.total, "bytes received"));
  cost.implicit_bytes = {implicit.max.clamped(), implicit.total.clamped()};
  std::ranges::stable_sort(cost.moves, std::ranges::greater(),
                           [](const MoveTotal& move) { return move.bytes.max; });
  for (const int each : module.inside) {
    TSR_ASSIGN_OR_RETURN(ModuleCost inner, cost_of(each));
    cost.inside.push_back(std::move(inner));
  }
  cost.inside = fold_copies(std::move(cost.inside));
  return cost;
}

bool is_called(const ModuleCost& module, std::string_view name) {
  if (module.name == name) return true;
  const std::optional<std::int64_t> number = number_of(name);
  const std::size_t dash = module.name.find('-');
  if (module.copies == 1 || !number || dash == std::string::npos) return false;
  const std::int64_t first = *number_of(std::string_view(module.name).substr(0, dash));
  return *number >= first && *number < first + module.copies;
}

}  // namespace

StatusOr<ModuleCost> module_cost(const Program& program) { return Counter(program).run(); }

StatusOr<std::vector<ModuleMoves>> moves_by_module(const Program& program) {
  return Counter(program).own_moves();
}

StatusOr<const ModuleCost*> find_module(const ModuleCost& root, std::string_view path) {
  constexpr std::size_t kMaxNamed = 20;
  const ModuleCost* at = &root;
  std::string_view rest = path;
  for (int depth = 0; !rest.empty(); ++depth) {
    const std::size_t end = depth + 1 < kMaxDepth ? rest.find('.') : std::string_view::npos;
    const std::string_view name = rest.substr(0, end);
    const auto found = std::ranges::find_if(
        at->inside, [&](const ModuleCost& each) { return is_called(each, name); });
    if (found == at->inside.end()) {
      std::vector<std::string> names;
      for (const ModuleCost& each : at->inside) {
        names.push_back(names.size() == kMaxNamed ? "…" : each.name);
        if (names.size() > kMaxNamed) break;
      }
      const std::string_view before = path.substr(0, path.size() - rest.size());
      return not_found(absl::StrFormat(
          "no module %s in %s; there are: %s", in_quotes(name),
          before.empty() ? "the program" : in_quotes(before.substr(0, before.size() - 1)),
          names.empty() ? "none" : absl::StrJoin(names, ", ")));
    }
    at = &*found;
    rest = end == std::string_view::npos ? "" : rest.substr(end + 1);
  }
  return at;
}

StatusOr<std::int64_t> held_bytes(const Program& program, const ProgramValue& value) {
  Shape shape = value.global_shape;
  if (value.mesh && value.layout) {
    // The first rank has the longest part of each dim.
    TSR_ASSIGN_OR_RETURN(const Spec spec, spec_of(program, value));
    shape = spec.local_shape(*spec.mesh().coord_of(spec.mesh().first_rank()));
  }
  CheckedInt bytes = size_of(value.dtype);
  for (const std::int64_t size : shape) bytes *= size;
  return fitting(bytes, "bytes of a value");
}

}  // namespace tessera
