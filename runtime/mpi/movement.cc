#include "runtime/mpi/movement.h"

#include <algorithm>
#include <cstring>

#include "runtime/box_parts.h"
#include "runtime/fold.h"

namespace tessera {
namespace {

using Kind = CollectiveCall::Kind;

// Up to here a broadcast goes down a tree; beyond, its slices are spread, then gathered.
constexpr std::int64_t kTreeBytes = 2 * 1024 * 1024;
// So few ranks all hang from the root.
constexpr int kFlatRanks = 4;

void copy_bytes(std::byte* dst, const std::byte* src, std::int64_t bytes) {
  if (bytes > 0 && dst != src) std::memcpy(dst, src, static_cast<std::size_t>(bytes));
}

// In a tree rooted at 0: the parent of `rank`.
int parent_of(int rank, int size) { return size <= kFlatRanks ? 0 : rank & (rank - 1); }

// Its children, those with the largest trees of their own first.
std::vector<int> children_of(int rank, int size) {
  std::vector<int> children;
  for (int child = size - 1; child > rank; --child) {
    if (parent_of(child, size) == rank) children.push_back(child);
  }
  return children;
}

}  // namespace

Messages::Address Movement::at(int group_rank, MessagePart part) const {
  return {place_.ranks[static_cast<std::size_t>(group_rank)],
          MpiLink::tag(place_.group_id, place_.sequence, part)};
}

void Movement::send(int to, MessagePart part, const std::byte* data, std::int64_t bytes) {
  if (bytes > 0) {
    messages_.send(*place_.link, at(to, part), data, bytes, size_of(signature_.dtype));
  }
}

void Movement::recv(int from, MessagePart part, std::byte* data, std::int64_t bytes) {
  if (bytes > 0) {
    messages_.recv(*place_.link, at(from, part), data, bytes, size_of(signature_.dtype));
  }
}

std::byte* Movement::scratch(std::int64_t bytes) {
  scratch_ = Array::empty({bytes}, DType::kBool, place_.allocator);
  return scratch_.bytes();
}

std::vector<const std::byte*> Movement::sources(const std::byte* own, std::int64_t bytes) const {
  std::vector<const std::byte*> all;
  all.reserve(static_cast<std::size_t>(place_.group.size));
  const std::byte* received = place_.group.size > 1 ? scratch_.bytes() : nullptr;
  for (int i = 0; i < place_.group.size; ++i) {
    all.push_back(i == place_.group.rank ? own : received);
    if (i != place_.group.rank) received += bytes;
  }
  return all;
}

void Movement::fold_into(const std::byte* own, std::byte* out, std::int64_t elements) {
  if (elements == 0) return;
  const std::int64_t bytes = elements * size_of(signature_.dtype);
  fold(signature_.dtype, fold_by(call_.reduce, call_.divisor), sources(own, bytes), out, elements);
}

void Movement::begin() {
  switch (call_.kind) {
    case Kind::kBarrier:
      return begin_barrier_round();
    case Kind::kAllReduce:
      return begin_all_reduce();
    case Kind::kAllGather:
      return begin_all_gather();
    case Kind::kReduceScatter:
      return begin_reduce_scatter();
    case Kind::kAllToAll:
      return begin_all_to_all();
    case Kind::kBroadcast:
      return begin_broadcast();
    case Kind::kSend:
    case Kind::kRecv:
      return begin_pair();
    case Kind::kExchange:
      return begin_exchange();
  }
}

bool Movement::advance() {
  while (messages_.done()) {
    if (next_step()) return true;
  }
  return false;
}

bool Movement::next_step() {
  ++step_;
  const std::int64_t element = size_of(signature_.dtype);
  switch (call_.kind) {
    case Kind::kBarrier:
      begin_barrier_round();
      return messages_.empty();
    case Kind::kAllReduce: {
      if (step_ == 2) return true;
      const std::int64_t count = call_.in.num_elements();
      if (call_.in.num_bytes() <= kFoldAllBytes) {
        fold_into(call_.in.bytes(), call_.out.bytes(), count);
        return true;
      }
      const Slice own = slice_of(count, place_.group);
      fold_into(call_.in.bytes() + own.begin * element, call_.out.bytes() + own.begin * element,
                own.end - own.begin);
      gather_slices();
      return false;
    }
    case Kind::kReduceScatter: {
      const std::byte* own =
          call_.in.bytes() +
          sum_before(signature_.send_splits, place_.group.rank) * row_bytes(call_.in);
      fold_into(own, call_.out.bytes(), call_.out.num_elements());
      return true;
    }
    case Kind::kBroadcast: {
      const bool tree = call_.out.num_bytes() <= kTreeBytes;
      if (step_ == 2) return true;
      if (!tree) {
        gather_slices();
        return false;
      }
      // What came from the parent goes on to the children.
      const int size = place_.group.size;
      const int self = (place_.group.rank - call_.root + size) % size;
      for (const int child : children_of(self, size)) {
        send((child + call_.root) % size, MessagePart::kData, call_.out.bytes(),
             call_.out.num_bytes());
      }
      return false;
    }
    case Kind::kExchange:
      place_boxes();
      return true;
    default:
      return true;
  }
}

// Dissemination: in round r every rank hears of 2^r others.
void Movement::begin_barrier_round() {
  const int size = place_.group.size;
  const int distance = 1 << step_;
  if (distance >= size) return;
  const int to = (place_.group.rank + distance) % size;
  const int from = (place_.group.rank - distance + size) % size;
  messages_.send(*place_.link, at(to, MessagePart::kData), nullptr, 0, 1);
  messages_.recv(*place_.link, at(from, MessagePart::kData), nullptr, 0, 1);
}

// As many bytes from every other rank, one after another in the scratch buffer.
void Movement::recv_summands(std::int64_t bytes) {
  std::byte* into = scratch(others() * bytes);
  for (int i = 0; i < place_.group.size; ++i) {
    if (i == place_.group.rank) continue;
    recv(i, MessagePart::kData, into, bytes);
    into += bytes;
  }
}

// The rows of `in` that send_splits give to each other rank.
void Movement::send_rows(std::int64_t row_bytes) {
  for (int step = 1; step < place_.group.size; ++step) {
    const int to = (place_.group.rank + step) % place_.group.size;
    send(to, MessagePart::kData,
         call_.in.bytes() + sum_before(signature_.send_splits, to) * row_bytes,
         signature_.send_splits[static_cast<std::size_t>(to)] * row_bytes);
  }
}

void Movement::begin_all_reduce() {
  const std::int64_t count = call_.in.num_elements();
  const std::int64_t element = size_of(signature_.dtype);
  if (place_.group.size == 1) return;
  const bool whole = call_.in.num_bytes() <= kFoldAllBytes;
  const Slice own = whole ? Slice{0, count} : slice_of(count, place_.group);
  const std::int64_t own_bytes = (own.end - own.begin) * element;
  recv_summands(own_bytes);
  for (int step = 1; step < place_.group.size; ++step) {
    const int to = (place_.group.rank + step) % place_.group.size;
    const Slice slice = whole ? own : slice_of(count, {to, place_.group.size});
    send(to, MessagePart::kData, call_.in.bytes() + slice.begin * element,
         (slice.end - slice.begin) * element);
  }
}

// Every rank's slice of `out` goes to all.
void Movement::gather_slices() {
  const std::int64_t count = call_.out.num_elements();
  const std::int64_t element = size_of(signature_.dtype);
  const Slice own = slice_of(count, place_.group);
  for (int step = 1; step < place_.group.size; ++step) {
    const int from = (place_.group.rank - step + place_.group.size) % place_.group.size;
    if (call_.kind == Kind::kBroadcast && place_.group.rank == call_.root) break;  // has all
    const Slice slice = slice_of(count, {from, place_.group.size});
    recv(from, MessagePart::kSecondData, call_.out.bytes() + slice.begin * element,
         (slice.end - slice.begin) * element);
  }
  for (int step = 1; step < place_.group.size; ++step) {
    const int to = (place_.group.rank + step) % place_.group.size;
    if (call_.kind == Kind::kBroadcast && to == call_.root) continue;
    send(to, MessagePart::kSecondData, call_.out.bytes() + own.begin * element,
         (own.end - own.begin) * element);
  }
}

void Movement::begin_all_gather() {
  const std::int64_t row = row_bytes(call_.out);
  std::byte* out = call_.out.bytes();
  for (int i = 0; i < place_.group.size; ++i) {
    const std::int64_t bytes = signature_.recv_splits[static_cast<std::size_t>(i)] * row;
    if (i != place_.group.rank) recv(i, MessagePart::kData, out, bytes);
    if (i == place_.group.rank) copy_bytes(out, call_.in.bytes(), bytes);
    out += bytes;
  }
  for (int step = 1; step < place_.group.size; ++step) {
    send((place_.group.rank + step) % place_.group.size, MessagePart::kData, call_.in.bytes(),
         call_.in.num_bytes());
  }
}

void Movement::begin_reduce_scatter() {
  if (place_.group.size == 1) return;
  const std::int64_t row = row_bytes(call_.in);
  const std::int64_t own_bytes = call_.out.num_bytes();
  recv_summands(own_bytes);
  send_rows(row);
}

void Movement::begin_all_to_all() {
  const std::int64_t row = row_bytes(call_.out);
  std::byte* out = call_.out.bytes();
  for (int i = 0; i < place_.group.size; ++i) {
    const std::int64_t bytes = signature_.recv_splits[static_cast<std::size_t>(i)] * row;
    if (i == place_.group.rank) {
      copy_bytes(out, call_.in.bytes() + sum_before(signature_.send_splits, i) * row, bytes);
    } else {
      recv(i, MessagePart::kData, out, bytes);
    }
    out += bytes;
  }
  send_rows(row);
}

void Movement::begin_broadcast() {
  const int size = place_.group.size;
  const int self = (place_.group.rank - call_.root + size) % size;
  if (call_.out.num_bytes() <= kTreeBytes) {
    if (self != 0) {
      recv((parent_of(self, size) + call_.root) % size, MessagePart::kData, call_.out.bytes(),
           call_.out.num_bytes());
    }
    return;
  }
  const std::int64_t element = size_of(signature_.dtype);
  const auto slice_at = [&](int rank) {
    const Slice slice = slice_of(call_.out.num_elements(), {rank, size});
    return std::pair(call_.out.bytes() + slice.begin * element,
                     (slice.end - slice.begin) * element);
  };
  if (self != 0) {
    const auto [data, bytes] = slice_at(place_.group.rank);
    recv(call_.root, MessagePart::kData, data, bytes);
    return;
  }
  for (int step = 1; step < size; ++step) {
    const int to = (place_.group.rank + step) % size;
    const auto [data, bytes] = slice_at(to);
    send(to, MessagePart::kData, data, bytes);
  }
}

void Movement::begin_pair() {
  if (call_.kind == Kind::kSend) {
    send(call_.root, MessagePart::kPairData, call_.in.bytes(), call_.in.num_bytes());
  } else {
    recv(call_.root, MessagePart::kPairData, call_.out.bytes(), call_.out.num_bytes());
  }
}

// Boxes for others are packed into one message each; boxes that come are unpacked, or folded, when
// all are there. An own box is placed straight from `in`; where it is folded it is packed like the
// others, so that all have the same pieces.
void Movement::begin_exchange() {
  const int self = place_.group.rank;
  std::int64_t received = 0, sent = 0;
  for (const ExchangePart& part : call_.parts) {
    const std::int64_t element = size_of(dtype_of(part));
    for (const Transfer& box : part.boxes->into) {
      const bool direct = box.peer == self && !part.boxes->fold;
      box_offsets_.push_back(direct ? -1 : received);
      if (!direct) received += box.num_elements() * element;
    }
    for (const Transfer& box : part.boxes->from) {
      if (box.peer != self) sent += box.num_elements() * element;
    }
  }
  scratch(received);
  packed_ = Array::empty({sent}, DType::kBool, place_.allocator);
  auto offset = box_offsets_.begin();
  for (const ExchangePart& part : call_.parts) {
    for (const Transfer& box : part.boxes->into) recv_box(part, box, *offset++);
  }
  std::byte* pack = packed_.bytes();
  for (const ExchangePart& part : call_.parts) {
    for (const Transfer& box : part.boxes->from) {
      if (box.peer != self) pack = send_box(part, box, pack);
    }
  }
}

void Movement::recv_box(const ExchangePart& part, const Transfer& box, std::int64_t offset) {
  if (offset < 0) return;
  const std::int64_t element = size_of(dtype_of(part));
  std::byte* into = scratch_.bytes() + offset;
  if (box.peer == place_.group.rank) {
    copy_box(packing_of(box, view_of(part.in.shape())), part.in.bytes(), into, element);
  } else {
    const std::int64_t bytes = box.num_elements() * element;
    messages_.recv(*place_.link, at(static_cast<int>(box.peer), MessagePart::kData), into, bytes,
                   element);
  }
}

std::byte* Movement::send_box(const ExchangePart& part, const Transfer& box, std::byte* pack) {
  const std::int64_t element = size_of(dtype_of(part));
  const std::int64_t bytes = box.num_elements() * element;
  copy_box(packing_of(box, view_of(part.in.shape())), part.in.bytes(), pack, element);
  messages_.send(*place_.link, at(static_cast<int>(box.peer), MessagePart::kData), pack, bytes,
                 element);
  return pack + bytes;
}

void Movement::place_boxes() {
  auto offset = box_offsets_.begin();
  for (const ExchangePart& part : call_.parts) {
    std::vector<LandingBox> boxes;
    std::vector<const std::byte*> sources;
    for (const Transfer& box : part.boxes->into) {
      const bool own = *offset < 0;
      const Shape from = own ? part.in.shape() : box_shape(box);
      boxes.push_back({Box(own ? box : packed_box(box), view_of(from), view_of(part.out.shape())),
                       box.contributor});
      sources.push_back(own ? part.in.bytes() : scratch_.bytes() + *offset);
      ++offset;
    }
    if (!boxes.empty()) Landing(std::move(boxes), fold_of(*part.boxes)).land(sources, part.out);
  }
}

}  // namespace tessera
