#include "strategies/verify_mutants.h"

#include <algorithm>
#include <memory>

#include "strategies/verify_complete.h"
#include "strategies/verify_mutate.h"
#include "strategies/verify_soundness.h"

namespace tessera {
namespace {

constexpr std::int64_t kAxisSizes[] = {2, 3};
constexpr SpecialValues kSpecialValues[] = {SpecialValues::kTies, SpecialValues::kInfinite,
                                            SpecialValues::kNaN};

bool same_row(const Row& a, const Row& b) {
  return a.inputs == b.inputs && a.outputs == b.outputs &&
         (a.masked_factor >= 0) == (b.masked_factor >= 0) && a.lowering == b.lowering;
}
bool contains(const std::vector<Row>& rows, const Row& row) {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const Row& each) { return same_row(each, row); });
}

/// All mutants of one op. What was found by search depends on the kernel, not on the rule.
class MutantJudge {
 public:
  MutantJudge(const Op& op, const VerifyOptions& options) : op_(op), random_(options.seed) {
    for (const Sample& sample : op.def.samples) {
      Tested& tested = tested_.emplace_back(CaseSource(op, sample, random_));
      const VerifyCase& test = tested.source.as_given();
      tested.rows = value_or_throw(rows_of(op, test.metas, test.attrs, 2));
      tested.outputs = value_or_throw(infer(op, test.metas, test.attrs));
    }
    found_ = search_rows(op, options.seed);
    for (const SampleRows& sample : found_) lacking_.push_back(rows_lacking(op, sample));
  }

  MutantReport run() {
    MutantReport report;
    for (const Mutant& mutant : mutants_of(op_.rule)) judge(mutant, report);
    return report;
  }

 private:
  struct Tested {
    explicit Tested(CaseSource given) : source(std::move(given)) {}
    CaseSource source;
    std::vector<Row> rows;
    std::vector<TensorMeta> outputs;
  };
  enum class Verdict : std::uint8_t { kRefuted, kSame, kOther };

  void judge(const Mutant& mutant, MutantReport& report);
  Verdict judge_sample(const Op& other, Tested& tested);
  bool row_is_wrong(const Op& other, const Row& row, Tested& tested);
  bool lacks_found_row(const Op& other) const;

  const Op& op_;
  VerifyRandom random_;
  std::vector<Tested> tested_;
  std::vector<SampleRows> found_;
  std::vector<std::vector<FoundRow>> lacking_;
  std::string survives_;
};

void MutantJudge::judge(const Mutant& mutant, MutantReport& report) {
  OpTable table;
  OpDef def = op_.def;
  def.rule = mutant.rule;
  if (!table.add(std::move(def)).ok()) {
    ++report.refuted;
    return;
  }
  const Op& other = *table.ops()[0];
  if (op_.mutates() && !other.mutates()) {  // the name says that it writes an operand
    ++report.refuted;
    return;
  }
  survives_.clear();
  bool same = true;
  for (Tested& tested : tested_) {
    const Verdict verdict = judge_sample(other, tested);
    if (verdict == Verdict::kRefuted) {
      ++report.refuted;
      return;
    }
    same = same && verdict == Verdict::kSame;
  }
  if (same) {
    ++report.equivalent;
  } else if (lacks_found_row(other)) {
    ++report.refuted;
  } else {
    report.survivors.push_back({mutant.change, mutant.rule, survives_});
  }
}

MutantJudge::Verdict MutantJudge::judge_sample(const Op& other, Tested& tested) {
  const VerifyCase& test = tested.source.as_given();
  const StatusOr<std::vector<TensorMeta>> outputs = infer(other, test.metas, test.attrs);
  if (!outputs.ok() || *outputs != tested.outputs) return Verdict::kRefuted;
  const StatusOr<std::vector<Row>> rows = rows_of(other, test.metas, test.attrs, 2);
  if (!rows.ok()) return Verdict::kRefuted;
  bool same = true;
  for (const Row& row : *rows) {
    if (contains(tested.rows, row)) continue;
    same = false;
    if (row_is_wrong(other, row, tested)) return Verdict::kRefuted;
    survives_ = "adds " + to_string(row) + ", which is right on every sample";
  }
  for (const Row& row : tested.rows) {
    if (contains(*rows, row)) continue;
    same = false;
    if (survives_.empty()) {
      const bool local = row.lowering < 0 && row.masked_factor < 0;
      survives_ = "lacks " + to_string(row) +
                  (local ? ", which no sample that is searched has"
                         : ", which plain local execution cannot find");
    }
  }
  return same ? Verdict::kSame : Verdict::kOther;
}

bool MutantJudge::row_is_wrong(const Op& other, const Row& row, Tested& tested) {
  const VerifyCase& given = tested.source.as_given();
  for (const std::int64_t n : kAxisSizes) {
    const Mesh mesh = value_or_throw(Mesh::make(view_of(Shape{n})));
    const StatusOr<Resolution> resolution = resolve_row(other, given, mesh, row);
    if (!resolution.ok()) continue;
    if (judge_resolution(other, given, mesh, *resolution, random_)) return true;
    for (const SpecialValues values : kSpecialValues) {
      if (values != SpecialValues::kTies && !must_pass_non_finite(other, *resolution)) break;
      const VerifyCase* test = tested.source.with(values, operands_at_stake(*resolution));
      if (test != nullptr && judge_resolution(other, *test, mesh, *resolution, random_)) {
        return true;
      }
    }
  }
  return false;
}

/// A row that the op has, that the search finds, and that the mutant is without.
bool MutantJudge::lacks_found_row(const Op& other) const {
  for (std::size_t s = 0; s < found_.size(); ++s) {
    for (const FoundRow& row : rows_lacking(other, found_[s])) {
      const auto& before = lacking_[s];
      if (std::find(before.begin(), before.end(), row) == before.end()) return true;
    }
  }
  return false;
}

}  // namespace

MutantReport judge_mutants(const Op& op, const VerifyOptions& options) {
  if (op.rule.text.empty() || op.def.strategies != nullptr) return {};
  return MutantJudge(op, options).run();
}

}  // namespace tessera
