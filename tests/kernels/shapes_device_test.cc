#include "kernels/shapes_device.h"

#include "kernels/elementwise.h"
#include "tests/kernels/sample_arrays.h"

namespace tessera {
namespace {

TEST_CASE("the shapes device computes what is small or whole numbers, and leaves the rest alone",
          "[kernels][shapes]") {
  KernelContext ctx{.device = &shapes_device()};
  const std::int64_t most = kShapesValueBytes / 4;
  const auto filled = [&](std::int64_t size, DType dtype) {
    const Array array = Array::zeros({size}, dtype);
    kernels::fill(ctx, 3.0, array);
    return array.to_vector().back();
  };
  CHECK(filled(most, DType::kF32) == 3.0);
  CHECK(filled(most + 1, DType::kF32) == 0.0);
  CHECK(filled(most + 1, DType::kI64) == 3.0);
}

TEST_CASE("the shapes device is the processor but for its kernels", "[kernels][shapes]") {
  CHECK(shapes_device().id() == cpu_device().id());
  CHECK(&shapes_device().compute() == &cpu_device().compute());
  CHECK(&shapes_device().kernels() != &cpu_device().kernels());
  const Array array = Array::zeros({2}, DType::kF32);
  KernelContext ctx{.device = &shapes_device()};
  CHECK(to_device(ctx, array).bytes() == array.bytes());
}

}  // namespace
}  // namespace tessera
