#include "kernels/box_moves.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_format.h"
#include "kernels/box_moves_checks.h"
#include "kernels/fold.h"
#include "kernels/kernel_table.h"

namespace tessera::kernels {

void BoxMoves::add(const BoxRows& to, std::span<const BoxCut> cuts) {
  if (to.rows == 0 || to.row_elements == 0) return;
  // A power of two that divides all of them.
  std::int64_t all = std::max<std::int64_t>(1, kChunkBytes / element_bytes_) | to.first |
                     to.row_elements | (to.rows > 1 ? to.stride : 0);
  for (const BoxCut& cut : cuts) all |= cut.first | (to.rows > 1 ? cut.stride : 0);
  const std::int64_t chunk = all & -all;
  moves_.insert(moves_.end(),
                {num_chunks_, chunk, to.first, to.stride, to.row_elements,
                 std::ssize(cuts_) / kCutWords, std::ssize(cuts), to.first_target, to.num_targets});
  for (const BoxCut& cut : cuts) {
    num_sources_ = std::max(num_sources_, cut.source + 1);
    cuts_.insert(cuts_.end(), {cut.source, cut.first, cut.stride});
  }
  num_targets_ = std::max(num_targets_, to.first_target + to.num_targets);
  folds_ = folds_ || cuts.size() > 1;
  num_chunks_ += to.rows * to.row_elements / chunk;
}

void BoxMoves::append(const BoxMoves& other, std::int64_t first_source, std::int64_t first_target) {
  const std::int64_t first_cut = std::ssize(cuts_) / kCutWords;
  for (std::size_t at = 0; at < other.moves_.size(); at += kMoveWords) {
    const auto move = moves_.insert(moves_.end(), other.moves_.begin() + at,
                                    other.moves_.begin() + at + kMoveWords);
    move[kBegin] += num_chunks_;
    move[kFirstCut] += first_cut;
    move[kFirstTarget] += first_target;
  }
  for (std::size_t at = 0; at < other.cuts_.size(); at += kCutWords) {
    cuts_.insert(cuts_.end(),
                 {other.cuts_[at] + first_source, other.cuts_[at + 1], other.cuts_[at + 2]});
  }
  num_chunks_ += other.num_chunks_;
  num_sources_ = std::max(num_sources_, other.num_sources_ + first_source);
  num_targets_ = std::max(num_targets_, other.num_targets_ + first_target);
  folds_ = folds_ || other.folds_;
}

const std::int64_t* BoxMoves::resident(KernelContext& ctx, Stream& stream) const {
  if (stay_ == Stay::kNo) return nullptr;
  Device& device = *ctx.device;
  const std::lock_guard lock(mutex_);
  if (resident_.is_null() || &resident_.device() != &device) {
    std::vector<std::int64_t> words = moves_;
    words.insert(words.end(), cuts_.begin(), cuts_.end());
    resident_ = Array::empty({std::ssize(words)}, DType::kI64, ctx.allocator);
    // What the block held before belongs to the compute stream.
    device.wait(stream, device.record(device.compute()));
    device.upload(resident_.bytes(), words.data(), words.size() * sizeof(words[0]), stream);
    uploaded_ = device.record(stream);
  }
  device.wait(stream, uploaded_);
  return reinterpret_cast<const std::int64_t*>(resident_.bytes());
}

void check_move_boxes(const BoxMoves& moves, const BoxArrays& arrays,
                      const std::optional<Fold>& how) {
  if (arrays.sources < moves.num_sources() || arrays.targets < moves.num_targets() ||
      size_of(arrays.dtype) != moves.element_bytes()) {
    throw Error(invalid_argument(
        absl::StrFormat("move_boxes: %d sources and %d targets of %s; the moves name %d and %d, of "
                        "elements of %d bytes",
                        arrays.sources, arrays.targets, name_of(arrays.dtype), moves.num_sources(),
                        moves.num_targets(), moves.element_bytes())));
  }
  if (moves.folds() && !how) {
    throw Error(invalid_argument("move_boxes: moves of several cuts need a fold"));
  }
}

namespace cpu {

Array move_boxes(KernelContext&, const BoxMoves& moves, std::span<const std::byte* const> sources,
                 std::span<std::byte* const> targets, DType dtype, const std::optional<Fold>& how,
                 Stream&) {
  check_move_boxes(moves, {std::ssize(sources), std::ssize(targets), dtype}, how);
  const std::int64_t element = size_of(dtype);
  const Fold fold = how.value_or(Fold{});
  absl::InlinedVector<const std::byte*, 8> from;
  absl::InlinedVector<std::byte*, 8> to;
  for (std::int64_t m = 0; m < moves.num_moves(); ++m) {
    const std::int64_t* move = moves.moves().data() + m * BoxMoves::kMoveWords;
    const std::int64_t* cuts =
        moves.cuts().data() + move[BoxMoves::kFirstCut] * BoxMoves::kCutWords;
    const bool last = m + 1 == moves.num_moves();
    const std::int64_t end = last ? moves.num_chunks() : move[BoxMoves::kMoveWords];
    const std::int64_t width = move[BoxMoves::kRowElements];
    const std::int64_t rows = (end - move[BoxMoves::kBegin]) * move[BoxMoves::kChunk] / width;
    for (std::int64_t row = 0; row < rows; ++row) {
      from.clear();
      for (std::int64_t c = 0; c < move[BoxMoves::kNumCuts]; ++c) {
        const std::int64_t* cut = cuts + c * BoxMoves::kCutWords;
        from.push_back(sources[static_cast<std::size_t>(cut[0])] +
                       (cut[1] + row * cut[2]) * element);
      }
      to.clear();
      for (std::int64_t t = 0; t < move[BoxMoves::kNumTargets]; ++t) {
        to.push_back(targets[static_cast<std::size_t>(move[BoxMoves::kFirstTarget] + t)] +
                     (move[BoxMoves::kTo] + row * move[BoxMoves::kToStride]) * element);
      }
      fold_to(dtype, fold, from, {.targets = to, .elements = width});
    }
  }
  return {};
}

void fill_identity(KernelContext&, ReduceOp op, const Array& out) {
  fill_identity_elements(out.dtype(), op, out.bytes(), out.num_elements());
}

}  // namespace cpu
}  // namespace tessera::kernels
