#include "kernels/index.h"

#include "tests/kernels/sample_arrays.h"

namespace tessera {
namespace {

using namespace kernels;  // the functions under test
using testing::array_in_form;
using testing::context_of;
using testing::empty_in_form;
using testing::error_of;
using testing::Form;
using testing::random_array;
using testing::random_values;
using testing::rounding;
using testing::same_bits;
using testing::worst_error;

constexpr Form kForms[] = {Form::kPlain, Form::kTransposed, Form::kPadded, Form::kSpaced};
constexpr DType kAll[] = {DType::kF64, DType::kF32, DType::kBF16,
                          DType::kI64, DType::kI32, DType::kBool};

/// Random positions in [0, size), every seventh −1 where `absent` is kSkip.
std::vector<double> positions(std::int64_t count, std::int64_t size, Absent absent, unsigned seed) {
  std::vector<double> values = random_values(count, seed);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::floor((values[i] + 1) / 2 * static_cast<double>(size));
    if (absent == Absent::kSkip && i % 7 == 3) values[i] = -1;
  }
  return values;
}

/// Row-major position of `index`'s element i in an array of shape `shape`, with its coordinate of
/// dim replaced.
std::int64_t place(const Shape& index_shape, std::int64_t i, const Shape& shape, int dim,
                   std::int64_t coordinate) {
  std::int64_t at = 0, step = 1;
  for (int d = static_cast<int>(shape.size()) - 1; d >= 0; --d) {
    at += (d == dim ? coordinate : i % index_shape[d]) * step;
    i /= index_shape[d];
    step *= shape[d];
  }
  return at;
}

struct Sample {
  Shape x, index;
  int dim;
};
const std::vector<Sample>& samples() {
  static const std::vector<Sample> all = {{{9, 5, 4}, {6, 5, 4}, 0},  {{4, 9, 5}, {4, 20, 5}, 1},
                                          {{4, 5, 9}, {3, 4, 30}, 2}, {{100, 70}, {300, 60}, 0},
                                          {{70, 100}, {66, 7}, 1},    {{5}, {0}, 0}};
  return all;
}

TEST_CASE("gather reads by a loop's definition", "[kernels][index]") {
  for (const Sample& sample : samples()) {
    for (const DType dtype : kAll) {
      for (const Form form : kForms) {
        for (const Absent absent : {Absent::kError, Absent::kSkip}) {
          CAPTURE(to_string(sample.x), sample.dim, std::string(name_of(dtype)),
                  static_cast<int>(form));
          std::vector<double> values = random_values(num_elements(sample.x), 1);
          for (double& value : values) value = std::floor(value * 100);
          const Array x = array_in_form(sample.x, dtype, form, values);
          const std::int64_t count = num_elements(sample.index);
          const auto at =
              positions(count, sample.x[static_cast<std::size_t>(sample.dim)], absent, 2);
          const Array index = array_in_form(
              sample.index, form == Form::kPadded ? DType::kI32 : DType::kI64, form, at);
          std::vector<double> want(static_cast<std::size_t>(count));
          const std::vector<double> source = x.to_vector();
          for (std::int64_t i = 0; i < count; ++i) {
            const auto position = static_cast<std::int64_t>(at[static_cast<std::size_t>(i)]);
            if (position >= 0)
              want[static_cast<std::size_t>(i)] = source[static_cast<std::size_t>(
                  place(sample.index, i, sample.x, sample.dim, position))];
          }
          for (const int threads : {1, 2}) {
            KernelContext ctx = context_of(threads);
            const Array out = empty_in_form(sample.index, dtype, form);
            gather(ctx, x, sample.dim, index, absent, out);
            REQUIRE(out.to_vector() == want);
          }
        }
      }
    }
  }
}

TEST_CASE("scatter, scatter_value and scatter_add write in operand order", "[kernels][index]") {
  for (const Sample& sample : samples()) {
    for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kI64, DType::kI32}) {
      for (const Form form : kForms) {
        CAPTURE(to_string(sample.x), sample.dim, std::string(name_of(dtype)),
                static_cast<int>(form));
        const std::int64_t count = num_elements(sample.index);
        const auto at =
            positions(count, sample.x[static_cast<std::size_t>(sample.dim)], Absent::kSkip, 3);
        const Array index = array_in_form(sample.index, DType::kI64, form, at);
        std::vector<double> values = random_values(count, 4),
                            start = random_values(num_elements(sample.x), 5);
        if (dtype != DType::kF64)
          for (auto* list : {&values, &start})
            for (double& value : *list) value = std::floor(value * 4);
        const Array src = array_in_form(sample.index, dtype, form, values);
        std::vector<double> put = start, set = start, sum = start;
        for (std::int64_t i = 0; i < count; ++i) {
          const auto position = static_cast<std::int64_t>(at[static_cast<std::size_t>(i)]);
          if (position < 0) continue;
          const auto to =
              static_cast<std::size_t>(place(sample.index, i, sample.x, sample.dim, position));
          put[to] = values[static_cast<std::size_t>(i)];
          set[to] = 3;
          sum[to] += values[static_cast<std::size_t>(i)];
        }
        for (const int threads : {1, 2}) {
          KernelContext ctx = context_of(threads);
          const Array out = array_in_form(sample.x, dtype, form, start);
          scatter(ctx, out, sample.dim, index, src, Absent::kSkip);
          REQUIRE(out.to_vector() == put);
          copy(ctx, Array::from_values(sample.x, dtype, start), out);
          scatter_value(ctx, out, sample.dim, index, 3, Absent::kSkip);
          REQUIRE(out.to_vector() == set);
          copy(ctx, Array::from_values(sample.x, dtype, start), out);
          scatter_add(ctx, out, sample.dim, index, src, Absent::kSkip);
          REQUIRE(worst_error(out.to_vector(), sum) == 0);  // F64: the same order, so the same bits
        }
      }
    }
  }
}

