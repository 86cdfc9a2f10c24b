// strategies/verify/verify_trial.h: one sample of an op with drawn values, and the plain kernel run
// on local arrays of it: what the search for rows tries. Internal to strategies/.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "strategies/rules/propagate.h"
#include "strategies/verify/verify_data.h"

namespace tessera {

/// Kinds of Partial that a dtype has: a mean of integers is none, truth values have no sum.
std::vector<ReduceOp> partial_kinds(DType dtype);

/// Per result, the placements that are right so far: bit 0 R, 1 + d S(d), kPartialBit + kind P.
using Verdict = absl::InlinedVector<std::uint32_t, 2>;

class TrialData {
 public:
  static constexpr std::size_t kDraws = 3;     ///< of ordinary values
  static constexpr std::size_t kAllDraws = 6;  ///< with ties, and with one element that is alone
  /// One argument that is given: its operands are placed alike.
  struct Slot {
    std::vector<std::size_t> operands;
    int ndim = 0;  ///< the smallest of its operands'
  };

  /// Throws Error where the op refuses its own sample.
  TrialData(const Op& op, const Sample& sample, std::uint64_t seed);

  const Sample& sample() const noexcept { return *sample_; }
  const Attrs& attrs() const noexcept { return attrs_; }
  const std::vector<TensorMeta>& inputs() const noexcept { return inputs_; }
  const std::vector<TensorMeta>& outputs() const noexcept { return outputs_; }
  const std::vector<Slot>& slots() const noexcept { return slots_; }
  /// Every dim of every operand has so many elements; or one, or a size that the op fixes, which
  /// are not cut. There is an operand, and a result with elements.
  enum class Fixed : std::uint8_t { kRefuse, kAllow };
  bool has_dims_of(std::int64_t elements, Fixed fixed) const;
  /// The same attributes, operands given, and dtypes.
  bool same_call(const TrialData& other) const;

  /// The op accepts every rank's local shapes, and the results' could be a placement of the whole.
  bool shapes_fit(const std::vector<RowEntry>& inputs, std::int64_t axis_size);
  Verdict anything() const;
  /// Runs the plain kernel on every rank's share and strikes out placements that are wrong. False
  /// where one result has none left. Requires shapes_fit().
  bool narrow(const std::vector<RowEntry>& inputs, std::int64_t axis_size, std::size_t draw,
              Verdict& verdict);
  /// Ordinary values may agree on these by accident: extremes, products, truth values.
  bool may_be_accident(const Verdict& verdict) const;
  /// R before S before P.
  std::vector<RowEntry> placements_of(const Verdict& verdict) const;

 private:
  struct Draw {
    std::vector<WholeTensor> operands;
    std::vector<WholeTensor> expected;
    VerifyRandom random;
    bool usable = true;  ///< the op takes these values
  };
  void find_fixed_sizes();
  void draw_values(Draw& draw, std::size_t number);
  const std::vector<Array>& share_of(std::size_t draw, std::size_t operand, const RowEntry& entry,
                                     std::int64_t axis_size);
  bool run_rank(const std::vector<Array>& operands, std::vector<Array>& results) const;
  std::uint32_t right_placements(const WholeTensor& whole,
                                 const std::vector<std::vector<double>>& parts,
                                 std::uint32_t candidates) const;
  std::uint32_t kept_by_alias(std::size_t output, const std::vector<RowEntry>& inputs) const;

  const Op* op_;
  const Sample* sample_;
  Attrs attrs_;
  std::vector<TensorMeta> inputs_;
  std::vector<TensorMeta> outputs_;
  std::vector<Slot> slots_;
  std::set<std::int64_t> fixed_sizes_;
  std::vector<Draw> draws_;
  std::map<std::uint64_t, std::vector<Array>> shares_;
};

}  // namespace tessera
