#include "kernels/product_plan.h"

#include <algorithm>

#include "kernels/product_checks.h"

namespace tessera::kernels {
namespace {

/// A leading dim with the operands' strides.
struct LeadingDim {
  std::int64_t size, a, b, out;
};

bool continues(const LeadingDim& outer, const LeadingDim& inner) {
  return outer.a == inner.a * inner.size && outer.b == inner.b * inner.size &&
         outer.out == inner.out * inner.size;
}

std::vector<LeadingDim> leading_dims(const Array& a, const Array& b, const Array& out) {
  const Shape a_strides = batch_strides(a, out), b_strides = batch_strides(b, out);
  std::vector<LeadingDim> dims;
  for (int dim = 0; dim < out.ndim() - 2; ++dim) {
    const auto d = static_cast<std::size_t>(dim);
    const LeadingDim next{out.size(dim), a_strides[d], b_strides[d], out.strides()[d]};
    if (next.size == 1) continue;
    if (!dims.empty() && continues(dims.back(), next)) {
      dims.back() = {dims.back().size * next.size, next.a, next.b, next.out};
    } else {
      dims.push_back(next);
    }
  }
  return dims;
}

/// Takes `dim`'s indices for rows where b repeats along it and they continue the rows.
bool take_for_rows(BatchProduct& product, const LeadingDim& dim) {
  if (dim.b != 0) return false;
  BatchProduct taller = product;
  taller.m *= dim.size;
  if (product.m == 1) {
    taller.a.row_stride = dim.a;
    taller.out.row_stride = dim.out;
  } else if (dim.a != product.m * product.a.row_stride ||
             dim.out != product.m * product.out.row_stride) {
    return false;
  }
  if (!as_column_major(taller.m, taller.k, taller.a).has_value() ||
      !as_column_major(taller.m, taller.n, taller.out).has_value()) {
    return false;
  }
  product = taller;
  return true;
}

void move_by(BatchMatrix& matrix, std::int64_t elements) {
  matrix.data += elements * size_of(matrix.dtype);
}

BatchMatrix matrix_of(const Array& x) {
  const std::size_t ndim = x.strides().size();
  return {x.bytes(), x.dtype(), x.strides()[ndim - 2], x.strides()[ndim - 1], 0};
}

}  // namespace

Shape batch_strides(const Array& x, const Array& out) {
  Shape strides(static_cast<std::size_t>(out.ndim() - 2), 0);
  for (int dim = 0; dim < x.ndim() - 2; ++dim) {
    const int target = dim + out.ndim() - x.ndim();
    if (x.size(dim) > 1)
      strides[static_cast<std::size_t>(target)] = x.strides()[static_cast<std::size_t>(dim)];
  }
  return strides;
}

std::vector<BatchProduct> batch_products(const Array& a, const Array& b, const Array& out) {
  std::vector<LeadingDim> dims = leading_dims(a, b, out);
  BatchProduct first{.m = rows_of(a),
                     .n = cols_of(b),
                     .k = cols_of(a),
                     .a = matrix_of(a),
                     .b = matrix_of(b),
                     .out = matrix_of(out)};
  while (!dims.empty() && take_for_rows(first, dims.back())) dims.pop_back();
  if (!dims.empty()) {
    const auto most =
        std::max_element(dims.begin(), dims.end(),
                         [](const LeadingDim& x, const LeadingDim& y) { return x.size < y.size; });
    first.batch = most->size;
    first.a.batch_stride = most->a;
    first.b.batch_stride = most->b;
    first.out.batch_stride = most->out;
    dims.erase(most);
  }
  std::vector<BatchProduct> products{first};
  for (const LeadingDim& dim : dims) {
    const std::size_t count = products.size();
    for (std::int64_t i = 1; i < dim.size; ++i) {
      for (std::size_t of = 0; of < count; ++of) {
        BatchProduct next = products[of];
        move_by(next.a, i * dim.a);
        move_by(next.b, i * dim.b);
        move_by(next.out, i * dim.out);
        products.push_back(next);
      }
    }
  }
  return products;
}

std::optional<ColumnMajor> as_column_major(std::int64_t rows, std::int64_t cols,
                                           const BatchMatrix& matrix) {
  const std::int64_t down = matrix.row_stride, right = matrix.col_stride;
  if ((down == 1 || rows == 1) && (right >= rows || cols == 1)) {
    return ColumnMajor{.transposed = false, .leading = cols == 1 ? rows : right};
  }
  if ((right == 1 || cols == 1) && (down >= cols || rows == 1)) {
    return ColumnMajor{.transposed = true, .leading = rows == 1 ? cols : down};
  }
  return std::nullopt;
}

bool has_column_form(const Array& array) {
  for (int d = 0; d < array.ndim() - 2; ++d) {
    if (array.size(d) > 1 && array.strides()[static_cast<std::size_t>(d)] < 0) return false;
  }
  return as_column_major(rows_of(array), cols_of(array), matrix_of(array)).has_value();
}

ColumnProduct column_product(const BatchProduct& product) {
  const ColumnMajor of_out = *as_column_major(product.m, product.n, product.out);
  if (of_out.transposed) return column_product(product.transposed());
  const auto matrix = [](std::int64_t rows, std::int64_t cols, const BatchMatrix& of) {
    const ColumnMajor form = *as_column_major(rows, cols, of);
    return ColumnMatrix{.data = of.data,
                        .dtype = of.dtype,
                        .transposed = form.transposed,
                        .rows = form.transposed ? cols : rows,
                        .cols = form.transposed ? rows : cols,
                        .leading = form.leading,
                        .batch_stride = of.batch_stride};
  };
  return {.left = matrix(product.m, product.k, product.a),
          .right = matrix(product.k, product.n, product.b),
          .out = matrix(product.m, product.n, product.out),
          .batch = product.batch};
}

}  // namespace tessera::kernels
