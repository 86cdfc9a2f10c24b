#include "program/stablehlo/dot_dims.h"

#include <utility>

namespace tessera::stablehlo {
namespace {

using Dims = std::vector<std::int64_t>;

/// "[0] x [1]"
Status read_pairs(const MlirText& text, Nodes nodes, Dims& left, Dims& right) {
  if (nodes.empty()) return absl::OkStatus();
  if (nodes.size() < 3 || !nodes[1].is_word("x")) {
    return text.error(nodes[0].token.offset, "expected two lists of dims, such as [1] x [0]");
  }
  TSR_ASSIGN_OR_RETURN(left, integers_of(text, nodes.subspan(0, 1)));
  TSR_ASSIGN_OR_RETURN(right, integers_of(text, nodes.subspan(2, 1)));
  return absl::OkStatus();
}

/// Each dim stands in one list, once.
bool are_dims(const Dims& batch, const Dims& contracting, std::size_t ndim) {
  std::vector<bool> seen(ndim);
  for (const Dims* list : {&batch, &contracting}) {
    for (const std::int64_t dim : *list) {
      if (dim < 0 || dim >= static_cast<std::int64_t>(ndim)) return false;
      if (seen[static_cast<std::size_t>(dim)]) return false;
      seen[static_cast<std::size_t>(dim)] = true;
    }
  }
  return true;
}

}  // namespace

Nodes inside_of_angles(Nodes attribute) {
  for (const Node& node : attribute) {
    if (node.is_group('<')) return node.inside;
  }
  return {};
}

StatusOr<DotDims> read_dot_dims(const MlirText& text, const Statement& statement,
                                std::size_t left_ndim, std::size_t right_ndim) {
  DotDims dims;
  if (const Nodes found = statement.attribute("dot_dimension_numbers"); !found.empty()) {
    const Nodes inside = inside_of_angles(found);
    for (const auto& [key, list] : {std::pair{"lhs_batching_dimensions", &dims.left_batch},
                                    {"rhs_batching_dimensions", &dims.right_batch},
                                    {"lhs_contracting_dimensions", &dims.left_contracting},
                                    {"rhs_contracting_dimensions", &dims.right_contracting}}) {
      TSR_ASSIGN_OR_RETURN(*list, integers_of(text, find_attribute(inside, key)));
    }
  } else if (statement.op == "stablehlo.dot") {
    dims.left_contracting = {static_cast<std::int64_t>(left_ndim) - 1};
    dims.right_contracting = {0};
  } else {
    TSR_RETURN_IF_ERROR(
        read_pairs(text, statement.attribute("batching_dims"), dims.left_batch, dims.right_batch));
    TSR_RETURN_IF_ERROR(read_pairs(text, statement.attribute("contracting_dims"),
                                   dims.left_contracting, dims.right_contracting));
  }
  const bool paired = dims.left_batch.size() == dims.right_batch.size() &&
                      dims.left_contracting.size() == dims.right_contracting.size();
  if (paired && are_dims(dims.left_batch, dims.left_contracting, left_ndim) &&
      are_dims(dims.right_batch, dims.right_contracting, right_ndim)) {
    return dims;
  }
  return text.error(statement.offset, statement.op + ": dims that do not fit its operands");
}

}  // namespace tessera::stablehlo
