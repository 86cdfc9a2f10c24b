// Plans are run on all ranks' local arrays in one process and compared with the exact target.
#include "placement/plan.h"

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "tests/placement/brute.h"

using namespace tessera;  // NOLINT
using brute::coords_of;
using brute::indices_of;
using brute::mesh_of;

namespace {

using Local = std::vector<double>;

double fold_two(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kProd:
      return a * b;
    default:
      return a + b;
  }
}
double identity_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kMax:
      return -std::numeric_limits<double>::infinity();
    case ReduceOp::kMin:
      return std::numeric_limits<double>::infinity();
    case ReduceOp::kProd:
      return 1.0;
    default:
      return -0.0;
  }
}

/// Row-major global indices of what `coord` holds, by the brute-force enumerator.
std::vector<std::int64_t> held(const Spec& spec, const Coord& coord) {
  std::vector<std::int64_t> all{0};
  for (std::size_t d = 0; d < spec.global_shape().size(); ++d) {
    const std::int64_t size = spec.global_shape()[d];
    const brute::Indices indices = indices_of(spec.mesh(), size, spec.layout().dims[d], coord);
    std::vector<std::int64_t> next;
    for (const std::int64_t outer : all) {
      for (const std::int64_t index : indices) next.push_back(outer * size + index);
    }
    all = std::move(next);
  }
  return all;
}

/// Local arrays by rank. Ranks along Partial axes hold different small integers.
std::vector<Local> random_locals(const Spec& spec, std::mt19937& random) {
  std::map<std::pair<Coord, std::int64_t>, double> values;  // by coord on Partial axes and index
  std::vector<Local> locals;
  for (const Coord& coord : coords_of(spec.mesh())) {
    Coord summand = coord;
    for (std::size_t a = 0; a < coord.size(); ++a) {
      if (!spec.layout().partial[a]) summand[a] = 0;
    }
    locals.emplace_back();
    for (const std::int64_t index : held(spec, coord)) {
      const auto [at, added] = values.try_emplace({summand, index}, 0.0);
      if (added) at->second = 1.0 + static_cast<double>(random() % 3);
      locals.back().push_back(at->second);
    }
  }
  return locals;
}

/// The logical tensor of a list of locals: Partial axes reduced from the last to the first.
std::map<std::int64_t, double> global_value(const Spec& spec, const std::vector<Local>& locals) {
  const Mesh& mesh = spec.mesh();
  std::map<std::int64_t, std::map<Coord, double>> summands;
  const std::vector<Coord> coords = coords_of(mesh);
  for (std::size_t r = 0; r < coords.size(); ++r) {
    Coord summand = coords[r];
    for (std::size_t a = 0; a < summand.size(); ++a) {
      if (!spec.layout().partial[a]) summand[a] = 0;
    }
    const std::vector<std::int64_t> indices = held(spec, coords[r]);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      summands[indices[i]][summand] = locals[r][i];
    }
  }
  std::map<std::int64_t, double> values;
  for (auto& [index, parts] : summands) {
    for (int axis = mesh.ndim(); axis-- > 0;) {
      const auto a = static_cast<std::size_t>(axis);
      const auto& op = spec.layout().partial[a];
      if (!op) continue;
      std::map<Coord, double> reduced;
      for (const auto& [coord, value] : parts) {
        Coord first = coord;
        first[a] = 0;
        const auto [at, added] = reduced.try_emplace(first, value);
        if (!added) at->second = fold_two(*op, at->second, value);
      }
      if (*op == ReduceOp::kAvg) {
        for (auto& [coord, value] : reduced) value /= static_cast<double>(mesh.size(axis));
      }
      parts = std::move(reduced);
    }
    values[index] = parts.begin()->second;
  }
  return values;
}

