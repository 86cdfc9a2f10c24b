// Programs run as they stand: each kind of step, rounds, what is left, and what is refused before
// anything moves.
#include "execute/program_run.h"

#include <catch2/catch.hpp>

#include "execute/own_moves.h"
#include "kernels/elementwise.h"
#include "tests/execute/placed_program.h"

namespace tessera::testing {
namespace {

using Names = std::vector<std::string>;

/// Whole values as random_given() makes them: the n-th value of a program, from 0 on.
Array given_values(const Shape& shape, std::uint64_t n) {
  return random_values(shape, DType::kF64, 12 + n);
}
std::vector<double> product(const Array& a, const Array& b) {
  const std::vector<double> x = a.to_vector(), y = b.to_vector();
  const auto m = static_cast<std::size_t>(a.shape()[0]), k = static_cast<std::size_t>(a.shape()[1]),
             n = static_cast<std::size_t>(b.shape()[1]);
  std::vector<double> sums(m * n, 0.0);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t l = 0; l < k; ++l) sums[i * n + j] += x[i * k + l] * y[l * n + j];
    }
  }
  return sums;
}
bool close(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(std::abs(a[i] - b[i]) < 1e-12)) return false;
  }
  return true;
}

const std::string kA = value_text("a", "8,4", R"j(["S(1)"])j", "input");
const std::string kB = value_text("b", "4,8", R"j(["S(0)"])j", "input");
const std::string kY = value_text("y", "8,8", R"j(["P(sum)"])j");

TEST_CASE("a product of cut operands, reduced where the program says so", "[execute]") {
  const Program program = on_four(
      kA + "," + kB, op_text("matmul", R"j("a","b")j", kY, R"j(,"row":"tp: k:sum")j") + "," +
                         move_text("y", R"j(["S(0)"])j", "z") + R"j(,{"free":["y"]},)j" +
                         R"j({"host_read":"z","bytes":0},)j" +
                         op_text("relu", R"j("z")j", value_text("r", "8,8", R"j(["S(0)"])j")));
  const std::vector<RunSeen> ranks =
      run_ranks({{"tp", 4}}, [&](Rank& rank) { return run_on(rank, program); });
  std::vector<double> wanted = product(given_values({8, 4}, 0), given_values({4, 8}, 1));
  for (double& each : wanted) each = std::max(each, 0.0);
  for (const RunSeen& seen : ranks) {
    CHECK(seen.names == Names{"r", "z"});  // which it does not free
    CHECK(close(seen.values[0], wanted));
    REQUIRE(seen.moves.size() == 1);
    CHECK(seen.moves[0].collective == "reduce_scatter");
  }
  CHECK(first_misprediction(program, ranks) == "");
}

TEST_CASE("parameters and states are left under the names that they began with", "[execute]") {
  const std::string values = value_text("w", "8,4", R"j(["S(0)"])j", "parameter") + "," +
                             value_text("m", "8,4", R"j(["S(0)"])j", "state") + "," +
                             value_text("v", "8,4", R"j(["S(0)"])j", "state") + "," +
                             value_text("g", "8,4", R"j(["P(sum)"])j", "input");
  const std::string out = value_text("w.1", "8,4", R"j(["S(0)"])j", "parameter") + "," +
                          value_text("m.1", "8,4", R"j(["S(0)"])j", "state") + "," +
                          value_text("v.1", "8,4", R"j(["S(0)"])j", "state");
  const Program program = on_four(values, move_text("g", R"j(["S(0)"])j", "g.own") + "," +
                                              op_text("adamw_", R"j("w","g.own","m","v")j", out,
                                                      R"j(,"attrs":{"lr":0.1,"step":1})j"));
  const std::vector<RunSeen> ranks =
      run_ranks({{"tp", 4}}, [&](Rank& rank) { return run_on(rank, program); });
  CHECK(ranks[0].names == Names{"m", "v", "w"});
  CHECK(!close(ranks[0].values[2], given_values({8, 4}, 0).to_vector()));
  CHECK(first_misprediction(program, ranks) == "");
}

