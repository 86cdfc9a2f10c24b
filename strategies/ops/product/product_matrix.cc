// Products of matrices and vectors by their own names, with and without something to add to.
#include <utility>

#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "strategies/ops/call_rule.h"
#include "strategies/ops/product/product.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

using kernels::Binary;
using ops::grad_like;
using ops::transposed;
using ops::with_unit_dim;
using Metas = StatusOr<std::vector<TensorMeta>>;

/// One product: its letters, how it runs and what its gradient is. `first` is the place of its
/// first operand, which is 1 where something is added to it.
struct Product {
  std::string_view a, b, out;  ///< letters of the dims; k is summed over
  void (*run)(KernelContext&, const Array& a, const Array& b, const Array& out);
  Var (*grad_a)(GradContext&, Var grad, int first);
  Var (*grad_b)(GradContext&, Var grad, int first);
  std::string_view wanted;
};

std::string rule_of(const Product& product) {
  const bool sums = product.a.find('k') != std::string_view::npos;
  std::string text =
      std::string(product.a) + ", " + std::string(product.b) + " -> " + std::string(product.out);
  if (sums) text += " | k:sum";
  return text;
}

/// The size that `letter` has in either operand.
std::int64_t size_of_letter(const Product& product, const Shape& a, const Shape& b, char letter) {
  const std::size_t at = product.a.find(letter);
  return at != std::string_view::npos ? a[at] : b[product.b.find(letter)];
}

StatusOr<TensorMeta> infer_product(const Product& product, std::span<const TensorMeta> inputs) {
  const Shape& a = inputs[0].shape;
  const Shape& b = inputs[1].shape;
  bool fits = a.size() == product.a.size() && b.size() == product.b.size();
  for (std::size_t d = 0; fits && d < b.size(); ++d) {
    fits = b[d] == size_of_letter(product, a, b, product.b[d]);
  }
  if (!fits) return ops::shapes_differ("first operand", a, "second", b, product.wanted);
  const bool sums = product.a.find('k') != std::string_view::npos;
  TSR_ASSIGN_OR_RETURN(const DType dtype,
                       sums ? ops::matmul_dtype(inputs, 0) : ops::product_dtype(inputs));
  TensorMeta out = {{}, dtype};
  for (const char letter : product.out) {
    out.shape.push_back(size_of_letter(product, a, b, letter));
  }
  return out;
}

void run_mm(KernelContext& ctx, const Array& a, const Array& b, const Array& out) {
  kernels::matmul(ctx, a, b, out);
}
void run_mv(KernelContext& ctx, const Array& a, const Array& b, const Array& out) {
  kernels::matmul(ctx, a, with_unit_dim(b, 1), with_unit_dim(out, 1));
}
void run_dot(KernelContext& ctx, const Array& a, const Array& b, const Array& out) {
  kernels::matmul(ctx, with_unit_dim(a, 0), with_unit_dim(b, 1),
                  with_unit_dim(with_unit_dim(out, 0), 0));
}
void run_outer(KernelContext& ctx, const Array& a, const Array& b, const Array& out) {
  kernels::binary(ctx, Binary::kMul, with_unit_dim(a, 1), b, out);
}
void run_addbmm(KernelContext& ctx, const Array& a, const Array& b, const Array& out) {
  // (n, b·k) times (b·k, m): one product over batch and depth.
  const Shape& sizes = a.shape();
  const Array rows =
      kernels::contiguous(ctx, a.transpose(0, 1)).try_view({sizes[1], sizes[0] * sizes[2]});
  const Array columns = kernels::contiguous(ctx, b).try_view({b.size(0) * b.size(1), b.size(2)});
  kernels::matmul(ctx, rows, columns, out);
}

Var mul(GradContext& c, Var a, Var b) { return c.call("mul", {a, b}); }

const Product kMm = {"mk",
                     "kn",
                     "mn",
                     run_mm,
                     [](GradContext& c, Var g, int at) {
                       return c.call("mm", {g, transposed(c, c.input(at + 1))});
                     },
                     [](GradContext& c, Var g, int at) {
                       return c.call("mm", {transposed(c, c.input(at)), g});
                     },
                     "need [m, k] and [k, n]"};
const Product kBmm = {"bmk",
                      "bkn",
                      "bmn",
                      run_mm,
                      [](GradContext& c, Var g, int at) {
                        return c.call("bmm", {g, transposed(c, c.input(at + 1))});
                      },
                      [](GradContext& c, Var g, int at) {
                        return c.call("bmm", {transposed(c, c.input(at)), g});
                      },
                      "need [b, m, k] and [b, k, n]"};
/// The factors of an outer product may be of several dtypes, those of matrix products may not.
Var as_dtype_of(GradContext& c, Var value, Var model) {
  const DType dtype = c.dtype(model);
  return c.dtype(value) == dtype ? value : c.call("to", {value}, {{"dtype", dtype}});
}

