#include <fstream>

#include "placement/plan_cost.h"
#include "runtime/sim/sim_world.h"
#include "tests/runtime/ranks.h"
#include "tests/support/counted_world.h"

namespace tessera {
namespace {

using testing::CountedWorld;
using Texts = std::vector<std::string>;

// What ranks of two backends must log alike.
std::string text_of(const Event& event) {
  const char* kind = event.kind == Event::Kind::kCollective ? "collective" : "redistribute";
  return std::string(kind) + " " + event.name + " of " + event.tensor + " on " + event.axes + ": " +
         std::to_string(event.bytes_sent) + " sent, " + std::to_string(event.bytes_received) +
         " received, " + (event.origin == Origin::kImplicit ? "implicit" : "explicit") + " " +
         event.why;
}
Texts texts_of(const std::vector<Event>& events) {
  Texts texts;
  for (const Event& event : events) texts.push_back(text_of(event));
  return texts;
}

Array source_of(const Plan& plan, World& world) {
  const std::optional<Coord> coord = plan.src.mesh().coord_of(world.rank());
  if (!coord) return {};
  return Array::zeros(plan.src.local_shape(*coord), plan.src.dtype(), world.allocator());
}

struct Executed {
  Texts events;
  std::int64_t peak_bytes = 0;
};
std::vector<Executed> executed(const Plan& plan, int num_ranks) {
  std::vector<Executed> ranks(static_cast<std::size_t>(num_ranks));
  const Status status = run_ranks(num_ranks, {}, [&](World& world) {
    Executed& own = ranks[static_cast<std::size_t>(world.rank())];
    execute(world, plan, source_of(plan, world));
    own.events = texts_of(world.events().events());
    CountedWorld counted(world);
    execute(counted, plan, source_of(plan, counted));
    own.peak_bytes = memory_use_of(*counted.allocator()).peak_bytes;
  });
  INFO(status);
  REQUIRE(status.ok());
  return ranks;
}

Mesh mesh_of(const Shape& shape, std::vector<std::string> names, std::int64_t first = 0) {
  return value_or_throw(Mesh::make(view_of(shape), std::move(names), first));
}
Spec spec_of(const Mesh& mesh, const Shape& shape, const Texts& texts, DType dtype = DType::kF32) {
  Placements placements;
  for (const std::string& text : texts) placements.push_back(*parse_placement(text));
  return value_or_throw(Spec::make(mesh, shape, dtype, placements));
}

TEST_CASE("simulated ranks log what executing ranks log, and hold no less", "[runtime][sim]") {
  const Mesh one = mesh_of({4}, {"tp"});
  const Mesh two = mesh_of({2, 2}, {"dp", "tp"});
  const Mesh late = mesh_of({2}, {"late"}, 2);
  const Mesh three = mesh_of({2, 3}, {"dp", "tp"});
  const Shape shape{33, 24};
  const Spec far = spec_of(late, shape, {"S(1)"});
  const std::pair<Spec, Spec> moves[] = {
      {spec_of(one, shape, {"S(0)"}), spec_of(one, shape, {"R"})},
      {spec_of(one, shape, {"S(0)"}), spec_of(one, shape, {"S(1)"})},
      {spec_of(one, shape, {"R"}), spec_of(one, shape, {"S(1)"})},
      {spec_of(one, shape, {"R"}), spec_of(one, shape, {"P(sum)"})},
      {spec_of(one, shape, {"S(0)"}), spec_of(one, shape, {"P(sum)"})},
      {spec_of(one, shape, {"P(sum)"}), spec_of(one, shape, {"R"})},
      {spec_of(one, shape, {"P(avg)"}), spec_of(one, shape, {"S(0)"})},
      {spec_of(one, shape, {"P(max)"}), spec_of(one, shape, {"S(1)"})},
      {spec_of(one, {3}, {"P(sum)"}), spec_of(one, {3}, {"R"})},
      {spec_of(one, {0, 5}, {"S(0)"}), spec_of(one, {0, 5}, {"R"})},
      {spec_of(two, shape, {"S(0)", "S(1)"}), spec_of(two, shape, {"S(1)", "S(0)"})},
      {spec_of(two, shape, {"SS(0,2)", "S(0)"}), spec_of(two, shape, {"S(0)", "S(0)"})},
      {spec_of(two, shape, {"P(sum)", "R"}), spec_of(two, shape, {"R", "R"})},
      {spec_of(two, shape, {"P(sum)", "S(0)"}), spec_of(two, shape, {"S(0)", "S(0)"})},
      {spec_of(two, shape, {"P(sum)", "P(max)"}), spec_of(two, shape, {"R", "S(1)"})},
      {spec_of(two, shape, {"R", "S(0)"}), spec_of(two, shape, {"S(0)", "R"}, DType::kF32)},
      {spec_of(three, shape, {"S(0)", "R"}), spec_of(three, shape, {"S(1)", "S(0)"})},
      {spec_of(three, shape, {"P(sum)", "S(0)"}), spec_of(three, shape, {"R", "R"})},
      {spec_of(two, shape, {"S(0)", "R"}), far},
      {far, spec_of(two, shape, {"R", "S(0)"})},
      {spec_of(two, shape, {"P(sum)", "S(0)"}), far},
      {spec_of(one, shape, {"S(0)"}), spec_of(two, shape, {"S(0)", "S(0)"})},
  };
  for (const char* preset : {"", "host", "cluster"}) {
    for (const auto& [src, dst] : moves) {
      const std::string route = src.to_string() + " to " + dst.to_string();
      CAPTURE(preset, route);
      std::optional<Topology> topology;
      if (*preset != '\0') topology = *topology_preset(preset);
      const Plan made =
          value_or_throw(plan(src, dst, {.topology = topology ? &*topology : nullptr}));
      Plan unpacked = made;
      unpacked.pack_bytes = 0;  // threads pack nothing
      const std::vector<std::int64_t> ranks = ranks_of(made);
      const auto simulated = simulate(made);
      REQUIRE(simulated.ok());
      REQUIRE(simulated->size() == ranks.size());
      const std::vector<Executed> real = executed(made, static_cast<int>(ranks.back() + 1));
      for (const SimulatedRank& each : *simulated) {
        CAPTURE(each.rank);
        const Executed& same = real[static_cast<std::size_t>(each.rank)];
        CHECK(texts_of(each.events) == same.events);
        CHECK(each.peak_bytes >= same.peak_bytes);
        CHECK(each.peak_bytes <= cost_on(unpacked, each.rank).peak_local_bytes);
        const bool native = std::ranges::any_of(made.steps, [](const PlanStep& step) {
          return step.kind == PlanStep::Kind::kAllReduce;
        });
        if (native) continue;  // whose slices are the backends' own
        CHECK(each.bytes_received == bytes_received(made, each.rank));
        CHECK(each.messages == cost_on(made, each.rank).messages);
      }
    }
  }
}

// Every kind of call once, some of them ragged, on the ranks of a group that is not the world.
void call_everything(World& world) {
  const auto array = [&](std::int64_t rows) {
    return Array::zeros({rows, 3}, DType::kF32, world.allocator());
  };
  const std::vector<std::int64_t> members{0, 2, 3};
  const auto place = std::ranges::find(members, world.rank());
  if (place == members.end()) return;
  const std::int64_t rank = place - members.begin();
  Communicator& group = *value_or_throw(world.group(members));
  group.barrier();
  group.all_reduce(array(5), array(5), ReduceOp::kMax, {.tensor = "a", .axes = "tp"});
  group.all_gather(array(2), array(6), {}, {.tensor = "b"});
  const std::vector<std::int64_t> rows{1, 0, 4};
  const std::int64_t own = rows[static_cast<std::size_t>(rank)];
  group.all_gather(array(own), array(5), rows, {.tensor = "c"});
  group.reduce_scatter(array(5), array(own), ReduceOp::kSum, rows, {.tensor = "d"});
  group.all_to_all(array(3), array(3), std::vector<std::int64_t>{1, 1, 1},
                   std::vector<std::int64_t>{1, 1, 1},
                   {.tensor = "e", .origin = Origin::kImplicit, .why = "a row"});
  group.broadcast(array(7), 1, {.tensor = "f"});
  if (rank == 0) group.send(array(2), 2, {.tensor = "g"});
  if (rank == 2) group.recv(array(2), 0, {.tensor = "g"});
  auto late = group.all_reduce_async(array(1), array(1), ReduceOp::kSum, {.log = CallLog::kNo});
  late->wait();
  if (late->bytes_received() == 0) throw Error(internal_error("nothing was received"));
}

TEST_CASE("every call leaves the event that it leaves among threads", "[runtime][sim]") {
  std::vector<Texts> real(4);
  REQUIRE(run_ranks(4, {}, [&](World& world) {
            call_everything(world);
            real[static_cast<std::size_t>(world.rank())] = texts_of(world.events().events());
          }).ok());
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    const std::unique_ptr<World> world = value_or_throw(make_sim_world(rank, 4));
    call_everything(*world);
    CHECK(texts_of(world->events().events()) == real[static_cast<std::size_t>(rank)]);
    CHECK(world->size() == 4);
  }
  CHECK(real[1].empty());
  CHECK(real[0].size() == 7);
}

TEST_CASE("a call that does not fit is refused as among threads", "[runtime][sim]") {
  const std::unique_ptr<World> world = value_or_throw(make_sim_world(1, 4));
  CHECK_THAT(std::string(message_of(world->group(std::vector<std::int64_t>{0, 2}).status())),
             Catch::Contains("must hold this rank, 1"));
  CHECK_THAT(std::string(message_of(world->group(std::vector<std::int64_t>{1, 4}).status())),
             Catch::Contains("must lie in [0, 4)"));
  Communicator& group = everyone(*world);
  CHECK(&group == &everyone(*world));
  const auto refusal = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return std::string(message_of(error.status()));
    }
    return "";
  };
  const Array two = Array::zeros({2}, DType::kF32), three = Array::zeros({3}, DType::kF32);
  CHECK(refusal([&] { group.all_reduce(two, three, ReduceOp::kSum); }) ==
        "all_reduce: in F32 [2] and out F32 [3] must have one shape");
  CHECK_THAT(refusal([&] { group.send(two, 9); }), Catch::Contains("peer 9 is outside"));
  world->poison(unavailable("it is over"));
  CHECK_THAT(refusal([&] { group.barrier(); }), Catch::Contains("it is over"));

  CHECK(message_of(make_sim_world(4, 4).status()) ==
        "a simulated world of 4 ranks has no rank 4; allowed are 0 to one below its size");
  CHECK_FALSE(make_sim_world(-1, 4).ok());
  CHECK_FALSE(make_sim_world(0, 1, {.topology = Topology{}}).ok());
}

