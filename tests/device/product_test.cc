// Dense products of the device against the processor's: the library's place, our own kernel, and
// how arrays are cut into what a library takes.
#include "kernels/cuda/product.h"

#include "kernels/cuda/cuda_device.h"
#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "tests/device/device_arrays.h"

namespace tessera::testing {
namespace {

using namespace kernels;

struct ProductShapes {
  Shape a, b, out;
};

std::int64_t extent(TwinMaker& make) {
  return make.number(0, 2) == 0 ? make.number(10, 45) : make.number(1, 9);
}

/// Leading dims that broadcast to those of the result.
ProductShapes product_shapes(TwinMaker& make, std::int64_t m, std::int64_t n, std::int64_t k) {
  Shape out(static_cast<std::size_t>(make.number(0, 3)));
  for (std::int64_t& size : out) size = make.number(0, 15) == 0 ? 0 : make.number(1, 4);
  const auto part_of = [&](bool has_all, std::int64_t rows, std::int64_t cols) {
    Shape shape(out.begin() + (has_all ? 0 : make.number(0, std::ssize(out))), out.end());
    for (std::int64_t& size : shape) {
      if (!has_all && make.number(0, 2) == 0) size = 1;
    }
    shape.push_back(rows);
    shape.push_back(cols);
    return shape;
  };
  const bool of_a = make.number(0, 2) != 0;
  ProductShapes shapes{part_of(of_a, m, k), part_of(!of_a || make.number(0, 1) == 0, k, n), out};
  shapes.out.push_back(m);
  shapes.out.push_back(n);
  return shapes;
}

DType result_type(TwinMaker& make, DType dtype) {
  return is_half(dtype) && make.number(0, 2) == 0 ? DType::kF32 : dtype;
}

}  // namespace

TEST_CASE("products have the processor's bits on the emulated device",
          "[device][product][emulated]") {
  OnDevice on;
  TwinMaker make(on, 41);
  for (int i = 0; i < 300; ++i) {
    const ProductShapes shapes =
        product_shapes(make, extent(make), extent(make), i % 20 == 0 ? 0 : extent(make));
    const DType dtype = i % 30 == 1 ? DType::kI32 : any_of(make, kFloating);
    const DType to = i % 30 == 2 ? DType::kI64 : result_type(make, dtype);
    Shape of_out = shapes.out;
    if (i % 30 == 3) of_out.back() += 1;
    const Twins a = make.view(shapes.a, dtype), b = make.view(shapes.b, dtype),
                out = make.output(of_out, to);
    CAPTURE(i, shapes.a, shapes.b, a.host.strides(), b.host.strides(), out.host.strides(),
            name_of(dtype), name_of(to));
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            matmul(ctx, side(a, device), side(b, device), side(out, device));
          }) == "");
  }
}

TEST_CASE("our own kernel multiplies as the processor does", "[device][product][emulated]") {
  OnDevice on;
  TwinMaker make(on, 42);
  for (int i = 0; i < 300; ++i) {
    const ProductShapes shapes = product_shapes(make, extent(make), extent(make), extent(make));
    const DType dtype = any_of(make, kFloating), to = result_type(make, dtype);
    const Twins a = make.mild(shapes.a, dtype), b = make.mild(shapes.b, dtype),
                out = make.output(shapes.out, to);
    if (out.host.num_elements() == 0) continue;
    CAPTURE(i, shapes.a, shapes.b, a.host.strides(), b.host.strides(), out.host.strides(),
            name_of(dtype), name_of(to));
    const double tolerance = (is_half(to) ? 2 : 10) * tolerance_of(to);
    CHECK(compare(on, out, tolerance, [&](KernelContext& ctx, bool device) {
            if (!device) return matmul(ctx, a.host, b.host, out.host);
            emulated::tiled_product(ctx, a.device, b.device, out.device);
          }) == "");
  }
}

TEST_CASE("infinities and NaN go through our own kernel where they belong",
          "[device][product][emulated]") {
  OnDevice on;
  TwinMaker make(on, 43);
  for (const DType dtype : kFloating) {
    Twins a = make.mild({20, 30}, dtype), b = make.mild({30, 25}, dtype);
    for (const bool device : {false, true}) {
      KernelContext cpu;
      KernelContext& ctx = device ? on.ctx : cpu;
      fill(ctx, std::numeric_limits<double>::infinity(),
           side(a, device).slice(0, 17, 18).slice(1, 29, 30));
      fill(ctx, std::numeric_limits<double>::quiet_NaN(),
           side(b, device).slice(0, 29, 30).slice(1, 24, 25));
    }
    const Twins out = make.output({20, 25}, dtype);
    CHECK(compare(on, out, 10 * tolerance_of(dtype), [&](KernelContext& ctx, bool device) {
            if (!device) return matmul(ctx, a.host, b.host, out.host);
            emulated::tiled_product(ctx, a.device, b.device, out.device);
          }) == "");
  }
}

TEST_CASE("a product that a graph captured reads what is there when it is launched",
          "[device][product][emulated]") {
  OnDevice on;
  const Array a = Array::empty({3, 4}, DType::kF32, on.memory),
              out = Array::empty({3, 3}, DType::kF32, on.memory);
  const cudaStream_t stream = emulated::stream_of(on.ctx);
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  matmul(on.ctx, a, a.transpose(0, 1), out);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  REQUIRE(cudaGraphInstantiate(&exec, graph) == cudaSuccess);
  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  for (const double value : {1.0, 2.0, 3.0}) {
    fill(on.ctx, value, a);
    REQUIRE(cudaGraphLaunch(exec, stream) == cudaSuccess);
    CHECK(fetch(on, out).to_vector() == std::vector<double>(9, 4 * value * value));
  }
  REQUIRE(cudaGraphExecDestroy(exec) == cudaSuccess);
}

