// Rows that go straight to peers' memory over NCCL's windows: the bits of the threads backend, what
// ranks are told where windows are not to be had, and how a call ends that a peer leaves. NCCL is
// emulated.
#include <chrono>

#include "kernels/peer_rows.h"
#include "runtime/world_capture.h"
#include "tests/nccl/ranks_of_nccl.h"
#include "tests/support/patience.h"

namespace tessera {
namespace {

using std::chrono::milliseconds;
using testing::PlantedFault;
using testing::says;
using testing::Variable;
using Way = PeerRows::Way;
using Results = std::vector<std::vector<double>>;

constexpr std::int64_t kTopK = 2, kSlots = 16;

std::int64_t rows_of(std::int64_t rank, std::int64_t ranks) { return ranks * kSlots + 3 * rank; }

/// A rank's list, and arrays of one dtype and width.
struct RowArrays {
  PeerRows rows;
  Array tokens_TD, weights_TK, buffer_RD;

  RowArrays(World& world, DType dtype, std::int64_t dim) {
    const std::int64_t own = world.rank(), ranks = world.size(), tokens = kSlots / kTopK - own % 2;
    std::vector<double> places;
    for (std::int64_t slot = 0; slot < tokens * kTopK; ++slot) {
      const std::int64_t peer = (own + slot * 3) % (ranks + 1);
      places.push_back(peer == ranks
                           ? -1.0
                           : static_cast<double>(kernels::peer_place(peer, own * kSlots + slot)));
    }
    const auto seed = static_cast<std::uint64_t>(own * 10 + dim);
    const auto here = [&](const Array& array) { return testing::on_world(world, array); };
    const DType sums = dtype == DType::kF64 ? dtype : DType::kF32;
    rows.place_TK = here(Array::from_values({tokens, kTopK}, DType::kI64, places));
    tokens_TD = here(testing::random_values({tokens, dim}, dtype, seed));
    weights_TK = here(testing::random_values({tokens, kTopK}, sums, seed + 1));
    buffer_RD = here(testing::random_values({rows_of(own, ranks), dim}, dtype, seed + 2));
  }
};

/// A put into a copy of the buffer, a sum and products, none of which the host waits for. What they
/// come to is read by the function returned.
struct RowCalls {
  std::vector<Array> results;
  std::vector<std::shared_ptr<Work>> works;

