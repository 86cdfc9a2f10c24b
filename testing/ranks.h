// testing/ranks.h: runs a test's body on every rank of a mesh, each with its Runtime, and
// collects what it returns. Ranks (threads or processes, see launch.h) return values; the test
// asserts.
#pragma once

#include <chrono>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "dtensor/dtensor.h"
#include "dtensor/ops.h"
#include "placement/api.h"
#include "testing/arrays.h"
#include "testing/results.h"

namespace tessera TSR_API {
namespace testing {

/// Names and sizes of a mesh, in order.
using MeshAxes = std::vector<std::pair<std::string, std::int64_t>>;

/// Ranks 0 … product − 1. Throws Error for a bad mesh.
inline Mesh make_mesh(const MeshAxes& axes) {
  Shape shape;
  std::vector<std::string> names;
  for (const auto& [name, size] : axes) {
    names.push_back(name);
    shape.push_back(size);
  }
  return value_or_throw(Mesh::make(view_of(shape), std::move(names)));
}
/// Axes "a", "b", … of these sizes.
inline Mesh mesh_of_shape(const Shape& shape) {
  MeshAxes axes;
  for (const std::int64_t size : shape) {
    axes.emplace_back(std::string(1, static_cast<char>('a' + axes.size())), size);
  }
  return make_mesh(axes);
}

/// A plain tensor of these values, where the Runtime's arrays lie.
inline DTensor here(Runtime& runtime, const Array& values) {
  return plain(runtime, to_device(runtime.kernels(), values));
}

/// One rank's view inside run_ranks.
struct Rank {
  World& world;
  Runtime& runtime;
  Mesh mesh;

  std::int64_t index() const { return world.rank(); }
  /// This rank's part of `full` on the mesh.
  DTensor distribute(const Array& full, const Placements& placements) {
    return tessera::distribute(runtime, full, mesh, placements);
  }
  /// A leaf that needs a gradient.
  DTensor parameter(const Array& full, const Placements& placements) {
    DTensor leaf = distribute(full, placements);
    leaf.set_requires_grad(true);
    return leaf;
  }
  /// Bytes that this rank received from others since its events were cleared.
  std::int64_t bytes_received() { return runtime.events().bytes_received(); }
  /// The same, for what it sent.
  std::int64_t bytes_sent() {
    std::int64_t sum = 0;
    for (const Event& event : runtime.events().events()) {
      if (event.kind == Event::Kind::kCollective) sum += event.bytes_sent;
    }
    return sum;
  }
};

/// What each rank's body returned, by rank; ranks outside the mesh are asked too. Throws the Error
/// of the first rank that failed.
template <class F>
auto run_ranks(const Mesh& mesh, F&& body) {
  using Result = std::invoke_result_t<F&, Rank&>;
  const WorldOptions options{.timeout = std::chrono::milliseconds(20'000), .threads_per_rank = 1};
  const int num_ranks = static_cast<int>(mesh.first_rank() + mesh.num_ranks());
  const auto run = [&](World& world) {
    Runtime runtime(world);
    Rank rank{world, runtime, mesh};
    return body(rank);
  };
  if constexpr (std::is_void_v<Result>) {
    const RankBody nothing = [&](World& world, std::string&) { run(world); };
    throw_if_error(launch(num_ranks, options, nothing).first);
  } else {
    return results_of(num_ranks, options, run).value();
  }
}
template <class F>
auto run_ranks(const MeshAxes& axes, F&& body) {
  return run_ranks(make_mesh(axes), std::forward<F>(body));
}

/// The message of the Error that `body` throws, empty where it throws none.
template <class F>
std::string error_of(F&& body) {
  try {
    body();
  } catch (const Error& error) {
    return std::string(message_of(error.status()));
  }
  return {};
}

}  // namespace testing
}  // namespace tessera
