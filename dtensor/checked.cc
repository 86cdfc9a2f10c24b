// Checked mode: what is declared equal across replicas is compared by hash.
#include "dtensor/checked.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtensor/dispatch_cache.h"
#include "dtensor/host_read.h"
#include "kernels/elementwise.h"
#include "strategies/rules/binding.h"

namespace tessera {

namespace {

constexpr HostRead kCheck = {.why = "check"};

/// FNV-1a over the elements' bytes in row-major order.
std::int64_t hash_of(Runtime& runtime, const Array& x, const Site& site) {
  const Array dense =
      read_to_host(runtime, kernels::contiguous(runtime.kernels(), x), kCheck, site);
  const auto* bytes = reinterpret_cast<const unsigned char*>(dense.data<std::byte>());
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (std::int64_t i = 0; i < dense.num_bytes(); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3ULL;
  return static_cast<std::int64_t>(hash);
}

/// The hashes of this tensor's local parts along one axis, by coord.
std::vector<std::int64_t> hashes_along(const DTensor& x, int axis, const Site& site) {
  Runtime& runtime = x.runtime();
  const int axes[] = {axis};
  Communicator& group = *value_or_throw(runtime.world().group_along(x.mesh(), axes));
  const auto& on_host = runtime.host_kernels().allocator;
  const Array mine = Array::empty({1}, DType::kI64, on_host);
  mine.data<std::int64_t>()[0] = hash_of(runtime, x.local(), site);
  const Array all = Array::empty({group.size()}, DType::kI64, on_host);
  const std::string label = x.mesh().axis_label(axis);
  group.all_gather(mine, all, {},
                   {.tensor = "check", .axes = label, .site = site, .event = "check"});
  return {all.data<std::int64_t>(), all.data<std::int64_t>() + group.size()};
}

}  // namespace

void check_replicas(const DTensor& x, std::string_view where, const Site& site) {
  if (x.runtime().checked == CheckedMode::kOff || x.local().is_null()) return;
  const Layout& layout = x.spec().layout();
  for (int axis = 0; axis < x.mesh().ndim(); ++axis) {
    if (x.mesh().size(axis) == 1 || layout.partial[axis] || layout.dim_of_axis(axis) >= 0) continue;
    const std::vector<std::int64_t> hashes = hashes_along(x, axis, site);
    for (std::size_t coord = 1; coord < hashes.size(); ++coord) {
      if (hashes[coord] == hashes[0]) continue;
      throw Error(failed_precondition(
          absl::StrFormat("%s: %s is R on axis %s, but coord %d holds other values than coord 0; "
                          "declare it P where each rank "
                          "contributes, or find what makes the ranks differ. [%s]",
                          where, x.name().empty() ? "the tensor" : x.name(),
                          x.mesh().axis_label(axis), coord, x.spec().to_string())));
    }
  }
}

namespace {

/// The first element of an index operand that lies outside, in global row-major order.
struct Outside {
  std::int64_t position = -1;
  std::int64_t value = 0;
};

Outside first_outside(Runtime& runtime, const Spec* spec, const Array& local, std::int64_t size,
                      const Site& site) {
  const Coord& coord = *runtime.coord_on(spec);
  std::vector<std::vector<std::int64_t>> global(local.shape().size());
  for (std::size_t d = 0; d < global.size(); ++d) {
    const std::int64_t whole = spec->global_shape()[d];
    for (const Interval& each :
         local_intervals(spec->mesh(), whole, spec->layout().dims[d], coord)) {
      for (std::int64_t i = each.start; i < each.stop; ++i) global[d].push_back(i);
    }
  }
  const std::vector<double> values = read_to_host(runtime, local, kCheck, site).to_vector();
  Outside found;
  for (std::size_t at = 0; at < values.size(); ++at) {
    if (values[at] >= 0 && values[at] < static_cast<double>(size)) continue;
    std::int64_t position = 0, step = 1;
    std::size_t rest = at;
    for (std::size_t d = global.size(); d-- > 0;) {
      const auto width = static_cast<std::size_t>(local.size(static_cast<int>(d)));
      position += global[d][rest % width] * step;
      rest /= width;
      step *= spec->global_shape()[d];
    }
    if (found.position < 0 || position < found.position) {
      found = {position, static_cast<std::int64_t>(values[at])};
    }
  }
  return found;
}

/// The first of all ranks' findings.
Outside first_of_all(Runtime& runtime, const Mesh& mesh, const Outside& mine, const Site& site) {
  std::vector<int> axes(static_cast<std::size_t>(mesh.ndim()));
  std::iota(axes.begin(), axes.end(), 0);
  Communicator& group = *value_or_throw(runtime.world().group_along(mesh, axes));
  const auto& on_host = runtime.host_kernels().allocator;
  const Array own = Array::empty({1, 2}, DType::kI64, on_host);
  own.data<std::int64_t>()[0] = mine.position;
  own.data<std::int64_t>()[1] = mine.value;
  const Array all = Array::empty({group.size(), 2}, DType::kI64, on_host);
  group.all_gather(own, all, {}, {.tensor = "check", .site = site, .event = "check"});
  Outside first;
  for (std::int64_t rank = 0; rank < group.size(); ++rank) {
    const std::int64_t* found = all.data<std::int64_t>() + 2 * rank;
    if (found[0] >= 0 && (first.position < 0 || found[0] < first.position)) {
      first = {found[0], found[1]};
    }
  }
  return first;
}

}  // namespace

void check_indices(Runtime& runtime, const ResolvedCall& call, Operands operands,
                   const Site& site) {
  if (runtime.checked == CheckedMode::kOff) return;
  for (const IndexedFactor& factor : call.local->resolution().indexed) {
    const auto i = static_cast<std::size_t>(factor.index_operand);
    const Mesh& mesh = call.outputs[0]->mesh();
    Outside first = first_outside(runtime, call.inputs[i], operands[i]->local(), factor.size, site);
    if (mesh.ndim() > 0) first = first_of_all(runtime, mesh, first, site);
    if (first.position < 0) continue;
    const Shape& shape = call.inputs[i]->global_shape();
    Shape position(shape.size(), 0);
    for (std::size_t d = position.size(); d-- > 0;) {
      position[d] = first.position % shape[d];
      first.position /= shape[d];
    }
    throw Error(out_of_range(absl::StrFormat("%s: %s holds %d at position %s; allowed are 0 to %d",
                                             call.op->def.name,
                                             operand_name(*call.op, factor.index_operand),
                                             first.value, to_string(position), factor.size - 1)));
  }
}

namespace {

bool is_finite(Runtime& runtime, const Array& x, const Site& site) {
  if (x.is_null() || !is_floating(x.dtype())) return true;
  const std::vector<double> values = read_to_host(runtime, x, kCheck, site).to_vector();
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

/// "self", or "self and other".
std::string names_of(const Op& op, std::span<const int> operands) {
  std::string text;
  for (const int operand : operands) {
    text += (text.empty() ? "" : " and ") + operand_name(op, operand);
  }
  return text;
}

}  // namespace

void check_sums(Runtime& runtime, const ResolvedCall& call, std::span<const Array> inputs,
                std::span<const Array> outputs, const Site& site) {
  bool summands = true, results = true;
  for (const int operand : call.sums)
    summands &= is_finite(runtime, inputs[std::size_t(operand)], site);
  for (const Array& output : outputs) results &= is_finite(runtime, output, site);
  const Outside mine{summands && !results ? 0 : -1, runtime.rank()};
  const Outside first = first_of_all(runtime, call.outputs[0]->mesh(), mine, site);
  if (first.position < 0) return;
  const std::string sums = names_of(*call.op, {call.sums.data(), call.sums.size()});
  throw Error(failed_precondition(absl::StrFormat(
      "%s: the summands of %s are finite on rank %d, its result there is not: summands times an "
      "infinity, or over 0, need not add up to their sum times it; redistribute %s to R first. "
      "[%s]",
      call.op->def.name, sums, first.value, sums,
      call.inputs[static_cast<std::size_t>(call.sums[0])]->to_string())));
}

void warn_if_partial_looks_replicated(const DTensor& cotangent, std::string_view where,
                                      const Site& site) {
  if (cotangent.runtime().checked == CheckedMode::kOff || cotangent.local().is_null()) return;
  for (int axis = 0; axis < cotangent.mesh().ndim(); ++axis) {
    const bool partial = cotangent.spec().layout().partial[axis].has_value();
    if (!partial || cotangent.mesh().size(axis) == 1) continue;
    const std::vector<std::int64_t> hashes = hashes_along(cotangent, axis, site);
    bool equal = true;
    for (const std::int64_t each : hashes) equal &= each == hashes[0];
    if (!equal) continue;
    std::fprintf(stderr,
                 "warning: %s: a P(sum) cotangent is bitwise equal on all ranks of axis %s; it "
                 "looks replicated and "
                 "would be counted once a rank. [%s, forward at %s:%d]\n",
                 std::string(where).c_str(), cotangent.mesh().axis_label(axis).c_str(),
                 cotangent.spec().to_string().c_str(), site.file_name(),
                 static_cast<int>(site.line()));
  }
}

}  // namespace tessera
