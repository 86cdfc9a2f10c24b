// Ops that index, move, join and split, on real ranks: results and gradients equal one rank's
// whatever the placements, uneven and empty shards included.
#include "tests/dtensor/outcome.h"
#include "tests/dtensor/short_placements.h"

namespace tessera::testing {
namespace {

const std::vector<Shape> kMeshes = {{2}, {3}, {4}, {2, 2}};

struct Call {
  std::string op;
  std::vector<Array> operands;  ///< the first may be cut, floating ones get gradients
  Attrs attrs;
};

Array doubles(const Shape& shape, std::uint64_t seed) {
  return random_values(shape, DType::kF64, seed);
}

/// Results and the gradients of floating operands, whole.
Outcome run_call(Rank& rank, const Call& c, const Placements& first, const Placements& rest) {
  std::vector<DTensor> operands;
  Named leaves;
  for (std::size_t i = 0; i < c.operands.size(); ++i) {
    DTensor x = rank.distribute(c.operands[i], i == 0 ? first : rest);
    if (is_floating(x.dtype())) {
      x.set_requires_grad(true);
      leaves.emplace_back(std::to_string(i), x);
    }
    operands.push_back(x);
  }
  const std::vector<DTensor> results = call(rank.runtime, c.op, operands, c.attrs);
  Named named;
  DTensor loss;
  for (std::size_t i = 0; i < results.size(); ++i) {
    named.emplace_back("result " + std::to_string(i), results[i]);
    if (!is_floating(results[i].dtype())) continue;
    const DTensor part = sum(square(results[i]));
    loss = loss.defined() ? add(loss, part) : part;
  }
  if (loss.defined() && !leaves.empty()) {
    backward(loss);
  } else {
    leaves.clear();
  }
  // Of expand_as's second operand only the shape counts.
  std::erase_if(leaves, [&](const auto& leaf) {
    return c.op == "expand_as" && leaf.first == "1" && !leaf.second.grad().defined();
  });
  return outcome_of(named, leaves);
}

std::vector<Call> moving_calls() {
  const Array x = doubles({7, 5}, 1);
  return {{"roll", {x}, {{"shifts", Shape{3, -1}}, {"dims", Shape{0, 1}}}},
          {"flip", {x}, {{"dims", Shape{0, 1}}}},
          {"rot90", {x}, {{"k", 1}, {"dims", Shape{0, 1}}}},
          {"repeat", {x}, {{"repeats", Shape{2, 3, 1}}}},
          {"tile", {x}, {{"dims", Shape{3}}}},
          {"repeat_interleave", {x}, {{"repeats", 3}, {"dim", 0}}},
          {"unfold", {x}, {{"dimension", 0}, {"size", 3}, {"step", 2}}},
          {"slice", {x}, {{"dim", 0}, {"start", 1}, {"end", 7}, {"step", 2}}},
          {"narrow", {x}, {{"dim", -1}, {"start", 1}, {"length", 3}}},
          {"select", {x}, {{"dim", 0}, {"index", -2}}},
          {"unbind", {x}, {{"dim", 0}}},
          {"split", {x}, {{"split_size", 3}, {"dim", 0}}},
          {"split_with_sizes", {x}, {{"split_sizes", Shape{0, 4, 1}}, {"dim", 1}}},
          {"chunk", {x}, {{"chunks", 3}, {"dim", 0}}},
          {"tensor_split", {x}, {{"sections", 3}, {"dim", 0}}},
          {"cat", {x, doubles({2, 5}, 2), doubles({4, 5}, 3)}, {{"dim", 0}}},
          {"stack", {x, doubles({7, 5}, 2)}, {{"dim", 1}}},
          {"vstack", {x, doubles({2, 5}, 2)}, {}},
          {"tril", {x}, {{"diagonal", 1}}},
          {"triu", {x}, {{"diagonal", -1}}},
          {"diagonal", {x}, {{"offset", -1}, {"dim1", 0}, {"dim2", 1}}},
          {"diag_embed", {x}, {}},
          {"slice_scatter", {x, doubles({3, 5}, 2)}, {{"dim", 0}, {"start", 1}, {"step", 2}}},
          {"reshape", {x}, {{"shape", Shape{35}}}},
          {"movedim", {x}, {{"source", Shape{0}}, {"destination", Shape{1}}}},
          {"expand_as", {doubles({7, 1}, 4), x}, {}}};
}

std::vector<Call> indexing_calls() {
  const Array x = doubles({7, 5}, 1);
  const Array rows = random_integers({9}, 7, 2), columns = random_integers({9}, 5, 3);
  const Array spread = random_integers({7, 4}, 5, 4);
  std::vector<Call> calls = {
      {"index", {x, rows}, {}},
      {"index", {x, rows, columns}, {}},
      {"index", {x, columns}, {{"dims", Shape{1}}}},
      {"index_put", {x, doubles({9}, 5), rows, columns}, {{"accumulate", true}}},
      {"take_along_dim", {x, spread}, {{"dim", 1}}},
      {"take", {x, random_integers({4, 3}, 35, 5)}, {}},
      {"put", {x, rows, doubles({9}, 6)}, {{"accumulate", true}}},
      {"index_copy", {x, unique_rows({4}, 7, 3), doubles({4, 5}, 7)}, {{"dim", 0}}},
      {"index_fill", {x, rows}, {{"dim", 0}, {"value", 0.5}}},
      {"embedding_bag",
       {x, rows, Array::from_values({3}, DType::kI64, std::vector<double>{0, 4, 4})},
       {{"mode", 1}}},
      {"one_hot", {rows}, {{"num_classes", 7}}},
      {"bincount", {rows, doubles({9}, 8)}, {{"minlength", 8}}}};
  for (const std::string reduce : {"sum", "prod", "mean", "amax", "amin"}) {
    for (const bool include : {true, false}) {
      calls.push_back({"scatter_reduce",
                       {x, spread, doubles({7, 4}, 9)},
                       {{"dim", 1}, {"reduce", reduce}, {"include_self", include}}});
    }
  }
  return calls;
}

void check_calls(const std::vector<Call>& calls) {
  for (const Call& c : calls) {
    const Outcome expected =
        run_ranks(mesh_of_shape({1}), [&](Rank& rank) { return run_call(rank, c, {R}, {R}); })[0];
    for (const Shape& sizes : kMeshes) {
      if (!runs_here(num_elements(sizes))) continue;
      for (int dim = -1; dim < c.operands[0].ndim(); ++dim) {
        const Placement first = dim < 0 ? Placement(R) : Placement(S(dim));
        for (const Placement& rest : {Placement(R), Placement(S(0))}) {
          if (c.operands.size() == 1 && rest != Placement(R)) continue;
          CAPTURE(c.op, c.attrs.to_string(), to_string(sizes), to_string(first), to_string(rest));
          const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
            return run_call(rank, c, Placements(sizes.size(), first),
                            Placements(sizes.size(), rest));
          });
          CHECK(worst_difference(ranks, expected) < 1e-13);
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("ops that move, join and split equal one rank's, gradients too", "[dtensor][moves]") {
  check_calls(moving_calls());
}

TEST_CASE("ops addressed by indices equal one rank's, gradients too", "[dtensor][index][host]") {
  check_calls(indexing_calls());
}

TEST_CASE("scatter_ on a cut addressed dim keeps operand order: the last of equal indices wins",
          "[dtensor][scatter][rules][15]") {
  const Array self = doubles({5, 3}, 1), src = doubles({12, 3}, 2);
  const Array index = random_integers({12, 3}, 5, 3);
  std::vector<double> expected = self.to_vector();
  const std::vector<double> at = index.to_vector(), from = src.to_vector();
  for (std::size_t i = 0; i < at.size(); ++i) {
    expected[static_cast<std::size_t>(at[i]) * 3 + i % 3] = from[i];
  }
  for (const Shape& sizes : kMeshes) {
    if (!runs_here(num_elements(sizes))) continue;
    CAPTURE(to_string(sizes));
    const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
      const Placements cut(sizes.size(), S(0)), whole(sizes.size(), R);
      DTensor x = rank.distribute(self, cut);
      rank.runtime.events().clear();
      scatter_(x, 0, rank.distribute(index, whole), rank.distribute(src, whole));
      const std::int64_t bytes = rank.bytes_received();
      return std::tuple{full_tensor(x).to_vector(), value_or_throw(x.spec().placements()), bytes};
    });
    for (const auto& [values, placements, bytes] : ranks) {
      CHECK(values == expected);
      CHECK(placements == Placements(sizes.size(), S(0)));
      CHECK(bytes == 0);
    }
  }
}

TEST_CASE("a slice of a cut dim fetches its share and nothing else", "[dtensor][slice]") {
  if (!runs_here(4)) return;
  const Array full = doubles({64, 2}, 1);
  const auto ranks = run_ranks(mesh_of_shape({4}), [&](Rank& rank) {
    const DTensor x = rank.distribute(full, {S(0)});
    rank.runtime.events().clear();
    const DTensor y = slice(x, 0, 4, 64);
    return std::tuple{value_or_throw(y.spec().placements()), rank.bytes_received(),
                      full_tensor(y).to_vector()};
  });
  std::vector<double> expected = full.to_vector();
  expected.erase(expected.begin(), expected.begin() + 8);
  // 60 rows over 4 ranks: rank r holds rows [4 + 15r, 19 + 15r) of x, of which it has all but
  // 3, 2, 1 and 0 rows behind its own 16.
  const std::int64_t row_bytes = 2 * size_of(DType::kF64);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const auto& [placements, bytes, values] = ranks[r];
    CHECK(placements == Placements{S(0)});
    CHECK(values == expected);
    CHECK(bytes == row_bytes * (3 - static_cast<std::int64_t>(r)));
  }
}

TEST_CASE("an index outside its dim is named with its position", "[dtensor][index][host]") {
  const Array full = doubles({6, 2}, 1);
  const Array wrong = Array::from_values({3}, DType::kI64, std::vector<double>{0, -6, 6});
  const Shape sizes = {runs_here(2) ? 2 : 1};
  const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
    const DTensor operands[] = {rank.distribute(full, {S(0)}), rank.distribute(wrong, {R})};
    return error_of([&] { call(rank.runtime, "index", operands, {}); });
  });
  for (const std::string& text : ranks) {
    CHECK(text == "index: an index holds 6 at position 2; dim 0 allows -6 … 5");
  }
}

}  // namespace tessera::testing