TEST_CASE("scatter takes a src larger than its index", "[kernels][index]") {
  KernelContext ctx;
  const Array out = Array::zeros({2, 3}, DType::kF32);
  const Array index = Array::from_values({1, 2}, DType::kI64, std::vector<double>{2, 0});
  scatter(ctx, out, 1, index,
          Array::from_values({2, 3}, DType::kF32, std::vector<double>{1, 2, 3, 4, 5, 6}),
          Absent::kError);
  CHECK(out.to_vector() == std::vector<double>{2, 0, 1, 0, 0, 0});
}

TEST_CASE("index_select and index_add move whole slices", "[kernels][index]") {
  for (const Shape& shape : {Shape{11, 4, 6}, Shape{3, 700}, Shape{64, 3}, Shape{5}}) {
    for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
      for (const DType dtype : kAll) {
        for (const Form form : kForms) {
          for (const Absent absent : {Absent::kError, Absent::kSkip}) {
            CAPTURE(to_string(shape), dim, std::string(name_of(dtype)), static_cast<int>(form));
            const std::int64_t n = 23;
            const auto at = positions(n, shape[static_cast<std::size_t>(dim)], absent, 7);
            const Array index =
                Array::from_values({n}, form == Form::kSpaced ? DType::kI32 : DType::kI64, at);
            Shape part = shape;
            part[static_cast<std::size_t>(dim)] = n;
            std::vector<double> values = random_values(num_elements(shape), 8),
                                terms = random_values(num_elements(part), 9);
            if (dtype != DType::kF64)
              for (auto* list : {&values, &terms})
                for (double& value : *list)
                  value = dtype == DType::kBool ? (value > 0 ? 1 : 0) : std::floor(value * 4);
            const Array x = array_in_form(shape, dtype, form, values);
            const Array src = array_in_form(part, dtype, form, terms);
            std::vector<double> selected(terms.size()), added = values;
            for (std::int64_t i = 0; i < num_elements(part); ++i) {
              std::int64_t inner = 1;
              for (std::size_t d = static_cast<std::size_t>(dim) + 1; d < shape.size(); ++d)
                inner *= shape[d];
              const auto position =
                  static_cast<std::int64_t>(at[static_cast<std::size_t>(i / inner % n)]);
              if (position < 0) continue;
              const auto source = static_cast<std::size_t>(place(part, i, shape, dim, position));
              selected[static_cast<std::size_t>(i)] = values[source];
              added[source] += terms[static_cast<std::size_t>(i)];
            }
            if (dtype == DType::kBool)
              for (double& value : added) value = value != 0 ? 1 : 0;
            for (const int threads : {1, 2}) {
              KernelContext ctx = context_of(threads);
              const Array out = empty_in_form(part, dtype, form);
              index_select(ctx, x, dim, index, absent, out);
              REQUIRE(out.to_vector() == selected);
              const Array target = array_in_form(shape, dtype, form, values);
              index_add(ctx, target, dim, index, src, absent);
              REQUIRE(worst_error(target.to_vector(), added) == 0);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("embedding and its gradient go by ids of any shape", "[kernels][index]") {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
    for (const Form form : kForms) {
      KernelContext ctx;
      const Array weight_VD = random_array({13, 20}, dtype, 1, form);
      const auto at = positions(2 * 9, 13, Absent::kSkip, 2);
      const Array ids = array_in_form({2, 9}, DType::kI64, form, at);
      const Array out = empty_in_form({2, 9, 20}, dtype, form);
      embedding(ctx, weight_VD, ids, Absent::kSkip, out);
      const Array grad = random_array({2, 9, 20}, dtype, 3, form);
      const Array grad_weight_VD = random_array({13, 20}, dtype, 4, form);  // old values must go
      embedding_grad(ctx, grad, ids, Absent::kSkip, grad_weight_VD);
      const auto rows = weight_VD.to_vector(), terms = grad.to_vector();
      std::vector<double> want(360, 0.0), sums(260, 0.0);
      for (std::size_t i = 0; i < 360; ++i) {
        if (at[i / 20] < 0) continue;
        const auto source = static_cast<std::size_t>(at[i / 20]) * 20 + i % 20;
        want[i] = rows[source];
        sums[source] += terms[i];
      }
      CHECK(out.to_vector() == want);
      CHECK(worst_error(grad_weight_VD.to_vector(), sums) <
            1.01 * rounding(dtype) * (dtype == DType::kF32 ? 4 : 1));
    }
  }
}

TEST_CASE("adding many small BF16 rows keeps them", "[kernels][index]") {
  KernelContext ctx;
  const std::int64_t n = 4000;
  const Array ids = Array::zeros({n}, DType::kI64);
  const Array grad = Array::empty({n, 3}, DType::kBF16), sums = Array::empty({1, 3}, DType::kBF16);
  fill(ctx, 0.125, grad);
  embedding_grad(ctx, grad, ids, Absent::kError, sums);
  CHECK(sums.to_vector() == std::vector<double>{500, 500, 500});  // adding in BF16 would stop at 32
}

TEST_CASE("permute_rows copies rows, small and streamed", "[kernels][index]") {
  for (const std::int64_t rows : {50, 20000}) {
    for (const std::int64_t columns : {256, 37}) {
      const Array x_TD = random_array({rows, columns}, DType::kF32, 1);
      const auto at = positions(rows + 7, rows, Absent::kError, 2);
      const Array tok_N = Array::from_values({rows + 7}, DType::kI64, at);
      for (const int threads : {1, 2}) {
        KernelContext ctx = context_of(threads);
        const Array out_ND = Array::empty({rows + 7, columns}, DType::kF32);
        permute_rows(ctx, x_TD, tok_N, out_ND);
        bool same = true;
        for (std::int64_t i = 0; i < rows + 7; ++i) {
          const auto source = static_cast<std::int64_t>(at[static_cast<std::size_t>(i)]);
          same = same && std::memcmp(out_ND.data<float>() + i * columns,
                                     x_TD.data<float>() + source * columns,
                                     static_cast<std::size_t>(columns) * sizeof(float)) == 0;
        }
        CHECK(same);
      }
    }
  }
}

TEST_CASE("rows of a table larger than the caches are selected as they stand, often or never",
          "[kernels][index]") {
  struct Size {
    std::int64_t rows, columns, picked;
  };
  // Long rows read once each, rows too short for that, more rows than are picked, odd sizes.
  for (const Size& size : {Size{3000, 411, 11000}, Size{70000, 17, 300000}, Size{20000, 401, 11000},
                           Size{1200, 2048, 2500}}) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI64}) {
      const DType index_dtype = dtype == DType::kBF16 ? DType::kI32 : DType::kI64;
      CAPTURE(size.rows, size.columns, std::string(name_of(dtype)));
      const Array x = Array::empty({size.rows, size.columns}, dtype);
      const std::int64_t row_bytes = size.columns * size_of(dtype);
      std::mt19937 engine(3);
      for (std::int64_t i = 0; i < x.num_bytes(); ++i) {
        x.bytes()[i] = static_cast<std::byte>(engine());
      }
      std::vector<double> at(static_cast<std::size_t>(size.picked));
      for (double& position : at) {
        const auto drawn = static_cast<std::int64_t>(engine() % 100000);
        position = static_cast<double>(drawn % (size.rows / 3 * 2) - 1);  // a third never
      }
      const Array index = Array::from_values({size.picked}, index_dtype, at);
      for (const int threads : {1, 2}) {
        KernelContext ctx = context_of(threads);
        const Array wide = Array::empty({size.picked, size.columns + 5}, dtype);
        const Array out = wide.slice(1, 3, 3 + size.columns);  // on no line's border
        index_select(ctx, x, 0, index, Absent::kSkip, out);
        // What another rank holds reads as what changes no sum.
        const Array nothing =
            Array::from_values({size.columns}, dtype,
                               std::vector<double>(static_cast<std::size_t>(size.columns), -0.0));
        std::int64_t wrong = 0;
        for (std::int64_t i = 0; i < size.picked; ++i) {
          const auto source = static_cast<std::int64_t>(at[static_cast<std::size_t>(i)]);
          const std::byte* want = source < 0 ? nothing.bytes() : x.bytes() + source * row_bytes;
          const std::byte* got = out.bytes() + i * (size.columns + 5) * size_of(dtype);
          wrong += std::memcmp(got, want, static_cast<std::size_t>(row_bytes)) == 0 ? 0 : 1;
        }
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("an index outside is named with its position, and nothing is written",
          "[kernels][index]") {
  KernelContext ctx;
  const Array x = random_array({2, 5}, DType::kF32, 1);
  const std::vector<double> before = x.to_vector();
  const Array index =
      Array::from_values({2, 3}, DType::kI64, std::vector<double>{0, 4, -1, 2, 5, 9});
  const Array out = Array::zeros({2, 3}, DType::kF32);
  CHECK(error_of([&] { gather(ctx, x, 1, index, Absent::kError, out); }) ==
        "gather: index -1 at position [0, 2] lies outside [0, 5)");
  CHECK(error_of([&] { gather(ctx, x, 1, index, Absent::kSkip, out); }) ==
        "gather: index 5 at position [1, 1] lies outside [0, 5)");
  CHECK(error_of([&] { scatter(ctx, x, 1, index, out, Absent::kSkip); }) ==
        "scatter: index 5 at position [1, 1] lies outside [0, 5)");
  CHECK(error_of([&] { scatter_add(ctx, x, 1, index, out, Absent::kSkip); }) ==
        "scatter_add: index 5 at position [1, 1] lies outside [0, 5)");
  CHECK(error_of([&] { scatter_value(ctx, x, 1, index, 1, Absent::kError); }) ==
        "scatter_value: index -1 at position [0, 2] lies outside [0, 5)");
  CHECK(x.to_vector() == before);
  const Array one = Array::from_values({2}, DType::kI32, std::vector<double>{1, 2});
  CHECK(error_of([&] {
          index_select(ctx, x, 0, one, Absent::kError, Array::zeros({2, 5}, DType::kF32));
        }) == "index_select: index 2 at position [1] lies outside [0, 2)");
  CHECK(error_of([&] {
          index_add(ctx, x, 0, one, Array::zeros({2, 5}, DType::kF32), Absent::kError);
        }) == "index_add: index 2 at position [1] lies outside [0, 2)");
  CHECK(error_of([&] {
          embedding(ctx, x, one, Absent::kError, Array::zeros({2, 5}, DType::kF32));
        }) == "embedding: index 2 at position [1] lies outside [0, 2)");
  CHECK(error_of([&] {
          permute_rows(ctx, x, one, Array::zeros({2, 5}, DType::kF32));
        }) == "permute_rows: index 2 at position [1] lies outside [0, 2)");
  CHECK(x.to_vector() == before);
}

TEST_CASE("operands that do not fit an index are refused", "[kernels][index]") {
  KernelContext ctx;
  const Array x = Array::zeros({2, 5}, DType::kF32), index = Array::zeros({3, 5}, DType::kI64);
  CHECK(error_of([&] {
          gather(ctx, x, 1, index, Absent::kError, Array::zeros({3, 5}, DType::kF32));
        }) == "gather: index shape [3, 5] does not fit shape [2, 5] outside dim 1");
  CHECK(error_of([&] { gather(ctx, x, 0, x, Absent::kError, x); }) ==
        "gather: dtype F32 is not supported; allowed: I64, I32 for an index");
  CHECK(error_of([&] {
          gather(ctx, x, 0, index, Absent::kError, Array::zeros({3, 5}, DType::kF64));
        }) == "gather: dtype F64 is not supported; allowed: F32");
  CHECK(error_of([&] {
          scatter(ctx, x, 0, index, Array::zeros({2, 5}, DType::kF32), Absent::kError);
        }) == "scatter: src has shape [2, 5], expected [3, 5]");
}

}  // namespace
}  // namespace tessera
