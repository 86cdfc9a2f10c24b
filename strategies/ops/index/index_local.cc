#include "strategies/ops/index/index_local.h"

#include <numeric>

#include "kernels/elementwise.h"
#include "strategies/ops/schema.h"
#include "strategies/rules/held_part.h"
#include "strategies/rules/propagate.h"

namespace tessera::ops {

StatusOr<SelectedIndex> selected_index(const Shape& shape, const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const int dim, dim_attr(attrs, static_cast<int>(shape.size())));
  const std::int64_t size = shape[static_cast<std::size_t>(dim)];
  const std::int64_t asked = attrs.get_int("index");
  const std::int64_t index = asked < 0 ? asked + size : asked;
  if (index < 0 || index >= size) {
    return invalid_argument("index " + std::to_string(asked) + " leaves dim " +
                            std::to_string(dim) + " of " + to_string(shape));
  }
  return SelectedIndex{dim, index};
}

Status check_integer(const TensorMeta& index, std::string_view name) {
  if (is_index(index.dtype)) return {};
  return invalid_argument(std::string(name) + " is " + std::string(name_of(index.dtype)) +
                          ", but must be I64 or I32");
}

Status check_cotangent(const TensorMeta& grad) {
  if (is_floating(grad.dtype)) return {};
  return invalid_argument("grad is " + std::string(name_of(grad.dtype)) +
                          ", but must be floating: only floating tensors have cotangents");
}

Status check_index(const TensorMeta& self, const TensorMeta& index, int dim) {
  TSR_RETURN_IF_ERROR(check_integer(index, "index"));
  if (index.shape.size() != self.shape.size()) {
    return invalid_argument("index " + to_string(index.shape) + " and self " +
                            to_string(self.shape) + " must have as many dims");
  }
  for (std::size_t d = 0; d < self.shape.size(); ++d) {
    if (static_cast<int>(d) != dim && index.shape[d] > self.shape[d]) {
      return invalid_argument("index " + to_string(index.shape) + " is larger than self " +
                              to_string(self.shape) + " along dim " + std::to_string(d) +
                              ", which only the addressed dim " + std::to_string(dim) + " allows");
    }
  }
  return {};
}

Status check_source(const TensorMeta& self, const TensorMeta& index, const TensorMeta& src) {
  if (src.dtype != self.dtype) {
    return invalid_argument("src is " + std::string(name_of(src.dtype)) + " and self " +
                            std::string(name_of(self.dtype)) + "; cast with `to` first");
  }
  bool fits = src.shape.size() == index.shape.size();
  for (std::size_t d = 0; fits && d < src.shape.size(); ++d) {
    fits = index.shape[d] <= src.shape[d];
  }
  if (fits) return {};
  return invalid_argument("src " + to_string(src.shape) + " must be at least as large as index " +
                          to_string(index.shape) + " along every dim");
}

AddressedDim addressed_dim(const KernelCall& call, std::string_view op, int operand, int dim) {
  AddressedDim addressed{.op = op, .dim = dim, .view = input_view(call, operand)};
  const bool distributed = addressed.view.spec != nullptr;
  const auto d = static_cast<std::size_t>(dim);
  addressed.global_size = distributed ? addressed.view.spec->global_shape()[d]
                                      : call.inputs[static_cast<std::size_t>(operand)].size(dim);
  return addressed;
}

Array local_positions(KernelCall& call, const AddressedDim& addressed, const Array& index) {
  const bool from_end = addressed.negative == AddressedDim::Negative::kFromEnd;
  const std::int64_t size = addressed.global_size;
  const kernels::HeldPart part = addressed.view.spec == nullptr
                                     ? kernels::HeldPart::whole(size)
                                     : held_part(addressed.view, addressed.dim);
  const auto refuse = [op = std::string(addressed.op), dim = addressed.dim, size, from_end](
                          std::int64_t at, std::int64_t value) {
    return out_of_range(op + ": an index holds " + std::to_string(value) + " at position " +
                        std::to_string(at) + "; dim " + std::to_string(dim) + " allows " +
                        std::to_string(from_end ? -size : 0) + " … " + std::to_string(size - 1));
  };
  const Array local = Array::empty(index.shape(), DType::kI64, call.ctx.allocator);
  kernels::localize(call.ctx, index, part, {.from_end = from_end}, refuse, local);
  return local;
}

kernels::Absent absent_of(const AddressedDim& addressed) {
  return addressed.view.spec == nullptr ? kernels::Absent::kError : kernels::Absent::kSkip;
}

std::vector<std::vector<std::int64_t>> global_indices(const OperandView& view, const Shape& shape) {
  std::vector<std::vector<std::int64_t>> indices;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<std::int64_t>& index = indices.emplace_back(static_cast<std::size_t>(shape[d]));
    std::iota(index.begin(), index.end(), 0);
    if (view.spec == nullptr || view.spec->layout().dims[d].empty()) continue;
    for (std::int64_t& i : index) {
      i = local_to_global(view.spec->mesh(), view.spec->global_shape()[d],
                          view.spec->layout().dims[d], *view.coord, i);
    }
  }
  return indices;
}

OperandView result_view(const KernelCall& call) {
  return call.output_views.empty() ? OperandView{} : call.output_views[0];
}

OperandView input_view(const KernelCall& call, int operand) {
  const auto i = static_cast<std::size_t>(operand);
  return i < call.input_views.size() ? call.input_views[i] : OperandView{};
}

Attrs localize_dim(const Attrs& attrs, std::span<const Spec> inputs, std::span<const Spec>,
                   const Coord&) {
  Attrs local = attrs;
  const int dim = value_or_throw(normalize_dim(attrs.get_int("dim"), inputs[0].ndim()));
  local.set("dim", std::int64_t{dim});
  return local;
}

void use_rule_cases(OpDef& def, const std::vector<std::string>& rules,
                    std::function<std::size_t(const Attrs&)> choose) {
  auto cases = std::make_shared<std::vector<OpTable>>(rules.size());
  for (std::size_t i = 0; i < rules.size(); ++i) {
    OpDef one = def;
    one.rule = rules[i];
    one.strategies = nullptr;
    (*cases)[i].must_add(std::move(one));
  }
  def.strategies = [cases, choose = std::move(choose)](
                       std::span<const Spec* const> inputs, std::span<const TensorMeta>,
                       const Attrs& attrs) -> StatusOr<std::vector<Strategy>> {
    const Op& op = *(*cases)[choose(attrs)].ops()[0];
    TSR_ASSIGN_OR_RETURN(Resolution found, propagate(op, inputs, attrs));
    return std::vector<Strategy>{{.inputs = std::move(found.inputs),
                                  .outputs = std::move(found.outputs),
                                  .why = std::move(found.why),
                                  .lowering = found.lowering,
                                  .lowering_axes = std::move(found.lowering_axes)}};
  };
}

}  // namespace tessera::ops
