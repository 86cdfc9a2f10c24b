#include "strategies/verify/verify_mutants.h"

#include <algorithm>
#include <iterator>
#include <list>
#include <memory>
#include <optional>

#include "strategies/verify/verify_complete.h"
#include "strategies/verify/verify_mutate.h"
#include "strategies/verify/verify_soundness.h"

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

/// The sample with I64 in place of its floating operands; none where it has none, or where the op
/// does not take it.
std::optional<Sample> in_integers(const Op& op, const Sample& sample) {
  if (sample.adjust != nullptr) return std::nullopt;
  Sample other = sample;
  other.dtypes.resize(sample.shapes.size(), DType::kF64);
  other.below.resize(sample.shapes.size(), 2);
  std::vector<TensorMeta> metas;
  std::uint32_t changed = 0;
  for (std::size_t i = 0; i < other.dtypes.size() && i < 32; ++i) {
    if (is_floating(other.dtypes[i])) {
      other.dtypes[i] = DType::kI64;
      other.below[i] = 7;
      changed |= std::uint32_t{1} << i;
    }
    metas.push_back({other.shapes[i], other.dtypes[i]});
  }
  // Of either sign: where a rank holds the least integer, only they wrap.
  other.adjust = [changed](int operand, const Shape&, std::vector<double>& values) {
    if ((changed >> operand & 1) == 0) return;
    for (double& value : values) value -= 3.0;
  };
  while (metas.size() < op.def.args.size()) metas.emplace_back().absent = true;
  const StatusOr<Attrs> attrs = complete_attrs(op, other.attrs);
  if (changed == 0 || !attrs.ok() || !infer(op, metas, *attrs).ok()) return std::nullopt;
  return other;
}

/// All mutants of one op. What was found by search depends on the kernel, not on the rule.
class MutantJudge {
 public:
  MutantJudge(const Op& op, const VerifyOptions& options) : op_(op), random_(options.seed) {
    for (const Sample& sample : op.def.samples) {
      add_tested(sample);
      if (const std::optional<Sample> integers = in_integers(op, sample)) {
        integers_.push_back(*integers);
      }
    }
    for (const Sample& sample : integers_) {
      try {
        add_tested(sample);
      } catch (const Error&) {  // integers that the op divides by, and the like
      }
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

  void add_tested(const Sample& sample);
  void judge(const Mutant& mutant, MutantReport& report);
  Verdict judge_sample(const Op& other, Tested& tested);
  bool row_is_wrong(const Op& other, const Row& row, Tested& tested);
  bool lacks_found_row(const Op& other) const;

  const Op& op_;
  VerifyRandom random_;
  std::list<Sample> integers_;  ///< what `tested_` points to
  std::vector<Tested> tested_;
  std::vector<SampleRows> found_;
  std::vector<std::vector<FoundRow>> lacking_;
  std::string survives_;
};

void MutantJudge::add_tested(const Sample& sample) {
  Tested& tested = tested_.emplace_back(CaseSource(op_, sample, random_));
  const VerifyCase& test = tested.source.as_given();
  tested.rows = value_or_throw(rows_of(op_, test.metas, test.attrs, 2));
  tested.outputs = value_or_throw(infer(op_, test.metas, test.attrs));
}

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
      if (!is_finite(values) && !must_pass_non_finite(other, *resolution)) break;
      for (const std::uint32_t operands : special_operands(op_, *resolution, values)) {
        const VerifyCase* test = operands != 0 ? tested.source.with(values, operands) : nullptr;
        if (test != nullptr && judge_resolution(other, *test, mesh, *resolution, random_)) {
          return true;
        }
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

void add(MutantReport more, MutantReport& report) {
  report.refuted += more.refuted;
  report.equivalent += more.equivalent;
  std::move(more.survivors.begin(), more.survivors.end(), std::back_inserter(report.survivors));
}

MutantReport judge_mutants(const Op& op, const VerifyOptions& options) {
  if (op.rule.text.empty() || op.def.strategies != nullptr) return {};
  return MutantJudge(op, options).run();
}

}  // namespace tessera
