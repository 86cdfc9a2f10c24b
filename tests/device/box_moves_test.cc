// Boxes between arrays on the device, against the processor's.
#include "kernels/box_moves.h"

#include "tests/device/device_arrays.h"

namespace tessera::testing {
namespace {

using namespace kernels;

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kProd};

/// Random moves, whose targets do not overlap.
struct Moves {
  BoxMoves moves;
  std::int64_t source_elements = 1, target_elements = 1;

  explicit Moves(std::int64_t element_bytes, BoxMoves::Stay stay) : moves(element_bytes, stay) {}
  /// A number that some power of two divides, so that words of every size come up.
  static std::int64_t even(TwinMaker& make, std::int64_t most) {
    const std::int64_t step = std::int64_t{1} << make.number(0, 4);
    return make.number(0, most) * step;
  }
  void add(TwinMaker& make, std::int64_t num_sources, std::int64_t num_cuts,
           std::int64_t num_targets) {
    BoxRows to;
    to.first = target_elements + even(make, 3);
    to.rows = make.number(0, 4);
    to.row_elements = std::max<std::int64_t>(make.number(0, 1), even(make, 5));
    to.stride = to.row_elements + even(make, 2);
    to.first_target = num_targets > 1 ? make.number(0, 1) : 0;
    to.num_targets = num_targets - to.first_target;
    std::vector<BoxCut> cuts;
    for (std::int64_t c = 0; c < num_cuts; ++c) {
      const std::int64_t stride = even(make, 4);
      cuts.push_back({make.number(0, num_sources - 1), even(make, 6), stride});
      source_elements =
          std::max(source_elements, cuts.back().first + to.rows * stride + to.row_elements);
    }
    moves.add(to, cuts);
    target_elements = to.first + to.rows * to.stride + to.row_elements;
  }
};

std::vector<std::byte*> bytes_of(const std::vector<Twins>& arrays, bool device) {
  std::vector<std::byte*> all;
  for (const Twins& each : arrays) all.push_back(side(each, device).bytes());
  return all;
}

// On both sides, after which the targets are the same.
void move_twins(OnDevice& on, const BoxMoves& moves, const std::vector<Twins>& sources,
                const std::vector<Twins>& targets, const std::optional<Fold>& how = std::nullopt) {
  for (const bool device : {false, true}) {
    KernelContext cpu;
    KernelContext& ctx = device ? on.ctx : cpu;
    const std::vector<std::byte*> from = bytes_of(sources, device);
    const std::vector<const std::byte*> read(from.begin(), from.end());
    const std::vector<std::byte*> written = bytes_of(targets, device);
    const Array kept = move_boxes(
        ctx, moves, {.sources = read, .targets = written, .dtype = targets[0].host.dtype()}, how,
        ctx.device->compute());
    if (device) on.finish();
  }
  for (const Twins& each : targets) {
    CHECK(difference(fetch(on, each.device), each.host, 0) == "");
  }
}

}  // namespace

TEST_CASE("boxes move on the device as on the processor", "[device][box_moves]") {
  OnDevice on;
  TwinMaker make(on, 91);
  // With more moves or arrays than a launch carries, and tables that stay.
  for (int i = 0; i < 400; ++i) {
    const bool folds = i % 2 == 1;
    const DType dtype = any_of(make, kAll);
    const bool many = i % 20 >= 18;
    const std::int64_t num_sources = i % 40 == 38 ? 150 : make.number(1, 5);
    const std::int64_t num_targets = make.number(1, 3);
    const bool stays = make.number(0, 1) == 1;
    Moves made(size_of(dtype), stays ? BoxMoves::Stay::kYes : BoxMoves::Stay::kNo);
    const std::int64_t num_moves = many ? 60 : make.number(0, 6);
    for (std::int64_t m = 0; m < num_moves; ++m) {
      made.add(make, num_sources, folds ? make.number(1, 4) : 1, num_targets);
    }
    std::vector<Twins> sources, targets;
    for (std::int64_t s = 0; s < num_sources; ++s) {
      sources.push_back(make.values({made.source_elements}, dtype));
    }
    for (std::int64_t t = 0; t < num_targets; ++t) {
      targets.push_back(make.values({made.target_elements}, dtype));
    }
    const std::optional<Fold> how =
        folds ? std::optional(Fold{kOps[make.number(0, 3)], is_floating(dtype) ? i % 3 + 1 : 1})
              : std::nullopt;
    CAPTURE(i, name_of(dtype), num_sources, num_targets, num_moves, stays);
    for (int repeat = 0; repeat < 2; ++repeat) {
      move_twins(on, made.moves, sources, targets, how);
    }
  }
}

