// Checked mode: what is declared equal across replicas is compared by hash.
#include <cstdio>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtensor/dispatch.h"
#include "kernels/elementwise.h"

namespace tessera {

namespace {

/// FNV-1a over the elements' bytes in row-major order.
std::int64_t hash_of(KernelContext& ctx, const Array& x) {
  const Array dense = kernels::contiguous(ctx, x);
  const auto* bytes = reinterpret_cast<const unsigned char*>(dense.bytes());
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (std::int64_t i = 0; i < dense.num_bytes(); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3ULL;
  return static_cast<std::int64_t>(hash);
}

/// The hashes of this tensor's local parts along one axis, by coord.
std::vector<std::int64_t> hashes_along(const DTensor& x, int axis, const Site& site) {
  Runtime& runtime = x.runtime();
  const int axes[] = {axis};
  Communicator& group = *value_or_throw(runtime.world().group_along(x.mesh(), axes));
  const Array mine = Array::empty({1}, DType::kI64, runtime.kernels().allocator);
  mine.data<std::int64_t>()[0] = hash_of(runtime.kernels(), x.local());
  const Array all = Array::empty({group.size()}, DType::kI64, runtime.kernels().allocator);
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
