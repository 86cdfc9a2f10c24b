#include "moe/train/placement_table.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "io/placement_json.h"
#include "moe/train/model.h"
#include "runtime/sim/sim_world.h"

namespace tessera {
namespace {

std::string placed(const Spec& spec) {
  const StatusOr<Placements> placements = spec.placements();
  return placements.ok() ? to_string(*placements) : spec.to_string();
}

Shape first_local_shape(const Spec& spec) {
  return spec.local_shape(*spec.mesh().coord_of(spec.mesh().first_rank()));
}

}  // namespace

StatusOr<std::vector<PlacedParameter>> placed_parameters(const ModelConfig& config,
                                                         const ParallelConfig& parallel,
                                                         std::int64_t num_ranks, DType dtype) {
  TSR_ASSIGN_OR_RETURN(const MeshViews views, MeshViews::make(parallel, num_ranks));
  std::vector<PlacedParameter> placed;
  for (std::int64_t stage = 0; stage < parallel.pp; ++stage) {
    TSR_ASSIGN_OR_RETURN(const MeshViews own, views.at_stage(stage));
    TSR_ASSIGN_OR_RETURN(const std::unique_ptr<World> world,
                         make_sim_world(own.dense().first_rank(), num_ranks));
    try {
      Runtime runtime(*world);
      Model model(runtime, own, config, dtype);
      for (const Parameter& parameter : model.parameters().all()) {
        placed.push_back(
            {parameter.name(), stage, parameter.stored().spec(), parameter.used_spec()});
      }
    } catch (const Error& error) {
      return error.status();
    }
  }
  return placed;
}

std::string describe_placements(const std::vector<PlacedParameter>& parameters) {
  using Row = std::array<std::string, 5>;
  std::vector<Row> rows = {{"parameter", "shape", "mesh", "placements", "first rank holds"}};
  for (const PlacedParameter& each : parameters) {
    rows.push_back({each.name, to_string(each.stored.global_shape()),
                    each.stored.mesh().to_string(), placed(each.stored),
                    to_string(first_local_shape(each.stored))});
  }
  std::array<std::size_t, 5> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
      out += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
    }
    out += row.back() + "\n";
  }
  return out;
}

Json placements_json(const std::vector<PlacedParameter>& parameters) {
  Json list{Json::Array{}};
  for (const PlacedParameter& each : parameters) {
    const Shape local = first_local_shape(each.stored);
    Json object = Json::object(
        {{"name", each.name},
         {"stage", each.stage},
         {"tensor", to_json(TensorType{each.stored.global_shape(), each.stored.dtype()})},
         {"mesh", to_json(each.stored.mesh())}});
    add_placements(object, each.stored);
    Json used = Json::object({});
    add_placements(used, each.used);
    object.set("used", std::move(used));
    object.set("local_shape", Json(Json::Array(local.begin(), local.end())));
    list.push(std::move(object));
  }
  return Json::object({{"parameters", std::move(list)}});
}

}  // namespace tessera
