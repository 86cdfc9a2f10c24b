// Programs: a rank's share of a plan, executed again, in buckets and asynchronously.
#include "kernels/memory_use.h"
#include "runtime/plan/plan_program.h"
#include "tests/runtime/ranks.h"
#include "tests/support/on_world.h"

namespace tessera {
namespace {

using testing::complaints_of;
using testing::on_world;
using testing::results_of;
using testing::values_here;
using Notes = std::vector<std::string>;
using Values = std::vector<double>;
using Way = ProgramStep::Way;

Mesh mesh_of(const Shape& shape, std::int64_t first = 0) {
  return value_or_throw(Mesh::make(view_of(shape), {}, first));
}
Spec spec_of(const Mesh& mesh, const Shape& shape, const std::vector<const char*>& texts,
             DType dtype = DType::kF32) {
  Placements placements;
  for (const char* text : texts) placements.push_back(value_or_throw(parse_placement(text)));
  return value_or_throw(Spec::make(mesh, shape, dtype, placements));
}

/// The value of a tensor's element: its row-major index, so that each is another.
Values values_of(const Spec& spec, const Coord& coord) {
  const Shape local = spec.local_shape(coord);
  Values values;
  for (std::int64_t i = 0; i < num_elements(local); ++i) {
    std::int64_t rest = i, stride = 1, index = 0;
    for (int d = spec.ndim() - 1; d >= 0; --d) {
      const auto dim = static_cast<std::size_t>(d);
      const std::int64_t size = spec.global_shape()[dim];
      index += stride * local_to_global(spec.mesh(), size, spec.layout().dims[dim], coord,
                                        rest % local[dim]);
      rest /= local[dim];
      stride *= size;
    }
    values.push_back(static_cast<double>(index));
  }
  return values;
}

/// What a rank holds: on Partial(sum) axes coord c holds c + 1 times the value. Null outside.
Array part_of(const Spec& spec, World& world) {
  const auto coord = spec.mesh().coord_of(world.rank());
  if (!coord) return {};
  Values values = values_of(spec, *coord);
  for (std::size_t axis = 0; axis < coord->size(); ++axis) {
    if (!spec.layout().partial[axis]) continue;
    for (double& value : values) value *= static_cast<double>((*coord)[axis] + 1);
  }
  const Array given = Array::from_values(spec.local_shape(*coord), spec.dtype(), values);
  const Array part = Array::empty(given.shape(), spec.dtype(), world.allocator());
  part.device().upload(part.bytes(), given.bytes(), static_cast<std::size_t>(given.num_bytes()),
                       part.device().compute());
  return part;
}

/// What a rank has to hold after a move from `src` to a `dst` without Partial: empty outside.
Values expected_of(const Spec& src, const Spec& dst, std::int64_t rank) {
  const auto coord = dst.mesh().coord_of(rank);
  if (!coord) return {};
  double factor = 1;
  for (int axis = 0; axis < src.mesh().ndim(); ++axis) {
    const auto size = static_cast<double>(src.mesh().size(axis));
    if (src.layout().partial[static_cast<std::size_t>(axis)]) factor *= size * (size + 1) / 2;
  }
  Values values = values_of(dst, *coord);
  for (double& value : values) value *= factor;
  return values;
}

struct Case {
  Spec src, dst;
  Plan plan = value_or_throw(tessera::plan(src, dst));
};

/// Empty if `result` is what a rank has to hold.
std::string wrong(const Case& each, const Array& result, std::int64_t rank) {
  const Values expected = expected_of(each.src, each.dst, rank);
  const bool outside = !each.dst.mesh().coord_of(rank);
  if (outside ? result.is_null() : !result.is_null() && values_here(result) == expected) return "";
  return each.src.to_string() + " to " + each.dst.to_string();
}

/// Moves of a 2x2 mesh that take every form of step: rows, boxes, folds, relays, slices,
/// reductions.
std::vector<Case> cases_2x2(DType dtype) {
  const Mesh mesh = mesh_of({2, 2});
  const auto spec = [&](const std::vector<const char*>& texts) {
    return spec_of(mesh, {8, 6}, texts, dtype);
  };
  return {{spec({"S(0)", "S(1)"}), spec({"S(1)", "S(0)"})},
          {spec({"S(0)", "R"}), spec({"R", "R"})},
          {spec({"P(sum)", "R"}), spec({"R", "R"})},
          {spec({"P(sum)", "P(sum)"}), spec({"R", "R"})},
          {spec({"P(sum)", "S(1)"}), spec({"S(0)", "S(1)"})},
          {spec({"SS(0,2)", "S(0)"}), spec({"S(0)", "S(0)"})},
          {spec({"R", "R"}), spec({"S(1)", "R"})},
          {spec({"P(sum)", "R"}), spec({"R", "S(0)"})},
          {spec({"R", "S(0)"}), spec({"R", "S(0)"})}};
}

std::vector<PlanProgram> programs_of(World& world, const std::vector<Case>& cases) {
  std::vector<PlanProgram> programs;
  for (const Case& each : cases) programs.emplace_back(world, each.plan);
  return programs;
}
std::vector<Array> parts_of(World& world, const std::vector<Case>& cases) {
  std::vector<Array> parts;
  for (const Case& each : cases) parts.push_back(part_of(each.src, world));
  return parts;
}

std::int64_t num_collectives(World& world) {
  return std::ranges::count(world.events().events(), Event::Kind::kCollective, &Event::kind);
}

}  // namespace

TEST_CASE("a program executes again and again on what it is given", "[runtime][program]") {
  const auto complaints = complaints_of(4, [](World& world, Notes& notes) {
    for (const Case& each : cases_2x2(DType::kF32)) {
      const PlanProgram program(world, each.plan);
      const Array local = part_of(each.src, world);
      for (int times = 0; times < 3; ++times) {
        const std::string note = wrong(each, execute(world, program, local), world.rank());
        if (!note.empty()) notes.push_back(note);
      }
      if (values_here(local) != values_here(part_of(each.src, world))) notes.push_back("source");
    }
  });
  CHECK(complaints == Notes{});
}

TEST_CASE("steps on consecutive rows run as native collectives, others as exchanges",
          "[runtime][program]") {
  struct Native {
    Shape shape;
    const char *from, *to;
    PlanStep::Kind kind;
    Way way;
  };
  using Kind = PlanStep::Kind;
  const Native cases[] = {
      {{7, 3}, "S(0)", "R", Kind::kAllGather, Way::kAllGather},
      {{3, 7}, "S(1)", "R", Kind::kAllGather, Way::kExchange},
      {{8}, "SS(0,2)", "R", Kind::kAllGather, Way::kExchange},
      {{7, 3}, "P(sum)", "S(0)", Kind::kReduceScatter, Way::kReduceScatter},
      {{3, 7}, "P(sum)", "S(1)", Kind::kReduceScatter, Way::kExchange},
      {{7, 3}, "P(sum)", "R", Kind::kAllReduce, Way::kAllReduce},
      {{7, 3}, "S(0)", "S(1)", Kind::kAllToAll, Way::kExchange},
  };
  const Mesh mesh = mesh_of({2});
  for (const Native& each : cases) {
    CAPTURE(each.from, each.to, to_string(each.shape));
    const Spec src = spec_of(mesh, each.shape, {each.from});
    const Spec dst = spec_of(mesh, each.shape, {each.to});
    Plan by_hand{src, dst, {{.kind = each.kind, .axes = {0}, .src = src, .dst = dst}}};
    by_hand.pack_bytes = std::int64_t{1} << 20;
    const Case moved{src, dst, by_hand};
    const auto complaints = complaints_of(2, [&](World& world, Notes& notes) {
      const PlanProgram program(world, by_hand);
      if (program.share().steps.at(0).way != each.way) notes.push_back("another way");
      const std::string note =
          wrong(moved, execute(world, program, part_of(src, world)), world.rank());
      if (!note.empty()) notes.push_back(note);
      if (world.events().events().at(0).name != name_of(each.kind)) notes.push_back("event");
    });
    CHECK(complaints == Notes{});
  }
}

TEST_CASE("a relay reduces into its part of the target and gathers there", "[runtime][program]") {
  // By hand, on replicas: slices, a reduce-scatter over them into the final array, a gather in it.
  const Mesh mesh = mesh_of({2, 2});
  const Spec src = spec_of(mesh, {8, 6}, {"R", "P(sum)"}), dst = spec_of(mesh, {8, 6}, {"R", "R"});
  const Spec sliced = spec_of(mesh, {8, 6}, {"S(0)", "P(sum)"});
  for (const bool rows : {true, false}) {
    // Parts in the order of the axes of the gather are rows of the target; else they are boxes.
    const Spec cut = spec_of(mesh, {8, 6}, {"S(0)", rows ? "S(0)" : "S(1)"});
    const Plan by_hand{src,
                       dst,
                       {{.kind = PlanStep::Kind::kLocal, .src = src, .dst = sliced},
                        {.kind = PlanStep::Kind::kReduceScatter,
                         .axes = {1},
                         .src = sliced,
                         .dst = cut,
                         .host = dst},
                        {.kind = PlanStep::Kind::kAllGather,
                         .axes = {0, 1},
                         .src = cut,
                         .dst = dst,
                         .host = dst,
                         .in_place = true}},
                       std::int64_t{1} << 20};
    const Case moved{src, dst, by_hand};
    const auto complaints = complaints_of(4, [&](World& world, Notes& notes) {
      const PlanProgram program(world, by_hand);
      const std::vector<ProgramStep>& steps = program.share().steps;
      if (!steps[0].alias) notes.push_back("the slice of rows is no alias");
      if (steps[1].way != (rows ? Way::kReduceScatter : Way::kExchange)) notes.push_back("way 1");
      if (steps[2].way != (rows ? Way::kAllGather : Way::kExchange)) notes.push_back("way 2");
      const Array local = part_of(src, world);
      const Array result = execute(world, program, local);
      const std::string note = wrong(moved, result, world.rank());
      if (!note.empty()) notes.push_back(note);
      if (values_here(local) != values_here(part_of(src, world))) notes.push_back("source");
    });
    CHECK(complaints == Notes{});
  }
}

TEST_CASE("tensors move between meshes of other ranks", "[runtime][program]") {
  struct Between {
    Mesh src, dst;
    int world;
  };
  const Between cases[] = {{mesh_of({2}), mesh_of({2}, 2), 4},
                           {mesh_of({3}), mesh_of({3}, 1), 4},
                           {mesh_of({1}), mesh_of({4}), 4},
                           {mesh_of({4}), mesh_of({2, 2}), 4},
                           {mesh_of({2, 2}), mesh_of({1}, 3), 4}};
  for (const Between& each : cases) {
    CAPTURE(each.src.to_string(), each.dst.to_string());
    std::vector<const char*> from(static_cast<std::size_t>(each.src.ndim()), "S(0)");
    std::vector<const char*> to(static_cast<std::size_t>(each.dst.ndim()), "S(1)");
    to.back() = "R";
    const Case moved{spec_of(each.src, {8, 6}, from), spec_of(each.dst, {8, 6}, to)};
    const auto complaints = complaints_of(each.world, [&](World& world, Notes& notes) {
      const Array local = part_of(moved.src, world);
      const std::string note = wrong(moved, execute(world, moved.plan, local), world.rank());
      if (!note.empty()) notes.push_back(note);
    });
    CHECK(complaints == Notes{});
  }
}

TEST_CASE("large tensors move on several library threads, past the caches", "[runtime][program]") {
  struct Large {
    const char *from, *to;
  };
  const Mesh mesh = mesh_of({2});
  const Shape shape{2049, 4100};  // 16.8 MB a rank: no multiple of a cache line anywhere
  for (const Large& each : {Large{"S(0)", "S(1)"}, Large{"S(1)", "S(0)"}, Large{"S(0)", "R"},
                            Large{"P(sum)", "S(1)"}, Large{"P(sum)", "S(0)"}, Large{"P(sum)", "R"},
                            Large{"SS(0,3)", "S(0)"}, Large{"S(1)", "SS(1,1025)"}}) {
    CAPTURE(each.from, each.to);
    const Spec src = spec_of(mesh, shape, {each.from}), dst = spec_of(mesh, shape, {each.to});
    const Plan made = value_or_throw(plan(src, dst));
    const auto held = [&](const Spec& spec, std::int64_t rank, float factor) {
      const Coord coord{rank};
      const Array part = Array::empty(spec.local_shape(coord), DType::kF32);
      const Levels &rows = spec.layout().dims[0], &cols = spec.layout().dims[1];
      std::vector<std::int64_t> global;
      for (std::int64_t c = 0; c < part.size(1); ++c) {
        global.push_back(local_to_global(mesh, shape[1], cols, coord, c));
      }
      float* at = part.data<float>();
      for (std::int64_t r = 0; r < part.size(0); ++r) {
        const std::int64_t row = local_to_global(mesh, shape[0], rows, coord, r);
        for (const std::int64_t col : global) {
          *at++ = factor * static_cast<float>((row * 4100 + col) % 65536);
        }
      }
      return part;
    };
    WorldOptions options;
    options.threads_per_rank = 2;
    const auto right =
        results_of(2, options, [&](World& world) {
          const bool sums = src.has_partial();
          const Array local = on_world(
              world, held(src, world.rank(), sums ? static_cast<float>(world.rank() + 1) : 1));
          const Array result = to_host(execute(world, made, local));
          const Array expected = held(dst, world.rank(), sums ? 3.0F : 1.0F);
          return result.shape() == expected.shape() &&
                 std::equal(result.bytes(), result.bytes() + result.num_bytes(), expected.bytes());
        }).value();
    CHECK(right == std::vector<bool>{true, true});
  }
}

TEST_CASE("an array on a rank outside the source's mesh is refused", "[runtime][program]") {
  const Case moved{spec_of(mesh_of({1}), {4}, {"R"}), spec_of(mesh_of({2}), {4}, {"R"})};
  const Status status =
      testing::launch(2, {}, [&](World& world, std::string&) {
        execute(world, moved.plan, Array::zeros({4}, DType::kF32, world.allocator()));
      }).first;
  CHECK(status == invalid_argument("rank 1: execute: rank 1 is outside the mesh of F32[4] (R) on "
                                   "{1}, so it has no local array; pass a null one"));
}

TEST_CASE("a shard stays in its place of a Partial target, which is filled around it",
          "[runtime][program]") {
  const Mesh mesh = mesh_of({3});
  const Spec src = spec_of(mesh, {7}, {"S(0)"}), dst = spec_of(mesh, {7}, {"P(max)"});
  const auto ranks = results_of(3, {}, [&](World& world) {
                       const Array local = part_of(src, world);
                       return values_here(execute(world, value_or_throw(plan(src, dst)), local));
                     }).value();
  const double low = -INFINITY;
  CHECK(ranks[0] == Values{0, 1, 2, low, low, low, low});
  CHECK(ranks[1] == Values{low, low, low, 3, 4, 5, low});
  CHECK(ranks[2] == Values{low, low, low, low, low, low, 6});
}

TEST_CASE("a bucket moves as its tensors would alone, in fewer calls", "[runtime][program]") {
  const auto complaints = complaints_of(4, [](World& world, Notes& notes) {
    std::vector<Case> cases;
    for (const DType dtype : {DType::kF32, DType::kI64, DType::kBF16}) {
      for (Case& each : cases_2x2(dtype)) cases.push_back(std::move(each));
    }
    const std::vector<PlanProgram> programs = programs_of(world, cases);
    const std::vector<Array> locals = parts_of(world, cases);
    std::vector<Array> alone;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      alone.push_back(execute(world, programs[i], locals[i]));
    }
    const std::int64_t calls_alone = num_collectives(world);
    const std::int64_t bytes_alone = world.events().bytes_received();
    world.events().clear();
    const std::vector<Array> together = execute_all(world, programs, locals, {.tensor = "unit"});
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const bool same = values_here(together[i]) == values_here(alone[i]);
      if (!same) notes.push_back(cases[i].src.to_string() + " to " + cases[i].dst.to_string());
    }
    if (world.events().bytes_received() != bytes_alone) notes.push_back("bytes");
    if (num_collectives(world) * 2 > calls_alone) notes.push_back("as many calls");
    const Event& last = world.events().events().back();
    if (last.kind != Event::Kind::kRedistribute || last.bytes_received != bytes_alone ||
        last.tensor != "unit" || last.axes != "0,1") {
      notes.push_back("the event of the whole");
    }
  });
  CHECK(complaints == Notes{});
}

