// NaN with their payloads, infinities, zeros of both signs and denormals: moved bit for bit, and
// reduced as docs/concepts.md says.
#include <cmath>
#include <set>

#include "tests/dtensor/outcome.h"
#include "tests/dtensor/short_placements.h"

namespace tessera::testing {
namespace {

constexpr DType kFloats[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};

/// Bits of one element.
struct Format {
  int exponent, mantissa;
  std::uint64_t sign() const { return std::uint64_t{1} << (exponent + mantissa); }
  std::uint64_t infinity() const { return ((std::uint64_t{1} << exponent) - 1) << mantissa; }
  std::uint64_t quiet() const { return std::uint64_t{1} << (mantissa - 1); }
};
Format format_of(DType dtype) {
  if (dtype == DType::kF64) return {11, 52};
  if (dtype == DType::kF32) return {8, 23};
  return dtype == DType::kBF16 ? Format{8, 7} : Format{5, 10};
}

/// Zero, the least and the largest denormal, the least normal, 1.5 or so, the largest number,
/// infinity, NaN quiet and signalling with payloads; then all of them with the sign bit.
std::vector<std::uint64_t> special_bits(DType dtype) {
  const Format f = format_of(dtype);
  const std::uint64_t normal = std::uint64_t{1} << f.mantissa, inf = f.infinity();
  std::vector<std::uint64_t> bits = {0,
                                     1,
                                     normal - 1,
                                     normal,
                                     (inf >> 1 & inf) | f.quiet(),
                                     inf - 1,
                                     inf,
                                     inf | f.quiet(),
                                     inf | f.quiet() | 5,
                                     inf | 1,
                                     inf | (f.quiet() - 1)};
  for (std::size_t i = 0, count = bits.size(); i < count; ++i) bits.push_back(bits[i] | f.sign());
  return bits;
}

std::uint64_t bits_at(const Array& array, std::int64_t i) {
  std::uint64_t bits = 0;
  const std::int64_t width = size_of(array.dtype());
  std::memcpy(&bits, array.bytes() + i * width, static_cast<std::size_t>(width));
  return bits;
}
void set_bits(const Array& array, std::int64_t i, std::uint64_t bits) {
  const std::int64_t width = size_of(array.dtype());
  std::memcpy(array.bytes() + i * width, &bits, static_cast<std::size_t>(width));
}

Array special_array(const Shape& shape, DType dtype) {
  const std::vector<std::uint64_t> bits = special_bits(dtype);
  const Array array = Array::empty(shape, dtype);
  for (std::int64_t i = 0; i < array.num_elements(); ++i) {
    set_bits(array, i, bits[static_cast<std::size_t>(i) % bits.size()]);
  }
  return array;
}

/// Where `moved` holds other bits than special_array() has at the indices that `index` holds
/// beside them; −1: nowhere.
std::int64_t first_changed(const DTensor& moved, const DTensor& index) {
  const std::vector<std::uint64_t> bits = special_bits(moved.dtype());
  const Array local = copy_of(moved.local()), at = copy_of(index.local());
  for (std::int64_t i = 0; i < local.num_elements(); ++i) {
    const auto global = static_cast<std::size_t>(at.data<std::int64_t>()[i]);
    if (bits_at(local, i) != bits[global % bits.size()]) return static_cast<std::int64_t>(global);
  }
  return -1;
}

struct Moves {
  std::vector<std::string> flaws;
  std::set<std::string> collectives;
  std::int64_t num_moves = 0;
};

/// Every ordered pair of these placements, for every floating type.
Moves move_all(Rank& rank, const Shape& shape, const std::vector<Placements>& all) {
  Moves moves;
  const Array numbers = Array::empty(shape, DType::kI64);
  std::iota(numbers.data<std::int64_t>(), numbers.data<std::int64_t>() + num_elements(shape), 0);
  for (const Placements& from : all) {
    const DTensor from_index = rank.distribute(numbers, from);
    for (const Placements& to : all) {
      const DTensor index = redistribute(from_index, to);
      for (const DType dtype : kFloats) {
        const DTensor x = rank.distribute(special_array(shape, dtype), from);
        const std::int64_t changed =
            std::max(first_changed(x, from_index), first_changed(redistribute(x, to), index));
        ++moves.num_moves;
        if (changed < 0) continue;
        moves.flaws.push_back(std::string(name_of(dtype)) + to_string(shape) + " " +
                              to_string(from) + " to " + to_string(to) + ": element " +
                              std::to_string(changed));
      }
    }
  }
  for (const Event& event : rank.runtime.events().events()) {
    if (event.kind == Event::Kind::kCollective) moves.collectives.insert(event.name);
  }
  return moves;
}

void check_moves(const std::vector<Moves>& ranks) {
  for (const Moves& moves : ranks) CHECK(moves.flaws == std::vector<std::string>{});
}

/// What a fold of the ranks' summands gives, in their order, in the type that sums are formed in.
template <class Acc>
Acc folded(ReduceOp op, const std::vector<double>& summands) {
  auto result = static_cast<Acc>(summands[0]);
  for (std::size_t i = 1; i < summands.size(); ++i) {
    const auto next = static_cast<Acc>(summands[i]);
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAvg:
        result = result + next;
        break;
      case ReduceOp::kProd:
        result = result * next;
        break;
      case ReduceOp::kMax:
        result = std::isnan(result) || result > next ? result : next;
        break;
      case ReduceOp::kMin:
        result = std::isnan(result) || result < next ? result : next;
        break;
    }
  }
  return op == ReduceOp::kAvg ? result / static_cast<Acc>(summands.size()) : result;
}

/// Which special value rank `rank` holds at element i.
std::size_t choice(std::int64_t rank, std::int64_t i, std::size_t count) {
  Numbers numbers{static_cast<std::uint64_t>(i * 64 + rank)};
  return static_cast<std::size_t>(numbers.next() % count);
}

}  // namespace