TEST_CASE("large boxes move beside small ones", "[device][box_moves]") {
  OnDevice on;
  TwinMaker make(on, 95);
  for (int i = 0; i < 30; ++i) {
    const DType dtype = any_of(make, kAll);
    BoxMoves moves(size_of(dtype));
    std::int64_t read = 0, written = 0;
    for (std::int64_t m = make.number(1, 4); m > 0; --m) {
      const bool large = make.number(0, 2) > 0, even = make.number(0, 1) == 1;
      const std::int64_t unit = even ? 16 : 1;
      const std::int64_t width = make.number(1, even ? 12 : 150) * unit;
      const std::int64_t rows = large ? 40000 / width + 1 : make.number(1, 3);
      const std::int64_t to_gap = make.number(0, 2) * unit, from_gap = make.number(0, 2) * unit;
      const BoxCut cut = {.first = read, .stride = width + from_gap};
      moves.add({.first = written, .stride = width + to_gap, .rows = rows, .row_elements = width},
                {&cut, 1});
      read += rows * cut.stride + make.number(0, 1) * unit;
      written += rows * (width + to_gap) + make.number(0, 1) * unit;
    }
    CAPTURE(i, name_of(dtype), moves.num_moves(), moves.num_chunks());
    move_twins(on, moves, {make.values({read}, dtype)}, {make.values({written}, dtype)});
  }
}

TEST_CASE("moves that follow others in one launch", "[device][box_moves]") {
  OnDevice on;
  TwinMaker make(on, 92);
  BoxMoves first(4), second(4), both(4);
  const BoxCut cut{.source = 0, .first = 2, .stride = 5};
  first.add({.first = 1, .stride = 4, .rows = 3, .row_elements = 3}, {&cut, 1});
  second.add({.first = 4, .row_elements = 8}, {&cut, 1});
  both.append(first, 0, 0);
  both.append(second, 1, 1);
  CHECK(both.num_sources() == 2);
  CHECK(both.num_targets() == 2);
  const Twins a = make.values({20}, DType::kF32), b = make.values({20}, DType::kF32);
  const Twins to_a = make.values({20}, DType::kF32), to_b = make.values({20}, DType::kF32);
  KernelContext cpu;
  for (const bool device : {false, true}) {
    KernelContext& ctx = device ? on.ctx : cpu;
    const std::byte* from[] = {side(a, device).bytes(), side(b, device).bytes()};
    std::byte* to[] = {side(to_a, device).bytes(), side(to_b, device).bytes()};
    CHECK(
        move_boxes(ctx, both, {.sources = from, .targets = to}, std::nullopt, ctx.device->compute())
            .is_null());
  }
  CHECK(difference(fetch(on, to_a.device), to_a.host, 0) == "");
  CHECK(difference(fetch(on, to_b.device), to_b.host, 0) == "");
  CHECK(to_b.host.to_vector()[4] == b.host.to_vector()[2]);
}

TEST_CASE("short rows that share memory go to many arrays and come from many",
          "[device][box_moves]") {
  OnDevice on;
  TwinMaker make(on, 94);
  constexpr std::int64_t kPeers = 3;
  for (int i = 0; i < 120; ++i) {
    const DType dtype = any_of(make, kAll);
    const std::int64_t width = make.number(1, 6);
    const std::int64_t rows = i % 10 == 0 ? make.number(500, 4000) : make.number(1, 40);
    const std::int64_t first = make.number(0, 2), gap = make.number(0, 1);
    const std::int64_t wide = kPeers * width + gap, room = 2 + rows * wide;
    const bool splits = i % 2 == 0;
    CAPTURE(i, name_of(dtype), width, rows, first, gap, splits);
    BoxMoves moves(size_of(dtype));
    // In an order that is not that of memory.
    for (std::int64_t outer = 0; outer < 2; ++outer) {
      for (const std::int64_t peer : {2, 0, 1}) {
        const std::int64_t narrow = outer * kPeers + peer, in_wide = first + peer * width;
        const BoxCut cut = splits ? BoxCut{.source = outer, .first = in_wide, .stride = wide}
                                  : BoxCut{.source = narrow, .first = first, .stride = width};
        const BoxRows to = splits ? BoxRows{.first = first,
                                            .stride = width,
                                            .rows = rows,
                                            .row_elements = width,
                                            .first_target = narrow}
                                  : BoxRows{.first = in_wide,
                                            .stride = wide,
                                            .rows = rows,
                                            .row_elements = width,
                                            .first_target = outer};
        moves.add(to, {&cut, 1});
      }
    }
    std::vector<Twins> wides, narrows;
    for (int k = 0; k < 2; ++k) wides.push_back(make.values({room}, dtype));
    for (int k = 0; k < 6; ++k) narrows.push_back(make.values({2 + rows * width}, dtype));
    const std::vector<Twins>& sources = splits ? wides : narrows;
    const std::vector<Twins>& targets = splits ? narrows : wides;
    move_twins(on, moves, sources, targets);
    const auto at = [&](const Twins& twins, std::int64_t where) {
      return twins.host.to_vector()[static_cast<std::size_t>(where)];
    };
    const std::int64_t row = rows - 1, column = width - 1;
    CHECK(at(narrows[4], first + row * width + column) ==
          at(wides[1], first + width + row * wide + column));
  }
}

