// strategies/verify/verify_data.h: whole tensors as plain numbers, cut over the ranks of a mesh and
// joined again. The judge of every row, so it is written element by element from the layout.
// Internal to strategies/.
#pragma once

#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/array.h"
#include "placement/api.h"
#include "strategies/rules/op.h"

namespace tessera TSR_API {

using VerifyRandom = std::mt19937_64;

struct WholeTensor {
  Shape shape;
  DType dtype = DType::kF64;
  std::vector<double> values;  ///< row-major
};

/// Operand values of a sample: distinct, away from ties, seeded.
std::vector<WholeTensor> sample_values(const Sample& sample, VerifyRandom& random);
/// The sample's last word on the values of an operand; none where it has no elements.
void adjust_values(const Sample& sample, std::size_t operand, const Shape& shape,
                   std::vector<double>& values);
/// "[8, 6], [6, 4], dim=1"
std::string describe(const Sample& sample);

WholeTensor whole_of(const Array& array);
Array array_of(const WholeTensor& whole);
/// All coords of a mesh, row-major.
std::vector<Coord> coords_of(const Mesh& mesh);

/// Each rank's local array. A Partial becomes random summands (or factors, or values below the
/// maximum) of which no rank knows the whole; some are the identity of their kind.
std::vector<Array> cut(const WholeTensor& whole, const Spec& spec, VerifyRandom& random);
/// The whole tensor from all ranks' arrays; Partials of several axes reduce from the last axis to
/// the first. Errors: Internal naming a rank whose shape is wrong, or whose replica differs.
StatusOr<WholeTensor> join(const Spec& spec, std::span<const Array> locals);

/// One step of a Partial's reduction; a NaN wins.
double combine(ReduceOp op, double a, double b);
/// The end of it: what `count` ranks' values combined to, averages divided.
double reduced(ReduceOp op, double total, std::size_t count);

/// "" if equal (to rounding, for floating types), else the first difference: where, both values.
std::string difference(const WholeTensor& got, const WholeTensor& expected);
std::string difference(const WholeTensor& got, const WholeTensor& expected, DType precision);
/// The first element that differs, and a rank from which it came.
struct Difference {
  std::string text;
  int rank = -1;  ///< −1: the tensors differ in shape or dtype
  Shape index;
  double got = 0.0;
  double expected = 0.0;
};
/// Whether −0.0 differs from 0.0.
enum class Zeros : std::uint8_t { kAlike, kSigned };
/// Floating values are compared as those of `precision`, the coarsest dtype of the call.
struct Comparison {
  DType precision = DType::kF64;
  Zeros zeros = Zeros::kAlike;
};
std::optional<Difference> find_difference(const Spec& spec, const WholeTensor& got,
                                          const WholeTensor& expected, const Comparison& how);
bool nearly_equal(double a, double b, DType dtype);

}  // namespace tessera
