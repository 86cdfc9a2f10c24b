// kernels/row_lists.h: lists that say which row of one buffer lies where in another, made from
// chosen keys where these are: what an exchange of rows takes, and the order in which it brings
// them. A key is an expert, or a group of them. Lists, keys and counts are I64; −1 is no row.
#pragma once

#include <string_view>
#include <vector>

#include "kernels/array.h"
#include "kernels/host_device.h"
#include "placement/api.h"

namespace tessera TSR_API {
namespace kernels {

/// As many as there are.
inline constexpr std::int64_t kAnyNumber = -1;

/// A buffer of parts in turn, each with its rows by key.
struct KeyedRows {
  /// [P, S, K], any strides: rows of a key in part p · S + s.
  Array counts_PSK;
  /// Rows that each part has room for, empty ones included; what is beyond is left out.
  std::int64_t room = kAnyNumber;
};
/// Rows that a key gets.
struct KeySize {
  std::int64_t rows = kAnyNumber;  ///< none may have more
  std::int64_t alignment = 1;      ///< these or its own, up to a multiple

  TSR_HOST_DEVICE bool has_room(std::int64_t held) const { return rows < 0 || held <= rows; }
  /// Of a key that has so many of its own.
  TSR_HOST_DEVICE std::int64_t of(std::int64_t held) const {
    return ((rows < 0 ? held : rows) + alignment - 1) / alignment * alignment;
  }
};
/// Dense lists.
struct OrderedLists {
  Array source_R;   ///< row r comes from row source_R[r] of the buffer
  Array restore_N;  ///< its inverse; null: not wanted
  Array counts_K;   ///< rows of each key, added ones included
};
/// All rows of a key together, in order of their parts; source_R is −1 behind a key's rows, and
/// behind the last one's. `of_N`: source_R tells what stands there in this list instead; null:
/// itself.
/// Errors: FailedPrecondition naming a key with more rows than `size` allows, or lists that are too
/// short.
void order_by_key(KernelContext& ctx, const KeyedRows& rows, const KeySize& size, const Array& of_N,
                  const OrderedLists& out);

/// Parts of consecutive keys, and the rows that each has room for.
struct PartRooms {
  std::int64_t parts = 1;
  std::int64_t keys_per_part = 1;  ///< the last ones may have fewer
  std::int64_t most = 0;           ///< rows of a part
  /// … and at most so many for each of its experts, which are `experts_per_part` of `experts`.
  std::int64_t rows_per_expert = kAnyNumber;
  std::int64_t experts_per_part = 1, experts = 0;

  TSR_HOST_DEVICE std::int64_t of(std::int64_t part) const {
    if (rows_per_expert < 0) return most;
    std::int64_t held = experts - part * experts_per_part;
    held = held < 0 ? 0 : held < experts_per_part ? held : experts_per_part;
    return held * rows_per_expert < most ? held * rows_per_expert : most;
  }
  std::int64_t total() const {
    std::int64_t rows = 0;
    for (std::int64_t part = 0; part < parts; ++part) rows += of(part);
    return rows;
  }
};
/// `list_N`, whose entries stand by key, part by part: each cut where its room ends, or filled up
/// with −1. out_M: dense, of rooms.total().
void pack_parts(KernelContext& ctx, const Array& list_N, const Array& counts_K,
                const PartRooms& rooms, const Array& out_M);

/// place_S[list_R[r]] = r, −1 where no r is. Dense lists; an entry of list_R may be −1.
void invert_list(KernelContext& ctx, const Array& list_R, const Array& place_S);

/// Keys [begin, begin + count).
struct KeyRange {
  std::int64_t begin = 0, count = 0;
};
/// keys[i] = ids[i] − range.begin, or range.count outside the range. Dense.
void keys_in_range(KernelContext& ctx, const Array& ids_N, KeyRange range, const Array& keys_N);

/// Experts cut into parts of equal size, the last ones short.
struct ExpertParts {
  std::int64_t experts = 0, experts_per_part = 1, parts = 1;
};
/// keys_TP[t, p] = p where one of the token's experts lies in part p, else `parts.parts`. Dense.
void keys_of_parts(KernelContext& ctx, const Array& ids_TK, const ExpertParts& parts,
                   const Array& keys_TP);

/// Tokens that come as rows: those with an expert in a range, in order.
struct PassedTokens {
  KeyRange experts;
  /// Tokens [first_token, first_token + tokens) of the buffer; at most `room` of them come, to rows
  /// from first_row on. Ranges in order, one behind another, from 0 on.
  struct Part {
    std::int64_t tokens = 0;
    std::int64_t room = kAnyNumber;
    std::int64_t first_row = 0;
  };
  std::vector<Part> parts = {};
};
/// Dense lists of [T · K] slots.
struct PassedSlots {
  Array keys_N;  ///< expert − first of the range; its count where the slot's row does not come
  Array row_slots_N;  ///< row · K + k of the slots that come
  Array counts_P;     ///< tokens that come of each part, before its room is counted
};
/// Where every part has any room, rows follow each other and `first_row` says nothing.
void slots_of_passed(KernelContext& ctx, const Array& ids_TK, const PassedTokens& tokens,
                     const PassedSlots& out);

/// Errors: FailedPrecondition, naming `what`, where counts_E (any strides) are not those of ids;
/// ids from size(counts_E) on are not counted.
void check_counts(KernelContext& ctx, const Array& ids, const Array& counts_E,
                  std::string_view what);

}  // namespace kernels
}  // namespace tessera
