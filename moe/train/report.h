// moe/train/report.h: what a training run shows a person: the transfers of all ranks, and how a
// layer's parameters lie.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "moe/train/model.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Every rank's totals, by rank. Collective: yes, over the world.
std::vector<std::vector<EventLog::Total>> gather_totals(World& world);

/// Transfers of every rank added up: a table by collective and mesh axes, then one by module
/// (layers together), each with count, bytes and whether the program asked for it. Units: bytes
/// received.
std::string describe_moves(std::span<const std::vector<EventLog::Total>> by_rank);

/// What each rank's memory was used for when it was fullest, and the most of each use at its own
/// time: parameters, gradients, optimizer state, gathered parameters, activations (the rest).
/// Collective: yes, over the world. Units: bytes as asked for; what rounding adds is not counted.
std::string describe_memory(World& world);

/// A picture of the parameters of layer `layer` (−1: the last one of this rank): each with its
/// shape and placements, and for every rank a bar along each cut dim that marks what it stores.
std::string describe_parameters(Model& model, std::int64_t layer);

}  // namespace tessera
