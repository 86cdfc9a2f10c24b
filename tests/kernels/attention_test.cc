#include "kernels/attention.h"

#include "tests/kernels/sample_arrays.h"

namespace tessera {
namespace {

using kernels::attention;
using kernels::attention_grad;
using kernels::AttentionGradients;
using kernels::AttentionOptions;
using testing::context_of;
using testing::Form;
using testing::random_array;
using testing::same_bits;
using testing::worst_error;

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Sizes {
  std::int64_t b, h, lq, lk, e, v;
};

/// Inputs with dims (B, H, L, E) over memory (B, L, H, E), as a model has them, or over memory in
/// dim order.
enum class Memory { kModel, kPlain, kSpaced };

Array heads(std::int64_t b, std::int64_t h, std::int64_t l, std::int64_t e, DType dtype,
            unsigned seed, Memory memory) {
  if (memory == Memory::kPlain) return random_array({b, h, l, e}, dtype, seed);
  if (memory == Memory::kSpaced) return random_array({b, h, l, e}, dtype, seed, Form::kSpaced);
  return random_array({b, l, h, e}, dtype, seed).transpose(1, 2);
}

struct Case {
  Sizes sizes;
  Array q, k, v, grad;
  AttentionOptions options;

  Case(const Sizes& s, DType dtype, Memory memory, std::int64_t offset, bool causal = true)
      : sizes(s),
        q(heads(s.b, s.h, s.lq, s.e, dtype, 1, memory)),
        k(heads(s.b, s.h, s.lk, s.e, dtype, 2, memory)),
        v(heads(s.b, s.h, s.lk, s.v, dtype, 3, memory)),
        grad(heads(s.b, s.h, s.lq, s.v, dtype, 4, memory)) {
    options.scale = 1.7 / std::sqrt(static_cast<double>(s.e));
    options.causal = causal;
    options.causal_offset = offset;
  }
};

struct Outcome {
  Array out, lse, grad_q, grad_k, grad_v;
};

Outcome run(const Case& c, int threads, const Array* given_out = nullptr) {
  const Sizes& s = c.sizes;
  const DType dtype = c.q.dtype();
  const DType sum_type = accumulation_type(dtype);
  Outcome o{given_out ? *given_out : Array::empty({s.b, s.lq, s.h, s.v}, dtype).transpose(1, 2),
            Array::empty({s.b, s.h, s.lq}, sum_type), Array::empty(c.q.shape(), dtype),
            Array::empty({s.b, s.lk, s.h, s.e}, dtype).transpose(1, 2),
            Array::empty(c.v.shape(), dtype)};
  KernelContext ctx = context_of(threads);
  attention(ctx, c.q, c.k, c.v, c.options, o.out, o.lse);
  attention_grad(ctx, c.grad, c.q, c.k, c.v, o.out, o.lse, c.options,
                 {o.grad_q, o.grad_k, o.grad_v});
  return o;
}

struct Reference {
  std::vector<double> out, lse, grad_q, grad_k, grad_v;
};

/// One head of the reference: every score by itself, in double.
class NaiveHead {
 public:
  NaiveHead(const Case& c, Reference& r, std::int64_t head)
      : c_(c), s_(c.sizes), r_(r), head_(head) {}

  void run(const std::vector<double>& q, const std::vector<double>& k, const std::vector<double>& v,
           const std::vector<double>& grad) {
    for (std::int64_t i = 0; i < s_.lq; ++i) {
      const std::int64_t seen =
          c_.options.causal ? std::clamp<std::int64_t>(i + c_.options.causal_offset + 1, 0, s_.lk)
                            : s_.lk;
      std::vector<double> weight(static_cast<std::size_t>(seen));
      double max = -kInf, sum = 0;
      for (std::int64_t j = 0; j < seen; ++j) {
        for (std::int64_t x = 0; x < s_.e; ++x)
          weight[j] += at(q, s_.lq, s_.e, i, x) * at(k, s_.lk, s_.e, j, x);
        weight[j] *= c_.options.scale;
        max = std::max(max, weight[j]);
      }
      for (double& w : weight) sum += w = std::exp(w - max);
      r_.lse[head_ * s_.lq + i] = seen == 0 ? -kInf : max + std::log(sum);
      double delta = 0;
      for (std::int64_t y = 0; y < s_.v; ++y) {
        double& out = r_.out[(head_ * s_.lq + i) * s_.v + y];
        for (std::int64_t j = 0; j < seen; ++j) out += weight[j] / sum * at(v, s_.lk, s_.v, j, y);
        delta += out * at(grad, s_.lq, s_.v, i, y);
      }
      for (std::int64_t j = 0; j < seen; ++j)
        add_key(q, k, v, grad, {i, j, weight[j] / sum, delta});
    }
  }

