// runtime/call/call_messages.h: a call as one message from each rank to each other: the simplest
// way to carry every kind of call, for transports that only send bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "placement/api.h"
#include "runtime/call/prepared_call.h"
#include "runtime/call/signature.h"

namespace tessera TSR_API {

/// Folds go in order of group rank, with the accumulation type of every backend: the same bits on
/// all ranks, and as on threads. Requires arrays on the host. Cost: a rank sends and gets the bytes
/// of World's events (Event::bytes_sent), but all of `in` to each peer in an all_reduce.
class CallMessages {
 public:
  /// A prepared call and its signature, which outlive this.
  CallMessages(const CollectiveCall& call, const Signature& signature, const GroupPlace& place)
      : call_(call), signature_(signature), place_(place) {}

  /// Group ranks with which this one exchanges a message each way, be it of no bytes: all others;
  /// of a send or recv only its peer, which may be this rank itself.
  std::vector<int> peers() const;
  /// What the peer gets.
  std::string to(int peer) const;
  /// Units: bytes that the peer's message has.
  std::int64_t bytes_from(int peer) const;
  /// Writes the call's arrays. messages[i]: what came from group rank i; of others than peers
  /// empty. Throws InvalidArgument where a message has another size than bytes_from() says.
  void land(std::span<const std::string> messages) const;

 private:
  void fold_rows(std::span<const std::string> messages, std::int64_t first_byte) const;
  void place_rows(std::span<const std::string> messages) const;
  void exchange(std::span<const std::string> messages) const;

  const CollectiveCall& call_;
  const Signature& signature_;
  GroupPlace place_;
};

}  // namespace tessera
