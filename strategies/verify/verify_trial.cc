#include "strategies/verify/verify_trial.h"

#include <algorithm>
#include <cmath>

#include "kernels/elementwise.h"
#include "placement/reduce_op.h"
#include "strategies/verify/verify_gradient.h"
#include "strategies/verify/verify_search.h"

namespace tessera {
namespace {

constexpr int kPartialBit = 16;
constexpr std::uint32_t kWhole = 1;
constexpr std::uint32_t kCuts = ((std::uint32_t{1} << kPartialBit) - 1) & ~kWhole;

std::uint32_t bit_of(const RowEntry& entry) {
  switch (entry.kind) {
    case RowEntry::Kind::kReplicate:
      return kWhole;
    case RowEntry::Kind::kShard:
      return std::uint32_t{2} << entry.dim;
    case RowEntry::Kind::kPartial:
      break;
  }
  return std::uint32_t{1} << (kPartialBit + static_cast<int>(entry.op));
}

/// Elements of a dim that rank `rank` of `axis_size` holds, and where they start.
Interval chunk(std::int64_t size, std::int64_t axis_size, std::int64_t rank) {
  const std::int64_t each = (size + axis_size - 1) / axis_size;
  const std::int64_t start = std::min(size, each * rank);
  return {start, std::min(size, start + each)};
}

Shape local_shape_of(const Shape& shape, int dim, std::int64_t axis_size, std::int64_t rank) {
  Shape local = shape;
  const Interval held = chunk(shape[std::size_t(dim)], axis_size, rank);
  local[static_cast<std::size_t>(dim)] = held.stop - held.start;
  return local;
}

bool equal_values(std::span<const double> got, std::span<const double> expected, DType dtype) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!nearly_equal(got[i], expected[i], dtype)) return false;
  }
  return true;
}

/// Each part is the chunk of `whole` that its rank would hold.
bool equal_chunks(const WholeTensor& whole, const std::vector<std::vector<double>>& parts,
                  int dim) {
  std::int64_t outer = 1, inner = 1;
  const auto d = static_cast<std::size_t>(dim);
  for (std::size_t i = 0; i < d; ++i) outer *= whole.shape[i];
  for (std::size_t i = d + 1; i < whole.shape.size(); ++i) inner *= whole.shape[i];
  for (std::size_t r = 0; r < parts.size(); ++r) {
    const Interval held = chunk(whole.shape[d], std::int64_t(parts.size()), std::int64_t(r));
    const auto run = static_cast<std::size_t>((held.stop - held.start) * inner);
    for (std::int64_t o = 0; o < outer; ++o) {
      const auto from = static_cast<std::size_t>((o * whole.shape[d] + held.start) * inner);
      const std::span<const double> expected(whole.values.data() + from, run);
      const std::span<const double> got(parts[r].data() + static_cast<std::size_t>(o) * run, run);
      if (!equal_values(got, expected, whole.dtype)) return false;
    }
  }
  return true;
}

bool reduces_to(const WholeTensor& whole, const std::vector<std::vector<double>>& parts,
                ReduceOp kind) {
  for (std::size_t e = 0; e < whole.values.size(); ++e) {
    double total = parts[0][e];
    for (std::size_t r = 1; r < parts.size(); ++r) total = combine(kind, total, parts[r][e]);
    total = reduced(kind, total, parts.size());
    if (!nearly_equal(total, whole.values[e], whole.dtype)) return false;
  }
  return true;
}

/// Few values, zeros among them; truth values and indices are few as they are.
void make_ties(WholeTensor& whole, bool positive) {
  if (!is_floating(whole.dtype)) return;
  for (double& value : whole.values) {
    value = std::round(value * 2.0) / 2.0;
    if (positive) value = std::max(value, 0.5);
  }
}

/// All alike but for one element, which is the lowest or the highest.
void make_lonely(WholeTensor& whole, bool lowest, VerifyRandom& random) {
  const auto [low, high] = std::minmax_element(whole.values.begin(), whole.values.end());
  const double alone = lowest ? *low : *high, others = lowest ? *high : *low;
  std::fill(whole.values.begin(), whole.values.end(), others);
  whole.values[random() % whole.values.size()] = alone;
}

}  // namespace

std::vector<ReduceOp> partial_kinds(DType dtype) {
  std::vector<ReduceOp> kinds;
  for (const ReduceOp op : kReduceOps) {
    if (allows(op, dtype)) kinds.push_back(op);
  }
  return kinds;
}

