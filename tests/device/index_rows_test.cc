// Rows by an index on the device against the processor's: selected, embedded, permuted, added,
// weighted; positions of a dim by a list.
#include "kernels/row_sums.h"
#include "kernels/take_map.h"
#include "tests/device/index_twins.h"

namespace tessera::testing {
namespace {

using namespace kernels;

constexpr int kCases = 300;

/// Rows that packs of 16 bytes make up, and rows that they do not.
std::int64_t row_size(TwinMaker& make) {
  const std::int64_t packed = 16 * make.number(1, 12);
  return make.number(0, 2) == 0 ? packed : make.number(make.number(0, 9) == 0 ? 0 : 1, 40);
}
std::int64_t count_of(TwinMaker& make) {
  return make.number(0, 9) == 0 ? make.number(250, 700) : make.number(0, 30);
}

}  // namespace

TEST_CASE("rows are selected and added along any dim as on the processor", "[device][index]") {
  OnDevice on;
  TwinMaker make(on, 111);
  for (int i = 0; i < kCases; ++i) {
    Shape shape = indexed_shape(make);
    if (i % 3 == 0) shape = {make.number(1, 9), row_size(make)};
    const int dim = i % 3 == 0 ? 0 : static_cast<int>(make.number(0, std::ssize(shape) - 1));
    const auto d = static_cast<std::size_t>(dim);
    Shape part = shape;
    part[d] = i % 3 == 0 ? make.number(0, 30) : count_of(make);
    const DType dtype = any_of(make, kAll), of_index = any_of(make, kIndexTypes);
    const Absent absent = any_absent(make);
    const Twins whole = make.view(shape, dtype), rows = make.view(part, dtype);
    Twins index = index_into(make, {2 * part[d]}, shape[d], absent, of_index);
    const std::int64_t step = part[d] > 0 && i % 2 == 0 ? 2 : 1;
    index = {index.host.as_strided({part[d]}, {step}, 0),
             index.device.as_strided({part[d]}, {step}, 0)};
    CAPTURE(i, shape, dim, part, name_of(dtype));
    CHECK(compare(on, rows, 0.0, [&](KernelContext& ctx, bool device) {
            index_select(ctx, side(whole, device), dim, side(index, device), absent,
                         side(rows, device));
          }) == "");
    const Twins more = make.view(part, dtype);
    CHECK(compare(on, whole, 0.0, [&](KernelContext& ctx, bool device) {
            index_add(ctx, side(whole, device), dim, side(index, device), side(more, device),
                      absent);
          }) == "");
    CHECK(compare(on, whole, 0.0, [&](KernelContext& ctx, bool device) {
            index_add(ctx, side(whole, device), dim + 1 + i % 4, side(index, device),
                      side(more, device), absent);
          }) == "");
  }
}

TEST_CASE("embeddings and their gradients are the same on the device", "[device][index]") {
  OnDevice on;
  TwinMaker make(on, 112);
  for (int i = 0; i < kCases; ++i) {
    const std::int64_t rows = i % 10 == 0 ? make.number(250, 70000 / 10) : make.number(0, 12);
    const std::int64_t dim = i % 10 == 0 ? make.number(1, 3) : row_size(make);
    Shape of_ids = indexed_shape(make);
    if (i % 7 == 0) of_ids = {count_of(make)};
    Shape of_rows = of_ids;
    of_rows.push_back(dim);
    const DType dtype = any_of(make, kAll);
    const Absent absent = any_absent(make);
    const Twins weight = make.view({rows, dim}, dtype), out = make.output(of_rows, dtype),
                grad = make.view(of_rows, dtype), grad_weight = make.output({rows, dim}, dtype);
    const Twins ids = index_view(make, of_ids, 0, rows, absent, any_of(make, kIndexTypes));
    CAPTURE(i, rows, dim, of_ids, name_of(dtype));
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            embedding(ctx, side(weight, device), side(ids, device), absent, side(out, device));
          }) == "");
    CHECK(compare(on, grad_weight, 0.0, [&](KernelContext& ctx, bool device) {
            embedding_grad(ctx, side(grad, device), side(ids, device), absent,
                           side(grad_weight, device));
          }) == "");
    const Twins wrong = make.values({2, 3}, dtype);
    CHECK(compare(on, wrong, 0.0, [&](KernelContext& ctx, bool device) {
            embedding(ctx, side(weight, device), side(ids, device), absent, side(wrong, device));
          }) == "");
  }
}

