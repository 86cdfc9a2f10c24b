// tests/program/stablehlo_steps.h: modules of StableHLO in a test, and their programs as short
// texts.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "program/program_json.h"
#include "program/stablehlo/program_of_stablehlo.h"
#include "tests/support/builtin_ops.h"

namespace tessera::testing {

inline Program read_module(const std::string& text) {
  Program program = value_or_throw(program_of_stablehlo(text, "m.mlir", testing::builtin_ops()));
  // What is made is what the reader of programs takes.
  const std::string written = write_program(program);
  CHECK(value_or_throw(read_program(written, "again", testing::builtin_ops())) == program);
  return program;
}

inline const std::string kMesh = "  sdy.mesh @mesh = <[\"dp\"=2, \"tp\"=4]>\n";

/// A module whose function takes x, F32[8, 16], and w, F32[16, 4], and returns its last result.
inline Program read_steps(const std::string& body, const std::string& type = "tensor<8x16xf32>",
                          const std::string& last = "%0") {
  return read_module("module @m {\n" + kMesh +
                     "  func.func public @main(%arg0: tensor<8x16xf32> loc(\"x\"), %arg1: "
                     "tensor<16x4xf32> loc(\"w\")) -> " +
                     type + " {\n" + body + "\n    return " + last + " : " + type + "\n  }\n}\n");
}

/// "mul_scalar(x){value:2.0}" for a call, "[stablehlo.sort](x)" for a region, "x -> (S(0), R)"
/// for a redistribution.
inline std::string text_of(const Program& program, const AnyStep& step) {
  const auto args_text = [](const Json::Array& args) {
    std::string text = Json(args).to_string();
    text = absl::StrReplaceAll(text, {{"\"", ""}});
    return "(" + text.substr(1, text.size() - 2) + ")";
  };
  if (const auto* call = std::get_if<CallStep>(&step.what)) {
    const std::string attrs = call->attrs.empty() ? "" : Json(call->attrs).to_string();
    return call->op + args_text(call->args) + absl::StrReplaceAll(attrs, {{"\"", ""}});
  }
  if (const auto* region = std::get_if<RegionStep>(&step.what)) {
    return "[" + region->name + "]" + args_text(region->args);
  }
  const auto& move = std::get<MoveStep>(step.what);
  const StatusOr<Spec> spec = spec_of(program, move.out);
  return move.value + " -> " +
         (spec.ok() ? to_string(value_or_throw(spec->placements())) : std::string("free"));
}

inline std::string steps_of(const Program& program, const std::vector<AnyStep>& steps) {
  std::vector<std::string> texts;
  for (const AnyStep& step : steps) texts.push_back(text_of(program, step));
  return absl::StrJoin(texts, "; ");
}
inline std::string steps_of(const Program& program) { return steps_of(program, program.steps); }

}  // namespace tessera::testing
