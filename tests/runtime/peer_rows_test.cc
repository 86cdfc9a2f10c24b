// Rows put into others' buffers, summed and multiplied from them, against plain loops; on a backend
// whose ranks do not reach each other's memory, that it says so on every rank.
#include "kernels/peer_rows.h"

#include <algorithm>

#include "tests/runtime/ranks.h"
#include "tests/support/on_world.h"

namespace tessera {
namespace {

using kernels::peer_place;
using testing::complaints_of;
using testing::contains;
using testing::on_world;
using testing::outcome_of;
using testing::runs_here;
using testing::values_here;

constexpr std::int64_t kTopK = 3;
constexpr double kKept = -7;  // what an unfilled row holds

/// Who puts which row where: the same on every rank.
struct Places {
  std::int64_t ranks, copies, dim;
  std::vector<std::vector<double>> of_rank = {};  ///< [T · K] by rank
  std::vector<std::int64_t> rows = {};            ///< of each rank's buffer

  Places(std::int64_t size, std::int64_t copies_of_rows, std::int64_t width)
      : ranks(size), copies(copies_of_rows), dim(width) {
    std::vector<std::int64_t> next(static_cast<std::size_t>(ranks / copies), 0);
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      auto& own = of_rank.emplace_back();
      for (std::int64_t slot = 0; slot < tokens(rank) * kTopK; ++slot) {
        const std::int64_t goal = (rank * 5 + slot * 3 + slot / 4) % (ranks / copies + 1);
        if (goal == ranks / copies) {
          own.push_back(-1);
          continue;
        }
        std::int64_t& row = next[static_cast<std::size_t>(goal)];
        own.push_back(static_cast<double>(peer_place(goal * copies, row)));
        row += row % 3 == 1 ? 2 : 1;  // some rows belong to nobody
      }
    }
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      rows.push_back(next[static_cast<std::size_t>(rank / copies)] + 1);
    }
  }
  /// Uneven, of rank 1 none.
  static std::int64_t tokens(std::int64_t rank) { return rank == 1 ? 0 : 4 + rank % 3 * 2; }
  static double weight(std::int64_t slot) { return slot % 3 == 0 ? 0.5 : slot % 3 == 1 ? 1 : 2; }
  static double token(std::int64_t rank, std::int64_t t, std::int64_t d) {
    return static_cast<double>((rank + t * 3 + d) % 5 - 2);
  }
  static double buffer(std::int64_t rank, std::int64_t row, std::int64_t d) {
    return static_cast<double>((rank * 2 + row + d * 3) % 5 - 2);
  }
  std::int64_t row_count(std::int64_t rank) const { return rows[static_cast<std::size_t>(rank)]; }
  std::int64_t place(std::int64_t rank, std::int64_t slot) const {
    return static_cast<std::int64_t>(
        of_rank[static_cast<std::size_t>(rank)][static_cast<std::size_t>(slot)]);
  }
  /// The row at a place, of all copies.
  double row(std::int64_t place, std::int64_t d) const {
    double sum = 0;
    for (std::int64_t copy = 0; copy < copies; ++copy) {
      sum += buffer(kernels::peer_of(place) + copy, kernels::row_of(place), d);
    }
    return sum;
  }

  std::vector<double> put(std::int64_t rank, bool weighs) const {
    std::vector<double> out(static_cast<std::size_t>(row_count(rank) * dim), kKept);
    for (std::int64_t from = 0; from < ranks; ++from) {
      for (std::int64_t slot = 0; slot < tokens(from) * kTopK; ++slot) {
        const std::int64_t at = place(from, slot);
        if (at < 0 || kernels::peer_of(at) / copies != rank / copies) continue;
        for (std::int64_t d = 0; d < dim; ++d) {
          out[static_cast<std::size_t>(kernels::row_of(at) * dim + d)] =
              token(from, slot / kTopK, d) * (weighs ? weight(slot) : 1);
        }
      }
    }
    return out;
  }
  std::vector<double> sums(std::int64_t rank, bool weighs) const {
    std::vector<double> out(static_cast<std::size_t>(tokens(rank) * dim), 0);
    for (std::int64_t slot = 0; slot < tokens(rank) * kTopK; ++slot) {
      const std::int64_t at = place(rank, slot);
      for (std::int64_t d = 0; at >= 0 && d < dim; ++d) {
        out[static_cast<std::size_t>(slot / kTopK * dim + d)] +=
            row(at, d) * (weighs ? weight(slot) : 1);
      }
    }
    return out;
  }
  std::vector<double> dots(std::int64_t rank) const {
    std::vector<double> out(static_cast<std::size_t>(tokens(rank) * kTopK), 0);
    for (std::int64_t slot = 0; slot < tokens(rank) * kTopK; ++slot) {
      const std::int64_t at = place(rank, slot);
      for (std::int64_t d = 0; at >= 0 && d < dim; ++d) {
        out[static_cast<std::size_t>(slot)] += row(at, d) * token(rank, slot / kTopK, d);
      }
    }
    return out;
  }
};

