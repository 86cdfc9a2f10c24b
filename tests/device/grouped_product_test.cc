// Products of groups of rows of the device against the processor's, bad counts included.
#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "tests/device/device_arrays.h"

namespace tessera::testing {
namespace {

using namespace kernels;

struct Groups {
  Twins counts;
  std::int64_t rows = 0;
};

/// Counts of which some are 0, with rows left over now and then.
Groups groups_of(TwinMaker& make, std::int64_t num_groups) {
  Groups groups;
  std::vector<double> counts(static_cast<std::size_t>(num_groups));
  for (double& count : counts) {
    const std::int64_t rows = make.number(0, 2) == 0 ? 0 : make.number(1, 20);
    count = static_cast<double>(rows);
    groups.rows += rows;
  }
  if (make.number(0, 2) == 0) groups.rows += make.number(1, 40);
  if (num_groups > 0 && make.number(0, 9) == 0) {
    const auto bad = static_cast<std::size_t>(make.number(0, num_groups - 1));
    counts[bad] = make.number(0, 1) == 0 ? -1.0 : static_cast<double>(groups.rows) + 1;
    if (make.number(0, 1) == 0) counts[bad] = 0x1p62;
    if (make.number(0, 1) == 0) counts.back() = -7.0;
  }
  // Every second element of something larger.
  std::vector<double> spread;
  for (const double count : counts) {
    spread.push_back(count);
    spread.push_back(-100.0);
  }
  const Twins whole = make.of(Array::from_values({2 * num_groups}, DType::kI64, spread));
  const auto part = [&](const Array& array) { return array.as_strided({num_groups}, {2}, 0); };
  groups.counts = {part(whole.host), part(whole.device)};
  return groups;
}

std::int64_t extent(TwinMaker& make) {
  return make.number(0, 20) == 0 ? 0 : make.number(1, make.number(0, 1) == 0 ? 8 : 40);
}
double tolerance_for(DType dtype) { return (is_half(dtype) ? 2 : 20) * tolerance_of(dtype); }

struct GroupedCase {
  Groups groups;
  std::int64_t depth, cols;
  DType dtype, to;
};
GroupedCase grouped_case(TwinMaker& make, int i) {
  GroupedCase c{.groups = groups_of(make, i % 25 == 0 ? make.number(33, 70) : make.number(0, 6))};
  c.depth = extent(make);
  c.cols = extent(make);
  c.dtype = any_of(make, kFloating);
  c.to = is_half(c.dtype) && make.number(0, 1) == 0 ? DType::kF32 : c.dtype;
  return c;
}

}  // namespace

TEST_CASE("products of groups of rows are the same on the device", "[device][grouped]") {
  OnDevice on;
  TwinMaker make(on, 51);
  for (int i = 0; i < 300; ++i) {
    const GroupedCase c = grouped_case(make, i);
    const std::int64_t num_groups = c.groups.counts.host.size(0);
    const Twins x = make.mild({c.groups.rows, c.depth}, c.dtype),
                w = make.mild({num_groups, c.depth, c.cols}, c.dtype),
                out = make.output({c.groups.rows, c.cols}, c.to);
    CAPTURE(i, num_groups, c.groups.rows, c.depth, c.cols, name_of(c.dtype), name_of(c.to));
    CHECK(compare(on, out, tolerance_for(c.to), [&](KernelContext& ctx, bool device) {
            grouped_matmul(ctx, side(x, device), side(w, device), side(c.groups.counts, device),
                           side(out, device));
          }) == "");
  }
}

// Dense rows, where a kernel may read and write vectors, and the same one element further on, where
// it must not. Many rows for few weights are summed in parts.
TEST_CASE("grouped products take dense rows on any boundary", "[device][grouped]") {
  OnDevice on;
  TwinMaker make(on, 54);
  for (int i = 0; i < 60; ++i) {
    const DType dtype = any_of(make, kFloating);
    const std::int64_t shift = i % 4, groups = make.number(1, 4);
    const auto dense = [&](const Shape& shape) {
      std::int64_t size = 3;
      for (std::int64_t n = 1; const std::int64_t of : shape) size = 3 + (n *= of);
      std::vector<double> numbers(static_cast<std::size_t>(size));
      for (double& value : numbers) value = static_cast<double>(make.number(-64, 64)) / 64;
      const Twins whole = make.of(Array::from_values({size}, dtype, numbers));
      const Shape strides = Array::empty(shape, dtype).strides();
      return Twins{whole.host.as_strided(shape, strides, shift),
                   whole.device.as_strided(shape, strides, shift)};
    };
    std::vector<double> counts(static_cast<std::size_t>(groups));
    std::int64_t rows = make.number(0, 5);
    for (double& count : counts) {
      count = static_cast<double>(make.number(0, 3) == 0 ? 0 : make.number(1, 60));
      rows += static_cast<std::int64_t>(count);
    }
    const std::int64_t depth = 4 * make.number(1, 6), cols = 4 * make.number(1, 6);
    const Twins counts_E = make.of(Array::from_values({groups}, DType::kI64, counts));
    const Twins x = dense({rows, depth}), w = dense({groups, depth, cols}),
                out = dense({rows, cols});
    CAPTURE(i, shift, counts, rows, depth, cols, name_of(dtype));
    CHECK(compare(on, out, tolerance_for(dtype), [&](KernelContext& ctx, bool device) {
            grouped_matmul(ctx, side(x, device), side(w, device), side(counts_E, device),
                           side(out, device));
          }) == "");
    const Twins grad_w = dense({groups, depth, cols}), again = dense({groups, depth, cols});
    for (const Twins& to : {grad_w, again}) {
      CHECK(compare(on, to, tolerance_for(dtype), [&](KernelContext& ctx, bool device) {
              grouped_matmul_weight_grad(ctx, side(x, device), side(out, device),
                                         side(counts_E, device), side(to, device));
            }) == "");
    }
    CHECK(fetch(on, grad_w.device).to_vector() == fetch(on, again.device).to_vector());
  }
}

TEST_CASE("gradients of grouped weights are the same on the device", "[device][grouped]") {
  OnDevice on;
  TwinMaker make(on, 52);
  for (int i = 0; i < 300; ++i) {
    const GroupedCase c = grouped_case(make, i);
    const std::int64_t num_groups = c.groups.counts.host.size(0);
    const Twins x = make.mild({c.groups.rows, c.depth}, c.dtype),
                grad = make.mild({c.groups.rows, c.cols}, c.dtype),
                out = make.output({num_groups, c.depth, c.cols}, c.to);
    CAPTURE(i, num_groups, c.groups.rows, c.depth, c.cols, name_of(c.dtype), name_of(c.to));
    CHECK(compare(on, out, tolerance_for(c.to), [&](KernelContext& ctx, bool device) {
            grouped_matmul_weight_grad(ctx, side(x, device), side(grad, device),
                                       side(c.groups.counts, device), side(out, device));
          }) == "");
  }
}

// Of such a card's library takes them (kernels/grouped_plan.h).
TEST_CASE("grouped products of dense BF16 rows are the same on the device, whole words a row",
          "[device][grouped]") {
  OnDevice on;
  TwinMaker make(on, 54);
  for (int i = 0; i < 30; ++i) {
    const Groups groups = groups_of(make, make.number(1, i % 10 == 0 ? 40 : 6));
    const std::int64_t num_groups = groups.counts.host.size(0);
    const std::int64_t depth = 8 * make.number(1, 12), cols = 8 * make.number(1, 12);
    const auto dense = [&](const Shape& shape) {
      const Twins view = make.mild(shape, DType::kBF16);
      KernelContext cpu;
      return Twins{contiguous(cpu, view.host), contiguous(on.ctx, view.device)};
    };
    const Twins x = dense({groups.rows, depth}), grad = dense({groups.rows, cols}),
                w = dense({num_groups, depth, cols}), w_t = dense({num_groups, cols, depth}),
                out = dense({groups.rows, cols}), grad_w = dense({num_groups, depth, cols});
    const double tolerance = tolerance_for(DType::kBF16);
    CAPTURE(i, num_groups, groups.rows, depth, cols);
    CHECK(compare(on, out, tolerance, [&](KernelContext& ctx, bool device) {
            grouped_matmul(ctx, side(x, device), side(w, device), side(groups.counts, device),
                           side(out, device));
          }) == "");
    CHECK(compare(on, out, tolerance, [&](KernelContext& ctx, bool device) {
            grouped_matmul(ctx, side(x, device), side(w_t, device).transpose(1, 2),
                           side(groups.counts, device), side(out, device));
          }) == "");
    CHECK(compare(on, grad_w, tolerance, [&](KernelContext& ctx, bool device) {
            grouped_matmul_weight_grad(ctx, side(x, device), side(grad, device),
                                       side(groups.counts, device), side(grad_w, device));
          }) == "");
  }
}

TEST_CASE("grouped products refuse shapes and dtypes as the processor does", "[device][grouped]") {
  OnDevice on;
  TwinMaker make(on, 53);
  const Twins x = make.mild({4, 3}, DType::kF32), w = make.mild({2, 3, 5}, DType::kF32),
              out = make.output({4, 5}, DType::kF32), narrow = make.output({4, 4}, DType::kF32);
  const Twins counts = make.of(Array::from_values({2}, DType::kI64, std::vector<double>{1, 2})),
              short_counts =
                  make.of(Array::from_values({2}, DType::kI32, std::vector<double>{1, 2}));
  const Twins half = make.mild({4, 3}, DType::kF16);
  const auto product = [&](const Twins& rows, const Twins& sizes, const Twins& result) {
    return compare(on, result, 1e-5, [&](KernelContext& ctx, bool device) {
      grouped_matmul(ctx, side(rows, device), side(w, device), side(sizes, device),
                     side(result, device));
    });
  };
  CHECK(product(x, counts, out) == "");
  CHECK(product(x, counts, narrow) == "");
  CHECK(product(x, short_counts, out) == "");
  CHECK(product(half, counts, out) == "");
  CHECK(compare(on, w, 1e-5, [&](KernelContext& ctx, bool device) {
          grouped_matmul_weight_grad(ctx, side(half, device), side(out, device),
                                     side(counts, device), side(w, device));
        }) == "");
}

}  // namespace tessera::testing
