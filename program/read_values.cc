#include "program/read_values.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "io/placement_json.h"
#include "placement/spec.h"
#include "program/program_json.h"

namespace tessera {
namespace {

constexpr std::int64_t kMaxModuleChars = 1000;
constexpr std::int64_t kMaxMeshes = 65'536;

Status read_type(const JsonView& view, ProgramValue& value) {
  const JsonView shape = *view.find("shape");
  TSR_ASSIGN_OR_RETURN(const std::vector<std::int64_t> sizes, shape.integers(kJsonDims));
  const JsonView dtype = *view.find("dtype");
  TSR_ASSIGN_OR_RETURN(const std::string name, dtype.text());
  const StatusOr<DType> parsed = parse_dtype(name);
  if (!parsed.ok()) return dtype.annotate(parsed.status());
  TSR_RETURN_IF_ERROR(shape.annotate(check_tensor_size(sizes, *parsed)));
  value.global_shape = to_shape(sizes);
  value.dtype = *parsed;
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::string> text_at(const JsonView& view, std::string_view key) {
  const std::optional<JsonView> found = view.find(key);
  if (!found) return std::string();
  return found->text();
}

StatusOr<std::string> module_at(const JsonView& view) {
  TSR_ASSIGN_OR_RETURN(std::string path, text_at(view, "module"));
  if (std::ssize(path) <= kMaxModuleChars) return path;
  return view.find("module")->error(
      absl::StrFormat("a path of %d bytes; at most %d are allowed", path.size(), kMaxModuleChars));
}

Status ValueReader::read_meshes(const JsonView& view, std::int64_t num_ranks) {
  TSR_RETURN_IF_ERROR(view.for_each_member([&](const std::string& name, const JsonView& mesh) {
    return add_mesh(name, mesh, num_ranks);
  }));
  // A slice may stand before what it is a slice of.
  int index = 0;
  TSR_RETURN_IF_ERROR(view.for_each_member([&](const std::string&, const JsonView& mesh) -> Status {
    ProgramMesh& slice = meshes_[static_cast<std::size_t>(index++)];
    const std::optional<JsonView> of = mesh.find("of");
    if (!of) return absl::OkStatus();
    return place_slice(mesh, *of, slice);
  }));
  for (const ProgramMesh& mesh : meshes_) {
    for (int axis = 0; axis < mesh.mesh.ndim(); ++axis) {
      axis_names_.insert(mesh.mesh.axis_label(axis));
    }
  }
  return absl::OkStatus();
}

Status ValueReader::add_mesh(const std::string& name, const JsonView& view,
                             std::int64_t num_ranks) {
  if (std::ssize(meshes_) == kMaxMeshes) {
    return view.error(absl::StrFormat("more than %d meshes", kMaxMeshes));
  }
  TSR_RETURN_IF_ERROR(view.check_keys({"shape"}, {"axes", "first_rank", "stage", "of"}));
  ProgramMesh mesh{.name = name, .mesh = {}, .stage = {}, .of = {}};
  TSR_ASSIGN_OR_RETURN(mesh.mesh, read_mesh_members(view));
  const std::int64_t first = mesh.mesh.first_rank();
  if (first >= num_ranks || (!view.find("of") && mesh.mesh.num_ranks() > num_ranks - first)) {
    return view.error(absl::StrFormat("%d ranks from rank %d on, but the program has %d",
                                      mesh.mesh.num_ranks(), first, num_ranks));
  }
  if (const std::optional<JsonView> stage = view.find("stage")) {
    TSR_ASSIGN_OR_RETURN(const std::int64_t number, stage->integer_in(0, INT32_MAX));
    mesh.stage = static_cast<int>(number);
  }
  mesh_names_.emplace(name, static_cast<int>(meshes_.size()));
  meshes_.push_back(std::move(mesh));
  return absl::OkStatus();
}

/// Gives `slice`, read as if its ranks were adjacent, those that it has in the mesh `of`.
Status ValueReader::place_slice(const JsonView& view, const JsonView& of, ProgramMesh& slice) {
  TSR_ASSIGN_OR_RETURN(const int index, find_mesh(of));
  const ProgramMesh& whole = meshes_[static_cast<std::size_t>(index)];
  if (&whole == &slice || whole.of) {
    return of.error(in_quotes(whole.name) +
                    " is a slice itself; name the mesh that it is cut from");
  }
  std::vector<int> axes;
  for (const MeshAxis& axis : slice.mesh.axes()) {
    const StatusOr<int> found = whole.mesh.find_axis(axis.name);
    if (axis.name.empty() || !found.ok()) {
      return view.error(absl::StrFormat("a slice of %s needs names of its axes; %s has %s",
                                        in_quotes(whole.name), in_quotes(whole.name),
                                        whole.mesh.to_string()));
    }
    if (whole.mesh.size(*found) != axis.size) {
      return view.error(absl::StrFormat("axis %s has %d ranks, but %d in %s", in_quotes(axis.name),
                                        axis.size, whole.mesh.size(*found), in_quotes(whole.name)));
    }
    axes.push_back(*found);
  }
  const StatusOr<Mesh> placed = whole.mesh.sub_mesh(axes, slice.mesh.first_rank());
  if (!placed.ok()) return view.annotate(placed.status());
  if (placed->first_rank() != slice.mesh.first_rank()) {
    return view.error(
        absl::StrFormat("first rank %d is not the first of its slice of %s, which is "
                        "%d",
                        slice.mesh.first_rank(), in_quotes(whole.name), placed->first_rank()));
  }
  slice.mesh = *placed;
  slice.of = index;
  return absl::OkStatus();
}

StatusOr<int> ValueReader::find_mesh(const JsonView& view) const {
  TSR_ASSIGN_OR_RETURN(const std::string name, view.text());
  const auto found = mesh_names_.find(name);
  if (found != mesh_names_.end()) return found->second;
  std::string names;
  for (const ProgramMesh& mesh : meshes_) {
    names += (names.empty() ? "" : ", ") + in_quotes(mesh.name);
    if (names.size() > 200) break;
  }
  return view.error(in_quotes(name) + ": no such mesh; there are: " + names);
}

StatusOr<std::optional<int>> ValueReader::read_mesh_name(const JsonView& view) const {
  if (view.kind() == Json::Kind::kNull) return std::optional<int>();
  TSR_ASSIGN_OR_RETURN(const int index, find_mesh(view));
  return std::optional<int>(index);
}

StatusOr<ProgramValue> ValueReader::read_value(const JsonView& view, Declared declared) const {
  if (declared == Declared::kBefore) {
    TSR_RETURN_IF_ERROR(view.check_keys({"name", "shape", "dtype", "mesh", "role"},
                                        {"placements", "layout", "varies", "module", "count"}));
  } else {
    TSR_RETURN_IF_ERROR(view.check_keys({"name", "shape", "dtype", "mesh"},
                                        {"placements", "layout", "varies", "role"}));
  }
  ProgramValue value;
  TSR_ASSIGN_OR_RETURN(value.name, text_at(view, "name"));
  if (value.name.empty()) return view.find("name")->error("\"\": a value needs a name");
  TSR_RETURN_IF_ERROR(read_type(view, value));
  TSR_RETURN_IF_ERROR(read_placing(view, value));
  TSR_RETURN_IF_ERROR(read_varies(view, value));
  if (const std::optional<JsonView> role = view.find("role")) {
    constexpr std::array kAllowed = {ValueRole::kInput, ValueRole::kParameter, ValueRole::kState,
                                     ValueRole::kBuffer, ValueRole::kTemporary};
    TSR_ASSIGN_OR_RETURN(value.role, read_choice(*role, kAllowed));
    if (declared == Declared::kBefore && value.role == ValueRole::kTemporary) {
      return role->error(
          "\"temporary\": what is there before the first step is an input, parameter, state or "
          "buffer");
    }
  }
  TSR_ASSIGN_OR_RETURN(value.module, module_at(view));
  if (const std::optional<JsonView> count = view.find("count")) {
    TSR_ASSIGN_OR_RETURN(value.count, count->integer_in(1, kMaxRepeats));
  }
  return value;
}

Status ValueReader::read_placing(const JsonView& view, ProgramValue& value) const {
  TSR_ASSIGN_OR_RETURN(value.mesh, read_mesh_name(*view.find("mesh")));
  const std::optional<JsonView> placements = view.find("placements");
  const std::optional<JsonView> layout = view.find("layout");
  if (placements && layout) return layout->error("stands beside \"placements\"; give one");
  if (layout) {
    TSR_RETURN_IF_ERROR(layout->members().status());
    return read_layout_of(*layout, value);
  }
  if (!placements || placements->kind() == Json::Kind::kNull) return absl::OkStatus();
  TSR_RETURN_IF_ERROR(placements->items().status());
  return read_layout_of(*placements, value);
}

Status ValueReader::read_layout_of(const JsonView& view, ProgramValue& value) const {
  value.layout.reset();
  if (view.kind() == Json::Kind::kNull) return absl::OkStatus();
  if (!value.mesh) {
    return view.error("placements of a value without a mesh; name its mesh, or give null");
  }
  const Mesh& mesh = meshes_[static_cast<std::size_t>(*value.mesh)].mesh;
  TSR_ASSIGN_OR_RETURN(value.layout,
                       read_placements_or_layout(view, mesh, view_of(value.global_shape)));
  return absl::OkStatus();
}

Status ValueReader::read_varies(const JsonView& view, ProgramValue& value) const {
  const std::optional<JsonView> varies = view.find("varies");
  if (!varies) return absl::OkStatus();
  TSR_ASSIGN_OR_RETURN(value.varies, varies->texts({.most = kMaxDims, .what = "axes"}));
  for (const std::string& axis : value.varies) {
    if (!axis_names_.contains(axis)) {
      return varies->error(in_quotes(axis) + ": no mesh of the program has such an axis");
    }
    if (std::ranges::count(value.varies, axis) > 1) {
      return varies->error(in_quotes(axis) + " stands there twice");
    }
    if (!value.mesh) continue;
    if (meshes_[static_cast<std::size_t>(*value.mesh)].mesh.find_axis(axis).ok()) {
      return varies->error("along " + in_quotes(axis) +
                           ", an axis of its own mesh, its placements say what varies");
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera
