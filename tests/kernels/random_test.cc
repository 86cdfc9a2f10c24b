#include "kernels/random.h"

#include <numeric>

#include "tests/kernels/sample_arrays.h"

namespace tessera {
namespace {

using namespace kernels;  // the functions under test
using testing::context_of;
using testing::empty_in_form;
using testing::error_of;
using testing::Form;
using testing::same_bits;

std::vector<std::vector<std::int64_t>> whole_index(const Shape& shape) {
  std::vector<std::vector<std::int64_t>> index;
  for (const std::int64_t size : shape) {
    index.emplace_back(static_cast<std::size_t>(size));
    std::iota(index.back().begin(), index.back().end(), 0);
  }
  return index;
}

Array whole(const RandomSpec& spec, const Shape& shape, DType dtype, int threads = 1) {
  KernelContext ctx = context_of(threads);
  const Array out = Array::empty(shape, dtype);
  kernels::random(ctx, spec, shape, whole_index(shape), out);
  return out;
}

struct Moments {
  double mean = 0, variance = 0, third = 0, fourth = 0, least = 1e300, most = -1e300;
};
Moments moments_of(const std::vector<double>& values) {
  Moments m;
  const auto n = static_cast<double>(values.size());
  for (const double v : values) {
    m.mean += v / n;
    m.least = std::min(m.least, v);
    m.most = std::max(m.most, v);
  }
  for (const double v : values) {
    const double d = v - m.mean;
    m.variance += d * d / n;
    m.third += d * d * d / n;
    m.fourth += d * d * d * d / n;
  }
  return m;
}

const RandomSpec kUniformSpec{
    .distribution = Distribution::kUniform, .a = -2, .b = 3, .seed = 5, .stream = 7};
const RandomSpec kNormalSpec{
    .distribution = Distribution::kNormal, .a = 1, .b = 2, .seed = 5, .stream = 7};
const RandomSpec kTruncatedSpec{.distribution = Distribution::kTruncatedNormal,
                                .a = 0,
                                .b = 1,
                                .low = -2,
                                .high = 1,
                                .seed = 5,
                                .stream = 7};

TEST_CASE("uniform values have a uniform's moments and stay below high", "[kernels][random]") {
  const Moments m = moments_of(whole(kUniformSpec, {1000, 1000}, DType::kF64).to_vector());
  CHECK(std::abs(m.mean - 0.5) < 0.006);  // four standard errors
  CHECK(std::abs(m.variance - 25.0 / 12) < 0.008);
  CHECK(m.least >= -2);
  CHECK(m.most < 3);
  const RandomSpec coarse{.a = 0, .b = 1, .seed = 1};
  for (const DType dtype : {DType::kF32, DType::kBF16}) {  // rounding must not reach high
    CHECK(moments_of(whole(coarse, {1000, 1000}, dtype).to_vector()).most < 1);
  }
}

TEST_CASE("normal values have a normal's moments", "[kernels][random]") {
  const Moments m = moments_of(whole(kNormalSpec, {1000, 1000}, DType::kF64).to_vector());
  CHECK(std::abs(m.mean - 1) < 0.008);
  CHECK(std::abs(m.variance - 4) < 0.023);
  CHECK(std::abs(m.third / 8) < 0.01);
  CHECK(std::abs(m.fourth / 16 - 3) < 0.04);
  CHECK(m.most > 1 + 2 * 4.2);  // tails exist
  CHECK(m.least < 1 - 2 * 4.2);
}

TEST_CASE("normal values are the uniform draw through the inverse CDF, to 1e-9",
          "[kernels][random]") {
  const RandomSpec unit{.a = 0, .b = 1, .seed = 5, .stream = 7};
  const RandomSpec standard{.distribution = Distribution::kNormal, .seed = 5, .stream = 7};
  const std::vector<double> u = whole(unit, {200000}, DType::kF64).to_vector();
  const std::vector<double> z = whole(standard, {200000}, DType::kF64).to_vector();
  double worst = 0;
  for (std::size_t i = 0; i < u.size(); ++i) {
    // The CDF's slope turns an error in probability into one in z.
    const double density = std::exp(-0.5 * z[i] * z[i]) / std::sqrt(2 * std::acos(-1.0));
    const double probability = z[i] < 0 ? 0.5 * std::erfc(-z[i] / std::sqrt(2.0))
                                        : 1 - 0.5 * std::erfc(z[i] / std::sqrt(2.0));
    worst = std::max(worst, std::abs(probability - u[i]) / density);
  }
  CHECK(worst < 1e-9);
}

TEST_CASE("truncated normal values follow the truncated distribution", "[kernels][random]") {
  const std::vector<double> values = whole(kTruncatedSpec, {1000, 1000}, DType::kF64).to_vector();
  const auto density = [](double x) {
    return std::exp(-0.5 * x * x) / std::sqrt(2 * std::acos(-1.0));
  };
  const auto cdf = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
  const double mass = cdf(1) - cdf(-2), mean = (density(-2) - density(1)) / mass;
  const double variance = 1 + (-2 * density(-2) - 1 * density(1)) / mass - mean * mean;
  const Moments m = moments_of(values);
  CHECK(m.least >= -2);
  CHECK(m.most <= 1);
  CHECK(std::abs(m.mean - mean) < 0.004);
  CHECK(std::abs(m.variance - variance) < 0.004);
  double below = 0;
  for (const double v : values) below += v < -1 ? 1e-6 : 0;
  CHECK(std::abs(below - (cdf(-1) - cdf(-2)) / mass) < 0.002);
}

TEST_CASE("neighbours, streams and seeds are independent", "[kernels][random]") {
  const std::vector<double> values = whole(kNormalSpec, {1'000'000}, DType::kF64).to_vector();
  for (const std::size_t lag : {1, 2, 3, 4, 1024}) {
    double correlation = 0;
    for (std::size_t i = 0; i + lag < values.size(); ++i)
      correlation += (values[i] - 1) * (values[i + lag] - 1) / 4;
    CHECK(std::abs(correlation / static_cast<double>(values.size() - lag)) < 0.004);
  }
  for (const bool other_seed : {false, true}) {
    RandomSpec other = kNormalSpec;
    (other_seed ? other.seed : other.stream) += 1;
    const std::vector<double> more = whole(other, {1'000'000}, DType::kF64).to_vector();
    double correlation = 0;
    for (std::size_t i = 0; i < values.size(); ++i)
      correlation += (values[i] - 1) * (more[i] - 1) / 4e6;
    CHECK(std::abs(correlation) < 0.004);
  }
}

TEST_CASE("a value depends on its global index alone", "[kernels][random]") {
  const Shape shape = {7, 5, 9};
  for (const RandomSpec& spec : {kUniformSpec, kNormalSpec, kTruncatedSpec}) {
    for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
      for (const Form form : {Form::kPlain, Form::kTransposed, Form::kSpaced}) {
        const std::vector<double> all = whole(spec, shape, dtype).to_vector();
        const std::vector<std::vector<std::int64_t>> parts = {{0, 3, 6}, {1, 2, 4}, {8, 7, 0, 5}};
        const Array out = empty_in_form({3, 3, 4}, dtype, form);
        KernelContext ctx;
        kernels::random(ctx, spec, shape, parts, out);
        std::vector<double> want;
        for (const std::int64_t i : parts[0]) {
          for (const std::int64_t j : parts[1]) {
            for (const std::int64_t k : parts[2])
              want.push_back(all[static_cast<std::size_t>((i * 5 + j) * 9 + k)]);
          }
        }
        CHECK(out.to_vector() == want);
      }
    }
  }
  KernelContext ctx;
  kernels::random(ctx, kNormalSpec, {0, 4}, whole_index({0, 4}), Array::zeros({0, 4}, DType::kF32));
  const Array scalar = Array::empty({}, DType::kF64);
  kernels::random(ctx, kNormalSpec, {}, {}, scalar);
  CHECK(scalar.to_vector()[0] == whole(kNormalSpec, {3}, DType::kF64).to_vector()[0]);
}

TEST_CASE("all dtypes round the same draw, and threads do not matter", "[kernels][random]") {
  for (const RandomSpec& spec : {kUniformSpec, kNormalSpec, kTruncatedSpec}) {
    const std::vector<double> wide = whole(spec, {300, 70}, DType::kF64).to_vector();
    const std::vector<double> narrow = whole(spec, {300, 70}, DType::kF32).to_vector();
    bool same = true;
    for (std::size_t i = 0; i < wide.size(); ++i)
      same = same && narrow[i] == static_cast<double>(static_cast<float>(wide[i]));
    CHECK(same);
    CHECK(
        same_bits(whole(spec, {300, 70}, DType::kF32, 1), whole(spec, {300, 70}, DType::kF32, 2)));
  }
}

TEST_CASE("streams hash names by FNV-1a; bad calls are named", "[kernels][random]") {
  CHECK(stream_of("") == 0xcbf29ce484222325U);
  CHECK(stream_of("a") == 0xaf63dc4c8601ec8cU);  // the published test values
  CHECK(stream_of("foobar") == 0x85944171f73967e8U);
  KernelContext ctx;
  CHECK(error_of([&] {
          kernels::random(ctx, kNormalSpec, {3}, whole_index({2}), Array::zeros({3}, DType::kF32));
        }) == "random: the global indices do not match the output's shape [3] of global [3]");
  CHECK(error_of([&] {
          kernels::random(ctx, kNormalSpec, {3}, whole_index({3}), Array::zeros({3}, DType::kI32));
        }) == "random: dtype I32 is not supported; allowed: F64, F32, BF16, F16");
  RandomSpec empty = kTruncatedSpec;
  empty.high = -2;
  CHECK(error_of([&] {
          kernels::random(ctx, empty, {3}, whole_index({3}), Array::zeros({3}, DType::kF32));
        }) == "random: truncated normal needs low < high and std > 0, not [-2, -2], std 1");
}

}  // namespace
}  // namespace tessera
