// program/stablehlo/sharding.h: Shardy's shardings, read and turned into layouts.
// #sdy.sharding<@mesh, [{"dp", "tp":(1)2}, {?}p1], replicated={"x"}, unreduced={"y"}>.
// Internal to program/stablehlo/.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "program/program.h"
#include "program/stablehlo/mlir_statement.h"

namespace tessera::stablehlo {

/// An axis, or the part of it that is left when it is cut into (before, size, rest).
struct AxisRef {
  std::string name;
  std::int64_t before = 1, size = 0;  ///< size 0: the whole axis
  std::size_t offset = 0;
};
struct DimSharding {
  std::vector<AxisRef> axes;  ///< major first
  bool open = false;          ///< propagation may cut it further
};
struct Sharding {
  std::string mesh;
  std::vector<DimSharding> dims;
  std::vector<AxisRef> replicated, unreduced;
  std::size_t offset = 0;
  /// Nothing is said yet: every dim is open and no axis is named.
  bool is_free() const;
};

/// `nodes`: "<@mesh, […], …>", with or without #sdy.sharding before it. Errors: InvalidArgument.
StatusOr<Sharding> parse_sharding(const MlirText& text, Nodes nodes);
/// `nodes`: "[<…>, <…>]", with or without #sdy.sharding_per_value and angles around it.
StatusOr<std::vector<Sharding>> parse_shardings(const MlirText& text, Nodes nodes);

/// All axes in "{"x"}" and "[{}, {"x"}]". Errors: InvalidArgument.
StatusOr<std::vector<AxisRef>> parse_axes(const MlirText& text, const Node& group);

/// Shardy cuts a dim into equal pieces of all its axes' ranks together, padded at the end: the
/// borders fall on multiples of what an inner axis takes. `axes`: major first.
Levels shardy_levels(const Mesh& mesh, std::int64_t size, const std::vector<int>& axes);

/// The meshes of a module. An axis of which some sharding names a part is several axes here.
class Meshes {
 public:
  explicit Meshes(const MlirText& text) : text_(&text) {}

  /// A part of an axis that some sharding names: before add(). Errors: OutOfRange for too many.
  Status add_part(const AxisRef& part);
  /// `sdy.mesh @name = <["x"=2], device_ids=[…]>`: the lexer stands behind '='. Errors:
  /// InvalidArgument for a second one of that name, devices in another order, parts that do not
  /// nest.
  Status add(const Token& name, Lexer& lexer);

  /// Those with axes, in order.
  const std::vector<ProgramMesh>& meshes() const noexcept { return meshes_; }
  /// The mesh that values without a sharding are on; none: there is no mesh.
  std::optional<int> main() const;
  /// Sets the mesh, and the layout unless it is free. On a mesh of no axes a value is plain.
  /// Errors: InvalidArgument for a mesh or axis that is not there, an axis that is used twice, dims
  /// that are not as many as the value's.
  Status place(const Sharding& sharding, ProgramValue& value) const;
  /// The axes along which these groups of ranks lie, where groups are those of some axes. Empty:
  /// none are.
  std::vector<std::string> axes_of_groups(int mesh, std::int64_t ranks,
                                          const std::vector<std::int64_t>& groups) const;
  /// The axes of the mesh that a reference stands for, major first. Errors: as place().
  StatusOr<std::vector<int>> axes_of(int mesh, const AxisRef& ref) const;

 private:
  StatusOr<std::vector<std::int64_t>> sizes_of_parts(const Token& axis, std::int64_t size) const;

  const MlirText* text_;
  std::vector<ProgramMesh> meshes_;
  std::vector<std::vector<std::vector<int>>> parts_;  ///< mesh, axis as written: the mesh's axes
  std::vector<std::vector<std::string>> axis_names_;  ///< mesh: as written
  absl::flat_hash_map<std::string, int> by_name_;     ///< -1: a mesh without axes
  absl::flat_hash_map<std::string, std::vector<std::int64_t>> borders_;
};

}  // namespace tessera::stablehlo
