#include "dtensor/data_dependent.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_format.h"
#include "dtensor/host_read.h"
#include "dtensor/local_map.h"
#include "dtensor/ops.h"
#include "kernels/dtype_switch.h"
#include "kernels/elementwise.h"
#include "kernels/index_search.h"

namespace tessera {
namespace {

using Counts = std::vector<std::int64_t>;

Placements rows_everywhere(const Mesh& mesh) {
  return Placements(static_cast<std::size_t>(mesh.ndim()), Shard{0});
}
AxisGroup whole_mesh(const Mesh& mesh) {
  AxisGroup group{mesh, {}};
  for (int axis = 0; axis < mesh.ndim(); ++axis) group.axes.push_back(axis);
  return group;
}

/// x as rows that ranks hold one after another.
DTensor as_rows(std::string_view op, const DTensor& x, const Site& site) {
  if (x.local().is_null()) {
    throw Error(failed_precondition(
        absl::StrFormat("%s: rank %d is outside the mesh and cannot know the result's size. [%s]",
                        op, x.runtime().rank(), x.spec().to_string())));
  }
  const DTensor rows = x.ndim() > 0 ? x : reshape(x, {1}, site);
  if (rows.mesh().ndim() == 0) return rows;
  return redistribute(rows, std::span<const Placement>(rows_everywhere(rows.mesh())), site);
}

/// Rows [start, stop) of `count` that the rank at this place of the mesh holds.
Interval rows_of(const Mesh& mesh, std::int64_t count, std::int64_t place) {
  Coord coord(static_cast<std::size_t>(mesh.ndim()), 0);
  Levels levels;
  for (int axis = mesh.ndim() - 1; axis >= 0; --axis) {
    coord[static_cast<std::size_t>(axis)] = place % mesh.size(axis);
    place /= mesh.size(axis);
  }
  for (int axis = 0; axis < mesh.ndim(); ++axis) levels.push_back(Level::of_axis(axis));
  const std::vector<Interval> held =
      local_intervals(mesh, count, canonical_levels(mesh, count, levels), coord);
  return held.empty() ? Interval{count, count} : held.front();
}

/// How many each rank of the mesh has, in order.
class Exchange {
 public:
  Exchange(const DTensor& rows, std::string_view op, const Site& site)
      : rows_(rows),
        op_(op),
        site_(site),
        mesh_(rows.mesh()),
        axes_(mesh_.axis_labels(whole_mesh(mesh_).axes)) {
    if (mesh_.ndim() == 0) return;
    ranks_ = value_or_throw(rows.runtime().world().group_along(mesh_, whole_mesh(mesh_).axes));
  }

  Counts counts(std::int64_t mine) {
    if (ranks_ == nullptr) return {mine};
    const KernelContext& ctx = rows_.runtime().host_kernels();
    const Array own = Array::empty({1}, DType::kI64, ctx.allocator);
    const Array all = Array::empty({ranks_->size()}, DType::kI64, ctx.allocator);
    own.data<std::int64_t>()[0] = mine;
    ranks_->all_gather(own, all, {}, info());
    const Array here =
        read_to_host(rows_.runtime(), all, {.why = op_, .tensor = rows_.name()}, site_);
    const auto* count = here.data<std::int64_t>();
    return {count, count + ranks_->size()};
  }

  /// Each rank's own rows, in order of rank, as one tensor of S(0).
  DTensor join(const DTensor& own) {
    if (ranks_ == nullptr) return own;
    const Counts held = counts(own.global_shape()[0]);
    const std::int64_t total = std::accumulate(held.begin(), held.end(), std::int64_t{0});
    const auto me = static_cast<std::size_t>(ranks_->rank());
    const std::int64_t first =
        std::accumulate(held.begin(), held.begin() + ranks_->rank(), std::int64_t{0});
    Counts send, receive;
    std::int64_t start = 0;
    const Interval mine = rows_of(mesh_, total, ranks_->rank());
    for (std::size_t peer = 0; peer < held.size(); ++peer) {
      const Interval theirs = rows_of(mesh_, total, static_cast<std::int64_t>(peer));
      send.push_back(common({first, first + held[me]}, theirs));
      receive.push_back(common({start, start + held[peer]}, mine));
      start += held[peer];
    }
    const DTensor local = all_to_all_v(own, send, receive, whole_mesh(mesh_), site_);
    Shape shape = own.global_shape();
    shape[0] = total;
    return from_local(local, mesh_, rows_everywhere(mesh_), shape, site_);
  }

