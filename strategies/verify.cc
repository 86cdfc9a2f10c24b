#include "strategies/verify.h"

#include <algorithm>
#include <map>

#include "strategies/search.h"
#include "strategies/verify_complete.h"
#include "strategies/verify_gradient.h"
#include "strategies/verify_lowering.h"

namespace tessera {
namespace {

std::string mesh_text(const Shape& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

/// Proves one op: keeps count by (mesh, row), so that a row counts once however many samples it
/// passes.
class Verifier {
 public:
  Verifier(const OpTable& table, const Op& op, const VerifyOptions& options)
      : table_(table), op_(op), options_(options), random_(options.seed) {}

  VerifyReport run() {
    for (const Sample& sample : op_.def.samples) {
      try {
        verify_sample(sample);
      } catch (const std::exception& error) {
        fail("", "on one rank", sample, error.what());
      }
    }
    if (options_.completeness == VerifyOptions::Completeness::kSearch) verify_completeness();
    for (const auto& [key, proven] : rows_) ++(proven ? report_.rows_proven : report_.rows_failed);
    report_.declined = op_.def.declined;
    return std::move(report_);
  }

 private:
  struct Case {
    const Sample& sample;
    Attrs attrs;
    std::vector<WholeTensor> operands;
    std::vector<WholeTensor> expected;
    std::vector<TensorMeta> metas;
  };

  void verify_sample(const Sample& sample);
  void verify_mesh(const Case& test, const Shape& mesh_shape);
  void verify_rows(const Case& test, const Mesh& mesh);
  void verify_choice(const Case& test, const Call& call, const Choice& choice);
  void verify_strategies(const Case& test, const Mesh& mesh);
  std::vector<Spec> placements_of(const TensorMeta& meta, const Mesh& mesh) const;
  void check(const Case& test, const Mesh& mesh, const Resolution& resolution,
             const std::string& row);
  std::string run_and_compare(const Case& test, const Mesh& mesh, const Resolution& resolution);
  void verify_gradient(const Case& test);
  void verify_completeness();
  void record(const std::string& mesh, const std::string& row, bool passed) {
    const auto [at, added] = rows_.emplace(mesh + " | " + row, passed);
    at->second = at->second && passed;
  }
  void fail(const std::string& mesh, const std::string& row, const Sample& sample,
            const std::string& detail) {
    record(mesh, row, false);
    if (report_.failures.size() < 50) {
      report_.failures.push_back({op_.def.name, mesh, row, describe(sample), detail});
    }
  }

  const OpTable& table_;
  const Op& op_;
  const VerifyOptions& options_;
  VerifyRandom random_;
  VerifyReport report_;
  std::map<std::string, bool> rows_;
};

void Verifier::verify_sample(const Sample& sample) {
  Case test{.sample = sample, .attrs = {}, .operands = {}, .expected = {}, .metas = {}};
  test.attrs = value_or_throw(complete_attrs(op_, sample.attrs));
  test.operands = sample_values(sample, random_);
  std::vector<Array> arrays;
  for (const WholeTensor& operand : test.operands) {
    arrays.push_back(array_of(operand));
    test.metas.push_back({operand.shape, operand.dtype});
  }
  while (arrays.size() < op_.def.args.size()) {
    arrays.emplace_back();
    test.metas.emplace_back().absent = true;
  }
  for (const Array& output : run_plain(op_, arrays, test.attrs)) {
    test.expected.push_back(whole_of(output));
  }
  for (const Shape& mesh : options_.meshes) verify_mesh(test, mesh);
  if (options_.gradients == VerifyOptions::Gradients::kCheck) verify_gradient(test);
}

void Verifier::verify_mesh(const Case& test, const Shape& mesh_shape) {
  const Mesh mesh = value_or_throw(Mesh::make(view_of(mesh_shape)));
  if (op_.def.strategies != nullptr) return verify_strategies(test, mesh);
  verify_rows(test, mesh);
}

void Verifier::verify_rows(const Case& test, const Mesh& mesh) {
  Call call = value_or_throw(make_call(op_, test.metas, test.attrs, mesh));
  std::vector<Spec> whole;
  whole.reserve(test.metas.size());
  for (const TensorMeta& meta : test.metas) {
    const Placements replicated(static_cast<std::size_t>(mesh.ndim()), Replicate{});
    whole.push_back(value_or_throw(Spec::make(mesh, meta.shape, meta.dtype, replicated)));
    call.operands.push_back(operand_of(call, meta.absent ? nullptr : &whole.back()));
  }
  const std::size_t num_axes = call.axis_sizes.size();
  std::size_t num_choices = 1;
  for (std::size_t a = 0; a < num_axes; ++a) num_choices *= call.rows.size();
  for (std::size_t c = 0; c < num_choices; ++c) {
    Choice choice;
    int lowering = -1;
    bool mixed = false;
    std::size_t left = c;
    for (std::size_t a = 0; a < num_axes; ++a, left /= call.rows.size()) {
      const auto r = left % call.rows.size();
      choice.rows.push_back(static_cast<std::int16_t>(r));
      const int lowered = call.rows[r].lowering;
      mixed |= lowered >= 0 && lowering >= 0 && lowered != lowering;
      if (lowered >= 0) lowering = lowered;
      for (std::size_t b = 0; b < a; ++b) {
        mixed |= !may_combine(call.rows[static_cast<std::size_t>(choice.rows[b])], call.rows[r]);
      }
    }
    if (mixed) continue;
    choice.factor_levels = default_levels(call, choice.rows);
    verify_choice(test, call, choice);
    bool nested = false;
    for (LevelList& levels : choice.factor_levels) {
      nested |= levels.size() > 1;
      std::reverse(levels.begin(), levels.end());
    }
    if (nested) verify_choice(test, call, choice);  // the other order is a strided shard
  }
}

void Verifier::verify_choice(const Case& test, const Call& call, const Choice& choice) {
  const StatusOr<Resolution> resolution = resolve(call, choice);
  if (!resolution.ok()) return;  // a dim of several factors that no level list cuts so
  std::string text;
  for (const Row& row : resolution->rows) {
    text += (text.empty() ? "" : "; ") + to_string(row) + " (" + row.why + ")";
  }
  check(test, call.mesh, *resolution, text);
}

/// Every placement of one axis, and all pairs over two.
std::vector<Spec> Verifier::placements_of(const TensorMeta& meta, const Mesh& mesh) const {
  Placements one = {Replicate{}};
  for (int d = 0; d < static_cast<int>(meta.shape.size()); ++d) one.push_back(Shard{d});
  if (is_floating(meta.dtype)) {
    one.push_back(Partial{ReduceOp::kSum});
    one.push_back(Partial{ReduceOp::kAvg});
  }
  if (meta.dtype != DType::kBool) one.push_back(Partial{ReduceOp::kMax});
  std::vector<Placements> lists = {{}};
  for (int a = 0; a < mesh.ndim(); ++a) {
    std::vector<Placements> next;
    for (const Placements& list : lists) {
      for (const Placement& placement : one) {
        next.push_back(list);
        next.back().push_back(placement);
      }
    }
    lists = std::move(next);
  }
  std::vector<Spec> specs;
  for (const Placements& list : lists) {
    StatusOr<Spec> spec = Spec::make(mesh, meta.shape, meta.dtype, list);
    if (spec.ok()) specs.push_back(*std::move(spec));
  }
  return specs;
}

/// Operands alike, and each alone with the others replicated, through the op's own function.
void Verifier::verify_strategies(const Case& test, const Mesh& mesh) {
  std::vector<std::vector<Spec>> options;
  std::size_t most = 0;
  for (const TensorMeta& meta : test.metas) {
    options.push_back(meta.absent ? std::vector<Spec>{Spec()} : placements_of(meta, mesh));
    most = std::max(most, options.back().size());
  }
  std::vector<std::vector<const Spec*>> calls;
  const auto pick = [&](std::size_t i, std::size_t k) {
    return test.metas[i].absent ? nullptr : &options[i][k < options[i].size() ? k : 0];
  };
  for (std::size_t k = 0; k < most; ++k) {
    std::vector<const Spec*>& alike = calls.emplace_back();
    for (std::size_t i = 0; i < options.size(); ++i) alike.push_back(pick(i, k));
    for (std::size_t alone = 0; options.size() > 1 && alone < options.size(); ++alone) {
      std::vector<const Spec*>& call = calls.emplace_back();
      for (std::size_t i = 0; i < options.size(); ++i) call.push_back(pick(i, i == alone ? k : 0));
    }
  }
  for (const std::vector<const Spec*>& call : calls) {
    const StatusOr<Resolution> resolution = propagate(op_, call, test.attrs);
    if (!resolution.ok()) continue;  // the op says which redistribution it needs
    std::string text;
    for (const Spec* spec : call) {
      text += (text.empty() ? "" : ", ") + (spec != nullptr ? spec->to_string() : "none");
    }
    check(test, mesh, *resolution, text);
  }
}

void Verifier::check(const Case& test, const Mesh& mesh, const Resolution& resolution,
                     const std::string& row) {
  std::string problem;
  try {
    problem = run_and_compare(test, mesh, resolution);
  } catch (const std::exception& error) {
    problem = error.what();
  }
  const std::string where = mesh_text(mesh.shape());
  if (problem.empty()) {
    record(where, row, true);
  } else {
    fail(where, row, test.sample, problem);
  }
}

std::string Verifier::run_and_compare(const Case& test, const Mesh& mesh,
                                      const Resolution& resolution) {
  std::vector<std::vector<Array>> operands;
  for (std::size_t i = 0; i < test.operands.size(); ++i) {
    operands.push_back(cut(test.operands[i], resolution.inputs[i], random_));
  }
  const auto results = run_ranks(op_, resolution, test.attrs, mesh, operands);
  for (std::size_t o = 0; o < resolution.outputs.size(); ++o) {
    std::vector<Array> locals;
    for (const std::vector<Array>& rank : results) locals.push_back(rank[o]);
    const StatusOr<WholeTensor> whole = join(resolution.outputs[o], locals);
    const std::string prefix = "result " + std::to_string(o) + ": ";
    if (!whole.ok()) return prefix + std::string(message_of(whole.status()));
    const std::string problem = difference(resolution.outputs[o], *whole, test.expected[o]);
    if (!problem.empty()) return prefix + problem;
  }
  return "";
}

void Verifier::verify_gradient(const Case& test) {
  if (op_.def.gradient == nullptr || !test.sample.differentiable) return;
  for (const WholeTensor& operand : test.operands) {
    if (is_floating(operand.dtype) && operand.dtype != DType::kF64) return;
  }
  std::string problem;
  try {
    problem = gradient_error(table_, op_, test.attrs, test.operands, random_);
  } catch (const std::exception& error) {
    problem = error.what();
  }
  if (!problem.empty()) fail("1", "gradient", test.sample, problem);
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
  const std::string name = op_.def.name;
  for (const MissingRow& missing : result.missing) {
    report_.failures.push_back({name, "search", missing.row, missing.sample,
                                "running the op finds this row right; the op neither has it nor "
                                "declines it"});
  }
  for (const std::string& complaint : result.complaints) {
    report_.failures.push_back({name, "search", "declined", "", complaint});
  }
}

}  // namespace

VerifyReport verify(const OpTable& table, const Op& op, const VerifyOptions& options) {
  return Verifier(table, op, options).run();
}

}  // namespace tessera