TEST_CASE("special values are moved bit for bit between all placements of one axis",
          "[dtensor][special][R16]") {
  const auto n = GENERATE(2, 3, 4);
  const Shape shape = GENERATE(Shape{7, 13}, Shape{2, 3}, Shape{64, 48});
  CAPTURE(n, shape);
  check_moves(run_ranks({{"tp", n}}, [&](Rank& rank) {
    return move_all(rank, shape, {{R}, {S(0)}, {S(1)}, {StridedShard{0, 2}}, {StridedShard{1, 3}}});
  }));
}

TEST_CASE("special values are moved bit for bit between all placements of two axes",
          "[dtensor][special][R16]") {
  const Shape shape = GENERATE(Shape{7, 13}, Shape{5, 3});
  CAPTURE(shape);
  const auto ranks = run_ranks({{"dp", 2}, {"tp", 2}}, [&](Rank& rank) {
    return move_all(rank, shape,
                    {{R, R},
                     {S(0), R},
                     {R, S(0)},
                     {S(0), S(0)},
                     {S(0), S(1)},
                     {S(1), S(0)},
                     {StridedShard{0, 2}, S(0)},
                     {S(1), R},
                     {R, StridedShard{1, 2}}});
  });
  check_moves(ranks);
  CHECK(ranks[0].num_moves == 9 * 9 * 4);
  // Gathers and exact exchanges; slices move nothing.
  for (const char* name : {"all_gather", "exchange"}) {
    CAPTURE(name);
    CHECK(ranks[0].collectives.count(name) == 1);
  }
}

TEST_CASE("special values are moved bit for bit between meshes", "[dtensor][special][R16]") {
  if (!runs_here(4)) return;
  const auto ranks = run_ranks({{"dp", 2}, {"tp", 2}}, [](Rank& rank) {
    const Mesh other = make_mesh({{"ep", 3}});
    const Shape shape = {7, 13};
    const Array numbers = Array::empty(shape, DType::kI64);
    std::iota(numbers.data<std::int64_t>(), numbers.data<std::int64_t>() + num_elements(shape), 0);
    std::vector<std::string> flaws;
    for (const Placements& from : {Placements{S(0), S(1)}, Placements{R, S(0)}}) {
      for (const Placements& to : {Placements{S(0)}, Placements{S(1)}, Placements{R}}) {
        const DTensor index = redistribute(rank.distribute(numbers, from), other, to);
        for (const DType dtype : kFloats) {
          const DTensor x = rank.distribute(special_array(shape, dtype), from);
          const DTensor moved = redistribute(x, other, to);
          if (moved.local().is_null() || first_changed(moved, index) < 0) continue;
          flaws.push_back(to_string(from) + " to " + to_string(to));
        }
      }
    }
    return flaws;
  });
  for (const std::vector<std::string>& flaws : ranks) CHECK(flaws == std::vector<std::string>{});
}

