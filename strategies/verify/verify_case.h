// strategies/verify/verify_case.h: an op's sample with values, and what one rank computes of them:
// as given, in other dtypes, and with values that are special. Internal to strategies/.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "strategies/verify/verify_data.h"

namespace tessera {

struct VerifyCase {
  const Sample* sample = nullptr;
  std::string variant;  ///< "", "I64", "ties"
  Attrs attrs;
  std::vector<TensorMeta> metas;  ///< absent operands included
  std::vector<WholeTensor> operands;
  std::vector<WholeTensor> expected;
  /// The floating dtype of fewest bytes.
  DType precision() const noexcept;
};
/// "[8, 6], dim=1 (I64)"
std::string describe(const VerifyCase& test);

/// What a sample's floating operands are given beside distinct, ordinary values.
enum class SpecialValues : std::uint8_t {
  kTies,      ///< few values, 0 and −0 among them
  kPositive,  ///< all of them: a minimum that begins with 0 would show
  kNegative,
  kLarge,     ///< some so large that exponentials of them overflow
  kInfinite,  ///< some of either sign
  kNaN
};
constexpr bool is_finite(SpecialValues values) noexcept {
  return values < SpecialValues::kInfinite;
}

/// One sample in all its variants. Values are drawn once.
class CaseSource {
 public:
  /// Throws Error for what the op refuses of its own sample.
  CaseSource(const Op& op, const Sample& sample, VerifyRandom& random);

  const VerifyCase& as_given() const noexcept { return as_given_; }
  /// With `dtype` in place of the floating operands; none where the op does not take it, where
  /// nothing would change, and for values that a sample adjusts, in integers.
  std::optional<VerifyCase> in_dtype(DType dtype);
  /// With special values in the floating operands of `operands` (bits); null where there are none,
  /// or where the op refuses them. Operands that the sample adjusts, to an order or a range, are
  /// adjusted again, and get no NaN.
  const VerifyCase* with(SpecialValues values, std::uint32_t operands);

 private:
  std::optional<VerifyCase> with_operands(std::vector<WholeTensor> operands, std::string variant,
                                          const Attrs& attrs);
  bool is_adjusted(std::size_t operand) const;
  void make_special(SpecialValues values, std::size_t operand, WholeTensor& whole);

  const Op& op_;
  VerifyRandom& random_;
  VerifyCase as_given_;
  std::map<std::pair<SpecialValues, std::uint32_t>, std::optional<VerifyCase>> special_;
};

}  // namespace tessera