TEST_CASE("moves that were broken off by the time they run do nothing", "[device][box_moves]") {
  OnDevice on;
  TwinMaker make(on, 96);
  const bool folds = GENERATE(false, true);
  const std::int64_t size = GENERATE(3, 64);  // elements, and vectors of them
  const BoxCut cuts[] = {{.source = 0}, {.source = 1}};
  BoxMoves moves(4);
  moves.add({.row_elements = size}, {cuts, folds ? 2U : 1U});
  const Twins a = make.values({size}, DType::kF32), b = make.values({size}, DType::kF32);
  const Twins target = make.values({size}, DType::kF32);
  const std::vector<double> before = target.host.to_vector();
  const Array word = Array::zeros({1}, DType::kI64, on.memory);
  const std::byte* from[] = {a.device.bytes(), b.device.bytes()};
  std::byte* to[] = {target.device.bytes()};
  const std::optional<Fold> how = folds ? std::optional(Fold{}) : std::nullopt;
  for (const std::int64_t broken_off : {1, 0}) {
    on.device->upload(word.bytes(), &broken_off, sizeof broken_off, on.device->compute());
    const MovedArrays arrays{.sources = from,
                             .targets = to,
                             .broken_off = reinterpret_cast<const std::int64_t*>(word.bytes())};
    CHECK(move_boxes(on.ctx, moves, arrays, how, on.device->compute()).is_null());
    CHECK((fetch(on, target.device).to_vector() == before) == (broken_off == 1));
  }
}

TEST_CASE("moves that do not fit what they are given are refused", "[device][box_moves][errors]") {
  OnDevice on;
  const Array x = Array::zeros({4}, DType::kF32, on.memory);
  const BoxCut cuts[] = {{.source = 0}, {.source = 1}};
  BoxMoves moves(4);
  moves.add({.row_elements = 2}, cuts);
  const std::byte* from[] = {x.bytes(), x.bytes()};
  std::byte* to[] = {x.bytes()};
  const auto move = [&](std::span<const std::byte* const> sources, DType dtype,
                        const std::optional<Fold>& how) {
    return move_boxes(on.ctx, moves, {.sources = sources, .targets = to, .dtype = dtype}, how,
                      on.device->compute());
  };
  CHECK_THROWS_WITH(move({from, 1}, DType::kF32, Fold{}),
                    "move_boxes: 1 sources and 1 targets of F32; the moves name 2 and 1, of "
                    "elements of 4 bytes");
  CHECK_THROWS_WITH(move(from, DType::kF64, Fold{}),
                    "move_boxes: 2 sources and 1 targets of F64; the moves name 2 and 1, of "
                    "elements of 4 bytes");
  CHECK_THROWS_WITH(move(from, DType::kF32, std::nullopt),
                    "move_boxes: moves of several cuts need a fold");
}

TEST_CASE("identities of folds are the same on the device", "[device][box_moves]") {
  OnDevice on;
  TwinMaker make(on, 93);
  const DType dtype = GENERATE(from_range(std::begin(kAll), std::end(kAll)));
  for (const ReduceOp op : kOps) {
    const Twins out = make.values({7}, dtype);
    CHECK(compare(on, out, 0, [&](KernelContext& ctx, bool device) {
            fill_identity(ctx, op, side(out, device));
          }) == "");
  }
}

}  // namespace tessera::testing