  /// All ranks' rows on every rank.
  Array gather(const Array& own, const Counts& held) {
    if (ranks_ == nullptr) return own;
    Shape shape = own.shape();
    shape[0] = std::accumulate(held.begin(), held.end(), std::int64_t{0});
    const Array all = Array::empty(shape, own.dtype(), rows_.runtime().kernels().allocator);
    ranks_->all_gather(own, all, held, info());
    return all;
  }

  std::int64_t first_row() const {
    const std::int64_t count = rows_.global_shape()[0];
    return ranks_ == nullptr ? 0 : rows_of(mesh_, count, ranks_->rank()).start;
  }
  /// A whole array's rows as S(0).
  DTensor cut(const Array& whole) const {
    if (ranks_ == nullptr) return plain(rows_.runtime(), whole);
    return distribute(rows_.runtime(), whole, mesh_, rows_everywhere(mesh_));
  }

 private:
  static std::int64_t common(const Interval& a, const Interval& b) {
    return std::max<std::int64_t>(std::min(a.stop, b.stop) - std::max(a.start, b.start), 0);
  }
  CallInfo info() const { return {.tensor = op_, .axes = axes_, .site = site_}; }

  const DTensor& rows_;
  std::string_view op_;
  Site site_;
  Mesh mesh_;
  std::string axes_;
  Communicator* ranks_ = nullptr;
};

Array index_array(Runtime& runtime, const Counts& values) {
  const Array array = Array::empty({static_cast<std::int64_t>(values.size())}, DType::kI64,
                                   runtime.host_kernels().allocator);
  std::copy(values.begin(), values.end(), array.data<std::int64_t>());
  return to_device(runtime.kernels(), array);
}

DTensor local_of(const DTensor& rows, const Site& site) {
  return rows.mesh().ndim() == 0 ? rows : to_local(rows, {}, site);
}

/// Rows of `values` (plain) where the local mask is true.
DTensor chosen_rows(const DTensor& values, const Array& mask, const Site& site) {
  Runtime& runtime = values.runtime();
  const Counts at = kernels::nonzero_positions(runtime.kernels(), mask);
  return index_select(values, 0, plain(runtime, index_array(runtime, at)), site);
}

void require_mask(std::string_view op, const DTensor& mask) {
  if (mask.dtype() == DType::kBool) return;
  throw Error(invalid_argument(absl::StrFormat("%s: mask is %s, but must be BOOL. [%s]", op,
                                               name_of(mask.dtype()), mask.spec().to_string())));
}

void check_leading(std::string_view op, const DTensor& x, const DTensor& mask) {
  require_mask(op, mask);
  bool fits = mask.ndim() >= 1 && mask.ndim() <= x.ndim();
  for (int d = 0; fits && d < mask.ndim(); ++d) fits = mask.size(d) == x.size(d);
  if (fits) return;
  throw Error(invalid_argument(
      absl::StrFormat("%s: mask %s must have the sizes of the first dims of x %s", op,
                      to_string(mask.global_shape()), to_string(x.global_shape()))));
}

}  // namespace

DTensor nonzero(const DTensor& x, const Site& site) {
  const NoGrad no_grad(x.runtime());
  const DTensor rows = as_rows("nonzero", x, site);
  Exchange exchange(rows, "nonzero", site);
  const Shape& shape = rows.local().shape();
  const Counts found = kernels::nonzero_positions(x.runtime().kernels(), rows.local());
  const auto ndim = static_cast<std::int64_t>(x.ndim());
  const Array own = Array::empty({static_cast<std::int64_t>(found.size()), ndim}, DType::kI64,
                                 x.runtime().kernels().allocator);
  auto* to = own.data<std::int64_t>();
  for (std::size_t i = 0; i < found.size(); ++i) {
    std::int64_t rest = found[i];
    for (std::int64_t d = ndim; d-- > 0;) {
      const std::int64_t at = rest % shape[static_cast<std::size_t>(d)];
      rest /= shape[static_cast<std::size_t>(d)];
      to[static_cast<std::int64_t>(i) * ndim + d] = d == 0 ? at + exchange.first_row() : at;
    }
  }
  return exchange.join(plain(x.runtime(), own));
}

DTensor index(const DTensor& x, const DTensor& mask, const Site& site) {
  check_leading("index", x, mask);
  const DTensor rows = as_rows("index", x, site);
  const DTensor chosen = as_rows("index", mask, site);
  Exchange exchange(rows, "index", site);
  const Array& local_mask = chosen.local();
  Shape flat = rows.local().shape();
  flat.erase(flat.begin(), flat.begin() + mask.ndim());
  flat.insert(flat.begin(), local_mask.num_elements());
  return exchange.join(chosen_rows(reshape(local_of(rows, site), flat, site), local_mask, site));
}

DTensor masked_select(const DTensor& x, const DTensor& mask, const Site& site) {
  require_mask("masked_select", mask);
  Shape shape(static_cast<std::size_t>(std::max(x.ndim(), mask.ndim())), 1);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto back = -static_cast<std::int64_t>(i) - 1;
    const std::int64_t a = static_cast<int>(i) < x.ndim() ? x.size(back) : 1;
    const std::int64_t b = static_cast<int>(i) < mask.ndim() ? mask.size(back) : 1;
    if (a != b && a != 1 && b != 1) {
      throw Error(invalid_argument(
          absl::StrFormat("masked_select: x %s and mask %s do not broadcast",
                          to_string(x.global_shape()), to_string(mask.global_shape()))));
    }
    shape[shape.size() - 1 - i] = a == 1 ? b : a;
  }
  if (shape.empty()) return index(reshape(x, {1}, site), reshape(mask, {1}, site), site);
  return index(expand(x, shape, site), expand(mask, shape, site), site);
}