std::vector<std::pair<std::int64_t, std::int64_t>> box_indices(const Transfer& transfer,
                                                               const Shape& src, const Shape& dst) {
  std::vector<std::pair<std::int64_t, std::int64_t>> all{{0, 0}};
  for (std::size_t d = 0; d < transfer.dims.size(); ++d) {
    std::vector<std::pair<std::int64_t, std::int64_t>> next;
    for (const auto& [a, b] : all) {
      for (const Run& run : transfer.dims[d]) {
        for (std::int64_t i = 0; i < run.size; ++i) {
          next.emplace_back(a * src[d] + run.src + i, b * dst[d] + run.dst + i);
        }
      }
    }
    all = std::move(next);
  }
  return all;
}

/// Runs one step on all ranks; `problem` says where boxes do not cover the target.
std::vector<Local> run_step(const PlanStep& step, const std::vector<Local>& locals,
                            std::string& problem) {
  const Mesh& mesh = step.src.mesh();
  const std::vector<Coord> coords = coords_of(mesh);
  const std::optional<Fold> fold = fold_of(step);
  std::vector<Local> result;
  for (const Coord& coord : coords) {
    const std::int64_t rank = mesh.rank_of(coord);
    const Shape dst_shape = step.array_written().local_shape(coord);
    Local out(static_cast<std::size_t>(num_elements(dst_shape)), 0.0);
    if (step.in_place) out = locals[static_cast<std::size_t>(rank)];
    std::vector<std::int64_t> landed(out.size(), 0);
    const auto fill = fill_of(step, rank);
    if (fill) out.assign(out.size(), identity_of(*fill));
    std::int64_t contributors = 1;
    for (const Transfer& transfer : transfers_into(step, rank)) {
      const Coord peer = mesh.coord_of(transfer.peer).value();
      if (step.kind == PlanStep::Kind::kLocal && transfer.peer != rank) problem = "local moves";
      for (std::size_t a = 0; a < peer.size(); ++a) {
        const bool listed = std::count(step.axes.begin(), step.axes.end(), static_cast<int>(a)) > 0;
        if (peer[a] != coord[a] && !listed) problem = "a peer differs on an axis not listed";
      }
      contributors = std::max(contributors, transfer.contributor + 1);
      const auto pairs = box_indices(transfer, step.array_read().local_shape(peer), dst_shape);
      if (static_cast<std::int64_t>(pairs.size()) != transfer.num_elements() || pairs.empty()) {
        problem = "num_elements";
      }
      const Local& from = locals[static_cast<std::size_t>(transfer.peer)];
      for (const auto& [src, dst] : pairs) {
        double& element = out.at(static_cast<std::size_t>(dst));
        if (landed[static_cast<std::size_t>(dst)]++ != transfer.contributor)
          problem = "cover order";
        const double value = from.at(static_cast<std::size_t>(src));
        element = transfer.contributor == 0 ? value : fold_two(fold->op, element, value);
      }
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      const bool partly = fill || step.host;
      if (landed[i] != contributors && !(partly && landed[i] == 0)) problem = "cover";
      if (fold && landed[i] > 0) out[i] /= static_cast<double>(fold->divisor);
    }
    result.push_back(std::move(out));
  }
  return result;
}

/// transfers_from of all ranks, turned around, must be transfers_into of all ranks.
bool mirrors(const PlanStep& step) {
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
  std::map<Key, std::vector<std::vector<std::vector<Run>>>> into;
  std::map<Key, std::vector<std::vector<std::vector<Run>>>> from;
  std::size_t count = 0;
  for (std::int64_t rank = 0; rank < step.src.mesh().num_ranks(); ++rank) {
    for (const Transfer& t : transfers_into(step, rank)) {
      into[{t.peer, rank, t.contributor}].push_back(t.dims);
      ++count;
    }
    for (const Transfer& t : transfers_from(step, rank)) {
      from[{rank, t.peer, t.contributor}].push_back(t.dims);
      --count;
    }
  }
  return count == 0 && into == from;
}

