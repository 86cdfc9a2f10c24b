#include "kernels/attention.h"
#include "tests/kernels/sample_arrays.h"

namespace tessera {
namespace {

using kernels::attention;
using kernels::masked_attention;
using testing::context_of;
using testing::empty_in_form;
using testing::Form;
using testing::random_array;
using testing::worst_error;

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Result {
  std::vector<double> out, lse;
};

DType lse_type(DType dtype) { return accumulation_type(dtype); }

Result run_masked(const Array& q, const Array& k, const Array& v, const Array& mask) {
  KernelContext ctx = context_of(2);
  const Array out =
      empty_in_form({q.size(0), q.size(1), q.size(2), v.size(3)}, q.dtype(), Form::kTransposed);
  const Array lse = Array::zeros({q.size(0), q.size(1), q.size(2)}, lse_type(q.dtype()));
  masked_attention(ctx, q, k, v, mask, 0.7, out, lse);
  return {out.to_vector(), lse.to_vector()};
}

Result run_causal(const Array& q, const Array& k, const Array& v) {
  KernelContext ctx = context_of(2);
  const Array out = Array::zeros({q.size(0), q.size(1), q.size(2), v.size(3)}, q.dtype());
  const Array lse = Array::zeros({q.size(0), q.size(1), q.size(2)}, lse_type(q.dtype()));
  attention(ctx, q, k, v, {.scale = 0.7}, out, lse);
  return {out.to_vector(), lse.to_vector()};
}

}  // namespace

TEST_CASE("a mask of what a causal row sees gives causal attention", "[kernels][attention]") {
  const DType dtype = GENERATE(DType::kF64, DType::kF32, DType::kBF16);
  const Form form = GENERATE(Form::kPlain, Form::kTransposed, Form::kSpaced);
  CAPTURE(name_of(dtype), int(form));
  const std::int64_t length = 9;
  const Array q = random_array({2, 3, length, 4}, dtype, 1, form);
  const Array k = random_array({2, 3, length, 4}, dtype, 2, form);
  const Array v = random_array({2, 3, length, 5}, dtype, 3, form);
  std::vector<double> seen, added;
  for (std::int64_t i = 0; i < length; ++i) {
    for (std::int64_t j = 0; j < length; ++j) {
      seen.push_back(j <= i ? 1.0 : 0.0);
      added.push_back(j <= i ? 0.0 : -kInf);
    }
  }
  const Result causal = run_causal(q, k, v);
  const double bound = 8.0 * testing::rounding(dtype);
  for (const Array& mask : {Array::from_values({length, length}, DType::kBool, seen),
                            Array::from_values({1, 1, length, length}, DType::kF32, added)}) {
    const Result masked = run_masked(q, k, v, mask);
    CHECK(worst_error(masked.out, causal.out) <= bound);
    CHECK(worst_error(masked.lse, causal.lse) <= 64.0 * testing::rounding(lse_type(dtype)));
  }
}

TEST_CASE("a row that a mask hides from all keys gives 0 and a log-sum of minus infinity",
          "[kernels][attention]") {
  const Array q = random_array({1, 1, 2, 3}, DType::kF64, 1);
  const Array k = random_array({1, 1, 2, 3}, DType::kF64, 2);
  const Array mask = Array::from_values({2, 1}, DType::kBool, std::vector<double>{0, 1});
  const Result result = run_masked(q, k, k, mask);
  for (std::size_t e = 0; e < 3; ++e) CHECK(result.out[e] == 0.0);
  CHECK(result.lse[0] == -kInf);
  CHECK(std::isfinite(result.lse[1]));
}

TEST_CASE("a row with a NaN score under a mask gives NaN", "[kernels][attention]") {
  const Array q = Array::from_values({1, 1, 1, 1}, DType::kF64, std::vector<double>{1});
  const Array k =
      Array::from_values({1, 1, 2, 1}, DType::kF64, std::vector<double>{std::nan(""), 1});
  const Array mask = Array::from_values({1, 2}, DType::kF64, std::vector<double>{0, -kInf});
  CHECK(std::isnan(run_masked(q, k, k, mask).out[0]));
}

TEST_CASE("a key that a causal row does not see has no part in its result, whatever it holds",
          "[kernels][attention]") {
  const double odd = GENERATE(std::numeric_limits<double>::quiet_NaN(), kInf);
  const std::int64_t length = GENERATE(5, 130);  // one block of rows, and several
  const Array q = random_array({1, 1, length, 4}, DType::kF64, 1);
  const Array k = random_array({1, 1, length, 4}, DType::kF64, 2);
  const Array v = random_array({1, 1, length, 3}, DType::kF64, 3);
  const Result plain = run_causal(q, k, v);
  const std::int64_t late = length - 2;
  v.data<double>()[late * 3 + 1] = odd;
  const Result result = run_causal(q, k, v);
  for (std::int64_t i = 0; i < length; ++i) {
    for (std::int64_t e = 0; e < 3; ++e) {
      const auto at = static_cast<std::size_t>(i * 3 + e);
      CAPTURE(i, e, length);
      if (i >= late && e == 1) {
        CHECK_FALSE(std::isfinite(result.out[at]));
      } else {
        CHECK(std::abs(result.out[at] - plain.out[at]) < 1e-14);
      }
    }
  }
}

}  // namespace tessera
