#include "strategies/verify/verify_data.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

namespace tessera {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double uniform(VerifyRandom& random, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random);
}
std::int64_t below(VerifyRandom& random, std::int64_t limit) {
  return std::uniform_int_distribution<std::int64_t>(0,
                                                     std::max<std::int64_t>(limit, 1) - 1)(random);
}

/// Distinct values around 0 (or above it), in random order; operands do not share values.
std::vector<double> distinct_values(std::int64_t count, std::size_t operand, bool positive,
                                    VerifyRandom& random) {
  std::vector<double> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0.0);
  std::shuffle(values.begin(), values.end(), random);
  const double step = 3.0 / std::max<double>(1.0, static_cast<double>(count));
  const double shift = 0.5 - 0.17 * static_cast<double>(operand % 3);
  const double middle = std::floor(static_cast<double>(count) / 2.0);
  for (double& value : values) {
    value = positive ? 0.3 + (value + shift) * step : (value - middle + shift) * step;
  }
  return values;
}

/// Indices in [0, limit); rows along `unique_dim` hold distinct ones where that dim is given.
std::vector<double> index_values(const Shape& shape, std::int64_t limit, int unique_dim,
                                 VerifyRandom& random) {
  std::vector<double> values(static_cast<std::size_t>(num_elements(shape)));
  if (unique_dim < 0) {
    for (double& value : values) value = static_cast<double>(below(random, limit));
    return values;
  }
  const auto dim = static_cast<std::size_t>(unique_dim);
  const Shape strides = contiguous_strides(shape);
  std::vector<double> pool(static_cast<std::size_t>(limit));
  std::iota(pool.begin(), pool.end(), 0.0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto place = (static_cast<std::int64_t>(i) / strides[dim]) % shape[dim];
    if (place != 0) continue;
    std::shuffle(pool.begin(), pool.end(), random);
    for (std::int64_t k = 0; k < shape[dim] && k < limit; ++k) {
      values[i + static_cast<std::size_t>(k * strides[dim])] = pool[static_cast<std::size_t>(k)];
    }
  }
  return values;
}

/// Summands of one value; the kinds of adversary: spread out, held by one rank, cancelling.
void split_sum(double value, std::span<double> parts, DType dtype, VerifyRandom& random) {
  const bool floating = is_floating(dtype);
  const std::int64_t way = below(random, 4);
  double rest = value;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    double part = 0.0;
    if (way == 1) part = floating ? -0.0 : 0.0;
    if (way != 1) part = floating ? uniform(random, -2.0, 2.0) : double(below(random, 9)) - 4.0;
    if (size_of(dtype) == 2) part *= 0.25;
    if (way == 2 && dtype == DType::kF64) part *= 8.0;  // the others would lose digits
    parts[i] = part;
    rest -= part;
  }
  parts.back() = rest;
  std::swap(parts.back(),
            parts[static_cast<std::size_t>(below(random, std::int64_t(parts.size())))]);
}

/// What a rank without elements holds of a maximum (sign 1) or a minimum (−1).
double identity_of_extreme(double sign, DType dtype) {
  switch (dtype) {
    case DType::kI64:
      return sign > 0 ? -0x1p63 : 0x1p63;  // the latter is stored as the largest, 2^63 − 1
    case DType::kI32:
      return sign > 0 ? -0x1p31 : 0x1p31 - 1.0;
    case DType::kU8:
      return sign > 0 ? 0.0 : 255.0;
    case DType::kBool:
      return sign > 0 ? 0.0 : 1.0;
    default:
      return -sign * kInfinity;
  }
}

/// One rank holds the extreme, the others less (sign 1) or more (−1), sometimes the identity.
void split_extreme(double value, std::span<double> parts, double sign, DType dtype,
                   VerifyRandom& random) {
  if (value == -sign * kInfinity) {  // nothing lies beyond it
    std::fill(parts.begin(), parts.end(), value);
    return;
  }
  // NaN and infinity win from one rank, whatever the others hold.
  const double bound = std::isfinite(value) ? value : uniform(random, -2.0, 5.0);
  for (double& part : parts) {
    const std::int64_t way = below(random, 4);
    double lag = is_floating(dtype) ? uniform(random, 0.1, 3.0) : double(below(random, 4));
    if (way == 0) lag = 0.0;
    if (way == 2) lag = std::ceil(lag * 4.0) / 4.0;  // others may meet a value of the tensor
    part = way == 1 ? identity_of_extreme(sign, dtype) : bound - sign * lag;
    if (dtype == DType::kBool) part = std::clamp(part, 0.0, 1.0);
    if (dtype == DType::kU8) part = std::clamp(part, 0.0, 255.0);  // nothing lies beyond
  }
  parts[static_cast<std::size_t>(below(random, std::int64_t(parts.size())))] = value;
}

