// Pointwise functions of the device against the processor's.
#include "kernels/pointwise.h"

#include <string>

#include "kernels/pointwise_activation.h"
#include "kernels/pointwise_elementary.h"
#include "kernels/pointwise_integers.h"
#include "kernels/pointwise_losses.h"
#include "kernels/pointwise_pairs.h"
#include "tests/device/device_arrays.h"

namespace tessera::testing {
namespace {

using namespace kernels;

constexpr DType kIntegers[] = {DType::kI64, DType::kI32, DType::kU8, DType::kBool};

template <class... Families>
std::vector<std::string> names_of() {
  std::vector<std::string> names;
  (names.insert(names.end(), std::begin(Families::kEntries.names),
                std::end(Families::kEntries.names)),
   ...);
  return names;
}
std::vector<std::string> all_names() {
  return names_of<scalar::ElementaryFunctions, scalar::ElementarySlopes,
                  scalar::ActivationFunctions, scalar::ActivationSlopes, scalar::PairFunctions,
                  scalar::PairSlopes, scalar::IntegerFunctions, scalar::LossFunctions>();
}

/// Functions whose results are 0 or 1.
bool is_condition(const std::string& name) {
  return name.starts_with("is") || name == "signbit" || name == "logical_xor";
}

constexpr double kParams[][4] = {{0.5, 2.0, 1.0, 0.0},
                                 {0.1, 0.7, 0.0, 0.0},
                                 {-1.0, 1.0, 0.3, 0.0},
                                 {3.0, 6.0, 2.0, 0.0},
                                 {0.0, 20.0, 1.0, 0.0}};

}  // namespace

TEST_CASE("pointwise functions are the same on the device", "[device][pointwise]") {
  OnDevice on;
  TwinMaker make(on, 61);
  for (const std::string& name : all_names()) {
    const Pointwise& function = pointwise_function(name);
    for (int i = 0; i < 24; ++i) {
      const Shape shape = make.shape();
      const DType dtype = i % 4 == 0 ? any_of(make, kIntegers) : kFloating[i % 4];
      std::vector<Twins> operands;
      for (int k = 0; k < function.num_operands; ++k) {
        const DType mixed = make.number(0, 5) == 0 ? any_of(make, kAll) : dtype;
        operands.push_back(make.broadcast(shape, mixed));
      }
      DType to = is_floating(dtype) || !function.has_integer ? any_of(make, kFloating)
                                                             : any_of(make, kAll);
      if (make.number(0, 1) == 0) to = dtype;
      if (is_condition(name)) to = DType::kBool;
      // Floating results would be cut to integers on either side of one.
      const bool is_cut = !is_floating(to) && !is_condition(name) &&
                          std::any_of(operands.begin(), operands.end(), [](const Twins& each) {
                            return is_floating(each.host.dtype());
                          });
      if (is_cut) to = DType::kF32;
      const Twins out = make.output(shape, to);
      const std::span<const double> params = kParams[make.number(0, std::ssize(kParams) - 1)];
      CAPTURE(name, i, shape, name_of(dtype), name_of(to), params[0], params[1], params[2]);
      CHECK(compare(on, out, 8 * tolerance_of(to), [&](KernelContext& ctx, bool device) {
              std::vector<Array> arrays;
              for (const Twins& each : operands) arrays.push_back(side(each, device));
              pointwise(ctx, function, arrays, params, side(out, device));
            }) == "");
    }
  }
}

TEST_CASE("a pointwise function without parameters needs none on the device",
          "[device][pointwise]") {
  OnDevice on;
  TwinMaker make(on, 62);
  const Twins x = make.values({300}, DType::kBF16), out = make.output({300}, DType::kBF16);
  CHECK(compare(on, out, tolerance_of(DType::kBF16), [&](KernelContext& ctx, bool device) {
          const Array operands[] = {side(x, device)};
          pointwise(ctx, pointwise_function("gelu"), operands, {}, side(out, device));
        }) == "");
}

TEST_CASE("parameters bound the device's functions as they were given", "[device][pointwise]") {
  // 0.1 in F32 lies above 0.1.
  OnDevice on;
  TwinMaker make(on, 63);
  const std::vector<double> numbers = {0.1, -0.1, 0.05, 0.3};
  const double params[4] = {0.1, 0.1, 0.0, 0.0};
  const std::string name = GENERATE("hardshrink", "threshold", "hardtanh", "hardtanh'0",
                                    "softshrink'0", "threshold'0", "fmod_scalar");
  const Twins x = make.of(Array::from_values({4}, DType::kF32, numbers)),
              out = make.output({4}, DType::kF32);
  CAPTURE(name);
  CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
          const Pointwise& function = pointwise_function(name);
          const std::vector<Array> operands(static_cast<std::size_t>(function.num_operands),
                                            side(x, device));
          pointwise(ctx, function, operands, params, side(out, device));
        }) == "");
}

TEST_CASE("integers that F32 does not hold are computed in F64 on the device",
          "[device][pointwise]") {
  OnDevice on;
  TwinMaker make(on, 66);
  const std::vector<double> numbers = {16777217, 33554435, -123456789};
  const Twins x = make.of(Array::from_values({3}, DType::kI32, numbers)),
              out = make.output({3}, DType::kF32);
  CHECK(compare(on, out, tolerance_of(DType::kF32), [&](KernelContext& ctx, bool device) {
          const Array operands[] = {side(x, device)};
          pointwise(ctx, pointwise_function("tan"), operands, {}, side(out, device));
        }) == "");
}

TEST_CASE("integers have no remainder by 0 on the device either", "[device][pointwise]") {
  OnDevice on;
  TwinMaker make(on, 64);
  const double params[4] = {};
  for (int i = 0; i < 40; ++i) {
    const Shape shape = make.shape();
    const DType dtype = any_of(make, kIntegers), second = any_of(make, kIntegers);
    const Twins a = make.broadcast(shape, dtype), b = make.broadcast(shape, second),
                out = make.output(shape, DType::kI64);
    CAPTURE(i, shape, name_of(dtype), name_of(second));
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            const Array operands[] = {side(a, device), side(b, device)};
            pointwise(ctx, pointwise_function("fmod"), operands, params, side(out, device));
          }) == "");
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            const Array operands[] = {side(a, device)};
            pointwise(ctx, pointwise_function("fmod_scalar"), operands, params, side(out, device));
          }) == "");
  }
}

TEST_CASE("neighbours are the same on the device", "[device][pointwise]") {
  OnDevice on;
  TwinMaker make(on, 65);
  for (int i = 0; i < 200; ++i) {
    const Shape shape = make.shape();
    const DType to = i % 25 == 0 ? DType::kI32 : any_of(make, kFloating);
    const DType first = make.number(0, 2) == 0 ? any_of(make, kAll) : to,
                second = make.number(0, 2) == 0 ? any_of(make, kAll) : to;
    const Twins a = make.broadcast(shape, first), b = make.broadcast(shape, second),
                out = make.output(shape, to);
    CAPTURE(i, shape, name_of(first), name_of(second), name_of(to));
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            nextafter(ctx, side(a, device), side(b, device), side(out, device));
          }) == "");
  }
}

}  // namespace tessera::testing