// A page that is mapped many times counts once.
std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;) {
    std::int64_t kib = 0;
    if (word == "Pss:" && file >> kib) return kib * 1024;
  }
  return -1;
}

TEST_CASE("tensors larger than any machine are simulated on 2,048 ranks", "[runtime][sim]") {
  const Mesh mesh = mesh_of({32, 64}, {"dp", "tp"});
  const Shape shape{std::int64_t{1} << 20, std::int64_t{1} << 20};  // 4 TiB of F32
  const std::int64_t share = (std::int64_t{1} << 42) / 2048;
  const std::vector<std::int64_t> some{0, 1000, 2047};
  // (S0, S1) to (S1, S0): what one rank of a 32 x 64 grid has of its share of the other grid.
  const Plan turn = value_or_throw(
      plan(spec_of(mesh, shape, {"S(0)", "S(1)"}), spec_of(mesh, shape, {"S(1)", "S(0)"})));
  const auto turned = simulate(turn, {}, some);
  REQUIRE(turned.ok());
  for (const SimulatedRank& each : *turned) {
    CHECK(each.peak_bytes == 2 * share);
    CHECK(each.bytes_received == bytes_received(turn, each.rank));
  }
  const Plan gather = value_or_throw(
      plan(spec_of(mesh, shape, {"S(0)", "S(1)"}), spec_of(mesh, shape, {"S(0)", "R"})));
  const auto gathered = simulate(gather, {}, some);
  REQUIRE(gathered.ok());
  CHECK((*gathered)[1].bytes_received == 63 * share);
  CHECK((*gathered)[1].peak_bytes == 65 * share);
  CHECK((*gathered)[1].messages == 63);
  // A step that writes on the rank itself: all but coord 0 fill 64 MiB with an identity.
  const Shape less{std::int64_t{1} << 15, std::int64_t{1} << 15};
  const Plan fill = value_or_throw(
      plan(spec_of(mesh, less, {"R", "S(1)"}), spec_of(mesh, less, {"P(max)", "S(1)"})));
  const auto filled = simulate(fill, {}, some);
  REQUIRE(filled.ok());
  CHECK((*filled)[1].peak_bytes == std::int64_t{128} << 20);
  CHECK((*filled)[1].events.empty());
}

