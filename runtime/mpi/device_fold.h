// runtime/mpi/device_fold.h: a reduction on a device whose summands would take more buffers than
// the call allows: round by round, of one message from every other rank. The messages are those of
// the exchange that it is on the host (packed_fold.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "runtime/device/device_side.h"
#include "runtime/mpi/movement.h"

namespace tessera {

class DeviceFold final : public Movement {
 public:
  /// Rank i folds the elements slices[i] of all ranks' `call.in`; `out`: where this rank's go.
  /// Requires place.device, with a buffer of buffer_bytes().
  DeviceFold(const MovementPlace& place, const CollectiveCall& call, std::vector<Slice> slices,
             std::byte* out);
  /// At most the call's cap.
  static std::int64_t buffer_bytes(const MovementPlace& place, const CollectiveCall& call);

  void begin() override;
  bool advance() override;
  void abandon() noexcept override;
  std::int64_t progress() const noexcept override { return folded_; }

 private:
  /// Rounds whose messages are under way at once: one comes while another is folded.
  static constexpr std::int64_t kSets = 2;
  /// Bytes of a pair, then where the giver's array lies, or kNotInPlace: see ExchangeMovement.
  using Told = std::array<std::int64_t, 2>;
  struct Peer {
    int rank = 0;
    Told told = {};
    Messages notice;
    const std::byte* in_place = nullptr;  ///< its summands, where its arrays lie on the host
  };
  /// Of a slice, in one round.
  struct Range {
    std::int64_t begin_bytes = 0;
    std::int64_t bytes = 0;  ///< 0: the slice has ended
  };
  Range range_of(int rank, std::int64_t round) const;
  std::int64_t slice_bytes(int rank) const;
  const std::byte* own_summands(int rank) const;

  bool hears(Peer& peer);
  void post_round();
  void fold_round();

  MovementPlace place_;
  const CollectiveCall& call_;
  std::vector<Slice> slices_;
  std::byte* out_;
  std::int64_t element_bytes_, capacity_;
  std::deque<Peer> peers_;  ///< in order of group rank, this one left out
  std::deque<Told> tells_;  ///< sent
  std::size_t heard_ = 0;   ///< so many of the peers are known to give how
  std::int64_t rounds_ = 0, posted_ = 0, folded_ = 0;
  std::array<std::byte*, kSets> buffers_ = {};
  std::array<Messages, kSets> received_;
  Messages sent_;  ///< with notices and thanks
};

}  // namespace tessera
