#include <cmath>

#include "tests/runtime/ranks.h"
#include "tests/support/on_world.h"

namespace tessera {
namespace {

using testing::complaints_of;
using testing::launch;
using testing::on_world;
using testing::results_of;
using testing::values_here;
using Notes = std::vector<std::string>;
using Values = std::vector<double>;

// ---- a reference that knows values only: what each rank must hold, and what held parts amount to

double global_value(std::int64_t i) { return static_cast<double>((i * 7) % 16) - 3; }

double reduce_pair(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return a + b;
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kProd:
      return a * b;
  }
  return 0;
}

/// The piece of `whole` that `coord` of an axis of `size` holds where the axis is Partial by `op`.
double piece_of(ReduceOp op, double whole, std::int64_t coord, std::int64_t size, std::int64_t i) {
  const auto turn = static_cast<double>((coord * 3 + i) % 4);
  const auto others = [&] {
    double sum = 0;
    for (std::int64_t c = 1; c < size; ++c) sum += static_cast<double>((c * 3 + i) % 4) - 1;
    return sum;
  };
  const bool holds = i % size == coord;
  switch (op) {
    case ReduceOp::kSum:
      return coord == 0 ? whole - others() : turn - 1;
    case ReduceOp::kAvg:
      return coord == 0 ? whole * static_cast<double>(size) - others() : turn - 1;
    case ReduceOp::kMax:
      return holds ? whole : whole - 1 - turn;
    case ReduceOp::kMin:
      return holds ? whole : whole + 1 + turn;
    case ReduceOp::kProd:
      return holds ? whole : 1;
  }
  return 0;
}

/// Row-major global indices of a rank's local elements.
std::vector<std::int64_t> global_indices(const Spec& spec, const Coord& coord) {
  const Shape local = spec.local_shape(coord);
  std::vector<std::int64_t> indices(static_cast<std::size_t>(num_elements(local)));
  for (std::size_t i = 0; i < indices.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    std::int64_t stride = 1, index = 0;
    for (int d = spec.ndim() - 1; d >= 0; --d) {
      const auto dim = static_cast<std::size_t>(d);
      const std::int64_t size = spec.global_shape()[dim];
      index += stride * local_to_global(spec.mesh(), size, spec.layout().dims[dim], coord,
                                        rest % local[dim]);
      rest /= local[dim];
      stride *= size;
    }
    indices[i] = index;
  }
  return indices;
}

/// What a rank holds: Partial axes split the value from the first axis to the last.
Values held_values(const Spec& spec, const Coord& coord) {
  Values values;
  for (const std::int64_t index : global_indices(spec, coord)) {
    double value = global_value(index);
    for (int axis = 0; axis < spec.mesh().ndim(); ++axis) {
      const auto at = static_cast<std::size_t>(axis);
      if (const auto op = spec.layout().partial[at]) {
        value = piece_of(*op, value, coord[at], spec.mesh().size(axis), index);
      }
    }
    values.push_back(value);
  }
  return values;
}

/// Reduces the ranks' parts over the Partial axes, from the last to the first.
std::vector<Values> reduced_parts(const Spec& spec, std::vector<Values> parts) {
  const Mesh& mesh = spec.mesh();
  for (int axis = mesh.ndim() - 1; axis >= 0; --axis) {
    const auto op = spec.layout().partial[static_cast<std::size_t>(axis)];
    if (!op) continue;
    std::vector<Values> next(parts.size());
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      const auto group = mesh.group_along(axis, static_cast<std::int64_t>(rank));
      next[rank] = parts[static_cast<std::size_t>(group[0])];
      for (std::size_t i = 0; i < next[rank].size(); ++i) {
        for (std::size_t c = 1; c < group.size(); ++c) {
          next[rank][i] =
              reduce_pair(*op, next[rank][i], parts[static_cast<std::size_t>(group[c])][i]);
        }
        if (*op == ReduceOp::kAvg) next[rank][i] /= static_cast<double>(group.size());
      }
    }
    parts = std::move(next);
  }
  return parts;
}

