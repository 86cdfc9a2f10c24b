// tests/fuzz/fuzz_ops.h: a small op table for targets that read calls: every kind of operand and
// attribute, results in place, several results, rules of each mark. Its kernels do nothing.
#pragma once

#include "strategies/rules/op.h"

namespace tessera::testing {

inline OpDef fuzz_op(std::string name, std::vector<ArgDef> args, std::string rule,
                     std::vector<AttrDef> attrs = {}, int num_outputs = 1) {
  OpDef def;
  def.name = std::move(name);
  def.doc = "For fuzz targets.";
  def.args = std::move(args);
  def.rule = std::move(rule);
  def.attrs = std::move(attrs);
  def.num_outputs = num_outputs;
  def.kernel = [](KernelCall&) {};
  def.samples = {{.shapes = {{2}}}};
  return def;
}

inline OpTable fuzz_ops() {
  using Type = AttrDef::Type;
  const AttrDef dim{"dim", Type::kInt, AttrValue{std::int64_t{-1}}};
  const AttrDef dims{"dims", Type::kInts, AttrValue{Shape{}}};
  const AttrDef keepdim{"keepdim", Type::kBool, AttrValue{false}};
  std::vector<OpDef> defs = {
      fuzz_op("add", {in("a"), in("b")}, "*, * -> * | lin A+B | mono AB"),
      fuzz_op("add_", {in("a"), in("b")}, "*, * -> &A * | lin A+B"),
      fuzz_op("mul", {in("a"), in("b")}, "*, * -> * | lin A*B | prod A*B"),
      fuzz_op("mul_scalar", {in("a")}, "* -> * | lin A | mono A if value>=0 | anti A if value<=0",
              {{"value", Type::kDouble}}),
      fuzz_op("mm", {in("a"), in("b")}, "mk, kn -> mn | k:sum | lin A*B"),
      fuzz_op("linear", {in("x"), in("w"), in_optional("bias")},
              "*k, nk, n? -> *n | k:sum | lin A*B+C"),
      fuzz_op("sum", {in("a")}, "*r@dims -> * | r:sum | lin A", {dims, keepdim}),
      fuzz_op("sort", {in("a")}, "*r@dim -> *r, *r int | r!", {dim}, 2),
      fuzz_op("gather", {in("a"), in("index")}, "*g@dim, *i@dim -> *i | g#:sum | lin A | mono A",
              {dim}),
      fuzz_op("scatter_add_", {in("a"), in("index"), in("src")},
              "*g@dim, *i@dim, *i@dim -> &A *g | g#:own i:sum | lin A+C", {dim}),
      fuzz_op("add_n", {in_list("all")}, "*.. -> * | lin A"),
      fuzz_op("to", {in("a")}, "* -> *",
              {{"dtype", Type::kDType, AttrValue{DType::kF32}},
               {"mode", Type::kString, AttrValue{std::string("x")}}})};
  OpTable table;
  for (OpDef& def : defs) {
    const bool differentiable = def.name != "sort" && def.name != "to";
    if (differentiable) def.gradient = [](GradContext&) { return std::vector<Var>(); };
    table.must_add(std::move(def));
  }
  return table;
}

}  // namespace tessera::testing