TEST_CASE("leading dims become rows where they may, else batches", "[device][product]") {
  const Array a = Array::zeros({2, 3, 4, 5}, DType::kF32), b = Array::zeros({5, 6}, DType::kF32),
              out = Array::zeros({2, 3, 4, 6}, DType::kF32);
  const std::vector<BatchProduct> one = batch_products(a, b, out);
  REQUIRE(one.size() == 1);
  CHECK((one[0].m == 24 && one[0].n == 6 && one[0].k == 5 && one[0].batch == 1));

  const Array each = Array::zeros({3, 5, 6}, DType::kF32);
  const std::vector<BatchProduct> batches = batch_products(a, each, out);
  REQUIRE(batches.size() == 2);  // b repeats along the first dim
  CHECK((batches[1].m == 4 && batches[1].batch == 3 && batches[1].a.batch_stride == 20));
  CHECK(batches[1].a.data == a.bytes() + 60 * 4);
  CHECK(batches[1].b.data == each.bytes());

  // One row each, which lie apart: rows of one matrix all the same.
  const Array rows = a.slice(2, 1, 2), single = out.slice(2, 0, 1);
  const std::vector<BatchProduct> joined = batch_products(rows, b, single);
  REQUIRE(joined.size() == 1);
  CHECK((joined[0].m == 6 && joined[0].a.row_stride == 20 && joined[0].out.row_stride == 24));
}

TEST_CASE("what a library is told of a product gives the product", "[device][product]") {
  OnDevice on;
  TwinMaker make(on, 45);
  // As BLAS defines it.
  const auto run = [](const ColumnProduct& p) {
    const std::int64_t depth = p.left.transposed ? p.left.rows : p.left.cols;
    const auto at = [](const ColumnMatrix& m, std::int64_t batch, std::int64_t row,
                       std::int64_t col) -> double& {
      if (m.transposed) std::swap(row, col);
      REQUIRE((row < m.rows && col < m.cols && m.leading >= m.rows));
      return reinterpret_cast<double*>(m.data)[batch * m.batch_stride + row + col * m.leading];
    };
    for (std::int64_t batch = 0; batch < p.batch; ++batch) {
      for (std::int64_t row = 0; row < p.out.rows; ++row) {
        for (std::int64_t col = 0; col < p.out.cols; ++col) {
          double sum = 0.0;
          for (std::int64_t i = 0; i < depth; ++i) {
            sum += at(p.left, batch, row, i) * at(p.right, batch, i, col);
          }
          at(p.out, batch, row, col) = sum;
        }
      }
    }
  };
  KernelContext cpu;
  int runs = 0;
  for (int i = 0; i < 400; ++i) {
    const ProductShapes shapes =
        product_shapes(make, make.number(1, 5), make.number(1, 5), make.number(1, 5));
    const Array a = make.mild(shapes.a, DType::kF64).host,
                b = make.mild(shapes.b, DType::kF64).host;
    const Twins out = make.output(shapes.out, DType::kF64);
    const bool is_told = has_column_form(a) && has_column_form(b) && has_column_form(out.host);
    if (!is_told || out.host.num_elements() == 0) continue;
    ++runs;
    CAPTURE(i, shapes.a, shapes.b, a.strides(), b.strides(), out.host.strides());
    const Array expected = Array::empty(shapes.out, DType::kF64);
    matmul(cpu, a, b, expected);
    for (const BatchProduct& product : batch_products(a, b, out.host)) {
      CHECK_FALSE(column_product(product).out.transposed);
      run(column_product(product));
    }
    CHECK(difference(out.host, expected, 1e-14) == "");
  }
  CHECK(runs > 100);
}

TEST_CASE("a matrix as a library's columns has its elements where they lie", "[device][product]") {
  OnDevice on;
  TwinMaker make(on, 44);
  int forms = 0;
  for (int i = 0; i < 500; ++i) {
    const std::int64_t rows = make.number(1, 4), cols = make.number(1, 4);
    BatchMatrix matrix;
    matrix.row_stride = make.number(0, 5);
    matrix.col_stride = make.number(0, 5);
    const std::optional<ColumnMajor> form = as_column_major(rows, cols, matrix);
    if (!form) continue;
    ++forms;
    CAPTURE(rows, cols, matrix.row_stride, matrix.col_stride, form->transposed, form->leading);
    CHECK(form->leading >= (form->transposed ? cols : rows));
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        const std::int64_t at = form->transposed ? c + r * form->leading : r + c * form->leading;
        CHECK(at == r * matrix.row_stride + c * matrix.col_stride);
      }
    }
  }
  CHECK(forms > 100);
  CHECK(as_column_major(3, 2, {.row_stride = 1, .col_stride = 3})->transposed == false);
  CHECK(as_column_major(3, 2, {.row_stride = 2, .col_stride = 1})->transposed);
  CHECK_FALSE(as_column_major(3, 2, {.row_stride = 0, .col_stride = 1}).has_value());
}

}  // namespace tessera::testing
