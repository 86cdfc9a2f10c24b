// Products of ragged groups of rows with one weight each: a layer of experts. Groups are
// consecutive rows; where rows or weights are cut, each rank works out from the whole counts which
// of its rows meet which of its weights. Whether rows and weights may be cut alike depends on the
// counts' values unless every group has its own slots, as in grouped_mm_slots.
#include <algorithm>
#include <functional>

#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "strategies/ops/attention/attention_parts.h"
#include "strategies/ops/product/product.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

const std::vector<DType>& dtypes() {
  static const std::vector<DType> kDTypes = {DType::kF64, DType::kF64, DType::kI64};
  return kDTypes;
}

Status check_counts(const TensorMeta& counts, std::int64_t groups) {
  if (counts.shape.size() == 1 && counts.shape[0] == groups && is_index(counts.dtype)) return {};
  return invalid_argument("counts " + to_string(counts.shape) + " of " +
                          std::string(name_of(counts.dtype)) + ", but must be integers [" +
                          std::to_string(groups) + "], one for each weight");
}

/// (rows, inner) with weights whose dim `inner_dim` must equal inner gives (rows, the other dim).
Infer infer_product(std::size_t inner_dim) {
  return [inner_dim](std::span<const TensorMeta> inputs,
                     const Attrs&) -> StatusOr<std::vector<TensorMeta>> {
    const Shape& x = inputs[0].shape;
    const Shape& weight = inputs[1].shape;
    if (x.size() != 2 || weight.size() != 3 || x[1] != weight[inner_dim]) {
      return invalid_argument("rows " + to_string(x) + " and weights " + to_string(weight) +
                              ": need [t, k] and [e, n, k] with equal inner sizes");
    }
    TSR_RETURN_IF_ERROR(check_counts(inputs[2], weight[0]));
    return std::vector<TensorMeta>{{{x[0], weight[3 - inner_dim]}, inputs[0].dtype}};
  };
}

StatusOr<std::vector<TensorMeta>> infer_weight_grad(std::span<const TensorMeta> inputs,
                                                    const Attrs&) {
  const Shape& grad = inputs[0].shape;
  const Shape& x = inputs[1].shape;
  if (grad.size() != 2 || x.size() != 2 || grad[0] != x[0] || inputs[2].shape.size() != 1) {
    return invalid_argument("grad " + to_string(grad) + ", rows " + to_string(x) + ", counts " +
                            to_string(inputs[2].shape) + ": need [t, n], [t, k] and [e]");
  }
  return std::vector<TensorMeta>{{{inputs[2].shape[0], grad[1], x[1]}, inputs[0].dtype}};
}

std::vector<Var> grouped_gradient(GradContext& c) {
  std::vector<Var> grads(3);
  const Var grad = c.cotangent(0);
  if (c.needs(0)) grads[0] = c.call("grouped_mm_input_grad", {grad, c.input(1), c.input(2)});
  if (c.needs(1)) grads[1] = c.call("grouped_mm_weight_grad", {grad, c.input(0), c.input(2)});
  return grads;
}

/// Local rows of one run that meet local weights of one run, with what each weight gets of them.
struct Part {
  std::int64_t row = 0, rows = 0;
  std::int64_t group = 0, groups = 0;
  Array counts;
};

bool is_whole(std::span<const ops::Piece> pieces, std::int64_t global_size) {
  return pieces.size() == 1 && pieces[0].size == global_size;
}

std::int64_t global_size(const KernelCall& call, std::size_t operand) {
  return call.input_views.empty() ? call.inputs[operand].size(0)
                                  : call.input_views[operand].spec->global_shape()[0];
}

/// The counts of all groups in I64, as kernels read them.
Array counts_of(KernelCall& call) {
  if (call.inputs[2].dtype() == DType::kI64) return call.inputs[2];
  const Array counts = ops::scratch(call, call.inputs[2].shape(), DType::kI64);
  kernels::copy(call.ctx, call.inputs[2], counts);
  return counts;
}
std::vector<std::int64_t> read_counts(KernelCall& call) {
  const Array counts = kernels::contiguous(call.ctx, counts_of(call));
  const auto* values = counts.data<std::int64_t>();
  return {values, values + counts.num_elements()};
}

