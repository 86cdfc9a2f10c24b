#include "io/placement_json.h"

#include "absl/strings/str_format.h"

namespace tessera {
namespace {

// An axis each, and the cuts that a layout may have in a dim.
constexpr JsonBound kAxes = {kMaxDims, "axes"};
constexpr JsonBound kLevels = {2 * kMaxDims, "levels"};

Json to_json_array(ShapeView sizes) { return Json(Json::Array(sizes.begin(), sizes.end())); }

StatusOr<Level> read_level(const JsonView& view, const Mesh& mesh) {
  std::string text;
  if (view.kind() == Json::Kind::kInteger) {
    TSR_ASSIGN_OR_RETURN(const std::int64_t position, view.integer());
    text = std::to_string(position);
  } else if (view.kind() == Json::Kind::kString) {
    TSR_ASSIGN_OR_RETURN(text, view.text());
  } else {
    return view.error(
        absl::StrFormat("expected a level such as \"tp\", 0, \"tp%%3\", \"/4\" or \"3*\", not %s",
                        describe(view.kind())));
  }
  StatusOr<Level> level = parse_level(mesh, text);
  if (!level.ok()) return view.annotate(level.status());
  return level;
}

Json level_to_json(const Mesh& mesh, const Level& level) {
  const bool plain_axis = level.kind == Level::Kind::kAxis && level.grain == 1;
  if (plain_axis && mesh.axis(level.axis).name.empty()) return Json(level.axis);
  return Json(level_to_string(mesh, level));
}

Status read_partial(const JsonView& view, const Mesh& mesh, Layout& layout) {
  TSR_ASSIGN_OR_RETURN(const auto members, view.members());
  for (const auto& [axis_name, kind] : members) {
    const StatusOr<int> axis = mesh.find_axis(axis_name);
    if (!axis.ok()) return view.annotate(axis.status());
    auto& entry = layout.partial[static_cast<std::size_t>(*axis)];
    if (entry) return kind.error("the axis is Partial already");
    TSR_ASSIGN_OR_RETURN(const std::string op_name, kind.text());
    const StatusOr<ReduceOp> op = parse_reduce_op(op_name);
    if (!op.ok()) return kind.annotate(op.status());
    entry = *op;
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<Mesh> read_mesh(const JsonView& view) {
  TSR_RETURN_IF_ERROR(view.check_keys({"shape"}, {"axes", "first_rank"}));
  return read_mesh_members(view);
}

StatusOr<Mesh> read_mesh_members(const JsonView& view) {
  TSR_ASSIGN_OR_RETURN(const JsonView shape_view, view.at("shape"));
  TSR_ASSIGN_OR_RETURN(const std::vector<std::int64_t> shape, shape_view.integers(kAxes));
  std::int64_t first_rank = 0;
  if (const std::optional<JsonView> first = view.find("first_rank")) {
    TSR_ASSIGN_OR_RETURN(first_rank, first->integer_in(0, INT64_MAX));
  }
  std::vector<std::string> names;
  if (const std::optional<JsonView> axes = view.find("axes")) {
    TSR_ASSIGN_OR_RETURN(names, axes->texts(kAxes));
    if (names.size() != shape.size()) {
      return axes->error(absl::StrFormat("%d names for a mesh of %d axes; name each, or none",
                                         names.size(), shape.size()));
    }
  }
  StatusOr<Mesh> mesh = Mesh::make(shape, std::move(names), first_rank);
  if (!mesh.ok()) return view.annotate(mesh.status());
  return mesh;
}

Json to_json(const Mesh& mesh) {
  Json json = Json::object({{"shape", to_json_array(view_of(mesh.shape()))}});
  Json::Array names;
  for (const MeshAxis& axis : mesh.axes()) {
    if (!axis.name.empty()) names.push_back(Json(axis.name));
  }
  if (!names.empty()) json.set("axes", Json(std::move(names)));
  if (mesh.first_rank() != 0) json.set("first_rank", mesh.first_rank());
  return json;
}

StatusOr<TensorType> read_tensor_type(const JsonView& view) {
  TSR_RETURN_IF_ERROR(view.check_keys({"shape"}, {"dtype"}));
  TSR_ASSIGN_OR_RETURN(const JsonView shape_view, view.at("shape"));
  TSR_ASSIGN_OR_RETURN(const std::vector<std::int64_t> shape, shape_view.integers(kJsonDims));
  const StatusOr<std::int64_t> elements = checked_num_elements(shape);
  if (!elements.ok()) return shape_view.annotate(elements.status());
  TensorType tensor{.global_shape = to_shape(shape)};
  if (const std::optional<JsonView> dtype_view = view.find("dtype")) {
    TSR_ASSIGN_OR_RETURN(const std::string name, dtype_view->text());
    const StatusOr<DType> dtype = parse_dtype(name);
    if (!dtype.ok()) return dtype_view->annotate(dtype.status());
    tensor.dtype = *dtype;
  }
  return tensor;
}

Json to_json(const TensorType& tensor) {
  return Json::object(
      {{"shape", to_json_array(view_of(tensor.global_shape))}, {"dtype", name_of(tensor.dtype)}});
}

StatusOr<Placements> read_placements(const JsonView& view) {
  Placements placements;
  TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> items, view.items(kAxes));
  for (const JsonView& item : items) {
    TSR_ASSIGN_OR_RETURN(const std::string text, item.text());
    const StatusOr<Placement> placement = parse_placement(text);
    if (!placement.ok()) return item.annotate(placement.status());
    placements.push_back(*placement);
  }
  return placements;
}

Json to_json(std::span<const Placement> placements) {
  Json::Array texts;
  for (const Placement& placement : placements) texts.push_back(Json(to_string(placement)));
  return Json(std::move(texts));
}

StatusOr<Layout> read_layout(const JsonView& view, const Mesh& mesh, ShapeView global_shape) {
  TSR_RETURN_IF_ERROR(view.check_keys({"dims"}, {"partial"}));
  Layout layout;
  layout.partial.resize(static_cast<std::size_t>(mesh.ndim()));
  TSR_ASSIGN_OR_RETURN(const JsonView dims_view, view.at("dims"));
  TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> dims, dims_view.items(kJsonDims));
  for (const JsonView& dim : dims) {
    TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> levels, dim.items(kLevels));
    Levels& read = layout.dims.emplace_back();
    for (const JsonView& level_view : levels) {
      TSR_ASSIGN_OR_RETURN(const Level level, read_level(level_view, mesh));
      read.push_back(level);
    }
  }
  if (const std::optional<JsonView> partial = view.find("partial")) {
    TSR_RETURN_IF_ERROR(read_partial(*partial, mesh, layout));
  }
  TSR_RETURN_IF_ERROR(view.annotate(validate(mesh, global_shape, layout)));
  return canonical(mesh, global_shape, std::move(layout));
}

Json to_json(const Mesh& mesh, const Layout& layout) {
  Json::Array dims;
  for (const Levels& levels : layout.dims) {
    Json::Array texts;
    for (const Level& level : levels) texts.push_back(level_to_json(mesh, level));
    dims.push_back(Json(std::move(texts)));
  }
  Json json = Json::object({{"dims", Json(std::move(dims))}});
  Json partial{Json::Object()};
  for (std::size_t axis = 0; axis < layout.partial.size(); ++axis) {
    if (layout.partial[axis]) {
      partial.set(mesh.axis_label(static_cast<int>(axis)), Json(name_of(*layout.partial[axis])));
    }
  }
  if (!partial.if_object()->empty()) json.set("partial", std::move(partial));
  return json;
}

StatusOr<Layout> read_placements_or_layout(const JsonView& view, const Mesh& mesh,
                                           ShapeView global_shape) {
  if (view.kind() == Json::Kind::kObject) return read_layout(view, mesh, global_shape);
  if (view.kind() != Json::Kind::kArray) {
    return view.error(absl::StrFormat(
        "expected placements such as [\"S(0)\",\"R\"], or a layout {\"dims\":[…]}, not %s",
        describe(view.kind())));
  }
  TSR_ASSIGN_OR_RETURN(const Placements placements, read_placements(view));
  StatusOr<Layout> layout = decode(mesh, global_shape, placements);
  if (!layout.ok()) return view.annotate(layout.status());
  return layout;
}

void add_placements(Json& object, const Spec& spec) {
  const StatusOr<Placements> placements = spec.placements();
  if (placements.ok()) {
    object.set("placements", to_json(*placements));
  } else {
    object.set("layout", to_json(spec.mesh(), spec.layout()));
  }
}

}  // namespace tessera