TEST_CASE("a bucket of one form is one call of all its tensors", "[runtime][program]") {
  const auto logs =
      results_of(2, {}, [](World& world) {
        const Mesh mesh = mesh_of({2});
        std::vector<Case> cases;
        for (const std::int64_t rows : {5, 0, 3, 8}) {
          cases.push_back({spec_of(mesh, {rows, 3}, {"S(0)"}), spec_of(mesh, {rows, 3}, {"R"})});
        }
        execute_all(world, programs_of(world, cases), parts_of(world, cases));
        return world.events().events();
      }).value();
  REQUIRE(logs[1].size() == 2);
  CHECK(logs[1][0].name == "all_gather");
  CHECK(logs[1][0].bytes_received == (3 + 2 + 4) * 3 * 4);  // chunks of coord 0, in bytes
  CHECK(logs[1][1].name == "redistribute");
}

TEST_CASE("a bucket needs one local array for each program", "[runtime][program]") {
  const auto world = make_single_world();
  const Spec spec = Spec::plain({4}, DType::kF32);
  const std::vector<PlanProgram> programs(2, PlanProgram(*world, value_or_throw(plan(spec, spec))));
  const std::vector<Array> locals(1, Array::zeros({4}, DType::kF32));
  CHECK_THROWS_WITH(execute_all(*world, programs, locals),
                    "execute: 2 programs come with 1 local arrays");
}

