#include "tests/dtensor/outcome.h"
#include "tests/dtensor/short_placements.h"

namespace tessera::testing {
namespace {

// x + wo · attention(rope(wq·n), rope(wk·n), wv·n) with n = rms_norm(x); x (B, L, D), H heads of 4.
struct BlockData {
  Array x, norm, wq, wk, wv, wo, cos, sin;
  std::int64_t heads;
};
BlockData block_data(std::int64_t batch, std::int64_t length, std::int64_t heads) {
  const std::int64_t width = 6, inner = heads * 4;
  const auto of = [](const Shape& shape, std::uint64_t seed) {
    return random_values(shape, DType::kF64, seed);
  };
  return {of({batch, length, width}, 1),
          of({width}, 2),
          of({inner, width}, 3),
          of({inner, width}, 4),
          of({inner, width}, 5),
          of({width, inner}, 6),
          of({length, 2}, 7),
          of({length, 2}, 8),
          heads};
}

struct BlockPlacements {
  Placements x;     ///< of the residual stream (B, L, D)
  Placements norm;  ///< where the normed input is brought; empty: as it comes
  Placements wq;    ///< also wk and wv
  Placements wo;
  Placements used_wq = {}, used_wo = {};  ///< empty: as stored
};

DTensor at(const DTensor& x, const Placements& placements) {
  return placements.empty() ? x : redistribute(x, placements);
}

Outcome run_block(Rank& rank, const BlockData& data, const BlockPlacements& where) {
  const Placements whole(where.x.size(), Replicate{});
  DTensor x = rank.parameter(data.x, where.x);
  DTensor norm = rank.parameter(data.norm, whole);
  DTensor wq = rank.parameter(data.wq, where.wq);
  DTensor wk = rank.parameter(data.wk, where.wq);
  DTensor wv = rank.parameter(data.wv, where.wq);
  DTensor wo = rank.parameter(data.wo, where.wo);
  const DTensor cos = rank.distribute(data.cos, whole);
  const DTensor sin = rank.distribute(data.sin, whole);
  const DTensor n = at(rms_norm(x, norm, 1e-5), where.norm);
  const auto heads_of = [&](const DTensor& w) {
    return unflatten(linear(n, at(w, where.used_wq)), -1, {data.heads, 4});
  };
  const auto head_first = [](const DTensor& t) { return transpose(t, 1, 2); };
  const DTensor q = head_first(rope(heads_of(wq), cos, sin));
  const DTensor k = head_first(rope(heads_of(wk), cos, sin));
  const DTensor mixed = attention(q, k, head_first(heads_of(wv)), 0.5);
  const DTensor joined = flatten(transpose(mixed, 1, 2), 2, 3);
  const DTensor y = add(x, at(linear(joined, at(wo, where.used_wo)), where.x));
  const DTensor loss = sum(square(y));
  backward(loss);
  return outcome_of({{"y", y}, {"loss", loss}},
                    {{"x", x}, {"norm", norm}, {"wq", wq}, {"wk", wk}, {"wv", wv}, {"wo", wo}});
}

struct BlockCase {
  const char* name;
  Shape mesh;
  BlockPlacements where;
};
std::vector<BlockCase> block_cases() {
  std::vector<BlockCase> cases;
  for (const std::int64_t n : {2, 3, 4}) {
    cases.push_back({"heads over tp", {n}, {{R}, {}, {S(0)}, {S(1)}}});
    cases.push_back({"sequence parallel", {n}, {{S(1)}, {R}, {S(0)}, {S(1)}}});
    cases.push_back({"batch over dp", {n}, {{S(0)}, {}, {R}, {R}}});
    cases.push_back({"FSDP", {n}, {{S(0)}, {}, {S(0)}, {S(0)}, {R}, {R}}});
  }
  for (const Shape& mesh : {Shape{2, 2}, Shape{2, 3}}) {
    cases.push_back({"dp x tp", mesh, {{S(0), R}, {}, {R, S(0)}, {R, S(1)}}});
    cases.push_back({"dp x tp with SP", mesh, {{S(0), S(1)}, {S(0), R}, {R, S(0)}, {R, S(1)}}});
    cases.push_back({"FSDP over TP with SP",
                     mesh,
                     {{S(0), S(1)},
                      {S(0), R},
                      {StridedShard{0, mesh[1]}, S(0)},
                      {S(0), S(1)},
                      {R, S(0)},
                      {R, S(1)}}});
  }
  return cases;
}

}  // namespace

TEST_CASE("an attention block and its gradients equal one rank's under any placement",
          "[dtensor][attention]") {
  struct Sizes {
    std::int64_t batch, length, heads;
  };
  // Uneven: 3 rows of a batch over 2, 7 positions over 2, 3 or 4, 5 heads over 2, 3 or 4.
  for (const Sizes& sizes : {Sizes{4, 8, 12}, Sizes{3, 7, 5}}) {
    const BlockData data = block_data(sizes.batch, sizes.length, sizes.heads);
    const auto one = [&](Rank& rank) { return run_block(rank, data, {{R}, {}, {R}, {R}}); };
    const Outcome expected = run_ranks(MeshAxes{{"a", 1}}, one)[0];
    for (const BlockCase& each : block_cases()) {
      if (!runs_here(num_elements(each.mesh))) continue;
      const auto n = each.mesh.back();
      const bool heads_fit = sizes.heads % n == 0;
      // A cut of heads · 4 rows that falls inside a head is another function of the rows: it is
      // redistributed.
      CAPTURE(each.name, to_string(each.mesh), sizes.heads, heads_fit);
      const auto run = [&](Rank& rank) { return run_block(rank, data, each.where); };
      CHECK(worst_difference(run_ranks(mesh_of_shape(each.mesh), run), expected) < 1e-12);
    }
  }
}

}  // namespace tessera::testing
