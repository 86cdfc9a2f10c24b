// An op with a rule takes one of its rows on each axis: all combinations are resolved as the search
// of dispatch would, with axes in the mesh's order where several cut one dim, and once more in the
// orders in which operands may be made. An op whose own function makes its offers is asked with
// operands that are cut on one axis alone; what it takes there is combined over the axes and asked
// for again.
#include "program/solver/call_candidates.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "strategies/rules/search.h"

namespace tessera {
namespace {

using Kind = RowEntry::Kind;

/// Calls visit(word) for each word of one letter an axis; letters[a] are those that axis a may
/// have. Where there would be too many, only words of few different letters.
class Words {
 public:
  explicit Words(std::vector<std::vector<int>> letters) : letters_(std::move(letters)) {
    most_different_ = letters_.size();
    while (most_different_ > 1 && count() > kMostCandidates) --most_different_;
  }
  template <class Visit>
  void each(const Visit& visit) const {
    std::vector<int> word;
    extend(word, visit);
  }

 private:
  std::size_t count() const {
    std::size_t total = 0;
    each([&](const std::vector<int>&) { ++total; });
    return total;
  }
  template <class Visit>
  void extend(std::vector<int>& word, const Visit& visit) const {
    if (word.size() == letters_.size()) return visit(word);
    for (const int letter : letters_[word.size()]) {
      word.push_back(letter);
      std::vector<int> different(word);
      std::sort(different.begin(), different.end());
      different.erase(std::unique(different.begin(), different.end()), different.end());
      if (different.size() <= most_different_) extend(word, visit);
      word.pop_back();
    }
  }

  std::vector<std::vector<int>> letters_;
  std::size_t most_different_ = 0;
};

struct CandidateHash {
  std::size_t operator()(const CallCandidate& candidate) const noexcept {
    std::size_t hash = 0;
    for (const auto* specs : {&candidate.inputs, &candidate.outputs}) {
      for (const Spec& spec : *specs) hash = hash * 1099511628211ULL + spec.hash();
    }
    return hash;
  }
};
struct CandidateEqual {
  bool operator()(const CallCandidate& a, const CallCandidate& b) const noexcept {
    return a.inputs == b.inputs && a.outputs == b.outputs;
  }
};

/// In order, no two alike.
class CandidateList {
 public:
  void add(CallCandidate candidate) {
    if (seen_.insert(candidate).second) list_.push_back(std::move(candidate));
  }
  std::vector<CallCandidate> take() { return std::move(list_); }
  bool empty() const noexcept { return list_.empty(); }

 private:
  std::vector<CallCandidate> list_;
  std::unordered_set<CallCandidate, CandidateHash, CandidateEqual> seen_;
};

/// The operand with whose mesh the call runs: the first with dims, else the first; −1 without any.
int leader_of(const CandidateQuery& query) {
  int leader = -1;
  for (std::size_t i = 0; i < query.operands.size(); ++i) {
    const std::optional<Spec>& spec = query.operands[i];
    if (!spec || spec->mesh().ndim() == 0) continue;
    if (spec->ndim() > 0) return static_cast<int>(i);
    if (leader < 0) leader = static_cast<int>(i);
  }
  return leader;
}

bool may_be(const std::vector<Spec>& made, int axis, const RowEntry& entry) {
  return std::any_of(made.begin(), made.end(), [&](const Spec& spec) {
    return axis < spec.mesh().ndim() && entry_of(spec, axis) == entry;
  });
}

const Spec* pointer_to(const std::optional<Spec>& spec) { return spec ? &*spec : nullptr; }

/// Candidates of an op with a rule.
class OfRule {
 public:
  OfRule(const CandidateQuery& query, Call call) : query_(query), call_(std::move(call)) {}

  StatusOr<std::vector<CallCandidate>> run() {
    for (const std::optional<Spec>& spec : query_.operands) {
      call_.operands.push_back(operand_of(call_, pointer_to(spec)));
    }
    std::vector<std::vector<int>> rows(call_.axis_sizes.size());
    for (std::size_t a = 0; a < rows.size(); ++a) {
      for (std::size_t r = 0; r < call_.rows.size(); ++r) {
        if (is_useful(call_.rows[r], call_.mesh_axes[a])) rows[a].push_back(static_cast<int>(r));
      }
    }
    const Words words(std::move(rows));
    words.each([&](const std::vector<int>& word) { add(word); });
    words.each([&](const std::vector<int>& word) { add_in_order_of_operands(word); });
    if (list_.empty()) {
      return failed_precondition(call_.op->def.name + ": no row of it fits on " +
                                 call_.mesh.to_string());
    }
    return list_.take();
  }