TEST_CASE("redistributions go on while others begin", "[runtime][program]") {
  const auto complaints = complaints_of(4, [](World& world, Notes& notes) {
    const std::vector<Case> cases = cases_2x2(DType::kF64);
    const std::vector<PlanProgram> programs = programs_of(world, cases);
    const std::vector<Array> locals = parts_of(world, cases);
    std::vector<BucketWork> works;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      works.push_back(execute_all_async(world, {&programs[i], 1}, {&locals[i], 1}));
    }
    BucketWork bucket = execute_all_async(world, programs, locals);
    everyone(world).barrier();  // a call between start and wait
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const std::string note = wrong(cases[i], works[i].wait().front(), world.rank());
      if (!note.empty()) notes.push_back(note);
    }
    const std::vector<Array> all = bucket.wait();
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const std::string note = wrong(cases[i], all[i], world.rank());
      if (!note.empty()) notes.push_back("bucket: " + note);
    }
  });
  CHECK(complaints == Notes{});
}

TEST_CASE("ranks that move other plans learn of it before data move", "[runtime][program]") {
  const Mesh mesh = mesh_of({2});
  const Spec src = spec_of(mesh, {4, 4}, {"S(0)"});
  const Status status =
      testing::launch(2, {}, [&](World& world, std::string&) {
        const Spec dst = spec_of(mesh, {4, 4}, {world.rank() == 0 ? "S(1)" : "SS(0,2)"});
        execute(world, value_or_throw(plan(src, dst)), part_of(src, world));
      }).first;
  CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(testing::contains(status, "collective mismatch (plan)"));
}

}  // namespace tessera
