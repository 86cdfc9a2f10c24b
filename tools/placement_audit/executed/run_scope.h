// tools/placement_audit/executed/run_scope.h: the names of a program while it is read: meshes,
// tensors and their slots, and what they take.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/placement_audit/executed/run_aliases.h"
#include "tools/placement_audit/executed/run_history.h"
#include "tools/placement_audit/executed/run_program.h"

namespace tessera::audit {

/// "grad." before an input's name is its gradient's.
inline constexpr std::string_view kGradPrefix = "grad.";

class ProgramScope {
 public:
  explicit ProgramScope(Program& program) : program_(program) {}

  /// A mesh whose ranks this process can be. Errors: those of read_mesh(), and too many ranks.
  StatusOr<Mesh> read_mesh_of_ranks(const JsonView& view);
  /// A new tensor. Errors: a name that is taken or that cannot be one, too many bytes.
  StatusOr<int> define(const JsonView& place, const std::string& name, Spec spec);
  /// The tensor that a view names. Errors: NotFound naming the nearest.
  StatusOr<int> slot_of(const JsonView& view) const;
  /// −1 where there is none.
  int find(std::string_view name) const;
  const ProgramTensor& tensor(int slot) const {
    return program_.tensors[static_cast<std::size_t>(slot)];
  }
  /// Counts a tensor in. Errors: InvalidArgument beyond kMaxProgramBytes.
  Status count_bytes(const JsonView& place, const Spec& spec);

  History history;
  Aliases aliases;

 private:
  Program& program_;
  std::map<std::string, int, std::less<>> slots_;
  double bytes_ = 0.0;
};

/// What an object says under "shape" and "dtype", else `otherwise`.
StatusOr<TensorType> read_stated_type(const JsonView& view, TensorType otherwise);

/// The items of a list; anything else stands for a list of itself.
StatusOr<std::vector<JsonView>> items_of(const JsonView& view);
/// What a step gives an op, in the op's order, the items of a list operand one after another; none:
/// an optional operand that is absent. Errors: InvalidArgument for too few, too many, or an empty
/// list.
StatusOr<std::vector<std::optional<JsonView>>> operands_given(const JsonView& args,
                                                              const OpDef& def);
/// InvalidArgument: what stands there is no operand; `tensor` is "a tensor's name".
Status no_operand(const JsonView& view, std::string_view tensor);

/// The parts of a program, in order: inputs, then steps, then what is expected of results.
Status read_program_inputs(const JsonView& root, const TensorTypes& types, ProgramScope& scope,
                           Program& program);
Status read_program_steps(const JsonView& root, const OpTable& table, ProgramScope& scope,
                          Program& program);
/// A region: its results are not defined yet; their specs stand beside it. What ranks hold is
/// checked for every rank.
struct ReadRegion {
  LocalMapStep step;
  std::vector<Spec> specs;                              ///< of the results
  std::vector<std::pair<std::string, JsonView>> names;  ///< and where they are named
};
StatusOr<ReadRegion> read_local_map(const JsonView& view, const OpTable& table,
                                    ProgramScope& scope);
Status read_program_expected(const JsonView& root, Program& program);

}  // namespace tessera::audit
