#include "program/findings/what_if.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "io/byte_text.h"
#include "program/findings/texts.h"
#include "strategies/rules/row_pattern.h"

namespace tessera {
namespace {

constexpr int kMaxCalls = 40;  // propagated anew before what differs moves back
constexpr int kMaxDepth = 8;   // ops before the move that may be run otherwise
// Beyond, pairs of layouts that no program would ask for take seconds to count exactly.
constexpr std::int64_t kMaxExactRanks = 512;
constexpr std::size_t kMaxRows = 24;
constexpr std::size_t kMaxOrigins = 24;  // values on the way back that are looked at

/// One change, followed through the program.
class Change {
 public:
  explicit Change(FindingContext& context) : context_(context) {}

  /// The value lies there from the start.
  void place(int value, const Spec& spec) { differ(value, spec); }
  /// The call runs by a row.
  void force(int step, const std::string& row, const std::string& axis) {
    forced_step_ = step;
    forced_ = {ForcedRow{.row = row, .axis = axis, .by = "the audit"}};
    to_visit_.insert(step);
  }
  /// Follows it. False where it leads to what no row or plan knows.
  bool follow() {
    while (!to_visit_.empty()) {
      const int step = *to_visit_.begin();
      to_visit_.erase(to_visit_.begin());
      if (!visit(step)) return false;
    }
    return true;
  }
  CheckedInt saved() const { return before_ - after_; }
  const std::set<int>& dropped() const { return dropped_; }
  /// Moves that the change brings, up to three of them.
  std::string brings() const {
    return news_.empty() ? "nothing moves instead" : absl::StrJoin(news_, "; ");
  }

 private:
  void differ(int value, const Spec& spec) {
    specs_.insert_or_assign(value, spec);
    for (const int user : context_.value(value).users) to_visit_.insert(user);
  }
  const Spec* spec(int value) {
    const auto found = specs_.find(value);
    return found != specs_.end() ? &found->second : context_.spec(value);
  }
  bool charge(int step, int value, const Spec& from, const Spec& to) {
    if (from == to) return true;
    std::int64_t bytes = 0;
    std::string how;
    if (const std::int64_t ranks = from.mesh().num_ranks(); ranks > kMaxExactRanks) {
      bytes = (estimate_moved_bytes(from, to) + ranks - 1) / ranks;
      how = byte_text(bytes, 1);
    } else {
      const PairCost& cost = context_.pair(*context_.value(value).value, from, to);
      if (!cost.known) return false;
      bytes = cost.bytes.max;
      how = moves_text(cost.moves);
    }
    after_ += context_.step(step).rounds * bytes;
    if (bytes > 0 && news_.size() < 3) {
      news_.push_back(context_.value(value).value->name + " to " + placements_text(&to) + " (" +
                      how + ")");
    }
    return true;
  }
  void drop(int step) {
    if (dropped_.insert(step).second) {
      before_ += context_.step(step).rounds * context_.bytes(step).max;
    }
  }

  bool visit(int step) {
    const StepNode& node = context_.step(step);
    if (const auto* move = std::get_if<MoveStep>(&node.step->what)) {
      return visit_move(step, *move);
    }
    if (const auto* call = std::get_if<CallStep>(&node.step->what)) {
      return visit_call(step, *call);
    }
    if (const auto* region = std::get_if<RegionStep>(&node.step->what)) {
      // What FSDP reduces it reduces from any placement on the other axes.
      if (region->name == "fsdp_reduce_scatter") return true;
      for (const int read : node.reads) {
        if (!move_back(step, read)) return false;
      }
    }
    return true;
  }
  bool move_back(int step, int value) {
    const auto found = specs_.find(value);
    if (found == specs_.end()) return true;
    const Spec* original = context_.spec(value);
    return original != nullptr && charge(step, value, found->second, *original);
  }
  bool visit_move(int step, const MoveStep& move) {
    const int source = context_.step(step).reads.at(0), out = context_.step(step).makes.at(0);
    const Spec* from = spec(source);
    const Spec* to = context_.spec(out);
    if (from == nullptr || to == nullptr) return false;
    drop(step);
    const bool is_result = context_.value(out).users.empty();
    if (!move.implicit || is_result) return charge(step, source, *from, *to);
    differ(out, *from);  // who needs it elsewhere says so again
    return true;
  }
  /// An operand as it stands before implicit moves that serve this call alone.
  int unmoved(int step, int operand) {
    const ValueNode& value = context_.value(operand);
    if (value.made_by < 0 || value.users != std::vector<int>{step}) return operand;
    const auto* move = std::get_if<MoveStep>(&context_.step(value.made_by).step->what);
    if (move == nullptr || !move->implicit) return operand;
    drop(value.made_by);
    return context_.step(value.made_by).reads.at(0);
  }
  bool visit_call(int step, const CallStep& call) {
    if (++calls_ > kMaxCalls && step != forced_step_) {
      for (const int read : context_.step(step).reads) {
        if (!move_back(step, read)) return false;
      }
      return true;
    }
    const Op* op = context_.op(call);
    const std::optional<Attrs> attrs = context_.attrs(call);
    if (op == nullptr || !attrs) return false;
    std::vector<int> values;
    std::vector<const Spec*> operands;
    for (const int operand : context_.operands(step)) {
      values.push_back(operand < 0 ? operand : unmoved(step, operand));
      operands.push_back(values.back() < 0 ? nullptr : spec(values.back()));
      if (values.back() >= 0 && operands.back() == nullptr) return false;
    }
    const StatusOr<Resolution> resolved = propagate(
        *op, operands, *attrs,
        step == forced_step_ ? std::span<const ForcedRow>(forced_) : std::span<const ForcedRow>());
    if (!resolved.ok() || resolved->inputs.size() != operands.size()) return false;
    if (resolved->lowering >= 0) return false;  // ranks would talk inside the op: not counted here
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i] == nullptr) continue;
      if (!charge(step, values[i], *operands[i], resolved->inputs[i])) return false;
    }
    const std::vector<int>& makes = context_.step(step).makes;
    for (std::size_t i = 0; i < makes.size() && i < resolved->outputs.size(); ++i) {
      const Spec* original = context_.spec(makes[i]);
      if (original == nullptr || original->global_shape() != resolved->outputs[i].global_shape()) {
        return false;
      }
      const Spec placed = resolved->outputs[i].with_dtype(original->dtype());
      if (placed == *original) continue;
      differ(makes[i], placed);
      // What nobody uses is a result of the program: whoever reads it expects it where it was.
      const bool is_result = context_.value(makes[i]).users.empty();
      if (is_result && !charge(step, makes[i], placed, *original)) return false;
    }
    return true;
  }

  FindingContext& context_;
  std::map<int, Spec> specs_;  // of values that lie otherwise
  std::set<int> to_visit_, dropped_;
  std::vector<ForcedRow> forced_;
  int forced_step_ = -1, calls_ = 0;
  CheckedInt before_ = 0, after_ = 0;
  std::vector<std::string> news_;
};

