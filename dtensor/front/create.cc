// Made by scripts/op_pages from the op table; changes by hand are lost.
// clang-format off
#include "dtensor/front/create.h"

#include "dtensor/op_call.h"

namespace tessera {

DTensor bernoulli(const DTensor& self, std::int64_t seed, std::int64_t stream, const Site& site) {
  return call_op(known_op("bernoulli"), {&self}, {{"seed", seed}, {"stream", stream}}, site);
}
DTensor dropout(const DTensor& self, std::int64_t seed, std::int64_t stream, double p, bool train,
    const Site& site) {
  Attrs attrs = {{"seed", seed}, {"stream", stream}};
  if (p != 0.5) attrs.set("p", p);
  if (train != true) attrs.set("train", train);
  return call_op(known_op("dropout"), {&self}, attrs, site);
}
DTensor empty_like(const DTensor& self, std::optional<DType> dtype, const Site& site) {
  Attrs attrs;
  if (dtype) attrs.set("dtype", *dtype);
  return call_op(known_op("empty_like"), {&self}, attrs, site);
}
DTensor full_like(const DTensor& self, double fill_value, std::optional<DType> dtype,
    const Site& site) {
  Attrs attrs = {{"fill_value", fill_value}};
  if (dtype) attrs.set("dtype", *dtype);
  return call_op(known_op("full_like"), {&self}, attrs, site);
}
DTensor multinomial(const DTensor& self, std::int64_t num_samples, std::int64_t seed,
    std::int64_t stream, bool replacement, const Site& site) {
  Attrs attrs = {{"num_samples", num_samples}, {"seed", seed}, {"stream", stream}};
  if (replacement != false) attrs.set("replacement", replacement);
  return call_op(known_op("multinomial"), {&self}, attrs, site);
}
std::pair<DTensor, DTensor> native_dropout(const DTensor& self, std::int64_t seed,
    std::int64_t stream, double p, bool train, const Site& site) {
  Attrs attrs = {{"seed", seed}, {"stream", stream}};
  if (p != 0.5) attrs.set("p", p);
  if (train != true) attrs.set("train", train);
  return results_of<std::pair<DTensor, DTensor>>(call_all(known_op("native_dropout"), {&self},
    attrs, site));
}
DTensor new_empty(const DTensor& self, const Shape& size, std::optional<DType> dtype,
    const Site& site) {
  Attrs attrs = {{"size", size}};
  if (dtype) attrs.set("dtype", *dtype);
  return call_op(known_op("new_empty"), {&self}, attrs, site);
}
DTensor new_full(const DTensor& self, const Shape& size, double fill_value,
    std::optional<DType> dtype, const Site& site) {
  Attrs attrs = {{"size", size}, {"fill_value", fill_value}};
  if (dtype) attrs.set("dtype", *dtype);
  return call_op(known_op("new_full"), {&self}, attrs, site);
}
DTensor new_ones(const DTensor& self, const Shape& size, std::optional<DType> dtype,
    const Site& site) {
  Attrs attrs = {{"size", size}};
  if (dtype) attrs.set("dtype", *dtype);
  return call_op(known_op("new_ones"), {&self}, attrs, site);
}
DTensor new_zeros(const DTensor& self, const Shape& size, std::optional<DType> dtype,
    const Site& site) {
  Attrs attrs = {{"size", size}};
  if (dtype) attrs.set("dtype", *dtype);
  return call_op(known_op("new_zeros"), {&self}, attrs, site);
}
DTensor rand_like(const DTensor& self, std::int64_t seed, std::int64_t stream, const Site& site) {
  return call_op(known_op("rand_like"), {&self}, {{"seed", seed}, {"stream", stream}}, site);
}
DTensor randint_like(const DTensor& self, std::int64_t seed, std::int64_t stream, std::int64_t low,
    std::int64_t high, const Site& site) {
  Attrs attrs = {{"seed", seed}, {"stream", stream}};
  if (low != 0) attrs.set("low", low);
  if (high != 10) attrs.set("high", high);
  return call_op(known_op("randint_like"), {&self}, attrs, site);
}
DTensor randn_like(const DTensor& self, std::int64_t seed, std::int64_t stream, const Site& site) {
  return call_op(known_op("randn_like"), {&self}, {{"seed", seed}, {"stream", stream}}, site);
}

}  // namespace tessera
