// tests/support/builtin_ops.h: the table of built-in ops, made once for a test program.
#pragma once

#include "strategies/rules/op.h"

namespace tessera::testing {

inline const OpTable& builtin_ops() {
  static const OpTable* const table = [] {
    auto* made = new OpTable;
    add_builtin_ops(*made);
    return made;
  }();
  return *table;
}

}  // namespace tessera::testing
