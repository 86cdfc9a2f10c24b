#include "runtime/call/call_messages.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "kernels/fold.h"
#include "runtime/plan/box_parts.h"

namespace tessera {
namespace {

using Kind = CollectiveCall::Kind;
using Messages = std::span<const std::string>;

std::string bytes_of(const Array& array, std::int64_t first, std::int64_t bytes) {
  return bytes == 0 ? std::string()
                    : std::string(reinterpret_cast<const char*>(array.bytes() + first),
                                  static_cast<std::size_t>(bytes));
}
std::string bytes_of(const Array& array) { return bytes_of(array, 0, array.num_bytes()); }

const std::byte* bytes_of(const std::string& message) {
  return reinterpret_cast<const std::byte*>(message.data());
}

void copy_to(std::byte* to, const std::string& message) {
  if (!message.empty()) std::memcpy(to, message.data(), message.size());
}

std::int64_t rows_of(const std::vector<std::int64_t>& splits, int rank) {
  return splits[static_cast<std::size_t>(rank)];
}

}  // namespace

std::vector<int> CallMessages::peers() const {
  if (is_message(call_.kind())) return {call_.root()};
  std::vector<int> others;
  for (int rank = 0; rank < place_.size; ++rank) {
    if (rank != place_.rank) others.push_back(rank);
  }
  return others;
}

std::string CallMessages::to(int peer) const {
  switch (call_.kind()) {
    case Kind::kBarrier:
    case Kind::kRecv:
      return {};
    case Kind::kAllReduce:
    case Kind::kAllGather:
    case Kind::kSend:
      return bytes_of(call_.in());
    case Kind::kBroadcast:
      return call_.root() == place_.rank ? bytes_of(call_.out()) : std::string();
    case Kind::kReduceScatter:
    case Kind::kAllToAll: {
      const std::int64_t row = row_bytes(call_.in());
      return bytes_of(call_.in(), sum_before(signature_.send_splits, peer) * row,
                      rows_of(signature_.send_splits, peer) * row);
    }
    case Kind::kPeerRows:  // comes to no transport of messages
    case Kind::kExchange:
      break;
  }
  std::string message;
  for (const ExchangePart& part : call_.parts()) {
    const std::int64_t element = size_of(dtype_of(part));
    for (const Transfer& box : part.boxes->from) {
      if (box.peer != peer) continue;
      const std::size_t at = message.size();
      message.resize(at + static_cast<std::size_t>(box.num_elements() * element));
      copy_box(packing_of(box, view_of(part.in.shape())), part.in.bytes(),
               reinterpret_cast<std::byte*>(message.data() + at), element);
    }
  }
  return message;
}

std::int64_t CallMessages::bytes_from(int peer) const {
  switch (call_.kind()) {
    case Kind::kBarrier:
    case Kind::kSend:
      return 0;
    case Kind::kAllReduce:
      return call_.in().num_bytes();
    case Kind::kReduceScatter:
    case Kind::kRecv:
      return call_.out().num_bytes();
    case Kind::kBroadcast:
      return call_.root() == peer ? call_.out().num_bytes() : 0;
    case Kind::kAllGather:
    case Kind::kAllToAll:
      return rows_of(signature_.recv_splits, peer) * row_bytes(call_.out());
    case Kind::kPeerRows:  // comes to no transport of messages
    case Kind::kExchange:
      break;
  }
  std::int64_t bytes = 0;
  for (const ExchangePart& part : call_.parts()) {
    for (const Transfer& box : part.boxes->into) {
      if (box.peer == peer) bytes += box.num_elements() * size_of(dtype_of(part));
    }
  }
  return bytes;
}

void CallMessages::land(Messages messages) const {
  for (const int peer : peers()) {
    const std::int64_t bytes = std::ssize(messages[static_cast<std::size_t>(peer)]);
    if (bytes == bytes_from(peer)) continue;
    throw Error(
        invalid_argument(absl::StrFormat("%s: %d bytes came from group rank %d, %d were to come",
                                         to_string(signature_), bytes, peer, bytes_from(peer))));
  }
  switch (call_.kind()) {
    case Kind::kBarrier:
    case Kind::kSend:
      return;
    case Kind::kAllReduce:
      return fold_rows(messages, 0);
    case Kind::kReduceScatter:
      return fold_rows(messages,
                       sum_before(signature_.send_splits, place_.rank) * row_bytes(call_.in()));
    case Kind::kAllGather:
    case Kind::kAllToAll:
      return place_rows(messages);
    case Kind::kBroadcast:
    case Kind::kRecv:
      if (call_.kind() == Kind::kRecv || call_.root() != place_.rank) {
        copy_to(call_.out().bytes(), messages[static_cast<std::size_t>(call_.root())]);
      }
      return;
    case Kind::kPeerRows:
    case Kind::kExchange:
      return exchange(messages);
  }
}

void CallMessages::fold_rows(Messages messages, std::int64_t first_byte) const {
  std::vector<const std::byte*> summands;
  for (const std::string& message : messages) summands.push_back(bytes_of(message));
  summands[static_cast<std::size_t>(place_.rank)] = call_.in().bytes() + first_byte;
  fold(call_.in().dtype(), fold_by(call_.reduce(), call_.divisor()), summands, call_.out().bytes(),
       call_.out().num_elements());
}

void CallMessages::place_rows(Messages messages) const {
  const std::int64_t row = row_bytes(call_.out());
  std::byte* at = call_.out().bytes();
  for (int rank = 0; rank < place_.size; ++rank) {
    const std::int64_t bytes = rows_of(signature_.recv_splits, rank) * row;
    if (rank != place_.rank) {
      copy_to(at, messages[static_cast<std::size_t>(rank)]);
    } else if (call_.kind() == Kind::kAllToAll) {
      copy_to(at, to(rank));
    } else if (bytes > 0 && call_.in().bytes() != at) {
      std::memcpy(at, call_.in().bytes(), static_cast<std::size_t>(bytes));
    }
    at += bytes;
  }
}

void CallMessages::exchange(Messages messages) const {
  std::vector<std::int64_t> taken(messages.size());
  for (const ExchangePart& part : call_.parts()) {
    if (part.boxes->into.empty()) continue;
    std::vector<LandingBox> boxes;
    std::vector<const std::byte*> sources;
    const ShapeView out = view_of(part.out.shape());
    for (std::size_t i = 0; i < part.boxes->into.size(); ++i) {
      const Transfer& box = part.boxes->into[i];
      if (box.peer == place_.rank) {
        boxes.push_back(
            {Box(box, view_of(part.boxes->cut_from[i]), out), box.contributor, box.peer});
        sources.push_back(part.in.bytes());
        continue;
      }
      const auto peer = static_cast<std::size_t>(box.peer);
      const Shape packed = box_shape(box);
      boxes.push_back({Box(packed_box(box), view_of(packed), out), box.contributor, box.peer});
      sources.push_back(bytes_of(messages[peer]) + taken[peer]);
      taken[peer] += box.num_elements() * size_of(dtype_of(part));
    }
    Landing(std::move(boxes), fold_of(*part.boxes)).land(sources, part.out);
  }
}

}  // namespace tessera