TEST_CASE("a result that is not written in place takes its argument's place, too", "[execute]") {
  const Program program = on_four(
      value_text("w", "8,4", R"j(["S(0)"])j", "parameter"),
      op_text("neg", R"j("w")j", value_text("w.1", "8,4", R"j(["S(0)"])j", "parameter")) + "," +
          op_text("neg", R"j("w.1")j", value_text("w.2", "8,4", R"j(["S(0)"])j", "parameter")));
  const std::vector<RunSeen> ranks =
      run_ranks({{"tp", 4}}, [&](Rank& rank) { return run_on(rank, program); });
  CHECK(ranks[0].names == Names{"w"});
  CHECK(close(ranks[0].values[0], given_values({8, 4}, 0).to_vector()));
}

TEST_CASE("rounds are run one by one: what is carried, and values of rounds", "[execute]") {
  // y.k = x.k + w.k; x.(k+1) = y.k. The second repeat goes back over the ys.
  const std::string body =
      op_text("add", R"j("x","w.*")j", value_text("y.*", "8", R"j(["S(0)"])j"));
  const std::string back = op_text("mul", R"j("g","y.*")j", value_text("h", "8", R"j(["S(0)"])j"));
  const std::string values = value_text("x", "8", R"j(["S(0)"])j", "input") + "," +
                             value_text("g", "8", R"j(["S(0)"])j", "input") + "," +
                             value_text("w.0", "8", R"j(["S(0)"])j", "parameter") + "," +
                             value_text("w.1", "8", R"j(["S(0)"])j", "parameter") + "," +
                             value_text("w.2", "8", R"j(["S(0)"])j", "parameter");
  const Program program =
      on_four(values, R"j({"repeat":3,"steps":[)j" + body + R"j(],"carry":{"x":"y.*"}},)j" +
                          R"j({"repeat":3,"first":2,"by":-1,"steps":[)j" + back +
                          R"j(],"carry":{"g":"h"}})j" + "," +
                          op_text("relu", R"j("h")j", value_text("r", "8", R"j(["S(0)"])j")));
  const std::vector<RunSeen> ranks =
      run_ranks({{"tp", 4}}, [&](Rank& rank) { return run_on(rank, program); });
  std::vector<double> x = given_values({8}, 0).to_vector(), g = given_values({8}, 1).to_vector();
  std::vector<std::vector<double>> ys;
  for (std::uint64_t k = 0; k < 3; ++k) {
    const std::vector<double> w = given_values({8}, 2 + k).to_vector();
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += w[i];
    ys.push_back(x);
  }
  for (std::size_t k = 3; k-- > 0;) {
    for (std::size_t i = 0; i < g.size(); ++i) g[i] *= ys[k][i];
  }
  for (double& each : g) each = std::max(each, 0.0);
  REQUIRE(ranks[0].names == Names{"r", "w.0", "w.1", "w.2"});
  CHECK(close(ranks[0].values[0], g));
}

TEST_CASE("a value with a count has one for each round", "[execute]") {
  const std::string weights =
      R"j({"name":"w","shape":[8],"dtype":"F64","mesh":"m","placements":["R"],"role":"parameter","count":2})j";
  const std::string body =
      move_text("w", R"j(["S(0)"])j", "w.cut") + "," +
      op_text("add", R"j("x","w.cut")j", value_text("y", "8", R"j(["S(0)"])j"));
  const Program program =
      on_four(value_text("x", "8", R"j(["S(0)"])j", "input") + "," + weights,
              R"j({"repeat":2,"steps":[)j" + body + R"j(],"carry":{"x":"y"}},)j" +
                  op_text("neg", R"j("y")j", value_text("z", "8", R"j(["S(0)"])j")));
  const std::vector<RunSeen> ranks =
      run_ranks({{"tp", 4}}, [&](Rank& rank) { return run_on(rank, program); });
  std::vector<double> wanted = given_values({8}, 0).to_vector();
  for (std::uint64_t k = 0; k < 2; ++k) {
    const std::vector<double> w = given_values({8}, 1 + k).to_vector();
    for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] += w[i];
  }
  for (double& each : wanted) each = -each;
  REQUIRE(ranks[0].names == Names{"w#0", "w#1", "z"});
  CHECK(close(ranks[0].values[2], wanted));
}

