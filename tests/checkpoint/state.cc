#include "tests/checkpoint/state.h"

#include <atomic>
#include <mutex>

#include "placement/placement.h"
#include "runtime/world.h"

namespace tessera::testing {
namespace {

/// A dim of `size` in the proportions of `stated`, what is left over with the last part.
RaggedSizes in_proportion(const RaggedSizes& stated, std::int64_t size) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(stated.num_coords()), 0);
  std::int64_t left = size;
  for (const RaggedPart& part : stated.parts()) {
    const bool last = part == stated.parts().back();
    const std::int64_t own = last ? left : size * (part.stop - part.start) / stated.total();
    sizes[static_cast<std::size_t>(part.coord)] = own;
    left -= own;
  }
  return RaggedSizes(std::span<const std::int64_t>(sizes));
}

/// Placements cut down to what the tensor has dims for, stated sizes in proportion.
Spec spec_of(const TensorCase& tensor, const Placed& placed) {
  Placements placements;
  for (const std::string& text : placed.placements) {
    Placement placement = value_or_throw(parse_placement(text));
    const auto* shard = std::get_if<Shard>(&placement);
    const auto* strided = std::get_if<StridedShard>(&placement);
    auto* ragged = std::get_if<Ragged>(&placement);
    const bool owned = std::holds_alternative<Owned>(placement);
    const int dim = shard != nullptr     ? shard->dim
                    : strided != nullptr ? strided->dim
                    : ragged != nullptr  ? ragged->dim
                    : owned              ? 0
                                         : -1;
    if (ragged != nullptr && dim < static_cast<int>(tensor.shape.size())) {
      ragged->sizes = in_proportion(ragged->sizes, tensor.shape[static_cast<std::size_t>(dim)]);
    }
    if (dim >= static_cast<int>(tensor.shape.size())) placement = Replicate{};
    placements.push_back(placement);
  }
  const Mesh mesh = value_or_throw(Mesh::make(view_of(placed.mesh)));
  return value_or_throw(Spec::make(mesh, tensor.shape, tensor.dtype, placements));
}

}  // namespace

namespace {

std::int64_t num_local_bytes(const std::vector<StateTensor>& state) {
  std::int64_t bytes = 0;
  for (const StateTensor& each : state) bytes += each.tensor.local().num_bytes();
  return bytes;
}

}  // namespace

std::vector<TensorCase> sample_tensors() {
  return {{"a.weight", DType::kF32, {8, 6}}, {"b.weight", DType::kF64, {5, 3}},
          {"c", DType::kBF16, {7}},          {"d.experts", DType::kF32, {3, 4, 2}},
          {"e.scalar", DType::kF64, {}},     {"f.counts", DType::kI64, {9}},
          {"g.empty", DType::kF32, {0, 4}}};
}

std::vector<double> values_of(const TensorCase& tensor, int version) {
  std::vector<double> values(static_cast<std::size_t>(num_elements(tensor.shape)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    // Small integers, so that every dtype holds them.
    values[i] = static_cast<double>((i + tensor.name.size()) % 100) + 100.0 * (version + 1);
    if (tensor.dtype == DType::kBF16) values[i] = static_cast<double>(i) + 16.0 * version;
  }
  return values;
}

std::vector<StateTensor> make_state(Runtime& runtime, const Placed& placed, int version) {
  std::vector<StateTensor> state;
  for (const TensorCase& tensor : sample_tensors()) {
    const Spec spec = spec_of(tensor, placed);
    if (version < 0) {
      state.push_back({tensor.name, zeros(runtime, spec)});
      continue;
    }
    const Array full = Array::from_values(tensor.shape, tensor.dtype, values_of(tensor, version));
    state.push_back({tensor.name, distribute(runtime, full, spec)});
  }
  return state;
}

Status save_version(FileSystem& files, const Placed& placed, int version,
                    const SaveOptions& options) {
  return run_ranks(placed.num_ranks(), {}, [&](World& world) {
    Runtime runtime(world);
    save_checkpoint(world, files, make_state(runtime, placed, version),
                    Json::object({{"version", version}}), options);
  });
}

int loaded_version(FileSystem& files, const Placed& placed, std::string* error,
                   const LoadOptions& options) {
  std::mutex mutex;
  std::vector<int> versions;
  const Status run = run_ranks(placed.num_ranks(), {}, [&](World& world) {
    Runtime runtime(world);
    const std::vector<StateTensor> state = make_state(runtime, placed, -1);
    int version = -1;
    std::string text;
    try {
      const Loaded loaded = load_checkpoint(world, files, state, options);
      version = static_cast<int>(*loaded.values.find("version")->if_integer());
      if (loaded.num_bytes_read < num_local_bytes(state)) version = -2;
    } catch (const Error& failure) {
      text = failure.what();
    }
    const std::vector<StateTensor> expected = make_state(runtime, placed, version);
    for (std::size_t i = 0; i < state.size(); ++i) {
      if (state[i].tensor.local().to_vector() != expected[i].tensor.local().to_vector()) {
        version = -2;
      }
    }
    const std::lock_guard lock(mutex);
    versions.push_back(version);
    if (error != nullptr) *error = text;
  });
  for (const int version : versions) {
    if (version != versions[0]) return -2;
  }
  return run.ok() ? versions[0] : -2;
}

}  // namespace tessera::testing