/// Plans, runs and compares; the first difference as text, or "".
std::string check_plan(const Spec& src, const Spec& dst, std::mt19937& random) {
  const std::string where = src.to_string() + " to " + dst.to_string() + ": ";
  const StatusOr<Plan> made = plan(src, dst);
  if (!made.ok()) return where + std::string(message_of(made.status()));
  std::vector<Local> locals = random_locals(src, random);
  const auto expected = global_value(src, locals);
  const std::vector<Local> before = locals;
  Spec at = src;
  std::string problem;
  for (const PlanStep& step : made->steps) {
    if (step.src != at) return where + "steps do not chain";
    locals = run_step(step, locals, problem);
    if (!problem.empty()) return where + std::string(name_of(step.kind)) + " " + problem;
    if (!mirrors(step)) return where + "transfers_from is no mirror";
    at = step.dst;
  }
  if (!made->steps.empty() && at != dst) return where + "steps end elsewhere";
  const std::vector<Coord> coords = coords_of(src.mesh());
  for (std::size_t r = 0; r < coords.size(); ++r) {
    if (locals[r].size() != held(dst, coords[r]).size()) return where + "local size";
  }
  const auto reached = global_value(dst, locals);
  for (const auto& [index, value] : expected) {
    const auto at_index = reached.find(index);
    if (at_index == reached.end() || std::abs(at_index->second - value) > 1e-9 * std::abs(value)) {
      return where + "value of element " + std::to_string(index);
    }
  }
  // Replicas along axes that are not Partial hold the same.
  std::map<std::pair<Coord, std::int64_t>, double> seen;
  for (std::size_t r = 0; r < coords.size(); ++r) {
    Coord summand = coords[r];
    for (std::size_t a = 0; a < summand.size(); ++a) {
      if (!dst.layout().partial[a]) summand[a] = 0;
    }
    const auto indices = held(dst, coords[r]);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const auto [at_value, added] = seen.try_emplace({summand, indices[i]}, locals[r][i]);
      if (!added && at_value->second != locals[r][i]) return where + "replicas differ";
    }
  }
  // Without a reduction each rank receives exactly what it lacks.
  if (src.layout().partial != dst.layout().partial || made->steps.size() > 1) return "";
  for (std::size_t r = 0; r < coords.size(); ++r) {
    const auto has = held(src, coords[r]);
    std::int64_t lacks = 0;
    for (const std::int64_t index : held(dst, coords[r])) {
      lacks += std::count(has.begin(), has.end(), index) == 0 ? 1 : 0;
    }
    const std::int64_t rank = src.mesh().rank_of(coords[r]);
    if (bytes_received(*made, rank) != lacks * size_of(src.dtype())) return where + "bytes";
  }
  return "";
}

Placement random_placement(int ndim, std::mt19937& random) {
  const int dim = static_cast<int>(random() % static_cast<unsigned>(ndim));
  switch (random() % 8) {
    case 0:
    case 1:
      return Replicate{};
    case 2:
      return Partial{static_cast<ReduceOp>(random() % 5)};
    case 3:
      return Partial{};
    case 4:
      return StridedShard{dim, 2 + static_cast<std::int64_t>(random() % 3)};
    default:
      return Shard{dim};
  }
}

Spec spec_of(const Mesh& mesh, Shape shape, std::string_view placements,
             DType dtype = DType::kF64) {
  return value_or_throw(
      Spec::make(mesh, std::move(shape), dtype, value_or_throw(parse_placements(placements))));
}

std::string steps_of(const Spec& src, const Spec& dst, const PlanOptions& options = {}) {
  std::string text;
  for (const PlanStep& step : value_or_throw(plan(src, dst, options)).steps) {
    text += (text.empty() ? "" : ", ") + std::string(name_of(step.kind));
    for (const int axis : step.axes) text += " " + step.src.mesh().axis_label(axis);
  }
  return text;
}

}  // namespace

