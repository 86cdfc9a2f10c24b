// Rows of a table added up, averaged or maximised by bag.
#include "kernels/elementwise.h"
#include "kernels/index.h"
#include "strategies/ops/index/index_local.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

using Metas = StatusOr<std::vector<TensorMeta>>;

const DType kF = DType::kF64;
const DType kI = DType::kI64;

/// `mode`, as ATen numbers them.
enum Mode : std::int64_t { kSum = 0, kMean = 1, kMax = 2 };

Metas infer_bag(std::span<const TensorMeta> inputs, const Attrs& attrs) {
  TSR_RETURN_IF_ERROR(ops::check_integer(inputs[1], "indices"));
  TSR_RETURN_IF_ERROR(ops::check_integer(inputs[2], "offsets"));
  if (inputs[0].shape.size() != 2 || inputs[1].shape.size() != 1 || inputs[2].shape.size() != 1 ||
      !is_floating(inputs[0].dtype)) {
    return invalid_argument("weight " + to_string(inputs[0].shape) + " " +
                            std::string(name_of(inputs[0].dtype)) +
                            " must be floating [v, d], indices " + to_string(inputs[1].shape) +
                            " and offsets " + to_string(inputs[2].shape) + " of one dim");
  }
  const std::int64_t mode = attrs.get_int("mode");
  if (mode < kSum || mode > kMax) {
    return invalid_argument("mode is " + std::to_string(mode) +
                            ", but must be 0 (sum), 1 (mean) or 2 (max)");
  }
  return std::vector<TensorMeta>{{{inputs[2].shape[0], inputs[0].shape[1]}, inputs[0].dtype}};
}

/// The bag of each index.
Array bags_of(KernelCall& call, const Array& offsets, std::int64_t count) {
  const Array bags = ops::scratch(call, {count}, DType::kI64);
  const std::vector<double> starts = offsets.to_vector();
  bool good = count == 0 || (!starts.empty() && starts[0] == 0);
  for (std::size_t b = 1; b < starts.size(); ++b) good = good && starts[b] >= starts[b - 1];
  if (!good || (!starts.empty() && starts.back() > static_cast<double>(count))) {
    throw Error(out_of_range("embedding_bag: offsets must begin with 0, ascend and not exceed " +
                             std::to_string(count) + ", the number of indices"));
  }
  std::size_t bag = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    while (bag + 1 < starts.size() && starts[bag + 1] <= static_cast<double>(i)) ++bag;
    bags.data<std::int64_t>()[i] = static_cast<std::int64_t>(bag);
  }
  return bags;
}

/// `bags` as an index of rows [n, d].
Array on_rows(const Array& bags, std::int64_t columns) {
  return bags.as_strided({bags.size(0), columns}, {1, 0}, bags.offset());
}

/// Indices per bag, at least 1.
Array sizes_of(KernelCall& call, const Array& bags, std::int64_t num_bags, DType dtype) {
  const Array sizes = ops::scratch(call, {num_bags, 1}, dtype);
  const Array ones = ops::scratch(call, {bags.size(0), 1}, dtype);
  kernels::fill(call.ctx, 0.0, sizes);
  kernels::fill(call.ctx, 1.0, ones);
  kernels::scatter_add(call.ctx, sizes, 0, on_rows(bags, 1), ones, kernels::Absent::kError);
  kernels::binary_scalar(call.ctx, kernels::Binary::kMaximum, sizes, 1.0, sizes);
  return sizes;
}

void run_bag(KernelCall& call) {
  const Array& weight = call.inputs[0];
  const Array& out = call.outputs[0];
  const Array& indices = call.inputs[1];
  ops::AddressedDim addressed = ops::addressed_dim(call, "embedding_bag", 0, 0);
  addressed.negative = ops::AddressedDim::Negative::kRefused;
  const Array at = ops::local_positions(call, addressed, indices);
  const Array bags = bags_of(call, call.inputs[2], indices.size(0));
  const Array rows = ops::scratch(call, {indices.size(0), weight.size(1)}, weight.dtype());
  kernels::index_select(call.ctx, weight, 0, at, kernels::Absent::kSkip, rows);
  const std::int64_t mode = call.attrs.get_int("mode");
  const Array targets = on_rows(bags, weight.size(1));
  const auto absent = kernels::Absent::kError;
  kernels::fill(call.ctx, 0.0, out);
  if (mode != kMax) {
    kernels::scatter_add(call.ctx, out, 0, targets, rows, absent);
    if (mode == kSum) return;
    const DType sizes_type = out.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
    kernels::binary(call.ctx, kernels::Binary::kDiv, out,
                    sizes_of(call, bags, out.size(0), sizes_type), out);
    return;
  }
  // Any row of a bag to start from; an empty bag stays 0.
  kernels::scatter(call.ctx, out, 0, targets, rows, absent);
  kernels::scatter_combine(call.ctx, out, 0, targets, rows, kernels::Combine::kMax, absent);
}

