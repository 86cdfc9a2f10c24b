// kernels/pointwise.h: one element from the elements of one to four operands that broadcast: every
// such function by name, with one way of running them all.
// Floating operands are computed in F64 and rounded once, on devices those of F32 and less in F32
// where that does; integers, U8 and BOOL in I64, wrapping.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/array.h"
#include "placement/api.h"

namespace tessera TSR_API {
namespace kernels {

/// The lists of pointwise_*.h.
enum class PointwiseFamily : std::uint8_t {
  kElementary,
  kElementarySlopes,
  kActivation,
  kActivationSlopes,
  kPairs,
  kPairSlopes,
  kIntegers,
  kLosses
};

/// What is known of a function without a device; each device finds its code by family and index.
struct Pointwise {
  std::string_view name;
  int num_operands = 1;
  bool has_floating = false;  ///< is defined on floating types
  bool has_integer = false;   ///< is defined on integers
  PointwiseFamily family = PointwiseFamily::kElementary;
  int index = 0;  ///< in its family's list
  bool divides_integers = false;
};

/// Names are those of the ops; the derivative of f by operand i is "f'i".
/// Errors: internal for a name that is not in the tables.
const Pointwise& pointwise_function(std::string_view name);
/// Whether the tables hold the name.
bool has_pointwise_function(std::string_view name) noexcept;

/// Computes in F64 where an operand is floating or the function has no integer form, then converts
/// to out's dtype. Errors: InvalidArgument where the function has no form for the operands' dtypes,
/// OutOfRange where an integer is divided by zero.
void pointwise(KernelContext& ctx, const Pointwise& function, std::span<const Array> operands,
               std::span<const double> params, const Array& out);

/// The neighbour of a towards b among the values of out's dtype, to which both are converted first.
/// dtypes: floating.
void nextafter(KernelContext& ctx, const Array& a, const Array& b, const Array& out);

}  // namespace kernels
}  // namespace tessera
