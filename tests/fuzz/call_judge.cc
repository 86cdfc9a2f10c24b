#include "tests/fuzz/call_judge.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "strategies/rules/propagate.h"
#include "strategies/verify/verify_data.h"
#include "strategies/verify/verify_gradient.h"
#include "strategies/verify/verify_lowering.h"
#include "strategies/verify/verify_trial.h"

namespace tessera::testing {
namespace {

constexpr double kMostSeconds = 2.0;            // of CPU an inference, which takes microseconds
constexpr double kMostBytes = 1024.0 * 1024.0;  // of all tensors of a call that is run
constexpr std::size_t kMostResults = 256;       // of a call that is run
constexpr double kMostFactor = 1000.0;          // of summands that may cancel each other
constexpr double kMostEver = 4611686018427387904.0;  // 2^62

/// What this thread has computed, whatever runs beside it.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// A dim without elements counts as one of one: what is made for each position of the others is
/// there all the same.
double bytes_of(std::span<const TensorMeta> metas) {
  double bytes = 0.0;
  for (const TensorMeta& meta : metas) {
    double size = meta.absent ? 0.0 : static_cast<double>(size_of(meta.dtype));
    for (const std::int64_t each : meta.shape) size *= std::max(1.0, static_cast<double>(each));
    bytes += size;
  }
  return bytes;
}

/// An error of a call begins with the op, and says why in words that a terminal can show.
std::string flaw_of(const MutatedCall& call, const Status& status) {
  const std::string text(message_of(status));
  const bool named = text.starts_with(call.op->def.name + ": ");
  const bool clear = absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status) ||
                     absl::IsOutOfRange(status) || absl::IsUnimplemented(status);
  const bool printable = std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) >= ' ' && c != 0x7F;
  });
  if (named && clear && printable) return "";
  return "refused, but not in words of its own: " + status.ToString();
}

std::string text_of(std::span<const TensorMeta> metas) {
  std::string text;
  for (const TensorMeta& meta : metas) {
    text += (text.empty() ? "" : ", ") + std::string(name_of(meta.dtype)) + to_string(meta.shape);
  }
  return text;
}

/// Results that a tensor could have.
std::string flaw_of(std::span<const TensorMeta> results) {
  for (const TensorMeta& meta : results) {
    const bool fits = checked_num_elements(view_of(meta.shape)).ok();
    if (!fits || bytes_of({&meta, 1}) > kMostEver) return "infers " + text_of(results);
  }
  return "";
}

enum class Values : std::uint8_t { kOrdinary, kSpecial };

double special_value(DType dtype, Choices& choices) {
  constexpr double kReals[] = {0.0,
                               -0.0,
                               1.0,
                               -1.0,
                               std::numeric_limits<double>::infinity(),
                               -std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN(),
                               1e30,
                               -1e-30,
                               0.5};
  constexpr double kWhole[] = {0, 1, -1, 2, 255, -128, 2147483647, -2147483648.0, 9.2e18, -9.3e18};
  return is_floating(dtype) ? choices.pick<double>(kReals) : choices.pick<double>(kWhole);
}

/// A sample's own word on values is about its own shapes.
bool is_adjusted(const MutatedCall& call, std::size_t operand) {
  const Sample& sample = *call.sample;
  return sample.adjust != nullptr && operand < sample.shapes.size() &&
         call.operands[operand].shape == sample.shapes[operand];
}

/// Values of one operand. Integers that address something stay within what the sample says.
WholeTensor drawn(const MutatedCall& call, std::size_t operand, Values values, Choices& choices) {
  const TensorMeta& meta = call.operands[operand];
  const Sample& sample = *call.sample;
  const bool of_sample = operand < sample.shapes.size();
  const bool was_integer =
      of_sample && operand < sample.dtypes.size() && !is_floating(sample.dtypes[operand]);
  const std::int64_t below = operand < sample.below.size() ? sample.below[operand] : 2;
  WholeTensor whole{meta.shape, meta.dtype, {}};
  const std::int64_t count = num_elements(meta.shape);
  for (std::int64_t i = 0; i < count; ++i) {
    double value = 3.0 * (static_cast<double>(choices.below(65521)) / 65521.0) - 1.5;
    if (sample.positive) value = std::abs(value) + 0.1;
    if (!is_floating(meta.dtype)) {
      value =
          was_integer
              ? static_cast<double>(choices.below(std::uint64_t(std::max<std::int64_t>(1, below))))
              : static_cast<double>(choices.below(9)) - (meta.dtype == DType::kU8 ? 0.0 : 4.0);
      if (meta.dtype == DType::kBool) value = static_cast<double>(choices.below(2));
    }
    if (values == Values::kSpecial && choices.one_in(4)) value = special_value(meta.dtype, choices);
    whole.values.push_back(value);
  }
  if (is_adjusted(call, operand) && values == Values::kOrdinary) {
    sample.adjust(static_cast<int>(operand), meta.shape, whole.values);
  }
  return whole_of(array_of(whole));  // what the array can hold
}

