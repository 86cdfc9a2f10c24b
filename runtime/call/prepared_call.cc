#include "runtime/call/prepared_call.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "absl/strings/str_format.h"
#include "kernels/fold.h"
#include "kernels/peer_rows.h"

namespace tessera {
namespace {

using Kind = CollectiveCall::Kind;

std::int64_t sum_of(std::span<const std::int64_t> values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

std::string text_of(const Array& array) {
  return std::string(name_of(array.dtype())) + " " + to_string(array.shape());
}

std::string text_of(std::span<const std::int64_t> values) { return to_string(ShapeView(values)); }

Status refuse(const CollectiveCall& call, const std::string& text) {
  return invalid_argument(std::string(name_of(call.kind())) + ": " + text);
}

// ---- where arrays may lie

struct Bytes {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
};
Bytes bytes_of(const Array& array) {
  const std::byte* begin = array.bytes();
  return {begin, begin + array.num_bytes()};
}
bool disjoint(const Array& a, const Array& b) {
  const Bytes x = bytes_of(a), y = bytes_of(b);
  return x.begin == x.end || y.begin == y.end || x.end <= y.begin || y.end <= x.begin;
}

Status check_array(const CollectiveCall& call, const Array& array, std::string_view role) {
  if (array.is_null()) return refuse(call, std::string(role) + " is a null array");
  if (!array.is_contiguous()) {
    return refuse(call, std::string(role) + " " + text_of(array) +
                            " is not contiguous; make it so first (kernels::contiguous)");
  }
  return absl::OkStatus();
}

/// f(array, its name) for the call's arrays that are not null.
template <class F>
void for_each_array(const CollectiveCall& call, F&& f) {
  const auto visit = [&](const Array& array, std::string_view role) {
    if (!array.is_null()) f(array, role);
  };
  visit(call.in(), "in");
  visit(call.out(), "out");
  for (const ExchangePart& part : call.parts()) {
    visit(part.in, "in");
    visit(part.out, "out");
  }
  if (call.kind() != Kind::kPeerRows) return;
  if (call.as<PeerRowsCall>().rows == nullptr) return;
  const PeerRows& rows = *call.as<PeerRowsCall>().rows;
  visit(rows.place_TK, "places");
  visit(rows.weights_TK, "weights");
  visit(rows.tokens_TD, "tokens");
}

Status check_one_device(const CollectiveCall& call) {
  Status status = absl::OkStatus();
  const Array* first = nullptr;
  for_each_array(call, [&](const Array& array, std::string_view role) {
    if (first == nullptr) first = &array;
    if (!status.ok() || &array.device() == &first->device()) return;
    status = refuse(call, std::string(role) + " lies on " + to_string(array.device().id()) +
                              ", another array of the call on " + to_string(first->device().id()) +
                              "; allowed: one device for all");
  });
  return status;
}

Status check_dtypes(const CollectiveCall& call, const Array& in, const Array& out) {
  if (in.dtype() == out.dtype()) return absl::OkStatus();
  return refuse(call, "in " + text_of(in) + " and out " + text_of(out) + " must have one dtype");
}

Status check_both(const CollectiveCall& call) {
  TSR_RETURN_IF_ERROR(check_array(call, call.in(), "in"));
  TSR_RETURN_IF_ERROR(check_array(call, call.out(), "out"));
  return check_dtypes(call, call.in(), call.out());
}

// Both arrays have rows (dim 0), of one row shape.
Status check_rows(const CollectiveCall& call) {
  TSR_RETURN_IF_ERROR(check_both(call));
  if (call.in().ndim() < 1 || call.out().ndim() < 1 ||
      row_shape(call.in()) != row_shape(call.out())) {
    return refuse(call, "in " + text_of(call.in()) + " and out " + text_of(call.out()) +
                            " must agree in all dims but the first");
  }
  return absl::OkStatus();
}

Status check_splits(const CollectiveCall& call, std::span<const std::int64_t> splits,
                    std::string_view role, std::int64_t rows, int size) {
  const bool negative =
      std::any_of(splits.begin(), splits.end(), [](auto rows_of) { return rows_of < 0; });
  if (std::ssize(splits) == size && !negative && sum_of(splits) == rows) return absl::OkStatus();
  return refuse(call, absl::StrFormat("%s %s must be %d row counts that add up to %d",
                                      std::string(role), text_of(splits), size, rows));
}

// ---- one kind each

Status prepare_all_reduce(CollectiveCall& call) {
  TSR_RETURN_IF_ERROR(check_both(call));
  if (call.in().shape() != call.out().shape()) {
    return refuse(call, "in " + text_of(call.in()) + " and out " + text_of(call.out()) +
                            " must have one shape");
  }
  if (call.in().bytes() != call.out().bytes() && !disjoint(call.in(), call.out())) {
    return refuse(call, "in and out overlap; allowed: the same elements, or none in common");
  }
  return check_fold(call.in().dtype(), call.reduce());
}

Status prepare_all_gather(CollectiveCall& call, const GroupPlace& place) {
  TSR_RETURN_IF_ERROR(check_rows(call));
  std::vector<std::int64_t>& rows = call.as<AllGatherCall>().rows;
  const auto rank = static_cast<std::size_t>(place.rank);
  if (rows.empty()) {
    rows.assign(static_cast<std::size_t>(place.size), call.in().size(0));
  }
  TSR_RETURN_IF_ERROR(check_splits(call, rows, "rows", call.out().size(0), place.size));
  if (rows[rank] != call.in().size(0)) {
    return refuse(call,
                  absl::StrFormat("in has %d rows, but rows %s say %d for rank %d of the group",
                                  call.in().size(0), text_of(rows), rows[rank], place.rank));
  }
  const std::byte* own = call.out().bytes() + sum_before(rows, place.rank) * row_bytes(call.out());
  if (call.in().bytes() != own && !disjoint(call.in(), call.out())) {
    return refuse(call, "in and out overlap; allowed: in is this rank's own rows of out");
  }
  return absl::OkStatus();
}

Status prepare_reduce_scatter(CollectiveCall& call, const GroupPlace& place) {
  TSR_RETURN_IF_ERROR(check_rows(call));
  std::vector<std::int64_t>& rows = call.as<ReduceScatterCall>().rows;
  const auto rank = static_cast<std::size_t>(place.rank);
  if (rows.empty()) {
    rows.assign(static_cast<std::size_t>(place.size), call.out().size(0));
  }
  TSR_RETURN_IF_ERROR(check_splits(call, rows, "rows", call.in().size(0), place.size));
  if (rows[rank] != call.out().size(0)) {
    return refuse(call,
                  absl::StrFormat("out has %d rows, but rows %s say %d for rank %d of the group",
                                  call.out().size(0), text_of(rows), rows[rank], place.rank));
  }
  const std::byte* own = call.in().bytes() + sum_before(rows, place.rank) * row_bytes(call.in());
  if (call.out().bytes() != own && !disjoint(call.in(), call.out())) {
    return refuse(call, "in and out overlap; allowed: out is this rank's own rows of in");
  }
  return check_fold(call.in().dtype(), call.reduce());
}

Status prepare_all_to_all(CollectiveCall& call, const GroupPlace& place) {
  TSR_RETURN_IF_ERROR(check_rows(call));
  const auto& [in, out, send_splits, recv_splits] = call.as<AllToAllCall>();
  TSR_RETURN_IF_ERROR(check_splits(call, send_splits, "send_splits", in.size(0), place.size));
  TSR_RETURN_IF_ERROR(check_splits(call, recv_splits, "recv_splits", out.size(0), place.size));
  if (!disjoint(in, out)) return refuse(call, "in and out overlap");
  return absl::OkStatus();
}

Status check_peer(const CollectiveCall& call, std::string_view role, const GroupPlace& place) {
  if (call.root() >= 0 && call.root() < place.size) return absl::OkStatus();
  return refuse(call, absl::StrFormat("%s %d is outside the group's ranks [0, %d)",
                                      std::string(role), call.root(), place.size));
}

Status check_boxes(const CollectiveCall& call, std::span<const Transfer> boxes, const Array& array,
                   const GroupPlace& place) {
  if (array.is_null() && !boxes.empty()) {
    return refuse(call, "a part has boxes but no array for them");
  }
  for (const Transfer& box : boxes) {
    if (box.peer >= 0 && box.peer < place.size) continue;
    return refuse(call, absl::StrFormat("a box names peer %d, outside the group's ranks [0, %d)",
                                        box.peer, place.size));
  }
  return absl::OkStatus();
}

Status check_part(const CollectiveCall& call, const ExchangePart& part, const GroupPlace& place) {
  if (part.boxes == nullptr || (part.in.is_null() && part.out.is_null())) {
    return refuse(call, "a part has no boxes or no array");
  }
  const ExchangeBoxes& boxes = *part.boxes;
  if (!part.in.is_null()) TSR_RETURN_IF_ERROR(check_array(call, part.in, "in"));
  if (!part.out.is_null()) TSR_RETURN_IF_ERROR(check_array(call, part.out, "out"));
  if (!part.in.is_null() && !part.out.is_null()) {
    TSR_RETURN_IF_ERROR(check_dtypes(call, part.in, part.out));
    if (part.in.bytes() != part.out.bytes() && !disjoint(part.in, part.out)) {
      return refuse(call, "in and out overlap; allowed: the same array, or no element in common");
    }
  }
  TSR_RETURN_IF_ERROR(check_boxes(call, boxes.into, part.out, place));
  TSR_RETURN_IF_ERROR(check_boxes(call, boxes.from, part.in, place));
  if (boxes.cut_from.size() != boxes.into.size()) {
    return refuse(call, absl::StrFormat("%d boxes come with %d shapes of the arrays they are cut "
                                        "from",
                                        boxes.into.size(), boxes.cut_from.size()));
  }
  return boxes.fold ? check_fold(dtype_of(part), boxes.reduce) : absl::OkStatus();
}

Status prepare_exchange(CollectiveCall& call, const GroupPlace& place) {
  if (call.parts().empty()) return refuse(call, "no parts; allowed: one or more");
  for (const ExchangePart& part : call.parts()) TSR_RETURN_IF_ERROR(check_part(call, part, place));
  return absl::OkStatus();
}

Status check_peer_list(const CollectiveCall& call, const Array& list, std::string_view role,
                       DType dtype) {
  TSR_RETURN_IF_ERROR(check_array(call, list, role));
  const Shape& places = call.as<PeerRowsCall>().rows->place_TK.shape();
  if (list.shape() == places && list.dtype() == dtype && places.size() == 2) {
    return absl::OkStatus();
  }
  return refuse(call, std::string(role) + " " + text_of(list) + " must be " +
                          std::string(name_of(dtype)) + " [T, K] like the places " +
                          to_string(places));
}

Status prepare_peer_rows(const CollectiveCall& call, const GroupPlace& place) {
  if (call.as<PeerRowsCall>().rows == nullptr) return refuse(call, "no list of rows");
  const PeerRows& rows = *call.as<PeerRowsCall>().rows;
  const bool dots = rows.way == PeerRows::Way::kDot;
  TSR_RETURN_IF_ERROR(check_array(call, call.in(), "in"));
  TSR_RETURN_IF_ERROR(check_array(call, call.out(), "out"));
  TSR_RETURN_IF_ERROR(check_array(call, rows.place_TK, "places"));
  TSR_RETURN_IF_ERROR(check_peer_list(call, rows.place_TK, "places", DType::kI64));
  if (dots) TSR_RETURN_IF_ERROR(check_array(call, rows.tokens_TD, "tokens"));
  const Array &buffer = peer_buffer(call), &tokens = peer_tokens(call);
  const DType sums = buffer.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  if (dots) TSR_RETURN_IF_ERROR(check_peer_list(call, call.out(), "out", sums));
  if (!rows.weights_TK.is_null()) {
    TSR_RETURN_IF_ERROR(check_peer_list(call, rows.weights_TK, "weights", sums));
  }
  if (buffer.ndim() != 2 || tokens.ndim() != 2 || buffer.size(1) != tokens.size(1) ||
      tokens.size(0) != rows.place_TK.size(0) || !is_floating(buffer.dtype()) ||
      (tokens.dtype() != buffer.dtype() && tokens.dtype() != sums)) {
    return refuse(call, "the buffer " + text_of(buffer) + " and tokens " + text_of(tokens) +
                            " must be floating [R, D] and [T, D] with places [T, K], here " +
                            to_string(rows.place_TK.shape()) +
                            "; allowed: tokens of the buffer's dtype or F32 beside half precision");
  }
  if (!disjoint(buffer, tokens)) return refuse(call, "the buffer and the tokens overlap");
  if (rows.copies < 1 || place.size % rows.copies != 0) {
    return refuse(call, absl::StrFormat("%d copies; allowed: a divisor of the group's size %d",
                                        rows.copies, place.size));
  }
  for (const auto* counts : {&rows.buffer_rows, &rows.rows_of_tokens, &rows.rows_of_buffer}) {
    if (counts->empty() || std::ssize(*counts) == place.size) continue;
    return refuse(call, absl::StrFormat("rows of %d ranks, but the group has %d", counts->size(),
                                        place.size));
  }
  const auto own = static_cast<std::size_t>(place.rank);
  if (!rows.buffer_rows.empty() && rows.buffer_rows[own] != buffer.size(0)) {
    return refuse(call, absl::StrFormat("a buffer of %d rows, stated as %d", buffer.size(0),
                                        rows.buffer_rows[own]));
  }
  return absl::OkStatus();
}

/// `rows` in even shares among the other ranks, the first ones larger.
std::vector<std::int64_t> spread(std::int64_t rows, const GroupPlace& place) {
  std::vector<std::int64_t> shares(static_cast<std::size_t>(place.size), 0);
  const std::int64_t others = place.size - 1;
  for (std::int64_t i = 0; i < others; ++i) {
    const auto rank = static_cast<std::size_t>(i < place.rank ? i : i + 1);
    shares[rank] = rows / others + (i < rows % others ? 1 : 0);
  }
  return shares;
}

std::int64_t sum_of_others(const std::vector<std::int64_t>& rows, const GroupPlace& place) {
  return sum_of(rows) - rows[static_cast<std::size_t>(place.rank)];
}

std::int64_t bytes_to_others(std::span<const Transfer> boxes, DType dtype,
                             const GroupPlace& place) {
  std::int64_t elements = 0;
  for (const Transfer& box : boxes) {
    if (box.peer != place.rank) elements += box.num_elements();
  }
  return elements * size_of(dtype);
}

}  // namespace

DType dtype_of(const ExchangePart& part) noexcept {
  return part.in.is_null() ? part.out.dtype() : part.in.dtype();
}

void wait_ready(const CollectiveCall& call) {
  for_each_array(call, [](const Array& array, std::string_view) { array.storage()->wait_ready(); });
}

void mark_written(const CollectiveCall& call) {
  const auto mark = [](const Array& array) {
    if (!array.is_null()) array.storage()->bump_version();
  };
  mark(call.out());
  for (const ExchangePart& part : call.parts()) mark(part.out);
}

std::string_view name_of(CollectiveCall::Kind kind) noexcept {
  static constexpr std::string_view kNames[] = {
      "barrier",   "all_reduce", "all_gather", "reduce_scatter", "all_to_all",
      "broadcast", "send",       "recv",       "exchange",       "peer_rows"};
  return kNames[static_cast<int>(kind)];
}

std::string_view name_of(PeerRows::Way way) noexcept {
  static constexpr std::string_view kNames[] = {"put_peer_rows", "sum_peer_rows", "dot_peer_rows"};
  return kNames[static_cast<int>(way)];
}

const Array& peer_buffer(const CollectiveCall& call) noexcept {
  return call.as<PeerRowsCall>().rows->way == PeerRows::Way::kPut ? call.out() : call.in();
}

const Array& peer_tokens(const CollectiveCall& call) noexcept {
  switch (call.as<PeerRowsCall>().rows->way) {
    case PeerRows::Way::kPut:
      return call.in();
    case PeerRows::Way::kSum:
      return call.out();
    case PeerRows::Way::kDot:
      break;
  }
  return call.as<PeerRowsCall>().rows->tokens_TD;
}

PeerRowCounts peer_row_counts(const CollectiveCall& call, const GroupPlace& place) {
  const PeerRows& rows = *call.as<PeerRowsCall>().rows;
  PeerRowCounts counts{rows.rows_of_tokens, rows.rows_of_buffer};
  if (counts.of_tokens.empty()) {
    counts.of_tokens = spread(rows.place_TK.num_elements() * rows.copies, place);
  }
  if (counts.of_buffer.empty()) counts.of_buffer = spread(peer_buffer(call).size(0), place);
  return counts;
}

Status prepare(CollectiveCall& call, const GroupPlace& place) {
  call.ragged = std::visit(
      [&](auto& each) {
        if constexpr (requires { each.divisor; }) {
          if (each.divisor == 0) each.divisor = place.size;
        }
        if constexpr (requires { each.send_splits; }) return true;
        if constexpr (requires { each.rows.empty(); }) return !each.rows.empty();
        return false;
      },
      call.of);
  TSR_RETURN_IF_ERROR(check_one_device(call));
  switch (call.kind()) {
    case Kind::kBarrier:
      return absl::OkStatus();
    case Kind::kAllReduce:
      return prepare_all_reduce(call);
    case Kind::kAllGather:
      return prepare_all_gather(call, place);
    case Kind::kReduceScatter:
      return prepare_reduce_scatter(call, place);
    case Kind::kAllToAll:
      return prepare_all_to_all(call, place);
    case Kind::kBroadcast:
      TSR_RETURN_IF_ERROR(check_array(call, call.out(), "in_out"));
      return check_peer(call, "root", place);
    case Kind::kSend:
      TSR_RETURN_IF_ERROR(check_array(call, call.in(), "in"));
      return check_peer(call, "peer", place);
    case Kind::kRecv:
      TSR_RETURN_IF_ERROR(check_array(call, call.out(), "out"));
      return check_peer(call, "peer", place);
    case Kind::kExchange:
      return prepare_exchange(call, place);
    case Kind::kPeerRows:
      return prepare_peer_rows(call, place);
  }
  return internal_error("a collective of unknown kind");
}

Device& device_of(const CollectiveCall& call) {
  Device* device = &cpu_device();
  for_each_array(call, [&](const Array& array, std::string_view) { device = &array.device(); });
  return *device;
}

Slice slice_of(std::int64_t n, const GroupPlace& place) noexcept {
  const ElementRange part = all_reduce_part(n, {place.rank, place.size});
  return {part.begin, part.end};
}

Traffic traffic_of(const CollectiveCall& call, const GroupPlace& place) {
  const auto rank = static_cast<std::size_t>(place.rank);
  const std::int64_t others = place.size - 1;
  switch (call.kind()) {
    case Kind::kBarrier:
      return {};
    case Kind::kAllReduce: {
      const std::int64_t element = size_of(call.in().dtype());
      const std::int64_t bytes = element * all_reduce_received(call.in().num_elements(), element,
                                                               {place.rank, place.size});
      return {bytes, bytes};
    }
    case Kind::kAllGather:
      return {others * call.in().num_bytes(), call.out().num_bytes() - call.in().num_bytes()};
    case Kind::kReduceScatter:
      return {call.in().num_bytes() - call.out().num_bytes(), others * call.out().num_bytes()};
    case Kind::kAllToAll:
      return {
          (call.in().size(0) - call.as<AllToAllCall>().send_splits[rank]) * row_bytes(call.in()),
          (call.out().size(0) - call.as<AllToAllCall>().recv_splits[rank]) * row_bytes(call.in())};
    case Kind::kBroadcast:
      if (call.root() == place.rank) return {others * call.out().num_bytes(), 0};
      return {0, call.out().num_bytes()};
    case Kind::kSend:
      return {call.root() == place.rank ? 0 : call.in().num_bytes(), 0};
    case Kind::kRecv:
      return {0, call.root() == place.rank ? 0 : call.out().num_bytes()};
    case Kind::kExchange: {
      Traffic traffic;
      for (const ExchangePart& part : call.parts()) {
        traffic.sent += bytes_to_others(part.boxes->from, dtype_of(part), place);
        traffic.received += bytes_to_others(part.boxes->into, dtype_of(part), place);
      }
      return traffic;
    }
    case Kind::kPeerRows: {
      const PeerRowCounts counts = peer_row_counts(call, place);
      const std::int64_t row = row_bytes(peer_buffer(call));
      const std::int64_t of_tokens = sum_of_others(counts.of_tokens, place) * row,
                         of_buffer = sum_of_others(counts.of_buffer, place) * row;
      if (call.as<PeerRowsCall>().rows->way == PeerRows::Way::kPut) return {of_tokens, of_buffer};
      return {of_buffer, of_tokens};
    }
  }
  return {};
}

Shape row_shape(const Array& array) {
  const Shape& shape = array.shape();
  return Shape(shape.begin() + 1, shape.end());
}

std::int64_t row_bytes(const Array& array) {
  return num_elements(view_of(array.shape()).subspan(1)) * size_of(array.dtype());
}

std::int64_t sum_before(std::span<const std::int64_t> splits, int rank) {
  return sum_of(splits.first(static_cast<std::size_t>(rank)));
}

}  // namespace tessera
