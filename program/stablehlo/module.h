// program/stablehlo/module.h: what stands around the operations of a module: its meshes, functions
// and locations. Bodies stay text until they are wanted. Internal to program/stablehlo/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "program/stablehlo/location.h"
#include "program/stablehlo/mlir_statement.h"
#include "program/stablehlo/sharding.h"

namespace tessera::stablehlo {

struct Argument {
  std::string name;  ///< "%arg0"; empty for a result
  TensorType type;
  std::optional<Sharding> sharding;
  std::string label;            ///< "params['w']", where a location says it
  std::optional<int> taken_by;  ///< the result that takes its place
  bool donated = false;         ///< some result of its type may
  std::size_t offset = 0;
};

struct Function {
  std::string name;
  std::vector<Argument> arguments, results;
  std::optional<std::size_t> body;  ///< where its text begins; none: declared only
  std::size_t offset = 0;
};

struct Module {
  explicit Module(const MlirText& given) : text(&given), meshes(given), locations(given) {}

  const MlirText* text;
  std::string name;
  Meshes meshes;
  Locations locations;
  std::vector<Function> functions;
  absl::flat_hash_map<std::string, int> by_name;
  /// An operation of its own carries a sharding: all of them are said, and what has none is whole
  /// everywhere.
  bool is_propagated = false;
};

/// Errors: InvalidArgument "source:line:col: …". Cost: O(text).
StatusOr<Module> read_module(const MlirText& text);

/// The arguments that "(%a: tensor<…> {…}, …)" declares.
StatusOr<std::vector<Argument>> read_arguments(const Module& module, Nodes inside);

}  // namespace tessera::stablehlo
