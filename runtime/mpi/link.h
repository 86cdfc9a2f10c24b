// runtime/mpi/link.h: messages between the ranks of one duplicated communicator. Only
// point-to-point calls are used: they can be abandoned when a peer dies, need no communicator for
// each group, and leave the order of sums to us (docs/adr/0007).
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "placement/status.h"

namespace tessera {

/// OK, or what MPI says of its error code.
Status check_mpi(int code, const char* call);
/// Waits until `request` is over, as `call` began it with `code`. Unlike MPI's own waits it gives
/// the core away: MPICH spins, and the peers that it waits for may have none.
Status finish(int code, MPI_Request& request, const char* call);

/// What a message belongs to: a group's number, the call's number in its lane, and the part of the
/// call. Two calls of one lane share a tag only when kMaxPending others lie between them.
enum class MessagePart : std::uint8_t {
  kSignature,
  kData,
  kSecondData,
  kSenderSignature,  ///< send and recv: apart from the collectives, and each way apart
  kReceiverSignature,
  kPairData,
  kNotice  ///< where the data lie that the other rank reads in place; then, that it has
};
constexpr std::uint64_t kMaxPending = 1000;

class MpiLink {
 public:
  /// Owns `comm`.
  MpiLink(MPI_Comm comm, std::int64_t max_message_elements);
  MpiLink(const MpiLink&) = delete;
  MpiLink& operator=(const MpiLink&) = delete;
  ~MpiLink();

  MPI_Comm comm() const noexcept { return comm_; }
  std::int64_t rank() const noexcept { return rank_; }
  std::int64_t size() const noexcept { return size_; }
  /// Elements of one message; longer data go in several.
  std::int64_t max_message_elements() const noexcept { return max_message_elements_; }
  /// Groups that have a tag of their own.
  std::uint32_t max_groups() const noexcept { return max_groups_; }
  static int tag(std::uint32_t group, std::uint64_t sequence, MessagePart part) noexcept;

  /// After a failure: peers may be gone, so the communicator is left as it is.
  void abandon() noexcept { abandoned_ = true; }

 private:
  MPI_Comm comm_;
  std::int64_t rank_ = 0, size_ = 1;
  std::int64_t max_message_elements_;
  std::uint32_t max_groups_ = 0;
  bool abandoned_ = false;
};

/// Messages under way. Buffers stay alive and untouched until done() is true.
class Messages {
 public:
  /// Where a message goes to or comes from, and its tag. `rank`: of the link's communicator.
  struct Address {
    std::int64_t rank = 0;
    int tag = 0;
  };
  Messages() = default;
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  void send(const MpiLink& link, Address to, const std::byte* data, std::int64_t bytes,
            std::int64_t element_bytes);
  void recv(const MpiLink& link, Address from, std::byte* data, std::int64_t bytes,
            std::int64_t element_bytes);
  /// As many bytes as come, `capacity` at most.
  void recv_up_to(const MpiLink& link, Address from, std::byte* data, std::int64_t capacity);

  bool empty() const noexcept { return requests_.empty(); }
  /// True once all are over; then forgets them. Throws Error: FailedPrecondition where a message is
  /// shorter or longer than expected, Unavailable for what MPI refuses.
  bool done();
  /// Gives up receiving. Buffers may still be read or written: the caller keeps them.
  void abandon() noexcept;

 private:
  // What a request has to bring: bytes of a receive, or one of these.
  static constexpr std::int64_t kAnySize = -1;
  static constexpr std::int64_t kSend = -2;
  static constexpr std::size_t kFew = 8;  ///< without memory of their own
  /// Memory for a request, before it is under way: none is lost where there is no more.
  MPI_Request& add(std::int64_t expected);
  void check(std::size_t index, const MPI_Status& status) const;

  absl::InlinedVector<MPI_Request, kFew> requests_;
  absl::InlinedVector<std::int64_t, kFew> expected_;
  std::size_t next_ = 0;  ///< those before it are over
};

}  // namespace tessera
