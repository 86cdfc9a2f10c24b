// Steps of optimizers on the device against the processor's.
#include "kernels/optimizer.h"

#include "tests/device/device_arrays.h"

namespace tessera::testing {

using namespace kernels;

TEST_CASE("AdamW and SGD take the same steps on the device", "[device][optimizer]") {
  OnDevice on;
  TwinMaker make(on, 21);
  for (int i = 0; i < 200; ++i) {
    const Shape shape = make.shape();
    const DType dtype = i % 30 == 0 ? DType::kI32 : any_of(make, kFloating),
                of_grad = any_of(make, kFloating);
    const DType state = i % 4 == 0             ? DType::kBF16
                        : dtype == DType::kF64 ? DType::kF64
                                               : DType::kF32;
    const Twins param = make.view(shape, dtype), grad = make.view(shape, of_grad);
    const Twins m = make.view(shape, state), v = make.squares(shape, state);
    AdamWOptions adam{.lr = 0.01, .step = make.number(1, 9), .grad_scale = 0.5};
    if (i % 3 == 0) adam.decay = WeightDecay::kInGradient;
    SgdOptions plain{
        .lr = 0.1, .momentum = 0.9, .dampening = 0.1, .weight_decay = i % 2 == 0 ? 0.0 : 0.01};
    plain.step = make.number(1, 2);
    if (i % 3 == 1) plain.form = SgdOptions::Momentum::kNesterov;
    const double tolerance = 40 * std::max({tolerance_of(dtype), tolerance_of(state)});
    CAPTURE(i, shape, name_of(dtype), name_of(of_grad), name_of(state));
    CHECK(compare(on, param, tolerance, [&](KernelContext& ctx, bool device) {
            adamw(ctx, adam, side(param, device), side(grad, device), side(m, device),
                  side(v, device));
          }) == "");
    CHECK(difference(fetch(on, m.device), m.host, tolerance) == "");
    CHECK(difference(fetch(on, v.device), v.host, tolerance) == "");
    const bool has_momentum = i % 2 == 0;
    CHECK(compare(on, param, tolerance, [&](KernelContext& ctx, bool device) {
            sgd(ctx, plain, side(param, device), side(grad, device),
                has_momentum ? side(m, device) : Array());
          }) == "");
    CHECK(difference(fetch(on, m.device), m.host, tolerance) == "");
  }
}

}  // namespace tessera::testing