TrialData::TrialData(const Op& op, const Sample& sample, std::uint64_t seed)
    : op_(&op), sample_(&sample), attrs_(value_or_throw(complete_attrs(op, sample.attrs))) {
  draws_.resize(kAllDraws);
  for (std::size_t d = 0; d < kAllDraws; ++d) {
    draws_[d].random.seed(seed + d);
    draw_values(draws_[d], d);
  }
  for (const WholeTensor& operand : draws_[0].operands) {
    inputs_.push_back({operand.shape, operand.dtype});
  }
  while (inputs_.size() < op.def.args.size()) inputs_.emplace_back().absent = true;
  for (const WholeTensor& result : draws_[0].expected) {
    outputs_.push_back({result.shape, result.dtype});
  }
  find_fixed_sizes();
  for (std::vector<std::size_t>& operands : operands_by_argument(op, inputs_.size())) {
    if (operands.empty() || inputs_[operands[0]].absent) continue;
    Slot& slot = slots_.emplace_back();
    slot.ndim = static_cast<int>(inputs_[operands[0]].shape.size());
    for (const std::size_t i : operands) {
      slot.ndim = std::min(slot.ndim, static_cast<int>(inputs_[i].shape.size()));
    }
    slot.operands = std::move(operands);
  }
}

void TrialData::draw_values(Draw& draw, std::size_t number) {
  draw.operands = sample_values(*sample_, draw.random);
  for (std::size_t i = 0; number >= kDraws && i < draw.operands.size(); ++i) {
    WholeTensor& whole = draw.operands[i];
    const bool ordered = i < sample_->unique_dim.size() && sample_->unique_dim[i] >= 0;
    if (whole.values.empty() || ordered) continue;
    number == kDraws ? make_ties(whole, sample_->positive)
                     : make_lonely(whole, number % 2 == 0, draw.random);
    adjust_values(*sample_, i, whole.shape, whole.values);
    whole = whole_of(array_of(whole));
  }
  std::vector<Array> arrays;
  for (const WholeTensor& operand : draw.operands) arrays.push_back(array_of(operand));
  while (arrays.size() < op_->def.args.size()) arrays.emplace_back();
  try {
    for (const Array& result : run_plain(*op_, arrays, attrs_)) {
      draw.expected.push_back(whole_of(result));
    }
  } catch (const std::exception&) {
    if (number < kDraws) throw;
    draw.usable = false;
  }
}

bool TrialData::may_be_accident(const Verdict& verdict) const {
  std::uint32_t sums = 0;
  for (const ReduceOp op : kReduceOps) {
    if (is_linear(op)) sums |= bit_of({RowEntry::Kind::kPartial, -1, op});
  }
  for (std::size_t o = 0; o < verdict.size(); ++o) {
    const bool cut_or_summed = (verdict[o] & ~(kCuts | sums)) == 0;
    if (!cut_or_summed || !is_floating(outputs_[o].dtype)) return true;
  }
  return false;
}

/// Sizes that the op takes no other instead of, as the 3 of a cross product.
void TrialData::find_fixed_sizes() {
  constexpr std::int64_t kLarge = 6;
  for (const TensorMeta& meta : inputs_) {
    for (const std::int64_t size : meta.shape) {
      if (size >= kLarge || size == 1 || meta.absent) continue;
      std::vector<TensorMeta> larger = inputs_;
      for (TensorMeta& each : larger)
        std::replace(each.shape.begin(), each.shape.end(), size, kLarge);
      if (!infer(*op_, larger, attrs_).ok()) fixed_sizes_.insert(size);
    }
  }
}

bool TrialData::has_dims_of(std::int64_t elements, Fixed fixed) const {
  bool any_cut = false;
  for (const TensorMeta& meta : inputs_) {
    for (const std::int64_t size : meta.shape) {
      if (meta.absent || size == 1) continue;
      const bool excused = fixed == Fixed::kAllow && fixed_sizes_.contains(size);
      if (size < elements && !excused) return false;
      if (size < elements) continue;
      any_cut = true;
    }
  }
  // Results without elements are right whatever is done.
  const bool says_something =
      std::all_of(outputs_.begin(), outputs_.end(),
                  [](const TensorMeta& meta) { return num_elements(meta.shape) > 0; });
  const bool scalars = std::all_of(inputs_.begin(), inputs_.end(),
                                   [](const TensorMeta& meta) { return meta.shape.empty(); });
  return says_something && !slots_.empty() && (any_cut || scalars);
}

