// program/stablehlo/inline_module.h: the steps of a function, those of what it calls in their
// places. Internal to program/stablehlo/.
#pragma once

#include "program/stablehlo/builder.h"

namespace tessera::stablehlo {

/// Declares the arguments of @main and appends its steps. Errors: InvalidArgument with the place.
Status inline_main(Builder& builder);

}  // namespace tessera::stablehlo
