// tests/plan/placed_step.h: open steps of the parity models, placed on a mesh.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "moe/train/open_step.h"
#include "moe/train/plan_trainer.h"
#include "program/implicit_moves.h"
#include "program/solver/propagate_program.h"
#include "tests/moe/training_run.h"
#include "tests/support/builtin_ops.h"

namespace tessera::testing {

struct PlanJob {
  ModelConfig config;
  TokenData data;
};
inline PlanJob job_of(const std::string& model) {
  const std::string text = expected_results(model).find("config")->to_string();
  ModelConfig config = value_or_throw(parse_model_config(text, model));
  const std::vector<std::string> files = {parity_path(model, "tokens.safetensors")};
  TokenData data = value_or_throw(TokenData::read(files, config));
  return {std::move(config), std::move(data)};
}

inline ProgramMesh mesh_of(const Shape& shape) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < shape.size(); ++i) names.push_back(std::string(1, "xyz"[i]));
  return {.name = "m", .mesh = value_or_throw(Mesh::make(shape, names)), .stage = {}};
}

/// Inputs cut along the batch, all else whole, and what follows from it.
inline Program by_hand(const Program& open, const ProgramMesh& mesh) {
  Program placed = value_or_throw(free_on_mesh(open, mesh));
  for (ProgramValue& value : placed.values) {
    Placements placements(static_cast<std::size_t>(mesh.mesh.ndim()), Replicate{});
    if (value.role == ValueRole::kInput && value.global_shape.size() == 2) {
      placements[0] = Shard{0};
    }
    value.layout =
        value_or_throw(Spec::make(mesh.mesh, value.global_shape, value.dtype, placements)).layout();
  }
  return with_moves(std::move(placed), builtin_ops());
}

}  // namespace tessera::testing
