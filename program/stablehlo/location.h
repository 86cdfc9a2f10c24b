// program/stablehlo/location.h: where an operation comes from: MLIR's locations as jax writes them,
// "jit(step)/transpose(jvp(loss))/mlp/mul" at a chain of lines. Internal to program/stablehlo/.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "program/program.h"
#include "program/stablehlo/mlir_statement.h"

namespace tessera::stablehlo {

/// What of a location a program says. `name` is that of an argument: "params['w']".
struct Location {
  std::string name;  ///< the first that stands in it, as written
  std::string site;  ///< "model.py:12"
};

class Locations {
 public:
  explicit Locations(const MlirText& text) : text_(&text) {}

  /// `#loc12 = loc(…)`: the lexer stands behind '='. A name that was there is overwritten.
  Status define(std::string_view alias, Lexer& lexer);
  /// What stands in the brackets behind loc. Unknown ones are empty. Cost: the length of its chain,
  /// once for each alias.
  Location of(const Node& brackets) const { return of(Nodes(brackets.inside), kMaxChain); }

 private:
  static constexpr int kMaxChain = 200;
  Location of(Nodes nodes, int depth) const;
  Location of_alias(std::string_view alias, int depth) const;

  const MlirText* text_;
  absl::flat_hash_map<std::string, std::size_t> places_;  ///< of the brackets in the text
  mutable absl::flat_hash_map<std::string, Location> known_;
};

/// The parts of a scope that name modules, joined by dots, and the phase that jax's transforms
/// tell: "jit(step)/transpose(jvp(loss))/mlp/mul" is "loss.mlp", backward. The last part is the
/// primitive: no module.
struct Scope {
  std::string module;
  std::optional<StepPhase> phase;
};
Scope parse_scope(std::string_view name);

}  // namespace tessera::stablehlo
