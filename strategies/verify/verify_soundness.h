// strategies/verify/verify_soundness.h: does every row of an op give the one-rank result? Internal
// to strategies/.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "strategies/rules/search.h"
#include "strategies/verify/verify.h"
#include "strategies/verify/verify_case.h"

namespace tessera {

/// Keeps count by (mesh, row), so that a row counts once however many samples it passes.
class Findings {
 public:
  void record(const std::string& mesh, const std::string& row, bool passed) {
    const auto [at, added] = rows_.emplace(mesh + " | " + row, passed);
    at->second = at->second && passed;
  }
  /// Of one row on one mesh the failure stays that is run again with least effort.
  void fail(VerifyFailure failure);
  /// Arguments (bits) of OpDef::finite without which a row was seen to fail.
  void note_needed_finite(std::uint32_t arguments) { needed_finite_ |= arguments; }
  std::uint32_t needed_finite() const noexcept { return needed_finite_; }
  bool any_failed() const noexcept { return !failures_.empty(); }
  void move_to(VerifyReport& report);

 private:
  std::map<std::string, bool> rows_;
  std::vector<VerifyFailure> failures_;
  std::uint32_t needed_finite_ = 0;
};

/// Resolved calls seen so far: many calls are the same once their operands have moved.
class DistinctCalls {
 public:
  bool insert(const Resolution& resolution);

 private:
  std::map<std::size_t, std::vector<std::vector<Spec>>> calls_;
};

/// Runs rows of one op on all ranks of a mesh in process.
class SoundnessJudge {
 public:
  SoundnessJudge(const Op& op, const VerifyOptions& options, VerifyRandom& random,
                 Findings& findings)
      : op_(op), options_(options), random_(random), findings_(findings) {}

  /// Every row on every mesh, in every variant.
  void judge(CaseSource& source);
  /// Every row on axes of 2 and 3, and on both.
  void judge_derived(CaseSource& source);

 private:
  void judge_mesh(const VerifyCase& test, const Shape& mesh_shape, CaseSource* special);
  void judge_rows(const VerifyCase& test, const Mesh& mesh, CaseSource* special);
  void judge_choice(const VerifyCase& test, const Call& call, Choice choice, CaseSource* special);
  void judge_other_cuts(const VerifyCase& test, const Call& call, const Choice& choice);
  void judge_strategies(const VerifyCase& test, const Mesh& mesh, CaseSource* special);
  void judge_call(const VerifyCase& test, const std::vector<const Spec*>& call, const Mesh& mesh,
                  CaseSource* special);
  void judge_special(const VerifyCase& test, const Mesh& mesh, const Resolution& resolution,
                     const std::string& row, CaseSource& special);
  void try_listed(const Mesh& mesh, const Resolution& resolution, CaseSource& special);
  void check(const VerifyCase& test, const Mesh& mesh, const Resolution& resolution,
             const std::string& row);

  /// Of placements, for ops whose rows are a function.
  enum class Combinations : std::uint8_t { kAll, kFew };

  const Op& op_;
  const VerifyOptions& options_;
  VerifyRandom& random_;
  Findings& findings_;
  DistinctCalls judged_;  ///< of one sample on one mesh
  Combinations combinations_ = Combinations::kAll;
};

/// Runs one resolved call on every rank, on ctx's device, and compares; nothing if it is right.
std::optional<VerifyFailure> judge_resolution(const Op& op, const VerifyCase& test,
                                              const Mesh& mesh, const Resolution& resolution,
                                              VerifyRandom& random, KernelContext ctx = {});
/// One row on a mesh of one axis. Errors: NotFound where the op has no such row there; those of
/// resolve().
StatusOr<Resolution> resolve_row(const Op& op, const VerifyCase& test, const Mesh& mesh,
                                 const Row& row);
/// Operands (bits) that a call holds as Partial, else all of them: those that special values try.
std::uint32_t operands_at_stake(const Resolution& resolution);
/// Operands (bits) that a row which passes sums takes to be finite.
struct AssumedFinite {
  std::uint32_t factors = 0;  ///< of a monomial in which another operand is a sum: they may be 0
  std::uint32_t listed = 0;   ///< by OpDef::finite: they may not
};
AssumedFinite assumed_finite(const Op& op, const Resolution& resolution);
/// Sets of operands (bits) that are given special values in turn: those at stake, and those beside
/// them, but for what the row takes to be finite.
std::array<std::uint32_t, 2> special_operands(const Op& op, const Resolution& resolution,
                                              SpecialValues values);
/// An infinity or a NaN must pass unchanged: rows of linearity, and those that cut every operand
/// and sum over nothing. Elsewhere a local kernel may skip what another multiplies by 0.
bool must_pass_non_finite(const Op& op, const Resolution& resolution);
/// "2x3"
std::string mesh_text(const Shape& shape);

}  // namespace tessera
