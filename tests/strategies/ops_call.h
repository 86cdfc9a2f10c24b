// tests/strategies/ops_call.h: calls of built-in ops on plain arrays, and their rows as text.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "strategies/rules/local_op.h"
#include "strategies/verify/verify_data.h"

namespace tessera::testing {

inline const OpTable& builtin_table() {
  static const OpTable table = [] {
    OpTable all;
    add_builtin_ops(all);
    return all;
  }();
  return table;
}

inline Array reals(const Shape& shape, std::vector<double> values, DType dtype = DType::kF64) {
  return Array::from_values(shape, dtype, values);
}
inline Array ints(const Shape& shape, std::vector<double> values) {
  return Array::from_values(shape, DType::kI64, values);
}

/// All results of an op on one rank; a null Array stands for an optional operand that is not given.
inline std::vector<Array> call_op(std::string_view name, const std::vector<Array>& operands,
                                  const Attrs& attrs = {}) {
  const Op& op = *value_or_throw(builtin_table().find(name));
  std::vector<Spec> specs;
  for (const Array& operand : operands) {
    specs.push_back(Spec::plain(operand.shape(), operand.dtype()));
  }
  std::vector<const Spec*> pointers;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    pointers.push_back(operands[i].is_null() ? nullptr : &specs[i]);
  }
  const Attrs complete = value_or_throw(complete_attrs(op, attrs));
  const LocalOp local =
      LocalOp::make(op, value_or_throw(propagate(op, pointers, complete)), complete, {});
  std::vector<Array> results(static_cast<std::size_t>(op.def.num_outputs));
  KernelContext context;
  local.run(context, operands, results);
  return results;
}
inline std::vector<double> call_values(std::string_view name, const std::vector<Array>& operands,
                                       const Attrs& attrs = {}) {
  return call_op(name, operands, attrs)[0].to_vector();
}

/// What inference says of a call; "" where it is accepted.
inline std::string refusal_of(std::string_view name, const std::vector<TensorMeta>& operands,
                              const Attrs& attrs = {}) {
  const Op& op = *value_or_throw(builtin_table().find(name));
  const StatusOr<Attrs> complete = complete_attrs(op, attrs);
  if (!complete.ok()) return std::string(message_of(complete.status()));
  return std::string(message_of(infer(op, operands, *complete).status()));
}

/// The rows of an op on an axis of 2, as text.
inline std::vector<std::string> rows_text(std::string_view name,
                                          const std::vector<TensorMeta>& operands,
                                          const Attrs& attrs = {}) {
  const Op& op = *value_or_throw(builtin_table().find(name));
  std::vector<std::string> texts;
  const Attrs complete = value_or_throw(complete_attrs(op, attrs));
  for (const Row& row : value_or_throw(rows_of(op, operands, complete, 2))) {
    texts.push_back(to_string(row));
  }
  return texts;
}
inline bool has_row(const std::vector<std::string>& rows, const std::string& row) {
  return std::find(rows.begin(), rows.end(), row) != rows.end();
}

/// How an op runs on operands of these shapes, dtypes and placements on a mesh.
struct Placed {
  TensorMeta meta;
  std::string placements;
};
inline StatusOr<Resolution> resolve_call(std::string_view name, const Shape& mesh,
                                         const std::vector<Placed>& operands,
                                         const Attrs& attrs = {}) {
  const Op& op = *value_or_throw(builtin_table().find(name));
  const Mesh ranks = value_or_throw(Mesh::make(view_of(mesh)));
  std::vector<Spec> specs;
  for (const Placed& operand : operands) {
    specs.push_back(
        value_or_throw(Spec::make(ranks, operand.meta.shape, operand.meta.dtype,
                                  value_or_throw(parse_placements(operand.placements)))));
  }
  std::vector<const Spec*> pointers;
  for (const Spec& spec : specs) pointers.push_back(&spec);
  return propagate(op, pointers, value_or_throw(complete_attrs(op, attrs)));
}
/// Runs one resolved call on all ranks of its mesh, in process, and joins result 0 again.
inline WholeTensor run_on_ranks(std::string_view name, const Resolution& resolution,
                                const std::vector<WholeTensor>& operands, const Attrs& attrs) {
  const Op& op = *value_or_throw(builtin_table().find(name));
  const Attrs complete = value_or_throw(complete_attrs(op, attrs));
  VerifyRandom random(7);
  std::vector<std::vector<Array>> locals;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    locals.push_back(cut(operands[i], resolution.inputs[i], random));
  }
  std::vector<Array> results;
  const std::vector<Coord> coords = coords_of(resolution.outputs[0].mesh());
  for (std::size_t rank = 0; rank < coords.size(); ++rank) {
    std::vector<Array> inputs;
    for (const std::vector<Array>& ranks : locals) inputs.push_back(ranks[rank]);
    std::vector<Array> outputs(static_cast<std::size_t>(op.def.num_outputs));
    KernelContext context;
    LocalOp::make(op, resolution, complete, coords[rank]).run(context, inputs, outputs);
    results.push_back(outputs[0]);
  }
  return value_or_throw(join(resolution.outputs[0], results));
}

inline std::int64_t total_moved(const Resolution& resolution) {
  std::int64_t total = 0;
  for (const std::int64_t bytes : resolution.moved_bytes) total += bytes;
  return total;
}

}  // namespace tessera::testing