/// Factors of one value: of either sign, and sometimes the identity.
void split_product(double value, std::span<double> parts, bool floating, VerifyRandom& random) {
  double rest = value;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    const std::int64_t way = below(random, 4);
    parts[i] = floating && way != 0 ? uniform(random, 0.5, 2.0) : 1.0;
    if (way == 1) parts[i] = -parts[i];
    rest /= parts[i];
  }
  parts.back() = rest;
  std::swap(parts.back(),
            parts[static_cast<std::size_t>(below(random, std::int64_t(parts.size())))]);
}

std::vector<WholeTensor> split(const WholeTensor& whole, ReduceOp op, std::int64_t count,
                               VerifyRandom& random) {
  std::vector<WholeTensor> parts(static_cast<std::size_t>(count), whole);
  std::vector<double> each(static_cast<std::size_t>(count));
  const bool floating = is_floating(whole.dtype);
  for (std::size_t e = 0; e < whole.values.size(); ++e) {
    const double value = whole.values[e];
    switch (op) {
      case ReduceOp::kSum:
        split_sum(value, each, whole.dtype, random);
        break;
      case ReduceOp::kAvg:
        split_sum(value * static_cast<double>(count), each, whole.dtype, random);
        break;
      case ReduceOp::kMax:
        split_extreme(value, each, 1.0, whole.dtype, random);
        break;
      case ReduceOp::kMin:
        split_extreme(value, each, -1.0, whole.dtype, random);
        break;
      case ReduceOp::kProd:
        split_product(value, each, floating, random);
        break;
    }
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i].values[e] = each[i];
  }
  return parts;
}

/// Which summand a rank holds: row-major over the Partial axes.
std::size_t summand_of(const Spec& spec, const Coord& coord) {
  std::size_t index = 0;
  for (int a = 0; a < spec.mesh().ndim(); ++a) {
    const auto axis = static_cast<std::size_t>(a);
    if (!spec.layout().partial[axis]) continue;
    index = index * static_cast<std::size_t>(spec.mesh().size(a)) +
            static_cast<std::size_t>(coord[axis]);
  }
  return index;
}

/// Row-major positions in the whole tensor of a rank's elements, in local order.
std::vector<std::size_t> positions(const Spec& spec, const Coord& coord) {
  const Shape local = spec.local_shape(coord);
  const Shape strides = contiguous_strides(spec.global_shape());
  std::vector<std::size_t> result = {0};
  for (std::size_t d = 0; d < local.size(); ++d) {
    std::vector<std::size_t> next;
    next.reserve(result.size() * static_cast<std::size_t>(local[d]));
    for (const std::size_t base : result) {
      for (std::int64_t i = 0; i < local[d]; ++i) {
        const std::int64_t global = spec.mesh().ndim() == 0
                                        ? i
                                        : local_to_global(spec.mesh(), spec.global_shape()[d],
                                                          spec.layout().dims[d], coord, i);
        next.push_back(base + static_cast<std::size_t>(global * strides[d]));
      }
    }
    result = std::move(next);
  }
  return result;
}

/// [1, 3]
Shape index_of(const Shape& shape, std::size_t position) {
  Shape index(shape.size(), 0);
  auto left = static_cast<std::int64_t>(position);
  for (std::size_t d = shape.size(); d-- > 0;) {
    index[d] = left % shape[d];
    left /= shape[d];
  }
  return index;
}
std::string index_text(const Shape& shape, std::size_t position) {
  return to_string(index_of(shape, position));
}

double tolerance_of(DType dtype) {
  if (!is_floating(dtype)) return 0.0;
  switch (size_of(dtype)) {
    case 8:
      return 1e-10;
    case 4:
      return 1e-4;
    default:
      return dtype == DType::kF16 ? 1e-2 : 6e-2;
  }
}

/// The largest finite magnitude: what rounding errors of coarse dtypes are measured by.
double scale_of(const WholeTensor& whole) {
  double scale = 1.0;
  for (const double value : whole.values) {
    if (std::isfinite(value)) scale = std::max(scale, std::abs(value));
  }
  return scale;
}

std::optional<std::size_t> first_difference(const WholeTensor& got, const WholeTensor& expected,
                                            const Comparison& how) {
  const DType precision = is_floating(got.dtype) ? how.precision : got.dtype;
  const bool coarse = is_floating(precision) && precision != DType::kF64;
  const double allowed = coarse ? tolerance_of(precision) * scale_of(expected) : 0.0;
  for (std::size_t i = 0; i < got.values.size(); ++i) {
    const bool zeros = got.values[i] == 0.0 && expected.values[i] == 0.0;
    const bool signs = std::signbit(got.values[i]) == std::signbit(expected.values[i]);
    if (zeros && how.zeros == Zeros::kSigned && !signs) return i;
    if (nearly_equal(got.values[i], expected.values[i], precision)) continue;
    if (!(std::abs(got.values[i] - expected.values[i]) <= allowed)) return i;
  }
  return std::nullopt;
}