bool TrialData::same_call(const TrialData& other) const {
  const auto alike = [](const TensorMeta& a, const TensorMeta& b) {
    return a.absent == b.absent && a.dtype == b.dtype;
  };
  return attrs_ == other.attrs_ && slots_.size() == other.slots_.size() &&
         outputs_.size() == other.outputs_.size() &&
         std::equal(inputs_.begin(), inputs_.end(), other.inputs_.begin(), other.inputs_.end(),
                    alike);
}

Verdict TrialData::anything() const {
  Verdict verdict;
  for (const TensorMeta& meta : outputs_) {
    std::uint32_t& bits = verdict.emplace_back(kWhole | kCuts);
    for (const ReduceOp kind : partial_kinds(meta.dtype)) {
      bits |= bit_of({RowEntry::Kind::kPartial, -1, kind});
    }
  }
  return verdict;
}

bool TrialData::shapes_fit(const std::vector<RowEntry>& inputs, std::int64_t axis_size) {
  for (std::int64_t r = 0; r < axis_size; ++r) {
    std::vector<TensorMeta> locals = inputs_;
    for (std::size_t i = 0; i < locals.size(); ++i) {
      if (inputs[i].kind != RowEntry::Kind::kShard) continue;
      const std::int64_t size = locals[i].shape[static_cast<std::size_t>(inputs[i].dim)];
      if (size < 2 * axis_size && (size == 1 || fixed_sizes_.contains(size))) return false;
      locals[i].shape = local_shape_of(locals[i].shape, inputs[i].dim, axis_size, r);
    }
    const StatusOr<std::vector<TensorMeta>> results = infer(*op_, locals, attrs_);
    if (!results.ok() || results->size() != outputs_.size()) return false;
    for (std::size_t o = 0; o < outputs_.size(); ++o) {
      const TensorMeta& result = (*results)[o];
      if (result.dtype != outputs_[o].dtype) return false;
      bool fits = result.shape == outputs_[o].shape;
      for (int d = 0; !fits && d < static_cast<int>(outputs_[o].shape.size()); ++d) {
        fits = result.shape == local_shape_of(outputs_[o].shape, d, axis_size, r);
      }
      if (!fits) return false;
    }
  }
  return true;
}

const std::vector<Array>& TrialData::share_of(std::size_t draw, std::size_t operand,
                                              const RowEntry& entry, std::int64_t axis_size) {
  const std::uint64_t key =
      (((draw * 8 + static_cast<std::size_t>(axis_size)) << 8) + operand) << 32 | bit_of(entry);
  const auto [at, added] = shares_.try_emplace(key);
  if (!added) return at->second;
  Layout layout;
  layout.dims.resize(inputs_[operand].shape.size());
  layout.partial.resize(1);
  if (entry.kind == RowEntry::Kind::kShard) {
    layout.dims[static_cast<std::size_t>(entry.dim)] = {Level::of_axis(0)};
  }
  if (entry.kind == RowEntry::Kind::kPartial) layout.partial[0] = entry.op;
  const Mesh mesh = value_or_throw(Mesh::make(view_of(Shape{axis_size})));
  const WholeTensor& whole = draws_[draw].operands[operand];
  const Spec spec = value_or_throw(Spec::make(mesh, whole.shape, whole.dtype, std::move(layout)));
  return at->second = cut(whole, spec, draws_[draw].random);
}