std::vector<Var> bag_gradient(GradContext& c) {
  const Var grad = c.cotangent(0), indices = c.input(1), offsets = c.input(2);
  const Var bags = c.call("offset2bag", {offsets, indices});
  const Attrs rows = {{"dim", 0}};
  const Attrs table = {{"num_embeddings", c.input_shape(0)[0]}};
  if (c.attrs().get_int("mode") == kSum) {
    const Var each = c.call("index_select", {grad, bags}, rows);
    return {c.call("embedding_grad", {each, indices}, table), Var{}, Var{}};
  }
  const Var zeros = c.call("zeros_like", {grad});
  if (c.attrs().get_int("mode") == kMean) {
    const Var ones = c.call("ones_like", {c.call("index_select", {grad, bags}, rows)});
    const Var sizes = c.call("index_add", {zeros, bags, ones}, rows);
    const Var some = c.call("maximum", {sizes, c.call("ones_like", {sizes})});
    const Var each = c.call("index_select", {c.call("div", {grad, some}), bags}, rows);
    return {c.call("embedding_grad", {each, indices}, table), Var{}, Var{}};
  }
  // Ties share equally: of equal rows, one and the same gets all shares.
  const Var held = c.call("embedding", {c.input(0), indices});
  const Var best = c.call("index_select", {c.output(0), bags}, rows);
  const Var hit = c.call("logical_or", {c.call("eq", {held, best}), c.call("isnan", {held})});
  const Var counted = c.call("to", {hit}, {{"dtype", c.input_dtype(0)}});
  const Var ties = c.call("index_add", {zeros, bags, counted}, rows);
  const Var some = c.call("maximum", {ties, c.call("ones_like", {ties})});
  const Var share = c.call("index_select", {c.call("div", {grad, some}), bags}, rows);
  const Var won = c.call("where_scalar", {hit, share}, {{"other", 0.0}});
  return {c.call("embedding_grad", {won, indices}, table), Var{}, Var{}};
}

void bag_starts(int operand, const Shape&, std::vector<double>& values) {
  if (operand != 2) return;
  for (std::size_t b = 0; b < values.size(); ++b) {
    const std::size_t start = b + b / 3;
    values[b] = static_cast<double>(start);
  }
}

std::vector<Sample> bag_samples() {
  std::vector<Sample> samples;
  for (const std::int64_t mode : {kSum, kMean, kMax}) {
    samples.push_back({.shapes = {{8, 6}, {9}, {6}},
                       .attrs = {{"mode", mode}},
                       .dtypes = {kF, kI, kI},
                       .below = {2, 8, 2},
                       .adjust = bag_starts});
    samples.push_back({.shapes = {{5, 3}, {4}, {3}},
                       .attrs = {{"mode", mode}},
                       .dtypes = {kF, kI, kI},
                       .below = {2, 5, 2},
                       .adjust = bag_starts});
  }
  return samples;
}

}  // namespace

void add_index_bags_ops(OpTable& table) {
  OpDef bag = {.name = "embedding_bag",
               .doc =
                   "Rows of weight [v, d] by id, summed (mode 0), averaged (1) or maximised (2) "
                   "over bags; bag b holds indices [offsets[b], offsets[b + 1]); an empty one "
                   "gives 0.",
               .args = {in("weight"), in("indices"), in("offsets")},
               .attrs = {ops::int_attr("mode", 0)},
               .rule = "",
               .kernel = run_bag,
               .infer = infer_bag,
               .gradient = bag_gradient,
               .saved_inputs = {0, 1, 2},
               .saved_outputs = {0},
               .samples = bag_samples()};
  ops::use_rule_cases(
      bag, {"vd, n, b -> bd | v#:sum n! b! | lin A", "vd, n, b -> bd | v! n! b! | max A"},
      [](const Attrs& attrs) -> std::size_t { return attrs.get_int("mode") == kMax ? 1 : 0; });
  table.must_add(std::move(bag));
  table.must_add(
      {.name = "offset2bag",
       .doc = "The bag that each index lies in: bag b holds those from offsets[b] to "
              "offsets[b + 1].",
       .args = {in("offsets"), in("indices")},
       .rule = "b, n -> n int | b! n!",
       .kernel =
           [](KernelCall& call) {
             kernels::copy(call.ctx, bags_of(call, call.inputs[0], call.inputs[1].size(0)),
                           call.outputs[0]);
           },
       .infer = [](std::span<const TensorMeta> inputs, const Attrs&) -> Metas {
         TSR_RETURN_IF_ERROR(ops::check_integer(inputs[0], "offsets"));
         if (inputs[0].shape.size() != 1 || inputs[1].shape.size() != 1) {
           return invalid_argument("offsets " + to_string(inputs[0].shape) + " and indices " +
                                   to_string(inputs[1].shape) + " must have one dim");
         }
         return std::vector<TensorMeta>{{inputs[1].shape, DType::kI64}};
       },
       .samples = {{.shapes = {{6}, {9}},
                    .dtypes = {kI, kI},
                    .adjust = [](int operand, const Shape& shape, std::vector<double>& values) {
                      if (operand == 0) bag_starts(2, shape, values);
                    }}}});
}

}  // namespace tessera
