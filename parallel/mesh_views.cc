#include "parallel/mesh_views.h"

#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"

namespace tessera {
namespace {

struct Degree {
  const char* name;
  std::int64_t value;
};

Status check_degrees(const ParallelConfig& config) {
  const std::array<Degree, 7> degrees = {{{"pp", config.pp},
                                          {"dp_replicate", config.dp_replicate},
                                          {"dp_shard", config.dp_shard},
                                          {"cp", config.cp},
                                          {"tp", config.tp},
                                          {"ep", config.ep},
                                          {"etp", config.etp}}};
  for (const Degree& degree : degrees) {
    if (degree.value < 1) {
      return invalid_argument(absl::StrFormat("parallel: %s is %d; a degree is at least 1%s",
                                              degree.name, degree.value,
                                              std::string_view(degree.name) == "dp_shard"
                                                  ? " (dp_shard may be -1: what the others leave)"
                                                  : ""));
    }
  }
  return absl::OkStatus();
}

/// Axes that a view has whatever their size, so that its main axes can always be named.
bool is_kept(std::string_view axis) {
  return axis == "dp_shard" || axis == "tp" || axis == "efsdp" || axis == "ep";
}

StatusOr<Mesh> make_view(std::initializer_list<Degree> axes, std::int64_t first_rank) {
  Shape shape;
  std::vector<std::string> names;
  for (const Degree& axis : axes) {
    if (axis.value == 1 && !is_kept(axis.name)) continue;
    shape.push_back(axis.value);
    names.emplace_back(axis.name);
  }
  return Mesh::make(view_of(shape), std::move(names), first_rank);
}

struct NamedPlacement {
  std::string_view axis;
  Placement placement;
};

Placements on_axes(const Mesh& mesh, std::initializer_list<NamedPlacement> by_name) {
  Placements placements;
  for (const MeshAxis& axis : mesh.axes()) {
    for (const NamedPlacement& named : by_name) {
      if (named.axis == axis.name) placements.push_back(named.placement);
    }
  }
  return placements;
}

std::vector<int> axes_named(const Mesh& mesh, std::initializer_list<std::string_view> names) {
  std::vector<int> axes;
  for (int axis = 0; axis < mesh.ndim(); ++axis) {
    for (const std::string_view name : names) {
      if (mesh.axis(axis).name == name) axes.push_back(axis);
    }
  }
  return axes;
}

}  // namespace

StatusOr<MeshViews> MeshViews::make(const ParallelConfig& given, std::int64_t num_ranks) {
  ParallelConfig config = given;
  const std::int64_t others = config.pp * config.dp_replicate * config.cp * config.tp;
  if (config.dp_shard == -1 && others > 0 && num_ranks % others == 0) {
    config.dp_shard = num_ranks / others;
  }
  TSR_RETURN_IF_ERROR(check_degrees(config));
  if (others * config.dp_shard != num_ranks) {
    return invalid_argument(
        absl::StrFormat("parallel: pp %d x dp_replicate %d x dp_shard %d x cp %d x tp %d is %d "
                        "ranks, but there are %d; "
                        "the product must be the number of ranks",
                        config.pp, config.dp_replicate, config.dp_shard, config.cp, config.tp,
                        others * config.dp_shard, num_ranks));
  }
  const std::int64_t stage_ranks = config.dp_shard * config.cp * config.tp;
  if (stage_ranks % (config.ep * config.etp) != 0) {
    return invalid_argument(absl::StrFormat(
        "parallel: ep %d x etp %d does not divide dp_shard %d x cp %d x tp %d = %d; both are "
        "borrowed from those axes",
        config.ep, config.etp, config.dp_shard, config.cp, config.tp, stage_ranks));
  }
  MeshViews views;
  views.config_ = config;
  return views.at_stage(0);
}

StatusOr<MeshViews> MeshViews::at_stage(std::int64_t stage) const {
  if (stage < 0 || stage >= config_.pp) {
    return invalid_argument(
        absl::StrFormat("parallel: stage %d; there are %d (0 is the first)", stage, config_.pp));
  }
  MeshViews views = *this;
  views.stage_ = stage;
  const std::int64_t first_rank = stage * config_.dp_replicate * fsdp() * tp();
  TSR_ASSIGN_OR_RETURN(views.dense_, make_view({{"dp_replicate", config_.dp_replicate},
                                                {"dp_shard", config_.dp_shard},
                                                {"cp", config_.cp},
                                                {"tp", config_.tp}},
                                               first_rank));
  TSR_ASSIGN_OR_RETURN(views.sparse_, make_view({{"dp_replicate", config_.dp_replicate},
                                                 {"efsdp", efsdp()},
                                                 {"ep", config_.ep},
                                                 {"etp", config_.etp}},
                                                first_rank));
  return views;
}

Placements MeshViews::on_dense(const DensePlacement& placement) const {
  return on_axes(dense_, {{"dp_replicate", placement.dp_replicate},
                          {"dp_shard", placement.dp_shard},
                          {"cp", placement.cp},
                          {"tp", placement.tp}});
}

Placements MeshViews::on_sparse(const SparsePlacement& placement) const {
  return on_axes(sparse_, {{"dp_replicate", placement.dp_replicate},
                           {"efsdp", placement.efsdp},
                           {"ep", placement.ep},
                           {"etp", placement.etp}});
}

std::vector<int> MeshViews::dense_axes(std::initializer_list<std::string_view> names) const {
  return axes_named(dense_, names);
}

std::vector<int> MeshViews::sparse_axes(std::initializer_list<std::string_view> names) const {
  return axes_named(sparse_, names);
}

Status MeshViews::check_heads(std::string_view layer, std::int64_t num_heads) const {
  if (num_heads % tp() == 0) return absl::OkStatus();
  return invalid_argument(
      absl::StrFormat("%s: n_heads %d is not a multiple of tp %d", layer, num_heads, tp()));
}

Status MeshViews::check_experts(std::string_view layer, std::int64_t num_experts) const {
  if (!config_.strict_even || num_experts % ep() == 0) return absl::OkStatus();
  return invalid_argument(
      absl::StrFormat("%s: num_experts %d is not a multiple of ep %d, which strict_even forbids",
                      layer, num_experts, ep()));
}

}  // namespace tessera