/// One call with values.
struct Trial {
  const MutatedCall* call = nullptr;
  Attrs attrs;
  std::vector<TensorMeta> results;
  std::vector<WholeTensor> operands;
  std::vector<WholeTensor> expected;

  DType precision() const {
    DType coarsest = DType::kF64;
    for (const auto* list : {&operands, &expected}) {
      for (const WholeTensor& whole : *list) {
        const bool coarser = is_floating(whole.dtype) && size_of(whole.dtype) < size_of(coarsest);
        if (coarser) coarsest = whole.dtype;
      }
    }
    return coarsest;
  }
};

/// Whether an operand holds numbers that may address or count something.
bool has_whole_operand(const MutatedCall& call) {
  return std::any_of(call.operands.begin(), call.operands.end(), [](const TensorMeta& meta) {
    return !meta.absent && !is_floating(meta.dtype);
  });
}

/// What a kernel threw: a value of an operand that addresses or counts nothing is an ending,
/// anything else a flaw: a weight that is none (multinomial) is told of in the same way.
Judgement thrown(const MutatedCall& call, const std::exception& error) {
  const auto* own = dynamic_cast<const Error*>(&error);
  const bool of_value = own != nullptr && absl::IsOutOfRange(own->status()) &&
                        (has_whole_operand(call) || call.op->def.name == "multinomial") &&
                        std::string_view(error.what()).find(" array") == std::string_view::npos;
  if (of_value) return {Ending::kValueRefused, flaw_of(call, own->status())};
  return {Ending::kValues, std::string("throws: ") + error.what()};
}

Judgement run_on_one(Trial& trial) {
  const MutatedCall& call = *trial.call;
  std::vector<Array> arrays;
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    arrays.push_back(call.operands[i].absent ? Array() : array_of(trial.operands[i]));
  }
  try {
    const std::vector<Array> results = run_plain(*call.op, arrays, trial.attrs);
    if (results.size() != trial.results.size())
      return {Ending::kValues, "other results on one rank"};
    for (std::size_t o = 0; o < results.size(); ++o) {
      if (results[o].shape() != trial.results[o].shape ||
          results[o].dtype() != trial.results[o].dtype) {
        return {Ending::kValues,
                "infers " + text_of(trial.results) + ", but result " + std::to_string(o) + " is " +
                    std::string(name_of(results[o].dtype())) + to_string(results[o].shape())};
      }
      trial.expected.push_back(whole_of(results[o]));
    }
  } catch (const std::exception& error) {
    Judgement judgement = thrown(call, error);
    if (judgement.ending == Ending::kValues) judgement.flaw = "one rank " + judgement.flaw;
    return judgement;
  }
  return {Ending::kValues, ""};
}

/// One axis cuts a dim that others may have cut: into chunks, chunks of pairs, or every block.
void cut_dim(Levels& levels, int axis, Choices& choices) {
  const std::uint64_t way = choices.below(6);
  if (way == 0) levels.push_back(Level::of_block(2 + static_cast<std::int64_t>(choices.below(2))));
  levels.push_back(Level::of_axis(axis, way == 1 ? 2 : 1));
}

std::optional<Spec> placed(const TensorMeta& meta, const Mesh& mesh, Choices& choices) {
  const std::vector<ReduceOp> kinds = partial_kinds(meta.dtype);
  const std::size_t ndim = meta.shape.size();
  Layout layout{std::vector<Levels>(ndim), {}};
  layout.partial.resize(static_cast<std::size_t>(mesh.ndim()));
  const bool minor_first = choices.one_in(3);
  for (int a = 0; a < mesh.ndim(); ++a) {
    const int axis = minor_first ? mesh.ndim() - 1 - a : a;
    const std::uint64_t way = choices.below(3 + ndim);
    if (way == 1) {
      layout.partial[static_cast<std::size_t>(axis)] = choices.pick<ReduceOp>(kinds);
    } else if (way > 1 && ndim > 0) {
      cut_dim(layout.dims[choices.below(ndim)], axis, choices);
    }
  }
  StatusOr<Spec> spec = Spec::make(mesh, meta.shape, meta.dtype, std::move(layout));
  if (!spec.ok()) return std::nullopt;
  return *std::move(spec);
}

bool has_partial(const Resolution& resolution) {
  const auto partial = [](const Spec& spec) { return spec.has_partial(); };
  return std::any_of(resolution.inputs.begin(), resolution.inputs.end(), partial) ||
         std::any_of(resolution.outputs.begin(), resolution.outputs.end(), partial);
}