/// Empty if the ranks' parts make up the global tensor under `spec`.
std::string wrong_parts(const Spec& spec, const std::vector<Values>& parts) {
  const std::vector<Values> whole = reduced_parts(spec, parts);
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    const auto indices =
        global_indices(spec, *spec.mesh().coord_of(static_cast<std::int64_t>(rank)));
    if (indices.size() != whole[rank].size()) return "size on rank " + std::to_string(rank);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      if (whole[rank][i] == global_value(indices[i])) continue;
      return "element " + std::to_string(i) + " of rank " + std::to_string(rank) + " is " +
             std::to_string(whole[rank][i]) + ", not " + std::to_string(global_value(indices[i]));
    }
  }
  return "";
}

// ---- which pairs

std::vector<Spec> specs_of(const Mesh& mesh, const Shape& shape, DType dtype,
                           const std::vector<std::string>& texts) {
  std::vector<Spec> specs;
  std::vector<std::size_t> pick(static_cast<std::size_t>(mesh.ndim()), 0);
  for (bool more = true; more;) {
    Placements placements;
    for (const std::size_t choice : pick) placements.push_back(*parse_placement(texts[choice]));
    StatusOr<Spec> spec = Spec::make(mesh, shape, dtype, placements);
    if (spec.ok()) specs.push_back(*spec);
    more = false;
    for (std::size_t& choice : pick) {
      if (++choice < texts.size()) {
        more = true;
        break;
      }
      choice = 0;
    }
  }
  return specs;
}

/// What one rank holds after each plan, and what went wrong on it.
struct Held {
  std::vector<Values> results;
  Notes wrong;
};
Held held_after(World& world, const std::vector<Plan>& plans) {
  Held held;
  for (const Plan& plan : plans) {
    const Spec& src = plan.src;
    const Coord coord = *src.mesh().coord_of(world.rank());
    const Array local = on_world(
        world, Array::from_values(src.local_shape(coord), src.dtype(), held_values(src, coord)));
    const std::int64_t before = world.events().bytes_received();
    held.results.push_back(values_here(execute(world, plan, local, {.tensor = "x"})));
    const std::int64_t logged = world.events().bytes_received() - before;
    if (logged != bytes_received(plan, world.rank())) {
      held.wrong.push_back(src.to_string() + " to " + plan.dst.to_string() + ": bytes logged " +
                           std::to_string(logged));
    }
    if (values_here(local) != held_values(src, coord))
      held.wrong.push_back("the source was written");
  }
  return held;
}

/// Every pair that has a plan, executed on ranks and judged by the reference.
int check_pairs(const Mesh& mesh, const std::vector<Spec>& specs, std::size_t stride) {
  std::vector<Plan> plans;
  std::size_t number = 0;
  for (const Spec& src : specs) {
    for (const Spec& dst : specs) {
      if (number++ % stride != 0) continue;
      StatusOr<Plan> planned = plan(src, dst);
      if (planned.ok()) plans.push_back(*std::move(planned));
    }
  }
  const auto ranks = results_of(static_cast<int>(mesh.num_ranks()), {}, [&](World& world) {
                       return held_after(world, plans);
                     }).value();
  for (const Held& held : ranks) CHECK(held.wrong == Notes{});
  for (std::size_t i = 0; i < plans.size(); ++i) {
    std::vector<Values> parts;
    for (const Held& held : ranks) parts.push_back(held.results[i]);
    const std::string wrong = wrong_parts(plans[i].dst, parts);
    if (!wrong.empty()) {
      CAPTURE(plans[i].src.to_string(), plans[i].dst.to_string());
      CHECK(wrong == "");
    }
  }
  return static_cast<int>(plans.size());
}

Mesh mesh_of(const Shape& shape) { return value_or_throw(Mesh::make(view_of(shape))); }

}  // namespace

TEST_CASE("every pair of placements on one axis moves to the right values", "[runtime][execute]") {
  const std::int64_t ranks = GENERATE(2, 3, 4);
  const Mesh mesh = mesh_of({ranks});
  int pairs = 0;
  for (const Shape& shape : {Shape{5, 3}, Shape{8, 6}, Shape{1, 4}, Shape{0, 3}, Shape{7}}) {
    for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
      pairs += check_pairs(mesh,
                           specs_of(mesh, shape, dtype,
                                    {"R", "S(0)", "S(1)", "P(sum)", "P(avg)", "P(max)", "P(min)"}),
                           1);
    }
    pairs +=
        check_pairs(mesh, specs_of(mesh, shape, DType::kI64, {"R", "S(0)", "P(sum)", "P(max)"}), 1);
  }
  CHECK(pairs > 400);
}

