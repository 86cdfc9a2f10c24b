// A dispatcher of one's own: tessera's configs then know it by name.
#pragma once

#include "placement/status.h"

/// "dense": every token goes to every rank, and each expert computes all of them; weights say what
/// counts. It costs the products of all experts, and needs no counts, so that no size depends on
/// routing: for few experts, or for tests of what routing does to time.
tessera::Status add_dense_dispatcher();