  RowCalls(World& world, DType dtype, std::int64_t dim, bool states_rows) {
    const RowArrays at(world, dtype, dim);
    for (const Way way : {Way::kPut, Way::kSum, Way::kDot}) {
      PeerRows rows = at.rows;
      rows.way = way;
      for (std::int64_t rank = 0; states_rows && rank < world.size(); ++rank) {
        rows.buffer_rows.push_back(rows_of(rank, world.size()));
      }
      if (way == Way::kDot) {
        rows.tokens_TD = at.tokens_TD;
      } else {
        rows.weights_TK = at.weights_TK;
      }
      const bool puts = way == Way::kPut;
      results.push_back(
          puts ? testing::on_world(world, to_host(at.buffer_RD))
               : Array::empty(way == Way::kSum ? at.tokens_TD.shape() : at.weights_TK.shape(),
                              way == Way::kSum ? dtype : at.weights_TK.dtype(), world.allocator()));
      works.push_back(everyone(world).peer_rows_async(
          std::move(rows), puts ? at.tokens_TD : at.buffer_RD, results.back()));
    }
  }
  void read_to(Results& values) {
    for (const auto& work : works) work->wait();
    for (const Array& each : results) values.push_back(testing::values_here(each));
  }
};

/// Many sizes, so that windows grow more than once.
Results all_rows(World& world, bool states_rows) {
  Results values;
  for (const DType dtype : {DType::kBF16, DType::kF32, DType::kF64, DType::kF16}) {
    for (const std::int64_t dim : {5, 1200, 16}) {
      RowCalls(world, dtype, dim, states_rows).read_to(values);
    }
  }
  return values;
}

struct Ended : testing::Ended {
  std::vector<Results> results = {};  ///< of each rank's body
};
using Body = std::function<Results(World&)>;
Ended run(int num_ranks, WorldOptions options, const Body& body) {
  std::vector<Results> results(static_cast<std::size_t>(num_ranks));
  const testing::Ended ended = testing::run(num_ranks, std::move(options), [&](World& world) {
    results[static_cast<std::size_t>(world.rank())] = body(world);
  });
  return {ended, results};
}

Body rows_of_dim(std::int64_t dim, int times = 1) {
  return [dim, times](World& world) {
    Results values;
    for (int i = 0; i < times; ++i) RowCalls(world, DType::kF32, dim, true).read_to(values);
    everyone(world).barrier();  // tells what has failed meanwhile
    return values;
  };
}

/// What each rank's body gives on the same cards over the threads backend.
std::vector<Results> by_threads(int num_ranks, const Body& body) {
  std::vector<Results> results(static_cast<std::size_t>(num_ranks));
  const Status status = run_ranks(
      num_ranks, {.allocator = testing::card_of([](std::int64_t rank) { return rank; })},
      [&](World& world) { results[static_cast<std::size_t>(world.rank())] = body(world); });
  REQUIRE(status == absl::OkStatus());
  return results;
}

}  // namespace

TEST_CASE("rows over NCCL's windows are those of the threads backend, bit for bit",
          "[nccl][windows]") {
  const int num_ranks = GENERATE(1, 2, 3, 8);
  const std::vector<Results> expected =
      by_threads(num_ranks, [](World& world) { return all_rows(world, false); });
  for (const CallChecks checks : {CallChecks::kOff, CallChecks::kOn}) {
    for (const bool states_rows : {false, true}) {
      CAPTURE(num_ranks, checks == CallChecks::kOn, states_rows);
      const Ended ended = run(num_ranks, {.checks = checks},
                              [&](World& world) { return all_rows(world, states_rows); });
      CHECK(ended.first == absl::OkStatus());
      CHECK((ended.results == expected));
    }
  }
}

TEST_CASE("calls of rows of growing sizes may be under way together", "[nccl][windows]") {
  const auto body = [](World& world) {
    std::vector<std::unique_ptr<RowCalls>> calls;
    for (const std::int64_t dim : {8, 700, 3, 2000}) {
      calls.push_back(std::make_unique<RowCalls>(world, DType::kF32, dim, dim != 700));
    }
    Results values;
    for (const auto& each : calls) each->read_to(values);
    return values;
  };
  const std::vector<Results> expected = by_threads(4, body);
  const Ended ended = run(4, {}, body);
  CHECK(ended.first == absl::OkStatus());
  CHECK((ended.results == expected));
}

TEST_CASE("ranks that state other sizes of buffers differ in their calls", "[nccl][windows]") {
  const Ended ended = run(2, {.checks = CallChecks::kOn}, [](World& world) {
    const RowArrays at(world, DType::kF32, 4);
    PeerRows rows = at.rows;
    rows.way = Way::kSum;
    rows.buffer_rows = {rows_of(0, 2), rows_of(1, 2)};
    if (world.rank() == 1) ++rows.buffer_rows[0];
    everyone(world)
        .peer_rows_async(rows, at.buffer_RD,
                         Array::empty(at.tokens_TD.shape(), DType::kF32, world.allocator()))
        ->wait();
    return Results{};
  });
  CHECK(says(ended.first, "collective mismatch"));
  const Ended own = run(1, {}, [](World& world) {
    const RowArrays at(world, DType::kF32, 4);
    PeerRows rows = at.rows;
    rows.buffer_rows = {7};
    everyone(world).peer_rows_async(rows, at.tokens_TD, at.buffer_RD)->wait();
    return Results{};
  });
  CHECK(own.first == invalid_argument("rank 0: peer_rows: a buffer of 16 rows, stated as 7"));
}

TEST_CASE("windows that cannot be had are refused by name on all ranks",
          "[nccl][windows][errors]") {
  const auto reach = [](World& world) {
    Results said{{everyone(world).reaches_peers() ? 1.0 : 0.0}};
    static_cast<void>(rows_of_dim(4)(world));
    return said;
  };
  const Variable version("TESSERA_EMULATED_NCCL_VERSION", "22703");
  const Ended old = run(2, {}, reach);
  CAPTURE(old.first.ToString());
  CHECK(old.first.code() == absl::StatusCode::kUnimplemented);
  for (const Status& status : old.ranks) {
    CHECK(says(status,
               "peer_rows: this backend's ranks [0, 1] do not reach each other's memory: NCCL "
               "2.27.3 is there, windows that kernels reach need 2.28.3 or later"));
  }
  const Ended alone = run(1, {}, reach);
  CHECK(alone.first == absl::OkStatus());
}

TEST_CASE("ranks of which NCCL maps some alone are told so", "[nccl][windows][errors]") {
  const Variable team("TESSERA_EMULATED_NCCL_LSA", "2");
  const Ended ended = run(4, {}, rows_of_dim(4));
  CAPTURE(ended.first.ToString());
  CHECK(says(ended.first,
             "peer_rows: NCCL maps the memory of 2 of these 4 ranks; allowed: groups whose cards "
             "all reach one another"));
  CHECK(run(2, {}, rows_of_dim(4)).first == absl::OkStatus());
}

TEST_CASE("arrays on the host are no rows of windows", "[nccl][windows][errors]") {
  const Ended ended = run(2, {}, [](World& world) {
    everyone(world).peer_rows_async({.place_TK = Array::zeros({2, 1}, DType::kI64)},
                                    Array::zeros({2, 3}, DType::kF32),
                                    Array::zeros({4, 3}, DType::kF32));
    return Results{};
  });
  for (const Status& status : ended.ranks) {
    CHECK(
        says(status,
             "peer_rows: its arrays lie on cpu:0; over NCCL ranks reach each other's cards alone"));
  }
}

TEST_CASE("a card that stays away from a call of rows ends it on all ranks",
          "[nccl][windows][faults]") {
  // The first call clears flags and meets, each has two meetings more.
  const int number = GENERATE(1, 2, 3, 4, 7);
  CAPTURE(number);
  const PlantedFault planted(1, emulation::NcclFault::kHangs, number);
  const Ended ended = run(4, {.timeout = testing::kMissed}, rows_of_dim(8));
  CAPTURE(ended.first.ToString());
  CHECK(ended.first.code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(says(ended.first, "timed out in peer_rows #"));
  CHECK(says(ended.first, ": all arrived, NCCL has not moved all data"));
  for (const Status& status : ended.ranks) CHECK(status.code() == absl::StatusCode::kUnavailable);
  CHECK(ended.seconds < testing::kSoonSeconds);
}

TEST_CASE("what NCCL tells of a call of rows ends the job soon", "[nccl][windows][faults]") {
  const PlantedFault planted(2, emulation::NcclFault::kFails, 2);
  const Ended ended = run(4, {.timeout = milliseconds(600'000)}, rows_of_dim(8));
  CAPTURE(ended.first.ToString());
  CHECK(says(ended.first, "rank 2: NCCL: remote process exited or there was a network error"));
  CHECK(says(ended.first, ", in peer_rows #0 of F32 rows [8]"));
  for (const Status& status : ended.ranks) CHECK(status.code() == absl::StatusCode::kUnavailable);
  CHECK(ended.seconds < testing::kSoonSeconds);
}

TEST_CASE("a rank that throws frees those that wait for its window or its rows",
          "[nccl][windows][faults]") {
  const std::int64_t next_dim = GENERATE(8, 4000);  // of the same window, of a larger one
  const Ended ended = run(3, {.timeout = milliseconds(600'000)}, [&](World& world) {
    Results values = rows_of_dim(8)(world);
    if (world.rank() == 1) throw Error(invalid_argument("no such expert: 9"));
    return rows_of_dim(next_dim, 2)(world);
  });
  CHECK(ended.first == invalid_argument("rank 1: no such expert: 9"));
  for (const std::size_t rank : {0U, 2U}) {
    CHECK(ended.ranks[rank] == unavailable("rank 1: no such expert: 9"));
  }
  CHECK(ended.seconds < testing::kSoonSeconds);
}

TEST_CASE("captured calls of rows are done again, also after larger ones by calls",
          "[nccl][windows][capture]") {
  const auto checks = GENERATE(CallChecks::kOff, CallChecks::kOn);
  const auto body = [](World& world) {
    const RowArrays at(world, DType::kF32, 24);
    const Array put = testing::on_world(world, to_host(at.buffer_RD)),
                sums = Array::empty(at.tokens_TD.shape(), DType::kF32, world.allocator());
    const auto calls = [&] {
      PeerRows rows = at.rows;
      rows.weights_TK = at.weights_TK;
      everyone(world).peer_rows_async(rows, at.tokens_TD, put)->wait();
      rows.way = Way::kSum;
      everyone(world).peer_rows_async(rows, put, sums)->wait();
      Device& device = sums.device();
      device.copy(at.tokens_TD.bytes(), sums.bytes(), static_cast<std::size_t>(sums.num_bytes()),
                  device.compute());
    };
    calls();
    WorldCapture captured(world, calls);
    Results values;
    for (const std::int64_t dim_between : {24, 3000, 24}) {
      captured.launch();
      captured.launch();
      values.push_back(testing::values_here(sums));
      RowCalls(world, DType::kF32, dim_between, true).read_to(values);
    }
    captured.launch();
    values.push_back(testing::values_here(sums));
    everyone(world).barrier();
    return values;
  };
  const std::vector<Results> expected = by_threads(4, body);
  const Ended ended = run(4, {.checks = checks}, body);
  CHECK(ended.first == absl::OkStatus());
  CHECK((ended.results == expected));
}

TEST_CASE("a capture waits for no windows: calls of rows that need larger ones are refused",
          "[nccl][windows][capture][errors]") {
  const Ended ended = run(2, {}, [](World& world) {
    Results values = rows_of_dim(4)(world);
    const RowArrays at(world, DType::kF32, 4000);
    const WorldCapture captured(world, [&] {
      everyone(world).peer_rows_async(at.rows, at.tokens_TD, at.buffer_RD)->wait();
    });
    return values;
  });
  CAPTURE(ended.first.ToString());
  CHECK(says(
      ended.first,
      "capture: peer_rows needs windows of 560000 bytes and 35 rows, its ranks have those of 65536 "
      "bytes and 65536 rows: run the work once by calls before it is captured"));
}

}  // namespace tessera