#ifdef __SANITIZE_THREAD__
constexpr std::int64_t kFilled = std::int64_t{1} << 20;  // it keeps several bytes for each
#else
constexpr std::int64_t kFilled = std::int64_t{1} << 28;  // a gigabyte
#endif

TEST_CASE("a buffer of any size is counted and takes writes", "[runtime][sim]") {
  const std::unique_ptr<World> world = value_or_throw(make_sim_world(0, 8));
  const auto use = [&] { return memory_use_of(*world->allocator()); };
  const std::int64_t before = resident_bytes();
  REQUIRE(before > 0);
  {
    const Array large = Array::empty({std::int64_t{1} << 30}, DType::kF32, world->allocator());
    const Array small = Array::empty({10}, DType::kF64, world->allocator());
    CHECK(use().used_bytes == (std::int64_t{1} << 32) + 80);
    std::fill_n(large.data<float>(), kFilled, 1.0F);
    large.data<float>()[(std::int64_t{1} << 30) - 1] = 2;
    small.data<double>()[9] = 3;
    CHECK(small.to_vector()[9] == 3);
    CHECK(resident_bytes() - before < std::int64_t{64} << 20);
  }
  CHECK(use().used_bytes == 0);
  CHECK(use().peak_bytes == (std::int64_t{1} << 32) + 80);
  CHECK_THROWS_AS(Array::empty({std::int64_t{1} << 60}, DType::kF32, world->allocator()), Error);
}

TEST_CASE("the clock goes by the topology", "[runtime][sim]") {
  const Topology links{.step_us = 5,
                       .links = {{.name = "near", .ranks = 2, .latency_us = 1, .gb_per_s = 100},
                                 {.name = "far", .ranks = 0, .latency_us = 10, .gb_per_s = 1}}};
  const Mesh mesh = mesh_of({4}, {"tp"});
  const Shape shape{4000, 1};
  const Plan gather = value_or_throw(
      plan(spec_of(mesh, shape, {"S(0)"}, DType::kF64), spec_of(mesh, shape, {"R"}, DType::kF64)));
  const auto timed = simulate(gather, {.topology = links});
  REQUIRE(timed.ok());
  // One neighbour of 8,000 bytes, two ranks far away of as many.
  for (const SimulatedRank& each : *timed) {
    CHECK(each.time_us == Approx(5 + (1 + 0.08) + 2 * (10 + 8)));
    CHECK(each.events.back().end_us == each.time_us);
  }
  CHECK((*simulate(gather))[0].time_us == 0);
}

}  // namespace
}  // namespace tessera
