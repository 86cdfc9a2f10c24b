// program/read_values.h: meshes and values of a program's JSON, and what readers of steps share.
// Internal to program/.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "io/json.h"
#include "program/program.h"

namespace tessera {

/// The text of an optional member, "" where there is none.
StatusOr<std::string> text_at(const JsonView& view, std::string_view key);
/// The path of a module, "" where there is none.
StatusOr<std::string> module_at(const JsonView& view);

template <class Enum, std::size_t kCount>
StatusOr<Enum> read_choice(const JsonView& view, const std::array<Enum, kCount>& allowed) {
  TSR_ASSIGN_OR_RETURN(const std::string seen, view.text());
  std::string names;
  for (const Enum each : allowed) {
    if (name_of(each) == seen) return each;
    names += (names.empty() ? "" : ", ") + std::string(name_of(each));
  }
  return view.error(in_quotes(seen) + ": allowed are " + names);
}

class ValueReader {
 public:
  enum class Declared : std::uint8_t { kBefore, kByStep };

  /// `view`: the object of meshes, of a program of so many ranks.
  Status read_meshes(const JsonView& view, std::int64_t num_ranks);
  /// What read_meshes() read. It stays valid while this reader is.
  const std::vector<ProgramMesh>& meshes() const noexcept { return meshes_; }

  StatusOr<ProgramValue> read_value(const JsonView& view, Declared declared) const;
  /// `view`: a mesh's name or null.
  StatusOr<std::optional<int>> read_mesh_name(const JsonView& view) const;
  /// `view`: null, placements or a layout, of a value whose mesh and shape are known.
  Status read_layout_of(const JsonView& view, ProgramValue& value) const;

 private:
  Status add_mesh(const std::string& name, const JsonView& view, std::int64_t num_ranks);
  Status place_slice(const JsonView& view, const JsonView& of, ProgramMesh& slice);
  Status read_placing(const JsonView& view, ProgramValue& value) const;
  Status read_varies(const JsonView& view, ProgramValue& value) const;
  StatusOr<int> find_mesh(const JsonView& view) const;

  std::vector<ProgramMesh> meshes_;
  absl::flat_hash_map<std::string, int> mesh_names_;
  absl::flat_hash_set<std::string> axis_names_;
};

}  // namespace tessera
