// strategies/verify/verify_search.h: which placement rows an op has, found by running it: every
// assignment of R, S(d) and P(kind) to the operands under which the plain kernel on local arrays
// gives a valid placement of every result. Independent of the op's rule. Internal to strategies/.
#pragma once

#include <cstdint>
#include <vector>

#include "strategies/rules/propagate.h"

namespace tessera {

/// Entries of one axis: one per operand given to the call (absent ones R), one per result.
struct FoundRow {
  std::vector<RowEntry> inputs;
  std::vector<RowEntry> outputs;
  bool operator==(const FoundRow&) const = default;
};
/// What was found on one sample.
struct SampleRows {
  const Sample* sample = nullptr;
  Attrs attrs;
  std::vector<TensorMeta> inputs;  ///< absent optionals included
  std::vector<TensorMeta> outputs;
  std::vector<std::int64_t> axis_sizes;  ///< searched: 2, 3 where every dim has 2n elements
  std::vector<FoundRow> rows;
};

/// The rows of every sample that can be searched. A row counts if it is right on both axis sizes,
/// for three draws of values and splits, and, where it cuts no operand, on every other sample with
/// these attributes and dtypes. A result that every rank has whole counts as R only; results that
/// alias an operand must keep its placement.
std::vector<SampleRows> search_rows(const Op& op, std::uint64_t seed);

/// The operand numbers that an argument of the schema stands for: a list's are many.
std::vector<std::vector<std::size_t>> operands_by_argument(const Op& op, std::size_t num_operands);

}  // namespace tessera