 private:
  struct Pair {
    std::int64_t i, j;
    double weight, delta;
  };
  void add_key(const std::vector<double>& q, const std::vector<double>& k,
               const std::vector<double>& v, const std::vector<double>& grad, const Pair& p) {
    double slope = -p.delta;
    for (std::int64_t y = 0; y < s_.v; ++y) {
      const double g = at(grad, s_.lq, s_.v, p.i, y);
      slope += g * at(v, s_.lk, s_.v, p.j, y);
      r_.grad_v[(head_ * s_.lk + p.j) * s_.v + y] += p.weight * g;
    }
    slope *= p.weight * c_.options.scale;
    for (std::int64_t x = 0; x < s_.e; ++x) {
      r_.grad_q[(head_ * s_.lq + p.i) * s_.e + x] += slope * at(k, s_.lk, s_.e, p.j, x);
      r_.grad_k[(head_ * s_.lk + p.j) * s_.e + x] += slope * at(q, s_.lq, s_.e, p.i, x);
    }
  }
  double at(const std::vector<double>& x, std::int64_t rows, std::int64_t cols, std::int64_t i,
            std::int64_t j) const {
    return x[(head_ * rows + i) * cols + j];
  }

  const Case& c_;
  const Sizes& s_;
  Reference& r_;
  std::int64_t head_;
};

Reference naive(const Case& c) {
  const Sizes& s = c.sizes;
  const std::int64_t n = s.b * s.h;
  Reference r{std::vector<double>(n * s.lq * s.v), std::vector<double>(n * s.lq),
              std::vector<double>(n * s.lq * s.e), std::vector<double>(n * s.lk * s.e),
              std::vector<double>(n * s.lk * s.v)};
  const auto q = c.q.to_vector(), k = c.k.to_vector(), v = c.v.to_vector(),
             grad = c.grad.to_vector();
  for (std::int64_t head = 0; head < n; ++head) NaiveHead(c, r, head).run(q, k, v, grad);
  return r;
}

double tolerance(DType dtype) {
  if (dtype == DType::kF64) return 2e-14;
  return dtype == DType::kF32 ? 5e-6 : 1.5e-2;
}

TEST_CASE("attention and its gradient are the sums over the keys seen", "[kernels][attention]") {
  const DType dtype = GENERATE(DType::kF64, DType::kF32, DType::kBF16);
  const Memory memory = GENERATE(Memory::kModel, Memory::kPlain, Memory::kSpaced);
  struct Shape4 {
    Sizes sizes;
    std::int64_t offset;
    bool causal;
  };
  const Shape4 shape = GENERATE(
      Shape4{{1, 1, 1, 1, 1, 1}, 0, true},         // one key
      Shape4{{2, 3, 7, 7, 6, 4}, 0, true},         //
      Shape4{{2, 2, 9, 9, 5, 3}, 0, false},        // every key
      Shape4{{1, 2, 131, 131, 24, 16}, 0, true},   // several blocks of rows
      Shape4{{1, 2, 70, 200, 8, 12}, 130, true},   // rows that follow the keys
      Shape4{{1, 2, 200, 70, 8, 12}, -60, true},   // the first 60 rows see no key
      Shape4{{1, 1, 5, 4, 8, 12}, -9, true},       // no row sees a key
      Shape4{{1, 1, 66, 1100, 4, 2}, 1030, true},  // several chunks of keys, cut by the bound
      Shape4{{1, 1, 3, 1030, 4, 2}, 0, false});
  CAPTURE(name_of(dtype), int(memory), shape.sizes.lq, shape.sizes.lk, shape.offset, shape.causal);
  const Case c(shape.sizes, dtype, memory, shape.offset, shape.causal);
  const Outcome got = run(c, 1);
  const Reference want = naive(c);
  CHECK(worst_error(got.out.to_vector(), want.out) < tolerance(dtype));
  CHECK(worst_error(got.lse.to_vector(), want.lse) < (dtype == DType::kF64 ? 2e-14 : 5e-6));
  CHECK(worst_error(got.grad_q.to_vector(), want.grad_q) < tolerance(dtype));
  CHECK(worst_error(got.grad_k.to_vector(), want.grad_k) < 2 * tolerance(dtype));
  CHECK(worst_error(got.grad_v.to_vector(), want.grad_v) < 2 * tolerance(dtype));
}

TEST_CASE("attention's gradient is the slope of its result", "[kernels][attention]") {
  const std::int64_t offset = GENERATE(0, 2, -2);
  Case c({1, 2, 5, 6, 4, 3}, DType::kF64, Memory::kPlain, offset);
  const Outcome got = run(c, 1);
  const auto loss = [&] {
    const std::vector<double> out = run(c, 1).out.to_vector(), grad = c.grad.to_vector();
    double sum = 0;
    for (std::size_t i = 0; i < out.size(); ++i) sum += out[i] * grad[i];
    return sum;
  };
  const auto check_slopes = [&](const Array& x, const Array& grad) {
    const std::vector<double> want = grad.to_vector();
    for (std::int64_t i = 0; i < x.num_elements(); ++i) {
      double& value = x.data<double>()[i];
      const double kept = value, step = 1e-5;
      value = kept + step;
      const double above = loss();
      value = kept - step;
      const double slope = (above - loss()) / (2 * step);
      value = kept;
      CHECK(std::abs(slope - want[i]) < 1e-9);
    }
  };
  check_slopes(c.q, got.grad_q);
  check_slopes(c.k, got.grad_k);
  check_slopes(c.v, got.grad_v);
}

TEST_CASE("attention has the same bits on one thread and two, and when repeated",
          "[kernels][attention]") {
  const DType dtype = GENERATE(DType::kF64, DType::kF32, DType::kBF16);
  // Few heads: blocks of rows are the tasks on two threads. Many: heads are.
  const Sizes sizes = GENERATE(Sizes{1, 1, 200, 300, 48, 32}, Sizes{2, 5, 100, 100, 48, 32});
  CAPTURE(name_of(dtype), sizes.h);
  const Case c(sizes, dtype, Memory::kModel, sizes.lk - sizes.lq);
  const Outcome first = run(c, 1);
  for (const int threads : {1, 2, 2}) {
    const Outcome again = run(c, threads);
    CHECK(same_bits(first.out, again.out));
    CHECK(same_bits(first.lse, again.lse));
    CHECK(same_bits(first.grad_q, again.grad_q));
    CHECK(same_bits(first.grad_k, again.grad_k));
    CHECK(same_bits(first.grad_v, again.grad_v));
  }
}

TEST_CASE("a NaN in a query reaches its row alone", "[kernels][attention]") {
  const DType dtype = GENERATE(DType::kF64, DType::kF32, DType::kBF16);
  const Case c({1, 1, 80, 80, 8, 4}, dtype, Memory::kPlain, 0);
  KernelContext ctx = context_of(1);
  kernels::fill(ctx, std::nan(""), c.q.slice(2, 70, 71).slice(3, 0, 1));
  const std::vector<double> out = run(c, 1).out.to_vector();
  for (std::int64_t i = 0; i < 80 * 4; ++i) CHECK(std::isnan(out[i]) == (i / 4 == 70));
}

TEST_CASE("large scores do not overflow attention", "[kernels][attention]") {
  const DType dtype = GENERATE(DType::kF64, DType::kF32);
  Case c({1, 1, 40, 600, 8, 4}, dtype, Memory::kPlain, 560);
  c.options.scale = 4000;  // weights of all keys but the largest vanish
  const Outcome got = run(c, 1);
  const Reference want = naive(c);
  CHECK(worst_error(got.lse.to_vector(), want.lse) < 1e-5);
  for (const double value : got.out.to_vector()) CHECK(std::abs(value) <= 1.0);
}

TEST_CASE("attention over no rows or no keys is defined", "[kernels][attention]") {
  const Case no_rows({2, 1, 0, 5, 4, 3}, DType::kF32, Memory::kPlain, 0);
  const Outcome none = run(no_rows, 1);
  CHECK(none.grad_k.to_vector() == std::vector<double>(2 * 5 * 4, 0.0));
  const Case no_keys({1, 2, 3, 0, 4, 3}, DType::kF32, Memory::kPlain, 0, /*causal=*/false);
  const Outcome empty = run(no_keys, 1);
  CHECK(empty.out.to_vector() == std::vector<double>(2 * 3 * 3, 0.0));
  CHECK(empty.lse.to_vector() == std::vector<double>(2 * 3, -kInf));
  CHECK(empty.grad_q.to_vector() == std::vector<double>(2 * 3 * 4, 0.0));
}

TEST_CASE("attention names shapes and dtypes that do not fit", "[kernels][attention]") {
  KernelContext ctx = context_of(1);
  const Array q = Array::zeros({1, 2, 3, 4}, DType::kF32),
              lse = Array::zeros({1, 2, 3}, DType::kF32);
  const Array k = Array::zeros({1, 2, 5, 8}, DType::kF32);
  CHECK(testing::error_of([&] { attention(ctx, q, k, k, {}, q, lse); }) ==
        "attention: q [1, 2, 3, 4], k [1, 2, 5, 8], v [1, 2, 5, 8], out [1, 2, 3, 4], lse [1, 2, "
        "3]; wanted [B, H, Lq, E], "
        "[B, H, Lk, E], [B, H, Lk, V], [B, H, Lq, V], [B, H, Lq]");
  CHECK(testing::error_of([&] {
          attention(ctx, q, q, q, {}, q, Array::zeros({1, 2, 3}, DType::kF64));
        }) ==
        "attention: q F32, k F32, v F32, out F32, lse F64; the first four must be of one dtype, "
        "lse of F32");
}

}  // namespace
}  // namespace tessera
