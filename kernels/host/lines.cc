#include "kernels/lines.h"

#include "absl/strings/str_format.h"
#include "kernels/elementwise.h"
#include "placement/status.h"

namespace tessera::kernels {

Shape without_dim(const Shape& sizes, int dim) {
  Shape rest = sizes;
  rest.erase(rest.begin() + dim);
  return rest;
}

Array as_dtype(KernelContext& ctx, const Array& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  Array cast = Array::empty(x.shape(), dtype, ctx.allocator);
  copy(ctx, x, cast);
  return cast;
}

StagedOutput::StagedOutput(KernelContext& ctx, const Array& out, DType dtype)
    : out_(out),
      staged_(out.dtype() == dtype ? out : Array::empty(out.shape(), dtype, ctx.allocator)) {}

void StagedOutput::finish(KernelContext& ctx) const {
  if (staged_.dtype() != out_.dtype()) copy(ctx, staged_, out_);
}

DType common_floating(const char* op, std::initializer_list<DType> dtypes) {
  DType widest = *dtypes.begin();
  for (const DType dtype : dtypes) {
    require_floating(op, dtype);
    widest = promote(widest, dtype);
  }
  return widest;
}

void check_shape(const char* op, const char* name, const Array& x, const Shape& wanted) {
  if (x.shape() == wanted) return;
  throw Error(invalid_argument(absl::StrFormat("%s: %s has shape %s; wanted %s", op, name,
                                               to_string(x.shape()), to_string(wanted))));
}

}  // namespace tessera::kernels
