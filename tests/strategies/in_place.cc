// Refusals of in-place ops and of out=: their texts, and that out= finds a row where there is one.
#include "strategies/rules/in_place.h"

#include "tests/strategies/ops_call.h"

namespace tessera::testing {
namespace {

Spec spec(const Mesh& mesh, Shape shape, std::string_view placements, DType dtype = DType::kF32) {
  return value_or_throw(
      Spec::make(mesh, std::move(shape), dtype, value_or_throw(parse_placements(placements))));
}
Mesh line(std::int64_t ranks) { return value_or_throw(Mesh::make(view_of(Shape{ranks}), {"tp"})); }

struct Asked {
  Status status;
  Resolution resolution;
  std::string error() const { return std::string(message_of(status)); }
  std::string inputs() const {
    std::string text;
    for (const Spec& each : resolution.inputs) {
      text += (text.empty() ? "" : " ") + placements_text(each);
    }
    return text;
  }
};
Asked ask(std::string_view name, const std::vector<Spec>& operands, const std::vector<Spec>& outs,
          const Attrs& attrs = {}) {
  const Op& op = *value_or_throw(builtin_table().find(name));
  std::vector<const Spec*> from, to;
  for (const Spec& each : operands) from.push_back(&each);
  for (const Spec& each : outs) to.push_back(&each);
  const Attrs complete = value_or_throw(complete_attrs(op, attrs));
  StatusOr<Resolution> resolution =
      outs.empty() ? propagate(op, from, complete) : propagate_into(op, from, complete, to);
  Asked asked{resolution.status(), {}};
  if (resolution.ok()) asked.resolution = *std::move(resolution);
  return asked;
}
const Attrs kDim1 = {{"dim", 1}};

}  // namespace

TEST_CASE("an in-place refusal names op, placements, rows and the cheapest way out",
          "[strategies][in_place]") {
  const Mesh tp = line(2);
  CHECK(
      ask("scatter_add_",
          {spec(tp, {4, 6}, "P(prod)"), spec(tp, {4, 2}, "R", DType::kI64),
           spec(tp, {4, 2}, "S(0)")},
          {}, kDim1)
          .error() ==
      "scatter_add_: self is (P(prod)) and would have to move, because its rule does not carry "
      "P(prod) of self with these operands, but an in-place op must keep its placement. Rows "
      "that would work: S(0), S(0), S(0) -> S(0); S(1), R, R -> S(1); P(sum), S(1), S(1) -> "
      "P(sum); P(sum), R, P(sum) -> P(sum); P(avg), R, R -> P(avg); P(avg), R, P(avg) -> P(avg); "
      "R, R, R -> R. Cheapest: redistribute self "
      "to (S(0)) first, which moves 96 bytes. [self F32[4, 6] (P(prod)), index I64[4, 2] (R), src "
      "F32[4, 2] (S(0)), dim=1, on mesh {tp: 2}]");
  // A dim that a write needs whole, on the second of two axes.
  const Mesh both = value_or_throw(Mesh::make(view_of(Shape{2, 2}), {"dp", "tp"}));
  const std::string whole =
      ask("fill_", {spec(both, {4, 6}, "S(0), P(sum)")}, {}, {{"value", 3.0}}).error();
  CHECK(
      whole.starts_with("fill_: self is (S(0), P(sum)) and would have to move, because its rule "
                        "does not carry P(sum) of self with these operands"));
  CHECK(whole.find(" Cheapest: redistribute self to (S(0), ") != std::string::npos);
}

TEST_CASE("out= finds the row that gives its placement; operands move, it does not",
          "[strategies][out]") {
  const Mesh tp = line(4);
  const Spec whole = spec(tp, {8, 12}, "R"), rows = spec(tp, {8, 12}, "S(0)"),
             columns = spec(tp, {8, 12}, "S(1)"), sums = spec(tp, {8, 12}, "P(sum)");
  CHECK(ask("add", {rows, rows}, {rows}).inputs() == "(S(0)) (S(0))");
  CHECK(ask("add", {rows, rows}, {columns}).inputs() == "(S(1)) (S(1))");
  CHECK(ask("add", {whole, whole}, {columns}).inputs() == "(S(1)) (S(1))");
  CHECK(ask("add", {rows, whole}, {whole}).inputs() == "(R) (R)");
  CHECK(ask("add", {sums, whole}, {sums}).inputs() == "(P(sum)) (P(sum))");
  CHECK(ask("add", {whole, whole}, {sums}).inputs() == "(P(sum)) (P(sum))");
  const Asked free = ask("add", {whole, whole}, {columns});
  CHECK(free.resolution.moved_bytes == std::vector<std::int64_t>{0, 0});  // replicas are sliced
  // A contraction gives a sum where one is asked for, and none where it is not.
  const Spec a = spec(tp, {8, 16}, "R"), b = spec(tp, {16, 12}, "R");
  CHECK(ask("matmul", {a, b}, {sums}).inputs() == "(S(1)) (S(0))");
  CHECK(ask("matmul", {a, b}, {columns}).inputs() == "(R) (S(1))");
  const Spec cut_a = spec(tp, {8, 16}, "S(1)"), cut_b = spec(tp, {16, 12}, "S(0)");
  CHECK(ask("matmul", {cut_a, cut_b}, {sums}).inputs() == "(S(1)) (S(0))");
  CHECK(ask("matmul", {cut_a, cut_b}, {whole}).inputs() == "(R) (R)");
  // Ops without a rule string offer strategies.
  const Spec tall = spec(tp, {16, 12}, "S(1)");
  CHECK(ask("cat", {rows, rows}, {tall}, {{"dim", 0}}).inputs() == "(S(1)) (S(1))");
  const Spec odd = spec(tp, {3, 6}, "S(0)");
  CHECK(ask("cat", {odd, odd}, {spec(tp, {6, 6}, "R")}, {{"dim", 0}}).inputs() == "(R) (R)");
}

TEST_CASE("out= keeps a strided or grained result as it lies", "[strategies][out]") {
  const Mesh mesh = value_or_throw(Mesh::make(view_of(Shape{2, 2}), {"fsdp", "tp"}));
  const Spec strided = spec(mesh, {8, 6}, "SS(0,2), S(0)"),
             plain = spec(mesh, {8, 6}, "S(0), S(0)");
  const Asked asked = ask("add", {plain, plain}, {strided});
  REQUIRE(asked.status.ok());
  CHECK(asked.resolution.outputs[0] == strided);
  CHECK(asked.resolution.inputs[0] == strided);
  CHECK(asked.resolution.moved_bytes[0] > 0);
}

TEST_CASE("an out= that the op cannot give is refused with what it can give", "[strategies][out]") {
  const Mesh tp = line(2);
  const Spec x = spec(tp, {4, 6}, "S(0)");
  CHECK(ask("softmax", {x}, {spec(tp, {4, 6}, "P(sum)")}, kDim1).error() ==
        "softmax: out stands as (P(sum)), which the op cannot give, because no row of its rule "
        "gives P(sum), and out= never moves. Rows that would work: S(0) -> S(0); S(1) -> S(1); R "
        "-> R. Cheapest: give out as (S(0)), for which operands move 0 bytes; to redistribute the "
        "result from there moves 96 bytes. [self F32[4, 6] (S(0)), dim=1, on mesh {tp: 2}]");
  const std::string relu = ask("relu", {x}, {spec(tp, {4, 6}, "P(sum)")}).error();
  CHECK(relu.find("P(max) -> P(max); P(min) -> P(min); R -> R. Cheapest: give out as (S(0))") !=
        std::string::npos);
}

TEST_CASE("an op without a rule string says what it offers", "[strategies][out][in_place]") {
  // Whole in, whole out; and the same written in place.
  OpDef def = {
      .name = "mix",
      .doc = "The operand.",
      .args = {in("self")},
      .rule = "",
      .kernel = [](KernelCall&) {},
      .infer = [](std::span<const TensorMeta> inputs,
                  const Attrs&) { return StatusOr<std::vector<TensorMeta>>({inputs[0]}); },
      .strategies =
          [](std::span<const Spec* const> inputs, std::span<const TensorMeta>, const Attrs&) {
            const Spec& x = *inputs[0];
            Layout whole;
            whole.dims.resize(2);
            whole.partial.resize(1);
            const Spec r =
                value_or_throw(Spec::make(x.mesh(), x.global_shape(), x.dtype(), std::move(whole)));
            return StatusOr<std::vector<Strategy>>({{.inputs = {r}, .outputs = {r}}});
          },
      .samples = {{.shapes = {{2, 2}}}}};
  OpDef in_place = def;
  in_place.name = "mix_";
  in_place.rule = "*a -> &A *a | a!";
  OpTable table;
  table.must_add(std::move(def));
  table.must_add(std::move(in_place));
  const Spec rows = spec(line(2), {4, 6}, "S(0)"), whole = spec(line(2), {4, 6}, "R");
  const Spec* of_rows[] = {&rows};
  const Spec* of_whole[] = {&whole};
  const auto text = [](const StatusOr<Resolution>& asked) {
    return std::string(message_of(asked.status()));
  };
  const Op& mix = *value_or_throw(table.find("mix"));
  CHECK(text(propagate_into(mix, of_rows, {}, of_rows)) ==
        "mix: out stands as (S(0)), which the op cannot give, and out= never moves. Results it can "
        "give: (R). Cheapest: give out as (R), for which operands move 96 bytes; to redistribute "
        "the result from there moves 0 bytes. [self F32[4, 6] (S(0)), on mesh {tp: 2}]");
  CHECK(text(propagate_into(mix, of_rows, {}, of_whole)) == "");
  const Op& mix_in_place = *value_or_throw(table.find("mix_"));
  CHECK(text(propagate(mix_in_place, of_whole, {})) == "");
  CHECK(text(propagate(mix_in_place, of_rows, {})) ==
        "mix_: self is (S(0)) and would have to move, but an in-place op must keep its placement. "
        "Placements of self that would work: (R). Cheapest: redistribute self to (R) first, which "
        "moves 96 bytes. [self F32[4, 6] (S(0)), on mesh {tp: 2}]");
}

TEST_CASE("out= of another shape, dtype, number or mesh is refused", "[strategies][out]") {
  const Mesh tp = line(2);
  const Spec x = spec(tp, {4, 6}, "S(0)");
  const std::string shape = ask("add", {x, x}, {spec(tp, {4, 5}, "S(0)")}).error();
  CHECK(shape ==
        "add: out is F32[4, 5], the result F32[4, 6]; out= neither resizes nor casts: give a "
        "tensor of that shape and dtype");
  CHECK(ask("add", {x, x}, {spec(tp, {4, 6}, "S(0)", DType::kF64)}).error() ==
        "add: out is F64[4, 6], the result F32[4, 6]; out= neither resizes nor casts: give a "
        "tensor of that shape and dtype");
  CHECK(ask("topk", {x}, {x}, {{"k", 2}, {"dim", 1}}).error() ==
        "topk: out= names 1 tensors; the op has 2 results");
  CHECK(ask("add", {x, x}, {Spec::plain({4, 6}, DType::kF32)}).error() ==
        "add: out lives on no mesh (plain), the operands on mesh {tp: 2}; out= never moves: give a "
        "tensor there. [F32[4, 6]]");
  CHECK(ask("transpose", {x}, {spec(tp, {6, 4}, "S(1)")}, {{"dim0", 0}, {"dim1", 1}}).error() ==
        "transpose: its result is an alias of its operand and takes no out=; copy_() the view into "
        "the tensor");
  CHECK(ask("add_", {x, x}, {x}).error() ==
        "add_: it writes its own operand and takes no out=; use the op without _");
  CHECK(ask("add", {x}, {x}).error() == "add: 1 operands given; it takes 2");
}

}  // namespace tessera::testing