bool is_ordinary(double value) { return std::abs(value) < 1e15; }

/// Values and numbers whose sums in any order are near each other.
bool is_ordinary(const Trial& trial) {
  for (const WholeTensor& whole : trial.expected) {
    const auto& values = whole.values;
    if (!std::all_of(values.begin(), values.end(), [](double v) { return is_ordinary(v); })) {
      return false;
    }
  }
  for (const auto& [name, value] : trial.attrs) {
    const double* number = std::get_if<double>(&value);
    if (number != nullptr && !(std::abs(*number) < kMostFactor)) return false;
  }
  return true;
}

/// Whether one rank's results are all that there could be: an order, or counts that add up, may
/// hang on values that a sample adjusts for its own shapes.
bool is_determined(const MutatedCall& call) {
  if (call.sample->adjust == nullptr) return true;
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    if (!call.operands[i].absent && !is_adjusted(call, i)) return false;
  }
  return true;
}

std::string placement_text(const Resolution& resolution) {
  std::string text = " [";
  for (const Spec& spec : resolution.inputs) text += spec.to_string() + "; ";
  return text + resolution.why + "]";
}

std::string compare(const Trial& trial, const Resolution& resolution, Values values,
                    const std::vector<std::vector<Array>>& results) {
  const bool ordinary = values == Values::kOrdinary && is_ordinary(trial);
  // Its operand `result` follows from `self`; one with infinities of its own is no result.
  const bool consistent = ordinary || trial.call->op->def.name != "logcumsumexp_grad";
  const bool comparable =
      consistent && is_determined(*trial.call) && (ordinary || !has_partial(resolution));
  for (std::size_t o = 0; o < resolution.outputs.size(); ++o) {
    std::vector<Array> locals;
    for (const std::vector<Array>& rank : results) locals.push_back(rank[o]);
    const StatusOr<WholeTensor> whole = join(resolution.outputs[o], locals);
    if (!whole.ok()) return std::string(message_of(whole.status()));
    if (!comparable) continue;
    const auto found = find_difference(resolution.outputs[o], *whole, trial.expected[o],
                                       {.precision = trial.precision()});
    if (found) return "result " + std::to_string(o) + ": " + found->text;
  }
  return "";
}

/// The operands of a call on one mesh, placed at random; null where one is absent.
struct Operands {
  std::vector<Spec> specs;
  std::vector<const Spec*> pointers;

  std::string to_string() const {
    std::string text = " [";
    for (const Spec* spec : pointers) text += spec == nullptr ? "none; " : spec->to_string() + "; ";
    return text + "]";
  }
};

std::optional<Operands> place(const MutatedCall& call, const Mesh& mesh, Choices& choices) {
  Operands operands{std::vector<Spec>(call.operands.size()), {}};
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    operands.pointers.push_back(call.operands[i].absent ? nullptr : &operands.specs[i]);
    if (call.operands[i].absent) continue;
    std::optional<Spec> spec = placed(call.operands[i], mesh, choices);
    if (!spec) return std::nullopt;
    operands.specs[i] = *std::move(spec);
  }
  return operands;
}

/// What inference accepts has to run however its operands are placed, but for what is written in
/// place, which cannot move.
std::string flaw_of_placing(const MutatedCall& call, const Status& status) {
  if (absl::IsFailedPrecondition(status) && call.op->mutates()) return flaw_of(call, status);
  return "refused late: " + status.ToString();
}

std::vector<std::vector<Array>> cut_all(const Trial& trial, const Resolution& resolution,
                                        const Mesh& mesh, Choices& choices) {
  VerifyRandom random(choices.below(1000));
  std::vector<std::vector<Array>> operands(trial.operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (trial.call->operands[i].absent) {
      operands[i].resize(static_cast<std::size_t>(mesh.num_ranks()));
    } else {
      operands[i] = cut(trial.operands[i], resolution.inputs[i], random);
    }
  }
  return operands;
}

/// Runs the call on all ranks of a mesh. `alone`: how it ended on one.
std::string flaw_on_mesh(const Trial& trial, const Mesh& mesh, Ending alone, Values values,
                         Choices& choices) {
  const MutatedCall& call = *trial.call;
  const std::optional<Operands> operands = place(call, mesh, choices);
  if (!operands) return "";
  std::string placements = operands->to_string();
  try {
    const StatusOr<Resolution> resolution = propagate(*call.op, operands->pointers, trial.attrs);
    if (!resolution.ok()) {
      const std::string flaw = flaw_of_placing(call, resolution.status());
      return flaw.empty() ? "" : flaw + placements;
    }
    if (alone == Ending::kTooLarge) return "";
    placements += placement_text(*resolution);
    const auto results = run_ranks(*call.op, *resolution, trial.attrs, mesh,
                                   cut_all(trial, *resolution, mesh, choices));
    if (alone == Ending::kValueRefused) return "accepted, but refused on one rank" + placements;
    const std::string flaw = compare(trial, *resolution, values, results);
    return flaw.empty() ? "" : flaw + placements;
  } catch (const std::exception& error) {
    const Judgement judgement = thrown(call, error);
    if (judgement.ending == alone && judgement.flaw.empty()) return "";
    return "throws: " + std::string(error.what()) + placements;
  }
}