/// One rank's arrays of such a call.
struct Arrays {
  Array tokens_TD, buffer_RD, weights_TK;
  PeerRows rows;
};
Arrays arrays_of(World& world, const Places& places, DType dtype) {
  const std::int64_t rank = world.rank(), T = Places::tokens(rank), R = places.row_count(rank);
  const DType sums = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  std::vector<double> tokens, buffer, weights;
  for (std::int64_t i = 0; i < T * places.dim; ++i) {
    tokens.push_back(Places::token(rank, i / places.dim, i % places.dim));
  }
  for (std::int64_t i = 0; i < R * places.dim; ++i) {
    buffer.push_back(Places::buffer(rank, i / places.dim, i % places.dim));
  }
  for (std::int64_t slot = 0; slot < T * kTopK; ++slot) weights.push_back(Places::weight(slot));
  const auto here = [&](const Shape& shape, DType of, const std::vector<double>& values) {
    return on_world(world, Array::from_values(shape, of, values));
  };
  return {.tokens_TD = here({T, places.dim}, dtype, tokens),
          .buffer_RD = here({R, places.dim}, dtype, buffer),
          .weights_TK = here({T, kTopK}, sums, weights),
          .rows = {.place_TK = here({T, kTopK}, DType::kI64,
                                    places.of_rank[static_cast<std::size_t>(rank)]),
                   .copies = places.copies}};
}

/// Whether the backend has such calls; else it says so, and the group goes on.
bool is_refused(World& world, Communicator& group, const Arrays& arrays,
                std::vector<std::string>& wrong) {
  const Array out =
      Array::empty(arrays.buffer_RD.shape(), arrays.buffer_RD.dtype(), world.allocator());
  try {
    group.peer_rows_async(arrays.rows, arrays.tokens_TD, out)->wait();
    return false;
  } catch (const Error& error) {
    if (error.status().code() != absl::StatusCode::kUnimplemented ||
        !contains(error.status(), "peer_rows: ")) {
      throw;
    }
  }
  if (group.reaches_peers() && arrays.buffer_RD.device().id().kind == DeviceId::Kind::kCpu) {
    wrong.emplace_back("refused, though the ranks reach each other's memory");
  }
  group.barrier();
  return true;
}

void check_rows(World& world, const Places& places, DType dtype, std::vector<std::string>& wrong) {
  Communicator& group = *value_or_throw(world.group(testing::all_ranks(world)));
  const Arrays at = arrays_of(world, places, dtype);
  if (is_refused(world, group, at, wrong)) return;
  const auto expect = [&](const Array& got, const std::vector<double>& wanted, const char* what) {
    if (values_here(got) != wanted) {
      wrong.push_back(std::string(what) + " of " + std::string(name_of(dtype)));
    }
  };
  for (const bool weighs : {false, true}) {
    PeerRows rows = at.rows;
    if (weighs) rows.weights_TK = at.weights_TK;
    const Array out = on_world(
        world,
        Array::from_values(
            at.buffer_RD.shape(), dtype,
            std::vector<double>(static_cast<std::size_t>(at.buffer_RD.num_elements()), kKept)));
    group.peer_rows_async(rows, at.tokens_TD, out)->wait();
    expect(out, places.put(world.rank(), weighs), weighs ? "weighted rows" : "rows");
    rows.way = PeerRows::Way::kSum;
    const Array sums = Array::empty(at.tokens_TD.shape(), dtype, world.allocator());
    group.peer_rows_async(rows, at.buffer_RD, sums)->wait();
    expect(sums, places.sums(world.rank(), weighs), weighs ? "weighted sums" : "sums");
  }
  PeerRows rows = at.rows;
  rows.way = PeerRows::Way::kDot;
  rows.tokens_TD = at.tokens_TD;
  const Array dots = Array::empty(at.weights_TK.shape(), at.weights_TK.dtype(), world.allocator());
  group.peer_rows_async(rows, at.buffer_RD, dots)->wait();
  expect(dots, places.dots(world.rank()), "products");
}

}  // namespace

TEST_CASE("rows go to their places in others' memory, and come back as sums and products",
          "[runtime][collectives][peer_rows]") {
  const int ranks = GENERATE(1, 2, 3, 4, 8);
  if (!runs_here(ranks)) return;
  const std::int64_t copies = GENERATE(1, 2), dim = GENERATE(1, 5, 16, 3000);
  if (ranks % copies != 0) return;
  CAPTURE(ranks, copies, dim);
  const Places places(ranks, copies, dim);
  CHECK(complaints_of(ranks, [&](World& world, std::vector<std::string>& wrong) {
          for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
            if (dim == 3000 && dtype != DType::kF64) continue;  // products beyond what is exact
            check_rows(world, places, dtype, wrong);
          }
        }) == std::vector<std::string>{});
}

