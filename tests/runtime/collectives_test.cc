#include <cmath>
#include <cstring>

#include "kernels/bfloat16.h"
#include "kernels/elementwise.h"
#include "tests/runtime/ranks.h"
#include "tests/support/on_world.h"

namespace tessera {
namespace {

using testing::complaints_of;
using testing::context_of;
using testing::on_world;
using testing::results_of;
using testing::values_here;
using Rows = std::vector<std::int64_t>;

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax, ReduceOp::kMin,
                             ReduceOp::kProd};
constexpr DType kDTypes[] = {DType::kF64, DType::kF32, DType::kBF16,
                             DType::kI64, DType::kI32, DType::kBool};

// Small integers, exact in every dtype; so are their sums and products over 8 ranks.
double value_of(int rank, std::int64_t i, DType dtype) {
  if (dtype == DType::kBool) return (rank + i) % 5 == 0 ? 1 : 0;
  const std::int64_t turn = (rank * 7 + i * 3) % 5;
  return turn == 0 ? 2 : (turn % 2 == 0 ? 1 : -1);
}
Array values_of(int rank, const Shape& shape, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(num_elements(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = value_of(rank, static_cast<std::int64_t>(i), dtype);
  }
  return Array::from_values(shape, dtype, values);
}

double reduced(ReduceOp op, int ranks, std::int64_t i, DType dtype) {
  double result = value_of(0, i, dtype);
  for (int rank = 1; rank < ranks; ++rank) {
    const double value = value_of(rank, i, dtype);
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAvg:
        result += value;
        break;
      case ReduceOp::kMax:
        result = std::max(result, value);
        break;
      case ReduceOp::kMin:
        result = std::min(result, value);
        break;
      case ReduceOp::kProd:
        result *= value;
        break;
    }
  }
  if (dtype == DType::kBool) return result != 0 ? 1 : 0;
  if (op != ReduceOp::kAvg) return result;
  if (dtype == DType::kF64) return result / ranks;
  const float quotient = static_cast<float>(result) / static_cast<float>(ranks);
  return dtype == DType::kF32 ? quotient : static_cast<float>(BFloat16(quotient));
}
Array reduced_values(ReduceOp op, int ranks, const Shape& shape, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(num_elements(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = reduced(op, ranks, static_cast<std::int64_t>(i), dtype);
  }
  return Array::from_values(shape, dtype, values);
}

bool same_bytes(const Array& got, const Array& b) {
  const Array a = to_host(got);
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         (a.num_bytes() == 0 ||
          std::memcmp(a.bytes(), b.bytes(), static_cast<std::size_t>(a.num_bytes())) == 0);
}

struct Case {
  World& world;
  Communicator& group;
  DType dtype;
  std::int64_t size;
  std::vector<std::string>& wrong;

  int rank() const { return group.rank(); }
  int ranks() const { return group.size(); }
  /// Where the World's arrays lie.
  Array values(const Shape& shape) const {
    return on_world(world, values_of(group.rank(), shape, dtype));
  }
  Array empty(const Shape& shape) const { return Array::empty(shape, dtype, world.allocator()); }
  void expect(bool good, const std::string& what) const {
    if (!good) {
      wrong.push_back(what + " of " + std::string(name_of(dtype)) + " x " + std::to_string(size));
    }
  }
  bool skips(ReduceOp op) const { return op == ReduceOp::kAvg && !is_floating(dtype); }
};

void check_all_reduce(const Case& at) {
  for (const ReduceOp op : kOps) {
    if (at.skips(op)) continue;
    const Shape shape{at.size};
    const Array expected = reduced_values(op, at.ranks(), shape, at.dtype);
    const Array in = at.values(shape);
    const Array out = at.empty(shape);
    at.group.all_reduce(in, out, op);
    at.expect(same_bytes(out, expected), "all_reduce by " + std::string(name_of(op)));
    at.expect(same_bytes(in, values_of(at.rank(), shape, at.dtype)), "source of all_reduce");
    at.group.all_reduce(in, in, op);
    at.expect(same_bytes(in, expected), "all_reduce in place by " + std::string(name_of(op)));
  }
}

// Rank r has size + r rows of 2.
void check_all_gather(const Case& at) {
  Rows rows;
  std::int64_t before = 0, total = 0;
  for (int r = 0; r < at.ranks(); ++r) {
    if (r < at.rank()) before += at.size + r;
    rows.push_back(at.size + r);
    total += rows.back();
  }
  std::vector<double> all;
  for (int r = 0; r < at.ranks(); ++r) {
    const auto part = values_of(r, {rows[static_cast<std::size_t>(r)], 2}, at.dtype).to_vector();
    all.insert(all.end(), part.begin(), part.end());
  }
  const Array expected = Array::from_values({total, 2}, at.dtype, all);
  const std::int64_t own = at.size + at.rank();
  const Array in = at.values({own, 2});
  const Array out = at.empty({total, 2});
  at.group.all_gather(in, out, rows);
  at.expect(same_bytes(out, expected), "all_gather");

  const Array in_place = at.empty({total, 2});
  const Array part = in_place.slice(0, before, before + own);
  KernelContext ctx = context_of(at.world);
  kernels::copy(ctx, in, part);
  at.group.all_gather(part, in_place, rows);
  at.expect(same_bytes(in_place, expected), "all_gather in place");

  const Array equal_in = at.values({at.size});
  const Array equal_out = at.empty({at.size * at.ranks()});
  at.group.all_gather(equal_in, equal_out);
  for (int r = 0; r < at.ranks(); ++r) {
    at.expect(same_bytes(equal_out.slice(0, r * at.size, (r + 1) * at.size),
                         values_of(r, {at.size}, at.dtype)),
              "all_gather of equal rows");
  }
}

// Rank r keeps size + r rows.
void check_reduce_scatter(const Case& at) {
  Rows rows;
  std::int64_t before = 0, total = 0;
  for (int r = 0; r < at.ranks(); ++r) {
    if (r < at.rank()) before += at.size + r;
    rows.push_back(at.size + r);
    total += rows.back();
  }
  for (const ReduceOp op : kOps) {
    if (at.skips(op)) continue;
    const Array expected = reduced_values(op, at.ranks(), {total}, at.dtype)
                               .slice(0, before, before + at.size + at.rank());
    const Array in = at.values({total});
    const Array out = at.empty({at.size + at.rank()});
    at.group.reduce_scatter(in, out, op, rows);
    at.expect(same_bytes(out, expected), "reduce_scatter by " + std::string(name_of(op)));
    const Array part = in.slice(0, before, before + at.size + at.rank());
    at.group.reduce_scatter(in, part, op, rows);
    at.expect(same_bytes(part, expected), "reduce_scatter in place");
  }
}

// From rank i to rank j go (size + i + 2j) mod (size + 1) rows of 3; each row says where it comes
// from.
std::int64_t rows_between(std::int64_t size, int from, int to) {
  return (size + from + 2 * to) % (size + 1);
}
void check_all_to_all(const Case& at) {
  Rows send, recv;
  std::vector<double> in_values, out_values;
  const auto push = [&](std::vector<double>& values, int from, int to, std::int64_t row) {
    for (int c = 0; c < 3; ++c) {
      const std::int64_t value =
          at.dtype == DType::kBool ? (from + to + row + c) % 2 : from + 8 * to + (row + c) % 100;
      values.push_back(static_cast<double>(value));
    }
  };
  for (int r = 0; r < at.ranks(); ++r) {
    send.push_back(rows_between(at.size, at.rank(), r));
    recv.push_back(rows_between(at.size, r, at.rank()));
    for (std::int64_t row = 0; row < send.back(); ++row) push(in_values, at.rank(), r, row);
    for (std::int64_t row = 0; row < recv.back(); ++row) push(out_values, r, at.rank(), row);
  }
  const auto rows_in = static_cast<std::int64_t>(in_values.size() / 3);
  const auto rows_out = static_cast<std::int64_t>(out_values.size() / 3);
  const Array in = on_world(at.world, Array::from_values({rows_in, 3}, at.dtype, in_values));
  const Array out = at.empty({rows_out, 3});
  at.group.all_to_all(in, out, send, recv);
  at.expect(same_bytes(out, Array::from_values({rows_out, 3}, at.dtype, out_values)), "all_to_all");
}

void check_broadcast_and_pairs(const Case& at) {
  const Shape shape{at.size};
  for (int root = 0; root < at.ranks(); ++root) {
    const Array data = at.values(shape);
    at.group.broadcast(data, root);
    at.expect(same_bytes(data, values_of(root, shape, at.dtype)), "broadcast");
  }
  if (at.ranks() == 1) return;
  // Around the ring; the first rank receives before it sends.
  const int next = (at.rank() + 1) % at.ranks();
  const int before = (at.rank() + at.ranks() - 1) % at.ranks();
  const Array mine = at.values(shape);
  const Array theirs = at.empty(shape);
  if (at.rank() != 0) at.group.send(mine, next);
  at.group.recv(theirs, before);
  if (at.rank() == 0) at.group.send(mine, next);
  at.expect(same_bytes(theirs, values_of(before, shape, at.dtype)), "send and recv");
}

}  // namespace

TEST_CASE("collectives give their closed forms for every dtype, size and number of ranks",
          "[runtime][collectives]") {
  const int ranks = GENERATE(1, 2, 3, 4, 8);
  CAPTURE(ranks);
  const auto wrong = complaints_of(ranks, [](World& world, std::vector<std::string>& notes) {
    for (const DType dtype : kDTypes) {
      for (const std::int64_t size : {0, 1, 7, 1000, 100003}) {
        if (size == 100003 && dtype != DType::kF32 && dtype != DType::kBF16) continue;
        const Case at{world, everyone(world), dtype, size, notes};
        check_all_reduce(at);
        check_all_gather(at);
        check_reduce_scatter(at);
        check_all_to_all(at);
        check_broadcast_and_pairs(at);
        at.group.barrier();
      }
    }
  });
  CHECK(wrong == std::vector<std::string>{});
}

TEST_CASE("reductions repeat bit for bit and are equal on all ranks", "[runtime][collectives]") {
  const int ranks = GENERATE(2, 3, 8);
  const DType dtype = GENERATE(DType::kF32, DType::kBF16);
  const std::int64_t size = GENERATE(7, 20011);
  CAPTURE(ranks, size);
  const auto once = [&] {
    return results_of(ranks, {},
                      [&](World& world) {
                        std::vector<double> values(static_cast<std::size_t>(size));
                        for (std::size_t i = 0; i < values.size(); ++i) {
                          values[i] = std::sin(static_cast<double>(i) * 12.9898 +
                                               static_cast<double>(world.rank()));
                        }
                        const Array in = on_world(world, Array::from_values({size}, dtype, values));
                        everyone(world).all_reduce(in, in, ReduceOp::kSum);
                        return values_here(in);
                      })
        .value();
  };
  const auto first = once();
  for (const auto& result : first) CHECK(result == first[0]);
  for (int repeat = 0; repeat < 5; ++repeat) CHECK(once() == first);
}

TEST_CASE("BF16 sums are formed in F32 and rounded once", "[runtime][collectives]") {
  const std::int64_t size = GENERATE(1, 5000);
  // 256 + seven ones is 263, which rounds to 264; rounding after each one would stay at 256.
  const auto wrong = complaints_of(8, [&](World& world, std::vector<std::string>& notes) {
    const std::vector<double> values(static_cast<std::size_t>(size), world.rank() == 0 ? 256 : 1);
    const Array in = on_world(world, Array::from_values({size}, DType::kBF16, values));
    everyone(world).all_reduce(in, in, ReduceOp::kSum);
    if (values_here(in) != std::vector<double>(values.size(), 264)) notes.push_back("sum");
  });
  CHECK(wrong == std::vector<std::string>{});
}

TEST_CASE("NaN wins max and min, and -0 stays in a sum of -0", "[runtime][collectives]") {
  const DType dtype = GENERATE(DType::kF64, DType::kF32, DType::kBF16);
  const int nan_rank = GENERATE(0, 1, 2);
  const auto wrong = complaints_of(3, [&](World& world, std::vector<std::string>& notes) {
    const double own = world.rank() == nan_rank ? NAN : static_cast<double>(world.rank());
    for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin}) {
      const Array in = on_world(world, Array::from_values({1}, dtype, std::vector<double>{own}));
      everyone(world).all_reduce(in, in, op);
      if (!std::isnan(values_here(in)[0])) notes.push_back("NaN lost");
    }
    const Array zero = on_world(world, Array::from_values({1}, dtype, std::vector<double>{-0.0}));
    everyone(world).all_reduce(zero, zero, ReduceOp::kSum);
    if (!std::signbit(values_here(zero)[0])) notes.push_back("sign lost");
  });
  CHECK(wrong == std::vector<std::string>{});
}

