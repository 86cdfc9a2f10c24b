#include "kernels/box_moves.h"

#include <algorithm>
#include <cstdlib>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_format.h"
#include "kernels/box_moves_checks.h"
#include "kernels/fold.h"
#include "kernels/kernel_table.h"

namespace tessera::kernels {

namespace {

/// The largest power of two that divides it.
std::int64_t power_in(std::int64_t number) { return number & -number; }

/// Memory comes in lines of 128 bytes: of longer rows, moves do not share many.
constexpr std::int64_t kShortRowBytes = 64;
/// Looking for a neighbour ends there.
constexpr std::int64_t kMostLookedAt = 256;

}  // namespace

std::int64_t* BoxMoves::neighbour_of(std::int64_t chunks, std::int64_t chunk, const BoxRows& to,
                                     const BoxCut& cut) {
  if (to.rows == 1 || to.row_elements * element_bytes_ >= kShortRowBytes) return nullptr;
  const std::int64_t end = num_moves(), begin = std::max<std::int64_t>(0, end - kMostLookedAt);
  for (std::int64_t m = end - 1; m >= begin; --m) {
    std::int64_t* move = moves_.data() + m * kMoveWords;
    if (move[kChunks] != chunks || move[kChunk] != chunk || move[kNumCuts] != 1 ||
        move[kRowElements] != to.row_elements || move[kNumTargets] != to.num_targets) {
      continue;
    }
    const std::int64_t* from = cuts_.data() + move[kFirstCut] * kCutWords;
    const bool shares_source = from[0] == cut.source && from[2] == cut.stride &&
                               std::abs(from[1] - cut.first) < std::abs(cut.stride);
    const bool shares_target = move[kFirstTarget] == to.first_target &&
                               move[kToStride] == to.stride &&
                               std::abs(move[kTo] - to.first) < std::abs(to.stride);
    if (shares_source || shares_target) return move;
  }
  return nullptr;
}

void BoxMoves::add(const BoxRows& to, std::span<const BoxCut> cuts) {
  if (to.rows == 0 || to.row_elements == 0) return;
  const std::int64_t most = std::max<std::int64_t>(1, kChunkBytes / element_bytes_);
  const std::int64_t elements = to.rows * to.row_elements;
  // Powers of two that divide all of them: of rows as they lie, and of a side without gaps.
  std::int64_t of_rows = most | to.first | to.row_elements | (to.rows > 1 ? to.stride : 0);
  std::int64_t of_line = most | elements;
  bool has_line = to.rows > 1 && to.stride == to.row_elements;
  if (has_line) of_line |= to.first;
  for (const BoxCut& cut : cuts) {
    of_rows |= cut.first | (to.rows > 1 ? cut.stride : 0);
    if (to.rows == 1 || cut.stride != to.row_elements) continue;
    has_line = true;
    of_line |= cut.first;
  }
  const bool is_line = has_line && power_in(of_line) > power_in(of_rows);
  const std::int64_t chunk = power_in(is_line ? of_line : of_rows), chunks = elements / chunk;
  const std::int64_t row_chunks = is_line ? chunks : to.row_elements / chunk;

  std::int64_t begin = num_chunks_, place = 0;
  auto at = moves_.end();
  if (const std::int64_t* found =
          cuts.size() == 1 ? neighbour_of(chunks, chunk, to, cuts[0]) : nullptr) {
    begin = found[kBegin];
    place = found[kTogether];
    const auto first = moves_.begin() + (found - moves_.data()) - found[kPlace] * kMoveWords;
    at = first + place * kMoveWords;
    for (auto move = first; move != at; move += kMoveWords) ++move[kTogether];
    for (auto move = at; move != moves_.end(); move += kMoveWords) move[kBegin] += chunks;
  }
  moves_.insert(at, {begin, chunk, chunks, row_chunks, to.first, to.stride, to.row_elements,
                     std::ssize(cuts_) / kCutWords, std::ssize(cuts), to.first_target,
                     to.num_targets, place + 1, place});
  for (const BoxCut& cut : cuts) {
    num_sources_ = std::max(num_sources_, cut.source + 1);
    cuts_.insert(cuts_.end(), {cut.source, cut.first, cut.stride});
  }
  num_targets_ = std::max(num_targets_, to.first_target + to.num_targets);
  folds_ = folds_ || cuts.size() > 1;
  num_chunks_ += chunks;
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

void check_move_boxes(const BoxMoves& moves, const MovedArrays& arrays,
                      const std::optional<Fold>& how) {
  const std::int64_t sources = std::ssize(arrays.sources), targets = std::ssize(arrays.targets);
  if (sources < moves.num_sources() || targets < moves.num_targets() ||
      size_of(arrays.dtype) != moves.element_bytes()) {
    throw Error(invalid_argument(
        absl::StrFormat("move_boxes: %d sources and %d targets of %s; the moves name %d and %d, of "
                        "elements of %d bytes",
                        sources, targets, name_of(arrays.dtype), moves.num_sources(),
                        moves.num_targets(), moves.element_bytes())));
  }
  if (moves.folds() && !how) {
    throw Error(invalid_argument("move_boxes: moves of several cuts need a fold"));
  }
}

namespace cpu {

Array move_boxes(KernelContext&, const BoxMoves& moves, const MovedArrays& arrays,
                 const std::optional<Fold>& how, Stream&) {
  check_move_boxes(moves, arrays, how);
  const std::int64_t element = size_of(arrays.dtype);
  const Fold fold = how.value_or(Fold{});
  absl::InlinedVector<const std::byte*, 8> from;
  absl::InlinedVector<std::byte*, 8> to;
  for (std::int64_t m = 0; m < moves.num_moves(); ++m) {
    const std::int64_t* move = moves.moves().data() + m * BoxMoves::kMoveWords;
    const std::int64_t* cuts =
        moves.cuts().data() + move[BoxMoves::kFirstCut] * BoxMoves::kCutWords;
    const std::int64_t width = move[BoxMoves::kRowElements];
    const std::int64_t rows = move[BoxMoves::kChunks] * move[BoxMoves::kChunk] / width;
    for (std::int64_t row = 0; row < rows; ++row) {
      from.clear();
      for (std::int64_t c = 0; c < move[BoxMoves::kNumCuts]; ++c) {
        const std::int64_t* cut = cuts + c * BoxMoves::kCutWords;
        from.push_back(arrays.sources[static_cast<std::size_t>(cut[0])] +
                       (cut[1] + row * cut[2]) * element);
      }
      to.clear();
      for (std::int64_t t = 0; t < move[BoxMoves::kNumTargets]; ++t) {
        to.push_back(arrays.targets[static_cast<std::size_t>(move[BoxMoves::kFirstTarget] + t)] +
                     (move[BoxMoves::kTo] + row * move[BoxMoves::kToStride]) * element);
      }
      fold_to(arrays.dtype, fold, from, {.targets = to, .elements = width});
    }
  }
  return {};
}

void fill_identity(KernelContext&, ReduceOp op, const Array& out) {
  fill_identity_elements(out.dtype(), op, out.bytes(), out.num_elements());
}

}  // namespace cpu
}  // namespace tessera::kernels