DTensor& index_put_(DTensor& x, const DTensor& mask, const DTensor& values, PutMode mode,
                    const Site& site) {
  check_leading("index_put_", x, mask);
  const DTensor places = nonzero(mask, site);
  const Placements whole(static_cast<std::size_t>(places.mesh().ndim()), Replicate{});
  const DTensor everywhere = places.mesh().ndim() == 0
                                 ? places
                                 : redistribute(places, std::span<const Placement>(whole), site);
  std::vector<DTensor> columns;
  for (std::int64_t d = 0; d < mask.ndim(); ++d) {
    columns.push_back(select(everywhere, 1, d, site));
  }
  return index_put_(x, values, columns, {}, mode == PutMode::kAccumulate, site);
}

namespace {

/// Numbers below NaN, NaN equal to NaN.
template <class C>
bool before(C a, C b) {
  if constexpr (std::is_floating_point_v<C>) {
    if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
  }
  return a < b;
}

template <class T>
struct Tally {
  std::vector<T> values;
  Counts counts;

  /// Values with how often each occurs, in any order; equal ones are merged.
  static Tally of(std::vector<std::pair<T, std::int64_t>> pairs) {
    using C = kernels::ComputeType<T>;
    const auto less = [](const auto& a, const auto& b) {
      return before(kernels::convert<C>(a.first), kernels::convert<C>(b.first));
    };
    std::sort(pairs.begin(), pairs.end(), less);
    Tally tally;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (i == 0 || less(pairs[i - 1], pairs[i])) {
        tally.values.push_back(pairs[i].first);
        tally.counts.push_back(0);
      }
      tally.counts.back() += pairs[i].second;
    }
    return tally;
  }

