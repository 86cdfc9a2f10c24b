// Programs from StableHLO's text: what each operation, sharding and location becomes.
#include <catch2/catch.hpp>

#include "absl/strings/str_split.h"
#include "program/module_cost.h"
#include "program/stablehlo/op_map.h"
#include "program/stablehlo/program_of_stablehlo.h"
#include "tests/program/stablehlo_steps.h"

namespace tessera {
namespace {

using testing::builtin_ops;
using testing::kMesh;
using testing::read_module;
using testing::read_steps;
using testing::steps_of;

/// The steps of one operation of the value x, or of x and w.
std::string steps_of_op(const std::string& op, const std::string& type = "tensor<8x16xf32>") {
  return steps_of(read_steps("    %0 = " + op, type));
}

TEST_CASE("operations of StableHLO become ops of the table", "[program][stablehlo]") {
  const std::string same = " : tensor<8x16xf32>";
  CHECK(steps_of_op("stablehlo.exponential %arg0" + same) == "exp(x)");
  CHECK(steps_of_op("stablehlo.multiply %arg0, %arg0" + same) == "mul(x,x)");
  CHECK(steps_of_op("\"stablehlo.multiply\"(%arg0, %arg0) : (tensor<8x16xf32>, tensor<8x16xf32>) "
                    "-> tensor<8x16xf32>") == "mul(x,x)");
  CHECK(steps_of_op("stablehlo.convert %arg0 : (tensor<8x16xf32>) -> tensor<8x16xbf16>",
                    "tensor<8x16xbf16>") == "to(x){dtype:BF16}");
  CHECK(steps_of_op("stablehlo.transpose %arg0, dims = [1, 0] : (tensor<8x16xf32>) -> "
                    "tensor<16x8xf32>",
                    "tensor<16x8xf32>") == "permute(x){dims:[1,0]}");
  CHECK(steps_of_op("stablehlo.reshape %arg0 : (tensor<8x16xf32>) -> tensor<8x4x4xf32>",
                    "tensor<8x4x4xf32>") == "view(x){size:[8,4,4]}");
  CHECK(steps_of_op("stablehlo.broadcast_in_dim %arg0, dims = [0, 2] : (tensor<8x16xf32>) -> "
                    "tensor<8x3x16xf32>",
                    "tensor<8x3x16xf32>") ==
        "view(x){size:[8,1,16]}; expand(%0.view){size:[8,3,16]}");
  CHECK(steps_of_op("stablehlo.slice %arg0 [2:4, 0:16:2] : (tensor<8x16xf32>) -> tensor<2x8xf32>",
                    "tensor<2x8xf32>") ==
        "slice(x){dim:0,start:2,end:4,step:1}; slice(%0.slice){dim:1,start:0,end:16,step:2}");
  CHECK(steps_of_op("stablehlo.concatenate %arg0, %arg0, dim = 1 : (tensor<8x16xf32>, "
                    "tensor<8x16xf32>) -> tensor<8x32xf32>",
                    "tensor<8x32xf32>") == "cat([x,x]){dim:1}");
  CHECK(steps_of_op("stablehlo.reverse %arg0, dims = [0]" + same) == "flip(x){dims:[0]}");
  CHECK(steps_of_op("chlo.erf %arg0 : tensor<8x16xf32> -> tensor<8x16xf32>") == "erf(x)");
}

TEST_CASE("products become the op whose dims they have, else an equation", "[program][stablehlo]") {
  const auto dot = [](const std::string& dims, const std::string& left, const std::string& right,
                      const std::string& result) {
    return steps_of(read_module(
        "func.func @main(%a: tensor<" + left + "> loc(\"a\"), %b: tensor<" + right +
        "> loc(\"b\")) -> tensor<" + result + "> {\n  %0 = stablehlo.dot_general %a, %b, " + dims +
        ", precision = [DEFAULT, DEFAULT] : (tensor<" + left + ">, tensor<" + right +
        ">) -> tensor<" + result + ">\n  return %0 : tensor<" + result + ">\n}\n"));
  };
  CHECK(dot("contracting_dims = [1] x [0]", "8x16xf32", "16x4xf32", "8x4xf32") == "mm(a,b)");
  CHECK(dot("contracting_dims = [1] x [1]", "8x16xf32", "4x16xf32", "8x4xf32") == "linear(a,b)");
  CHECK(dot("contracting_dims = [2] x [0]", "2x8x16xf32", "16x4xf32", "2x8x4xf32") ==
        "matmul(a,b)");
  CHECK(dot("batching_dims = [0] x [0], contracting_dims = [2] x [1]", "2x8x16xf32", "2x16x4xf32",
            "2x8x4xf32") == "bmm(a,b)");
  CHECK(dot("contracting_dims = [0] x [0]", "8x16xf32", "8x4xf32", "16x4xf32") ==
        "einsum([a,b]){equation:ab,ac->bc}");
  // b q h k, b s h k: batch dims come first, then what is left of each.
  CHECK(dot("batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3]", "4x16x8x32xf32",
            "4x16x8x32xf32", "4x8x16x16xf32") == "einsum([a,b]){equation:adbc,aebc->abde}");
  // Products of 16 bits may be kept in 32.
  CHECK(dot("contracting_dims = [1] x [0]", "8x16xbf16", "16x4xbf16", "8x4xf32") == "mm(a,b)");
}

TEST_CASE("numbers everywhere are attributes, and tensors only where they must be",
          "[program][stablehlo]") {
  const auto with_number = [](const std::string& op, const std::string& number = "2.0") {
    return steps_of(read_steps("    %c = stablehlo.constant dense<" + number +
                               "> : tensor<f32>\n    %b = stablehlo.broadcast_in_dim %c, dims = [] "
                               ": (tensor<f32>) -> tensor<8x16xf32>\n    %0 = stablehlo." +
                               op + " : tensor<8x16xf32>"));
  };
  CHECK(with_number("multiply %b, %arg0") == "mul_scalar(x){value:2.0}");
  CHECK(with_number("subtract %arg0, %b") == "sub_scalar(x){value:2.0}");
  CHECK(with_number("subtract %b, %arg0") == "rsub_scalar(x){value:2.0}");
  CHECK(with_number("divide %arg0, %b") == "div_scalar(x){value:2.0}");
  CHECK(with_number("divide %b, %arg0") == "reciprocal(x); mul_scalar(%0.reciprocal){value:2.0}");
  CHECK(with_number("maximum %arg0, %b", "0.000000e+00") == "clamp_min(x){min:0.0}");
  CHECK(with_number("minimum %arg0, %b", "0x7F800000") == "clamp_max(x){max:inf}");
  CHECK(with_number("power %arg0, %b") == "pow(x){exponent:2.0}");
  CHECK(with_number("atan2 %arg0, %b") == "[stablehlo.constant](); atan2(x,%b)");
  CHECK(steps_of(read_steps("    %c = stablehlo.constant dense<3.0> : tensor<8x16xf32>\n"
                            "    %d = stablehlo.constant dense<2.0> : tensor<8x16xf32>\n"
                            "    %e = stablehlo.divide %c, %d : tensor<8x16xf32>\n"
                            "    %0 = stablehlo.add %arg0, %e : tensor<8x16xf32>")) ==
        "add_scalar(x){value:1.5}");
  const std::string mask =
      "    %c = stablehlo.constant dense<0.0> : tensor<8x16xf32>\n"
      "    %m = stablehlo.compare GT, %c, %arg0, FLOAT : (tensor<8x16xf32>, tensor<8x16xf32>) -> "
      "tensor<8x16xi1>\n    %0 = stablehlo.select %m, ";
  const std::string types = " : tensor<8x16xi1>, tensor<8x16xf32>";
  CHECK(steps_of(read_steps(mask + "%arg0, %c" + types)) ==
        "lt_scalar(x){value:0.0}; where_scalar(%m,x){other:0.0}");
  CHECK(steps_of(read_steps(mask + "%c, %arg0" + types)) ==
        "lt_scalar(x){value:0.0}; masked_fill(x,%m){value:0.0}");
}

TEST_CASE("folds that begin with what changes nothing are sums, maxima, and so on",
          "[program][stablehlo]") {
  const auto fold = [](const std::string& by, const std::string& first) {
    return steps_of(read_steps("    %c = stablehlo.constant dense<" + first +
                                   "> : tensor<f32>\n    %0 = stablehlo.reduce(%arg0 init: %c) "
                                   "applies stablehlo." +
                                   by +
                                   " across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> "
                                   "tensor<8xf32>",
                               "tensor<8xf32>"));
  };
  CHECK(fold("add", "0.000000e+00") == "sum(x){dim:[1],keepdim:false}");
  CHECK(fold("maximum", "0xFF800000") == "amax(x){dim:[1],keepdim:false}");
  CHECK(fold("minimum", "0x7F800000") == "amin(x){dim:[1],keepdim:false}");
  CHECK(fold("multiply", "1.0") == "prod(x){dim:[1],keepdim:false}");
  CHECK(fold("add", "1.0") == "[stablehlo.constant](); [stablehlo.reduce](x,%c)");
  const Program cumsum = read_steps(
      "    %c = stablehlo.constant dense<0.0> : tensor<f32>\n"
      "    %0 = \"stablehlo.reduce_window\"(%arg0, %c) <{padding = dense<[[7, 0], [0, 0]]> : "
      "tensor<2x2xi64>, window_dimensions = array<i64: 8, 1>}> ({\n    ^bb0(%a: tensor<f32>, %b: "
      "tensor<f32>):\n      %s = stablehlo.add %a, %b : tensor<f32>\n      stablehlo.return %s : "
      "tensor<f32>\n    }) : (tensor<8x16xf32>, tensor<f32>) -> tensor<8x16xf32>");
  CHECK(steps_of(cumsum) == "cumsum(x){dim:0}");
}

TEST_CASE("rows by their numbers are embeddings, and their gradients index_add",
          "[program][stablehlo]") {
  const std::string head =
      "func.func @main(%t: tensor<32x16xf32> loc(\"t\"), %i: tensor<8x1xi32> loc(\"i\"), %u: "
      "tensor<8x16xf32> loc(\"u\")) -> ";
  CHECK(steps_of(read_module(
            head +
            "tensor<8x16xf32> {\n %0 = \"stablehlo.gather\"(%t, %i) <{dimension_numbers = "
            "#stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = "
            "[0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 16>}> : (tensor<32x16xf32>, "
            "tensor<8x1xi32>) -> tensor<8x16xf32>\n return %0 : tensor<8x16xf32>\n}\n")) ==
        "view(i){size:[8]}; embedding(t,%0.view)");
  CHECK(steps_of(read_module(
            head +
            "tensor<32x16xf32> {\n %0 = \"stablehlo.scatter\"(%t, %i, %u) "
            "<{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], "
            "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = "
            "1>}> ({\n ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n %s = stablehlo.add %a, %b : "
            "tensor<f32>\n stablehlo.return %s : tensor<f32>\n }) : (tensor<32x16xf32>, "
            "tensor<8x1xi32>, tensor<8x16xf32>) -> tensor<32x16xf32>\n return %0 : "
            "tensor<32x16xf32>\n}\n")) == "view(i){size:[8]}; index_add(t,%0.view,u){dim:0}");
}

TEST_CASE("what no op says is a region with a warning", "[program][stablehlo]") {
  const Program program = read_steps(
      "    %0 = stablehlo.custom_call @lapack(%arg0) {backend_config = \"{}\"} : "
      "(tensor<8x16xf32>) -> tensor<8x16xf32>");
  CHECK(steps_of(program) == "[stablehlo.custom_call](x)");
  const auto& region = std::get<RegionStep>(program.steps[0].what);
  CHECK(region.warning == "no op of the table says what it does, nor what it would move");
  CHECK(program.steps[0].origin.from == "stablehlo.custom_call");
  // Counters of random numbers are of a type that the table lacks.
  const Program bits = read_steps(
      "    %1 = stablehlo.iota dim = 0 : tensor<8x16xui32>\n"
      "    %2 = stablehlo.multiply %1, %1 : tensor<8x16xui32>\n"
      "    %0 = stablehlo.convert %2 : (tensor<8x16xui32>) -> tensor<8x16xf32>");
  CHECK(steps_of(bits) ==
        "[stablehlo.iota](); [stablehlo.multiply](%1,%1); [stablehlo.convert](%2)");
  CHECK(std::get<RegionStep>(bits.steps[1].what).out[0].dtype == DType::kI32);
  CHECK(std::get<RegionStep>(bits.steps[0].what).warning.empty());
}

std::string placed_as(const std::string& sharding, const std::string& mesh = kMesh,
                      const std::string& type = "tensor<8x16xf32>") {
  const Program program = read_module("module {\n" + mesh + "  func.func @main(%arg0: " + type +
                                      " {sdy.sharding = #sdy.sharding<" + sharding + ">}) -> " +
                                      type + " {\n    return %arg0 : " + type + "\n  }\n}\n");
  const ProgramValue& value = program.values[0];
  if (!value.mesh) return "plain";
  if (!value.layout) return "free";
  const Mesh& on = program.meshes[static_cast<std::size_t>(*value.mesh)].mesh;
  std::string text;
  for (const Levels& levels : value.layout->dims) text += to_string(on, levels);
  for (int axis = 0; axis < on.ndim(); ++axis) {
    if (value.layout->partial[static_cast<std::size_t>(axis)]) text += " +" + on.axis_label(axis);
  }
  return text;
}

TEST_CASE("shardings become placements", "[program][stablehlo]") {
  CHECK(placed_as("@mesh, [{\"dp\"}, {\"tp\"}]") == "[dp][tp]");
  CHECK(placed_as("@mesh, [{}, {}]") == "[][]");
  // Major first: tp cuts into quarters, and dp each of them.
  CHECK(placed_as("@mesh, [{\"tp\", \"dp\"}, {}]") == "[tp, dp][]");
  CHECK(placed_as("@mesh, [{\"dp\"}p1, {\"tp\", ?}p0]") == "[dp][tp]");
  CHECK(placed_as("@mesh, [{?}, {?}]") == "free");
  CHECK(placed_as("@mesh, [{?}, {?}], replicated={\"dp\"}") == "[][]");
  CHECK(placed_as("@mesh, [{\"dp\"}, {}], unreduced={\"tp\"}") == "[dp][] +tp");
  CHECK(placed_as("@one, [{}, {}]", "  sdy.mesh @one = <[], device_ids=[0]>\n") == "plain");
  // Half of an axis: the mesh has both halves.
  CHECK(placed_as("@mesh, [{\"tp\":(1)2}, {\"dp\", \"tp\":(2)2}]") == "[tp_1_2][dp, tp_2_2]");
  // 10 over 8: pieces of 2 for the first five ranks, where halves would be of five. dp takes a
  // multiple of 4, 8 of 10.
  CHECK(placed_as("@mesh, [{\"dp\", \"tp\"}]", kMesh, "tensor<10xf32>") == "[dp%4, tp%2]");
}

TEST_CASE("constraints are redistributions, and functions stand where they are called",
          "[program][stablehlo]") {
  const Program program = read_module(
      "module @m {\n" + kMesh +
      "  func.func public @main(%arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, "
      "[{\"dp\"}, {}]>}) -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, "
      "{\"tp\"}]>}) {\n"
      "    %0 = call @f(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>\n"
      "    %1 = sdy.sharding_constraint %0 <@mesh, [{\"dp\"}, {\"tp\"}]> : tensor<8x16xf32>\n"
      "    %2 = func.call @f(%1) : (tensor<8x16xf32>) -> tensor<8x16xf32>\n"
      "    return %2 : tensor<8x16xf32>\n  }\n"
      "  func.func private @f(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {\n"
      "    %0 = stablehlo.tanh %arg0 : tensor<8x16xf32>\n"
      "    return %0 : tensor<8x16xf32>\n  }\n}\n");
  CHECK(steps_of(program) == "tanh(%arg0); %0/%0 -> (S(0), S(1)); tanh(%1); %2/%0 -> (R, S(1))");
  CHECK(!std::get<MoveStep>(program.steps[1].what).implicit);
  CHECK(std::get<MoveStep>(program.steps[3].what).implicit);
  CHECK(!std::get<CallStep>(program.steps[0].what).out[0].layout);
  CHECK(program.ranks == 8);
}

TEST_CASE("locations are sites, scopes modules and phases", "[program][stablehlo]") {
  const Program program = read_module(
      "#loc7 = loc(\"model.py\":12:4 to :20)\n"
      "func.func @main(%arg0: tensor<4xf32> {tf.aliasing_output = 0 : i32} loc(\"params['w']\"), "
      "%arg1: tensor<4xf32> {jax.buffer_donor = true} loc(\"m\")) -> tensor<4xf32> {\n"
      "  %0 = stablehlo.sine %arg0 : tensor<4xf32> loc(#loc1)\n"
      "  %1 = stablehlo.sine %0 : tensor<4xf32> loc(#loc2)\n"
      "  %2 = func.call @inner(%1) : (tensor<4xf32>) -> tensor<4xf32> loc(#loc3)\n"
      "  %3 = stablehlo.add %2, %arg1 : tensor<4xf32> loc(unknown)\n"
      "  return %3 : tensor<4xf32> loc(#loc9)\n}\n"
      "func.func private @inner(%arg0: tensor<4xf32>) -> tensor<4xf32> {\n"
      "  %0 = stablehlo.cosine %arg0 : tensor<4xf32> loc(\"mlp/cos\"(\"deep.py\":3:1))\n"
      "  return %0 : tensor<4xf32>\n}\n"
      "#loc1 = loc(\"jit(step)/jvp(loss)/layers.0/ab,bc->ac/sin\"(#loc8))\n"
      "#loc2 = loc(\"jit(step)/transpose(jvp(loss))/sin\"(#loc7))\n"
      "#loc3 = loc(\"jit(step)/checkpoint/rematted_computation/block/closed_call\"(#loc7))\n"
      "#loc8 = loc(callsite(\"f\"(#loc7) at \"<module>\"(\"main.py\":1:1)))\n");
  const auto origin = [&](std::size_t step) { return program.steps[step].origin; };
  CHECK(origin(0).module == "loss.layers_0");
  CHECK(origin(0).site == "model.py:12");
  CHECK(origin(0).phase == StepPhase::kForward);
  CHECK(origin(0).from == "stablehlo.sine");
  CHECK(origin(1).module == "loss");
  CHECK(origin(1).phase == StepPhase::kBackward);
  CHECK(origin(2).module == "block.mlp");
  CHECK(origin(2).site == "deep.py:3");
  CHECK(origin(2).phase == StepPhase::kRecompute);
  CHECK(origin(3).module.empty());
  CHECK(!origin(3).phase);
  CHECK(program.values[0].role == ValueRole::kParameter);
  CHECK(program.values[1].role == ValueRole::kState);
  CHECK(std::get<CallStep>(program.steps[3].what).out[0].role == ValueRole::kState);
}

TEST_CASE("a body of local tensors is a region with what it moves and computes",
          "[program][stablehlo]") {
  const Program program = read_module(
      "module {\n" + kMesh +
      "  func.func @main(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {\n"
      "    %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{\"dp\"}, {\"tp\"}]>] "
      "out_shardings=[<@mesh, [{\"dp\"}, {\"tp\"}]>] manual_axes={\"dp\", \"tp\"} (%arg1: "
      "tensor<4x4xf32>) {\n"
      "      %1 = \"stablehlo.all_gather\"(%arg1) <{all_gather_dim = 1 : i64, replica_groups = "
      "dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>}> : (tensor<4x4xf32>) -> "
      "tensor<4x16xf32>\n"
      "      %2 = stablehlo.dot_general %1, %1, contracting_dims = [1] x [1] : (tensor<4x16xf32>, "
      "tensor<4x16xf32>) -> tensor<4x4xf32>\n"
      "      %3 = \"stablehlo.all_reduce\"(%2) <{replica_groups = dense<[[0, 4], [1, 5], [2, 6], "
      "[3, 7]]> : tensor<4x2xi64>}> ({\n      ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
      "        %s = stablehlo.add %a, %b : tensor<f32>\n        stablehlo.return %s : "
      "tensor<f32>\n      }) : (tensor<4x4xf32>) -> tensor<4x4xf32>\n"
      "      %4 = \"stablehlo.collective_permute\"(%3) <{source_target_pairs = dense<[[0, 1], [1, "
      "0]]> : tensor<2x2xi64>}> : (tensor<4x4xf32>) -> tensor<4x4xf32>\n"
      "      sdy.return %4 : tensor<4x4xf32>\n"
      "    } : (tensor<8x16xf32>) -> tensor<8x16xf32>\n"
      "    return %0 : tensor<8x16xf32>\n  }\n}\n");
  CHECK(steps_of(program) == "%arg0 -> (S(0), S(1)); [sdy.manual_computation](%arg0.in)");
  const auto& region = std::get<RegionStep>(program.steps[1].what);
  CHECK(region.flops == 2 * 4 * 4 * 16);
  CHECK(region.warning.empty());
  REQUIRE(region.moves.size() == 3);
  // Three other ranks' 4 x 4 of F32, on each of 8 ranks; one other's of dp, and so all 8.
  CHECK(region.moves[0] ==
        ProgramMove{"all_gather", {"tp"}, 4, {.max = 3 * 64, .total = 8 * 3 * 64}});
  CHECK(region.moves[1] == ProgramMove{"all_reduce", {"dp"}, 2, {.max = 64, .total = 8 * 64}});
  CHECK(region.moves[2] == ProgramMove{"exchange", {}, 2, {.max = 64, .total = 128}});
}

TEST_CASE("a propagated module says what it moves", "[program][stablehlo]") {
  // Column, then row: the second product is a sum over tp, and declared whole.
  const std::string spread = "{sdy.sharding = #sdy.sharding_per_value<[<@mesh, ";
  const Program program = read_module(
      "module {\n" + kMesh +
      "  func.func @main(%arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"dp\"}, "
      "{}]>}, %arg1: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {\"tp\"}]>}, "
      "%arg2: tensor<32x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"tp\"}, {}]>}) -> "
      "tensor<8x16xf32> {\n"
      "    %0 = stablehlo.dot %arg0, %arg1 " +
      spread +
      "[{\"dp\"}, {\"tp\"}]>]>} : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>\n"
      "    %1 = stablehlo.dot %0, %arg2 " +
      spread +
      "[{\"dp\"}, {}]>]>} : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>\n"
      "    return %1 : tensor<8x16xf32>\n  }\n}\n");
  CHECK(steps_of(program) == "mm(%arg0,%arg1); mm(%0,%arg2); %1.made -> (S(0), R)");
  const auto& move = std::get<MoveStep>(program.steps[2].what);
  CHECK(move.implicit);
  CHECK(move.needed_by == "result of mm");
  const auto moves =
      value_or_throw(moves_of(program, std::get<CallStep>(program.steps[1].what).out[0], move.out));
  // F32[4, 16] on each of 8 ranks: a quarter from each of three others, and back.
  REQUIRE(moves.size() == 2);
  CHECK(moves[0] == ProgramMove{"reduce_scatter", {"tp"}, 4, {.max = 192, .total = 8 * 192}});
  CHECK(moves[1] == ProgramMove{"all_gather", {"tp"}, 4, {.max = 192, .total = 8 * 192}});
}

TEST_CASE("a foreign call's own sharding does not make a module a propagated one",
          "[program][stablehlo]") {
  const Program program = read_steps(
      "    %1 = stablehlo.custom_call @f(%arg0) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, "
      "[{\"dp\"}, {}]>]>} : (tensor<8x16xf32>) -> tensor<8x16xf32>\n"
      "    %0 = stablehlo.tanh %1 : tensor<8x16xf32>");
  CHECK(std::get<RegionStep>(program.steps[0].what).out[0].layout);
  CHECK(!std::get<CallStep>(program.steps[1].what).out[0].layout);
}

TEST_CASE("Shardy's own collectives are redistributions", "[program][stablehlo]") {
  const Program program = read_module(
      "module {\n" + kMesh +
      "  func.func @main(%arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"dp\"}, "
      "{\"tp\"}]>}) -> tensor<8x16xf32> {\n"
      "    %0 = sdy.all_gather [{}, {\"tp\"}] %arg0 out_sharding=<@mesh, [{\"dp\"}, {}]> : "
      "tensor<8x16xf32>\n"
      "    %1 = sdy.all_slice [{}, {\"tp\"}] %0 out_sharding=<@mesh, [{\"dp\"}, {\"tp\"}]> : "
      "tensor<8x16xf32>\n"
      "    %2 = sdy.all_to_all [{\"dp\"}: 0->1] %1 out_sharding=<@mesh, [{}, {\"tp\", \"dp\"}]> : "
      "tensor<8x16xf32>\n"
      "    return %2 : tensor<8x16xf32>\n  }\n}\n");
  CHECK(steps_of(program).starts_with("%arg0 -> (S(0), R); %0 -> (S(0), S(1)); %1 -> ("));
  const ModuleCost cost = value_or_throw(module_cost(program));
  REQUIRE(cost.moves.size() >= 2);
  CHECK(cost.moves[0].collective == "all_gather");
  CHECK(cost.moves[0].implicit);
}

TEST_CASE("what Shardy's reduce_scatter sums is not summed before", "[program][stablehlo]") {
  const Program program = read_module(
      "module {\n  sdy.mesh @mesh = <[\"tp\"=4]>\n"
      "  func.func @main(%arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, "
      "{\"tp\"}]>}, %arg1: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"tp\"}, "
      "{}]>}) -> tensor<8x8xf32> {\n"
      "    %0 = stablehlo.dot %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, "
      "{}]>]>} : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>\n"
      "    %1 = sdy.reduce_scatter [{\"tp\"}, {}] %0 out_sharding=<@mesh, [{\"tp\"}, {}]> : "
      "tensor<8x8xf32>\n"
      "    return %1 : tensor<8x8xf32>\n  }\n}\n");
  CHECK(steps_of(program) == "mm(%arg0,%arg1); %0 -> (S(0))");
  const auto& call = std::get<CallStep>(program.steps[0].what);
  const auto& move = std::get<MoveStep>(program.steps[1].what);
  const auto moves = value_or_throw(moves_of(program, call.out[0], move.out));
  REQUIRE(moves.size() == 1);
  CHECK(moves[0].collective == "reduce_scatter");
  CHECK(moves[0].bytes.max == 3 * 64);
}

TEST_CASE("every row of the table is of ops that there are", "[program][stablehlo]") {
  for (const stablehlo::OpRow& row : stablehlo::op_rows()) {
    CAPTURE(row.name);
    CHECK(stablehlo::find_op_row(row.name) == &row);
    std::vector<std::string> names = absl::StrSplit(std::string(row.ops), ", ");
    names.emplace_back(row.right);
    names.emplace_back(row.left);
    for (const std::string& name : names) {
      if (name.empty() || name == "…") continue;
      CAPTURE(name);
      CHECK(builtin_ops().find(name).ok());
    }
  }
  CHECK(stablehlo::find_op_row("stablehlo.fft") == nullptr);
}

}  // namespace
}  // namespace tessera
