// strategies/rules/search.h: one call with its rows, and the search for the combination over mesh
// axes that moves least. A choice is one row per axis and the levels of each factor that they cut.
// Internal to strategies/.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "placement/api.h"
#include "strategies/rules/cost.h"
#include "strategies/rules/rows.h"

namespace tessera TSR_API {

/// One operand of a call as it stands.
struct CallOperand {
  const Spec* spec = nullptr;  ///< null: an optional operand that was not given
  bool fixed = false;          ///< written in place: it may not move
  bool foreign = false;        ///< a replicated scalar of another mesh: it may not become Partial
  double num_elements = 0.0;
  double element_bytes = 0.0;
  TensorCut cut;
};

/// What the search reads. Axes of size 1 are left out; the others are renumbered from 0.
struct Call {
  const Op* op = nullptr;
  Mesh mesh;                                        ///< of the operands
  Mesh reduced_mesh;                                ///< without axes of size 1
  absl::InlinedVector<int, 4> mesh_axes;            ///< reduced axis → axis of `mesh`
  absl::InlinedVector<std::int64_t, 4> axis_sizes;  ///< of the reduced axes
  std::vector<TensorMeta> inputs;
  std::vector<TensorMeta> outputs;
  Binding binding;
  std::vector<CompactRow> rows;
  absl::InlinedVector<CallOperand, 4> operands;
  /// out=: where each result has to stand; empty where they may stand anywhere.
  absl::InlinedVector<CallOperand, 2> wanted;
  /// Per reduced axis, the rows that a caller asks for; empty where any may be chosen.
  absl::InlinedVector<std::vector<std::int16_t>, 4> forced;

  bool is_forced() const noexcept;  ///< on some axis
};

/// The call on `mesh`, without operands. Errors: those of infer() and bind_rule().
StatusOr<Call> make_call(const Op& op, std::vector<TensorMeta> inputs, const Attrs& attrs,
                         const Mesh& mesh);
/// An operand as it stands on the call's mesh; a plain one stands for a replica.
CallOperand operand_of(const Call& call, const Spec* spec);
/// Narrows the rows of each axis to those asked for; requires operands. Errors: InvalidArgument
/// where a row does not read as one of the op; FailedPrecondition where no row of the call is it.
Status force_rows(Call& call, std::span<const ForcedRow> forced);
/// Keeps the offers that run as asked for, on `mesh`. Errors: as above.
Status force_offers(const Op& op, const Mesh& mesh, std::span<const Spec* const> inputs,
                    std::span<const ForcedRow> forced, std::vector<Strategy>& offers);
/// The refusal of a call that none of the rows asked for fits.
Status forced_refused(const Call& call, const Attrs& attrs, std::span<const ForcedRow> forced);
/// "; k:sum on tp as train.cc:12 asks" for each that says something about `mesh`.
std::string forced_text(const Mesh& mesh, std::span<const ForcedRow> forced);

/// True if the meshes differ in axes of size 1 at most.
bool equal_axes(const Mesh& a, const Mesh& b);

/// False where one row carries P(max) and the other P(min) in different operands: a rank that holds
/// the identities of both, -inf and inf, would add them to NaN.
bool may_combine(const CompactRow& a, const CompactRow& b) noexcept;

struct Choice {
  absl::InlinedVector<std::int16_t, 4> rows;  ///< per reduced axis
  absl::InlinedVector<LevelList, 6> factor_levels;
  double bytes = 0.0;
  int moved = 0;
};
struct SearchResult {
  std::array<Choice, 2> best;  ///< the winner and the runner-up
  int found = 0;
};
/// May what is written move? Never in a call; to say what a refusal asks for, it may.
enum class Written : std::uint8_t { kStays, kMoves };

/// Fewest bytes first, then fewer moved operands, then the order of the rule.
SearchResult search(const Call& call, Written written = Written::kStays);

/// The levels of one operand's dims under a choice. Errors: FailedPrecondition where a dim made of
/// several factors has no levels for it.
StatusOr<LevelList> levels_of(const Call& call, const BoundDim& dim,
                              std::span<const LevelList> factor_levels);
/// The cut, mesh-order levels of every factor that `rows` cut.
absl::InlinedVector<LevelList, 6> default_levels(const Call& call,
                                                 std::span<const std::int16_t> rows);
/// Specs, rows and texts of a choice, without the runner-up.
StatusOr<Resolution> resolve(const Call& call, const Choice& choice);
/// "dp: m, tp: k:sum"
std::string why_of(const Call& call, std::span<const std::int16_t> rows);

}  // namespace tessera
