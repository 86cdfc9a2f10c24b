#include "dtensor/local_map.h"
#include "tests/dtensor/outcome.h"
#include "tests/dtensor/short_placements.h"

namespace tessera::testing {
namespace {

/// The error of `body` on each rank; equal on all, or "ranks differ".
template <class F>
std::string error_on_ranks(const MeshAxes& axes, F body) {
  const auto texts = run_ranks(axes, [&](Rank& rank) { return error_of([&] { body(rank); }); });
  for (const std::string& each : texts) {
    if (each != texts[0]) return "ranks differ: " + texts[0] + " / " + each;
  }
  return texts[0];
}

const MeshAxes kTp2 = {{"tp", 2}};

}  // namespace

TEST_CASE("to_local of a replicated tensor without a stated gradient placement is refused",
          "[dtensor][border][C22]") {
  const std::string text = error_on_ranks(kTp2, [](Rank& rank) {
    to_local(rank.parameter(random_values({4, 6}, DType::kF32), {R}).set_name("gate"));
  });
  CHECK(text ==
        "to_local: gate is R on axis tp and needs a gradient, so the placement of its cotangent "
        "there must be stated: P "
        "if each rank goes on with other data (the cotangents are then summed over tp), R if each "
        "rank computes the same "
        "from it (the cotangents are then equal). [F32[4, 6] (R) on {tp: 2}]");
  // Nothing to state: no gradient, gradients off, an axis of one rank.
  CHECK(error_on_ranks(kTp2, [](Rank& rank) {
          to_local(rank.distribute(random_values({4}, DType::kF32), {R}));
        }) == "");
  CHECK(error_on_ranks({{"tp", 1}}, [](Rank& rank) {
          to_local(rank.parameter(random_values({4}, DType::kF32), {R}));
        }) == "");
}

TEST_CASE("forcing P on a sharded weight is refused", "[dtensor][border][C20]") {
  const std::string text = error_on_ranks(kTp2, [](Rank& rank) {
    to_local(rank.parameter(random_values({4, 6}, DType::kF32), {S(0)}).set_name("w1_EFD"), {P});
  });
  CHECK(text ==
        "to_local: w1_EFD is S(0) on axis tp: its cotangent is S(0) like it, but P(sum) is stated, "
        "which would add the "
        "gradients of different shards; leave it out, or state it on the axis along which the data "
        "is replicated. "
        "[F32[4, 6] (S(0)) on {tp: 2}]");
}

TEST_CASE("to_local takes only the cotangents that the forward placement allows",
          "[dtensor][border]") {
  if (!runs_here(2)) return;
  const auto error = [](const Placement& placed, const Placement& stated) {
    return error_on_ranks(kTp2, [&](Rank& rank) {
      to_local(rank.parameter(random_values({4, 6}, DType::kF32), {placed}), {stated});
    });
  };
  CHECK(error(S(0), S(0)) == "");
  CHECK(error(S(0), S(-2)) == "");
  CHECK(error(R, P) == "");
  CHECK(error(R, R) == "");
  CHECK(error(P, R) == "");
  CHECK(error(S(0), S(1)) ==
        "to_local: the tensor is S(0) on axis tp: its cotangent is S(0) like it, but S(1) is "
        "stated; leave it out. "
        "[F32[4, 6] (S(0)) on {tp: 2}]");
  CHECK(error(R, S(0)) ==
        "to_local: the tensor is R on axis tp: its cotangent may be stated as P or R, not S(0). "
        "[F32[4, 6] (R) on {tp: 2}]");
  CHECK(error(P, P) ==
        "to_local: the tensor is P(sum) on axis tp: its cotangent is R (every summand has the same "
        "one), but P(sum) is "
        "stated. [F32[4, 6] (P(sum)) on {tp: 2}]");
  CHECK(error(Partial{ReduceOp::kMax}, R) ==
        "to_local: the tensor is P(max) on axis tp: only P(sum) has a cotangent that each rank can "
        "use; redistribute it to "
        "R or S first. [F32[4, 6] (P(max)) on {tp: 2}]");
}

TEST_CASE("from_local checks uneven shards against the layout", "[dtensor][border]") {
  // Five rows over four ranks: 2, 2, 1, 0. Each rank knows the global shape.
  run_ranks(MeshAxes{{"dp", 4}}, [](Rank& rank) {
    const std::int64_t rows[] = {2, 2, 1, 0};
    const Array local = Array::zeros({rows[rank.index()], 3}, DType::kF32);
    const DTensor x = from_local(here(rank.runtime, local), rank.mesh, Placements{S(0)}, {5, 3});
    throw_if_error(full_tensor(x).shape() == Shape{5, 3} ? Status() : internal_error("shape"));
  });
  SUCCEED();
}

TEST_CASE("from_local names the rank whose part does not fit", "[dtensor][border]") {
  const auto texts = run_ranks(kTp2, [](Rank& rank) {
    const DTensor local = here(rank.runtime, Array::zeros({2, 3}, DType::kF32));
    return error_of([&] { from_local(local, rank.mesh, Placements{S(0)}, {3, 3}); });
  });
  CHECK(texts[0] == "");
  CHECK(texts[1] ==
        "from_local: rank 1 holds [2, 3], but its part of F32[3, 3] (S(0)) on {tp: 2} is [1, 3]");
}

TEST_CASE("a region that declares P(sum) and receives R fails naming all four",
          "[dtensor][local_map][C3][C68]") {
  if (!runs_here(2)) return;
  const auto region = [](Rank& rank, const Placements& got) {
    const DTensor counts = rank.distribute(random_integers({8}, 5), got);
    const LocalArg args[] = {{"counts_E", counts, {P}}};
    const LocalResult results[] = {{"sum", rank.mesh, {P}, {8}}};
    const LocalFn same = [](const LocalInputs& in) { return std::vector<DTensor>{in["counts_E"]}; };
    local_map(rank.runtime, "experts", args, results, same);
  };
  CHECK(error_on_ranks(kTp2, [&](Rank& rank) { region(rank, {P}); }) == "");
  CHECK(error_on_ranks(kTp2, [&](Rank& rank) { region(rank, {R}); }) ==
        "local_map experts: argument counts_E: got (R), expected (P(sum)); redistribute it, or "
        "declare the argument with "
        "OnMismatch::kRedistribute. [I64[8] (R) on {tp: 2}]");
  // On an axis of one rank S, P and R are the same.
  CHECK(error_on_ranks({{"tp", 1}}, [&](Rank& rank) { region(rank, {R}); }) == "");
}

TEST_CASE("local_map refuses repeated and missing names and a wrong number of results",
          "[dtensor][local_map][C67]") {
  if (!runs_here(2)) return;
  const auto error = [](std::vector<std::string> names, std::size_t returned) {
    return error_on_ranks(kTp2, [&](Rank& rank) {
      std::vector<LocalArg> args;
      for (const std::string& name : names) {
        args.push_back({name, rank.distribute(random_values({4}, DType::kF32), {S(0)}), {S(0)}});
      }
      const LocalResult results[] = {{"y", rank.mesh, {S(0)}, {4}}};
      local_map(rank.runtime, "mix", args, results, [&](const LocalInputs& in) {
        for (const std::string& name : names) in[name];
        return std::vector<DTensor>(returned, in[names[0]]);
      });
    });
  };
  CHECK(error({"a", "b"}, 1) == "");
  CHECK(error({"a", "a"}, 1) == "local_map mix: argument a is declared twice");
  CHECK(error({"a", ""}, 1) == "local_map mix: argument 1 has no name");
  CHECK(error({"a"}, 2) == "local_map mix: the region returned 2 results, 1 are declared");
}

TEST_CASE("a region reads what is declared by its name, no more and no less",
          "[dtensor][local_map][C67]") {
  if (!runs_here(2)) return;
  const auto error = [](const std::vector<std::string>& read) {
    return error_on_ranks(kTp2, [&](Rank& rank) {
      const DTensor x = rank.distribute(random_values({4}, DType::kF32), {S(0)});
      const DTensor counts = rank.distribute(random_integers({4}, 5), {P});
      const LocalArg args[] = {{"x_BLD", x, {S(0)}}, {"counts_E", counts, {P}}};
      const LocalResult results[] = {{"y", rank.mesh, {S(0)}, {4}}};
      local_map(rank.runtime, "experts", args, results, [&](const LocalInputs& in) {
        DTensor y;
        for (const std::string& name : read) {
          const DTensor& each = in[name];
          if (name != "counts_E") y = each;
        }
        return std::vector<DTensor>{y};
      });
    });
  };
  CHECK(error({"x_BLD", "counts_E"}) == "");
  CHECK(error({"x", "counts_E"}) ==
        "local_map experts: the region reads the argument x, which is not declared; declared are "
        "x_BLD, counts_E");
  CHECK(error({"x_BLD"}) ==
        "local_map experts: argument counts_E is declared, but the region does not read it; leave "
        "it out");
}

TEST_CASE("placements that leave an axis of the mesh out are refused, not filled in",
          "[dtensor][local_map][C68]") {
  if (!runs_here(4)) return;
  const MeshAxes axes = {{"dp", 2}, {"tp", 2}};
  const auto declare = [](Rank& rank, const Placements& x_placements, const Placements& out) {
    const DTensor x = rank.distribute(random_values({4, 6}, DType::kF32), {S(0), R});
    const LocalArg args[] = {{"x", x, x_placements}};
    const LocalResult results[] = {{"y", rank.mesh, out, {4, 6}}};
    local_map(rank.runtime, "experts", args, results,
              [](const LocalInputs& in) { return std::vector<DTensor>{in["x"]}; });
  };
  const auto error = [&](const Placements& x_placements, const Placements& out) {
    return error_on_ranks(axes, [&](Rank& rank) { declare(rank, x_placements, out); });
  };
  const Placements whole = {S(0), R};
  CHECK(error(whole, whole) == "");
  // What is left out is R in truth, so that filling it in would go unnoticed.
  CHECK(error({S(0)}, whole) ==
        "local_map experts: argument x: 1 placements are declared for a mesh of 2 axes. [F32[4, 6] "
        "(S(0), R) on {dp: 2, tp: 2}]");
  CHECK(error({S(0), R, R}, whole) ==
        "local_map experts: argument x: 3 placements are declared for a mesh of 2 axes. [F32[4, 6] "
        "(S(0), R) on {dp: 2, tp: 2}]");
  CHECK_THAT(error(whole, {S(0)}),
             Catch::Contains("local_map experts: result y: ") &&
                 Catch::Contains("1 given, but the mesh has 2 axes; give one per axis"));
  // A cotangent's placement too.
  CHECK_THAT(error_on_ranks(
                 axes,
                 [](Rank& rank) {
                   to_local(rank.parameter(random_values({4, 6}, DType::kF32), {S(0), R}), {S(0)});
                 }),
             Catch::Contains("to_local: ") && Catch::Contains("2 axes"));
}

TEST_CASE("an argument may ask for its redistribution", "[dtensor][local_map]") {
  const Array full = random_values({5, 3}, DType::kF64);
  const auto ranks = run_ranks(MeshAxes{{"tp", 3}}, [&](Rank& rank) {
    DTensor x = rank.parameter(full, {R});
    const LocalArg args[] = {{"x", x, {S(0)}, {}, OnMismatch::kRedistribute}};
    const LocalResult results[] = {{"y", rank.mesh, {S(0)}, {5, 3}}};
    const DTensor y = local_map(rank.runtime, "double", args, results, [](const LocalInputs& in) {
      return std::vector<DTensor>{mul(in["x"], 2.0)};
    })[0];
    backward(sum(mul(y, y)));
    return outcome_of({{"y", y}}, {{"x", x}});
  });
  std::vector<double> y = full.to_vector(), grad = y;
  for (double& each : y) each *= 2;
  for (double& each : grad) each *= 8;
  const Outcome expected = {{"y", Array::from_values({5, 3}, DType::kF64, y)},
                            {"grad.x", Array::from_values({5, 3}, DType::kF64, grad)}};
  CHECK(worst_difference(ranks, expected) < 1e-14);
}

TEST_CASE("the cotangent of a region's input is summed where each rank saw other data",
          "[dtensor][local_map][C17][C22]") {
  // Tokens replicated over tp; each rank takes its own slice of them, and weights them by a
  // replicated gate. The gate's and the tokens' gradients are those of one rank only if the slice's
  // backward communicates.
  const Array tokens = random_values({6, 4}, DType::kF64, 1),
              gate = random_values({4}, DType::kF64, 2);
  const auto body = [&](Rank& rank) {
    DTensor x = rank.parameter(tokens, {R});
    DTensor g = rank.parameter(gate, {R});
    const std::int64_t share = 6 / rank.mesh.size(0), first = rank.index() * share;
    const LocalArg args[] = {{"x", x, {R}, {P}}, {"g", g, {R}, {P}}};
    const LocalResult results[] = {{"loss", rank.mesh, {P}, {}}};
    const DTensor loss =
        local_map(rank.runtime, "slice", args, results, [&](const LocalInputs& in) {
          const DTensor mine = slice(in["x"], 0, first, first + share);
          return std::vector<DTensor>{sum(square(mul(mine, in["g"])))};
        })[0];
    backward(loss);
    return outcome_of({{"loss", loss}}, {{"x", x}, {"g", g}});
  };
  const Outcome expected = run_ranks(MeshAxes{{"tp", 1}}, body)[0];
  for (const std::int64_t n : {2, 3}) {
    if (!runs_here(n)) continue;
    const auto ranks = run_ranks(MeshAxes{{"tp", n}}, body);
    CHECK(worst_difference(ranks, expected) < 1e-13);
    for (const Outcome& each : ranks) CHECK(same_bits(each.at("grad.g"), ranks[0].at("grad.g")));
  }
}

TEST_CASE("a reinterpretation between views of the same ranks is checked by index sets",
          "[dtensor][reinterpret]") {
  const Array full = random_values({8, 3}, DType::kF64);
  const auto ranks = run_ranks(MeshAxes{{"dp", 2}, {"tp", 2}}, [&](Rank& rank) {
    const Mesh sparse = make_mesh({{"ep", 4}});
    DTensor x = rank.parameter(full, {S(0), S(0)});
    const DTensor y =
        reinterpret(x, value_or_throw(Spec::make(sparse, {8, 3}, DType::kF64, Placements{S(0)})));
    backward(sum(square(y)));
    const DTensor crossed = rank.distribute(full, {StridedShard{0, 2}, S(0)});
    const std::string refused = error_of([&] {
      reinterpret(crossed,
                  value_or_throw(Spec::make(sparse, {8, 3}, DType::kF64, Placements{S(0)})));
    });
    return std::pair{outcome_of({{"y", y}}, {{"x", x}}), refused};
  });
  for (const auto& [outcome, refused] : ranks) {
    CHECK(max_difference(outcome.at("y"), full) == 0.0);
    CHECK(refused ==
          "reinterpret: rank 1 holds other indices of dim 0; redistribute instead. [F64[8, 3] "
          "(SS(0,2), S(0)) on {dp: 2, "
          "tp: 2} as F64[8, 3] (S(0)) on {ep: 4}]");
  }
}

TEST_CASE("local collectives have gradients", "[dtensor][local_collectives]") {
  // Rank r sends r + c + 1 rows to rank c; the sum of squares does not care where a row lies.
  const auto ranks = run_ranks(MeshAxes{{"ep", 3}}, [](Rank& rank) {
    std::vector<std::int64_t> send, receive;
    std::int64_t rows = 0;
    for (std::int64_t c = 0; c < 3; ++c) {
      send.push_back(rank.index() + c + 1);
      receive.push_back(c + rank.index() + 1);
      rows += send.back();
    }
    const AxisGroup group{rank.mesh, {0}};
    const Array values =
        random_values({rows, 2}, DType::kF64, static_cast<std::uint64_t>(rank.index()) + 5);
    DTensor x = here(rank.runtime, values).set_requires_grad(true);
    backward(sum(square(all_to_all_v(x, send, receive, group))));
    double worst = max_difference(x.grad().local(), mul(x.detach(), 2.0).local());
    // The sum of all ranks' x0, used alike on all ranks: cotangent R; used on other data: summed.
    DTensor z = here(rank.runtime, random_values({2}, DType::kF64, 9)).set_requires_grad(true);
    backward(sum(square(all_reduce_sum(z, group, SumGradient::kReplicated))));
    worst = std::max(worst, max_difference(z.grad().local(), mul(z.detach(), 6.0).local()));
    z.clear_grad();
    backward(sum(mul(all_reduce_sum(z, group, SumGradient::kPartial),
                     1.0 + static_cast<double>(rank.index()))));
    worst = std::max(
        worst, max_difference(z.grad().local(),
                              Array::from_values({2}, DType::kF64, std::vector<double>{6, 6})));
    // Gathered rows weighted by rank + 1: the gradient adds 1 + 2 + 3.
    DTensor t =
        here(rank.runtime, random_values({rank.index(), 2}, DType::kF64)).set_requires_grad(true);
    const std::int64_t counts[] = {0, 1, 2};
    const DTensor all = all_gather_rows(t, counts, group);
    backward(sum(mul(all, 1.0 + static_cast<double>(rank.index()))));
    for (const double each : t.grad().local().to_vector())
      worst = std::max(worst, std::abs(each - 6.0));
    return all.global_shape() == Shape{3, 2} ? worst : 1.0;
  });
  for (const double worst : ranks) CHECK(worst < 1e-14);
}

TEST_CASE("checked mode finds replicas that differ", "[dtensor][checked]") {
  if (!runs_here(3)) return;
  const auto error = [](CheckedMode mode) {
    return error_on_ranks({{"tp", 3}}, [mode](Rank& rank) {
      rank.runtime.checked = mode;
      const double mine = rank.index() == 2 ? 1.5 : 1.0;
      const Array value = Array::from_values({1}, DType::kF32, std::vector<double>{mine});
      const DTensor x = from_local(here(rank.runtime, value), rank.mesh, Placements{R}, {1});
      to_local(x);
    });
  };
  CHECK(error(CheckedMode::kOff) == "");
  CHECK(error(CheckedMode::kOn) ==
        "to_local: the tensor is R on axis tp, but coord 2 holds other values than coord 0; "
        "declare it P where each rank "
        "contributes, or find what makes the ranks differ. [F32[1] (R) on {tp: 3}]");
}

TEST_CASE("redistribute takes a stated gradient placement", "[dtensor][border][stated]") {
  if (!runs_here(2)) return;
  struct Seen {
    std::string placed;
    Array values;
    std::int64_t bytes = 0;
  };
  const Array values = random_values({8, 6}, DType::kF64, 3);
  const Array weights = random_values({8, 6}, DType::kF64, 4);
  // x, moved to `to`, times weights that stand as `factor`; the gradient of x as its history has
  // it.
  const auto run = [&](const Placement& from, const Placement& to, const Placement& factor,
                       const GradPlacements& grad) {
    return run_ranks(kTp2, [&](Rank& rank) {
      DTensor x = rank.parameter(values, {from});
      set_grad_reduction(x, GradReduction::kDeferred);
      const DTensor w = rank.distribute(weights, {factor});
      const DTensor y =
          grad.empty() ? redistribute(x, {to}) : redistribute(x, Placements{to}, grad);
      rank.runtime.events().clear();
      backward(sum(mul(y, w)));
      const std::int64_t bytes = rank.runtime.events().bytes_received();
      return Seen{to_string(value_or_throw(x.grad().spec().placements())),
                  copy_of(full_tensor(x.grad())), bytes};
    });
  };
  const auto check = [&](const Placement& from, const Placement& to, const Placement& factor,
                         const GradPlacements& grad, const std::string& placed) {
    CAPTURE(to_string(from), to_string(to), to_string(factor), placed);
    for (const Seen& seen : run(from, to, factor, grad)) {
      CHECK(seen.placed == placed);
      CHECK(max_difference(seen.values, weights) < 1e-12);
    }
  };
  check(R, R, R, {R}, "(R)");
  check(R, S(0), S(0), {R}, "(R)");  // where it comes as S(0)
  check(R, S(0), S(0), {S(1)}, "(S(1))");
  check(S(0), R, R, {R}, "(R)");
  check(S(0), S(1), S(1), {S(-1)}, "(S(1))");
  check(P, R, R, {S(0)}, "(S(0))");
  check(R, R, R, {std::nullopt}, "(R)");
  // Nothing moves where the gradient may stay as it comes.
  for (const Seen& seen : run(S(0), S(1), S(1), {S(1)})) CHECK(seen.bytes <= 8);
  for (const Seen& seen : run(S(0), S(1), S(1), {S(0)})) CHECK(seen.bytes > 8);
}

TEST_CASE("a gradient stated as P stays a sum that is reduced later", "[dtensor][border][stated]") {
  if (!runs_here(2)) return;
  const Array values = random_values({8, 6}, DType::kF64, 3);
  const Array weights = random_values({6, 4}, DType::kF64, 5);
  // The cotangent of x in x·w with w cut along n is a sum over ranks.
  const auto run = [&](const GradPlacements& grad) {
    return run_ranks(kTp2, [&](Rank& rank) {
      DTensor x = rank.parameter(values, {S(0)});
      set_grad_reduction(x, GradReduction::kDeferred);
      const DTensor w = rank.distribute(weights, {S(1)});
      const DTensor whole = redistribute(x, Placements{R}, grad);
      backward(sum(matmul(whole, w)));
      const std::string placed = to_string(value_or_throw(x.grad().spec().placements()));
      return std::pair{placed, copy_of(full_tensor(x.grad()))};
    });
  };
  const auto summed = run({P}), cut = run({S(0)});
  CHECK(summed[0].first == "(P(sum))");
  CHECK(cut[0].first == "(S(0))");
  for (const auto& [placed, grad] : summed) CHECK(max_difference(grad, cut[0].second) < 1e-12);
}

TEST_CASE("from_local and results of regions take a stated gradient placement",
          "[dtensor][border][local_map][stated]") {
  if (!runs_here(2)) return;
  const Array values = random_values({8, 6}, DType::kF64, 3);
  const Array weights = random_values({6, 4}, DType::kF64, 5);
  struct Seen {
    Array grad, through_region;
    std::int64_t bytes = 0;
  };
  const auto run = [&](const GradPlacements& stated) {
    return run_ranks(kTp2, [&](Rank& rank) {
      const DTensor w = rank.distribute(weights, {S(1)});
      DTensor leaf = here(rank.runtime, values).set_requires_grad(true);
      const DTensor x = from_local(leaf, rank.mesh, Placements{R}, {8, 6}, stated);
      rank.runtime.events().clear();
      backward(sum(matmul(x, w)));
      Seen seen{.grad = copy_of(leaf.grad().local()), .through_region = {}};
      seen.bytes = rank.runtime.events().bytes_received();

      const DTensor again = rank.parameter(values, {R});
      const LocalArg args[] = {{"x", again, {R}, {P}}};
      const LocalResult results[] = {{"y", rank.mesh, {R}, {8, 6}, stated}};
      const LocalFn same = [](const LocalInputs& in) { return std::vector<DTensor>{in["x"]}; };
      backward(sum(matmul(local_map(rank.runtime, "same", args, results, same)[0], w)));
      seen.through_region = copy_of(full_tensor(again.grad()));
      return seen;
    });
  };
  const auto whole = run({R}), unsaid = run({}), summands = run({P});
  Array total = Array::zeros({8, 6}, DType::kF64);
  for (std::size_t r = 0; r < summands.size(); ++r) {
    CHECK(same_bits(whole[r].grad, unsaid[r].grad));
    CHECK(summands[r].bytes < whole[r].bytes);  // the sum over ranks is left to the caller
    for (std::int64_t i = 0; i < num_elements(total.shape()); ++i) {
      total.data<double>()[i] += summands[r].grad.data<double>()[i];
    }
  }
  CHECK(max_difference(total, whole[0].grad) < 1e-12);
  // A region that hands out summands and declares its argument's cotangent as such loses nothing.
  for (const Seen& seen : summands)
    CHECK(max_difference(seen.through_region, whole[0].grad) < 1e-12);
}

TEST_CASE("stated gradients that cannot be are refused", "[dtensor][border][stated]") {
  if (!runs_here(2)) return;
  const auto moved = [](const Placement& from, const GradPlacements& grad) {
    return error_on_ranks(kTp2, [&](Rank& rank) {
      redistribute(rank.parameter(random_values({4, 6}, DType::kF32), {from}), Placements{S(0)},
                   grad);
    });
  };
  CHECK(moved(R, {R}) == "");
  CHECK(moved(R, {}) ==
        "redistribute: 0 gradient placements for a mesh of 1 axes. [F32[4, 6] (R) on {tp: 2}]");
  CHECK(
      moved(R, {S(2)}) ==
      "redistribute: the gradient on axis tp is stated as S(2); allowed are R, S(d) with a dim of "
      "the tensor, and P. [F32[4, 6] (R) on {tp: 2}]");
  CHECK(moved(R, {Partial{ReduceOp::kMax}}).find("is stated as P(max)") != std::string::npos);
  CHECK(moved(Partial{ReduceOp::kMax}, {R}) ==
        "redistribute: what each rank gets of the cotangent of the tensor follows from its own "
        "elements; leave the placement of its gradient out. [F32[4, 6] (P(max)) on {tp: 2}]");
  const auto left = [](const Placement& placed, const GradPlacements& grad) {
    return error_on_ranks(kTp2, [&](Rank& rank) {
      const Shape part = std::holds_alternative<Shard>(placed) ? Shape{2, 6} : Shape{4, 6};
      from_local(here(rank.runtime, Array::zeros(part, DType::kF32)).set_requires_grad(true),
                 rank.mesh, Placements{placed}, {4, 6}, grad);
    });
  };
  CHECK(left(S(0), {S(0)}) == "");
  CHECK(left(R, {P}) == "");
  CHECK(
      left(S(0), {P}).find("from_local: the tensor is S(0) on axis tp: its cotangent is S(0) like "
                           "it, but P(sum) is stated") == 0);
  CHECK(left(R, {S(0)}).find("its cotangent may be stated as P or R, not S(0)") !=
        std::string::npos);
  CHECK(left(P, {P}).find("its cotangent is R (every summand has the same one), but P(sum)") !=
        std::string::npos);
  CHECK(left(Partial{ReduceOp::kMax}, {})
            .find("and needs a gradient, which only P(sum) and P(avg) "
                  "hand back") != std::string::npos);
  CHECK(left(R, {R, R}).find("from_local: 2 gradient placements for a mesh of 1 axes") == 0);
}

}  // namespace tessera::testing
