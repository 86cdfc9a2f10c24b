// Made by scripts/op_pages from the op table; changes by hand are lost.
// clang-format off
#include "dtensor/front/product.h"

#include "dtensor/op_call.h"

namespace tessera {

DTensor addbmm(const DTensor& self, const DTensor& mat1, const DTensor& mat2, double beta,
    double alpha, const Site& site) {
  Attrs attrs;
  if (beta != 1.0) attrs.set("beta", beta);
  if (alpha != 1.0) attrs.set("alpha", alpha);
  return call_op(known_op("addbmm"), {&self, &mat1, &mat2}, attrs, site);
}
DTensor addmm(const DTensor& self, const DTensor& mat1, const DTensor& mat2, double beta,
    double alpha, const Site& site) {
  Attrs attrs;
  if (beta != 1.0) attrs.set("beta", beta);
  if (alpha != 1.0) attrs.set("alpha", alpha);
  return call_op(known_op("addmm"), {&self, &mat1, &mat2}, attrs, site);
}
DTensor addmv(const DTensor& self, const DTensor& mat, const DTensor& vec, double beta,
    double alpha, const Site& site) {
  Attrs attrs;
  if (beta != 1.0) attrs.set("beta", beta);
  if (alpha != 1.0) attrs.set("alpha", alpha);
  return call_op(known_op("addmv"), {&self, &mat, &vec}, attrs, site);
}
DTensor addr(const DTensor& self, const DTensor& vec1, const DTensor& vec2, double beta,
    double alpha, const Site& site) {
  Attrs attrs;
  if (beta != 1.0) attrs.set("beta", beta);
  if (alpha != 1.0) attrs.set("alpha", alpha);
  return call_op(known_op("addr"), {&self, &vec1, &vec2}, attrs, site);
}
DTensor baddbmm(const DTensor& self, const DTensor& mat1, const DTensor& mat2, double beta,
    double alpha, const Site& site) {
  Attrs attrs;
  if (beta != 1.0) attrs.set("beta", beta);
  if (alpha != 1.0) attrs.set("alpha", alpha);
  return call_op(known_op("baddbmm"), {&self, &mat1, &mat2}, attrs, site);
}
DTensor bmm(const DTensor& self, const DTensor& mat2, const Site& site) {
  return call_op(known_op("bmm"), {&self, &mat2}, {}, site);
}
DTensor cdist(const DTensor& x1, const DTensor& x2, double p, const Site& site) {
  Attrs attrs;
  if (p != 2.0) attrs.set("p", p);
  return call_op(known_op("cdist"), {&x1, &x2}, attrs, site);
}
DTensor cosine_similarity(const DTensor& x1, const DTensor& x2, std::int64_t dim, double eps,
    const Site& site) {
  Attrs attrs;
  if (dim != 1) attrs.set("dim", dim);
  if (eps != 1e-08) attrs.set("eps", eps);
  return call_op(known_op("cosine_similarity"), {&x1, &x2}, attrs, site);
}
DTensor dist(const DTensor& x1, const DTensor& x2, double p, const Site& site) {
  Attrs attrs;
  if (p != 2.0) attrs.set("p", p);
  return call_op(known_op("dist"), {&x1, &x2}, attrs, site);
}
DTensor dot(const DTensor& self, const DTensor& tensor, const Site& site) {
  return call_op(known_op("dot"), {&self, &tensor}, {}, site);
}
DTensor einsum(std::span<const DTensor> operands, std::string_view equation, const Site& site) {
  return listed_call_op(known_op("einsum"), {}, operands, {{"equation", std::string(equation)}},
    site);
}
DTensor grouped_mm(const DTensor& self, const DTensor& weight, const DTensor& counts,
    const Site& site) {
  return call_op(known_op("grouped_mm"), {&self, &weight, &counts}, {}, site);
}
DTensor grouped_mm_slots(const DTensor& self, const DTensor& weight, const DTensor& counts,
    const Site& site) {
  return call_op(known_op("grouped_mm_slots"), {&self, &weight, &counts}, {}, site);
}
DTensor inner(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("inner"), {&self, &other}, {}, site);
}
DTensor kron(const DTensor& self, const DTensor& other, const Site& site) {
  return call_op(known_op("kron"), {&self, &other}, {}, site);
}
DTensor linalg_cross(const DTensor& self, const DTensor& other, std::int64_t dim,
    const Site& site) {
  Attrs attrs;
  if (dim != -1) attrs.set("dim", dim);
  return call_op(known_op("linalg_cross"), {&self, &other}, attrs, site);
}
DTensor linear(const DTensor& input, const DTensor& weight, const DTensor& bias, const Site& site) {
  return call_op(known_op("linear"), {&input, &weight, &bias}, {}, site);
}
DTensor mm(const DTensor& self, const DTensor& mat2, const Site& site) {
  return call_op(known_op("mm"), {&self, &mat2}, {}, site);
}
DTensor mv(const DTensor& self, const DTensor& vec, const Site& site) {
  return call_op(known_op("mv"), {&self, &vec}, {}, site);
}
DTensor outer(const DTensor& self, const DTensor& vec2, const Site& site) {
  return call_op(known_op("outer"), {&self, &vec2}, {}, site);
}
DTensor pairwise_distance(const DTensor& x1, const DTensor& x2, double p, double eps,
    const Site& site) {
  Attrs attrs;
  if (p != 2.0) attrs.set("p", p);
  if (eps != 1e-06) attrs.set("eps", eps);
  return call_op(known_op("pairwise_distance"), {&x1, &x2}, attrs, site);
}
DTensor tensordot(const DTensor& self, const DTensor& other, const Shape& dims_self,
    const Shape& dims_other, const Site& site) {
  Attrs attrs;
  if (!dims_self.empty()) attrs.set("dims_self", dims_self);
  if (!dims_other.empty()) attrs.set("dims_other", dims_other);
  return call_op(known_op("tensordot"), {&self, &other}, attrs, site);
}
DTensor trace(const DTensor& self, const Site& site) {
  return call_op(known_op("trace"), {&self}, {}, site);
}
DTensor vdot(const DTensor& self, const DTensor& tensor, const Site& site) {
  return call_op(known_op("vdot"), {&self, &tensor}, {}, site);
}

}  // namespace tessera