/// What the rank with most holds of it.
std::int64_t piece_bytes(const Spec& spec) {
  const Coord fullest = fullest_coord(spec.mesh(), spec.layout());
  return num_elements(spec.local_shape(fullest)) * size_of(spec.dtype());
}

/// Whether all ranks do the same by it.
bool is_whole(const Row& row) {
  const auto whole = [](const RowEntry& entry) { return entry.kind == RowEntry::Kind::kReplicate; };
  return std::all_of(row.inputs.begin(), row.inputs.end(), whole) &&
         std::all_of(row.outputs.begin(), row.outputs.end(), whole);
}

class Search {
 public:
  Search(FindingContext& context, int move)
      : context_(context), rounds_(context.step(move).rounds), place_(place_of(move)) {}

  void take(Change& change, const std::string& text) {
    if (!change.follow()) return;
    // One change may remove several moves of one place: each has its part of what that saves.
    std::int64_t alike = 0;
    for (const int dropped : change.dropped()) alike += place_of(dropped) == place_ ? 1 : 0;
    const std::int64_t saved =
        (change.saved() / (rounds_ * std::max<std::int64_t>(1, alike))).clamped();
    if (saved <= best_.saved_bytes) return;
    best_ = {.text = text + ": " + change.brings(), .saved_bytes = saved};
  }
  /// What is cut along an axis, or what every rank has whole: that is more work and more memory.
  enum class Kept : std::uint8_t { kInPieces, kWhole };
  void try_placements(int value, const std::vector<std::string>& axes, Kept kept);
  void try_rows(int step, const std::vector<std::string>& axes, Kept kept);
  std::optional<Remedy> best() const {
    return best_.saved_bytes > 0 ? std::optional(best_) : std::nullopt;
  }

 private:
  std::string place_of(int step) const { return id_of(context_.start("", step)); }

  FindingContext& context_;
  CheckedInt rounds_;
  std::string place_;
  Remedy best_;
};

void Search::try_placements(int value, const std::vector<std::string>& axes, Kept kept) {
  const Spec* placed = context_.spec(value);
  if (placed == nullptr || placed->mesh().ndim() == 0) return;
  for (const std::string& name : axes) {
    const StatusOr<int> axis = placed->mesh().find_axis(name);
    if (!axis.ok()) continue;
    std::vector<RowEntry> entries;
    if (kept == Kept::kWhole) entries.push_back({});
    for (int dim = 0; kept == Kept::kInPieces && dim < placed->ndim(); ++dim) {
      if (placed->global_shape()[static_cast<std::size_t>(dim)] < placed->mesh().size(*axis))
        continue;
      entries.push_back({.kind = RowEntry::Kind::kShard, .dim = dim});
    }
    for (const RowEntry& entry : entries) {
      const RowEntry now = entry_of(*placed, *axis);
      if (entry == now || now.kind == RowEntry::Kind::kPartial) continue;
      const StatusOr<Spec> other =
          Spec::make(placed->mesh(), placed->global_shape(), placed->dtype(),
                     with_entry(placed->layout(), *axis, entry));
      if (!other.ok()) continue;
      Change change(context_);
      change.place(value, *other);
      const std::int64_t more = piece_bytes(*other) - piece_bytes(*placed);
      take(change,
           absl::StrFormat("place %s as %s on %s, not %s%s", context_.value(value).value->name,
                           to_string(entry), name, to_string(entry_of(*placed, *axis)),
                           more > 0 ? ", with " + byte_text(more, 1) + " more held" : ""));
    }
  }
}

