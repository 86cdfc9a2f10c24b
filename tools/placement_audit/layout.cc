#include <algorithm>

#include "absl/strings/str_format.h"
#include "io/placement_json.h"
#include "tools/placement_audit/command.h"
#include "tools/placement_audit/interval_bound.h"
#include "tools/placement_audit/layout_picture.h"

namespace tessera::audit {
namespace {

// An answer lists every rank and every interval: these bound its size, whatever the request says.
constexpr std::int64_t kMaxRanks = std::int64_t{1} << 20;
constexpr std::int64_t kMaxIntervals = std::int64_t{1} << 23;

StatusOr<Spec> read_spec(const JsonView& root) {
  TSR_RETURN_IF_ERROR(root.check_keys({"mesh", "tensor"}, {"placements", "layout"}));
  TSR_ASSIGN_OR_RETURN(const JsonView mesh_view, root.at("mesh"));
  TSR_ASSIGN_OR_RETURN(Mesh mesh, read_mesh(mesh_view));
  TSR_ASSIGN_OR_RETURN(const JsonView tensor_view, root.at("tensor"));
  TSR_ASSIGN_OR_RETURN(TensorType tensor, read_tensor_type(tensor_view));
  const std::optional<JsonView> placements = root.find("placements");
  const std::optional<JsonView> layout = root.find("layout");
  if (placements.has_value() == layout.has_value()) {
    return root.error("give one of \"placements\" and \"layout\"");
  }
  TSR_ASSIGN_OR_RETURN(Layout read, read_placements_or_layout(placements ? *placements : *layout,
                                                              mesh, view_of(tensor.global_shape)));
  return Spec::make(std::move(mesh), std::move(tensor.global_shape), tensor.dtype, std::move(read));
}

Status check_size(const Spec& spec) {
  const std::int64_t ranks = spec.mesh().num_ranks();
  if (ranks > kMaxRanks) {
    return invalid_argument(absl::StrFormat("mesh %s has %d ranks; at most %d are listed",
                                            spec.mesh().to_string(), ranks, kMaxRanks));
  }
  std::int64_t intervals = 0;
  for (int dim = 0; dim < spec.ndim(); ++dim) {
    intervals += interval_bound(spec.mesh(), spec.global_shape()[dim], spec.layout().dims[dim]);
    if (intervals > kMaxIntervals / ranks) {
      return invalid_argument(
          absl::StrFormat("%s would list more than %d intervals", spec.to_string(), kMaxIntervals));
    }
  }
  return absl::OkStatus();
}

Json integers(ShapeView values) { return Json(Json::Array(values.begin(), values.end())); }

Json intervals_of(const Spec& spec, const Coord& coord) {
  Json::Array dims;
  for (int dim = 0; dim < spec.ndim(); ++dim) {
    Json::Array intervals;
    for (const Interval& interval :
         local_intervals(spec.mesh(), spec.global_shape()[dim], spec.layout().dims[dim], coord)) {
      intervals.push_back(Json::array({interval.start, interval.stop}));
    }
    dims.push_back(Json(std::move(intervals)));
  }
  return Json(std::move(dims));
}

Json ranks_of(const Spec& spec) {
  Json::Array ranks;
  const std::int64_t count = spec.mesh().num_ranks();
  ranks.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t rank = spec.mesh().first_rank() + i;
    const Coord coord = *spec.mesh().coord_of(rank);
    ranks.push_back(Json::object({{"rank", rank},
                                  {"coord", integers(view_of(coord))},
                                  {"local_shape", integers(view_of(spec.local_shape(coord)))},
                                  {"intervals", intervals_of(spec, coord)}}));
  }
  return Json(std::move(ranks));
}

}  // namespace

StatusOr<Answer> layout(const Request& request) {
  TSR_ASSIGN_OR_RETURN(const JsonDocument document,
                       JsonDocument::parse(request.input, request.input_name));
  const JsonView root = document.root();
  TSR_ASSIGN_OR_RETURN(const Spec spec, read_spec(root));
  if (request.format == Format::kText) {
    StatusOr<std::string> picture = layout_picture(spec, request.colour);
    if (!picture.ok()) return root.annotate(picture.status());
    return Answer{.text = *std::move(picture)};
  }
  TSR_RETURN_IF_ERROR(root.annotate(check_size(spec)));
  return Answer{.text = json_line(Json::object(
                    {{"layout", to_json(spec.mesh(), spec.layout())}, {"ranks", ranks_of(spec)}}))};
}

}  // namespace tessera::audit