TEST_CASE("functions run regions; without one all of them are named", "[execute]") {
  const std::string steps =
      R"j({"region":"twice","args":["x"],"out":[)j" + value_text("y", "8", R"j(["S(0)"])j") +
      R"j(]},{"region":"odd","args":["y"],"out":[]},{"region":"twice","args":["y"],"out":[)j" +
      value_text("z", "8", R"j(["S(0)"])j") + "]}";
  const Program program = on_four(value_text("x", "8", R"j(["S(0)"])j", "input"), steps);
  RegionTable regions = own_regions();
  regions["twice"] = [](const RegionWork& work) -> std::vector<DTensor> {
    return {mul(work.args[0], 2.0)};
  };
  const auto refused = run_ranks({{"tp", 4}}, [&](Rank& rank) {
    const auto made = ProgramRun::make(rank.runtime, program, own_regions());
    const auto without_odd = ProgramRun::make(rank.runtime, program, regions);
    return std::pair(std::string(message_of(made.status())),
                     std::string(message_of(without_odd.status())));
  });
  CHECK(refused[0].first ==
        "program \"p\": regions that nothing here runs: \"twice\", \"odd\", the first at /steps/0; "
        "give a function for each, or write them as ops");
  CHECK(refused[0].second ==
        "program \"p\": regions that nothing here runs: \"odd\", the first at /steps/1; give a "
        "function for each, or write them as ops");
  regions["odd"] = [](const RegionWork&) { return std::vector<DTensor>(); };
  const std::vector<RunSeen> ranks =
      run_ranks({{"tp", 4}}, [&](Rank& rank) { return run_on(rank, program, regions); });
  std::vector<double> wanted = given_values({8}, 0).to_vector();
  for (double& each : wanted) each *= 4;
  REQUIRE(ranks[0].names == Names{"z"});
  CHECK(close(ranks[0].values[0], wanted));
}

TEST_CASE("a region gives what the program says that it gives", "[execute]") {
  const Program program = on_four(
      value_text("x", "8", R"j(["S(0)"])j", "input"),
      R"j({"region":"r","args":["x"],"out":[)j" + value_text("y", "8", R"j(["R"])j") + "]}");
  RegionTable regions;
  regions["r"] = [](const RegionWork& work) { return std::vector<DTensor>{work.args[0]}; };
  const auto texts = run_ranks(
      {{"tp", 4}}, [&](Rank& rank) { return error_of([&] { run_on(rank, program, regions); }); });
  CHECK(
      texts[0] ==
      "program \"p\": /steps/0: region r: result \"y\" is F64[8] (S(0)) on {tp: 4}, and has to be "
      "F64[8] (R) on {tp: 4}");
}

std::string refusal(const Program& program) {
  return run_ranks({{"tp", 4}}, [&](Rank& rank) {
    return std::string(message_of(ProgramRun::make(rank.runtime, program).status()));
  })[0];
}

TEST_CASE("a call that its placements do not fit is refused with what it would do", "[execute]") {
  const Program program = on_four(
      kA + "," + kB, op_text("matmul", R"j("a","b")j", value_text("y", "8,8", R"j(["R"])j")));
  CHECK(
      refusal(program) ==
      "program \"p\": /steps/0: matmul: no row takes its operands as they lie and gives (R); by "
      "itself it runs as tp: k:sum, from (S(1)), (S(0)) to (P(sum)). [self F64[8, 4] (S(1)), other "
      "F64[4, 8] (S(0)), on mesh {tp: 4}]");
}

TEST_CASE("a call runs by the row that the program names", "[execute]") {
  const Program program =
      on_four(kA + "," + kB, op_text("matmul", R"j("a","b")j", kY, R"j(,"row":"tp: m")j"));
  CHECK(refusal(program) ==
        "program \"p\": /steps/0: matmul: with these placements it runs as tp: k:sum, not as 'tp: "
        "m'. [self F64[8, 4] (S(1)), other F64[4, 8] (S(0)), on mesh {tp: 4}]");
}