TEST_CASE("rows are permuted as on the processor", "[device][index]") {
  OnDevice on;
  TwinMaker make(on, 113);
  for (int i = 0; i < kCases; ++i) {
    const std::int64_t tokens = make.number(0, 20), dim = row_size(make), count = count_of(make);
    const DType dtype = any_of(make, kAll);
    const Twins x = make.view({tokens, dim}, dtype), out = make.output({count, dim}, dtype);
    const Twins from = index_into(make, {count}, tokens, Absent::kError, any_of(make, kIndexTypes));
    CAPTURE(i, tokens, dim, count, name_of(dtype));
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            permute_rows(ctx, side(x, device), side(from, device), side(out, device));
          }) == "");
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            permute_rows(ctx, side(from, device), side(from, device), side(out, device));
          }) == "");
  }
}

TEST_CASE("weighted sums of rows and their gradients are the same on the device",
          "[device][index]") {
  OnDevice on;
  TwinMaker make(on, 114);
  for (int i = 0; i < kCases; ++i) {
    const std::int64_t tokens = make.number(0, 12), top_k = make.number(0, 9), dim = row_size(make);
    const std::int64_t slots = tokens * top_k, count = make.number(0, slots + 3);
    const DType dtype = i % 50 == 0 ? DType::kI32 : any_of(make, kFloating);
    const DType of_sums = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
    const DType to = make.number(0, 2) == 0 ? of_sums : dtype;
    const Twins rows = make.squares({count, dim}, dtype), out = make.output({tokens, dim}, to),
                grad = make.squares({tokens, dim}, to);
    const Twins weights = make.squares({tokens, top_k}, of_sums);
    const bool is_refused = !is_floating(dtype);  // for that alone
    const std::vector<double> none(static_cast<std::size_t>(slots), -1.0);
    const Twins place = is_refused
                            ? make.of(Array::from_values({tokens, top_k}, DType::kI64, none))
                            : index_into(make, {tokens, top_k}, count, Absent::kSkip, DType::kI64);
    const double tolerance = 20 * std::max(tolerance_of(to), tolerance_of(of_sums));
    CAPTURE(i, tokens, top_k, dim, count, name_of(dtype), name_of(to));
    CHECK(compare(on, out, tolerance, [&](KernelContext& ctx, bool device) {
            weighted_row_sum(ctx, side(rows, device), i % 4 == 0 ? Array() : side(weights, device),
                             side(place, device), side(out, device));
          }) == "");
    CHECK(compare(on, out, tolerance, [&](KernelContext& ctx, bool device) {
            weighted_row_sum(ctx, side(rows, device), side(rows, device), side(place, device),
                             side(out, device));
          }) == "");

    // Each slot holds one row at most.
    std::vector<double> slot(static_cast<std::size_t>(count), -1.0);
    for (std::int64_t s = 0; s < slots && count > 0; ++s) {
      const auto n = static_cast<std::size_t>(make.number(0, count - 1));
      if (slot[n] < 0) slot[n] = static_cast<double>(s);
    }
    const bool is_bad = i % 11 == 0 && count > 0 && !is_refused;
    if (is_bad) slot.back() = static_cast<double>(slots);
    const Twins slot_N = make.of(Array::from_values({count}, DType::kI64, slot));
    const Twins grad_rows = make.values({count, dim}, dtype),
                grad_weights = make.values({tokens, top_k}, of_sums);
    const double of_dots = 300 * tolerance_of(of_sums);
    CHECK(compare(on, grad_rows, 4 * tolerance_of(dtype), [&](KernelContext& ctx, bool device) {
            weighted_row_sum_grad(ctx, side(rows, device), side(weights, device),
                                  side(slot_N, device), side(grad, device),
                                  {side(grad_rows, device), side(grad_weights, device)});
          }) == "");
    if (!is_bad && !is_refused) {
      CHECK(difference(fetch(on, grad_weights.device), grad_weights.host, of_dots) == "");
    }
  }
}

