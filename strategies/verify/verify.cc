#include "strategies/verify/verify.h"

#include <algorithm>

#include "strategies/verify/verify_complete.h"
#include "strategies/verify/verify_cotangent.h"
#include "strategies/verify/verify_derived.h"
#include "strategies/verify/verify_gradient.h"
#include "strategies/verify/verify_soundness.h"
#include "strategies/verify/verify_storage.h"

namespace tessera {
namespace {

/// Proves one op.
class Verifier {
 public:
  Verifier(const OpTable& table, const Op& op, const VerifyOptions& options)
      : table_(table), op_(op), options_(options), random_(options.seed) {}

  VerifyReport run() {
    for (const Sample& sample : op_.def.samples) {
      try {
        verify_sample(sample);
      } catch (const std::exception& error) {
        fail("", "on one rank", describe(sample), error.what());
      }
    }
    check_finite();
    try {
      if (checks_gradients() && gradient_works_) verify_cotangents();
    } catch (const std::exception& error) {
      fail("1", "cotangent", "", error.what());
    }
    findings_.move_to(report_);
    if (options_.completeness == VerifyOptions::Completeness::kSearch) verify_completeness();
    report_.declined = op_.def.declined;
    return std::move(report_);
  }

 private:
  void verify_sample(const Sample& sample);
  void verify_derived(const Sample& sample);
  void run_gradient(const VerifyCase& test);
  void verify_storage(const VerifyCase& test);
  bool checks_gradients() const {
    return options_.gradients == VerifyOptions::Gradients::kCheck && op_.def.gradient != nullptr;
  }
  void verify_gradient(const VerifyCase& test);
  void verify_cotangents();
  void verify_in_place(const VerifyCase& test);
  void verify_completeness();
  void check_finite();
  void fail(std::string mesh, std::string row, std::string sample, std::string detail) {
    findings_.fail(
        {op_.def.name, std::move(mesh), std::move(row), std::move(sample), std::move(detail)});
  }