TEST_CASE("a value that becomes summands and is summed again has its bits, NaN its kind",
          "[dtensor][special][R16]") {
  const auto n = GENERATE(2, 3, 4);
  const auto ranks = run_ranks({{"tp", n}}, [](Rank& rank) {
    std::vector<std::string> flaws;
    for (const DType dtype : kFloats) {
      const Array special = special_array({7, 13}, dtype);
      for (const Placements& to : {Placements{R}, Placements{S(0)}, Placements{S(1)}}) {
        const DTensor summed = redistribute(
            redistribute(rank.distribute(special, {R}), {Partial{ReduceOp::kSum}}), to);
        const Array back = copy_of(redistribute(summed, {R}).local());
        const std::vector<double> values = back.to_vector(), before = special.to_vector();
        for (std::size_t i = 0; i < before.size(); ++i) {
          const auto at = static_cast<std::int64_t>(i);
          const bool same = std::isnan(before[i]) ? std::isnan(values[i])
                                                  : bits_at(back, at) == bits_at(special, at);
          if (!same) flaws.push_back(std::string(name_of(dtype)) + " element " + std::to_string(i));
        }
      }
    }
    return flaws;
  });
  for (const std::vector<std::string>& flaws : ranks) CHECK(flaws == std::vector<std::string>{});
}

TEST_CASE("reductions of special values go in the order of ranks: NaN wins, denormals count",
          "[dtensor][special][R16]") {
  const auto n = GENERATE(2, 3, 4, 8);
  const ReduceOp op =
      GENERATE(ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kProd);
  CAPTURE(n, std::string(name_of(op)));
  const Shape shape = {41, 77};
  const auto ranks = run_ranks({{"tp", n}}, [&](Rank& rank) {
    std::vector<std::string> flaws;
    for (const DType dtype : kFloats) {
      const std::vector<std::uint64_t> bits = special_bits(dtype);
      const auto summands_of = [&](std::int64_t of_rank) {
        const Array array = Array::empty(shape, dtype);
        for (std::int64_t i = 0; i < array.num_elements(); ++i) {
          set_bits(array, i, bits[choice(of_rank, i, bits.size())]);
        }
        return array;
      };
      std::vector<std::vector<double>> summands;
      for (std::int64_t r = 0; r < n; ++r) summands.push_back(summands_of(r).to_vector());
      std::vector<double> folds;
      for (std::size_t i = 0; i < summands[0].size(); ++i) {
        std::vector<double> of_element;
        for (const std::vector<double>& each : summands) of_element.push_back(each[i]);
        folds.push_back(dtype == DType::kF64 ? folded<double>(op, of_element)
                                             : static_cast<double>(folded<float>(op, of_element)));
      }
      const Array expected = Array::from_values(shape, dtype, folds);
      for (const Placements& to : {Placements{R}, Placements{S(0)}, Placements{S(1)}}) {
        const DTensor x = from_local(here(rank.runtime, summands_of(rank.index())), rank.mesh,
                                     Placements{Partial{op}}, shape);
        const Array got = copy_of(redistribute(redistribute(x, to), {R}).local());
        const std::vector<double> values = got.to_vector();
        for (std::size_t i = 0; i < folds.size(); ++i) {
          const auto at = static_cast<std::int64_t>(i);
          const bool same = std::isnan(folds[i]) ? std::isnan(values[i])
                                                 : bits_at(got, at) == bits_at(expected, at);
          if (same) continue;
          std::string text = std::string(name_of(dtype)) + " to " + to_string(to) + ": ";
          for (const auto& each : summands) text += std::to_string(each[i]) + " ";
          flaws.push_back(text + "gave " + std::to_string(values[i]));
          break;
        }
      }
    }
    return flaws;
  });
  for (const std::vector<std::string>& flaws : ranks) CHECK(flaws == std::vector<std::string>{});
}

}  // namespace tessera::testing
