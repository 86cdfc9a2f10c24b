#include <thread>

#include "tests/runtime/ranks.h"

namespace tessera {
namespace {

using testing::Backend;
using testing::backend;
using testing::contains;
using testing::Outcome;
using testing::outcome_of;
using Rows = std::vector<std::int64_t>;

Array ones(const Shape& shape, DType dtype = DType::kF32) { return Array::zeros(shape, dtype); }

/// One way for a rank to call something else than the others.
struct Difference {
  std::string field;
  std::function<void(Communicator&)> usual;
  std::function<void(Communicator&)> odd;
};

void gather_rows(Communicator& group, Rows rows) {
  const auto own = rows[static_cast<std::size_t>(group.rank())];
  const std::int64_t total = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  group.all_gather(ones({own, 2}), ones({total, 2}), rows);
}
void scatter_rows(Communicator& group, Rows rows) {
  const auto own = rows[static_cast<std::size_t>(group.rank())];
  const std::int64_t total = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  group.reduce_scatter(ones({total}), ones({own}), ReduceOp::kSum, rows);
}
// The first rank has `first` rows, the last 6 − first, others 3.
Rows rows_of(const Communicator& group, std::int64_t first) {
  Rows rows(static_cast<std::size_t>(group.size()), 3);
  rows.front() = first;
  rows.back() = 6 - first;
  return rows;
}

void reduce(Communicator& group, const Shape& shape, DType dtype, ReduceOp op) {
  const Array in = ones(shape, dtype);
  group.all_reduce(in, in, op);
}

void exchange(Communicator& group, std::uint64_t plan, ReduceOp op) {
  ExchangeBoxes boxes{
      .into = {{group.rank(), 0, {{{0, 0, 2}}}}}, .cut_from = {{2}}, .fold = true, .reduce = op};
  ExchangeCall call;
  call.parts = {{ones({2}), ones({2}), std::make_shared<const ExchangeBoxes>(std::move(boxes))}};
  group.start({.of = std::move(call), .signature_extra = plan}, {})->wait();
}

std::vector<Difference> differences() {
  const auto usual = [](Communicator& g) { reduce(g, {4, 2}, DType::kF32, ReduceOp::kSum); };
  return {
      {"kind", usual, [](Communicator& g) { g.barrier(); }},
      {"kind", [](Communicator& g) { g.barrier(); }, usual},
      {"kind", usual,
       [](Communicator& g) {
         g.broadcast(ones({4, 2}), 0);
       }},
      {"dtype", usual,
       [](Communicator& g) {
         reduce(g, {4, 2}, DType::kF64, ReduceOp::kSum);
       }},
      {"shape", usual,
       [](Communicator& g) {
         reduce(g, {3, 2}, DType::kF32, ReduceOp::kSum);
       }},
      {"shape", usual,
       [](Communicator& g) {
         reduce(g, {2, 4}, DType::kF32, ReduceOp::kSum);
       }},
      {"shape", usual,
       [](Communicator& g) {
         reduce(g, {0, 2}, DType::kF32, ReduceOp::kSum);
       }},
      {"reduce op", usual,
       [](Communicator& g) {
         reduce(g, {4, 2}, DType::kF32, ReduceOp::kMax);
       }},
      {"root", [](Communicator& g) { g.broadcast(ones({4}), 0); },
       [](Communicator& g) { g.broadcast(ones({4}), 1); }},
      {"rows", [](Communicator& g) { gather_rows(g, rows_of(g, 1)); },
       [](Communicator& g) { gather_rows(g, rows_of(g, 2)); }},
      {"rows", [](Communicator& g) { scatter_rows(g, rows_of(g, 1)); },
       [](Communicator& g) { scatter_rows(g, rows_of(g, 0)); }},
      {"shape",
       [](Communicator& g) {
         g.all_gather(ones({2, 2}), ones({2 * g.size(), 2}));
       },
       [](Communicator& g) {
         g.all_gather(ones({2, 3}), ones({2 * g.size(), 3}));
       }},
      {"splits",
       [](Communicator& g) {
         const Rows each(static_cast<std::size_t>(g.size()), 2);
         g.all_to_all(ones({2 * g.size()}), ones({2 * g.size()}), each, each);
       },
       [](Communicator& g) {
         const Rows send(static_cast<std::size_t>(g.size()), 2);
         Rows recv = send;
         recv[0] = 5;
         g.all_to_all(ones({2 * g.size()}), ones({2 * g.size() + 3}), send, recv);
       }},
      {"plan", [](Communicator& g) { exchange(g, 7, ReduceOp::kSum); },
       [](Communicator& g) { exchange(g, 8, ReduceOp::kSum); }},
      {"reduce op", [](Communicator& g) { exchange(g, 7, ReduceOp::kSum); },
       [](Communicator& g) { exchange(g, 7, ReduceOp::kProd); }},
      {"tensor", [](Communicator& g) { g.broadcast(ones({4}), 0, {.tensor = "w"}); },
       [](Communicator& g) { g.broadcast(ones({4}), 0, {.tensor = "v"}); }},
      {"axes",
       [](Communicator& g) {
         g.barrier();
         g.broadcast(ones({4}), 0, {.axes = "tp"});
       },
       [](Communicator& g) {
         g.barrier();
         g.broadcast(ones({4}), 0, {.axes = "dp"});
       }},
      // The same two calls in another order.
      {"kind",
       [&](Communicator& g) {
         g.barrier();
         usual(g);
         g.barrier();
       },
       [&](Communicator& g) {
         g.barrier();
         g.barrier();
         usual(g);
       }},
  };
}

}  // namespace

TEST_CASE("a call that differs on one rank is an error on every rank that names both calls",
          "[runtime][mismatch]") {
  const int ranks = GENERATE(2, 4, 8);
  for (const Difference& difference : differences()) {
    for (const int odd : {ranks - 1, ranks / 2}) {
      CAPTURE(ranks, difference.field, odd);
      const Outcome outcome = outcome_of(ranks, [&](World& world) {
        (world.rank() == odd ? difference.odd : difference.usual)(everyone(world));
      });
      CHECK(outcome.seconds < testing::kSoonSeconds);
      CHECK(outcome.first.code() == absl::StatusCode::kFailedPrecondition);
      for (const Status& status : outcome.ranks) {
        CAPTURE(status.ToString());
        CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
        CHECK(contains(status, "collective mismatch (" + difference.field));
        CHECK(contains(status, "rank " + std::to_string(odd) + " calls "));
        CHECK(contains(status, "rank 0 calls "));
        CHECK(contains(status, "runtime/mismatch_test.cc:"));
      }
    }
  }
}

TEST_CASE("the text of a mismatch shows both calls, their lines and the group",
          "[runtime][mismatch]") {
  constexpr int kLine = __LINE__;  // the calls are 6 and 8 lines below
  const Outcome outcome = outcome_of(2, [&](World& world) {
    Communicator& group = everyone(world);
    const Array in = ones({8});
    group.barrier();
    if (world.rank() == 0) {
      group.all_reduce(in, in, ReduceOp::kSum, {.tensor = "grad.w", .axes = "tp"});
    } else {
      group.all_reduce(in, in, ReduceOp::kMax, {.tensor = "grad.w"});
    }
  });
  const std::string expected =
      "collective mismatch (reduce op): rank 0 calls all_reduce #1 of F32 [8] by sum, tensor "
      "grad.w, "
      "axes tp (runtime/mismatch_test.cc:" +
      std::to_string(kLine + 6) +
      "), rank 1 calls all_reduce #1 of F32 [8] by max, tensor grad.w (runtime/mismatch_test.cc:" +
      std::to_string(kLine + 8) + ") [group of ranks [0, 1]]";
  CHECK(message_of(outcome.ranks[0]) == expected);
  CHECK(message_of(outcome.ranks[1]) == expected);
  CHECK((message_of(outcome.first) == "rank 0: " + expected ||
         message_of(outcome.first) == "rank 1: " + expected));
}

TEST_CASE("a receiver of another size than the sender's is named with it", "[runtime][mismatch]") {
  const Outcome outcome = outcome_of(2, [&](World& world) {
    if (world.rank() == 0) everyone(world).send(ones({3}), 1);
    if (world.rank() == 1) everyone(world).recv(ones({4}), 0);
  });
  for (const Status& status : outcome.ranks) {
    CHECK(contains(status,
                   "collective mismatch (shape): rank 0 calls send #0 to group rank 1 of F32 [3]"));
    CHECK(contains(status, "rank 1 calls recv #0 from group rank 0 of F32 [4]"));
  }
}

TEST_CASE("ranks that all wait for one another are told so", "[runtime][mismatch]") {
  SECTION("two groups in another order") {
    const Outcome outcome = outcome_of(2, [](World& world) {
      Communicator& up = *value_or_throw(world.group(Rows{0, 1}));
      Communicator& down = *value_or_throw(world.group(Rows{1, 0}));
      (world.rank() == 0 ? up : down).barrier();
      (world.rank() == 0 ? down : up).barrier();
    });
    CHECK(outcome.seconds < testing::kSoonSeconds);
    CHECK(outcome.first.code() == absl::StatusCode::kFailedPrecondition);
    for (const Status& status : outcome.ranks) {
      CAPTURE(status.ToString());
      CHECK(contains(status,
                     "no rank can go on: rank 0 waits in barrier #0 "
                     "(runtime/mismatch_test.cc:"));
      CHECK(contains(status, "; rank 1 waits in barrier #0 (runtime/mismatch_test.cc:"));
      // Processes say what they wait in; threads of one process also see who is there.
      CHECK(contains(status, backend() == Backend::kThreads
                                 ? "arrived: rank 0; not arrived: rank 1; rank 1 waits"
                                 : "[group of ranks [0, 1]]; rank 1 waits"));
    }
  }
  SECTION("everyone sends first") {
    const Outcome outcome = outcome_of(3, [](World& world) {
      const auto next = static_cast<int>((world.rank() + 1) % 3);
      everyone(world).send(ones({4}), next);
      everyone(world).recv(ones({4}), (next + 1) % 3);
    });
    CHECK(outcome.seconds < testing::kSoonSeconds);
    for (const Status& status : outcome.ranks) {
      CHECK(contains(status, "rank 2 waits in send #0 to group rank 0 of F32 [4]"));
    }
  }
  SECTION("one rank receives what nobody sends") {
    const Outcome outcome = outcome_of(3, [](World& world) {
      if (world.rank() == 1) everyone(world).recv(ones({4}), 2);
      everyone(world).barrier();
    });
    CHECK(outcome.seconds < testing::kSoonSeconds);
    for (const Status& status : outcome.ranks) {
      CHECK(contains(status, "rank 1 waits in recv #0 from group rank 2"));
    }
  }
}

TEST_CASE("a call whose arrays do not fit is refused before anything moves",
          "[runtime][mismatch]") {
  const auto world = make_single_world();
  Communicator& group = everyone(*world);
  const auto text_of = [](const std::function<void()>& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return std::string(error.status().code() == absl::StatusCode::kInvalidArgument ? "" : "? ") +
             error.what();
    }
    return "no error";
  };
  const Array f32 = ones({4});
  CHECK(text_of([&] { group.all_reduce(f32, ones({3}), ReduceOp::kSum); }) ==
        "all_reduce: in F32 [4] and out F32 [3] must have one shape");
  CHECK(text_of([&] { group.all_reduce(f32, ones({4}, DType::kF64), ReduceOp::kSum); }) ==
        "all_reduce: in F32 [4] and out F64 [4] must have one dtype");
  CHECK(text_of([&] {
          group.all_reduce(ones({2}, DType::kI64), ones({2}, DType::kI64), ReduceOp::kAvg);
        }) == "avg of I64: allowed for floating types; reduce by sum");
  CHECK(text_of([&] {
          group.all_reduce(f32.slice(0, 0, 3), f32.slice(0, 1, 4), ReduceOp::kSum);
        }) == "all_reduce: in and out overlap; allowed: the same elements, or none in common");
  CHECK(text_of([&] {
          group.broadcast(ones({4, 2}).transpose(0, 1), 0);
        }) ==
        "broadcast: in_out F32 [2, 4] is not contiguous; make it so first (kernels::contiguous)");
  CHECK(text_of([&] { group.broadcast(f32, 1); }) ==
        "broadcast: root 1 is outside the group's ranks [0, 1)");
  CHECK(text_of([&] { group.all_to_all(f32, ones({4}), Rows{3}, Rows{4}); }) ==
        "all_to_all: send_splits [3] must be 1 row counts that add up to 4");
  CHECK(text_of([&] {
          group.all_gather(ones({4, 2}), ones({4, 3}));
        }) == "all_gather: in F32 [4, 2] and out F32 [4, 3] must agree in all dims but the first");
  CHECK(text_of([&] { group.all_gather(f32, Array()); }) == "all_gather: out is a null array");
}

}  // namespace tessera
