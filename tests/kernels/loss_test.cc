#include "kernels/loss.h"

#include "tests/kernels/sample_arrays.h"

namespace tessera {
namespace {

using namespace kernels;  // the functions under test
using testing::worst_error;
using Values = std::vector<double>;

Array one(double value) { return Array::from_values({1}, DType::kF64, Values{value}); }

double value_of(LossForm form, double x, double t) {
  KernelContext ctx;
  const Array out = Array::empty({1}, DType::kF64);
  loss(ctx, form, one(x), one(t), out);
  return out.to_vector()[0];
}
double slope_of(LossForm form, LossOperand operand, double x, double t) {
  KernelContext ctx;
  const Array out = Array::empty({1}, DType::kF64);
  const Array grad = one(1), input = one(x), target = one(t);
  loss_grad(ctx, form, operand, {grad, input, target}, out);
  return out.to_vector()[0];
}

TEST_CASE("losses at points with closed forms", "[kernels][loss]") {
  CHECK(value_of({Loss::kSquared}, 3, 1) == 4);
  CHECK(value_of({Loss::kAbsolute}, -3, 1) == 4);
  CHECK(value_of({Loss::kSmoothAbsolute, 2.0}, 2, 1) == 0.25);
  CHECK(value_of({Loss::kSmoothAbsolute, 2.0}, 5, 1) == 3);
  CHECK(value_of({Loss::kHuber, 2.0}, 2, 1) == 0.5);
  CHECK(value_of({Loss::kHuber, 2.0}, 5, 1) == 6);
  CHECK(value_of({Loss::kCrossEntropy}, 0, 1) == 100);
  CHECK(value_of({Loss::kDivergence}, 7, 0) == 0);
  CHECK(value_of({Loss::kPoisson}, 0, 5) == 1);
  CHECK(std::abs(value_of({Loss::kSoftMargin}, 0, 1) - std::log(2.0)) < 1e-15);
  CHECK(value_of({Loss::kLogitCrossEntropy}, 800, 0) == 800);
  CHECK(std::abs(value_of({Loss::kLogitCrossEntropy}, 0.3, 0.6) -
                 value_of({Loss::kCrossEntropy}, 1 / (1 + std::exp(-0.3)), 0.6)) < 1e-15);
}

TEST_CASE("slopes of losses agree with differences", "[kernels][loss]") {
  const double h = 1e-6;
  for (const Loss which :
       {Loss::kSquared, Loss::kAbsolute, Loss::kSmoothAbsolute, Loss::kHuber, Loss::kCrossEntropy,
        Loss::kLogitCrossEntropy, Loss::kSoftMargin, Loss::kDivergence, Loss::kPoisson}) {
    const LossForm form = {which, 0.3};
    for (const double x : {0.2, 0.7}) {
      for (const double t : {0.35, 0.9}) {
        CAPTURE(static_cast<int>(which), x, t);
        const double by_x = (value_of(form, x + h, t) - value_of(form, x - h, t)) / (2 * h);
        const double by_t = (value_of(form, x, t + h) - value_of(form, x, t - h)) / (2 * h);
        CHECK(std::abs(slope_of(form, LossOperand::kInput, x, t) - by_x) < 1e-7);
        CHECK(std::abs(slope_of(form, LossOperand::kTarget, x, t) - by_t) < 1e-7);
      }
    }
  }
}

}  // namespace
}  // namespace tessera