TEST_CASE("groups are positions in a rank list, and apart from each other", "[runtime][world]") {
  const auto wrong = complaints_of(4, [](World& world, std::vector<std::string>& notes) {
    // {3, 1}: group rank 0 is rank 3. {0, 2} goes on by itself.
    const bool odd = world.rank() % 2 == 1;
    const Rows ranks = odd ? Rows{3, 1} : Rows{0, 2};
    Communicator* group = value_or_throw(world.group(ranks));
    if (group != value_or_throw(world.group(ranks))) notes.push_back("not cached");
    if (group->world_rank(0) != ranks[0] || group->size() != 2) notes.push_back("membership");
    for (int repeat = 0; repeat < (odd ? 50 : 7); ++repeat) {
      const Array in = on_world(
          world, Array::from_values({1}, DType::kI64, std::vector<double>{double(world.rank())}));
      const Array out = Array::empty({2}, DType::kI64, world.allocator());
      group->all_gather(in, out);
      if (values_here(out) != std::vector<double>{double(ranks[0]), double(ranks[1])}) {
        notes.push_back("order");
      }
    }
  });
  CHECK(wrong == std::vector<std::string>{});
}

TEST_CASE("a group along mesh axes is row-major over the axes listed", "[runtime][world]") {
  const Mesh mesh =
      value_or_throw(Mesh::make(std::vector<std::int64_t>{2, 2, 2}, {"dp", "cp", "tp"}));
  const auto seen = results_of(8, {}, [&](World& world) {
                      const std::vector<int> axes = {2, 0};
                      Communicator* group = value_or_throw(world.group_along(mesh, axes));
                      Rows ranks;
                      for (int i = 0; i < group->size(); ++i) ranks.push_back(group->world_rank(i));
                      return ranks;
                    }).value();
  CHECK(seen[0] == Rows{0, 4, 1, 5});
  CHECK(seen[5] == Rows{0, 4, 1, 5});
  CHECK(seen[3] == Rows{2, 6, 3, 7});
}

