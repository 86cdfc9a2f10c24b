// dtensor/lowering.h: ops inside of which ranks talk. For this layer's sources only.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "dtensor/resolved_call.h"

namespace tessera {

/// What the window steps of a lowering move, from this rank's point of view.
std::vector<std::shared_ptr<const ExchangeBoxes>> plan_windows(const ResolvedCall& call,
                                                               const Coord& coord);
/// Interprets the steps of a lowering. Collective: yes, over the call's lowering axes.
void run_lowering(Runtime& runtime, const ResolvedCall& call, std::span<const Array> inputs,
                  std::span<Array> outputs, const Site& site);

}  // namespace tessera
