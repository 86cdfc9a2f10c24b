#include "kernels/row_lists.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "kernels/kernel_table.h"
#include "kernels/key_counts.h"
#include "kernels/row_lists_checks.h"

namespace tessera::kernels::cpu {
namespace {

using Numbers = std::vector<std::int64_t>;

/// A list's first element, or that of none.
std::int64_t* list_of(const Array& list) {
  return list.is_null() ? nullptr : list.data<std::int64_t>();
}

/// Where the rows of each key begin in each part: [part][key], and where they end.
struct Blocks {
  std::int64_t parts = 0, keys = 0;
  Numbers begin = {}, end = {};
};

Blocks blocks_of(const KeyedRows& rows) {
  const KeyCounts counts = key_counts(rows.counts_PSK, rows.counts_PSK.data<std::int64_t>());
  Blocks blocks{.parts = counts.parts, .keys = counts.keys};
  std::int64_t next = 0;
  for (std::int64_t part = 0; part < blocks.parts; ++part) {
    if (rows.room != kAnyNumber) next = part * rows.room;
    const std::int64_t stop = next + rows.room;
    for (std::int64_t key = 0; key < blocks.keys; ++key) {
      blocks.begin.push_back(next);
      next += counts.of(part, key);
      if (rows.room != kAnyNumber) next = std::min(next, stop);
      blocks.end.push_back(next);
    }
  }
  return blocks;
}

/// Added rows included. Throws where a key has more than it may.
Numbers rows_by_key(const Blocks& blocks, const KeySize& size) {
  Numbers counts;
  for (std::int64_t key = 0; key < blocks.keys; ++key) {
    std::int64_t held = 0;
    for (std::int64_t part = 0; part < blocks.parts; ++part) {
      const auto at = static_cast<std::size_t>(part * blocks.keys + key);
      held += blocks.end[at] - blocks.begin[at];
    }
    if (!size.has_room(held)) throw Error(too_many_rows(key, held, size.rows));
    counts.push_back(size.of(held));
  }
  return counts;
}

}  // namespace

void order_by_key(KernelContext&, const KeyedRows& rows, const KeySize& size, const Array& of_N,
                  const OrderedLists& out) {
  check_order_by_key(rows, size, of_N, out);
  const Blocks blocks = blocks_of(rows);
  const std::int64_t room = out.source_R.num_elements();
  std::int64_t* source = list_of(out.source_R);
  std::int64_t* restore = list_of(out.restore_N);
  const std::int64_t* of = list_of(of_N);
  const Numbers counts = rows_by_key(blocks, size);
  const std::int64_t all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  if (all > room) throw Error(too_short_lists(all, room));
  std::copy(counts.begin(), counts.end(), list_of(out.counts_K));
  if (restore != nullptr) std::fill_n(restore, out.restore_N.num_elements(), -1);
  std::int64_t next = 0;
  for (std::int64_t key = 0; key < blocks.keys; ++key) {
    const std::int64_t stop = next + counts[static_cast<std::size_t>(key)];
    for (std::int64_t part = 0; part < blocks.parts; ++part) {
      const auto at = static_cast<std::size_t>(part * blocks.keys + key);
      for (std::int64_t row = blocks.begin[at]; row < blocks.end[at]; ++row, ++next) {
        source[next] = of == nullptr ? row : of[row];
        if (restore != nullptr) restore[row] = next;
      }
    }
    std::fill(source + next, source + stop, -1);
    next = stop;
  }
  std::fill(source + next, source + room, -1);
}

void pack_parts(KernelContext&, const Array& list_N, const Array& counts_K, const PartRooms& rooms,
                const Array& out_M) {
  check_pack_parts(list_N, counts_K, rooms, out_M);
  const std::int64_t* from = list_of(list_N);
  std::int64_t* to = list_of(out_M);
  for (std::int64_t part = 0; part < rooms.parts; ++part) {
    const std::int64_t end = std::min((part + 1) * rooms.keys_per_part, counts_K.size(0));
    std::int64_t held = 0;
    for (std::int64_t key = part * rooms.keys_per_part; key < end; ++key) {
      held += counts_K.data<std::int64_t>()[key * counts_K.strides()[0]];
    }
    const std::int64_t room = rooms.of(part), taken = std::min(held, room);
    std::copy_n(from, taken, to);
    std::fill(to + taken, to + room, -1);
    from += held;
    to += room;
  }
}

void invert_list(KernelContext&, const Array& list_R, const Array& place_S) {
  require_list("invert_list", "the list", list_R, {list_R.num_elements()});
  require_list("invert_list", "the result", place_S, {place_S.num_elements()});
  const std::int64_t* list = list_of(list_R);
  std::int64_t* place = list_of(place_S);
  std::fill_n(place, place_S.num_elements(), -1);
  for (std::int64_t row = 0; row < list_R.num_elements(); ++row) {
    if (list[row] >= 0) place[list[row]] = row;
  }
}

void keys_in_range(KernelContext&, const Array& ids_N, KeyRange range, const Array& keys_N) {
  require_list("keys_in_range", "ids", ids_N, {ids_N.num_elements()});
  require_list("keys_in_range", "the result", keys_N, ids_N.shape());
  const std::int64_t* id = list_of(ids_N);
  std::transform(id, id + ids_N.num_elements(), list_of(keys_N), [&](std::int64_t each) {
    const std::int64_t key = each - range.begin;
    return key >= 0 && key < range.count ? key : range.count;
  });
}

void keys_of_parts(KernelContext&, const Array& ids_TK, const ExpertParts& parts,
                   const Array& keys_TP) {
  check_keys_of_parts(ids_TK, parts, keys_TP);
  std::fill_n(list_of(keys_TP), keys_TP.num_elements(), parts.parts);
  const std::int64_t* id = list_of(ids_TK);
  std::int64_t* key = list_of(keys_TP);
  for (std::int64_t token = 0; token < ids_TK.size(0); ++token, key += parts.parts) {
    for (std::int64_t k = 0; k < ids_TK.size(1); ++k, ++id) {
      if (*id < 0 || *id >= parts.experts) continue;
      key[*id / parts.experts_per_part] = *id / parts.experts_per_part;
    }
  }
}

void slots_of_passed(KernelContext&, const Array& ids_TK, const PassedTokens& tokens,
                     const PassedSlots& out) {
  check_slots_of_passed(ids_TK, tokens, out);
  const std::int64_t top_k = ids_TK.size(1);
  const std::int64_t* id = list_of(ids_TK);
  std::int64_t* key = list_of(out.keys_N);
  std::int64_t* slot = list_of(out.row_slots_N);
  std::int64_t* counts = list_of(out.counts_P);
  std::int64_t next_row = 0;
  for (const PassedTokens::Part& part : tokens.parts) {
    if (part.room != kAnyNumber) next_row = part.first_row;
    std::int64_t came = 0;
    for (std::int64_t token = 0; token < part.tokens; ++token) {
      bool comes = false;
      for (std::int64_t k = 0; k < top_k; ++k) {
        const std::int64_t own = id[k] - tokens.experts.begin;
        const bool is_in = own >= 0 && own < tokens.experts.count;
        comes |= is_in;
        key[k] =
            is_in && (part.room == kAnyNumber || came < part.room) ? own : tokens.experts.count;
        slot[k] = next_row * top_k + k;
      }
      came += comes ? 1 : 0;
      next_row += comes ? 1 : 0;
      id += top_k;
      key += top_k;
      slot += top_k;
    }
    *counts++ = came;
  }
}

void check_counts(KernelContext&, const Array& ids, const Array& counts_E, std::string_view what) {
  require_list("check_counts", "ids", ids, ids.shape());
  require_counts("check_counts", counts_E, 1);
  Numbers counted(static_cast<std::size_t>(counts_E.size(0)) + 1, 0);  // the last: of the others
  const std::int64_t* id = list_of(ids);
  for (std::int64_t i = 0; i < ids.num_elements(); ++i) {
    ++counted[std::min(static_cast<std::size_t>(id[i]), counted.size() - 1)];
  }
  for (std::int64_t expert = 0; expert < counts_E.size(0); ++expert) {
    const std::int64_t said = counts_E.data<std::int64_t>()[expert * counts_E.strides()[0]];
    const std::int64_t has = counted[static_cast<std::size_t>(expert)];
    if (said != has) throw Error(other_counts(what, expert, said, has));
  }
}

}  // namespace tessera::kernels::cpu