TEST_CASE("a group that cannot be is refused with the reason", "[runtime][world]") {
  const auto world = make_single_world();
  const auto text_of = [&](const Rows& ranks) {
    return std::string(message_of(world->group(ranks).status()));
  };
  CHECK(text_of({0, 0}) == "group: ranks [0, 0] must not repeat");
  CHECK(text_of({1}) == "group: ranks [1] must lie in [0, 1)");
  CHECK(text_of({}) == "group: ranks [] must lie in [0, 1)");
  CHECK(run_ranks(0, {}, [](World&) {}).code() == absl::StatusCode::kInvalidArgument);
  const auto wrong = complaints_of(2, [](World& two, std::vector<std::string>& notes) {
    const Rows other{1 - two.rank()};
    if (two.group(other).ok()) notes.push_back("a group without this rank");
  });
  CHECK(wrong == std::vector<std::string>{});
}

TEST_CASE("a world of one rank needs no other", "[runtime][world]") {
  const auto world = make_single_world({.threads_per_rank = 1});
  Communicator& group = everyone(*world);
  const Array in = Array::from_values({2}, DType::kF32, std::vector<double>{1, 2});
  const Array out = Array::empty({2}, DType::kF32);
  group.all_reduce(in, out, ReduceOp::kAvg);
  CHECK(out.to_vector() == in.to_vector());
  group.all_to_all(in, out, Rows{2}, Rows{2});
  group.broadcast(in, 0);
  group.barrier();
  CHECK(world->events().events().empty());
  CHECK(world->threads_per_rank() == 1);
  CHECK(world->now_us() > 0);
}

}  // namespace tessera
