// strategies/rules/gradient.h: what an op's gradient is written against: calls of ops on opaque
// values. dtensor/ implements it with DTensor ops (so gradients shard by the same rules), the
// verifier with plain arrays.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "placement/api.h"
#include "strategies/rules/attrs.h"

namespace tessera TSR_API {

/// A value inside one GradContext; the default is "no value" (a zero cotangent, or none needed).
struct Var {
  int id = -1;
  bool defined() const noexcept { return id >= 0; }
};

/// One application of an op's gradient.
class GradContext {
 public:
  virtual ~GradContext() = default;
  /// Operand i / result i of the forward call. Only those that the OpDef saves; shapes are known
  /// for all.
  virtual Var input(int i) = 0;
  virtual Var output(int i) = 0;
  /// Cotangent of result i; undefined where nothing flowed back.
  virtual Var cotangent(int i) = 0;
  virtual const Attrs& attrs() const = 0;
  virtual int num_inputs() const = 0;
  virtual bool needs(int i) const = 0;
  virtual const Shape& input_shape(int i) const = 0;  ///< global
  virtual DType input_dtype(int i) const = 0;
  virtual const Shape& output_shape(int i) const = 0;  ///< global
  virtual const Shape& shape(Var value) const = 0;     ///< global
  virtual DType dtype(Var value) const = 0;
  /// All results of an op.
  virtual std::vector<Var> call_all(std::string_view op, std::span<const Var> operands,
                                    const Attrs& attrs) = 0;

  Var call(std::string_view op, std::initializer_list<Var> operands, const Attrs& attrs = {}) {
    return call_all(op, {operands.begin(), operands.size()}, attrs)[0];
  }
  /// Sums a broadcast cotangent back to `shape` (extra leading dims and dims of size 1).
  Var sum_to(Var grad, const Shape& shape);
};

/// Cotangents of the inputs, in order; an undefined Var where there is none.
using Gradient = std::function<std::vector<Var>(GradContext&)>;

}  // namespace tessera