std::string text_at(const WholeTensor& got, const WholeTensor& expected, std::size_t at) {
  return "element " + index_text(got.shape, at) + " is " + std::to_string(got.values[at]) +
         ", on one rank " + std::to_string(expected.values[at]);
}

}  // namespace

std::vector<WholeTensor> sample_values(const Sample& sample, VerifyRandom& random) {
  std::vector<WholeTensor> operands;
  for (std::size_t i = 0; i < sample.shapes.size(); ++i) {
    WholeTensor whole;
    whole.shape = sample.shapes[i];
    whole.dtype = i < sample.dtypes.size() ? sample.dtypes[i] : DType::kF64;
    const std::int64_t limit = i < sample.below.size() ? sample.below[i] : 2;
    const int unique = i < sample.unique_dim.size() ? sample.unique_dim[i] : -1;
    whole.values = is_floating(whole.dtype)
                       ? distinct_values(num_elements(whole.shape), i, sample.positive, random)
                       : index_values(whole.shape, limit, unique, random);
    adjust_values(sample, i, whole.shape, whole.values);
    // What the array can hold: comparisons start from the same numbers.
    operands.push_back(whole_of(array_of(whole)));
  }
  return operands;
}

void adjust_values(const Sample& sample, std::size_t operand, const Shape& shape,
                   std::vector<double>& values) {
  if (sample.adjust != nullptr && !values.empty()) {
    sample.adjust(static_cast<int>(operand), shape, values);
  }
}

std::string describe(const Sample& sample) {
  std::string text;
  for (const Shape& shape : sample.shapes) text += (text.empty() ? "" : ", ") + to_string(shape);
  if (!sample.attrs.empty()) text += (text.empty() ? "" : ", ") + sample.attrs.to_string();
  return text;
}

WholeTensor whole_of(const Array& array) {
  return {array.shape(), array.dtype(), array.to_vector()};
}
Array array_of(const WholeTensor& whole) {
  return Array::from_values(whole.shape, whole.dtype, whole.values);
}

std::vector<Coord> coords_of(const Mesh& mesh) {
  std::vector<Coord> coords;
  for (std::int64_t rank = 0; rank < mesh.num_ranks(); ++rank) {
    Coord coord(static_cast<std::size_t>(mesh.ndim()));
    std::int64_t left = rank;
    for (int a = mesh.ndim() - 1; a >= 0; --a) {
      coord[static_cast<std::size_t>(a)] = left % mesh.size(a);
      left /= mesh.size(a);
    }
    coords.push_back(std::move(coord));
  }
  return coords;
}

std::vector<Array> cut(const WholeTensor& whole, const Spec& spec, VerifyRandom& random) {
  std::vector<WholeTensor> summands = {whole};
  for (int a = 0; a < spec.mesh().ndim(); ++a) {
    const auto& op = spec.layout().partial[static_cast<std::size_t>(a)];
    if (!op) continue;
    std::vector<WholeTensor> next;
    for (const WholeTensor& summand : summands) {
      for (WholeTensor& part : split(summand, *op, spec.mesh().size(a), random)) {
        next.push_back(std::move(part));
      }
    }
    summands = std::move(next);
  }
  std::vector<Array> locals;
  for (const Coord& coord : coords_of(spec.mesh())) {
    const WholeTensor& held = summands[summand_of(spec, coord)];
    WholeTensor local{spec.local_shape(coord), whole.dtype, {}};
    for (const std::size_t at : positions(spec, coord)) local.values.push_back(held.values[at]);
    locals.push_back(array_of(local));
  }
  return locals;
}

