// Steps of optimizers on the device against the processor's.
#include "kernels/optimizer.h"

#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "emulation/control.h"
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

namespace {

/// lr, clip factor, number of the step, whether to go on.
Twins steering_of(TwinMaker& make, bool go) {
  const double values[] = {0.5, 0.25, static_cast<double>(make.number(1, 9)), go ? 1.0 : 0.0};
  return make.of(Array::from_values({Steering::kSize}, DType::kF64, values));
}

/// A parameter of a list, with its state.
struct OneOfList {
  Twins param, grad, m, v;
  double tolerance;
};
OneOfList one_of_list(TwinMaker& make, std::size_t k) {
  const DType dtype = k % 3 == 0 ? DType::kF32 : any_of(make, kFloating);
  const DType state = k % 7 == 6 ? DType::kBF16 : dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const Shape shape = k % 5 == 0 ? Shape{make.number(90, 300)} : make.shape();
  const auto part = [&](DType of) {
    return k % 4 == 3 ? make.view(shape, of) : make.values(shape, of);
  };
  return {.param = part(dtype),
          .grad = part(k % 2 == 0 ? dtype : any_of(make, kFloating)),
          .m = part(state),
          .v = make.squares(shape, state),
          .tolerance = 40 * std::max({tolerance_of(dtype), tolerance_of(state)})};
}

}  // namespace

TEST_CASE("a list of tensors takes the same AdamW step on the device, dense or not",
          "[device][optimizer]") {
  OnDevice on;
  TwinMaker make(on, 22);
  for (int i = 0; i < 20; ++i) {
    CAPTURE(i);
    std::vector<OneOfList> all;
    const auto count = static_cast<std::size_t>(i == 0 ? 0 : make.number(1, i % 5 == 0 ? 150 : 9));
    for (std::size_t k = 0; k < count; ++k) all.push_back(one_of_list(make, k));
    const Twins steer = steering_of(make, i % 6 != 5);
    AdamWOptions options{.lr = 0.02};
    if (i % 3 == 0) options.decay = WeightDecay::kInGradient;
    for (const bool device : {false, true}) {
      std::vector<AdamWArrays> arrays;
      for (const OneOfList& one : all) {
        arrays.push_back({side(one.param, device), side(one.grad, device), side(one.m, device),
                          side(one.v, device)});
      }
      KernelContext cpu;
      adamw_all(device ? on.ctx : cpu, options, arrays, side(steer, device));
    }
    for (const OneOfList& one : all) {
      CHECK(difference(fetch(on, one.param.device), one.param.host, one.tolerance) == "");
      CHECK(difference(fetch(on, one.m.device), one.m.host, one.tolerance) == "");
      CHECK(difference(fetch(on, one.v.device), one.v.host, one.tolerance) == "");
    }
  }
}

TEST_CASE(
    "a list of tensors takes the same SGD step on the device, dense or not, with a buffer or "
    "without",
    "[device][optimizer]") {
  OnDevice on;
  TwinMaker make(on, 24);
  for (int i = 0; i < 20; ++i) {
    CAPTURE(i);
    std::vector<OneOfList> all;
    const auto count = static_cast<std::size_t>(i == 0 ? 0 : make.number(1, i % 5 == 0 ? 150 : 9));
    for (std::size_t k = 0; k < count; ++k) all.push_back(one_of_list(make, k));
    const Twins steer = steering_of(make, i % 6 != 5);
    SgdOptions options{.lr = 0.1, .momentum = 0.9};
    if (i % 3 == 0) options.form = SgdOptions::Momentum::kNesterov;
    for (const bool device : {false, true}) {
      std::vector<SgdArrays> arrays;
      for (std::size_t k = 0; k < count; ++k) {
        arrays.push_back(
            {side(all[k].param, device), side(all[k].grad, device),
             (k + static_cast<std::size_t>(i)) % 3 == 0 ? Array() : side(all[k].m, device)});
      }
      KernelContext cpu;
      sgd_all(device ? on.ctx : cpu, options, arrays, side(steer, device));
    }
    for (const OneOfList& one : all) {
      CHECK(difference(fetch(on, one.param.device), one.param.host, one.tolerance) == "");
      CHECK(difference(fetch(on, one.m.device), one.m.host, one.tolerance) == "");
    }
  }
}

TEST_CASE("a hundred dense tensors are two launches", "[device][optimizer][emulated]") {
  OnDevice on;
  TwinMaker make(on, 23);
  std::vector<AdamWArrays> adam;
  std::vector<SgdArrays> sgd;  // half of them with a buffer
  for (int i = 0; i < 100; ++i) {
    const auto part = [&] { return make.of(Array::zeros({10}, DType::kF32)).device; };
    adam.push_back({part(), part(), part(), part()});
    sgd.push_back({part(), part(), i % 2 == 0 ? part() : Array()});
  }
  const Twins steer = steering_of(make, true);
  const auto launches_of = [&](auto&& update) {
    on.finish();
    const std::int64_t before = emulation::launches(0);
    update();
    on.finish();
    return emulation::launches(0) - before;
  };
  CHECK(launches_of([&] { adamw_all(on.ctx, {.lr = 1.0}, adam, steer.device); }) == 2);
  CHECK(launches_of([&] { sgd_all(on.ctx, {.lr = 1.0}, sgd, steer.device); }) == 2);
}