TEST_CASE("what an op gathers inside of itself is predicted without data", "[execute]") {
  const Program program = on_four(
      value_text("x", "2,8", R"j(["S(1)"])j", "input"),
      R"j({"op":"topk","args":["x"],"attrs":{"k":3},"out":[)j" +
          value_text("top", "2,3", R"j(["R"])j") +
          R"j(,{"name":"which","shape":[2,3],"dtype":"I64","mesh":"m","placements":["R"]}]})j");
  const std::vector<RunSeen> ranks =
      run_ranks({{"tp", 4}}, [&](Rank& rank) { return run_on(rank, program); });
  const Program said = value_or_throw(with_own_moves(program));
  CHECK(first_misprediction(said, ranks) == "");
  CHECK(!std::get<CallStep>(said.steps[0].what).moves.empty());
}

TEST_CASE("what is not decided, or of another world, is refused", "[execute]") {
  const Program free =
      on_four(kA + "," + kB, op_text("matmul", R"j("a","b")j", value_text("y", "8,8", "null")));
  CHECK(
      refusal(free) ==
      "program \"p\": values without placements: \"y\"; where they lie has to be decided before it "
      "runs");
  const Program two = program_of(2, R"j([2],"axes":["tp"])j", kA, "");
  CHECK(refusal(two) == "program \"p\": it is of 2 ranks, the world has 4");
  const std::string whole = R"j({"name":"i","shape":[8],"dtype":"I64","mesh":"m","placements":)j";
  const Program fraction =
      on_four(whole + R"j(["R"],"role":"input"})j",
              op_text("mul", R"j("i",0.5)j", value_text("y", "8", R"j(["R"])j")));
  CHECK(refusal(fraction) ==
        "program \"p\": /steps/0: an argument is the number 0.5, and none beside it is a floating "
        "tensor; give it a 0-d one");
}

TEST_CASE("numbers are 0-d tensors of the dtype beside them", "[execute]") {
  const Program program =
      on_four(kA, op_text("mul", R"j("a",0.5)j", value_text("y", "8,4", R"j(["S(1)"])j")) + "," +
                      op_text("sub", R"j(1,"y")j", value_text("z", "8,4", R"j(["S(1)"])j")));
  const std::vector<RunSeen> ranks =
      run_ranks({{"tp", 4}}, [&](Rank& rank) { return run_on(rank, program); });
  std::vector<double> wanted = given_values({8, 4}, 0).to_vector();
  for (double& each : wanted) each = 1 - 0.5 * each;
  for (const RunSeen& seen : ranks) CHECK(close(seen.values[0], wanted));
  CHECK(first_misprediction(value_or_throw(with_own_moves(program)), ranks) == "");
}

TEST_CASE("values are given by name, each where the program wants it", "[execute]") {
  const Program program =
      on_four(kA, op_text("relu", R"j("a")j", value_text("y", "8,4", R"j(["S(1)"])j")));
  const auto texts = run_ranks({{"tp", 4}}, [&](Rank& rank) {
    const auto run = value_or_throw(ProgramRun::make(rank.runtime, program));
    const DTensor whole = rank.distribute(random_values({8, 4}, DType::kF64), {Replicate{}});
    const DTensor cut = rank.distribute(random_values({8, 4}, DType::kF64), {Shard{1}});
    return std::vector<std::string>{error_of([&] { run->run({}); }), error_of([&] {
                                      run->run({{"a", whole}});
                                    }),
                                    error_of([&] {
                                      run->run({{"a", cut}, {"b", cut}});
                                    })};
  });
  CHECK(texts[0][0] ==
        "program \"p\": value \"a\": it is missing; it has to be F64[8, 4] (S(1)) on {tp: 4}");
  CHECK(
      texts[0][1] ==
      "program \"p\": value \"a\": it is F64[8, 4] (R) on {tp: 4}, and has to be F64[8, 4] (S(1)) "
      "on {tp: 4}");
  CHECK(texts[0][2] ==
        "program \"p\": value \"b\": the program has no such value before its steps");
}

}  // namespace
}  // namespace tessera::testing
