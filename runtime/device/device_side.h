// runtime/device/device_side.h: the device's part in a call whose messages go from and to its
// memory: a buffer, launches on one stream, and the mark that the next messages wait for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/array.h"
#include "kernels/box_moves.h"
#include "kernels/device.h"
#include "runtime/backend_api.h"
#include "runtime/call/communicator.h"

namespace tessera TSR_BACKEND_API {

/// For moves that copy elements of so many bytes.
DType dtype_of_copies(std::int64_t element_bytes);

class DeviceSide {
 public:
  /// Takes the buffer. What is given to the device comes after what its compute stream holds by
  /// then, and so do messages. Requires a call with an array. `stream`: of the device, outlives
  /// this, and waits from begin() on; null: its communication stream, which waits at once.
  DeviceSide(const CollectiveCall& call, std::int64_t buffer_bytes, Stream* stream = nullptr);
  /// What a piece takes of the buffer.
  static constexpr std::int64_t aligned(std::int64_t bytes) noexcept {
    return (bytes + kernels::BoxMoves::kChunkBytes - 1) & -kernels::BoxMoves::kChunkBytes;
  }
  /// The next piece of the buffer.
  std::byte* take(std::int64_t bytes);

  Stream& stream() noexcept { return stream_; }
  /// The stream's next work is this call's.
  void begin();
  /// What others have given to the stream counts as given by this.
  void note_given() noexcept { was_given_ = true; }
  void copy(std::byte* to, const std::byte* from, std::int64_t bytes);
  /// From memory of the host that may be written again when this returns.
  void upload(std::byte* to, const std::byte* from, std::int64_t bytes);
  /// Moves from here on do nothing where this number of the device's is not 0 by then.
  void heed(const std::int64_t* broken_off) noexcept { broken_off_ = broken_off; }
  /// One launch, or none where nothing moves.
  void move(const kernels::BoxMoves& moves, kernels::MovedArrays arrays,
            const std::optional<Fold>& how = std::nullopt);

  /// As many elements of each summand, folded in their order into `out`.
  void fold(std::span<const std::byte* const> summands, std::byte* out, std::int64_t elements,
            DType dtype, const Fold& how);

  /// Further messages are about what was given so far.
  void hold_messages();
  /// Whether the device has come so far; never blocks. Throws what it failed with.
  bool lets_messages();
  /// Nothing more is given. Others may give the stream work of their own from now on.
  void close();
  /// Whether the device has done all of it; after close(). Never blocks.
  bool is_done() { return device_->done(end_); }
  /// What the compute stream is given from now on comes after all of it, and after what next has
  /// this buffer's memory. Closes.
  void finish();

 private:
  std::shared_ptr<Device> device_;
  Stream& stream_;
  std::shared_ptr<Allocator> memory_;
  Array buffer_;
  std::vector<Array> kept_;  ///< tables that launches read
  std::int64_t taken_ = 0;
  const std::int64_t* broken_off_ = nullptr;
  bool was_given_ = false;  ///< anything that is on the stream
  Mark held_until_;         ///< null once it has come
  bool is_closed_ = false;
  Mark end_;  ///< of what was given, once it is closed
};

}  // namespace tessera
