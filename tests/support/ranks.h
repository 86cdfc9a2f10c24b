// tests/support/ranks.h: runs a test's body on every rank of a mesh, each with its Runtime, and
// collects what it returns. Rank threads return values; the main thread asserts.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dtensor/dtensor.h"
#include "dtensor/ops.h"
#include "tests/support/arrays.h"

namespace tessera::testing {

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

inline Status run_on_ranks(const Mesh& mesh, const std::function<void(Rank&)>& body) {
  WorldOptions options;
  options.threads_per_rank = 1;
  options.timeout = std::chrono::milliseconds(20'000);
  const int ranks = static_cast<int>(mesh.first_rank() + mesh.num_ranks());
  return tessera::run_ranks(ranks, options, [&](World& world) {
    Runtime runtime(world);
    Rank rank{world, runtime, mesh};
    body(rank);
  });
}

/// What each rank's body returned, by rank. Throws the Error of the first rank that failed.
template <class F>
auto run_ranks(const Mesh& mesh, F&& body) {
  using Result = std::invoke_result_t<F&, Rank&>;
  if constexpr (std::is_void_v<Result>) {
    throw_if_error(run_on_ranks(mesh, [&](Rank& rank) { body(rank); }));
  } else {
    // Rank threads write their own element only.
    std::vector<std::optional<Result>> slots(static_cast<std::size_t>(mesh.num_ranks()));
    throw_if_error(run_on_ranks(mesh, [&](Rank& rank) {
      slots[static_cast<std::size_t>(rank.index())].emplace(body(rank));
    }));
    std::vector<Result> results;
    for (std::optional<Result>& each : slots) results.push_back(*std::move(each));
    return results;
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

}  // namespace tessera::testing
