// Copies: casts, strides, broadcasting and permutations of any rank.
#include "kernels/elementwise.h"
#include "tests/kernels/sample_arrays.h"

namespace tessera {
namespace {

using namespace kernels;  // the functions under test
using testing::array_in_form;
using testing::context_of;
using testing::empty_in_form;
using testing::Form;
using testing::random_array;
using testing::random_values;

constexpr Form kForms[] = {Form::kPlain, Form::kTransposed, Form::kPadded, Form::kSpaced};
constexpr DType kAll[] = {DType::kF64, DType::kF32, DType::kBF16,
                          DType::kI64, DType::kI32, DType::kBool};

double truth(bool value) { return value ? 1.0 : 0.0; }

}  // namespace

TEST_CASE("copy casts between all dtypes and forms", "[kernels][copy]") {
  for (const DType from : kAll) {
    for (const DType to : kAll) {
      for (const Form source : kForms) {
        for (const Form target : kForms) {
          CAPTURE(std::string(name_of(from)), std::string(name_of(to)), static_cast<int>(source),
                  static_cast<int>(target));
          KernelContext ctx;
          std::vector<double> values = random_values(3 * 37 * 41, 9);
          for (double& value : values) value = std::floor(value * 4);
          const Shape shape = {3, 37, 41};
          const Array x = array_in_form(shape, from, source, values);
          const Array out = empty_in_form(shape, to, target);
          copy(ctx, x, out);
          std::vector<double> want = x.to_vector();
          if (to == DType::kBool)
            for (double& value : want) value = truth(value != 0);
          REQUIRE(out.to_vector() == want);
        }
      }
    }
  }
}

TEST_CASE("numbers that integers do not hold become their ends, and NaN 0", "[kernels][copy]") {
  KernelContext ctx;
  constexpr double kInf = HUGE_VAL;
  const std::vector<double> values = {std::nan(""), kInf, -kInf, 1e30, -1e30, 2.75, -2.75, -0.0};
  for (const DType from : {DType::kF64, DType::kF32}) {
    for (const Form form : kForms) {
      const Array x = array_in_form({8}, from, form, values);
      const auto cast = [&](DType to) {
        const Array out = Array::empty({8}, to);
        copy(ctx, x, out);
        return out;
      };
      const Array longs = cast(DType::kI64);
      const auto* wide = longs.data<std::int64_t>();
      using Wide = std::numeric_limits<std::int64_t>;
      const std::int64_t want[] = {0, Wide::max(), Wide::min(), Wide::max(), Wide::min(), 2, -2, 0};
      CHECK(std::equal(wide, wide + 8, want));
      constexpr double kMost = 2147483647.0, kLeast = -2147483648.0;
      CHECK(cast(DType::kI32).to_vector() ==
            std::vector<double>{0, kMost, kLeast, kMost, kLeast, 2, -2, 0});
      CHECK(cast(DType::kU8).to_vector() == std::vector<double>{0, 255, 0, 255, 0, 2, 254, 0});
      CHECK(cast(DType::kBool).to_vector() == std::vector<double>{1, 1, 1, 1, 1, 1, 1, 0});
    }
  }
  const Array edge = Array::from_values(
      {3}, DType::kF32, std::vector<double>{2147483520.0, 2147483648.0, -2147483648.0});
  const Array out = Array::empty({3}, DType::kI32);
  copy(ctx, edge, out);
  CHECK(out.to_vector() == std::vector<double>{2147483520.0, 2147483647.0, -2147483648.0});
}

TEST_CASE("copy keeps bits, broadcasts, and takes empty arrays", "[kernels][copy]") {
  KernelContext ctx;
  const Array x = Array::zeros({2, 2}, DType::kF32);
  const std::uint32_t bits[] = {0x7fc12345U, 0xff812345U, 0x80000000U, 0x00000001U};
  std::memcpy(x.bytes(), bits, sizeof(bits));
  const Array out = Array::empty({2, 2}, DType::kF32);
  copy(ctx, x.transpose(0, 1), out);
  const std::uint32_t want[] = {bits[0], bits[2], bits[1], bits[3]};
  CHECK(std::memcmp(out.bytes(), want, sizeof(want)) == 0);
  const Array row = Array::from_values({1, 3}, DType::kI32, std::vector<double>{1, 2, 3});
  const Array rows = Array::empty({2, 3}, DType::kI32);
  copy(ctx, row, rows);
  CHECK(rows.to_vector() == std::vector<double>{1, 2, 3, 1, 2, 3});
  copy(ctx, Array::zeros({0, 3}, DType::kF32), Array::zeros({0, 3}, DType::kF32));
  copy(ctx, Array::zeros({0, 3}, DType::kF32).transpose(0, 1), Array::zeros({3, 0}, DType::kBF16));
  binary(ctx, Binary::kAdd, Array::zeros({0}, DType::kF32), Array::zeros({1}, DType::kF32),
         Array::zeros({0}, DType::kF32));
  const Array scalar = Array::from_values({}, DType::kF64, std::vector<double>{4});
  unary(ctx, Unary::kSqrt, scalar, scalar);
  CHECK(scalar.to_vector() == std::vector<double>{2});
}

TEST_CASE("permuted copies of higher rank equal an element loop", "[kernels][copy]") {
  KernelContext ctx;
  const Shape shape = {3, 10, 4, 17};
  int order[] = {0, 1, 2, 3};
  do {
    const Array x = random_array(shape, DType::kF32, 11);
    Shape sizes(4), strides(4);
    for (std::size_t d = 0; d < 4; ++d) {
      sizes[d] = shape[static_cast<std::size_t>(order[d])];
      strides[d] = x.strides()[static_cast<std::size_t>(order[d])];
    }
    const Array view = x.as_strided(sizes, strides, 0);
    for (const int threads : {1, 2}) {
      KernelContext many = context_of(threads);
      REQUIRE(contiguous(many, view).to_vector() == view.to_vector());
    }
  } while (std::next_permutation(order, order + 4));
  const Array dense = random_array({4}, DType::kF32, 1);
  CHECK(contiguous(ctx, dense).storage() == dense.storage());
}

}  // namespace tessera
