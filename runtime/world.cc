#include "runtime/world.h"

#include <algorithm>
#include <new>
#include <numeric>
#include <string>

#include "runtime/control/host_identity.h"

namespace tessera {

Status status_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return error.status();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  } catch (const std::exception& error) {
    return internal_error(error.what());
  } catch (...) {
    return internal_error("an exception of unknown type");
  }
}

int library_threads(int asked, int num_ranks) {
  return asked > 0 ? asked : std::max(1, num_processors() / num_ranks);
}

Status World::check_group(std::span<const std::int64_t> ranks) const {
  std::vector<std::int64_t> sorted(ranks.begin(), ranks.end());
  std::sort(sorted.begin(), sorted.end());
  std::string problem;
  if (sorted.empty() || sorted.front() < 0 || sorted.back() >= size()) {
    problem = "must lie in [0, " + std::to_string(size()) + ")";
  } else if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    problem = "must not repeat";
  } else if (!std::binary_search(sorted.begin(), sorted.end(), rank())) {
    problem = "must hold this rank, " + std::to_string(rank());
  }
  if (problem.empty()) return absl::OkStatus();
  return invalid_argument("group: ranks " + to_string(ranks) + " " + problem);
}

StatusOr<std::vector<Mark>> World::share_marks(const Mark&) {
  return unimplemented("share_marks: ranks that are processes do not see each other's devices");
}

const std::shared_ptr<Allocator>& World::host_allocator() {
  if (host_allocator_ == nullptr) {
    const bool on_host = &allocator_->device() == &cpu_device();
    host_allocator_ = on_host ? allocator_ : make_pool_allocator();
  }
  return host_allocator_;
}

Communicator& everyone(World& world) {
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return *value_or_throw(world.group(ranks));
}

StatusOr<Communicator*> World::group_along(const Mesh& mesh, std::span<const int> axes) {
  std::optional<Coord> at = mesh.coord_of(rank());
  if (!at) {
    return invalid_argument("group_along: rank " + std::to_string(rank()) +
                            " is outside the mesh " + mesh.to_string());
  }
  std::int64_t count = 1;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = axes[i];
    const auto before = axes.first(i);
    if (axis < 0 || axis >= mesh.ndim() ||
        std::find(before.begin(), before.end(), axis) != before.end()) {
      return invalid_argument("group_along: axis " + std::to_string(axis) +
                              " is unknown or repeated; allowed: each axis of " + mesh.to_string() +
                              " at most once");
    }
    count *= mesh.size(axis);
  }
  Shape ranks(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i;
    for (std::size_t a = axes.size(); a-- > 0;) {
      const std::int64_t size = mesh.size(axes[a]);
      (*at)[static_cast<std::size_t>(axes[a])] = rest % size;
      rest /= size;
    }
    ranks[static_cast<std::size_t>(i)] = mesh.rank_of(*at);
  }
  return group(view_of(ranks));
}

}  // namespace tessera
