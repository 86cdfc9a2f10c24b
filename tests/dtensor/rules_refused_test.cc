// Where others fail on some ranks only, or refuse what is sound: empty shards, dims given as none,
// uneven views, redistribution between layouts that others cannot name.
#include <limits>

#include "dtensor/local_map.h"
#include "tests/dtensor/rules.h"
#include "tests/dtensor/short_placements.h"

namespace tessera::testing {
namespace {

using Strings = std::vector<std::string>;
const std::vector<Placement> kCuts = {R, S(0), S(1)};
const std::vector<Placement> kAll = {R, S(0), S(1), Partial{ReduceOp::kSum},
                                     Partial{ReduceOp::kAvg}};
constexpr double kInf = std::numeric_limits<double>::infinity();

Array f64(Shape shape, std::vector<double> values) {
  return Array::from_values(shape, DType::kF64, values);
}
/// Five rows: over four ranks the last one holds none.
const Array kFive = f64({5, 2}, {2, -7, 3, 4, -9, 2, 1, 8, -2, 1});

}  // namespace

TEST_CASE("reductions over an empty shard use the identity of their kind", "[dtensor][rules][12]") {
  const Shape rows = {0};
  CHECK(wrong_results({"amax", {kFive}, {{"dim", rows}}, {{3, 8}}}, kAll) == Strings{});
  CHECK(wrong_results({"amin", {kFive}, {{"dim", rows}}, {{-9, -7}}}, kAll) == Strings{});
  CHECK(wrong_results({"argmax", {kFive}, {{"dim", 0}}, {{1, 3}}}, kCuts) == Strings{});
  CHECK(wrong_results({"argmin", {kFive}, {{"dim", 0}}, {{2, 0}}}, kCuts) == Strings{});
  CHECK(wrong_results({"max_dim", {kFive}, {{"dim", 0}}, {{3, 8}, {1, 3}}}, kCuts) == Strings{});
  CHECK(wrong_results({"linalg_vector_norm", {kFive}, {{"ord", kInf}, {"dim", rows}}, {{9, 8}}},
                      kCuts) == Strings{});
  CHECK(wrong_results({"linalg_vector_norm", {kFive}, {{"ord", -kInf}, {"dim", rows}}, {{1, 1}}},
                      kCuts) == Strings{});
  const std::vector<double> soft = [] {
    std::vector<double> values = kFive.to_vector();
    for (std::size_t j = 0; j < 2; ++j) {
      double sum = 0.0;
      for (std::size_t i = 0; i < 5; ++i) sum += std::exp(values[i * 2 + j]);
      for (std::size_t i = 0; i < 5; ++i) values[i * 2 + j] = std::exp(values[i * 2 + j]) / sum;
    }
    return values;
  }();
  CHECK(wrong_results({"softmax", {kFive}, {{"dim", 0}}, {soft}}, kCuts) == Strings{});
}

TEST_CASE("an embedding from an empty shard, and of ids that are cut", "[dtensor][rules][13]") {
  const Array weight = f64({3, 2}, {1, 2, 3, 4, 5, 6});  // over four ranks one holds no row
  const Array ids = Array::from_values({2, 3}, DType::kI64, std::vector<double>{2, 0, 1, 1, 2, 0});
  const std::vector<double> rows = {5, 6, 1, 2, 3, 4, 3, 4, 5, 6, 1, 2};
  for (const Placement& of_ids : kCuts) {
    CHECK(wrong_results({"embedding", {weight, ids}, {}, {rows}}, kCuts, of_ids) == Strings{});
  }
}

TEST_CASE("an empty list of dims means all of them", "[dtensor][rules][14]") {
  const Shape none = {};
  double sum = 0, squares = 0;
  for (const double x : kFive.to_vector()) {
    sum += x;
    squares += x * x;
  }
  const double mean = sum / 10, var = (squares - sum * mean) / 9;
  CHECK(wrong_results({"sum", {kFive}, {{"dim", none}}, {{sum}}}, kAll) == Strings{});
  CHECK(wrong_results({"mean", {kFive}, {{"dim", none}}, {{mean}}}, kAll) == Strings{});
  CHECK(wrong_results({"var", {kFive}, {{"dim", none}}, {{var}}}, kAll) == Strings{});
  CHECK(wrong_results({"std", {kFive}, {{"dim", none}}, {{std::sqrt(var)}}}, kAll) == Strings{});
  CHECK(wrong_results({"linalg_vector_norm", {kFive}, {{"dim", none}}, {{std::sqrt(squares)}}},
                      kAll) == Strings{});
}

TEST_CASE("views and unbind of uneven and nested shards keep every element",
          "[dtensor][rules][14]") {
  const Array x = random_values({8, 3}, DType::kF64, 1),
              odd = random_values({5, 3}, DType::kF64, 2);
  CHECK(wrong_results({"view", {x}, {{"size", Shape{2, 4, 3}}}, {x.to_vector()}}, kAll) ==
        Strings{});
  CHECK(wrong_results({"flatten", {odd}, {}, {odd.to_vector()}}, kAll) == Strings{});
  CHECK(wrong_results({"reshape", {odd}, {{"shape", Shape{3, 5}}}, {odd.to_vector()}}, kAll) ==
        Strings{});
  const std::vector<double> v = odd.to_vector();
  std::vector<std::vector<double>> rows, columns(3);
  for (std::size_t i = 0; i < 5; ++i) rows.push_back({v[i * 3], v[i * 3 + 1], v[i * 3 + 2]});
  for (std::size_t i = 0; i < 15; ++i) columns[i % 3].push_back(v[i]);
  CHECK(wrong_results({"unbind", {odd}, {{"dim", 0}}, rows}, kAll) == Strings{});
  CHECK(wrong_results({"unbind", {odd}, {{"dim", 1}}, columns}, kAll) == Strings{});
}

TEST_CASE("every move of one tensor between layouts of a mesh keeps its elements",
          "[dtensor][rules][5][16]") {
  if (!runs_here(4)) return;
  const std::vector<Placement> places = {R, S(0), S(1), StridedShard{0, 2}};
  std::vector<Placements> layouts;
  for (const Placement& a : places) {
    for (const Placement& b : places) layouts.push_back({a, b});
  }
  for (const Shape& shape : {Shape{8, 8}, Shape{5, 3}}) {
    const Array full = random_values(shape, DType::kF64, 1);
    const auto ranks = run_ranks(mesh_of_shape({2, 2}), [&](Rank& rank) {
      Strings wrong;
      for (const Placements& from : layouts) {
        for (const Placements& to : layouts) {
          const std::string pair = to_string(from) + " to " + to_string(to);
          const StatusOr<Spec> source = Spec::make(rank.mesh, shape, DType::kF64, from);
          const StatusOr<Spec> target = Spec::make(rank.mesh, shape, DType::kF64, to);
          if (!source.ok() || !target.ok()) {
            wrong.push_back(pair + " is no layout");
            continue;
          }
          const DTensor x = distribute(rank.runtime, full, *source);
          const DTensor y = redistribute(x, to);
          const Array mine = distribute(rank.runtime, full, *target).local();
          if (!same_bits(y.local(), mine)) wrong.push_back(pair);
          if (!same_bits(full_tensor(y), full)) wrong.push_back(pair + " and back");
        }
      }
      return wrong;
    });
    for (const Strings& wrong : ranks) CHECK(wrong == Strings{});
  }
}

TEST_CASE("Partials of one kind become those of another, and of a replica",
          "[dtensor][rules][16]") {
  const Array x = f64({2, 3}, {3, -2, 1, 0.5, -4, 2});
  const std::vector<ReduceOp> kinds = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax,
                                       ReduceOp::kMin, ReduceOp::kProd};
  for (const Shape& sizes : kRuleMeshes) {
    if (!runs_here(num_elements(sizes))) continue;
    const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
      const auto axes = static_cast<std::size_t>(rank.mesh.ndim());
      Strings wrong;
      std::vector<Placement> places = {R, S(0), S(1)};
      for (const ReduceOp kind : kinds) places.push_back(Partial{kind});
      for (const Placement& from : places) {
        for (const Placement& to : places) {
          const DTensor y = redistribute(placed(rank, x, from), Placements(axes, to));
          if (close(full_tensor(y).to_vector(), x.to_vector())) continue;
          wrong.push_back(to_string(from) + " to " + to_string(to) + " on " + to_string(sizes));
        }
      }
      return wrong;
    });
    for (const Strings& wrong : ranks) CHECK(wrong == Strings{});
  }
}

