#include "dtensor/ops.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "dtensor/dispatch.h"
#include "dtensor/op_call.h"
#include "kernels/random.h"

namespace tessera {

std::vector<DTensor> call(Runtime& runtime, std::string_view op, std::span<const DTensor> operands,
                          const Attrs& attrs, const Site& site) {
  absl::InlinedVector<const DTensor*, 4> pointers;
  for (const DTensor& each : operands) pointers.push_back(&each);
  Results results =
      dispatch(runtime, find_op(runtime, op), {pointers.data(), pointers.size()}, attrs, site);
  return {std::make_move_iterator(results.begin()), std::make_move_iterator(results.end())};
}

void call_into(std::span<const DTensor> outs, std::string_view op,
               std::span<const DTensor> operands, const Attrs& attrs, const Site& site) {
  if (outs.empty() || !outs[0].defined()) {
    throw Error(invalid_argument(std::string(op) +
                                 ": out= names no tensor; call() makes one for the result"));
  }
  absl::InlinedVector<const DTensor*, 4> from, to;
  for (const DTensor& each : operands) from.push_back(&each);
  for (const DTensor& each : outs) to.push_back(&each);
  Runtime& runtime = outs[0].runtime();
  dispatch_into(runtime, find_op(runtime, op), {{from.data(), from.size()}, {to.data(), to.size()}},
                attrs, site);
}

DTensor matmul(const DTensor& a, const DTensor& b, const Site& site) {
  if (a.ndim() > 1 && b.ndim() > 1) [[likely]] {
    return call_op(known_op("matmul"), {&a, &b}, {}, site);
  }
  if (a.ndim() == 0 || b.ndim() == 0) {
    throw Error(invalid_argument("matmul: self " + to_string(a.spec().global_shape()) +
                                 " and other " + to_string(b.spec().global_shape()) +
                                 ": both need at least one dim"));
  }
  // A vector is a row on the left and a column on the right, and leaves no dim behind.
  DTensor product = matmul(a.ndim() == 1 ? unsqueeze(a, 0, site) : a,
                           b.ndim() == 1 ? unsqueeze(b, 1, site) : b, site);
  if (b.ndim() == 1) product = squeeze(product, -1, site);
  return a.ndim() == 1 ? squeeze(product, b.ndim() == 1 ? -1 : -2, site) : product;
}

DTensor cast(const DTensor& x, DType dtype, const Site& site) {
  if (x.dtype() == dtype) return x;
  return call_op(known_op("to"), {&x}, {{"dtype", dtype}}, site);
}

std::vector<DTensor> split(const DTensor& x, const Shape& sizes, std::int64_t dim,
                           const Site& site) {
  std::int64_t total = 0;
  for (const std::int64_t each : sizes) total += each;
  if (total != x.size(dim)) {
    throw Error(invalid_argument(
        absl::StrFormat("split: sizes %s do not add up to %d, the size of dim %d. [%s]",
                        to_string(sizes), x.size(dim), dim, x.spec().to_string())));
  }
  std::vector<DTensor> parts;
  std::int64_t start = 0;
  for (const std::int64_t size : sizes) {
    parts.push_back(slice(x, dim, start, start + size, 1, site));
    start += size;
  }
  return parts;
}

namespace {
std::int64_t seed_attr(const RandomArgs& random) { return static_cast<std::int64_t>(random.seed); }
std::int64_t stream_attr(const RandomArgs& random) {
  return static_cast<std::int64_t>(kernels::stream_of(random.stream));
}
}  // namespace

DTensor& uniform_(DTensor& x, double low, double high, const RandomArgs& random) {
  return uniform_(x, seed_attr(random), stream_attr(random), low, high);
}
DTensor& normal_(DTensor& x, double mean, double std, const RandomArgs& random) {
  return normal_(x, seed_attr(random), stream_attr(random), mean, std);
}
DTensor& truncated_normal_(DTensor& x, const TruncatedNormal& args, const RandomArgs& random) {
  return truncated_normal_(
      x, seed_attr(random), stream_attr(random),
      {.mean = args.mean, .std = args.std, .low = args.low, .high = args.high});
}

}  // namespace tessera
