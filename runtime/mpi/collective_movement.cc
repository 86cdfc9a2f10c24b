// How a collective moves. Every call is a few rounds of messages between pairs; folds are local and
// in order of rank, so bits repeat. An all-reduce of few bytes gives everybody everything, and each
// rank folds all; of more, each rank gets everybody's part of one slice, folds it, and gathers the
// slices of the others. A reduce-scatter is the first half of that, an all-gather the second. A
// broadcast goes down a binomial tree, or, when large, as slices to the ranks and from them to all.
// A barrier is dissemination. Between ranks of one host that share memory nothing large is sent:
// the giver sends a notice of where its range lies in its segment, the taker reads it in place,
// folds straight from it where it is a summand, and thanks the giver at the end, before which the
// range must not change. Where summands as messages would take too much memory at once, the fold
// runs in pieces as an exchange.
#include "runtime/mpi/collective_movement.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "kernels/fold.h"
#include "kernels/stream_row.h"
#include "runtime/mpi/device_fold.h"
#include "runtime/mpi/exchange_movement.h"
#include "runtime/plan/packed_fold.h"

namespace tessera {
namespace {

using Kind = CollectiveCall::Kind;

// Up to here a broadcast goes down a tree; beyond, its slices are spread, then gathered.
constexpr std::int64_t kTreeBytes = 2 * 1024 * 1024;
// So few ranks all hang from the root.
constexpr int kFlatRanks = 4;

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

void CollectiveMovement::send(int to, MessagePart part, const std::byte* data, std::int64_t bytes) {
  if (bytes > 0) {
    messages_.send(*place_.link, place_.at(to, part), data, bytes, size_of(signature_.dtype));
  }
}

void CollectiveMovement::recv(int from, MessagePart part, std::byte* into, std::int64_t bytes) {
  if (bytes > 0) {
    messages_.recv(*place_.link, place_.at(from, part), into, bytes, size_of(signature_.dtype));
  }
}

// ---- Ranges read in place

// A range that does not lie in this rank's segment is sent once its taker knows to expect it.
void CollectiveMovement::give(int to, MessagePart part, const std::byte* data, std::int64_t bytes) {
  if (!place_.reads_in_place(to, bytes)) return send(to, part, data, bytes);
  const Notice& notice = notices_.emplace_back(
      Notice{place_.host->offset_of(data, bytes).value_or(kNotInPlace), bytes});
  std::atomic_thread_fence(std::memory_order_seq_cst);  // also of what went past the caches
  messages_.send(*place_.link, place_.at(to, MessagePart::kNotice),
                 reinterpret_cast<const std::byte*>(&notice), sizeof notice, sizeof notice);
  if (notice.offset == kNotInPlace) {
    sent_late_.push_back({to, part, data, bytes});
  } else {
    read_by_.push_back(to);
  }
}

void CollectiveMovement::take(int from, MessagePart part, std::byte* into, std::int64_t bytes) {
  if (!place_.reads_in_place(from, bytes)) return recv(from, part, into, bytes);
  Offer& offer = offers_.emplace_back(Offer{from, part, into, bytes});
  messages_.recv(*place_.link, place_.at(from, MessagePart::kNotice),
                 reinterpret_cast<std::byte*>(&offer.notice), sizeof(Notice), sizeof(Notice));
}

// Everyone begins with the rank after it, so that no array is read by all at once.
void CollectiveMovement::accept_offers() {
  const auto distance = [&](const Offer& offer) {
    return (offer.from - place_.group.rank + place_.group.size) % place_.group.size;
  };
  std::ranges::sort(offers_, {}, distance);
  for (const Offer& offer : offers_) accept(offer);
  offers_.clear();
  for (const Range& late : sent_late_) send(late.to, late.part, late.data, late.bytes);
  sent_late_.clear();
  kernels::RowWriter::finish();
}

void CollectiveMovement::copy_own(std::byte* into, const std::byte* own, std::int64_t bytes) {
  if (bytes == 0 || into == own) return;
  if (place_.device != nullptr) return place_.device->copy(into, own, bytes);
  kernels::RowWriter(call_.out().num_bytes(), bytes).copy(own, into);
  kernels::RowWriter::finish();
}

void CollectiveMovement::accept(const Offer& offer) {
  std::byte* into = offer.into;
  const bool is_sent = offer.notice.offset == kNotInPlace;
  if (into == nullptr && (is_sent || place_.device != nullptr)) {
    into = scratch(offer.bytes);
    summands_[static_cast<std::size_t>(offer.from)] = into;
  }
  if (is_sent) return recv(offer.from, offer.part, into, offer.bytes);
  const std::byte* data = bytes_in_place(place_, offer.from, offer.notice, offer.bytes);
  if (place_.device != nullptr) {  // the giver's array lies on the host
    place_.device->upload(into, data, offer.bytes);
  } else if (into == nullptr) {
    summands_[static_cast<std::size_t>(offer.from)] = data;
  } else {
    kernels::RowWriter(call_.out().num_bytes(), offer.bytes).copy(data, into);
  }
  read_from_.push_back(offer.from);
}

// What was read in the round before needs no thanks: who gives in this round has done with it.
void CollectiveMovement::start_round() {
  read_by_.clear();
  read_from_.clear();
}

void CollectiveMovement::thank() {
  for (const int rank : read_from_) {
    messages_.send(*place_.link, place_.at(rank, MessagePart::kNotice), nullptr, 0, 1);
  }
  for (const int rank : read_by_) {
    messages_.recv(*place_.link, place_.at(rank, MessagePart::kNotice), nullptr, 0, 1);
  }
}

void CollectiveMovement::fold_into(const std::byte* own, std::byte* out, std::int64_t elements) {
  if (elements == 0) return;
  summands_.resize(static_cast<std::size_t>(place_.group.size));
  summands_[static_cast<std::size_t>(place_.group.rank)] = own;
  const Fold how = fold_by(call_.reduce(), call_.divisor());
  if (place_.device != nullptr) {
    return place_.device->fold(summands_, out, elements, signature_.dtype, how);
  }
  fold(signature_.dtype, how, summands_, out, elements);
}

// ---- Steps

void CollectiveMovement::begin() {
  switch (call_.kind()) {
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
    case Kind::kPeerRows:
      return;
  }
}

bool CollectiveMovement::advance() {
  if (folding_ != nullptr) {
    if (!folding_->advance()) return false;
    folding_.reset();
    if (call_.kind() == Kind::kReduceScatter) return true;
    step_ = 1;
  }
  while (messages_.done() && (place_.device == nullptr || place_.device->lets_messages())) {
    if (phase_ == Phase::kThanking) return true;
    if (!offers_.empty() || !sent_late_.empty()) {
      accept_offers();
    } else if (next_step()) {
      phase_ = Phase::kThanking;
      thank();
      if (messages_.empty()) return true;
    }
  }
  return false;
}

void CollectiveMovement::abandon() noexcept {
  messages_.abandon();
  if (folding_ != nullptr) folding_->abandon();
}

bool CollectiveMovement::next_step() {
  ++step_;
  const std::int64_t element = size_of(signature_.dtype);
  switch (call_.kind()) {
    case Kind::kBarrier:
      begin_barrier_round();
      return messages_.empty();
    case Kind::kAllReduce: {
      if (step_ == 3) return true;
      if (step_ == 2) {
        gather_slices();
        return false;
      }
      const std::int64_t count = call_.in().num_elements();
      if (call_.in().num_bytes() <= kFoldAllBytes) {
        fold_into(call_.in().bytes(), call_.out().bytes(), count);
        return true;
      }
      const Slice own = slice_of(count, place_.group);
      fold_into(call_.in().bytes() + own.begin * element, call_.out().bytes() + own.begin * element,
                own.end - own.begin);
      if (place_.device != nullptr) place_.device->hold_messages();
      return false;
    }
    case Kind::kReduceScatter: {
      const std::byte* own =
          call_.in().bytes() +
          sum_before(signature_.send_splits, place_.group.rank) * row_bytes(call_.in());
      fold_into(own, call_.out().bytes(), call_.out().num_elements());
      return true;
    }
    case Kind::kBroadcast:
      if (step_ == 2 || is_read_in_place()) return true;
      if (call_.out().num_bytes() <= kTreeBytes) {
        send_to_children();
      } else {
        gather_slices();
      }
      return false;
    default:
      return true;
  }
}

// Dissemination: in round r every rank hears of 2^r others.
void CollectiveMovement::begin_barrier_round() {
  const int size = place_.group.size;
  const int distance = 1 << step_;
  if (distance >= size) return;
  const int to = (place_.group.rank + distance) % size;
  const int from = (place_.group.rank - distance + size) % size;
  messages_.send(*place_.link, place_.at(to, MessagePart::kData), nullptr, 0, 1);
  messages_.recv(*place_.link, place_.at(from, MessagePart::kData), nullptr, 0, 1);
}

// As many bytes from every other rank; what comes as messages lies one after another.
void CollectiveMovement::take_summands(std::int64_t bytes) {
  summands_.resize(static_cast<std::size_t>(place_.group.size));
  std::int64_t sent = 0;
  for (int i = 0; i < place_.group.size; ++i) {
    if (i != place_.group.rank && !place_.reads_in_place(i, bytes)) sent += bytes;
  }
  std::byte* into = nullptr;
  if (sent > 0) into = scratch(sent);
  for (int i = 0; i < place_.group.size; ++i) {
    if (i == place_.group.rank) continue;
    if (place_.reads_in_place(i, bytes)) {
      take(i, MessagePart::kData, nullptr, bytes);
    } else {
      recv(i, MessagePart::kData, into, bytes);
      summands_[static_cast<std::size_t>(i)] = into;
      into += bytes;
    }
  }
}

std::byte* CollectiveMovement::scratch(std::int64_t bytes) {
  if (place_.device != nullptr) return place_.device->take(bytes);
  scratch_.push_back(Array::empty({bytes}, DType::kBool, place_.allocator));
  return scratch_.back().bytes();
}

// Where the summands, as messages, would take too much memory at once.
bool CollectiveMovement::begin_folding(const Array& out) {
  const std::vector<Slice> slices = slices_to_fold(call_, signature_, place_.group.size);
  if (!folds_in_pieces(call_, slices)) return false;
  if (place_.device != nullptr) {
    folding_ = std::make_unique<DeviceFold>(place_, call_, slices, out.bytes());
  } else {
    fold_call_ = fold_as_exchange(call_, slices, out, place_.group.rank);
    folding_ = std::make_unique<ExchangeMovement>(place_, *fold_call_);
  }
  folding_->begin();
  return true;
}

// The rows of `in` that send_splits give to each other rank.
void CollectiveMovement::give_rows(std::int64_t row_bytes) {
  for (int step = 1; step < place_.group.size; ++step) {
    const int to = (place_.group.rank + step) % place_.group.size;
    give(to, MessagePart::kData,
         call_.in().bytes() + sum_before(signature_.send_splits, to) * row_bytes,
         signature_.send_splits[static_cast<std::size_t>(to)] * row_bytes);
  }
}

void CollectiveMovement::begin_all_reduce() {
  const std::int64_t count = call_.in().num_elements();
  const std::int64_t element = size_of(signature_.dtype);
  if (place_.group.size == 1) return;
  const bool whole = call_.in().num_bytes() <= kFoldAllBytes;
  const Slice own = whole ? Slice{0, count} : slice_of(count, place_.group);
  if (!whole && begin_folding(slice_of_out(own))) return;
  const std::int64_t own_bytes = (own.end - own.begin) * element;
  take_summands(own_bytes);
  for (int step = 1; step < place_.group.size; ++step) {
    const int to = (place_.group.rank + step) % place_.group.size;
    const Slice slice = whole ? own : slice_of(count, {to, place_.group.size});
    give(to, MessagePart::kData, call_.in().bytes() + slice.begin * element,
         (slice.end - slice.begin) * element);
  }
}

Array CollectiveMovement::slice_of_out(const Slice& slice) const {
  return call_.out().try_view({call_.out().num_elements()}).slice(0, slice.begin, slice.end);
}

std::pair<std::byte*, std::int64_t> CollectiveMovement::bytes_of_slice(int rank) const {
  const std::int64_t element = size_of(signature_.dtype);
  const Slice slice = slice_of(call_.out().num_elements(), {rank, place_.group.size});
  return {call_.out().bytes() + slice.begin * element, (slice.end - slice.begin) * element};
}

// Every rank's slice of `out` goes to all. Where `in` is `out`, a rank that gives its slice has
// read this rank's part of it.
void CollectiveMovement::gather_slices() {
  start_round();
  const bool has_all = call_.kind() == Kind::kBroadcast && place_.group.rank == call_.root();
  for (int step = 1; step < place_.group.size && !has_all; ++step) {
    const int from = (place_.group.rank + step) % place_.group.size;
    const auto [data, bytes] = bytes_of_slice(from);
    take(from, MessagePart::kSecondData, data, bytes);
  }
  const auto [own, own_bytes] = bytes_of_slice(place_.group.rank);
  for (int step = 1; step < place_.group.size; ++step) {
    const int to = (place_.group.rank + step) % place_.group.size;
    if (call_.kind() == Kind::kBroadcast && to == call_.root()) continue;
    give(to, MessagePart::kSecondData, own, own_bytes);
  }
}

void CollectiveMovement::begin_all_gather() {
  const std::int64_t row = row_bytes(call_.out());
  std::byte* out = call_.out().bytes();
  std::byte* own = nullptr;
  for (int i = 0; i < place_.group.size; ++i) {
    const std::int64_t bytes = signature_.recv_splits[static_cast<std::size_t>(i)] * row;
    if (i != place_.group.rank) take(i, MessagePart::kData, out, bytes);
    if (i == place_.group.rank) own = out;
    out += bytes;
  }
  for (int step = 1; step < place_.group.size; ++step) {
    give((place_.group.rank + step) % place_.group.size, MessagePart::kData, call_.in().bytes(),
         call_.in().num_bytes());
  }
  copy_own(own, call_.in().bytes(), call_.in().num_bytes());
}

void CollectiveMovement::begin_reduce_scatter() {
  if (place_.group.size == 1) return;
  if (begin_folding(call_.out().try_view({call_.out().num_elements()}))) return;
  take_summands(call_.out().num_bytes());
  give_rows(row_bytes(call_.in()));
}

void CollectiveMovement::begin_all_to_all() {
  const std::int64_t row = row_bytes(call_.out());
  std::byte* out = call_.out().bytes();
  std::byte* own = nullptr;
  for (int i = 0; i < place_.group.size; ++i) {
    const std::int64_t bytes = signature_.recv_splits[static_cast<std::size_t>(i)] * row;
    if (i != place_.group.rank) take(i, MessagePart::kData, out, bytes);
    if (i == place_.group.rank) own = out;
    out += bytes;
  }
  give_rows(row);
  const int self = place_.group.rank;
  copy_own(own, call_.in().bytes() + sum_before(signature_.send_splits, self) * row,
           signature_.send_splits[static_cast<std::size_t>(self)] * row);
}

// Where all ranks of the group can read the root's array they do.
bool CollectiveMovement::is_read_in_place() const {
  return call_.out().num_bytes() >= MovementPlace::kInPlaceBytes &&
         place_.host->are_near(place_.ranks);
}

void CollectiveMovement::begin_broadcast() {
  const int size = place_.group.size;
  const int self = (place_.group.rank - call_.root() + size) % size;
  std::byte* out = call_.out().bytes();
  const std::int64_t bytes = call_.out().num_bytes();
  if (is_read_in_place()) {
    if (self != 0) return take(call_.root(), MessagePart::kData, out, bytes);
    for (int step = 1; step < size; ++step) {
      give((call_.root() + step) % size, MessagePart::kData, out, bytes);
    }
    return;
  }
  if (bytes <= kTreeBytes) {
    if (self != 0) {
      recv((parent_of(self, size) + call_.root()) % size, MessagePart::kData, out, bytes);
    }
    return;
  }
  if (self != 0) {
    const auto [slice, slice_bytes] = bytes_of_slice(place_.group.rank);
    return recv(call_.root(), MessagePart::kData, slice, slice_bytes);
  }
  for (int step = 1; step < size; ++step) {
    const int to = (place_.group.rank + step) % size;
    const auto [slice, slice_bytes] = bytes_of_slice(to);
    send(to, MessagePart::kData, slice, slice_bytes);
  }
}

// What came from the parent goes on to the children.
void CollectiveMovement::send_to_children() {
  const int size = place_.group.size;
  const int self = (place_.group.rank - call_.root() + size) % size;
  for (const int child : children_of(self, size)) {
    send((child + call_.root()) % size, MessagePart::kData, call_.out().bytes(),
         call_.out().num_bytes());
  }
}

void CollectiveMovement::begin_pair() {
  if (call_.kind() == Kind::kSend) {
    send(call_.root(), MessagePart::kPairData, call_.in().bytes(), call_.in().num_bytes());
  } else {
    recv(call_.root(), MessagePart::kPairData, call_.out().bytes(), call_.out().num_bytes());
  }
}

}  // namespace tessera