void Search::try_rows(int step, const std::vector<std::string>& axes, Kept kept) {
  const auto* call = std::get_if<CallStep>(&context_.step(step).step->what);
  if (call == nullptr) return;
  const Op* op = context_.op(*call);
  const std::optional<Attrs> attrs = context_.attrs(*call);
  if (op == nullptr || !attrs) return;
  std::vector<TensorMeta> metas;
  std::optional<Mesh> mesh;
  for (const int operand : context_.operands(step)) {
    const Spec* spec = context_.spec(operand);
    if (spec == nullptr) {
      metas.push_back({.absent = true});
      continue;
    }
    metas.push_back({.shape = spec->global_shape(), .dtype = spec->dtype()});
    if (spec->mesh().ndim() > 0) mesh = spec->mesh();
  }
  if (!mesh) return;
  for (const std::string& name : axes) {
    const StatusOr<int> axis = mesh->find_axis(name);
    if (!axis.ok()) continue;
    const StatusOr<std::vector<Row>> rows = rows_of(*op, metas, *attrs, mesh->size(*axis));
    if (!rows.ok()) continue;
    for (std::size_t i = 0; i < std::min(rows->size(), kMaxRows); ++i) {
      if (is_whole((*rows)[i]) != (kept == Kept::kWhole)) continue;
      Change change(context_);
      change.force(step, to_string((*rows)[i]), name);
      take(change,
           absl::StrFormat("run %s by its row %s on %s", call->op, to_string((*rows)[i]), name));
    }
  }
}

bool is_held(const ProgramValue& value) {
  return value.role == ValueRole::kParameter || value.role == ValueRole::kBuffer;
}

/// Where the placement of what a move takes elsewhere came from.
struct Origins {
  std::vector<int> calls;         ///< the op that needs it, then those on the way back
  std::vector<int> held, inputs;  ///< values
};
Origins origins_of(const FindingContext& context, int move) {
  Origins origins;
  for (const int out : context.step(move).makes) {
    const std::vector<int>& users = context.value(out).users;
    if (!users.empty()) origins.calls.push_back(users[0]);
  }
  std::vector<int> front = context.step(move).reads;
  std::set<int> seen;
  for (int depth = 0; depth < kMaxDepth && !front.empty(); ++depth) {
    std::vector<int> next;
    for (const int value : front) {
      if (seen.size() == kMaxOrigins || !seen.insert(value).second) continue;
      const ValueNode& node = context.value(value);
      const auto* region = node.made_by < 0
                               ? nullptr
                               : std::get_if<RegionStep>(&context.step(node.made_by).step->what);
      if (node.value->role == ValueRole::kInput) origins.inputs.push_back(value);
      if (is_held(*node.value) || (region != nullptr && region->name == "fsdp_all_gather")) {
        origins.held.push_back(value);
      }
      if (node.made_by < 0 || region != nullptr) continue;
      origins.calls.push_back(node.made_by);
      const std::vector<int>& reads = context.step(node.made_by).reads;
      next.insert(next.end(), reads.begin(), reads.end());
    }
    front = std::move(next);
  }
  return origins;
}

}  // namespace

std::string_view advice_for(std::string_view op) {
  static constexpr std::string_view kInParts[] = {
      "split", "split_with_sizes", "chunk", "unbind", "slice", "cat", "stack"};
  if (std::find(std::begin(kInParts), std::end(kInParts), op) == std::end(kInParts)) return "";
  return "keep the parts as tensors of their own, made by weights of their own, each cut alike: a "
         "dim that is cut over ranks cannot be taken apart without its whole";
}

std::optional<Remedy> remedy_for(FindingContext& context, int move) {
  if (!context.may_search()) return std::nullopt;
  Search search(context, move);
  const std::vector<std::string> axes = context.start("", move).axes;
  const Origins origins = origins_of(context, move);
  // What costs work or memory, or whoever makes an input: only where nothing else helps.
  for (const Search::Kept kept : {Search::Kept::kInPieces, Search::Kept::kWhole}) {
    if (search.best()) break;
    for (const int step : origins.calls) search.try_rows(step, axes, kept);
    for (const int value : origins.held) search.try_placements(value, axes, kept);
  }
  for (const Search::Kept kept : {Search::Kept::kInPieces, Search::Kept::kWhole}) {
    for (std::size_t i = 0; i < origins.inputs.size() && !search.best(); ++i) {
      search.try_placements(origins.inputs[i], axes, kept);
    }
  }
  return search.best();
}

}  // namespace tessera
