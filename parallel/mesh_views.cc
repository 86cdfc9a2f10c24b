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
  const std::array<Degree, 4> later = {{{"pp", config.pp},
                                        {"dp_replicate", config.dp_replicate},
                                        {"cp", config.cp},
                                        {"etp", config.etp}}};
  for (const Degree& degree : later) {
    if (degree.value > 1) {
      return unimplemented(absl::StrFormat(
          "parallel: %s is %d; this version composes dp_shard, tp and ep only, so %s must be 1",
          degree.name, degree.value, degree.name));
    }
  }
  return absl::OkStatus();
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
  const std::int64_t sparse_ranks = config.dp_shard * config.cp * config.tp;
  if (sparse_ranks % config.ep != 0) {
    return invalid_argument(
        absl::StrFormat("parallel: ep %d does not divide dp_shard %d x cp %d x tp %d = %d; ep is "
                        "borrowed from those axes",
                        config.ep, config.dp_shard, config.cp, config.tp, sparse_ranks));
  }
  MeshViews views;
  views.config_ = config;
  const std::array<std::int64_t, 2> dense = {config.dp_shard * config.cp, config.tp};
  const std::array<std::int64_t, 2> sparse = {sparse_ranks / config.ep, config.ep};
  TSR_ASSIGN_OR_RETURN(views.dense_, Mesh::make(dense, {"fsdp", "tp"}));
  TSR_ASSIGN_OR_RETURN(views.sparse_, Mesh::make(sparse, {"efsdp", "ep"}));
  return views;
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
