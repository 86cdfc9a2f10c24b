#include "strategies/verify/verify_soundness.h"

#include <algorithm>
#include <optional>

#include "placement/reduce_op.h"
#include "strategies/rules/aliasing.h"
#include "strategies/verify/verify_lowering.h"
#include "strategies/verify/verify_placements.h"
#include "strategies/verify/verify_repro.h"
#include "strategies/verify/verify_search.h"

namespace tessera {
namespace {

constexpr std::size_t kMostFailures = 50;  // of one op; more say nothing new
constexpr SpecialValues kSpecialValues[] = {SpecialValues::kTies,     SpecialValues::kPositive,
                                            SpecialValues::kNegative, SpecialValues::kLarge,
                                            SpecialValues::kInfinite, SpecialValues::kNaN};

/// The lowering asks for one interval on every rank, in coord order.
bool needs_intervals(const Call& call, const Choice& choice) {
  return std::any_of(choice.rows.begin(), choice.rows.end(), [&](std::int16_t r) {
    const int lowering = call.rows[static_cast<std::size_t>(r)].lowering;
    return lowering >= 0 &&
           call.op->def.lowerings[std::size_t(lowering)].cut == Lowering::Cut::kIntervals;
  });
}

/// A maximum or minimum goes across ranks, or may do so inside the op.
bool has_extremes(const Resolution& resolution) {
  const auto extreme = [](const Spec& spec) {
    const auto& partial = spec.layout().partial;
    return std::any_of(partial.begin(), partial.end(), [](const std::optional<ReduceOp>& kind) {
      return kind && is_extreme(*kind);
    });
  };
  return resolution.lowering >= 0 ||
         std::any_of(resolution.outputs.begin(), resolution.outputs.end(), extreme);
}

/// Two lowerings, or P(max) beside P(min): rows that no call combines.
bool combines(const Call& call, const Choice& choice) {
  int lowering = -1;
  for (std::size_t a = 0; a < choice.rows.size(); ++a) {
    const CompactRow& row = call.rows[static_cast<std::size_t>(choice.rows[a])];
    if (row.lowering >= 0 && lowering >= 0 && row.lowering != lowering) return false;
    if (row.lowering >= 0) lowering = row.lowering;
    for (std::size_t b = 0; b < a; ++b) {
      if (!may_combine(call.rows[static_cast<std::size_t>(choice.rows[b])], row)) return false;
    }
  }
  return true;
}

std::string text_of(const Resolution& resolution) {
  std::string text;
  for (const Row& row : resolution.rows) {
    text += (text.empty() ? "" : "; ") + to_string(row) + " (" + row.why + ")";
  }
  return text;
}

/// The call on `mesh` with every operand replicated: what rows are chosen for.
StatusOr<Call> replicated_call(const Op& op, const VerifyCase& test, const Mesh& mesh,
                               std::vector<Spec>& whole) {
  TSR_ASSIGN_OR_RETURN(Call call, make_call(op, test.metas, test.attrs, mesh));
  whole.reserve(test.metas.size());
  for (const TensorMeta& meta : test.metas) {
    const Placements replicated(static_cast<std::size_t>(mesh.ndim()), Replicate{});
    TSR_ASSIGN_OR_RETURN(Spec spec, Spec::make(mesh, meta.shape, meta.dtype, replicated));
    whole.push_back(std::move(spec));
    call.operands.push_back(operand_of(call, meta.absent ? nullptr : &whole.back()));
  }
  return call;
}

}  // namespace

bool DistinctCalls::insert(const Resolution& resolution) {
  std::size_t hash = 17;
  std::vector<Spec> specs = resolution.inputs;
  specs.insert(specs.end(), resolution.outputs.begin(), resolution.outputs.end());
  for (const Spec& spec : specs) hash = hash * 1000003 + spec.hash();
  std::vector<std::vector<Spec>>& alike = calls_[hash];
  if (std::find(alike.begin(), alike.end(), specs) != alike.end()) return false;
  alike.push_back(std::move(specs));
  return true;
}

void Findings::fail(VerifyFailure failure) {
  record(failure.mesh, failure.row, false);
  const auto known = std::find_if(failures_.begin(), failures_.end(), [&](const auto& other) {
    return other.mesh == failure.mesh && other.row == failure.row;
  });
  if (known == failures_.end()) {
    if (failures_.size() < kMostFailures) failures_.push_back(std::move(failure));
  } else if (failure.repro && known->repro && failure.repro->size() < known->repro->size()) {
    *known = std::move(failure);
  }
}

void Findings::move_to(VerifyReport& report) {
  for (const auto& [key, proven] : rows_) ++(proven ? report.rows_proven : report.rows_failed);
  for (VerifyFailure& failure : failures_) report.failures.push_back(std::move(failure));
}

std::string mesh_text(const Shape& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

std::uint32_t operands_at_stake(const Resolution& resolution) {
  std::uint32_t partial = 0;
  for (std::size_t i = 0; i < resolution.inputs.size() && i < 32; ++i) {
    if (resolution.inputs[i].mesh().ndim() > 0 && resolution.inputs[i].has_partial()) {
      partial |= std::uint32_t{1} << i;
    }
  }
  return partial != 0 ? partial : ~std::uint32_t{0};
}

AssumedFinite assumed_finite(const Op& op, const Resolution& resolution) {
  std::uint32_t sums = 0;
  for (std::size_t i = 0; i < resolution.inputs.size() && i < 32; ++i) {
    for (const std::optional<ReduceOp>& kind : resolution.inputs[i].layout().partial) {
      if (kind && is_linear(*kind)) sums |= std::uint32_t{1} << i;
    }
  }
  AssumedFinite assumed;
  // Inside a lowering ranks add up, too: it takes to be finite what OpDef::finite lists.
  if (sums == 0 && resolution.lowering < 0) return assumed;
  for (const RuleLinearity& clause : op.rule.linearity) {
    for (const std::vector<int>& monomial : clause.monomials) {
      std::uint32_t term = 0;
      for (const int operand : monomial) term |= std::uint32_t{1} << operand;
      if ((term & sums) != 0) assumed.factors |= term & ~sums;
    }
  }
  const auto operands = operands_by_argument(op, resolution.inputs.size());
  for (const int argument : op.def.finite) {
    for (const std::size_t i : operands[static_cast<std::size_t>(argument)]) {
      if (i < 32) assumed.listed |= (std::uint32_t{1} << i) & ~sums;
    }
  }
  return assumed;
}

/// What every rank holds whole beside sums. Merely large numbers have to pass there also where
/// infinities and zeros need not; in an op without a gradient, such as a gradient's own, what is
/// listed may be what another op saved, and that is not any number.
std::uint32_t large_operands(const Op& op, const Resolution& resolution, std::uint32_t at_stake) {
  if (at_stake == ~std::uint32_t{0}) return 0;
  std::uint32_t whole = 0;
  for (std::size_t i = 0; i < resolution.inputs.size() && i < 32; ++i) {
    if (resolution.inputs[i].is_replicated()) whole |= std::uint32_t{1} << i;
  }
  const bool any = op.def.gradient != nullptr;
  return whole & ~at_stake & ~(any ? 0 : assumed_finite(op, resolution).listed);
}

std::array<std::uint32_t, 2> special_operands(const Op& op, const Resolution& resolution,
                                              SpecialValues values) {
  const std::uint32_t at_stake = operands_at_stake(resolution);
  const AssumedFinite assumed = assumed_finite(op, resolution);
  const bool cut_only = at_stake == ~std::uint32_t{0};
  if (values == SpecialValues::kLarge) return {0, large_operands(op, resolution, at_stake)};
  const std::uint32_t excused =
      is_finite(values) ? assumed.listed : assumed.listed | assumed.factors;
  return {cut_only ? at_stake & ~excused : at_stake, ~at_stake & ~excused};
}

bool must_pass_non_finite(const Op& op, const Resolution& resolution) {
  if (operands_at_stake(resolution) != ~std::uint32_t{0}) return true;
  const bool sums = std::any_of(resolution.outputs.begin(), resolution.outputs.end(),
                                [](const Spec& spec) { return spec.has_partial(); });
  const bool all_cut =
      std::none_of(resolution.inputs.begin(), resolution.inputs.end(),
                   [](const Spec& spec) { return spec.mesh().ndim() > 0 && spec.is_replicated(); });
  return op.def.localize == nullptr && op.def.strategies == nullptr && !sums && all_cut;
}

StatusOr<Resolution> resolve_row(const Op& op, const VerifyCase& test, const Mesh& mesh,
                                 const Row& row) {
  std::vector<Spec> whole;
  TSR_ASSIGN_OR_RETURN(const Call call, replicated_call(op, test, mesh, whole));
  for (std::size_t r = 0; r < call.rows.size(); ++r) {
    const Row each = expand(op, call.binding, call.rows[r]);
    if (each.inputs != row.inputs || each.outputs != row.outputs) continue;
    Choice choice;
    choice.rows = {static_cast<std::int16_t>(r)};
    choice.factor_levels = default_levels(call, choice.rows);
    return resolve(call, choice);
  }
  return absl::NotFoundError("no such row");
}

void SoundnessJudge::judge(CaseSource& source) {
  combinations_ = Combinations::kAll;
  for (const Shape& mesh : options_.meshes) judge_mesh(source.as_given(), mesh, &source);
  combinations_ = Combinations::kFew;
  std::vector<DType> dtypes = {DType::kF32, DType::kI64};
  if (options_.dtypes == VerifyOptions::DTypes::kAll) {
    dtypes = {DType::kF32, DType::kBF16, DType::kF16, DType::kI64,
              DType::kI32, DType::kU8,   DType::kBool};
  }
  for (const DType dtype : dtypes) {
    const std::optional<VerifyCase> test = source.in_dtype(dtype);
    for (const Shape& mesh : options_.meshes) {
      if (test && mesh.size() == 1 && mesh[0] <= 3) judge_mesh(*test, mesh, nullptr);
    }
  }
}

void SoundnessJudge::judge_derived(CaseSource& source) {
  combinations_ = Combinations::kFew;
  const auto small = [](const Shape& mesh) {
    return mesh == Shape{2} || mesh == Shape{3} || mesh == Shape{2, 2};
  };
  const bool any_small = std::any_of(options_.meshes.begin(), options_.meshes.end(), small);
  for (const Shape& mesh : options_.meshes) {
    if (!any_small || small(mesh)) judge_mesh(source.as_given(), mesh, &source);
  }
}

void SoundnessJudge::judge_mesh(const VerifyCase& test, const Shape& mesh_shape,
                                CaseSource* special) {
  const Mesh mesh = value_or_throw(Mesh::make(view_of(mesh_shape)));
  if (mesh.ndim() != 1 || mesh.size(0) > 3) special = nullptr;
  if (op_.def.strategies != nullptr) return judge_strategies(test, mesh, special);
  judge_rows(test, mesh, special);
}

void SoundnessJudge::judge_rows(const VerifyCase& test, const Mesh& mesh, CaseSource* special) {
  std::vector<Spec> whole;
  const Call call = value_or_throw(replicated_call(op_, test, mesh, whole));
  const std::size_t num_axes = call.axis_sizes.size();
  std::size_t num_choices = 1;
  for (std::size_t a = 0; a < num_axes; ++a) num_choices *= call.rows.size();
  for (std::size_t c = 0; c < num_choices; ++c) {
    Choice choice;
    std::size_t left = c;
    for (std::size_t a = 0; a < num_axes; ++a, left /= call.rows.size()) {
      choice.rows.push_back(static_cast<std::int16_t>(left % call.rows.size()));
    }
    if (combines(call, choice)) judge_choice(test, call, std::move(choice), special);
  }
}

void SoundnessJudge::judge_choice(const VerifyCase& test, const Call& call, Choice choice,
                                  CaseSource* special) {
  choice.factor_levels = default_levels(call, choice.rows);
  const StatusOr<Resolution> resolution = resolve(call, choice);
  if (!resolution.ok()) return;  // a dim of several factors that no level list cuts so
  const std::string row = text_of(*resolution);
  check(test, call.mesh, *resolution, row);
  if (special != nullptr) judge_special(test, call.mesh, *resolution, row, *special);
  if (!needs_intervals(call, choice)) judge_other_cuts(test, call, choice);
}

/// The same rows with axes in the other order, in grains and in blocks: strided shards; in stated
/// sizes, and with one owner.
void SoundnessJudge::judge_other_cuts(const VerifyCase& test, const Call& call,
                                      const Choice& choice) {
  const auto judge = [&](const Choice& other) {
    const StatusOr<Resolution> resolution = resolve(call, other);
    if (resolution.ok()) check(test, call.mesh, *resolution, text_of(*resolution));
  };
  Choice reversed = choice;
  bool nested = false;
  for (LevelList& levels : reversed.factor_levels) {
    nested |= levels.size() > 1;
    std::reverse(levels.begin(), levels.end());
  }
  if (nested) judge(reversed);
  if (choice.rows.size() > 1) {
    const Choice stated = with_stated_sizes(call, choice);
    if (stated.factor_levels != choice.factor_levels) judge(stated);
    return;
  }
  for (std::size_t f = 0; f < choice.factor_levels.size(); ++f) {
    if (choice.factor_levels[f].empty()) continue;
    Choice other = choice;
    LevelList& levels = other.factor_levels[f];
    levels[0].grain = 2;
    judge(other);
    levels[0].grain = 1;
    levels.insert(levels.begin(), Level::of_block(2));
    judge(other);
    const std::int64_t size = call.binding.factors[f].size, ranks = call.axis_sizes[0];
    if (size < 1) continue;
    levels = {Level::of_ragged(0, uneven_sizes(size, ranks))};
    judge(other);
    levels = {Level::of_ragged(0, RaggedSizes::owned(ranks, ranks - 1, size))};
    judge(other);
  }
}

/// Up to three operands in all combinations on one axis, of samples as they are given; else
/// operands alike, and each alone with the others replicated. Through the op's own function.
void SoundnessJudge::judge_strategies(const VerifyCase& test, const Mesh& mesh,
                                      CaseSource* special) {
  judged_ = {};
  std::vector<std::vector<Spec>> options;
  std::size_t most = 0, given = 0;
  for (const TensorMeta& meta : test.metas) {
    options.push_back(meta.absent ? std::vector<Spec>{Spec()} : placements_of(meta, mesh));
    most = std::max(most, options.back().size());
    given += meta.absent ? 0 : 1;
  }
  const auto pick = [&](std::size_t i, std::size_t k) {
    return test.metas[i].absent ? nullptr : &options[i][k < options[i].size() ? k : 0];
  };
  std::vector<const Spec*> call(options.size());
  if (combinations_ == Combinations::kAll && mesh.ndim() == 1 && given <= 3) {
    std::vector<std::size_t> at(options.size(), 0);
    for (std::size_t i = 0; i < options.size();) {
      for (std::size_t k = 0; k < options.size(); ++k) call[k] = pick(k, at[k]);
      judge_call(test, call, mesh, special);
      for (i = 0; i < options.size() && ++at[i] == options[i].size(); ++i) at[i] = 0;
    }
    return;
  }
  for (std::size_t k = 0; k < most; ++k) {
    for (std::size_t i = 0; i < options.size(); ++i) call[i] = pick(i, k);
    judge_call(test, call, mesh, special);
    for (std::size_t alone = 0; options.size() > 1 && alone < options.size(); ++alone) {
      for (std::size_t i = 0; i < options.size(); ++i) call[i] = pick(i, i == alone ? k : 0);
      judge_call(test, call, mesh, special);
    }
  }
}

void SoundnessJudge::judge_call(const VerifyCase& test, const std::vector<const Spec*>& call,
                                const Mesh& mesh, CaseSource* special) {
  const StatusOr<Resolution> resolution = propagate(op_, call, test.attrs);
  if (!resolution.ok() || !judged_.insert(*resolution)) return;  // refused, or the same once moved
  std::string text;
  for (const Spec* spec : call) {
    text += (text.empty() ? "" : ", ") + (spec != nullptr ? spec->to_string() : "none");
  }
  check(test, mesh, *resolution, text);
  if (special != nullptr) judge_special(test, mesh, *resolution, text, *special);
}

void SoundnessJudge::judge_special(const VerifyCase& test, const Mesh& mesh,
                                   const Resolution& resolution, const std::string& row,
                                   CaseSource& special) {
  if (&test != &special.as_given()) return;
  const bool non_finite = must_pass_non_finite(op_, resolution);
  const bool extremes = has_extremes(resolution);
  for (const SpecialValues values : kSpecialValues) {
    if (!is_finite(values) && !non_finite) break;
    const bool of_extremes =
        values == SpecialValues::kPositive || values == SpecialValues::kNegative;
    if (of_extremes && !extremes) continue;
    for (const std::uint32_t operands : special_operands(op_, resolution, values)) {
      const VerifyCase* other = operands != 0 ? special.with(values, operands) : nullptr;
      if (other != nullptr) check(*other, mesh, resolution, row);
    }
  }
  if (assumed_finite(op_, resolution).listed != 0) try_listed(mesh, resolution, special);
}

/// Whether what OpDef::finite lists has to be finite: one of these calls comes out wrong.
void SoundnessJudge::try_listed(const Mesh& mesh, const Resolution& resolution,
                                CaseSource& special) {
  const std::uint32_t listed = assumed_finite(op_, resolution).listed;
  const auto operands = operands_by_argument(op_, resolution.inputs.size());
  for (const int argument : op_.def.finite) {
    const std::uint32_t bit = std::uint32_t{1} << argument;
    std::uint32_t own = 0;
    for (const std::size_t i : operands[static_cast<std::size_t>(argument)]) {
      if (i < 32) own |= (std::uint32_t{1} << i) & listed;
    }
    for (const SpecialValues values : kSpecialValues) {
      if (own == 0 || (findings_.needed_finite() & bit) != 0) break;
      const VerifyCase* test = special.with(values, own);
      if (test != nullptr &&
          judge_resolution(op_, *test, mesh, resolution, random_, options_.context)) {
        findings_.note_needed_finite(bit);
      }
    }
  }
}

void SoundnessJudge::check(const VerifyCase& test, const Mesh& mesh, const Resolution& resolution,
                           const std::string& row) {
  std::optional<VerifyFailure> failure =
      judge_resolution(op_, test, mesh, resolution, random_, options_.context);
  if (!failure) return findings_.record(mesh_text(mesh.shape()), row, true);
  failure->row = row;
  findings_.fail(*std::move(failure));
}

namespace {

/// Bits pass where nothing is added up: no Partial, or that of a read on the rank that owns the
/// element.
Zeros zeros_of(const Resolution& resolution) {
  const auto partial = [](const Spec& spec) {
    return spec.mesh().ndim() > 0 && spec.has_partial();
  };
  const bool summed = std::any_of(resolution.inputs.begin(), resolution.inputs.end(), partial);
  const bool sums = std::any_of(resolution.outputs.begin(), resolution.outputs.end(), partial);
  const bool reads = !resolution.rows.empty() &&
                     std::all_of(resolution.rows.begin(), resolution.rows.end(),
                                 [](const Row& row) { return row.masked_factor >= 0; });
  const bool alike = summed || (sums && !reads) || resolution.lowering >= 0;
  return alike ? Zeros::kAlike : Zeros::kSigned;
}

/// The operand in whose storage result `output` has to lie on every rank; −1: in none.
int shared_operand(const Op& op, const Resolution& resolution, std::size_t output) {
  if (op.alias_of(output) >= 0) return op.alias_of(output);
  if (!op.def.is_view || resolution.inputs.empty()) return -1;
  const ViewAliasing aliasing = view_aliasing(op, resolution.inputs[0], resolution);
  return aliasing.kind == ViewAliasing::Kind::kCopies ? -1 : 0;
}

std::vector<std::vector<Array>> on_device(KernelContext& ctx,
                                          std::vector<std::vector<Array>> operands) {
  for (std::vector<Array>& of_ranks : operands) {
    for (Array& operand : of_ranks) {
      if (!operand.is_null()) operand = to_device(ctx, operand);
    }
  }
  return operands;
}

bool same_storage(std::span<const Array> results, std::span<const Array> operands) {
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    if (results[rank].storage() != operands[rank].storage()) return false;
  }
  return true;
}

}  // namespace

std::optional<VerifyFailure> judge_resolution(const Op& op, const VerifyCase& test,
                                              const Mesh& mesh, const Resolution& resolution,
                                              VerifyRandom& random, KernelContext ctx) {
  VerifyFailure failure{.op = op.def.name,
                        .mesh = mesh_text(mesh.shape()),
                        .row = {},
                        .sample = describe(test),
                        .detail = {}};
  // A device folds in an order of its own: the zero that comes first may be another.
  const Zeros zeros = ctx.device == &cpu_device() ? zeros_of(resolution) : Zeros::kAlike;
  std::vector<std::vector<Array>> operands;
  for (std::size_t i = 0; i < test.operands.size(); ++i) {
    operands.push_back(cut(test.operands[i], resolution.inputs[i], random));
  }
  // In-place ops write their operands: a failure shows them as they were.
  const auto give_up = [&](std::string detail) {
    failure.detail = std::move(detail);
    failure.repro = make_repro(op, test, mesh, resolution, operands);
    return failure;
  };
  try {
    const auto held = on_device(ctx, op.mutates() ? copies_of(operands) : operands);
    const auto results = run_ranks(op, resolution, test.attrs, mesh, held, ctx);
    ctx.device->raise_faults();
    for (std::size_t o = 0; o < resolution.outputs.size(); ++o) {
      std::vector<Array> locals;
      for (const std::vector<Array>& rank : results) locals.push_back(rank[o]);
      const int shared = shared_operand(op, resolution, o);
      if (shared >= 0 && !same_storage(locals, held[static_cast<std::size_t>(shared)])) {
        return give_up("result " + std::to_string(o) + " does not lie in the storage of operand " +
                       std::to_string(shared));
      }
      for (Array& local : locals) local = to_host(local);
      const StatusOr<WholeTensor> whole = join(resolution.outputs[o], locals);
      const std::string prefix = "result " + std::to_string(o) + ": ";
      failure.result = static_cast<int>(o);
      if (!whole.ok()) return give_up(prefix + std::string(message_of(whole.status())));
      const std::optional<Difference> found = find_difference(
          resolution.outputs[o], *whole, test.expected[o], {test.precision(), zeros});
      if (!found) continue;
      failure.rank = found->rank;
      failure.index = found->index;
      failure.got = found->got;
      failure.expected = found->expected;
      return give_up(prefix + found->text);
    }
  } catch (const std::exception& error) {
    return give_up(error.what());
  }
  return std::nullopt;
}

}  // namespace tessera
