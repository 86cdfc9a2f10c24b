#include "dtensor/ops.h"

#include <utility>

#include "dtensor/dispatch.h"
#include "dtensor/op_call.h"

namespace tessera {

std::vector<DTensor> call(Runtime& runtime, std::string_view op, std::span<const DTensor> operands,
                          const Attrs& attrs, const Site& site) {
  absl::InlinedVector<const DTensor*, 4> pointers;
  for (const DTensor& each : operands) pointers.push_back(&each);
  Results results =
      dispatch(runtime, find_op(runtime, op), {pointers.data(), pointers.size()}, attrs, site);
  return {std::make_move_iterator(results.begin()), std::make_move_iterator(results.end())};
}

void call_into(std::span<const DTensor> outs, std::string_view op,
               std::span<const DTensor> operands, const Attrs& attrs, const Site& site) {
  if (outs.empty() || !outs[0].defined()) {
    throw Error(invalid_argument(std::string(op) +
                                 ": out= names no tensor; call() makes one for the result"));
  }
  absl::InlinedVector<const DTensor*, 4> from, to;
  for (const DTensor& each : operands) from.push_back(&each);
  for (const DTensor& each : outs) to.push_back(&each);
  Runtime& runtime = outs[0].runtime();
  dispatch_into(runtime, find_op(runtime, op), {{from.data(), from.size()}, {to.data(), to.size()}},
                attrs, site);
}

// ---- pointwise ----

DTensor add(const DTensor& a, const DTensor& b, const Site& site) {
  return call_op(KnownOp::kAdd, {&a, &b}, {}, site);
}
DTensor sub(const DTensor& a, const DTensor& b, const Site& site) {
  return call_op(KnownOp::kSub, {&a, &b}, {}, site);
}
DTensor mul(const DTensor& a, const DTensor& b, const Site& site) {
  return call_op(KnownOp::kMul, {&a, &b}, {}, site);
}
DTensor div(const DTensor& a, const DTensor& b, const Site& site) {
  return call_op(KnownOp::kDiv, {&a, &b}, {}, site);
}
DTensor maximum(const DTensor& a, const DTensor& b, const Site& site) {
  return call_op(KnownOp::kMaximum, {&a, &b}, {}, site);
}
DTensor add(const DTensor& a, double b, const Site& site) {
  return call_op(KnownOp::kAddScalar, {&a}, {{"value", b}}, site);
}
DTensor mul(const DTensor& a, double b, const Site& site) {
  return call_op(KnownOp::kMulScalar, {&a}, {{"value", b}}, site);
}
DTensor neg(const DTensor& x, const Site& site) { return call_op(KnownOp::kNeg, {&x}, {}, site); }
DTensor abs(const DTensor& x, const Site& site) { return call_op(KnownOp::kAbs, {&x}, {}, site); }
DTensor exp(const DTensor& x, const Site& site) { return call_op(KnownOp::kExp, {&x}, {}, site); }
DTensor log(const DTensor& x, const Site& site) { return call_op(KnownOp::kLog, {&x}, {}, site); }
DTensor sqrt(const DTensor& x, const Site& site) { return call_op(KnownOp::kSqrt, {&x}, {}, site); }
DTensor square(const DTensor& x, const Site& site) {
  return call_op(KnownOp::kSquare, {&x}, {}, site);
}
DTensor sign(const DTensor& x, const Site& site) { return call_op(KnownOp::kSign, {&x}, {}, site); }
DTensor relu(const DTensor& x, const Site& site) { return call_op(KnownOp::kRelu, {&x}, {}, site); }
DTensor gelu(const DTensor& x, const Site& site) { return call_op(KnownOp::kGelu, {&x}, {}, site); }
DTensor tanh(const DTensor& x, const Site& site) { return call_op(KnownOp::kTanh, {&x}, {}, site); }
DTensor sigmoid(const DTensor& x, const Site& site) {
  return call_op(KnownOp::kSigmoid, {&x}, {}, site);
}
DTensor silu(const DTensor& x, const Site& site) { return call_op(KnownOp::kSilu, {&x}, {}, site); }
DTensor swiglu(const DTensor& gate, const DTensor& up, const Site& site) {
  return call_op(KnownOp::kSwiglu, {&gate, &up}, {}, site);
}
DTensor eq(const DTensor& a, const DTensor& b, const Site& site) {
  return call_op(KnownOp::kEq, {&a, &b}, {}, site);
}
DTensor where(const DTensor& condition, const DTensor& a, const DTensor& b, const Site& site) {
  return call_op(KnownOp::kWhere, {&condition, &a, &b}, {}, site);
}
DTensor masked_fill(const DTensor& x, const DTensor& mask, double value, const Site& site) {
  return call_op(KnownOp::kMaskedFill, {&x, &mask}, {{"value", value}}, site);
}
DTensor cast(const DTensor& x, DType dtype, const Site& site) {
  if (x.dtype() == dtype) return x;
  return call_op(KnownOp::kCast, {&x}, {{"dtype", dtype}}, site);
}
DTensor clone(const DTensor& x, const Site& site) {
  return call_op(KnownOp::kClone, {&x}, {}, site);
}
DTensor& add_(DTensor& a, const DTensor& b, const Site& site) {
  call_op(KnownOp::kAddInPlace, {&a, &b}, {}, site);
  return a;
}
DTensor& mul_(DTensor& a, double b, const Site& site) {
  call_op(KnownOp::kMulScalarInPlace, {&a}, {{"value", b}}, site);
  return a;
}
DTensor& copy_(DTensor& a, const DTensor& b, const Site& site) {
  call_op(KnownOp::kCopyInPlace, {&a, &b}, {}, site);
  return a;
}
DTensor& fill_(DTensor& a, double value, const Site& site) {
  call_op(KnownOp::kFillInPlace, {&a}, {{"value", value}}, site);
  return a;
}

// ---- products ----

DTensor matmul(const DTensor& a, const DTensor& b, const Site& site) {
  if (a.ndim() > 1 && b.ndim() > 1) [[likely]] {
    return call_op(KnownOp::kMatmul, {&a, &b}, {}, site);
  }
  if (a.ndim() == 0 || b.ndim() == 0) {
    throw Error(invalid_argument("matmul: self " + to_string(a.spec().global_shape()) +
                                 " and other " + to_string(b.spec().global_shape()) +
                                 ": both need at least one dim"));
  }
  // A vector is a row on the left and a column on the right, and leaves no dim behind.
  DTensor product = matmul(a.ndim() == 1 ? unsqueeze(a, 0, site) : a,
                           b.ndim() == 1 ? unsqueeze(b, 1, site) : b, site);
  if (b.ndim() == 1) product = squeeze(product, -1, site);
  return a.ndim() == 1 ? squeeze(product, b.ndim() == 1 ? -1 : -2, site) : product;
}
DTensor linear(const DTensor& x, const DTensor& w, const Site& site) {
  return linear(x, w, {}, site);
}
DTensor linear(const DTensor& x, const DTensor& w, const DTensor& bias, const Site& site) {
  return call_op(KnownOp::kLinear, {&x, &w, &bias}, {}, site);
}
DTensor grouped_mm(const DTensor& x, const DTensor& w, const DTensor& counts, const Site& site) {
  return call_op(KnownOp::kGroupedMm, {&x, &w, &counts}, {}, site);
}
DTensor attention(const DTensor& q, const DTensor& k, const DTensor& v, const AttentionArgs& args,
                  const Site& site) {
  return call_op(KnownOp::kAttention, {&q, &k, &v},
                 {{"scale", args.scale}, {"causal", args.causal}}, site);
}

// ---- layers ----

DTensor rms_norm(const DTensor& x, const DTensor& weight, double eps, const Site& site) {
  return call_op(KnownOp::kRmsNorm, {&x, &weight}, {{"eps", eps}}, site);
}
DTensor rope(const DTensor& x, const DTensor& cos, const DTensor& sin, const Site& site) {
  return call_op(KnownOp::kRope, {&x, &cos, &sin}, {}, site);
}
DTensor cross_entropy(const DTensor& logits, const DTensor& target, const Site& site) {
  return call_op(KnownOp::kCrossEntropy, {&logits, &target}, {}, site);
}

}  // namespace tessera