 private:
  bool is_useful(const CompactRow& row, int axis) const {
    bool kept = !row.passes_partials();
    for (std::size_t i = 0; i < call_.operands.size(); ++i) {
      const CallOperand& operand = call_.operands[i];
      if (operand.spec == nullptr) continue;
      const RowEntry& entry = row.inputs[i];
      if (operand.foreign && entry.kind != Kind::kReplicate) return false;
      if (entry.kind == Kind::kPartial) kept |= may_be(query_.made[i], axis, entry);
    }
    return kept;
  }

  bool combines(const std::vector<int>& word) const {
    int lowering = -1;
    for (std::size_t a = 0; a < word.size(); ++a) {
      const CompactRow& row = call_.rows[static_cast<std::size_t>(word[a])];
      if (row.lowering >= 0 && lowering >= 0 && row.lowering != lowering) return false;
      if (row.lowering >= 0) lowering = row.lowering;
      for (std::size_t b = 0; b < a; ++b) {
        if (!may_combine(call_.rows[static_cast<std::size_t>(word[b])], row)) return false;
      }
    }
    return true;
  }

  void add(const std::vector<int>& word) {
    if (!combines(word)) return;
    Choice choice;
    choice.rows.assign(word.begin(), word.end());
    choice.factor_levels = default_levels(call_, choice.rows);
    add(choice);
  }
  void add(const Choice& choice) {
    StatusOr<Resolution> resolution = resolve(call_, choice);
    if (!resolution.ok()) return;
    list_.add({std::move(resolution->inputs), std::move(resolution->outputs),
               std::move(resolution->why)});
  }

  /// Where an operand may lie on these axes with its levels in another order, the whole call may
  /// run so.
  void add_in_order_of_operands(const std::vector<int>& word) {
    if (!combines(word)) return;
    Choice choice;
    choice.rows.assign(word.begin(), word.end());
    const auto usual = default_levels(call_, choice.rows);
    for (std::size_t i = 0; i < call_.operands.size(); ++i) {
      if (call_.operands[i].spec == nullptr || call_.operands[i].foreign) continue;
      for (const Spec& made : query_.made[i]) {
        choice.factor_levels = usual;
        if (follows(word, i, made, choice)) add(choice);
      }
    }
  }
  /// False where the rows want the operand elsewhere, or the levels are the usual ones.
  bool follows(const std::vector<int>& word, std::size_t operand, const Spec& made,
               Choice& choice) const {
    if (!equal_axes(made.mesh(), call_.mesh)) return false;
    const CallOperand there = operand_of(call_, &made);
    for (std::size_t a = 0; a < word.size(); ++a) {
      const CompactRow& row = call_.rows[static_cast<std::size_t>(word[a])];
      if (!(there.cut.entries[a] == row.inputs[operand])) return false;
      const bool counts_on_order =
          row.lowering >= 0 &&
          call_.op->def.lowerings[static_cast<std::size_t>(row.lowering)].cut ==
              Lowering::Cut::kIntervals;
      if (counts_on_order) return false;
    }
    bool differs = false;
    const BoundOperand& bound = call_.binding.inputs[operand];
    for (std::size_t d = 0; d < bound.size(); ++d) {
      if (bound[d].count != 1 || there.cut.axes[d] == 0) continue;
      LevelList& levels = choice.factor_levels[static_cast<std::size_t>(bound[d].factors[0])];
      differs |= !(levels == there.cut.levels[d]);
      levels = there.cut.levels[d];
    }
    return differs;
  }

  const CandidateQuery& query_;
  Call call_;
  CandidateList list_;
};

/// Candidates of an op whose own function makes its offers.
class OfFunction {
 public:
  OfFunction(const CandidateQuery& query, const Mesh& mesh, std::vector<TensorMeta> outputs)
      : query_(query), mesh_(mesh), outputs_(std::move(outputs)) {
    for (int a = 0; a < mesh.ndim(); ++a) {
      if (mesh.size(a) > 1) axes_.push_back(a);
    }
  }

