#include <numeric>

#include "tests/dtensor/outcome.h"
#include "tests/dtensor/short_placements.h"

namespace tessera::testing {
namespace {

/// Rows [start, stop) of the result and one more on either side, where there is one.
Interval with_halo(const Interval& own, std::int64_t size) {
  if (own.start >= own.stop) return {own.start, own.start};
  return {std::max<std::int64_t>(0, own.start - 1), std::min(size, own.stop + 1)};
}

Interval rows_of(const OperandView& view) {
  const Spec& spec = *view.spec;
  const auto held =
      local_intervals(spec.mesh(), spec.global_shape()[0], spec.layout().dims[0], *view.coord);
  return held.empty() ? Interval{} : held.front();
}

/// out[i] = Σ rows i−1, i, i+1 of `x`, whose first row is row `first` of the whole.
void add_neighbours(const Array& x, std::int64_t first, std::int64_t start, const Array& out) {
  const auto* in = x.data<double>();
  auto* sum = out.data<double>();
  const std::int64_t columns = out.size(1);
  for (std::int64_t i = 0; i < out.size(0); ++i) {
    for (std::int64_t c = 0; c < columns; ++c) {
      double total = 0.0;
      for (std::int64_t row = start + i - 1 - first; row <= start + i + 1 - first; ++row) {
        if (row >= 0 && row < x.size(0)) total += in[row * columns + c];
      }
      sum[i * columns + c] = total;
    }
  }
}

std::vector<LoweringStep> halo_steps(const Attrs&) {
  using Kind = LoweringStep::Kind;
  return {{.kind = Kind::kWindow,
           .in = {0},
           .out = {2},
           .dim = 0,
           .windows =
               [](const Attrs&, const OperandView& operand, const OperandView& result) {
                 const std::int64_t size = operand.spec->global_shape()[0];
                 return std::vector<Interval>{with_halo(rows_of(result), size)};
               }},
          {.kind = Kind::kLocal, .in = {2}, .out = {1}, .kernel = [](KernelCall& call) {
             const OperandView& result = call.output_views[0];
             const Interval own = rows_of(result);
             const Interval held = with_halo(own, result.spec->global_shape()[0]);
             add_neighbours(call.inputs[0], held.start, own.start, call.outputs[0]);
           }}};
}

OpDef neighbour_sum() {
  return {.name = "neighbour_sum",
          .doc = "Each row with the rows beside it.",
          .args = {in("self")},
          .rule = "h* -> h* | h~ | lin A",
          .kernel =
              [](KernelCall& call) {
                add_neighbours(kernels::contiguous(call.ctx, call.inputs[0]), 0, 0,
                               call.outputs[0]);
              },
          .lowerings = {{.factor = "h",
                         .doc = "one row from each neighbour",
                         .steps = halo_steps,
                         .cut = Lowering::Cut::kIntervals}},
          .samples = {{.shapes = {{8, 6}}}}};
}

// So many that rows of a halo cost less than to cut the columns instead.
constexpr std::int64_t kColumns = 5;

Array rows_numbered(std::int64_t rows) {
  std::vector<double> values(static_cast<std::size_t>(rows * kColumns));
  std::iota(values.begin(), values.end(), 1.0);
  return Array::from_values({rows, kColumns}, DType::kF64, values);
}

TEST_CASE("a window step fetches the halo and nothing else", "[dtensor][lowering][host]") {
  for (const std::int64_t rows : {12, 9, 7}) {
    const Array full = rows_numbered(rows);
    const Array expected = Array::empty(full.shape(), DType::kF64);
    add_neighbours(full, 0, 0, expected);
    for (const Shape& sizes : {Shape{2}, Shape{3}, Shape{4}, Shape{2, 2}}) {
      if (!runs_here(num_elements(sizes))) continue;
      CAPTURE(rows, to_string(sizes));
      const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
        rank.runtime.ops().must_add(neighbour_sum());
        const DTensor x = rank.distribute(full, Placements(sizes.size(), S(0)));
        rank.runtime.events().clear();
        const DTensor sum = call(rank.runtime, "neighbour_sum", {{x}})[0];
        const std::int64_t moved = rank.runtime.events().bytes_received();
        return std::tuple{full_tensor(sum).to_vector(), sum.spec() == x.spec(), moved};
      });
      std::int64_t moved = 0;
      for (const auto& [values, same_spec, bytes] : ranks) {
        CHECK(values == expected.to_vector());
        CHECK(same_spec);
        moved += bytes;
      }
      // Every border between two ranks that hold rows is crossed by one row each way.
      const std::int64_t chunk = (rows + num_elements(sizes) - 1) / num_elements(sizes);
      const std::int64_t holders = (rows + chunk - 1) / chunk;
      if (sizes.size() == 1) CHECK(moved == 2 * (holders - 1) * kColumns * size_of(DType::kF64));
    }
  }
}

TEST_CASE("a window over a strided shard asks for intervals first", "[dtensor][lowering][host]") {
  if (!runs_here(4)) return;
  const Array full = rows_numbered(9);
  const Array expected = Array::empty(full.shape(), DType::kF64);
  add_neighbours(full, 0, 0, expected);
  const auto ranks = run_ranks(mesh_of_shape({2, 2}), [&](Rank& rank) {
    rank.runtime.ops().must_add(neighbour_sum());
    const DTensor x = rank.distribute(full, {StridedShard{0, 2}, Shard{0}});
    return full_tensor(call(rank.runtime, "neighbour_sum", {{x}})[0]).to_vector();
  });
  for (const auto& values : ranks) CHECK(values == expected.to_vector());
}

}  // namespace
}  // namespace tessera::testing
