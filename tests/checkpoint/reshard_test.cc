// A state saved on one mesh is the same on any other, read by the bytes that each rank needs.
#include "checkpoint/agree.h"
#include "tests/checkpoint/fault_fs.h"
#include "tests/checkpoint/state.h"

namespace tessera::testing {
namespace {

const std::vector<Placed>& meshes() {
  static const std::vector<Placed> all = {
      {{}, {}},
      {{2}, {"S(0)"}},
      {{3}, {"S(1)"}},
      {{2, 2}, {"S(0)", "S(1)"}},
      {{2, 2}, {"SS(0,2)", "S(0)"}},  // FSDP over TP
      {{2, 2}, {"R", "S(0)"}},        // HSDP
      {{2, 3}, {"S(1)", "S(0)"}},
      {{2}, {"SS(0,3)"}},  // each rank holds several pieces
      {{4}, {"R"}},
      {{3}, {"S(0;3,0,1)"}},
      {{2, 2}, {"S(0;1,3)", "S(0)"}},
      {{4}, {"O(2)"}},
      {{2, 2}, {"S(0)", "O(1)"}},
  };
  return all;
}

}  // namespace

TEST_CASE("a state saved on any mesh loads on any other, byte for byte", "[checkpoint][R29][C62]") {
  for (const Placed& from : meshes()) {
    FaultFs files;
    REQUIRE(save_version(files, from, 3).ok());
    for (const Placed& to : meshes()) {
      std::string error;
      const int version = loaded_version(files, to, &error);
      CAPTURE(to_string(from.mesh), from.placements, to_string(to.mesh), to.placements, error);
      CHECK(version == 3);
    }
  }
}

TEST_CASE("every part is written once, replicas share the work", "[checkpoint]") {
  std::int64_t global_bytes = 0;
  for (const TensorCase& tensor : sample_tensors()) {
    global_bytes += num_elements(tensor.shape) * size_of(tensor.dtype);
  }
  for (const Placed& placed : meshes()) {
    FaultFs files;
    REQUIRE(save_version(files, placed, 0).ok());
    const Manifest manifest = value_or_throw(read_manifest(files));
    std::int64_t stored = 0;
    for (const ManifestTensor& tensor : manifest.tensors) {
      for (const ManifestPart& part : tensor.parts) {
        stored += num_elements(part.region.size) * size_of(tensor.dtype);
      }
    }
    CHECK(stored == global_bytes);
    CHECK(manifest.world_size() == placed.num_ranks());
  }
  FaultFs files;
  REQUIRE(save_version(files, {{4}, {"R"}}, 0).ok());
  std::set<std::int64_t> writers;
  const Manifest manifest = value_or_throw(read_manifest(files));
  for (const ManifestTensor& tensor : manifest.tensors) {
    for (const ManifestPart& part : tensor.parts) writers.insert(part.file);
  }
  CHECK(writers.size() > 1);
}

TEST_CASE("a rank reads the chunks that its part lies in, not the rest", "[checkpoint]") {
  FaultFs files;
  const Shape shape = {1024, 16};  // 64 KiB
  const auto tensor_on = [&](Runtime& runtime, int parts, double value) {
    const Mesh mesh = value_or_throw(Mesh::make(view_of(Shape{parts})));
    const Placements placements = {Shard{0}};
    return full(runtime, value_or_throw(Spec::make(mesh, shape, DType::kF32, placements)), value);
  };
  REQUIRE(run_ranks(2, {}, [&](World& world) {
            Runtime runtime(world);
            const std::vector<StateTensor> state = {{"x", tensor_on(runtime, 2, 1.5)}};
            save_checkpoint(world, files, state, Json(Json::Object()), {.chunk_bytes = 1024});
          }).ok());
  std::vector<std::int64_t> bytes(8);
  REQUIRE(run_ranks(8, {}, [&](World& world) {
            Runtime runtime(world);
            const std::vector<StateTensor> state = {{"x", tensor_on(runtime, 8, 0.0)}};
            const Loaded loaded = load_checkpoint(world, files, state);
            bytes[static_cast<std::size_t>(world.rank())] = loaded.num_bytes_read;
          }).ok());
  // Each rank needs 8 KiB; it reads them twice (to check, then to fill), and headers and the
  // chunks at both ends.
  for (const std::int64_t each : bytes) CHECK(each <= 2 * (8192 + 2 * 1024) + 1024);
}

TEST_CASE("a Partial tensor is refused on all ranks", "[checkpoint]") {
  FaultFs files;
  const Status status = run_ranks(2, {}, [&](World& world) {
    Runtime runtime(world);
    const Mesh mesh = value_or_throw(Mesh::make(view_of(Shape{2})));
    const Placements placements = {Partial{}};
    const Spec spec = value_or_throw(Spec::make(mesh, {4}, DType::kF32, placements));
    const std::vector<StateTensor> state = {{"g", zeros(runtime, spec)}};
    save_checkpoint(world, files, state, Json(Json::Object()));
  });
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(message_of(status)), Catch::Contains("tensor \"g\" is F32[4] (P(sum))"));
  CHECK(files.files().empty());
}

}  // namespace tessera::testing