/// Calls `run` for the runs of rows (dim 0 of operand 0) and of weights (dim 0 of operand 1) that
/// meet on this rank. `counts` are those of all groups.
void for_parts(KernelCall& call, std::span<const ops::Piece> rows,
               std::span<const ops::Piece> groups, const std::function<void(const Part&)>& run) {
  std::vector<std::int64_t> ends;  // of each group's rows
  for (const std::int64_t count : read_counts(call)) {
    const std::int64_t before = ends.empty() ? 0 : ends.back();
    if (count < 0 || count > global_size(call, 0) - before) {
      throw Error(out_of_range("grouped_mm: counts[" + std::to_string(ends.size()) + "] is " +
                               std::to_string(count) + " after " + std::to_string(before) + " of " +
                               std::to_string(global_size(call, 0)) + " rows"));
    }
    ends.push_back(before + count);
  }
  for (const ops::Piece& weights : groups) {
    const std::int64_t first =
        weights.global == 0 ? 0 : ends[static_cast<std::size_t>(weights.global - 1)];
    for (const ops::Piece& piece : rows) {
      Part part{.group = weights.local,
                .groups = weights.size,
                .counts = Array::empty({weights.size}, DType::kI64, call.ctx.allocator)};
      const std::int64_t start = std::clamp(first, piece.global, piece.global + piece.size);
      std::int64_t at = start;
      for (std::int64_t e = 0; e < weights.size; ++e) {
        const std::int64_t end = std::clamp(ends[static_cast<std::size_t>(weights.global + e)], at,
                                            piece.global + piece.size);
        part.counts.data<std::int64_t>()[e] = end - at;
        at = end;
      }
      part.row = piece.local + start - piece.global;
      part.rows = at - start;
      if (part.rows > 0) run(part);
    }
  }
}

/// Rows times weights [e, k, n].
void run_grouped(KernelCall& call, const Array& weights) {
  const Array &x = call.inputs[0], &out = call.outputs[0];
  const std::vector<ops::Piece> rows = ops::pieces_of(call, 0, 0);
  const std::vector<ops::Piece> groups = ops::pieces_of(call, 1, 0);
  if (is_whole(rows, global_size(call, 0)) && is_whole(groups, global_size(call, 1))) {
    kernels::grouped_matmul(call.ctx, x, weights, counts_of(call), out);
    return;
  }
  kernels::fill(call.ctx, 0.0, out);
  for_parts(call, rows, groups, [&](const Part& part) {
    const std::int64_t stop = part.row + part.rows;
    kernels::grouped_matmul(call.ctx, x.slice(0, part.row, stop),
                            weights.slice(0, part.group, part.group + part.groups), part.counts,
                            out.slice(0, part.row, stop));
  });
}

void run_weight_grad(KernelCall& call) {
  const Array &grad = call.inputs[0], &x = call.inputs[1], &out = call.outputs[0];
  const std::vector<ops::Piece> rows = ops::pieces_of(call, 0, 0);
  if (is_whole(rows, global_size(call, 0))) {
    kernels::grouped_matmul_weight_grad(call.ctx, grad, x, counts_of(call), out);
    return;
  }
  kernels::fill(call.ctx, 0.0, out);
  const ops::Piece all[] = {{0, 0, out.size(0)}};
  for_parts(call, rows, all, [&](const Part& part) {
    const std::int64_t stop = part.row + part.rows;
    const Array own = ops::scratch(call, out.shape(), out.dtype());
    kernels::grouped_matmul_weight_grad(call.ctx, grad.slice(0, part.row, stop),
                                        x.slice(0, part.row, stop), part.counts, own);
    kernels::binary(call.ctx, kernels::Binary::kAdd, out, own, out);
  });
}

/// Counts that add up to at most the rows, the last rows being no group's.
void fit_counts(int operand, const Shape& shape, std::vector<double>& values, std::int64_t rows) {
  if (operand != 2) return;
  const std::int64_t each = rows / std::max<std::int64_t>(1, shape[0]);
  for (std::size_t e = 0; e < values.size(); ++e) {
    values[e] = static_cast<double>(e % 2 == 0 ? each : each / 2);
  }
}