/// The kernel as a plain call on one rank's arrays would run it. False where the op refuses them.
bool TrialData::run_rank(const std::vector<Array>& operands, std::vector<Array>& results) const {
  KernelContext ctx;
  ctx.checked = true;
  std::vector<Array> inputs = operands;
  std::vector<TensorMeta> metas;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    metas.push_back(inputs_[i]);
    if (!inputs[i].is_null()) metas.back().shape = inputs[i].shape();
  }
  for (const int aliased : op_->in_place) {
    if (aliased < 0) continue;
    Array& written = inputs[static_cast<std::size_t>(aliased)];
    const Array copy = Array::empty(written.shape(), written.dtype());
    kernels::copy(ctx, written, copy);
    written = copy;
  }
  try {
    const std::vector<TensorMeta> outputs = value_or_throw(infer(*op_, metas, attrs_));
    results.assign(outputs.size(), Array());
    for (std::size_t o = 0; o < outputs.size() && !op_->def.is_view; ++o) {
      const int aliased = op_->alias_of(o);
      results[o] = aliased >= 0 ? inputs[static_cast<std::size_t>(aliased)]
                                : Array::empty(outputs[o].shape, outputs[o].dtype);
    }
    KernelCall call{.ctx = ctx, .inputs = inputs, .attrs = attrs_, .outputs = results};
    op_->def.kernel(call);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

std::uint32_t TrialData::right_placements(const WholeTensor& whole,
                                          const std::vector<std::vector<double>>& parts,
                                          std::uint32_t candidates) const {
  const auto count = whole.values.size();
  const bool full =
      std::all_of(parts.begin(), parts.end(), [&](const auto& p) { return p.size() == count; });
  std::uint32_t right = 0;
  for (int d = 0; d < static_cast<int>(whole.shape.size()); ++d) {
    const std::uint32_t bit = std::uint32_t{2} << d;
    if ((candidates & bit) == 0) continue;
    bool fits = true;
    for (std::size_t r = 0; r < parts.size(); ++r) {
      const Shape local =
          local_shape_of(whole.shape, d, std::int64_t(parts.size()), std::int64_t(r));
      fits = fits && parts[r].size() == static_cast<std::size_t>(num_elements(local));
    }
    if (fits && equal_chunks(whole, parts, d)) right |= bit;
  }
  if (!full) return right;
  if ((candidates & kWhole) != 0 && std::all_of(parts.begin(), parts.end(), [&](const auto& part) {
        return equal_values(part, whole.values, whole.dtype);
      })) {
    right |= kWhole;
  }
  for (const ReduceOp kind : partial_kinds(whole.dtype)) {
    const std::uint32_t bit = bit_of({RowEntry::Kind::kPartial, -1, kind});
    if ((candidates & bit) != 0 && reduces_to(whole, parts, kind)) right |= bit;
  }
  return right;
}

/// A result that aliases an operand has that operand's placement.
std::uint32_t TrialData::kept_by_alias(std::size_t output,
                                       const std::vector<RowEntry>& inputs) const {
  const int aliased = op_->alias_of(output);
  return aliased < 0 ? ~std::uint32_t{0} : bit_of(inputs[static_cast<std::size_t>(aliased)]);
}

bool TrialData::narrow(const std::vector<RowEntry>& inputs, std::int64_t axis_size,
                       std::size_t draw, Verdict& verdict) {
  if (!draws_[draw].usable) return true;
  std::vector<std::vector<Array>> results(static_cast<std::size_t>(axis_size));
  std::vector<const std::vector<Array>*> shares(inputs.size(), nullptr);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs_[i].absent) shares[i] = &share_of(draw, i, inputs[i], axis_size);
  }
  for (std::size_t r = 0; r < results.size(); ++r) {
    std::vector<Array> operands;
    for (const std::vector<Array>* share : shares) {
      operands.push_back(share == nullptr ? Array() : (*share)[r]);
    }
    if (!run_rank(operands, results[r]) || results[r].size() != outputs_.size()) return false;
  }
  for (std::size_t o = 0; o < outputs_.size(); ++o) {
    std::vector<std::vector<double>> parts;
    for (const std::vector<Array>& result : results) {
      if (result[o].dtype() != outputs_[o].dtype) return false;
      parts.push_back(result[o].to_vector());
    }
    const std::uint32_t candidates = verdict[o] & kept_by_alias(o, inputs);
    verdict[o] = right_placements(draws_[draw].expected[o], parts, candidates);
    if (verdict[o] == 0) return false;
  }
  return true;
}

std::vector<RowEntry> TrialData::placements_of(const Verdict& verdict) const {
  std::vector<RowEntry> entries;
  for (std::size_t o = 0; o < verdict.size(); ++o) {
    RowEntry& entry = entries.emplace_back();
    if ((verdict[o] & kWhole) != 0) continue;
    entry.kind = (verdict[o] & kCuts) != 0 ? RowEntry::Kind::kShard : RowEntry::Kind::kPartial;
    while (entry.kind == RowEntry::Kind::kShard &&
           (verdict[o] & (std::uint32_t{2} << ++entry.dim)) == 0) {
    }
    if (entry.kind != RowEntry::Kind::kPartial) continue;
    for (const ReduceOp kind : partial_kinds(outputs_[o].dtype)) {
      entry.op = kind;
      if ((verdict[o] & bit_of(entry)) != 0) break;
    }
  }
  return entries;
}

}  // namespace tessera
