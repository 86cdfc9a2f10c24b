// Views and shapes, joins and parts, random values.
#include <utility>

#include "absl/strings/str_format.h"
#include "dtensor/op_call.h"
#include "dtensor/ops.h"
#include "kernels/random.h"

namespace tessera {

DTensor view(const DTensor& x, const Shape& shape, const Site& site) {
  return call_op(KnownOp::kView, {&x}, {{"size", shape}}, site);
}
DTensor reshape(const DTensor& x, const Shape& shape, const Site& site) {
  return call_op(KnownOp::kReshape, {&x}, {{"shape", shape}}, site);
}
DTensor flatten(const DTensor& x, std::int64_t start, std::int64_t end, const Site& site) {
  return call_op(KnownOp::kFlatten, {&x}, {{"start_dim", start}, {"end_dim", end}}, site);
}
DTensor unflatten(const DTensor& x, std::int64_t dim, const Shape& sizes, const Site& site) {
  return call_op(KnownOp::kUnflatten, {&x}, {{"dim", dim}, {"sizes", sizes}}, site);
}
DTensor unsqueeze(const DTensor& x, std::int64_t dim, const Site& site) {
  return call_op(KnownOp::kUnsqueeze, {&x}, {{"dim", dim}}, site);
}
DTensor squeeze(const DTensor& x, std::int64_t dim, const Site& site) {
  return call_op(KnownOp::kSqueeze, {&x}, {{"dim", dim}}, site);
}
DTensor transpose(const DTensor& x, std::int64_t a, std::int64_t b, const Site& site) {
  return call_op(KnownOp::kTranspose, {&x}, {{"dim0", a}, {"dim1", b}}, site);
}
DTensor permute(const DTensor& x, const Shape& dims, const Site& site) {
  return call_op(KnownOp::kPermute, {&x}, {{"dims", dims}}, site);
}
DTensor expand(const DTensor& x, const Shape& sizes, const Site& site) {
  return call_op(KnownOp::kExpand, {&x}, {{"size", sizes}}, site);
}
DTensor contiguous(const DTensor& x, const Site& site) {
  return call_op(KnownOp::kContiguous, {&x}, {}, site);
}
DTensor slice(const DTensor& x, std::int64_t dim, std::int64_t start, std::int64_t end,
              const Site& site) {
  return call_op(KnownOp::kSlice, {&x}, {{"dim", dim}, {"start", start}, {"end", end}}, site);
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
    parts.push_back(slice(x, dim, start, start + size, site));
    start += size;
  }
  return parts;
}

DTensor cat(std::span<const DTensor> xs, std::int64_t dim, const Site& site) {
  if (xs.empty()) throw Error(invalid_argument("cat: no tensors; at least one is needed"));
  return call(xs[0].runtime(), "cat", xs, {{"dim", dim}}, site)[0];
}

namespace {
std::int64_t stream_attr(std::string_view stream) {
  return static_cast<std::int64_t>(kernels::stream_of(stream));
}
}  // namespace

DTensor& uniform_(DTensor& x, double low, double high, const RandomArgs& random) {
  const Attrs attrs = {{"from", low},
                       {"to", high},
                       {"seed", static_cast<std::int64_t>(random.seed)},
                       {"stream", stream_attr(random.stream)}};
  call_op(KnownOp::kUniform, {&x}, attrs, Site::current());
  return x;
}
DTensor& normal_(DTensor& x, double mean, double std, const RandomArgs& random) {
  const Attrs attrs = {{"mean", mean},
                       {"std", std},
                       {"seed", static_cast<std::int64_t>(random.seed)},
                       {"stream", stream_attr(random.stream)}};
  call_op(KnownOp::kNormal, {&x}, attrs, Site::current());
  return x;
}
DTensor& truncated_normal_(DTensor& x, const TruncatedNormal& args, const RandomArgs& random) {
  const Attrs attrs = {{"mean", args.mean},
                       {"std", args.std},
                       {"low", args.low},
                       {"high", args.high},
                       {"seed", static_cast<std::int64_t>(random.seed)},
                       {"stream", stream_attr(random.stream)}};
  call_op(KnownOp::kTruncatedNormal, {&x}, attrs, Site::current());
  return x;
}

}  // namespace tessera