TEST_CASE("sampled plans reach the exact target on every rank", "[placement][plan]") {
  std::mt19937 random(2);
  const std::vector<Mesh> meshes = {mesh_of({2}),    mesh_of({3}),    mesh_of({4}),
                                    mesh_of({2, 2}), mesh_of({2, 3}), mesh_of({2, 2, 2})};
  int planned = 0;
  for (int round = 0; round < 12000; ++round) {
    const Mesh& mesh = meshes[random() % meshes.size()];
    const int ndim = 1 + static_cast<int>(random() % 2);
    Shape shape;
    for (int d = 0; d < ndim; ++d) shape.push_back(static_cast<std::int64_t>(random() % 8));
    Placements from;
    Placements to;
    for (int a = 0; a < mesh.ndim(); ++a) {
      from.push_back(random_placement(ndim, random));
      to.push_back(random() % 4 == 0 ? from.back() : random_placement(ndim, random));
    }
    const auto src = Spec::make(mesh, shape, DType::kF64, from);
    const auto dst = Spec::make(mesh, shape, DType::kF64, to);
    if (!src.ok() || !dst.ok()) continue;
    const auto made = plan(*src, *dst);
    if (!made.ok()) {
      REQUIRE(absl::IsUnimplemented(made.status()));
      continue;
    }
    ++planned;
    REQUIRE(check_plan(*src, *dst, random) == "");
  }
  CHECK(planned > 4000);
}

TEST_CASE("plans between layouts that no placement list says", "[placement][plan]") {
  std::mt19937 random(9);
  const std::vector<Mesh> meshes = {mesh_of({3}), mesh_of({2, 3}), mesh_of({2, 2})};
  const auto random_layout = [&](const Mesh& mesh) {
    Layout layout{{{}, {}},
                  std::vector<std::optional<ReduceOp>>(static_cast<std::size_t>(mesh.ndim()))};
    const auto small = [&] { return 1 + static_cast<std::int64_t>(random() % 4); };
    std::vector<int> axes(static_cast<std::size_t>(mesh.ndim()));
    std::iota(axes.begin(), axes.end(), 0);
    std::shuffle(axes.begin(), axes.end(), random);
    for (const int axis : axes) {
      Levels& levels = layout.dims[random() % 2];
      switch (random() % 6) {
        case 0:
          break;
        case 1:
          layout.partial[static_cast<std::size_t>(axis)] = ReduceOp::kSum;
          break;
        case 2:
          levels.push_back(Level::of_run(small()));
          [[fallthrough]];
        case 3:
          levels.push_back(Level::of_axis(axis, small()));
          break;
        default:
          levels.push_back(Level::of_block(small(), small()));
          levels.push_back(Level::of_axis(axis, small()));
      }
    }
    return layout;
  };
  for (int round = 0; round < 4000; ++round) {
    const Mesh& mesh = meshes[random() % meshes.size()];
    const Shape shape{static_cast<std::int64_t>(random() % 12),
                      static_cast<std::int64_t>(random() % 6)};
    const Spec src = value_or_throw(Spec::make(mesh, shape, DType::kF64, random_layout(mesh)));
    const Spec dst = value_or_throw(Spec::make(mesh, shape, DType::kF64, random_layout(mesh)));
    REQUIRE(check_plan(src, dst, random) == "");
  }
}

TEST_CASE("every pair of placement lists of one dim on 2x2", "[placement][plan]") {
  std::mt19937 random(4);
  const Mesh mesh = mesh_of({2, 2});
  Placements choices{Replicate{},        Shard{0},  StridedShard{0, 2},
                     StridedShard{0, 3}, Partial{}, Partial{ReduceOp::kMax}};
  std::vector<Spec> specs;
  for (const Placement& a : choices) {
    for (const Placement& b : choices) {
      const Placements list{a, b};
      for (const std::int64_t size : {0, 1, 5, 8}) {
        const auto spec = Spec::make(mesh, {size}, DType::kF64, list);
        if (spec.ok()) specs.push_back(*spec);
      }
    }
  }
  int planned = 0;
  for (const Spec& src : specs) {
    for (const Spec& dst : specs) {
      if (src.global_shape() != dst.global_shape() || !plan(src, dst).ok()) continue;
      ++planned;
      REQUIRE(check_plan(src, dst, random) == "");
    }
  }
  CHECK(planned > 2000);
}

