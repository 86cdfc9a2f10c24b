// strategies/verify/verify.h: proves an op, in process. Soundness: every row × every sample × every
// mesh gives the one-rank result, and gradients agree with finite differences in F64. Completeness:
// every row that a search over placements finds right is there or declined with a reason.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "placement/api.h"
#include "strategies/rules/local_op.h"

namespace tessera TSR_API {

/// A call with every rank's values, small enough to be read and run again.
struct VerifyRepro {
  struct Input {
    std::string name;
    std::size_t argument = 0;  ///< of the op's schema
    bool list = false;         ///< one of several inputs of that argument
    Spec spec;
    std::vector<std::vector<double>> local;  ///< per rank, row-major
  };
  struct Result {
    std::string name;
    TensorMeta meta;
    std::vector<double> values;  ///< what one rank computes
  };
  Shape mesh;
  std::vector<Input> inputs;
  std::vector<Result> results;
  Attrs attrs;
  /// Ranks first, then elements: what makes one shorter than another.
  std::int64_t size() const noexcept;
};

struct VerifyFailure {
  std::string op, mesh, row, sample, detail;
  int rank = -1;  ///< a rank that holds the element; −1 where no element is at fault
  int result = -1;
  Shape index = {};
  double got = 0.0;
  double expected = 0.0;
  std::optional<VerifyRepro> repro = {};
};
struct VerifyReport {
  std::int64_t rows_proven = 0;
  std::int64_t rows_failed = 0;
  std::int64_t rows_found = 0;     ///< by the search, distinct
  std::int64_t rows_declined = 0;  ///< found, and declined with a reason
  std::int64_t rows_missing = 0;   ///< found, neither had nor declined
  std::vector<std::string> declined;
  std::vector<VerifyFailure> failures;
};
struct VerifyOptions {
  std::vector<Shape> meshes = {{2}, {3}, {4}, {2, 2}};
  std::uint64_t seed = 1;
  enum class Gradients : std::uint8_t { kCheck, kSkip };
  Gradients gradients = Gradients::kCheck;
  enum class Completeness : std::uint8_t { kSearch, kSkip };
  Completeness completeness = Completeness::kSearch;
  /// Beside the samples' own: F32 and I64, or every dtype.
  enum class DTypes : std::uint8_t { kSome, kAll };
  DTypes dtypes = DTypes::kSome;
  /// Where the ranks' kernels run. What one rank computes comes from the processor.
  KernelContext context = {};
};
/// Operands are cut by the row's placements (Partial ones into adversarial random summands), the
/// local op runs on every rank in process, and the outputs, put together again, are compared with
/// the one-rank result. Factors are also cut in grains and in blocks; dtypes and special values
/// (ties, 0, −0, inf, NaN) have variants of their own.
VerifyReport verify(const OpTable& table, const Op& op, const VerifyOptions& options = {});

}  // namespace tessera
