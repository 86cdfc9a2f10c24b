// Positions in a whole tensor and in its parts, on the device against the processor.
#include "kernels/positions.h"

#include "placement/mesh.h"
#include "tests/device/device_arrays.h"

namespace tessera::testing {
namespace {

using namespace kernels;

/// Some of a dim's elements, in one run, in many, or none.
HeldPart any_part(TwinMaker& make) {
  HeldPart part{.size = make.number(0, 40), .held = {}};
  const bool is_one_run = make.number(0, 1) == 0;
  std::int64_t at = 0;
  while (at < part.size) {
    const std::int64_t start = at + make.number(part.held.empty() ? 0 : 1, 5);
    const std::int64_t stop = std::min(part.size, start + make.number(1, is_one_run ? 30 : 4));
    if (start >= stop) break;
    part.held.push_back({start, stop});
    at = stop;
    if (is_one_run) break;
  }
  return part;
}

Status refuse(std::int64_t at, std::int64_t value) {
  return out_of_range("value " + std::to_string(value) + " at " + std::to_string(at));
}

}  // namespace

TEST_CASE("positions become local ones alike on the device", "[device][positions]") {
  OnDevice on;
  TwinMaker make(on, 61);
  int refused = 0;
  for (int i = 0; i < 400; ++i) {
    const HeldPart part = any_part(make);
    const Shape shape = make.shape();
    const DType from = make.number(0, 1) == 0 ? DType::kI64 : DType::kI32;
    OtherPositions others;
    others.from_end = make.number(0, 2) == 0;
    if (make.number(0, 2) == 0) others.skipped = make.number(-100, part.size);
    std::vector<double> values(static_cast<std::size_t>(num_elements(shape)));
    const bool has_bad = make.number(0, 9) == 0;
    for (double& value : values) {
      const std::int64_t low = others.from_end ? -part.size : 0;
      value = static_cast<double>(
          make.number(low - (has_bad ? 2 : 0), std::max(low, part.size - 1) + (has_bad ? 2 : 0)));
    }
    const Twins positions = make.of(Array::from_values(shape, from, values));
    const Twins local = make.of(Array::zeros(shape, make.number(0, 1) == 0 ? DType::kI64 : from));
    CAPTURE(i, part.size, part.held.size(), shape);
    int errors = 0;
    CHECK(compare(on, local, 0.0, [&](KernelContext& ctx, bool device) {
            try {
              localize(ctx, side(positions, device), part, others, refuse, side(local, device));
            } catch (const Error&) {
              ++errors;
              throw;
            }
          }) == "");
    refused += errors;
  }
  CHECK(refused > 10);  // by the processor: the device says so later
}

TEST_CASE("local positions become whole ones, and back", "[device][positions]") {
  OnDevice on;
  TwinMaker make(on, 62);
  int with_elements = 0;
  for (int i = 0; i < 200; ++i) {
    std::vector<HeldPart> dims;
    std::int64_t here = 1;
    for (std::int64_t d = make.number(0, 3); d >= 0; --d) {
      dims.push_back(make.number(0, 2) == 0 ? HeldPart::whole(make.number(1, 6)) : any_part(make));
      here *= dims.back().count();
    }
    std::vector<double> values(here == 0 ? 0 : static_cast<std::size_t>(make.number(1, 60)));
    for (double& value : values) value = static_cast<double>(make.number(0, here - 1));
    with_elements += values.empty() ? 0 : 1;
    const auto count = static_cast<std::int64_t>(values.size());
    const Twins local = make.of(Array::from_values({count}, DType::kI64, values));
    const Twins whole = make.of(Array::zeros({count}, DType::kI64));
    CAPTURE(i, dims.size(), here);
    CHECK(compare(on, whole, 0.0, [&](KernelContext& ctx, bool device) {
            globalize(ctx, side(local, device), dims, side(whole, device));
          }) == "");
    if (dims.size() != 1) continue;
    KernelContext cpu;
    const Array again = Array::zeros({count}, DType::kI64);
    localize(cpu, whole.host, dims[0], {}, refuse, again);
    CHECK(again.to_vector() == values);
  }
  CHECK(with_elements > 100);
}

}  // namespace tessera::testing
