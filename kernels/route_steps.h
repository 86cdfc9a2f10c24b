// kernels/route_steps.h: what route_topk asks of its operands, on every device, and the kernels of
// its steps one after the other: what the processor runs, and devices where their one kernel has no
// room for a row.
#pragma once

#include "kernels/route.h"

namespace tessera::kernels {

/// Errors: InvalidArgument, naming the operand.
void check_route(const RouteOperands& from, const RouteResults& to);
void route_in_steps(KernelContext& ctx, const RouteOptions& options, const RouteOperands& from,
                    const RouteResults& to);

}  // namespace tessera::kernels