  StatusOr<std::vector<CallCandidate>> run() {
    const std::vector<Entries> whole(axes_.size(), Entries(query_.operands.size()));
    TSR_RETURN_IF_ERROR(ask(whole));
    std::vector<std::vector<Entries>> rows(axes_.size());
    for (std::size_t a = 0; a < axes_.size(); ++a) {
      TSR_ASSIGN_OR_RETURN(rows[a], rows_on(a));
    }
    std::vector<std::vector<int>> letters(axes_.size());
    for (std::size_t a = 0; a < axes_.size(); ++a) {
      for (std::size_t r = 0; r < rows[a].size(); ++r) letters[a].push_back(static_cast<int>(r));
    }
    Status status = absl::OkStatus();
    Words(std::move(letters)).each([&](const std::vector<int>& word) {
      std::vector<Entries> entries;
      for (std::size_t a = 0; a < word.size(); ++a) {
        entries.push_back(rows[a][static_cast<std::size_t>(word[a])]);
      }
      status.Update(ask(entries));
    });
    TSR_RETURN_IF_ERROR(status);
    TSR_RETURN_IF_ERROR(ask_as_made());
    return list_.take();
  }

 private:
  using Entries = std::vector<RowEntry>;  ///< one an operand

  bool is_cut(std::size_t operand) const {
    const std::optional<Spec>& spec = query_.operands[operand];
    return spec && spec->mesh().ndim() > 0 && equal_axes(spec->mesh(), mesh_);
  }
  /// What an operand may be on an axis.
  Entries entries_of(std::size_t operand, int axis) const {
    Entries entries = {RowEntry{}};
    if (!is_cut(operand)) return entries;
    const Shape& shape = query_.operands[operand]->global_shape();
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] > 1) entries.push_back({Kind::kShard, static_cast<int>(d), ReduceOp::kSum});
    }
    for (const Spec& made : query_.made[operand]) {
      if (!equal_axes(made.mesh(), mesh_)) continue;
      const RowEntry entry = entry_of(made, axis);
      const bool is_new = std::find(entries.begin(), entries.end(), entry) == entries.end();
      if (entry.kind == Kind::kPartial && is_new) entries.push_back(entry);
    }
    return entries;
  }

  /// What the op takes as it lies where one axis alone is cut.
  StatusOr<std::vector<Entries>> rows_on(std::size_t a) {
    std::vector<Entries> choices;
    std::size_t count = 1;
    for (std::size_t i = 0; i < query_.operands.size(); ++i) {
      choices.push_back(entries_of(i, axes_[a]));
      count *= choices.back().size();
    }
    std::vector<Entries> tried;
    if (count <= kMostCandidates) {
      Entries entries;
      spread(choices, entries, tried);
    } else {
      add_alike(choices, tried);
    }
    std::vector<Entries> rows;
    for (const Entries& entries : tried) {
      std::vector<Entries> all(axes_.size(), Entries(query_.operands.size()));
      all[a] = entries;
      TSR_ASSIGN_OR_RETURN(const bool taken, is_taken(all));
      if (taken) rows.push_back(entries);
    }
    return rows;
  }
  static void spread(const std::vector<Entries>& choices, Entries& entries,
                     std::vector<Entries>& tried) {
    if (entries.size() == choices.size()) return tried.push_back(entries);
    for (const RowEntry& entry : choices[entries.size()]) {
      entries.push_back(entry);
      spread(choices, entries, tried);
      entries.pop_back();
    }
  }
  /// One entry for all operands that can have it, the others whole.
  static void add_alike(const std::vector<Entries>& choices, std::vector<Entries>& tried) {
    Entries different;
    for (const Entries& each : choices) {
      for (const RowEntry& entry : each) {
        if (std::find(different.begin(), different.end(), entry) == different.end()) {
          different.push_back(entry);
        }
      }
    }
    for (const RowEntry& entry : different) {
      Entries entries;
      for (const Entries& each : choices) {
        const bool has = std::find(each.begin(), each.end(), entry) != each.end();
        entries.push_back(has ? entry : RowEntry{});
      }
      tried.push_back(std::move(entries));
    }
  }

  StatusOr<std::vector<Spec>> placed(const std::vector<Entries>& entries) const {
    std::vector<Spec> specs;
    for (std::size_t i = 0; i < query_.operands.size(); ++i) {
      const std::optional<Spec>& spec = query_.operands[i];
      if (!spec) {
        specs.emplace_back();
        continue;
      }
      Layout layout;
      layout.dims.resize(spec->global_shape().size());
      layout.partial.resize(static_cast<std::size_t>(mesh_.ndim()));
      for (std::size_t a = 0; a < axes_.size(); ++a) {
        layout = with_entry(std::move(layout), axes_[a], entries[a][i]);
      }
      TSR_ASSIGN_OR_RETURN(
          Spec made, Spec::make(mesh_, spec->global_shape(), spec->dtype(), std::move(layout)));
      specs.push_back(std::move(made));
    }
    return specs;
  }
  StatusOr<std::vector<Strategy>> offers(const std::vector<Spec>& specs) const {
    std::vector<const Spec*> given;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      given.push_back(query_.operands[i] ? &specs[i] : nullptr);
    }
    return query_.op->def.strategies(given, outputs_, *query_.attrs);
  }
  StatusOr<bool> is_taken(const std::vector<Entries>& entries) const {
    TSR_ASSIGN_OR_RETURN(const std::vector<Spec> specs, placed(entries));
    const StatusOr<std::vector<Strategy>> found = offers(specs);
    if (!found.ok()) return false;
    return std::any_of(found->begin(), found->end(), [&](const Strategy& offer) {
      for (std::size_t i = 0; i < specs.size(); ++i) {
        if (query_.operands[i] && !(offer.inputs[i] == specs[i])) return false;
      }
      return true;
    });
  }

  Status ask(const std::vector<Entries>& entries) {
    TSR_ASSIGN_OR_RETURN(const std::vector<Spec> specs, placed(entries));
    return ask(specs);
  }
  /// What the op offers for operands that lie so; what it refuses is no candidate.
  Status ask(const std::vector<Spec>& specs) {
    StatusOr<std::vector<Strategy>> found = offers(specs);
    if (!found.ok()) return absl::OkStatus();
    for (Strategy& offer : *found) {
      CallCandidate candidate{.inputs = std::move(offer.inputs),
                              .outputs = std::move(offer.outputs),
                              .why = std::move(offer.why)};
      candidate.inputs.resize(query_.operands.size());
      for (std::size_t i = 0; i < query_.operands.size(); ++i) {
        if (!query_.operands[i]) candidate.inputs[i] = Spec();
      }
      list_.add(std::move(candidate));
    }
    return absl::OkStatus();
  }
  /// With each operand as it may be made, the others whole, or laid out alike where that fits.
  Status ask_as_made() {
    for (std::size_t i = 0; i < query_.operands.size(); ++i) {
      if (!is_cut(i)) continue;
      for (const Spec& made : query_.made[i]) {
        if (!equal_axes(made.mesh(), mesh_)) continue;
        const std::vector<Entries> whole(axes_.size(), Entries(query_.operands.size()));
        TSR_ASSIGN_OR_RETURN(std::vector<Spec> specs, placed(whole));
        specs[i] = made;
        TSR_RETURN_IF_ERROR(ask(specs));
      }
    }
    return absl::OkStatus();
  }

  const CandidateQuery& query_;
  const Mesh& mesh_;
  std::vector<TensorMeta> outputs_;
  std::vector<int> axes_;
  CandidateList list_;
};

}  // namespace

