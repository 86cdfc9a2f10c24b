// StableHLO in MLIR's generic form, loops, branches, and modules with several meshes.
#include <catch2/catch.hpp>

#include "tests/program/stablehlo_steps.h"

namespace tessera {
namespace {

using testing::kMesh;
using testing::read_module;
using testing::read_steps;
using testing::steps_of;

/// An operation in generic form, of the values x and w, as the program says it.
std::string generic(const std::string& op, const std::string& type) {
  return steps_of(read_steps("    %0 = \"stablehlo." + op + " -> " + type, type));
}

TEST_CASE("the generic form says the same", "[program][stablehlo]") {
  CHECK(generic("transpose\"(%arg0) <{permutation = array<i64: 1, 0>}> : (tensor<8x16xf32>)",
                "tensor<16x8xf32>") == "permute(x){dims:[1,0]}");
  CHECK(generic("broadcast_in_dim\"(%arg0) <{broadcast_dimensions = array<i64: 1, 2>}> : "
                "(tensor<8x16xf32>)",
                "tensor<3x8x16xf32>") == "view(x){size:[1,8,16]}; expand(%0.view){size:[3,8,16]}");
  CHECK(generic("dot_general\"(%arg0, %arg1) <{dot_dimension_numbers = "
                "#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = "
                "[0]>}> : (tensor<8x16xf32>, tensor<16x4xf32>)",
                "tensor<8x4xf32>") == "mm(x,w)");
  CHECK(generic("slice\"(%arg0) <{limit_indices = array<i64: 4, 16>, start_indices = array<i64: 2, "
                "0>, strides = array<i64: 1, 1>}> : (tensor<8x16xf32>)",
                "tensor<2x16xf32>") == "slice(x){dim:0,start:2,end:4,step:1}");
  CHECK(generic("concatenate\"(%arg0, %arg0) <{dimension = 0 : i64}> : (tensor<8x16xf32>, "
                "tensor<8x16xf32>)",
                "tensor<16x16xf32>") == "cat([x,x]){dim:0}");
  CHECK(generic("compare\"(%arg0, %arg0) <{comparison_direction = "
                "#stablehlo<comparison_direction LE>}> : (tensor<8x16xf32>, tensor<8x16xf32>)",
                "tensor<8x16xi1>") == "le(x,x)");
  CHECK(steps_of(read_steps(
            "    %c = \"stablehlo.constant\"() <{value = dense<0.0> : tensor<f32>}> : () -> "
            "tensor<f32>\n    %0 = \"stablehlo.reduce\"(%arg0, %c) <{dimensions = array<i64: "
            "0>}> ({\n    ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n      %s = "
            "\"stablehlo.add\"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>\n      "
            "\"stablehlo.return\"(%s) : (tensor<f32>) -> ()\n    }) : (tensor<8x16xf32>, "
            "tensor<f32>) -> tensor<16xf32>",
            "tensor<16xf32>")) == "sum(x){dim:[0],keepdim:false}");
}

TEST_CASE("parts whose place is known only when it runs are rows of one dim",
          "[program][stablehlo]") {
  const std::string head =
      "func.func @main(%w: tensor<3x8x4xf32> loc(\"w\"), %i: tensor<i32> loc(\"i\"), %u: "
      "tensor<1x8x4xf32> loc(\"u\")) -> ";
  const std::string zero = "  %c = stablehlo.constant dense<0> : tensor<i32>\n  %0 = stablehlo.";
  CHECK(steps_of(read_module(
            head + "tensor<1x8x4xf32> {\n" + zero +
            "dynamic_slice %w, %i, %c, %c, sizes = [1, 8, 4] : (tensor<3x8x4xf32>, tensor<i32>, "
            "tensor<i32>, tensor<i32>) -> tensor<1x8x4xf32>\n  return %0 : "
            "tensor<1x8x4xf32>\n}\n")) == "view(i){size:[1]}; index_select(w,%0.view){dim:0}");
  CHECK(steps_of(read_module(
            head + "tensor<3x8x4xf32> {\n" + zero +
            "dynamic_update_slice %w, %u, %i, %c, %c : (tensor<3x8x4xf32>, tensor<1x8x4xf32>, "
            "tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x8x4xf32>\n  return %0 : "
            "tensor<3x8x4xf32>\n}\n")) == "view(i){size:[1]}; index_copy(w,%0.view,u){dim:0}");
  CHECK(steps_of(read_module(
            head + "tensor<1x8x4xf32> {\n" + zero +
            "dynamic_slice %w, %c, %c, %c, sizes = [1, 8, 4] : (tensor<3x8x4xf32>, tensor<i32>, "
            "tensor<i32>, tensor<i32>) -> tensor<1x8x4xf32>\n  return %0 : "
            "tensor<1x8x4xf32>\n}\n")) == "slice(w){dim:0,start:0,end:1,step:1}");
}

/// x goes round, w passes; the counter goes from `begin` by `by` to 5.
std::string loop(const std::string& begin, const std::string& by,
                 const std::string& direction = "LT") {
  return "    %b = stablehlo.constant dense<" + begin +
         "> : tensor<i32>\n"
         "    %1:3 = stablehlo.while(%x = %arg0, %i = %b, %w = %arg1) : tensor<8x16xf32>, "
         "tensor<i32>, tensor<16x4xf32>\n    cond {\n"
         "      %n = stablehlo.constant dense<5> : tensor<i32>\n"
         "      %less = stablehlo.compare " +
         direction +
         ", %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
         "      stablehlo.return %less : tensor<i1>\n    } do {\n"
         "      %d = stablehlo.constant dense<" +
         by +
         "> : tensor<i32>\n"
         "      %t = stablehlo.tanh %x : tensor<8x16xf32>\n"
         "      %j = stablehlo.add %i, %d : tensor<i32>\n"
         "      stablehlo.return %t, %j, %w : tensor<8x16xf32>, tensor<i32>, tensor<16x4xf32>\n"
         "    }\n"
         "    %0 = stablehlo.dot_general %1#0, %1#2, contracting_dims = [1] x [0] : "
         "(tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>";
}

TEST_CASE("a loop whose counter goes up by one to a number is a repeat", "[program][stablehlo]") {
  const Program program = read_steps(loop("2", "1"), "tensor<8x4xf32>");
  REQUIRE(program.steps.size() == 4);
  CHECK(std::get<CallStep>(program.steps[0].what).op == "clone");
  CHECK(std::get<RegionStep>(program.steps[1].what).name == "stablehlo.constant");
  const auto& repeat = std::get<RepeatStep>(program.steps[2].what);
  CHECK(repeat.count == 3);
  CHECK(steps_of(program, repeat.steps) == "tanh(%1#0); add_scalar(%1#1){value:1.0}");
  CHECK(repeat.carry ==
        std::vector<std::pair<std::string, std::string>>{{"%1#0", "%1/%t"}, {"%1#1", "%1/%j"}});
  // After it the names stand for the last round's; what passes is no other value.
  CHECK(steps_of(program, {program.steps[3]}) == "mm(%1#0,w)");
  for (const std::string& other : {loop("2", "2"), loop("2", "1", "LE"), loop("7", "1")}) {
    const Program region = read_steps(other, "tensor<8x4xf32>");
    CHECK(steps_of(region) == "[stablehlo.constant](); [stablehlo.while](x,%b,w); mm(%1#0,%1#2)");
    CHECK(std::get<RegionStep>(region.steps[1].what).warning ==
          "a loop's rounds are counted as one; what it would move by its placements is not known");
  }
}

TEST_CASE("branches are a region that counts them all", "[program][stablehlo]") {
  const Program program = read_module(
      "func.func @main(%p: tensor<i1> loc(\"p\"), %a: tensor<4x4xf32> loc(\"a\")) -> "
      "tensor<4x4xf32> {\n"
      "  %0 = \"stablehlo.if\"(%p) ({\n"
      "    %1 = stablehlo.dot %a, %a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>\n"
      "    stablehlo.return %1 : tensor<4x4xf32>\n  }, {\n"
      "    stablehlo.return %a : tensor<4x4xf32>\n  }) : (tensor<i1>) -> tensor<4x4xf32>\n"
      "  return %0 : tensor<4x4xf32>\n}\n");
  CHECK(steps_of(program) == "[stablehlo.if](p)");
  CHECK(std::get<RegionStep>(program.steps[0].what).flops == 2 * 4 * 4 * 4);
}

TEST_CASE("composites are known by name, or by the function that says the same",
          "[program][stablehlo]") {
  const std::string rest =
      "    return %0 : tensor<8x16xf32>\n  }\n  func.func private @impl(%a: tensor<8x16xf32>) -> "
      "tensor<8x16xf32> {\n    %0 = stablehlo.sine %a : tensor<8x16xf32>\n";
  const auto composite = [&](const std::string& name) {
    return steps_of(read_module(
        "module {\n  func.func @main(%arg0: tensor<8x16xf32> loc(\"x\")) -> tensor<8x16xf32> {\n"
        "    %0 = stablehlo.composite \"" +
        name + "\" %arg0 {decomposition = @impl} : (tensor<8x16xf32>) -> tensor<8x16xf32>\n" +
        rest + "    return %0 : tensor<8x16xf32>\n  }\n}\n"));
  };
  CHECK(composite("chlo.erf") == "erf(x)");
  CHECK(composite("my.wave") == "sin(x)");
}

TEST_CASE("values are on the mesh that their sharding names, and what is made of them too",
          "[program][stablehlo]") {
  const Program program = read_module(
      "module {\n" + kMesh +
      "  sdy.mesh @line = <[\"x\"=8]>\n"
      "  func.func @main(%arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@line, [{\"x\"}, "
      "{}]>}, %arg1: tensor<4xf32>) -> tensor<8x16xf32> {\n"
      "    %0 = stablehlo.tanh %arg0 : tensor<8x16xf32>\n"
      "    return %0 : tensor<8x16xf32>\n  }\n}\n");
  CHECK(program.values[0].mesh == 1);
  CHECK(program.values[1].mesh == 0);
  CHECK(std::get<CallStep>(program.steps[0].what).out[0].mesh == 1);
}

}  // namespace
}  // namespace tessera