TEST_CASE("large Partial tensors are reduced in shares and gathered", "[placement][plan]") {
  std::mt19937 random(6);
  const Mesh mesh = mesh_of({2, 2}, {"dp", "tp"});
  const Shape shape{100,
                    61};  // 48,800 bytes of F64: half of it is above the limit of the direct form
  const char* lists[] = {"P, P",      "P, S(0)", "S(1), P",    "P(max), P", "P, R",
                         "R, P(avg)", "R, R",    "S(0), S(0)", "S(1), R",   "P, P(avg)"};
  for (const char* from : lists) {
    for (const char* to : lists) {
      const Spec src = spec_of(mesh, shape, from);
      const Spec dst = spec_of(mesh, shape, to);
      if (!plan(src, dst).ok()) continue;
      REQUIRE(check_plan(src, dst, random) == "");
    }
  }
  const auto steps = [&](const char* from, const char* to) {
    return steps_of(spec_of(mesh, shape, from), spec_of(mesh, shape, to));
  };
  CHECK(steps("P, R", "R, R") == "all_reduce dp");
  CHECK(steps("P, P", "R, R") == "all_reduce dp tp");
  CHECK(steps("P, S(0)", "R, S(0)") == "all_reduce dp");
  CHECK(steps("P, S(0)", "R, R") == "reduce_scatter dp, all_gather dp tp");
  // A ring of 2 receives half of the tensor twice.
  const Plan ring =
      value_or_throw(plan(spec_of(mesh, shape, "P, R"), spec_of(mesh, shape, "R, R")));
  CHECK(bytes_received(ring, 0) == 100 * 61 * 8);
}

TEST_CASE("steps carry the names of the collectives that they equal", "[placement][plan]") {
  const Mesh mesh = mesh_of({2, 3}, {"dp", "tp"});
  const auto steps = [&](const char* from, const char* to) {
    return steps_of(spec_of(mesh, {12, 6}, from), spec_of(mesh, {12, 6}, to));
  };
  CHECK(steps("S(0), R", "S(0), R") == "");
  CHECK(steps("R, R", "S(0), S(1)") == "local");
  CHECK(steps("S(0), R", "S(0), S(0)") == "local");
  CHECK(steps("S(0), S(1)", "R, S(1)") == "all_gather dp");
  CHECK(steps("S(0), S(0)", "R, R") == "all_gather dp tp");
  CHECK(steps("S(0), S(1)", "S(0), R") == "all_gather tp");
  CHECK(steps("S(0), S(0)", "S(0), S(1)") == "all_to_all tp");
  CHECK(steps("R, S(1)", "R, S(0)") == "all_to_all tp");
  CHECK(steps("S(0), S(0)", "SS(0,3), S(0)") == "exchange dp tp");
  CHECK(steps("S(0), S(1)", "S(1), S(0)") == "exchange dp tp");
  CHECK(steps("P, S(1)", "S(0), S(1)") == "reduce_scatter dp");
  CHECK(steps("P, S(1)", "R, S(1)") == "all_reduce dp");
  CHECK(steps("R, R", "P, R") == "local");
  CHECK(steps("S(0), R", "P, R") == "local");  // shards stay in place
  CHECK(steps("S(0), S(0)", "P, R") == "all_gather tp");
  CHECK(steps("S(0), R", "P(avg), R") == "all_gather dp");
  CHECK(steps("P, S(0)", "P, R") == "all_gather tp");
  CHECK(steps("P, R", "P(max), R") == "reduce_scatter dp, local");
}

TEST_CASE("by bytes small reductions take turns, by time they take one round",
          "[placement][plan]") {
  const Mesh mesh = mesh_of({2, 3}, {"dp", "tp"});
  const Topology host = value_or_throw(topology_preset("host"));
  const auto steps = [&](const char* from, const char* to, const Topology* topology) {
    return steps_of(spec_of(mesh, {12, 6}, from), spec_of(mesh, {12, 6}, to),
                    {.topology = topology});
  };
  CHECK(steps("P, P(avg)", "R, R", nullptr) == "reduce_scatter dp tp, all_gather dp tp");
  CHECK(steps("P, P(avg)", "R, R", &host) == "all_reduce dp tp");
  CHECK(steps("P, P(max)", "R, R", nullptr) ==
        "reduce_scatter tp, reduce_scatter dp, all_gather dp tp");
  CHECK(steps("P, P(max)", "R, R", &host) == "all_reduce tp, all_reduce dp");
  CHECK(steps("P, P(max)", "P, R", &host) == "all_reduce tp");
  CHECK(steps("P, P(max)", "R, P(max)", nullptr) == "reduce_scatter tp, exchange dp");
}