TEST_CASE("(5,3) as (S(0), S(0)): flattened, through local_map and between meshes",
          "[dtensor][rules][6][7][16]") {
  if (!runs_here(4)) return;
  const Array full = random_values({5, 3}, DType::kF64, 7);
  const auto ranks = run_ranks(mesh_of_shape({2, 2}), [&](Rank& rank) {
    const DTensor x = rank.distribute(full, {S(0), S(0)});
    const Mesh flat = value_or_throw(rank.mesh.flatten(0, 2, "all"));
    const Placements rows = {S(0)};
    const DTensor on_flat = redistribute(x, flat, rows);
    const bool split =
        on_flat.local().size(0) ==
        std::vector<std::int64_t>{2, 2, 1, 0}[static_cast<std::size_t>(rank.index())];
    const DTensor back = from_local(to_local(x), rank.mesh, Placements{S(0), S(0)}, {5, 3});
    const LocalArg args[] = {{.name = "x", .tensor = x, .placements = {S(0), S(0)}}};
    const LocalResult results[] = {
        {.name = "y", .mesh = rank.mesh, .placements = {S(0), S(0)}, .global_shape = {5, 3}}};
    const DTensor twice = local_map(
        rank.runtime, "twice", args, results,
        [](const LocalInputs& in) { return std::vector<DTensor>{add(in["x"], in["x"])}; })[0];
    return std::tuple{split, copy_of(full_tensor(on_flat)), copy_of(full_tensor(back)),
                      full_tensor(twice).to_vector()};
  });
  std::vector<double> doubled = full.to_vector();
  for (double& value : doubled) value *= 2;
  for (const auto& [split, on_flat, back, twice] : ranks) {
    CHECK(split);
    CHECK(same_bits(on_flat, full));
    CHECK(same_bits(back, full));
    CHECK(twice == doubled);
  }
}

}  // namespace tessera::testing
