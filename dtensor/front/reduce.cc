// Made by scripts/op_pages from the op table; changes by hand are lost.
// clang-format off
#include "dtensor/front/reduce.h"

#include "dtensor/op_call.h"

namespace tessera {

DTensor all(const DTensor& self, const Shape& dim, KeepDim keepdim, const Site& site) {
  Attrs attrs;
  if (!dim.empty()) attrs.set("dim", dim);
  if (keepdim != KeepDim::kNo) attrs.set("keepdim", keepdim == KeepDim::kYes);
  return call_op(known_op("all"), {&self}, attrs, site);
}
DTensor allclose(const DTensor& self, const DTensor& other, double rtol, double atol,
    bool equal_nan, const Site& site) {
  Attrs attrs;
  if (rtol != 1e-05) attrs.set("rtol", rtol);
  if (atol != 1e-08) attrs.set("atol", atol);
  if (equal_nan != false) attrs.set("equal_nan", equal_nan);
  return call_op(known_op("allclose"), {&self, &other}, attrs, site);
}
DTensor amax(const DTensor& self, const Shape& dim, KeepDim keepdim, const Site& site) {
  Attrs attrs;
  if (!dim.empty()) attrs.set("dim", dim);
  if (keepdim != KeepDim::kNo) attrs.set("keepdim", keepdim == KeepDim::kYes);
  return call_op(known_op("amax"), {&self}, attrs, site);
}
DTensor amin(const DTensor& self, const Shape& dim, KeepDim keepdim, const Site& site) {
  Attrs attrs;
  if (!dim.empty()) attrs.set("dim", dim);
  if (keepdim != KeepDim::kNo) attrs.set("keepdim", keepdim == KeepDim::kYes);
  return call_op(known_op("amin"), {&self}, attrs, site);
}
std::pair<DTensor, DTensor> aminmax(const DTensor& self, std::optional<std::int64_t> dim,
    KeepDim keepdim, const Site& site) {
  Attrs attrs;
  if (dim) attrs.set("dim", *dim);
  if (keepdim != KeepDim::kNo) attrs.set("keepdim", keepdim == KeepDim::kYes);
  return results_of<std::pair<DTensor, DTensor>>(call_all(known_op("aminmax"), {&self}, attrs,
    site));
}
DTensor any(const DTensor& self, const Shape& dim, KeepDim keepdim, const Site& site) {
  Attrs attrs;
  if (!dim.empty()) attrs.set("dim", dim);
  if (keepdim != KeepDim::kNo) attrs.set("keepdim", keepdim == KeepDim::kYes);
  return call_op(known_op("any"), {&self}, attrs, site);
}
DTensor argmax(const DTensor& self, std::optional<std::int64_t> dim, KeepDim keepdim,
    const Site& site) {
  Attrs attrs;
  if (dim) attrs.set("dim", *dim);
  if (keepdim != KeepDim::kNo) attrs.set("keepdim", keepdim == KeepDim::kYes);
  return call_op(known_op("argmax"), {&self}, attrs, site);
}
DTensor argmin(const DTensor& self, std::optional<std::int64_t> dim, KeepDim keepdim,
    const Site& site) {
  Attrs attrs;
  if (dim) attrs.set("dim", *dim);
  if (keepdim != KeepDim::kNo) attrs.set("keepdim", keepdim == KeepDim::kYes);
  return call_op(known_op("argmin"), {&self}, attrs, site);
}
DTensor count_nonzero(const DTensor& self, const Shape& dim, KeepDim keepdim, const Site& site) {
  Attrs attrs;
  if (!dim.empty()) attrs.set("dim", dim);
  if (keepdim != KeepDim::kNo) attrs.set("keepdim", keepdim == KeepDim::kYes);
  return call_op(known_op("count_nonzero"), {&self}, attrs, site);
}
std::pair<DTensor, DTensor> cummax(const DTensor& self, std::int64_t dim, const Site& site) {
  return results_of<std::pair<DTensor, DTensor>>(call_all(known_op("cummax"), {&self},
    {{"dim", dim}}, site));
}
std::pair<DTensor, DTensor> cummin(const DTensor& self, std::int64_t dim, const Site& site) {
  return results_of<std::pair<DTensor, DTensor>>(call_all(known_op("cummin"), {&self},
    {{"dim", dim}}, site));
}
DTensor cumprod(const DTensor& self, std::int64_t dim, const Site& site) {
  return call_op(known_op("cumprod"), {&self}, {{"dim", dim}}, site);
}
DTensor cumsum(const DTensor& self, std::int64_t dim, const Site& site) {
  return call_op(known_op("cumsum"), {&self}, {{"dim", dim}}, site);
}
DTensor equal(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("equal"), {&self, &other}, {}, site);
}
DTensor histc(const DTensor& self, std::int64_t bins, double min, double max, const Site& site) {
  Attrs attrs;
  if (bins != 100) attrs.set("bins", bins);
  if (min != 0.0) attrs.set("min", min);
  if (max != 0.0) attrs.set("max", max);
  return call_op(known_op("histc"), {&self}, attrs, site);
}
std::pair<DTensor, DTensor> kthvalue(const DTensor& self, std::int64_t k, std::int64_t dim,
    KeepDim keepdim, const Site& site) {
  Attrs attrs = {{"k", k}};
  if (dim != -1) attrs.set("dim", dim);
  if (keepdim != KeepDim::kNo) attrs.set("keepdim", keepdim == KeepDim::kYes);
  return results_of<std::pair<DTensor, DTensor>>(call_all(known_op("kthvalue"), {&self}, attrs,
    site));
}
DTensor linalg_vector_norm(const DTensor& self, double ord, const Shape& dim, KeepDim keepdim,
    const Site& site) {
  Attrs attrs;
  if (ord != 2.0) attrs.set("ord", ord);
  if (!dim.empty()) attrs.set("dim", dim);
  if (keepdim != KeepDim::kNo) attrs.set("keepdim", keepdim == KeepDim::kYes);
  return call_op(known_op("linalg_vector_norm"), {&self}, attrs, site);
}
DTensor logcumsumexp(const DTensor& self, std::int64_t dim, const Site& site) {
  return call_op(known_op("logcumsumexp"), {&self}, {{"dim", dim}}, site);
}
DTensor logsumexp(const DTensor& self, const Shape& dim, KeepDim keepdim, const Site& site) {
  Attrs attrs;
  if (!dim.empty()) attrs.set("dim", dim);
  if (keepdim != KeepDim::kNo) attrs.set("keepdim", keepdim == KeepDim::kYes);
  return call_op(known_op("logsumexp"), {&self}, attrs, site);
}
DTensor max(const DTensor& self, const Site& site) {
  return call_op(known_op("max"), {&self}, {}, site);
}
std::pair<DTensor, DTensor> max(const DTensor& self, std::int64_t dim, KeepDim keepdim,
    const Site& site) {
  Attrs attrs = {{"dim", dim}};
  if (keepdim != KeepDim::kNo) attrs.set("keepdim", keepdim == KeepDim::kYes);
  return results_of<std::pair<DTensor, DTensor>>(call_all(known_op("max_dim"), {&self}, attrs,
    site));
}
DTensor mean(const DTensor& self, const Shape& dim, KeepDim keepdim, const Site& site) {
  Attrs attrs;
  if (!dim.empty()) attrs.set("dim", dim);
  if (keepdim != KeepDim::kNo) attrs.set("keepdim", keepdim == KeepDim::kYes);
  return call_op(known_op("mean"), {&self}, attrs, site);
}
DTensor median(const DTensor& self, const Site& site) {
  return call_op(known_op("median"), {&self}, {}, site);
}
std::pair<DTensor, DTensor> median(const DTensor& self, std::int64_t dim, KeepDim keepdim,
    const Site& site) {
  Attrs attrs;
  if (dim != -1) attrs.set("dim", dim);
  if (keepdim != KeepDim::kNo) attrs.set("keepdim", keepdim == KeepDim::kYes);
  return results_of<std::pair<DTensor, DTensor>>(call_all(known_op("median_dim"), {&self}, attrs,
    site));
}
DTensor min(const DTensor& self, const Site& site) {
  return call_op(known_op("min"), {&self}, {}, site);
}
std::pair<DTensor, DTensor> min(const DTensor& self, std::int64_t dim, KeepDim keepdim,
    const Site& site) {
  Attrs attrs = {{"dim", dim}};
  if (keepdim != KeepDim::kNo) attrs.set("keepdim", keepdim == KeepDim::kYes);
  return results_of<std::pair<DTensor, DTensor>>(call_all(known_op("min_dim"), {&self}, attrs,
    site));
}
std::pair<DTensor, DTensor> mode(const DTensor& self, std::int64_t dim, KeepDim keepdim,
    const Site& site) {
  Attrs attrs;
  if (dim != -1) attrs.set("dim", dim);
  if (keepdim != KeepDim::kNo) attrs.set("keepdim", keepdim == KeepDim::kYes);
  return results_of<std::pair<DTensor, DTensor>>(call_all(known_op("mode"), {&self}, attrs, site));
}
DTensor nanmean(const DTensor& self, const Shape& dim, KeepDim keepdim, const Site& site) {
  Attrs attrs;
  if (!dim.empty()) attrs.set("dim", dim);
  if (keepdim != KeepDim::kNo) attrs.set("keepdim", keepdim == KeepDim::kYes);
  return call_op(known_op("nanmean"), {&self}, attrs, site);
}
DTensor nanmedian(const DTensor& self, const Site& site) {
  return call_op(known_op("nanmedian"), {&self}, {}, site);
}
std::pair<DTensor, DTensor> nanmedian(const DTensor& self, std::int64_t dim, KeepDim keepdim,
    const Site& site) {
  Attrs attrs;
  if (dim != -1) attrs.set("dim", dim);
  if (keepdim != KeepDim::kNo) attrs.set("keepdim", keepdim == KeepDim::kYes);
  return results_of<std::pair<DTensor, DTensor>>(call_all(known_op("nanmedian_dim"), {&self}, attrs,
    site));
}
DTensor nansum(const DTensor& self, const Shape& dim, KeepDim keepdim, const Site& site) {
  Attrs attrs;
  if (!dim.empty()) attrs.set("dim", dim);
  if (keepdim != KeepDim::kNo) attrs.set("keepdim", keepdim == KeepDim::kYes);
  return call_op(known_op("nansum"), {&self}, attrs, site);
}
DTensor norm(const DTensor& self, double p, const Shape& dim, KeepDim keepdim, const Site& site) {
  Attrs attrs;
  if (p != 2.0) attrs.set("p", p);
  if (!dim.empty()) attrs.set("dim", dim);
  if (keepdim != KeepDim::kNo) attrs.set("keepdim", keepdim == KeepDim::kYes);
  return call_op(known_op("norm"), {&self}, attrs, site);
}
DTensor prod(const DTensor& self, const Shape& dim, KeepDim keepdim, const Site& site) {
  Attrs attrs;
  if (!dim.empty()) attrs.set("dim", dim);
  if (keepdim != KeepDim::kNo) attrs.set("keepdim", keepdim == KeepDim::kYes);
  return call_op(known_op("prod"), {&self}, attrs, site);
}
DTensor prod_of_others(const DTensor& self, const Shape& dim, const Site& site) {
  Attrs attrs;
  if (!dim.empty()) attrs.set("dim", dim);
  return call_op(known_op("prod_of_others"), {&self}, attrs, site);
}
DTensor std(const DTensor& self, const Shape& dim, double correction, KeepDim keepdim,
    const Site& site) {
  Attrs attrs;
  if (!dim.empty()) attrs.set("dim", dim);
  if (correction != 1.0) attrs.set("correction", correction);
  if (keepdim != KeepDim::kNo) attrs.set("keepdim", keepdim == KeepDim::kYes);
  return call_op(known_op("std"), {&self}, attrs, site);
}
std::pair<DTensor, DTensor> std_mean(const DTensor& self, const Shape& dim, double correction,
    KeepDim keepdim, const Site& site) {
  Attrs attrs;
  if (!dim.empty()) attrs.set("dim", dim);
  if (correction != 1.0) attrs.set("correction", correction);
  if (keepdim != KeepDim::kNo) attrs.set("keepdim", keepdim == KeepDim::kYes);
  return results_of<std::pair<DTensor, DTensor>>(call_all(known_op("std_mean"), {&self}, attrs,
    site));
}
DTensor sum(const DTensor& self, const Shape& dim, KeepDim keepdim, const Site& site) {
  Attrs attrs;
  if (!dim.empty()) attrs.set("dim", dim);
  if (keepdim != KeepDim::kNo) attrs.set("keepdim", keepdim == KeepDim::kYes);
  return call_op(known_op("sum"), {&self}, attrs, site);
}
DTensor sum_of_squares(const DTensor& self, const Site& site) {
  return call_op(known_op("sum_of_squares"), {&self}, {}, site);
}
DTensor var(const DTensor& self, const Shape& dim, double correction, KeepDim keepdim,
    const Site& site) {
  Attrs attrs;
  if (!dim.empty()) attrs.set("dim", dim);
  if (correction != 1.0) attrs.set("correction", correction);
  if (keepdim != KeepDim::kNo) attrs.set("keepdim", keepdim == KeepDim::kYes);
  return call_op(known_op("var"), {&self}, attrs, site);
}
std::pair<DTensor, DTensor> var_mean(const DTensor& self, const Shape& dim, double correction,
    KeepDim keepdim, const Site& site) {
  Attrs attrs;
  if (!dim.empty()) attrs.set("dim", dim);
  if (correction != 1.0) attrs.set("correction", correction);
  if (keepdim != KeepDim::kNo) attrs.set("keepdim", keepdim == KeepDim::kYes);
  return results_of<std::pair<DTensor, DTensor>>(call_all(known_op("var_mean"), {&self}, attrs,
    site));
}

}  // namespace tessera