StatusOr<WholeTensor> join(const Spec& spec, std::span<const Array> locals) {
  const std::vector<Coord> coords = coords_of(spec.mesh());
  const auto count = static_cast<std::size_t>(num_elements(spec.global_shape()));
  std::size_t num_summands = 1;
  for (int a = 0; a < spec.mesh().ndim(); ++a) {
    if (spec.layout().partial[static_cast<std::size_t>(a)]) {
      num_summands *= static_cast<std::size_t>(spec.mesh().size(a));
    }
  }
  std::vector<std::vector<double>> summands(num_summands, std::vector<double>(count));
  std::vector<std::vector<bool>> seen(num_summands, std::vector<bool>(count, false));
  for (std::size_t r = 0; r < coords.size(); ++r) {
    const Shape expected = spec.local_shape(coords[r]);
    if (locals[r].shape() != expected || locals[r].dtype() != spec.dtype()) {
      return internal_error("rank " + std::to_string(r) + " holds " +
                            std::string(name_of(locals[r].dtype())) + to_string(locals[r].shape()) +
                            ", its spec says " + std::string(name_of(spec.dtype())) +
                            to_string(expected));
    }
    const std::vector<double> values = locals[r].to_vector();
    const std::vector<std::size_t> at = positions(spec, coords[r]);
    const std::size_t s = summand_of(spec, coords[r]);
    for (std::size_t i = 0; i < at.size(); ++i) {
      if (seen[s][at[i]] && !nearly_equal(summands[s][at[i]], values[i], spec.dtype())) {
        return internal_error("replicas differ at element " +
                              index_text(spec.global_shape(), at[i]) + ": " +
                              std::to_string(summands[s][at[i]]) + ", and " +
                              std::to_string(values[i]) + " on rank " + std::to_string(r));
      }
      seen[s][at[i]] = true;
      summands[s][at[i]] = values[i];
    }
  }
  for (int a = spec.mesh().ndim() - 1; a >= 0; --a) {
    const auto& op = spec.layout().partial[static_cast<std::size_t>(a)];
    if (!op) continue;
    const auto size = static_cast<std::size_t>(spec.mesh().size(a));
    std::vector<std::vector<double>> folded;
    for (std::size_t s = 0; s < summands.size(); s += size) {
      std::vector<double> total = summands[s];
      for (std::size_t i = 1; i < size; ++i) {
        for (std::size_t e = 0; e < count; ++e)
          total[e] = combine(*op, total[e], summands[s + i][e]);
      }
      for (double& value : total) value = reduced(*op, value, size);
      folded.push_back(std::move(total));
    }
    summands = std::move(folded);
  }
  WholeTensor whole{spec.global_shape(), spec.dtype(), std::move(summands[0])};
  // A reduction ends in the dtype: what is too large for F16 is infinite.
  return spec.dtype() == DType::kF64 ? whole : whole_of(array_of(whole));
}

double combine(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return a + b;
    case ReduceOp::kMax:
      return std::isnan(a) || std::isnan(b) ? a + b : std::max(a, b);
    case ReduceOp::kMin:
      return std::isnan(a) || std::isnan(b) ? a + b : std::min(a, b);
    case ReduceOp::kProd:
      return a * b;
  }
  return 0.0;
}

double reduced(ReduceOp op, double total, std::size_t count) {
  return op == ReduceOp::kAvg ? total / static_cast<double>(count) : total;
}

bool nearly_equal(double a, double b, DType dtype) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return true;
  if (!std::isfinite(a) || !std::isfinite(b)) return false;
  return std::abs(a - b) <= tolerance_of(dtype) * std::max({1.0, std::abs(a), std::abs(b)});
}

std::string difference(const WholeTensor& got, const WholeTensor& expected) {
  return difference(got, expected, got.dtype);
}

std::string difference(const WholeTensor& got, const WholeTensor& expected, DType precision) {
  if (got.shape != expected.shape || got.dtype != expected.dtype) {
    return std::string(name_of(got.dtype)) + to_string(got.shape) + ", one rank has " +
           std::string(name_of(expected.dtype)) + to_string(expected.shape);
  }
  const std::optional<std::size_t> at = first_difference(got, expected, {precision});
  return at ? text_at(got, expected, *at) : "";
}

std::optional<Difference> find_difference(const Spec& spec, const WholeTensor& got,
                                          const WholeTensor& expected, const Comparison& how) {
  Difference found;
  if (got.shape != expected.shape || got.dtype != expected.dtype) {
    found.text = difference(got, expected, how.precision);
    return found;
  }
  const std::optional<std::size_t> at = first_difference(got, expected, how);
  if (!at) return std::nullopt;
  const std::size_t element = *at;
  found.text = text_at(got, expected, element);
  found.got = got.values[element];
  found.expected = expected.values[element];
  found.index = index_of(got.shape, element);
  std::string holders;
  std::int64_t count = 0;
  const std::vector<Coord> coords = coords_of(spec.mesh());
  for (std::size_t rank = 0; rank < coords.size(); ++rank) {
    const std::vector<std::size_t> held = positions(spec, coords[rank]);
    if (std::find(held.begin(), held.end(), element) == held.end()) continue;
    if (found.rank < 0) found.rank = static_cast<int>(rank);
    holders += (++count == 1 ? "" : ", ") + std::to_string(rank);
  }
  found.text += (spec.has_partial() ? "; reduced from " : "; held by ") +
                std::string(count == 1 ? "rank " : "ranks ") + holders;
  return found;
}

}  // namespace tessera