TEST_CASE("a step goes on where loss and norm are finite and all rows had room",
          "[device][optimizer]") {
  OnDevice on;
  TwinMaker make(on, 25);
  constexpr double kInf = std::numeric_limits<double>::infinity();
  struct Case {
    std::vector<double> sums;
    double norm_type;
    std::vector<double> rows;
    std::int64_t bound;
    double norm, factor, go;
  };
  const Case cases[] = {{{2.0, 16.0}, 2.0, {}, -1, 4.0, 2.0 / (4.0 + 1e-6), 1.0},
                        {{2.0, 1.0}, 2.0, {}, -1, 1.0, 1.0, 1.0},
                        {{2.0, 27.0}, 3.0, {}, -1, 3.0, 2.0 / (3.0 + 1e-6), 1.0},
                        {{2.0, 5.0}, 1.0, {}, -1, 5.0, 2.0 / (5.0 + 1e-6), 1.0},
                        {{2.0, 5.0}, kInf, {7.0, 8.0}, 8, 5.0, 2.0 / (5.0 + 1e-6), 1.0},
                        {{2.0, 1.0}, 2.0, {8.0, 9.0}, 8, 1.0, 1.0, 0.0},
                        {{kInf, 1.0}, 2.0, {}, -1, 1.0, 1.0, 0.0},
                        {{2.0, kInf}, 2.0, {}, -1, kInf, 0.0, 0.0},
                        {{std::nan(""), 1.0}, 2.0, {}, -1, 1.0, 1.0, 0.0}};
  const auto list = [&](std::span<const double> values) {
    return make.of(Array::from_values({std::ssize(values)}, DType::kF64, values));
  };
  for (const Case& each : cases) {
    CAPTURE(each.sums, each.norm_type, each.rows);
    const double numbers[] = {0.125, 7.0};
    const Twins schedule = list(numbers), sums = list(each.sums), rows = list(each.rows);
    const Twins norm = list(std::vector<double>(1)), out = list(std::vector<double>(4));
    CHECK(compare(on, out, 1e-15, [&](KernelContext& ctx, bool device) {
            steer_step(ctx,
                       {.norm_type = each.norm_type, .max_norm = 2.0, .rows_bound = each.bound},
                       {.schedule = side(schedule, device),
                        .sums = side(sums, device),
                        .rows_needed = side(rows, device)},
                       side(norm, device), side(out, device));
          }) == "");
    const std::vector<double> got = out.host.to_vector(), wanted = {0.125, each.factor, 7, each.go};
    for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(std::abs(got[i] - wanted[i]) < 1e-14);
    CHECK((norm.host.to_vector()[0] == each.norm ||
           std::abs(norm.host.to_vector()[0] - each.norm) < 1e-14));
  }
}

TEST_CASE("biases move against the load, alike on the device", "[device][optimizer]") {
  OnDevice on;
  TwinMaker make(on, 26);
  const double counts[] = {4, 0, 2, 2, 7, 0};  // the mean is 2.5
  const Twins load = make.of(Array::from_values({6}, DType::kI64, counts));
  const DType dtype = GENERATE(DType::kF32, DType::kF64);
  const Twins bias = make.of(Array::from_values({6}, dtype, std::vector<double>(6, 1.0)));
  const auto update = [&](bool centred, bool go) {
    const Twins steer = steering_of(make, go);
    return compare(on, bias, 0.0, [&](KernelContext& ctx, bool device) {
      balance_bias(ctx, {.coefficient = 0.5, .centred = centred}, side(load, device),
                   side(steer, device), side(bias, device));
    });
  };
  CHECK(update(false, false) == "");
  CHECK(bias.host.to_vector() == std::vector<double>(6, 1.0));
  CHECK(update(false, true) == "");
  CHECK(bias.host.to_vector() == std::vector<double>{0.5, 1.5, 1.5, 1.5, 0.5, 1.5});
  CHECK(update(true, true) == "");  // four up, two down: a third of a step less each
  const double centre = 0.5 * 2 / 6;
  CHECK(std::abs(bias.host.to_vector()[0] - (0.5 - 0.5 - centre)) < 1e-7);
  CHECK(std::abs(bias.host.to_vector()[1] - (1.5 + 0.5 - centre)) < 1e-7);
}

}  // namespace tessera::testing
