// runtime/backend_api.h: what this layer shows to backends that are libraries of their own (MPI).
// Headers that say TSR_BACKEND_API are not installed: both libraries come from one build.
#pragma once

#include "placement/api.h"

#define TSR_BACKEND_API TSR_API