const Product kMv = {"mk",
                     "k",
                     "m",
                     run_mv,
                     [](GradContext& c, Var g, int at) {
                       return c.call("outer", {g, c.input(at + 1)});
                     },
                     [](GradContext& c, Var g, int at) {
                       return c.call("mv", {transposed(c, c.input(at)), g});
                     },
                     "need [m, k] and [k]"};
const Product kDot = {"k",
                      "k",
                      "",
                      run_dot,
                      [](GradContext& c, Var g, int at) { return mul(c, c.input(at + 1), g); },
                      [](GradContext& c, Var g, int at) { return mul(c, c.input(at), g); },
                      "need two vectors of one length"};
const Product kOuter = {"m",
                        "n",
                        "mn",
                        run_outer,
                        [](GradContext& c, Var g, int at) {
                          return c.call("mv", {g, as_dtype_of(c, c.input(at + 1), g)});
                        },
                        [](GradContext& c, Var g, int at) {
                          return c.call("mv", {transposed(c, g), as_dtype_of(c, c.input(at), g)});
                        },
                        "need two vectors"};
/// Σ over b and k; both are summed, so its rule is written out below.
const Product kAddbmm = {"bmk",
                         "bkn",
                         "mn",
                         run_addbmm,
                         [](GradContext& c, Var g, int at) {
                           return c.call("matmul", {g, transposed(c, c.input(at + 1))});
                         },
                         [](GradContext& c, Var g, int at) {
                           return c.call("matmul", {transposed(c, c.input(at)), g});
                         },
                         "need [b, m, k] and [b, k, n]"};

std::vector<Sample> samples_of(const Product& product) {
  const auto shape = [](std::string_view letters, const Shape& sizes) {
    Shape result;
    for (const char letter : letters) {
      result.push_back(sizes[std::string_view("bmkn").find(letter)]);
    }
    return result;
  };
  std::vector<Sample> samples;
  for (const Shape& sizes : {Shape{6, 8, 6, 7}, Shape{2, 5, 3, 2}, Shape{3, 2, 5, 4}}) {
    samples.push_back({.shapes = {shape(product.a, sizes), shape(product.b, sizes)}});
  }
  return samples;
}

/// `product` of two operands.
OpDef plain_product(std::string name, std::string doc, const Product& product) {
  OpDef def{.name = std::move(name),
            .doc = std::move(doc),
            .args = {in("self"), in("mat2")},
            .rule = rule_of(product) + " | lin A*B"};
  def.kernel = [product](KernelCall& call) {
    product.run(call.ctx, call.inputs[0], call.inputs[1], call.outputs[0]);
  };
  def.infer = [product](std::span<const TensorMeta> inputs, const Attrs&) -> Metas {
    TSR_ASSIGN_OR_RETURN(TensorMeta out, infer_product(product, inputs));
    return std::vector<TensorMeta>{std::move(out)};
  };
  def.gradient = [product](GradContext& c) {
    std::vector<Var> grads(2);
    const Var grad = c.cotangent(0);
    if (c.needs(0)) grads[0] = grad_like(c, product.grad_a(c, grad, 0), 0);
    if (c.needs(1)) grads[1] = grad_like(c, product.grad_b(c, grad, 0), 1);
    return grads;
  };
  def.saved_inputs = {0, 1};
  def.samples = samples_of(product);
  return def;
}

/// out = beta · self + alpha · out.
void add_scaled(KernelCall& call) {
  const Array& out = call.outputs[0];
  const double alpha = call.attrs.get_double("alpha");
  const double beta = call.attrs.get_double("beta");
  if (alpha != 1.0) kernels::binary_scalar(call.ctx, Binary::kMul, out, alpha, out);
  if (beta == 0.0) return;  // what is not added may hold anything
  Array self = call.inputs[0];
  if (beta != 1.0) {
    // Integers are numbers of the result's dtype first: their own product may wrap.
    self = ops::scratch(call, self.shape(), out.dtype());
    kernels::copy(call.ctx, call.inputs[0], self);
    kernels::binary_scalar(call.ctx, Binary::kMul, self, beta, self);
  }
  kernels::binary(call.ctx, Binary::kAdd, out, self, out);
}

Metas infer_added(const Product& product, std::span<const TensorMeta> inputs) {
  TSR_ASSIGN_OR_RETURN(TensorMeta out, infer_product(product, inputs.subspan(1)));
  const bool sums = product.a.find('k') != std::string_view::npos;
  TSR_ASSIGN_OR_RETURN(const Shape both, ops::broadcast(out.shape, inputs[0].shape));
  if (both != out.shape) {
    return ops::shapes_differ("self", inputs[0].shape, "the product", out.shape,
                              "self must broadcast to the product's shape");
  }
  TSR_ASSIGN_OR_RETURN(out.dtype, sums ? ops::matmul_dtype(inputs, 1) : ops::product_dtype(inputs));
  return std::vector<TensorMeta>{std::move(out)};
}