TEST_CASE("pairs of placements on two axes move to the right values", "[runtime][execute]") {
  const Shape axes = GENERATE(Shape{2, 2}, Shape{2, 3});
  const Mesh mesh = mesh_of(axes);
  int pairs = 0;
  for (const Shape& shape : {Shape{5, 3}, Shape{8, 6}, Shape{1, 4}, Shape{2, 3, 4}}) {
    pairs += check_pairs(
        mesh,
        specs_of(mesh, shape, DType::kF64,
                 {"R", "S(0)", "S(1)", "SS(0,2)", "SS(0,3)", "P(sum)", "P(avg)", "P(max)"}),
        shape.size() == 3 ? 5 : 2);
  }
  CHECK(pairs > 3000);
}

TEST_CASE("large shards move in slices and pieces", "[runtime][execute]") {
  const Mesh mesh = mesh_of({2, 2});
  const auto specs = specs_of(mesh, {301, 203}, DType::kF32, {"R", "S(0)", "S(1)", "P(sum)"});
  const int pairs = check_pairs(mesh, specs, 3);
  CHECK(pairs > 50);
}

TEST_CASE("a plan without steps gives the same array", "[runtime][execute]") {
  const auto world = make_single_world();
  const Spec spec = Spec::plain({4}, DType::kF32);
  const Array local = Array::zeros({4}, DType::kF32);
  const Array result = execute(*world, value_or_throw(plan(spec, spec)), local);
  CHECK(result.bytes() == local.bytes());
  CHECK(world->events().events().empty());
}

TEST_CASE("R to P keeps the value on the first coord and fills identities bit by bit",
          "[runtime][execute]") {
  const Mesh mesh = mesh_of({3});
  const auto wrong = complaints_of(3, [&](World& world, Notes& notes) {
    const auto moved = [&](DType dtype, const char* to) {
      const Placement from[] = {Replicate{}}, target[] = {*parse_placement(to)};
      const Spec src = value_or_throw(Spec::make(mesh, {2}, dtype, from));
      const Spec dst = value_or_throw(Spec::make(mesh, {2}, dtype, target));
      const Array local = on_world(world, Array::from_values({2}, dtype, Values{-0.0, 5}));
      return values_here(execute(world, value_or_throw(plan(src, dst)), local));
    };
    const bool first = world.rank() == 0;
    const auto expect = [&](const Values& got, double identity, const char* what) {
      const Values kept{-0.0, 5}, filled{identity, identity};
      if (got != (first ? kept : filled)) notes.push_back(what);
    };
    const Values sum = moved(DType::kF32, "P(sum)");
    expect(sum, 0, "sum");
    if (!std::signbit(sum[0])) notes.push_back("sign of zero");
    expect(moved(DType::kF64, "P(max)"), -INFINITY, "max");
    expect(moved(DType::kBF16, "P(min)"), INFINITY, "min");
    expect(moved(DType::kI32, "P(max)"), -2147483648.0, "max of I32");
    expect(moved(DType::kF32, "P(prod)"), 1, "prod");
    if (moved(DType::kF32, "P(avg)") != Values{-0.0, 5}) notes.push_back("avg keeps");
    if (!world.events().events().empty()) notes.push_back("an event without transfer");
  });
  CHECK(wrong == Notes{});
}

TEST_CASE("NaN and the sign of zero survive a move bit by bit", "[runtime][execute]") {
  const Mesh mesh = mesh_of({2});
  const auto wrong = complaints_of(2, [&](World& world, Notes& notes) {
    const Placement rows[] = {Shard{0}}, whole[] = {Replicate{}};
    const Spec src = value_or_throw(Spec::make(mesh, {4}, DType::kF32, rows));
    const Spec dst = value_or_throw(Spec::make(mesh, {4}, DType::kF32, whole));
    const Array local = Array::zeros({2}, DType::kF32);
    auto* bits = reinterpret_cast<std::uint32_t*>(local.bytes());
    bits[0] = 0x7fa00001U + static_cast<std::uint32_t>(world.rank());  // a signalling NaN
    bits[1] = 0x80000000U;
    const Array full =
        to_host(execute(world, value_or_throw(plan(src, dst)), on_world(world, local)));
    const auto* got = reinterpret_cast<const std::uint32_t*>(full.bytes());
    if (got[0] != 0x7fa00001U || got[1] != 0x80000000U || got[2] != 0x7fa00002U) {
      notes.push_back("bits");
    }
  });
  CHECK(wrong == Notes{});
}

