// kernels/box_moves.h: boxes of elements that go from some contiguous arrays into others, copied or
// folded, as one kernel does them: what collectives and redistributions come to on a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "kernels/array.h"
#include "placement/api.h"
#include "placement/plan.h"

namespace tessera TSR_API {
namespace kernels {

/// Rows of elements at even distances, of one of the arrays that are read.
struct BoxCut {
  std::int64_t source = 0;  ///< which array
  std::int64_t first = 0;   ///< its element at which the first row begins
  std::int64_t stride = 0;  ///< elements from one row to the next
};
/// Where they land: in each of some of the arrays that are written.
struct BoxRows {
  std::int64_t first = 0;
  std::int64_t stride = 0;
  std::int64_t rows = 1;
  std::int64_t row_elements = 0;
  std::int64_t first_target = 0;
  std::int64_t num_targets = 1;
};

/// What moves, as tables that a device's kernel reads. Made once, run any number of times.
/// Thread-safety: const functions may be called by several threads.
class BoxMoves {
 public:
  /// Whether its tables stay in the device's memory once they were there.
  enum class Stay : std::uint8_t { kNo, kYes };
  explicit BoxMoves(std::int64_t element_bytes, Stay stay = Stay::kNo)
      : element_bytes_(element_bytes), stay_(stay) {}
  BoxMoves(const BoxMoves&) = delete;
  BoxMoves& operator=(const BoxMoves&) = delete;

  /// The fold of the cuts, in their order, goes `to`. Requires one cut at least. No two moves write
  /// one element.
  void add(const BoxRows& to, std::span<const BoxCut> cuts);
  /// What `other` does, with its arrays counted on from the given ones.
  void append(const BoxMoves& other, std::int64_t first_source, std::int64_t first_target);

  bool is_empty() const noexcept { return moves_.empty(); }
  std::int64_t element_bytes() const noexcept { return element_bytes_; }
  std::int64_t num_sources() const noexcept { return num_sources_; }
  std::int64_t num_targets() const noexcept { return num_targets_; }
  bool folds() const noexcept { return folds_; }

  /// The most bytes that a chunk has.
  static constexpr std::int64_t kChunkBytes = 16;
  /// What a device's thread takes at once is a chunk, a power of two of elements: of one row, or,
  /// where rows are shorter and lie without gaps on one side, of that side as it lies: then the
  /// move has one row of chunks, which is no multiple of its elements. Words of a move:
  enum Word : std::uint8_t {
    kBegin,      ///< the chunks of all moves before it and its neighbours
    kChunk,      ///< a chunk's elements
    kChunks,     ///< of the move
    kRowChunks,  ///< of a row
    kTo,
    kToStride,
    kRowElements,
    kFirstCut,
    kNumCuts,
    kFirstTarget,
    kNumTargets,
    kTogether,  ///< neighbours, this one among them
    kPlace,     ///< its number among them
    kMoveWords
  };
  /// Moves of short rows that read, or write, the same lines of memory are neighbours: kTurn
  /// chunks of each go in turn, so that the memory is passed once.
  static constexpr std::int64_t kTurn = 256;
  /// Words of a cut: source, first, stride.
  static constexpr std::int64_t kCutWords = 3;
  const std::vector<std::int64_t>& moves() const noexcept { return moves_; }
  const std::vector<std::int64_t>& cuts() const noexcept { return cuts_; }
  std::int64_t num_moves() const noexcept { return std::ssize(moves_) / kMoveWords; }
  std::int64_t num_chunks() const noexcept { return num_chunks_; }

  /// Words of the moves, then of the cuts, in the memory of the context's device, for what is given
  /// to `stream` from now on; null unless they stay there.
  const std::int64_t* resident(KernelContext& ctx, Stream& stream) const;

 private:
  /// Words of a move that shares memory with one of a single cut; null where none does.
  std::int64_t* neighbour_of(std::int64_t chunks, std::int64_t chunk, const BoxRows& to,
                             const BoxCut& cut);

  std::int64_t element_bytes_;
  Stay stay_;
  std::vector<std::int64_t> moves_, cuts_;
  std::int64_t num_chunks_ = 0, num_sources_ = 0, num_targets_ = 0;
  bool folds_ = false;
  mutable std::mutex mutex_;
  mutable Array resident_;  ///< under mutex_
  mutable Mark uploaded_;   ///< under mutex_
};

/// What moves read and write: first elements of arrays in memory that the device reaches. A target
/// may be a source where no move reads what another one writes.
struct MovedArrays {
  std::span<const std::byte* const> sources;
  std::span<std::byte* const> targets;
  DType dtype = DType::kF32;
  /// On a device: where it is not 0 once the kernel runs, nothing moves. Null: it is not asked for.
  const std::int64_t* broken_off = nullptr;
};

/// Runs the moves on `stream`, of the context's device. `how`: what moves of several cuts fold by,
/// in the accumulation type; nullopt where all copy. The result is memory that has to stay until
/// the stream is through; null where there is none.
/// Errors: throws InvalidArgument for other numbers of arrays, or another size of elements, than
/// the moves have, or a fold that is not given.
[[nodiscard]] Array move_boxes(KernelContext& ctx, const BoxMoves& moves, const MovedArrays& arrays,
                               const std::optional<Fold>& how, Stream& stream);

/// `out`, dense: what changes nothing in a fold by `op`, on the context's compute stream.
void fill_identity(KernelContext& ctx, ReduceOp op, const Array& out);

}  // namespace kernels
}  // namespace tessera