/// beta · self + alpha · product, where self broadcasts: its letters depend on the call.
OpDef added_product(std::string name, std::string doc, const Product& product,
                    std::string marks = "") {
  OpDef def{.name = name,
            .doc = std::move(doc),
            .args = {in("self"), in("mat1"), in("mat2")},
            .attrs = {ops::double_attr("beta", 1.0), ops::double_attr("alpha", 1.0)}};
  def.finite = {1, 2};
  def.declined = {
      "P(max), R, R; P(min), R, R: where the product is infinite, a rank that holds "
      "the opposite infinity of self, as one without elements does, gives NaN"};
  def.kernel = [product](KernelCall& call) {
    product.run(call.ctx, call.inputs[1], call.inputs[2], call.outputs[0]);
    add_scaled(call);
  };
  def.infer = [product](std::span<const TensorMeta> inputs, const Attrs&) {
    return infer_added(product, inputs);
  };
  def.gradient = [product](GradContext& c) {
    std::vector<Var> grads(3);
    const Var grad = c.cotangent(0);
    if (c.needs(0)) {
      grads[0] = grad_like(c, ops::scaled(c, grad, c.attrs().get_double("beta")), 0);
    }
    const double alpha = c.attrs().get_double("alpha");
    if (c.needs(1)) {
      grads[1] = grad_like(c, ops::scaled(c, product.grad_a(c, grad, 1), alpha), 1);
    }
    if (c.needs(2)) {
      grads[2] = grad_like(c, ops::scaled(c, product.grad_b(c, grad, 1), alpha), 2);
    }
    return grads;
  };
  def.saved_inputs = {1, 2};
  def.strategies = [name, product, marks](std::span<const Spec* const> inputs,
                                          std::span<const TensorMeta> outputs, const Attrs& attrs) {
    const std::string self =
        ops::broadcast_letters(inputs[0]->global_shape(), outputs[0].shape, product.out);
    return ops::strategies_of_rule(
        {name, self + ", " + (marks.empty() ? rule_of(product) : marks) + " | lin A+B*C"}, inputs,
        outputs, attrs);
  };
  for (Sample& sample : samples_of(product)) {
    Shape out;
    for (const char letter : product.out) {
      out.push_back(size_of_letter(product, sample.shapes[0], sample.shapes[1], letter));
    }
    const bool scaled = def.samples.size() == 1;
    Shape self = out;
    if (scaled) self.front() = 1;
    if (def.samples.size() == 2) self.erase(self.begin());
    sample.shapes.insert(sample.shapes.begin(), self);
    if (scaled) sample.attrs = {{"beta", 0.5}, {"alpha", -2.0}};
    def.samples.push_back(std::move(sample));
  }
  return def;
}

void add_plain_products(OpTable& table) {
  table.must_add(plain_product("mm", "Product of two matrices.", kMm));
  table.must_add(plain_product("bmm", "Products of two batches of matrices.", kBmm));
  OpDef mv = plain_product("mv", "A matrix times a vector.", kMv);
  mv.args = {in("self"), in("vec")};
  table.must_add(std::move(mv));
  for (const char* name : {"dot", "vdot"}) {
    OpDef dot = plain_product(name, "Sum of the products of two vectors' elements.", kDot);
    dot.args = {in("self"), in("tensor")};
    table.must_add(std::move(dot));
  }
  OpDef outer = plain_product("outer", "All products of two vectors' elements.", kOuter);
  outer.args = {in("self"), in("vec2")};
  outer.rule += " | prod A*B";
  table.must_add(std::move(outer));
}

void add_sums_with_products(OpTable& table) {
  table.must_add(added_product("addmm", "beta self + alpha mat1 mat2.", kMm));
  table.must_add(added_product("baddbmm", "beta self + alpha mat1 mat2 for batches.", kBmm));
  table.must_add(added_product("addbmm", "beta self + alpha times the sum of a batch of products.",
                               kAddbmm, "bmk, bkn -> mn | b:sum k:sum"));
  OpDef addmv = added_product("addmv", "beta self + alpha mat vec.", kMv);
  addmv.args = {in("self"), in("mat"), in("vec")};
  table.must_add(std::move(addmv));
  OpDef addr = added_product("addr", "beta self + alpha times the outer product.", kOuter);
  addr.args = {in("self"), in("vec1"), in("vec2")};
  table.must_add(std::move(addr));
}

}  // namespace

void add_product_matrix_ops(OpTable& table) {
  add_plain_products(table);
  add_sums_with_products(table);
}

}  // namespace tessera