  std::int64_t place_of(T value) const {
    using C = kernels::ComputeType<T>;
    const auto found = std::lower_bound(values.begin(), values.end(), value, [](T a, T b) {
      return before(kernels::convert<C>(a), kernels::convert<C>(b));
    });
    return found - values.begin();
  }

  Array array(Runtime& runtime, DType dtype) const {
    const Array out = Array::empty({static_cast<std::int64_t>(values.size())}, dtype,
                                   runtime.kernels().allocator);
    std::copy(values.begin(), values.end(), out.template data<T>());
    return out;
  }
};

template <class T>
UniqueValues unique_typed(const DTensor& x, const DTensor& rows, const Site& site) {
  Runtime& runtime = x.runtime();
  Exchange exchange(rows, "unique", site);
  const Array local = kernels::contiguous(runtime.kernels(), rows.local());
  const T* from = local.data<T>();
  std::vector<std::pair<T, std::int64_t>> pairs;
  for (std::int64_t i = 0; i < local.num_elements(); ++i) pairs.emplace_back(from[i], 1);
  const Tally<T> own = Tally<T>::of(std::move(pairs));
  const Counts held = exchange.counts(static_cast<std::int64_t>(own.values.size()));
  const Array all_values = exchange.gather(own.array(runtime, x.dtype()), held);
  const Array all_counts = exchange.gather(index_array(runtime, own.counts), held);
  std::vector<std::pair<T, std::int64_t>> merged;
  for (std::int64_t i = 0; i < all_values.num_elements(); ++i) {
    merged.emplace_back(all_values.data<T>()[i], all_counts.data<std::int64_t>()[i]);
  }
  const Tally<T> all = Tally<T>::of(std::move(merged));
  const Array inverse = Array::empty(local.shape(), DType::kI64, runtime.kernels().allocator);
  for (std::int64_t i = 0; i < local.num_elements(); ++i) {
    inverse.data<std::int64_t>()[i] = all.place_of(from[i]);
  }
  DTensor places = plain(runtime, inverse);
  if (rows.mesh().ndim() > 0) {
    places =
        from_local(places, rows.mesh(), rows_everywhere(rows.mesh()), rows.global_shape(), site);
  }
  if (x.ndim() == 0) places = reshape(places, {}, site);
  return {exchange.cut(all.array(runtime, x.dtype())), places,
          exchange.cut(index_array(runtime, all.counts))};
}

}  // namespace

UniqueValues unique(const DTensor& x, const Site& site) {
  const NoGrad no_grad(x.runtime());
  const DTensor rows = as_rows("unique", x, site);
  return kernels::visit_dtype(x.dtype(), [&]<class T>(kernels::TypeTag<T>) {
    if constexpr (std::is_same_v<T, bool>) {
      // std::vector<bool> holds no bools.
      UniqueValues found = unique_typed<std::int32_t>(cast(x, DType::kI32, site),
                                                      cast(rows, DType::kI32, site), site);
      found.values = cast(found.values, DType::kBool, site);
      return found;
    } else {
      return unique_typed<T>(x, rows, site);
    }
  });
}

DTensor repeat_interleave(const DTensor& x, const DTensor& repeats, std::int64_t dim,
                          const Site& site) {
  const auto total = static_cast<std::int64_t>(item(sum(repeats, {}, KeepDim::kNo, site), site));
  return repeat_interleave(x, repeats, dim, total, site);
}

DTensor bincount(const DTensor& x, const DTensor& weights, std::int64_t minlength,
                 const Site& site) {
  std::int64_t length = minlength;
  if (num_elements(x.global_shape()) > 0) {
    const double most = item(amax(x, {}, KeepDim::kNo, site), site);
    length = std::max(length, static_cast<std::int64_t>(most) + 1);
  }
  return bincount(x, length, weights, site);
}

}  // namespace tessera