std::string flaw_on_meshes(const Trial& trial, Ending alone, Values values, Choices& choices) {
  static const Shape kMeshes[] = {{2}, {3}, {2, 2}};
  for (const Shape& sizes : kMeshes) {
    const Mesh mesh = value_or_throw(Mesh::make(view_of(sizes)));
    const std::string flaw = flaw_on_mesh(trial, mesh, alone, values, choices);
    if (!flaw.empty()) return "on " + to_string(sizes) + ": " + flaw;
  }
  return "";
}

/// A gradient takes whatever cotangents its op's results have.
std::string flaw_of_gradient(const OpTable& table, const Trial& trial) {
  const Op& op = *trial.call->op;
  if (op.def.gradient == nullptr) return "";
  std::vector<Array> arrays;
  for (std::size_t i = 0; i < trial.operands.size(); ++i) {
    arrays.push_back(trial.call->operands[i].absent ? Array() : array_of(trial.operands[i]));
  }
  const auto ones = [](const Array& result) {
    const std::vector<double> values(static_cast<std::size_t>(result.num_elements()), 1.0);
    return Array::from_values(result.shape(), result.dtype(), values);
  };
  const bool flows = std::any_of(trial.results.begin(), trial.results.end(),
                                 [](const TensorMeta& meta) { return is_floating(meta.dtype); });
  if (!flows) return "";
  try {
    const std::vector<Array> gradients = gradients_of(table, op, trial.attrs, arrays, ones);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i].is_null()) continue;
      const TensorMeta meta{gradients[i].shape(), gradients[i].dtype()};
      if (meta != trial.call->operands[i]) {
        return "the gradient of operand " + std::to_string(i) + " is " + text_of({&meta, 1});
      }
    }
  } catch (const std::exception& error) {
    return std::string("the gradient throws: ") + error.what();
  }
  return "";
}

Judgement try_values(const OpTable& table, Trial trial, Values values, Choices& choices) {
  const MutatedCall& call = *trial.call;
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    trial.operands.push_back(call.operands[i].absent ? WholeTensor{}
                                                     : drawn(call, i, values, choices));
  }
  Judgement alone = run_on_one(trial);
  if (!alone.flaw.empty()) return alone;
  alone.flaw = flaw_on_meshes(trial, alone.ending, values, choices);
  if (alone.flaw.empty() && alone.ending == Ending::kValues) {
    alone.flaw = flaw_of_gradient(table, trial);
  }
  return alone;
}

}  // namespace

Judgement judge_call(const OpTable& table, const MutatedCall& call, Choices& choices) {
  Trial trial{.call = &call};
  try {
    const double start = cpu_seconds();
    StatusOr<Attrs> attrs = complete_attrs(*call.op, call.attrs);
    if (!attrs.ok()) return {Ending::kRefused, flaw_of(call, attrs.status())};
    trial.attrs = *std::move(attrs);
    StatusOr<std::vector<TensorMeta>> results = infer(*call.op, call.operands, trial.attrs);
    const double took = cpu_seconds() - start;
    if (took > kMostSeconds) {
      return {Ending::kRefused, "inference takes " + std::to_string(took) + " seconds"};
    }
    if (!results.ok()) return {Ending::kRefused, flaw_of(call, results.status())};
    trial.results = *std::move(results);
  } catch (const std::exception& error) {
    return {Ending::kRefused, std::string("inference throws: ") + error.what()};
  }
  if (std::string flaw = flaw_of(std::span<const TensorMeta>(trial.results)); !flaw.empty()) {
    return {Ending::kTooLarge, flaw};
  }
  if (trial.results.size() > kMostResults ||
      bytes_of(call.operands) + bytes_of(trial.results) > kMostBytes)
    return {Ending::kTooLarge,
            flaw_on_meshes(trial, Ending::kTooLarge, Values::kOrdinary, choices)};
  const Judgement ordinary = try_values(table, trial, Values::kOrdinary, choices);
  if (!ordinary.flaw.empty()) return ordinary;
  const Judgement special = try_values(table, trial, Values::kSpecial, choices);
  return special.flaw.empty() ? ordinary : special;
}

}  // namespace tessera::testing