TEST_CASE("rows without elements do not hide a bad index", "[device][index]") {
  OnDevice on;
  TwinMaker make(on, 116);
  const Twins rows = make.values({5, 0}, DType::kF32), out = make.values({3, 0}, DType::kF32);
  const Twins bad = make.of(Array::from_values({3}, DType::kI64, std::vector<double>{4, 0, 5}));
  const Twins places =
      make.of(Array::from_values({3, 1}, DType::kI64, std::vector<double>{-1, 4, 5}));
  CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
          embedding(ctx, side(rows, device), side(bad, device), Absent::kSkip, side(out, device));
        }) == "");
  CHECK(compare(on, rows, 0.0, [&](KernelContext& ctx, bool device) {
          embedding_grad(ctx, side(out, device), side(bad, device), Absent::kSkip,
                         side(rows, device));
        }) == "");
  CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
          weighted_row_sum(ctx, side(rows, device), Array(), side(places, device),
                           side(out, device));
        }) == "");
}

TEST_CASE("sums that go back round as the processor's, integers beside half precision too",
          "[device][index]") {
  OnDevice on;
  TwinMaker make(on, 117);
  const std::vector<double> values(300, 301.0);
  const std::vector<std::int64_t> places(300, 1);
  for (const auto& [of_grad, to] :
       {std::pair{DType::kI64, DType::kBF16}, std::pair{DType::kBF16, DType::kI64},
        std::pair{DType::kBF16, DType::kBF16}, std::pair{DType::kF32, DType::kF16},
        std::pair{DType::kI32, DType::kU8}}) {
    const Twins grad = make.of(Array::from_values({300}, of_grad, values));
    const Twins out = make.values({3}, to);
    CAPTURE(name_of(of_grad), name_of(to));
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            add_map(ctx, side(grad, device), 0, places, side(out, device));
          }) == "");
  }
}

TEST_CASE("positions of a dim are taken by a list and added back as on the processor",
          "[device][index]") {
  OnDevice on;
  TwinMaker make(on, 115);
  for (int i = 0; i < kCases; ++i) {
    const Shape shape = indexed_shape(make);
    const int dim = static_cast<int>(make.number(0, std::ssize(shape) - 1));
    const std::int64_t size = shape[static_cast<std::size_t>(dim)];
    // Longer than what a launch's arguments hold, now and then.
    std::vector<std::int64_t> places(
        static_cast<std::size_t>(i % 20 == 0 ? make.number(470, 1000) : make.number(0, 15)));
    for (std::size_t o = 0; o < places.size(); ++o) {
      const bool ascends = o > 0 && make.number(0, 2) > 0 && places[o - 1] + 1 < size;
      places[o] = ascends ? places[o - 1] + 1 : make.number(-1, size - 1);
    }
    if (i % 15 == 0 && !places.empty()) places.back() = size;
    Shape taken = shape;
    taken[static_cast<std::size_t>(dim)] = std::ssize(places) + (i % 31 == 0 ? 1 : 0);
    const DType dtype = any_of(make, kAll),
                other = make.number(0, 2) == 0 ? any_of(make, kAll) : dtype;
    const Twins x = make.view(shape, dtype), out = make.output(taken, other),
                grad = make.view(taken, other), sums = make.values(shape, dtype);
    CAPTURE(i, shape, dim, places, name_of(dtype), name_of(other));
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            take_map(ctx, side(x, device), dim, places, 2.5, side(out, device));
          }) == "");
    CHECK(compare(on, sums, 0.0, [&](KernelContext& ctx, bool device) {
            add_map(ctx, side(grad, device), dim, places, side(sums, device));
          }) == "");
  }
}

}  // namespace tessera::testing
