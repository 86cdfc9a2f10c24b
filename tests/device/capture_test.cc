// Captured work of one device: done again with new values, in memory of its own.
#include "emulation/control.h"
#include "kernels/elementwise.h"
#include "kernels/index.h"
#include "tests/device/device_arrays.h"

namespace tessera::testing {
namespace {

std::shared_ptr<CapturedWork> captured(OnDevice& on, const std::function<void()>& body) {
  on.device->begin_capture({});
  body();
  on.device->close_capture();
  return on.device->end_capture({});
}

Array list_of(OnDevice& on, const std::vector<double>& values) {
  return to_device(on.ctx, Array::from_values({std::ssize(values)}, DType::kF32, values));
}
void set(OnDevice& on, const Array& array, const std::vector<double>& values) {
  kernels::copy(on.ctx, list_of(on, values), array);
}

}  // namespace

TEST_CASE("captured work is not done until it is launched, and then with the values that are there",
          "[device][capture]") {
  OnDevice on;
  const Array x = list_of(on, {1, 2, 3}), sum = list_of(on, {0, 0, 0});
  const auto work = captured(on, [&] {
    const Array twice = Array::empty({3}, DType::kF32, on.memory);
    kernels::binary_scalar(on.ctx, kernels::Binary::kMul, x, 2.0, twice);
    kernels::binary(on.ctx, kernels::Binary::kAdd, sum, twice, sum);
    const Array uploaded = list_of(on, {10, 20, 30});
    kernels::binary(on.ctx, kernels::Binary::kAdd, sum, uploaded, sum);
  });
  CHECK(sum.to_vector() == std::vector<double>{0, 0, 0});
  work->launch();
  CHECK(sum.to_vector() == std::vector<double>{12, 24, 36});
  set(on, x, {5, 5, 5});
  // What is asked for between launches is not what the capture uses.
  std::vector<Array> kept;
  for (int i = 0; i < 8; ++i) kept.push_back(list_of(on, {7, 7, 7}));
  work->launch();
  work->launch();
  CHECK(sum.to_vector() == std::vector<double>{52, 84, 116});
  for (const Array& each : kept) CHECK(each.to_vector() == std::vector<double>{7, 7, 7});
}

TEST_CASE("nothing waits for work that is captured, and says so", "[device][capture][errors]") {
  OnDevice on;
  const Array x = list_of(on, {1, 2});
  on.device->begin_capture({});
  kernels::fill(on.ctx, 3.0, x);
  const std::string why =
      to_string(on.device->id()) +
      ": its work is captured, and nothing of it has been done: the host can neither wait for it "
      "nor read its values";
  CHECK_THROWS_WITH(to_host(x), why);
  CHECK_THROWS_WITH(x.to_vector(), why);
  CHECK_THROWS_WITH(on.device->raise_faults(), why);
  CHECK_THROWS_WITH(on.finish(), why);
  on.device->abandon_capture();
  CHECK(x.to_vector() == std::vector<double>{1, 2});  // and the device goes on
  CHECK_THROWS_WITH(cpu_device().begin_capture({}),
                    "cpu:0: its work is done at once, so that none can be captured; allowed: cuda "
                    "and emulated devices");
}

TEST_CASE("what captured work finds wrong is told in its own words each time",
          "[device][capture][errors]") {
  OnDevice on;
  const auto indices = [](double bad) {
    const double values[] = {0, bad, 1};
    return Array::from_values({3}, DType::kI64, values);
  };
  const Array on_host = Array::zeros({4, 2}, DType::kF32);
  const Array table = to_device(on.ctx, on_host), index = to_device(on.ctx, indices(3));
  const Array rows = Array::empty({3, 2}, DType::kF32, on.memory);
  auto work = captured(
      on, [&] { kernels::index_select(on.ctx, table, 0, index, kernels::Absent::kError, rows); });
  work->launch();
  on.device->raise_faults();
  kernels::copy(on.ctx, to_device(on.ctx, indices(9)), index);
  std::string wanted;
  try {
    KernelContext cpu;
    kernels::index_select(cpu, on_host, 0, indices(9), kernels::Absent::kError,
                          Array::zeros({3, 2}, DType::kF32));
  } catch (const Error& error) {
    wanted = error.what();
  }
  CHECK_FALSE(wanted.empty());
  for (int i = 0; i < 2; ++i) {
    work->launch();
    CHECK_THROWS_WITH(on.device->raise_faults(), wanted);
  }
  work.reset();
  on.device->raise_faults();
}

TEST_CASE("devices join another's capture, and its launch does the work of all",
          "[device][capture]") {
  OnDevice on, other;
  other.device = device_of_card(1);
  other.memory = other.device->make_allocator();
  other.ctx = {.device = other.device.get(), .allocator = other.memory};
  const Array x = list_of(on, {1, 1}), y = list_of(other, {0, 0});
  on.device->begin_capture({});
  other.device->begin_capture(on.device->record(on.device->compute()));
  kernels::binary_scalar(on.ctx, kernels::Binary::kAdd, x, 1.0, x);
  other.device->wait(other.device->compute(), on.device->record(on.device->compute()));
  other.device->copy(y.bytes(), x.bytes(), 8, other.device->compute());
  const Mark copied = other.device->record(other.device->compute());
  on.device->wait(on.device->compute(), copied);
  on.device->close_capture();
  const Mark closed[] = {other.device->close_capture()};
  const auto work = on.device->end_capture(closed);
  const auto of_other = other.device->end_capture({});
  for (int i = 0; i < 3; ++i) {
    work->launch();
    of_other->launch();
  }
  on.finish();
  CHECK(x.to_vector() == std::vector<double>{4, 4});
  CHECK(y.to_vector() == std::vector<double>{4, 4});
}

TEST_CASE("captures come and go without keeping memory", "[device][capture]") {
  OnDevice on;
  const Array x = list_of(on, {1, 2});
  for (int i = 0; i < 40; ++i) {  // more than are kept at once
    const auto work = captured(on, [&] {
      const Array big = Array::empty({1 << 16}, DType::kF32, on.memory);
      kernels::fill(on.ctx, 1.0, big);
      kernels::binary_scalar(on.ctx, kernels::Binary::kAdd, x, 1.0, x);
    });
    work->launch();
  }
  CHECK(x.to_vector() == std::vector<double>{41, 42});
}

}  // namespace tessera::testing
