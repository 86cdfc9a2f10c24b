// The grouping of keys on the device, and the sums of counts that it is made of.
#include "kernels/cuda/key_order.h"

#include <algorithm>
#include <numeric>

#include "tests/device/device_arrays.h"

namespace tessera::testing {
namespace {

namespace device_kernels = kernels::TSR_CUDA;

std::vector<double> random_integers(TwinMaker& make, std::int64_t count, std::int64_t below) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = static_cast<double>(make.number(0, below - 1));
  return values;
}

}  // namespace

TEST_CASE("keys are grouped in stable order, over several digits and tiles",
          "[device][index][emulated]") {
  OnDevice on;
  TwinMaker make(on, 131);
  const std::int64_t num_keys = GENERATE(1, 2, 9, 256, 257, 5000, 70000, 20000000);
  for (int i = 0; i < 40; ++i) {
    const std::int64_t count = make.number(0, i % 4 == 0 ? 1500 : 40);
    const std::vector<double> keys =
        random_integers(make, count, i % 3 == 0 ? std::min<std::int64_t>(num_keys, 4) : num_keys);
    const Twins twins = make.of(Array::from_values({count}, DType::kI32, keys));
    const device_kernels::KeyOrder order =
        device_kernels::order_by_key(on.ctx, twins.device, num_keys);

    std::vector<double> positions(keys.size());
    std::iota(positions.begin(), positions.end(), 0.0);
    const auto key_at = [&](double position) { return keys[static_cast<std::size_t>(position)]; };
    std::stable_sort(positions.begin(), positions.end(),
                     [&](double a, double b) { return key_at(a) < key_at(b); });
    CAPTURE(num_keys, i, count);
    CHECK(fetch(on, order.positions_N).to_vector() == positions);
    std::vector<double> sorted(keys.size());
    std::transform(positions.begin(), positions.end(), sorted.begin(), key_at);
    CHECK(fetch(on, order.keys_N).to_vector() == sorted);

    if (num_keys > 5000) continue;
    const std::vector<double> offsets =
        fetch(on, device_kernels::key_offsets(on.ctx, order, num_keys)).to_vector();
    for (std::int64_t key = 0; key <= num_keys; ++key) {
      const auto found = std::lower_bound(sorted.begin(), sorted.end(), static_cast<double>(key));
      if (offsets[static_cast<std::size_t>(key)] != static_cast<double>(found - sorted.begin()))
        FAIL("the offset of key " << key);
    }
  }
}

TEST_CASE("rows of counts become the sums before them", "[device][index][emulated]") {
  OnDevice on;
  TwinMaker make(on, 132);
  for (int i = 0; i < 200; ++i) {
    const std::int64_t rows = make.number(1, 9), columns = make.number(0, 100);
    const std::vector<double> values = random_integers(make, rows * columns, 50);
    const Twins counts = make.of(Array::from_values({rows, columns}, DType::kI32, values));
    const Twins totals = make.values({rows}, DType::kI32);
    device_kernels::scan_rows(on.ctx, counts.device, totals.device);
    std::vector<double> before(values.size()), total(static_cast<std::size_t>(rows), 0.0);
    for (std::size_t at = 0; at < values.size(); ++at) {
      double& sum = total[at / static_cast<std::size_t>(columns)];
      before[at] = std::exchange(sum, sum + values[at]);
    }
    CAPTURE(i, rows, columns);
    CHECK(fetch(on, counts.device).to_vector() == before);
    CHECK(fetch(on, totals.device).to_vector() == total);
  }
}

}  // namespace tessera::testing