TEST_CASE("R to P keeps the value on coord 0 and fills the identity elsewhere",
          "[placement][plan]") {
  const Mesh mesh = mesh_of({2, 2});
  const auto fill = [&](const char* to, std::int64_t rank) {
    const Plan made = value_or_throw(plan(spec_of(mesh, {4}, "R, R"), spec_of(mesh, {4}, to)));
    return fill_of(made.steps.at(0), rank);
  };
  CHECK(fill("P, R", 0) == std::nullopt);
  CHECK(fill("P, R", 1) == std::nullopt);
  CHECK(fill("P, R", 2) == ReduceOp::kSum);
  CHECK(fill("P(avg), P(min)", 2) == std::nullopt);  // every coord of an average keeps the value
  CHECK(fill("P(avg), P(min)", 3) == ReduceOp::kMin);
  CHECK(fill("P, P(prod)", 3) == ReduceOp::kProd);  // reduced first, so that the product is -0.0
}

TEST_CASE("a permutation over 4x4 meets the lower bound", "[placement][plan]") {
  const Mesh mesh = mesh_of({4, 4});
  const Shape shape{64, 64, 64};
  const auto fraction = [&](const char* from, const char* to) {
    const Plan made = value_or_throw(plan(spec_of(mesh, shape, from), spec_of(mesh, shape, to)));
    std::int64_t most = 0;
    for (std::int64_t rank = 0; rank < 16; ++rank) {
      most = std::max(most, bytes_received(made, rank));
    }
    return static_cast<double>(most) / (64.0 * 64 * 64 * 8);
  };
  CHECK(fraction("S(0), S(1)", "S(1), S(0)") == .0625);
  CHECK(fraction("S(0), S(0)", "R, S(0)") == .25);
  CHECK(fraction("S(0), S(0)", "S(1), S(0)") == .0625);
  CHECK(fraction("SS(0,4), S(0)", "S(0), S(0)") == .0625);
}

TEST_CASE("transfers name world ranks of a mesh that is part of the world", "[placement][plan]") {
  const Mesh world = mesh_of({2, 4}, {"dp", "tp"});
  const int axes[] = {1};
  const Mesh tp = value_or_throw(world.sub_mesh(axes, 6));  // ranks 4 to 7
  const Plan made = value_or_throw(plan(spec_of(tp, {8}, "S(0)"), spec_of(tp, {8}, "R")));
  std::set<std::int64_t> peers;
  for (const Transfer& transfer : transfers_into(made.steps.at(0), 5)) peers.insert(transfer.peer);
  CHECK(peers == std::set<std::int64_t>{4, 5, 6, 7});
  CHECK(transfers_into(made.steps.at(0), 1).empty());
  CHECK(bytes_received(made, 5) == 6 * 8);
}

TEST_CASE("plans refuse specs of different tensors", "[placement][plan]") {
  const Mesh mesh = mesh_of({2}, {"dp"});
  const auto text = [](const StatusOr<Plan>& made) {
    return std::string(message_of(made.status()));
  };
  CHECK(text(plan(spec_of(mesh, {4}, "R"), spec_of(mesh, {5}, "R"))) ==
        "redistribute: shapes differ; a redistribution changes placements only [from F64[4] (R) on "
        "{dp: 2}, to F64[5] (R) on {dp: 2}]");
  CHECK(text(plan(spec_of(mesh, {4}, "R"), spec_of(mesh, {4}, "R", DType::kF32))) ==
        "redistribute: dtypes differ; a redistribution changes placements only [from F64[4] (R) on "
        "{dp: 2}, to F32[4] (R) on {dp: 2}]");
}
