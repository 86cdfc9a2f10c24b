// kernels/row_lists_checks.h: what the kernels of row_lists.h ask of their operands, on every
// device, and what they say of values. Errors: InvalidArgument, naming the kernel.
#pragma once

#include <string>

#include "absl/strings/str_format.h"
#include "kernels/row_lists.h"
#include "placement/status.h"

namespace tessera::kernels {

inline void require_list(const char* kernel, const char* name, const Array& list,
                         const Shape& shape) {
  if (list.shape() == shape && list.dtype() == DType::kI64 && list.is_contiguous()) return;
  throw Error(invalid_argument(
      absl::StrFormat("%s: %s is %s%s; expected a dense I64 array of shape %s", kernel, name,
                      name_of(list.dtype()), to_string(list.shape()), to_string(shape))));
}
/// Of any strides.
inline void require_counts(const char* kernel, const Array& counts, int ndim) {
  if (counts.ndim() == ndim && counts.dtype() == DType::kI64) return;
  throw Error(
      invalid_argument(absl::StrFormat("%s: counts are %s%s; expected I64 of %d dims", kernel,
                                       name_of(counts.dtype()), to_string(counts.shape()), ndim)));
}

inline void check_order_by_key(const KeyedRows& rows, const KeySize& size, const Array& of_N,
                               const OrderedLists& out) {
  constexpr const char* kName = "order_by_key";
  require_counts(kName, rows.counts_PSK, 3);
  require_list(kName, "the order", out.source_R, {out.source_R.num_elements()});
  require_list(kName, "the result of counts", out.counts_K, {rows.counts_PSK.size(2)});
  if (!out.restore_N.is_null()) {
    require_list(kName, "the inverse", out.restore_N, {out.restore_N.num_elements()});
  }
  if (!of_N.is_null()) require_list(kName, "the list", of_N, {of_N.num_elements()});
  if (size.alignment > 0) return;
  throw Error(invalid_argument("order_by_key: the alignment must be positive"));
}
inline Status too_many_rows(std::int64_t key, std::int64_t rows, std::int64_t room) {
  return failed_precondition(
      absl::StrFormat("order_by_key: key %d has %d rows, but room for %d", key, rows, room));
}
inline Status too_short_lists(std::int64_t rows, std::int64_t room) {
  return failed_precondition(absl::StrFormat(
      "order_by_key: the keys have %d rows, but the lists have room for %d", rows, room));
}

inline void check_pack_parts(const Array& list_N, const Array& counts_K, const PartRooms& rooms,
                             const Array& out_M) {
  require_list("pack_parts", "the list", list_N, {list_N.num_elements()});
  require_counts("pack_parts", counts_K, 1);
  require_list("pack_parts", "the result", out_M, {rooms.total()});
}

inline void check_keys_of_parts(const Array& ids_TK, const ExpertParts& parts,
                                const Array& keys_TP) {
  require_list("keys_of_parts", "ids", ids_TK,
               {ids_TK.size(0), ids_TK.ndim() == 2 ? ids_TK.size(1) : 0});
  require_list("keys_of_parts", "the result", keys_TP, {ids_TK.size(0), parts.parts});
}

inline void check_slots_of_passed(const Array& ids_TK, const PassedTokens& tokens,
                                  const PassedSlots& out) {
  constexpr const char* kName = "slots_of_passed";
  require_list(kName, "ids", ids_TK, {ids_TK.size(0), ids_TK.ndim() == 2 ? ids_TK.size(1) : 0});
  require_list(kName, "keys", out.keys_N, {ids_TK.num_elements()});
  require_list(kName, "slots", out.row_slots_N, {ids_TK.num_elements()});
  require_list(kName, "counts", out.counts_P, {static_cast<std::int64_t>(tokens.parts.size())});
  std::int64_t all = 0;
  for (const PassedTokens::Part& part : tokens.parts) all += part.tokens;
  if (all == ids_TK.size(0)) return;
  throw Error(invalid_argument(absl::StrFormat("slots_of_passed: the parts have %d tokens, ids %s",
                                               all, to_string(ids_TK.shape()))));
}

inline Status other_counts(std::string_view what, std::int64_t expert, std::int64_t said,
                           std::int64_t counted) {
  return failed_precondition(absl::StrFormat(
      "%s: counts_E says %d assignments of expert %d, ids_BLK have %d on this rank; both must be "
      "of one Routing",
      what, said, expert, counted));
}

}  // namespace tessera::kernels