std::vector<Sample> grouped_samples(std::vector<std::vector<Shape>> shapes) {
  std::vector<Sample> samples;
  for (std::vector<Shape>& each : shapes) {
    const std::int64_t rows = each[0][0];
    samples.push_back(
        {.shapes = std::move(each),
         .dtypes = dtypes(),
         .below = {2, 2, 3},
         .adjust = [rows](int operand, const Shape& shape, std::vector<double>& values) {
           fit_counts(operand, shape, values, rows);
         }});
  }
  return samples;
}

const std::string kAlike =
    "lowering t and e alike: whether a rank's rows meet its weights depends on the counts' values; "
    "grouped_mm_slots has this row";

void add_gradients(OpTable& table) {
  table.must_add(
      {.name = "grouped_mm_input_grad",
       .doc = "Cotangent of grouped_mm's rows.",
       .args = {in("grad").floating(), in("weight").with_dtype_of(0), in("counts").indices()},
       .rule = "tn, enk, c -> tk | n:sum e:sum c! | lin A*B",
       .kernel = [](KernelCall& call) { run_grouped(call, call.inputs[1]); },
       .infer = infer_product(1),
       .declined = {kAlike},
       .samples = grouped_samples(
           {{{12, 8}, {6, 8, 6}, {6}}, {{5, 3}, {2, 3, 5}, {2}}, {{9, 2}, {3, 2, 3}, {3}}})});
  table.must_add(
      {.name = "grouped_mm_weight_grad",
       .doc = "Cotangent of grouped_mm's weights: zeros for a group without rows.",
       .args = {in("grad").floating(), in("self").with_dtype_of(0), in("counts").indices()},
       .rule = "tn, tk, c -> Enk | t:sum c! | lin A*B",
       .kernel = run_weight_grad,
       .infer = infer_weight_grad,
       .samples = grouped_samples(
           {{{12, 6}, {12, 8}, {6}}, {{5, 5}, {5, 3}, {2}}, {{9, 2}, {9, 3}, {3}}})});
}

/// Slots of each group in local rows.
std::int64_t slots_of(const Array& x, const Array& counts) {
  return counts.size(0) == 0 ? 0 : x.size(0) / counts.size(0);
}

/// Calls run(group, first row, rows in use) for each group.
void for_groups(KernelCall& call, const Array& x,
                const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& run) {
  const std::int64_t slots = slots_of(x, call.inputs[2]);
  const std::vector<std::int64_t> counts = read_counts(call);
  for (std::size_t e = 0; e < counts.size(); ++e) {
    const std::int64_t used = counts[e];
    if (used < 0 || used > slots) {
      throw Error(out_of_range("grouped_mm_slots: counts[" + std::to_string(e) + "] is " +
                               std::to_string(used) + ", but each group has " +
                               std::to_string(slots) + " slots"));
    }
    run(static_cast<std::int64_t>(e), static_cast<std::int64_t>(e) * slots, used);
  }
}

/// Matrix e of a batch.
Array matrix_at(const Array& batch, std::int64_t e) {
  const Array one = batch.slice(0, e, e + 1);
  return one.as_strided({batch.size(1), batch.size(2)}, {batch.strides()[1], batch.strides()[2]},
                        one.offset());
}

StatusOr<std::vector<TensorMeta>> infer_slots_weight_grad(std::span<const TensorMeta> inputs,
                                                          const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(auto results, infer_weight_grad(inputs, attrs));
  const std::int64_t rows = inputs[1].shape[0], groups = inputs[2].shape[0];
  if (groups == 0 || rows % groups != 0) {
    return invalid_argument(std::to_string(rows) + " rows for " + std::to_string(groups) +
                            " groups: need as many slots for every group");
  }
  return results;
}

void run_slots(KernelCall& call) {
  const Array &x = call.inputs[0], &out = call.outputs[0];
  const Array weights = call.inputs[1].transpose(1, 2);
  kernels::fill(call.ctx, 0.0, out);
  for_groups(call, x, [&](std::int64_t e, std::int64_t row, std::int64_t used) {
    kernels::matmul(call.ctx, x.slice(0, row, row + used), matrix_at(weights, e),
                    out.slice(0, row, row + used));
  });
}