StatusOr<std::vector<CallCandidate>> candidates_of(const CandidateQuery& query) {
  std::vector<TensorMeta> metas;
  for (const std::optional<Spec>& spec : query.operands) {
    metas.push_back(spec ? TensorMeta{spec->global_shape(), spec->dtype()}
                         : TensorMeta{.shape = {}, .absent = true});
  }
  const int leader = leader_of(query);
  if (leader < 0) {
    std::vector<const Spec*> specs;
    for (const std::optional<Spec>& spec : query.operands) specs.push_back(pointer_to(spec));
    TSR_ASSIGN_OR_RETURN(Resolution plain, propagate(*query.op, specs, *query.attrs));
    std::vector<CallCandidate> one(1);
    one[0] = {std::move(plain.inputs), std::move(plain.outputs), std::move(plain.why)};
    return one;
  }
  const Mesh& mesh = query.operands[static_cast<std::size_t>(leader)]->mesh();
  if (query.op->def.strategies != nullptr) {
    TSR_ASSIGN_OR_RETURN(std::vector<TensorMeta> outputs, infer(*query.op, metas, *query.attrs));
    TSR_ASSIGN_OR_RETURN(std::vector<CallCandidate> found,
                         OfFunction(query, mesh, std::move(outputs)).run());
    if (!found.empty()) return found;
    return failed_precondition(query.op->def.name + ": no strategy fits on " + mesh.to_string());
  }
  TSR_ASSIGN_OR_RETURN(Call call, make_call(*query.op, std::move(metas), *query.attrs, mesh));
  return OfRule(query, std::move(call)).run();
}

}  // namespace tessera