TEST_CASE("several calls of rows may be under way beside other calls",
          "[runtime][async][peer_rows]") {
  const int ranks = GENERATE(2, 4);
  if (!runs_here(ranks)) return;
  const Places places(ranks, 1, 16);
  CHECK(complaints_of(ranks, [&](World& world, std::vector<std::string>& wrong) {
          Communicator& group = *value_or_throw(world.group(testing::all_ranks(world)));
          const Arrays at = arrays_of(world, places, DType::kF32);
          if (is_refused(world, group, at, wrong)) return;
          const Array out = on_world(world, Array::zeros(at.buffer_RD.shape(), DType::kF32)),
                      sums = Array::empty(at.tokens_TD.shape(), DType::kF32, world.allocator()),
                      ones = on_world(world,
                                      Array::from_values({1}, DType::kF32, std::vector<double>{1}));
          PeerRows back = at.rows;
          back.way = PeerRows::Way::kSum;
          const auto put = group.peer_rows_async(at.rows, at.tokens_TD, out);
          const auto sum = group.peer_rows_async(back, at.buffer_RD, sums);
          group.all_reduce(ones, ones, ReduceOp::kSum);
          sum->wait();
          put->wait();
          if (values_here(sums) != places.sums(world.rank(), false)) wrong.emplace_back("sums");
          if (values_here(ones)[0] != ranks) wrong.emplace_back("the other call");
        }) == std::vector<std::string>{});
}

TEST_CASE("a place outside of the buffers is an error on every rank, and nothing is written",
          "[runtime][failure][peer_rows]") {
  const int ranks = GENERATE(2, 4);
  if (!runs_here(ranks)) return;
  const std::int64_t bad = GENERATE(std::int64_t{-2}, peer_place(0, 9), peer_place(8, 0));
  CAPTURE(ranks, bad);
  const auto outcome = outcome_of(ranks, [&](World& world) {
    Communicator& group = *value_or_throw(world.group(testing::all_ranks(world)));
    if (world.allocator()->device().id().kind != DeviceId::Kind::kCpu || !group.reaches_peers()) {
      throw Error(out_of_range("put_peer_rows: not here"));
    }
    const double place = static_cast<double>(world.rank() == 1 ? bad : -1);
    const Array tokens = Array::zeros({1, 2}, DType::kF32), out = Array::zeros({9, 2}, DType::kF32);
    PeerRows rows{.place_TK = Array::from_values({1, 1}, DType::kI64, std::vector<double>{place})};
    group.peer_rows_async(rows, tokens, out)->wait();
    group.barrier();
  });
  CHECK(contains(outcome.first, "put_peer_rows: "));
  for (const Status& status : outcome.ranks) CHECK(contains(status, "put_peer_rows: "));
}

TEST_CASE("arrays that do not fit a call of rows are refused before others hear of it",
          "[runtime][peer_rows]") {
  CHECK(complaints_of(1, [](World& world, std::vector<std::string>& wrong) {
          Communicator& group = *value_or_throw(world.group(testing::all_ranks(world)));
          const Array tokens = Array::zeros({2, 3}, DType::kF32),
                      buffer = Array::zeros({4, 3}, DType::kF32),
                      places = Array::zeros({2, 1}, DType::kI64);
          const auto refuses = [&](PeerRows rows, const Array& in, const Array& out,
                                   const char* text) {
            try {
              group.peer_rows_async(std::move(rows), in, out)->wait();
              wrong.push_back(std::string("taken: ") + text);
            } catch (const Error& error) {
              if (!contains(error.status(), text)) wrong.emplace_back(message_of(error.status()));
            }
          };
          refuses({.place_TK = Array::zeros({2, 1}, DType::kI32)}, tokens, buffer,
                  "peer_rows: places I32 [2, 1] must be I64 [T, K]");
          refuses({.place_TK = places, .weights_TK = Array::zeros({2, 2}, DType::kF32)}, tokens,
                  buffer, "peer_rows: weights F32 [2, 2] must be F32 [T, K] like the places");
          refuses({.place_TK = places, .copies = 2}, tokens, buffer,
                  "peer_rows: 2 copies; allowed: a divisor of the group's size 1");
          refuses({.place_TK = places}, tokens, tokens, "the buffer and the tokens overlap");
          refuses({.place_TK = places}, tokens, Array::zeros({4, 2}, DType::kF32),
                  "peer_rows: the buffer F32 [4, 2] and tokens F32 [2, 3]");
          refuses({.way = PeerRows::Way::kDot, .place_TK = places}, buffer,
                  Array::zeros({2, 1}, DType::kF32), "peer_rows: tokens is a null array");
        }) == std::vector<std::string>{});
}

}  // namespace tessera