void run_slots_weight_grad(KernelCall& call) {
  const Array &grad = call.inputs[0], &x = call.inputs[1], &out = call.outputs[0];
  for_groups(call, x, [&](std::int64_t e, std::int64_t row, std::int64_t used) {
    kernels::matmul(call.ctx, grad.slice(0, row, row + used).transpose(0, 1),
                    x.slice(0, row, row + used), matrix_at(out, e));
  });
}

StatusOr<std::vector<TensorMeta>> infer_slots(std::span<const TensorMeta> inputs, const Attrs&) {
  const Shape& x = inputs[0].shape;
  const Shape& weight = inputs[1].shape;
  if (x.size() != 2 || weight.size() != 3 || x[1] != weight[2] || weight[0] == 0 ||
      x[0] % weight[0] != 0) {
    return ops::shapes_differ("rows", x, "weights", weight,
                              "need [e c, k] and [e, n, k]: as many slots for every group");
  }
  TSR_RETURN_IF_ERROR(check_counts(inputs[2], weight[0]));
  return std::vector<TensorMeta>{{{x[0], weight[1]}, inputs[0].dtype}};
}

std::vector<Var> slots_gradient(GradContext& c) {
  std::vector<Var> grads(3);
  const Var grad = c.cotangent(0);
  if (c.needs(0)) {
    const Var weight = ops::transposed(c, c.input(1));
    grads[0] = c.call("grouped_mm_slots", {grad, weight, c.input(2)});
  }
  if (c.needs(1)) grads[1] = c.call("grouped_mm_slots_weight_grad", {grad, c.input(0), c.input(2)});
  return grads;
}

void add_slots(OpTable& table) {
  table.must_add(
      {.name = "grouped_mm_slots",
       .doc = "Groups of rows times the transpose of one weight [n, k] each, where every "
              "group has equally many slots and fills `counts` of them; others give zeros.",
       .args = {in("self").floating(), in("weight").with_dtype_of(0), in("counts").indices()},
       .rule = "(ec)k, enk, e -> (ec)n | k:sum c! | lin A*B",
       .kernel = run_slots,
       .infer = infer_slots,
       .gradient = slots_gradient,
       .saved_inputs = {0, 1, 2},
       .samples = grouped_samples(
           {{{12, 8}, {6, 6, 8}, {6}}, {{10, 3}, {5, 2, 3}, {5}}, {{12, 2}, {2, 3, 2}, {2}}})});
  table.must_add(
      {.name = "grouped_mm_slots_weight_grad",
       .doc = "Cotangent of grouped_mm_slots' weights.",
       .args = {in("grad").floating(), in("self").with_dtype_of(0), in("counts").indices()},
       .rule = "(ec)n, (ec)k, e -> enk | c! | lin A*B",
       .kernel = run_slots_weight_grad,
       .infer = infer_slots_weight_grad,
       .samples = grouped_samples(
           {{{12, 6}, {12, 8}, {6}}, {{10, 2}, {10, 3}, {5}}, {{12, 3}, {12, 2}, {2}}})});
}

}  // namespace

void add_grouped_mm_ops(OpTable& table) {
  table.must_add(
      {.name = "grouped_mm",
       .doc = "Consecutive groups of rows, `counts` long, times the transpose of one weight [n, k] "
              "each; rows beyond the last group give zeros.",
       .args = {in("self").floating(), in("weight").with_dtype_of(0), in("counts").indices()},
       .rule = "tk, enk, c -> tn | k:sum e:sum c! | lin A*B",
       .kernel = [](KernelCall& call) { run_grouped(call, call.inputs[1].transpose(1, 2)); },
       .infer = infer_product(2),
       .gradient = grouped_gradient,
       .saved_inputs = {0, 1, 2},
       .declined = {kAlike},
       .samples = grouped_samples(
           {{{12, 8}, {6, 6, 8}, {6}}, {{5, 3}, {2, 5, 3}, {2}}, {{9, 2}, {3, 3, 2}, {3}}})});
  add_gradients(table);
  add_slots(table);
}

}  // namespace tessera
