#include "kernels/positions.h"

#include <array>

#include "absl/strings/str_format.h"
#include "kernels/dtype_switch.h"
#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/position_runs.h"

namespace tessera::kernels {
namespace {

template <class F>
void visit_index_type(DType dtype, F&& f) {
  if (dtype == DType::kI64) return f(std::int64_t{});
  f(std::int32_t{});
}

void check_dense(const char* op, const char* name, const Array& array, const Shape& shape) {
  if (array.shape() == shape && array.is_contiguous() && is_index(array.dtype())) return;
  throw Error(invalid_argument(absl::StrFormat(
      "%s: %s is %s%s; expected a dense array of indices "
      "of shape %s",
      op, name, name_of(array.dtype()), to_string(array.shape()), to_string(shape))));
}

}  // namespace

void check_localize(const Array& positions, const Array& local) {
  if (!is_index(positions.dtype())) {
    throw_dtype("localize", positions.dtype(), "I64, I32 for positions");
  }
  check_dense("localize", "the result", local, positions.shape());
}

void check_globalize(const Array& local, std::span<const HeldPart> dims, const Array& positions) {
  check_dense("globalize", "the input", local, local.shape());
  check_dense("globalize", "the result", positions, local.shape());
  if (local.dtype() == DType::kI64 && positions.dtype() == DType::kI64 &&
      dims.size() <= static_cast<std::size_t>(kMaxDims)) {
    return;
  }
  throw Error(invalid_argument(
      absl::StrFormat("globalize: %s to %s over %d dims; allowed: I64, "
                      "and %d dims at most",
                      name_of(local.dtype()), name_of(positions.dtype()), dims.size(), kMaxDims)));
}

namespace cpu {

void localize(KernelContext& ctx, const Array& positions, const HeldPart& part,
              const OtherPositions& others, const RefusePosition& refuse, const Array& local) {
  check_localize(positions, local);
  const std::vector<PositionRun> table = table_of(part);
  const PositionRule rule = rule_of(runs_of(part, table.data()), others);
  const Array dense = contiguous(ctx, positions);
  const std::int64_t count = dense.num_elements();
  visit_index_type(dense.dtype(), [&]<class From>(From) {
    visit_index_type(local.dtype(), [&]<class To>(To) {
      const From* from = dense.data<From>();
      To* to = local.data<To>();
      for (std::int64_t i = 0; i < count; ++i) {
        std::int64_t found;
        if (!rule.apply(from[i], found)) throw Error(refuse(i, from[i]));
        to[i] = static_cast<To>(found);
      }
    });
  });
}

void globalize(KernelContext&, const Array& local, std::span<const HeldPart> dims,
               const Array& positions) {
  check_globalize(local, dims, positions);
  std::vector<std::vector<PositionRun>> tables;
  std::vector<PositionRuns> runs;
  for (const HeldPart& dim : dims) {
    tables.push_back(table_of(dim));
    runs.push_back(runs_of(dim, tables.back().data()));
  }
  const auto* from = local.data<std::int64_t>();
  auto* to = positions.data<std::int64_t>();
  for (std::int64_t i = 0; i < local.num_elements(); ++i) {
    std::int64_t rest = from[i], global = 0, step = 1;
    for (std::size_t d = runs.size(); d-- > 0;) {
      const PositionRuns& dim = runs[d];
      global += step * dim.to_global(rest % dim.count);
      rest /= dim.count;
      step *= dim.size;
    }
    to[i] = global;
  }
}

}  // namespace cpu
}  // namespace tessera::kernels
