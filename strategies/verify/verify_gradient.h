// strategies/verify/verify_gradient.h: an op and its gradient on one rank, on plain arrays.
// Internal to strategies/.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "placement/api.h"
#include "strategies/verify/verify_data.h"

namespace tessera TSR_API {

std::vector<Array> arrays_of(std::span<const WholeTensor> operands);

/// Runs `op` on one rank; operands are not written. Throws Error for what the op refuses.
std::vector<Array> run_plain(const Op& op, std::span<const Array> inputs, const Attrs& attrs);

/// An op's operands and results, and its gradient there for any cotangents.
class GradientAt {
 public:
  GradientAt(const OpTable& table, const Op& op, const Attrs& attrs, std::vector<Array> operands);
  const std::vector<Array>& results() const noexcept { return results_; }
  /// By operand, null where none flows back. A cotangent is null where none is given.
  std::vector<Array> run(std::span<const Array> cotangents) const;
  /// The same of row-major elements, empty in place of null.
  std::vector<std::vector<double>> run(std::span<const std::vector<double>> cotangents) const;

 private:
  const OpTable& table_;
  const Op& op_;
  const Attrs& attrs_;
  std::vector<Array> operands_;
  std::vector<Array> results_;
};

/// The cotangents of the operands, null where there is none, for what `cotangent_of` makes of each
/// floating result. Throws Error for what the op or its gradient refuses.
std::vector<Array> gradients_of(const OpTable& table, const Op& op, const Attrs& attrs,
                                std::span<const Array> operands,
                                const std::function<Array(const Array& result)>& cotangent_of);

/// Compares the op's gradient with central differences, for every element of every floating
/// operand. "" if they agree to 1e-6; else the first operand and element where they do not, or what
/// the gradient did wrong (reads a value that it does not save, a cotangent of another shape).
std::string gradient_error(const OpTable& table, const Op& op, const Attrs& attrs,
                           std::span<const WholeTensor> operands, VerifyRandom& random);

}  // namespace tessera