TEST_CASE("a redistribution logs its collectives and itself", "[runtime][execute][events]") {
  const Mesh mesh = value_or_throw(Mesh::make(std::vector<std::int64_t>{2, 2}, {"dp", "tp"}));
  const auto logs =
      results_of(4, {}, [&](World& world) {
        const Placement from[] = {Shard{0}, Shard{1}}, to[] = {Replicate{}, Shard{0}};
        const Spec src = value_or_throw(Spec::make(mesh, {4, 4}, DType::kF32, from));
        const Spec dst = value_or_throw(Spec::make(mesh, {4, 4}, DType::kF32, to));
        world.events().set_module("head");
        execute(world, value_or_throw(plan(src, dst)),
                Array::zeros({2, 2}, DType::kF32, world.allocator()),
                {.tensor = "logits", .origin = Origin::kImplicit, .why = "mm: operand A"});
        return world.events().events();
      }).value();
  const std::vector<Event>& events = logs[0];
  REQUIRE(events.size() == 2);
  CHECK(events[0].kind == Event::Kind::kCollective);
  CHECK(events[0].name == "exchange");
  CHECK(events[1].kind == Event::Kind::kRedistribute);
  for (const Event& event : events) {
    CHECK(event.axes == "dp,tp");
    CHECK(event.tensor == "logits");
    CHECK(event.module == "head");
    CHECK(event.origin == Origin::kImplicit);
    CHECK(event.why == "mm: operand A");
    CHECK(event.bytes_received == 16);  // of rows 0 and 1, the right half
    CHECK(std::string_view(event.file).find("execute_test.cc") != std::string_view::npos);
  }
}

TEST_CASE("a local array that is not this rank's part is refused", "[runtime][execute]") {
  const Mesh mesh = mesh_of({2});
  const Placement rows[] = {Shard{0}}, whole[] = {Replicate{}};
  const Spec src = value_or_throw(Spec::make(mesh, {4}, DType::kF32, rows));
  const Spec dst = value_or_throw(Spec::make(mesh, {4}, DType::kF32, whole));
  const Status status =
      launch(2, {}, [&](World& world, std::string&) {
        execute(world, value_or_throw(plan(src, dst)),
                Array::zeros({world.rank() == 0 ? 3 : 2}, DType::kF32, world.allocator()));
      }).first;
  CHECK(status ==
        invalid_argument("rank 0: execute: local array F32 [3] is not this rank's part [2] of "
                         "F32[4] (S(0)) on {2}"));
}

TEST_CASE("an exchange whose contributors cut the target differently folds in order",
          "[runtime][execute]") {
  // Rank 0 gives [0, 4) in one box; rank 1 gives it in two. No plan on a regular mesh does this.
  const ReduceOp op = GENERATE(ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax);
  const DType dtype = GENERATE(DType::kF32, DType::kBF16, DType::kI64);
  if (op == ReduceOp::kAvg && dtype == DType::kI64) return;
  const auto wrong = complaints_of(2, [&](World& world, Notes& notes) {
    const double own = world.rank() == 0 ? 8 : 2;
    ExchangeBoxes boxes{.fold = true, .reduce = op, .divisor = 2};
    boxes.into = {{0, 0, {{{0, 0, 4}}}}, {1, 1, {{{0, 0, 1}}}}, {1, 1, {{{1, 1, 3}}}}};
    boxes.cut_from = {{4}, {4}, {4}};
    for (const std::int64_t to : {0, 1}) {
      for (Transfer box : boxes.into) {
        if (box.peer != world.rank()) continue;
        box.peer = to;
        boxes.from.push_back(box);
      }
    }
    const Array in =
        on_world(world, Array::from_values({4}, dtype, Values{own, own + 2, -own, own}));
    const Array out = Array::empty({4}, dtype, world.allocator());
    ExchangeCall call;
    call.parts = {{in, out, std::make_shared<const ExchangeBoxes>(boxes)}};
    everyone(world).start({.of = std::move(call)}, {})->wait();
    const Values expected = op == ReduceOp::kSum   ? Values{10, 14, -10, 10}
                            : op == ReduceOp::kAvg ? Values{5, 7, -5, 5}
                                                   : Values{8, 10, -2, 8};
    if (values_here(out) != expected) notes.push_back("values");
  });
  CHECK(wrong == Notes{});
}

}  // namespace tessera
