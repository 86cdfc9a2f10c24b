// program/export/torch_module.h: a placed program as a Python module that places a PyTorch model
// so.
#pragma once

#include <string>

#include "placement/api.h"
#include "program/program.h"

namespace tessera TSR_API {

/// A module's text: `device_mesh()`, `parallelize(model, mesh)` and `distribute_inputs(mesh, …)`.
/// Parameters are distributed by name; on a mesh of one axis modules that fit one have a style of
/// tensor parallelism (ColwiseParallel and the like), else what moves at a module's border is a
/// hook there. Activations stay DTensors. What moves inside of a module is left to DTensor's own
/// dispatch, and listed. The backward pass is autograd's. Repeats are written out, equal layers
/// share a line. docs/leaving.md has the rules. Errors: FailedPrecondition for a value without
/// placements; InvalidArgument for values on several meshes, and for a parameter or input that no
/// list of placements says; those of unfold(). Cost: O(steps of all rounds · depth of modules).
StatusOr<std::string> torch_module_of(const Program& program);

}  // namespace tessera
