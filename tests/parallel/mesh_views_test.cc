// Dense and sparse views of the same ranks, FSDP as a placement, and the errors of a plan that does
// not fit.
#include "parallel/mesh_views.h"

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
  CHECK(views.dense().to_string() == "{fsdp: 4, tp: 2}");
  CHECK(views.sparse().to_string() == "{efsdp: 2, ep: 4}");
  CHECK(views.sparse().group_along(MeshViews::kEp, 5) == std::vector<std::int64_t>{4, 5, 6, 7});
  CHECK(views.sparse().group_along(MeshViews::kEfsdp, 5) == std::vector<std::int64_t>{1, 5});
  CHECK(MeshViews::make({.dp_shard = -1, .tp = 2}, 8)->dense().size(0) == 4);
}

TEST_CASE("a plan that does not fit is refused with its numbers", "[parallel][mesh][C56]") {
  CHECK_THAT(error_of({.dp_shard = 2, .tp = 2}, 8), Catch::Contains("is 4 ranks, but there are 8"));
  CHECK_THAT(error_of({.tp = 0}, 8), Catch::Contains("tp is 0; a degree is at least 1"));
  CHECK_THAT(error_of({.dp_shard = 2, .tp = 2, .ep = 3}, 4),
             Catch::Contains("ep 3 does not divide"));
  CHECK_THAT(error_of({.dp_shard = -1, .tp = 3}, 8), Catch::Contains("dp_shard is -1"));
  CHECK_THAT(error_of({.pp = 2}, 2), Catch::Contains("pp must be 1"));
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
  const Spec stored = value_or_throw(fsdp_storage(spec, 0, 0));
  CHECK(to_string(*stored.placements()) == "(SS(0,2), S(0), S(2))");
  CHECK(!fsdp_storage(spec, 1, 0).ok());
  CHECK(!fsdp_storage(spec, 3, 0).ok());
  CHECK(!fsdp_storage(spec, 0, 3).ok());
}

TEST_CASE("experts fewer than the ranks that cut them are cut along dim 1",
          "[parallel][fsdp][C47]") {
  CHECK(expert_fsdp_dim(2, 4, 8) == 0);
  CHECK(expert_fsdp_dim(2, 4, 7) == 1);
  CHECK(expert_fsdp_dim(4, 1, 4) == 0);
  CHECK(expert_fsdp_dim(8, 1, 4) == 1);
}

}  // namespace tessera::testing