  const OpTable& table_;
  const Op& op_;
  const VerifyOptions& options_;
  VerifyRandom random_;
  Findings findings_;
  VerifyReport report_;
  bool gradient_works_ = true;  ///< on every sample so far
};

void Verifier::verify_sample(const Sample& sample) {
  CaseSource source(op_, sample, random_);
  SoundnessJudge(op_, options_, random_, findings_).judge(source);
  if (op_.mutates()) verify_in_place(source.as_given());
  if (checks_gradients()) verify_gradient(source.as_given());
  verify_storage(source.as_given());
  for (const Sample& other : derived_samples(op_, sample)) verify_derived(other);
}

/// Cut over few ranks, and differentiated, without variants. Values that the op refuses of such a
/// sample, as an index into a dim without elements, say nothing.
void Verifier::verify_derived(const Sample& sample) {
  try {
    CaseSource source(op_, sample, random_);
    SoundnessJudge(op_, options_, random_, findings_).judge_derived(source);
    if (checks_gradients()) run_gradient(source.as_given());
  } catch (const Error& error) {
    if (error.status().code() == absl::StatusCode::kOutOfRange) return;
    fail("", "on one rank", describe(sample), error.what());
  }
}

/// That the gradient exists and has the operands' shapes: values at the ends of what an op takes
/// are no limits of differences.
void Verifier::run_gradient(const VerifyCase& test) {
  if (!test.sample->differentiable || !gradient_works_) return;
  std::vector<Array> operands;
  for (const WholeTensor& operand : test.operands) operands.push_back(array_of(operand));
  operands.resize(test.metas.size());
  const std::vector<Array> grads =
      gradients_of(table_, op_, test.attrs, operands, [](const Array& result) { return result; });
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (grads[i].is_null() || grads[i].shape() == operands[i].shape()) continue;
    fail("1", "gradient", describe(test),
         "the cotangent of operand " + std::to_string(i) + " has shape " +
             to_string(grads[i].shape()) + ", the operand " + to_string(operands[i].shape()));
  }
}

void Verifier::verify_storage(const VerifyCase& test) {
  const bool differentiated =
      checks_gradients() && test.sample->differentiable && test.precision() == DType::kF64;
  const std::string problem =
      storage_error(op_, test, differentiated && gradient_works_ ? &table_ : nullptr);
  if (!problem.empty()) fail("1", "storage", describe(test), problem);
}

void Verifier::verify_gradient(const VerifyCase& test) {
  if (!test.sample->differentiable) return;
  for (const WholeTensor& operand : test.operands) {
    if (is_floating(operand.dtype) && operand.dtype != DType::kF64) return;
  }
  std::string problem;
  try {
    problem = gradient_error(table_, op_, test.attrs, test.operands, random_);
  } catch (const std::exception& error) {
    problem = error.what();
  }
  if (problem.empty()) return;
  gradient_works_ = false;
  fail("1", "gradient", describe(test), problem);
}

/// What is not finite in a cotangent stays with what depends on it, beside ties and zeros too. With
/// values of its own, so that the rows' do not change with it.
void Verifier::verify_cotangents() {
  bool spreads = false;
  VerifyRandom random(options_.seed);
  for (const Sample& sample : op_.def.samples) {
    if (!sample.differentiable) continue;
    CaseSource source(op_, sample, random);
    const VerifyCase* ties = source.with(SpecialValues::kTies, ~std::uint32_t{0});
    for (const VerifyCase* test : {&source.as_given(), ties}) {
      if (test == nullptr) continue;
      const std::string problem =
          cotangent_error(table_, op_, test->attrs, test->operands, options_.seed);
      if (problem.empty()) continue;
      spreads = true;
      if (op_.def.cotangent_spreads.empty()) fail("1", "cotangent", describe(*test), problem);
    }
  }
  if (spreads || op_.def.cotangent_spreads.empty()) return;
  fail("1", "cotangent", "", "it is said to spread, but does so on no sample");
}

/// `add_` and `add` compute the same.
void Verifier::verify_in_place(const VerifyCase& test) {
  const std::string& name = op_.def.name;
  if (!name.ends_with('_')) return;
  const StatusOr<const Op*> found = table_.find(name.substr(0, name.size() - 1));
  if (!found.ok() || (*found)->def.args.size() != op_.def.args.size()) return;
  const StatusOr<Attrs> attrs = complete_attrs(**found, test.sample->attrs);
  if (!attrs.ok()) return;
  std::vector<Array> arrays;
  for (const WholeTensor& operand : test.operands) arrays.push_back(array_of(operand));
  arrays.resize(test.metas.size());
  const std::vector<Array> results = run_plain(**found, arrays, *attrs);
  for (std::size_t o = 0; o < std::min(results.size(), test.expected.size()); ++o) {
    const std::string text = difference(whole_of(results[o]), test.expected[o]);
    if (!text.empty()) fail("1", "as " + (*found)->def.name, describe(test), text);
  }
}

/// What OpDef::finite lists without need would hide a row that goes wrong one day.
void Verifier::check_finite() {
  if (op_.mutates()) return;  // listed with the functional form, which has more rows
  for (const int argument : op_.def.finite) {
    if (((findings_.needed_finite() >> argument) & 1) != 0) continue;
    fail("", "finite", op_.def.args[static_cast<std::size_t>(argument)].name,
         "is listed as having to be finite, but no row of sums was seen to need it");
  }
}

void Verifier::verify_completeness() {
  Completeness result;
  try {
    result = judge_completeness(op_, search_rows(op_, options_.seed));
  } catch (const std::exception& error) {
    result.complaints.emplace_back(error.what());
  }
  report_.rows_found = result.rows_found;
  report_.rows_declined = result.rows_declined;
  report_.rows_missing = static_cast<std::int64_t>(result.missing.size());
  for (const MissingRow& missing : result.missing) {
    report_.failures.push_back({op_.def.name, "search", missing.row, missing.sample,
                                "running the op finds this row right; the op neither has it nor "
                                "declines it"});
  }
  for (const std::string& complaint : result.complaints) {
    report_.failures.push_back({op_.def.name, "search", "declined", "", complaint});
  }
}

}  // namespace

VerifyReport verify(const OpTable& table, const Op& op, const VerifyOptions& options) {
  return Verifier(table, op, options).run();
}

}  // namespace tessera
