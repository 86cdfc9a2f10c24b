// What execution refuses, on every rank, before any of them moves a byte.
#include "tests/redistribute/executed.h"

using namespace tessera;  // NOLINT
using judge::mesh_of;
using judge::spec_of;

namespace {

Mesh mesh_from(std::int64_t first_rank, std::int64_t ranks) {
  return value_or_throw(Mesh::make(std::vector<std::int64_t>{ranks}, {"dp"}, first_rank));
}

/// What each rank's call threw, and the bytes that it received and sent by then.
struct Refusal {
  std::string text;
  std::int64_t bytes = 0;
};
std::vector<Refusal> refusals_of(int num_ranks, const Plan& plan,
                                 const std::function<Array(World&)>& local_of) {
  return testing::results_of(num_ranks, {},
                             [&](World& world) {
                               Refusal refusal;
                               try {
                                 execute(world, plan, local_of(world));
                               } catch (const Error& error) {
                                 refusal.text = error.what();
                               }
                               for (const Event& event : world.events().events()) {
                                 refusal.bytes += event.bytes_received + event.bytes_sent;
                               }
                               return refusal;
                             })
      .value();
}

}  // namespace

TEST_CASE("a mesh over ranks that the world does not have is refused on every rank",
          "[redistribute][refused]") {
  const Spec src = spec_of(mesh_from(0, 2), {8}, "S(0)");
  const Spec dst = spec_of(mesh_from(2, 4), {8}, "R");
  const auto local_of = [&](World& world) {
    return world.rank() < 2 ? Array::zeros({4}, DType::kF64) : Array();
  };
  for (const Refusal& each : refusals_of(4, value_or_throw(plan(src, dst)), local_of)) {
    CHECK(
        each.text ==
        "execute: mesh {dp: 4} has rank 5, but the world's ranks are 0 to 3 [from F64[8] (S(0)) on "
        "{dp: 2}, to F64[8] (R) on {dp: 4}]");
    CHECK(each.bytes == 0);
  }
  const auto back = [&](World& world) {
    return world.rank() >= 2 ? Array::zeros({8}, DType::kF64) : Array();
  };
  for (const Refusal& each : refusals_of(4, value_or_throw(plan(dst, src)), back)) {
    CHECK(each.text ==
          "execute: mesh {dp: 4} has rank 5, but the world's ranks are 0 to 3 [from F64[8] (R) on "
          "{dp: 4}, "
          "to F64[8] (S(0)) on {dp: 2}]");
    CHECK(each.bytes == 0);
  }
}

TEST_CASE("ranks whose own group is complete refuse the mesh too", "[redistribute][refused]") {
  const Mesh mesh = mesh_of({2, 3});  // along the second axis ranks 0, 1 and 2 would have all peers
  const Spec src = spec_of(mesh, {6, 2}, "R, S(0)");
  const Spec dst = spec_of(mesh, {6, 2}, "R, R");
  const auto local_of = [](World&) { return Array::zeros({2, 2}, DType::kF64); };
  for (const Refusal& each : refusals_of(4, value_or_throw(plan(src, dst)), local_of)) {
    CHECK(each.text ==
          "execute: mesh {2, 3} has rank 5, but the world's ranks are 0 to 3 [from F64[6, 2] "
          "(R, S(0)) on {2, 3}, to F64[6, 2] (R, R) on {2, 3}]");
    CHECK(each.bytes == 0);
  }
}

TEST_CASE("a rank outside of the source gives no array", "[redistribute][refused]") {
  const Plan made = value_or_throw(
      plan(spec_of(mesh_from(0, 2), {8}, "S(0)"), spec_of(mesh_from(0, 4), {8}, "S(0)")));
  const Status status = testing::launch(4, {}, [&](World& world, std::string&) {
                          execute(world, made, Array::zeros({4}, DType::kF64, world.allocator()));
                        }).first;
  CHECK(absl::IsInvalidArgument(status));
  CHECK(std::string(message_of(status)).find("pass a null one") != std::string::npos);
}
