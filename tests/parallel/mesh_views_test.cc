// Dense and sparse views of the same ranks, FSDP as a placement, and the errors of a plan that does
// not fit.
#include "parallel/mesh_views.h"

#include <array>

#include "parallel/parameter.h"

namespace tessera::testing {
namespace {

std::string error_of(const ParallelConfig& config, std::int64_t ranks) {
  const auto views = MeshViews::make(config, ranks);
  return views.ok() ? "accepted" : std::string(message_of(views.status()));
}

}  // namespace

TEST_CASE("ep is borrowed from the data and tensor axes", "[parallel][mesh]") {
  const MeshViews views = value_or_throw(MeshViews::make({.dp_shard = 4, .tp = 2, .ep = 4}, 8));
  CHECK(views.dense().to_string() == "{dp_shard: 4, tp: 2}");
  CHECK(views.sparse().to_string() == "{efsdp: 2, ep: 4}");
  CHECK(views.sparse().group_along(1, 5) == std::vector<std::int64_t>{4, 5, 6, 7});
  CHECK(views.sparse().group_along(0, 5) == std::vector<std::int64_t>{1, 5});
  CHECK(MeshViews::make({.dp_shard = -1, .tp = 2}, 8)->dense().size(0) == 4);
}

TEST_CASE("axes of size 1 are left out, and stages are blocks of ranks", "[parallel][mesh]") {
  const MeshViews views = value_or_throw(MeshViews::make(
      {.dp_replicate = 2, .dp_shard = 2, .cp = 2, .tp = 2, .ep = 2, .etp = 2, .pp = 2}, 32));
  CHECK(views.dense().to_string() == "{dp_replicate: 2, dp_shard: 2, cp: 2, tp: 2}");
  CHECK(views.sparse().to_string() == "{dp_replicate: 2, efsdp: 2, ep: 2, etp: 2}");
  CHECK(views.fsdp_axes() == std::vector<int>{1, 2});
  CHECK(to_string(views.on_dense({.dp_shard = Shard{0}, .cp = Shard{1}})) == "(R, S(0), S(1), R)");
  const MeshViews second = value_or_throw(views.at_stage(1));
  CHECK(second.dense().first_rank() == 16);
  CHECK(second.sparse().first_rank() == 16);
  CHECK(views.stage_of(15) == 0);
  CHECK(views.stage_of(16) == 1);
  CHECK(!views.at_stage(2).ok());
  // dp_shard 2, cp 2, tp 2, ep 4: EP groups are (0..3), (4..7).
  const MeshViews borrowed =
      value_or_throw(MeshViews::make({.dp_shard = 2, .cp = 2, .tp = 2, .ep = 4}, 8));
  CHECK(borrowed.sparse().group_along(1, 6) == std::vector<std::int64_t>{4, 5, 6, 7});
  CHECK(borrowed.sparse().group_along(0, 6) == std::vector<std::int64_t>{2, 6});
}

TEST_CASE("a plan that does not fit is refused with its numbers", "[parallel][mesh][C56]") {
  CHECK_THAT(error_of({.dp_shard = 2, .tp = 2}, 8), Catch::Contains("is 4 ranks, but there are 8"));
  CHECK_THAT(error_of({.tp = 0}, 8), Catch::Contains("tp is 0; a degree is at least 1"));
  CHECK_THAT(error_of({.dp_shard = 2, .tp = 2, .ep = 3}, 4),
             Catch::Contains("ep 3 x etp 1 does not divide dp_shard 2 x cp 1 x tp 2 = 4"));
  CHECK_THAT(error_of({.dp_shard = -1, .tp = 3}, 8), Catch::Contains("dp_shard is -1"));
  CHECK_THAT(error_of({.dp_replicate = 2, .cp = 2, .pp = 2}, 12),
             Catch::Contains("pp 2 x dp_replicate 2 x dp_shard 1 x cp 2 x tp 1 is 8 ranks"));
  const MeshViews views = value_or_throw(MeshViews::make({.tp = 4}, 4));
  CHECK_THAT(std::string(message_of(views.check_heads("layers.0.attention", 6))),
             Catch::Contains("layers.0.attention: n_heads 6 is not a multiple of tp 4"));
}

TEST_CASE("FSDP cuts what every other axis left", "[parallel][fsdp][C46]") {
  // Names or not, and with two placements there already.
  const Shape mesh_shape = {2, 2, 2};
  const Mesh mesh = value_or_throw(Mesh::make(view_of(mesh_shape)));
  const Placements used = {Replicate{}, Shard{0}, Shard{2}};
  const Spec spec = value_or_throw(Spec::make(mesh, {8, 4, 6}, DType::kF32, used));
  const std::array first = {0};
  const Spec stored = value_or_throw(fsdp_storage(spec, first, 0));
  CHECK(to_string(*stored.placements()) == "(SS(0,2), S(0), S(2))");
  CHECK(!fsdp_storage(spec, std::array{1}, 0).ok());
  CHECK(!fsdp_storage(spec, std::array{3}, 0).ok());
  CHECK(!fsdp_storage(spec, first, 3).ok());
}

TEST_CASE("experts fewer than the ranks that cut them are cut along dim 1",
          "[parallel][fsdp][C47]") {
  CHECK(expert_fsdp_dim(2, 4, 8) == 0);
  CHECK(expert_fsdp_dim(2, 4, 7) == 1);
  CHECK(expert_fsdp_dim(4, 1, 4) == 0);
  CHECK(expert_fsdp_dim(8, 1, 4) == 1);
}

}  // namespace tessera::testing
