// How packed messages land. A peer's boxes of all parts follow one another in a stream, cut into
// messages of at most a given size; a source hands out what of it has arrived, a stretch of one
// part at a time, and asks for the next message when that is used up. Boxes without a fold are
// copied to where they belong as they come. Of a part that is folded, sources whose boxes cover the
// same elements form a stack: as many bytes as all of them have are folded, in order of
// contributor, and stored. Where peers cut the target in ways that do not match, stacks cannot be
// made, and the sources are taken one after the other into accumulators of the whole part, stored
// at the end. Either way the order of summands is that of the ranks, whatever came first.
#include "runtime/mpi/packed_landing.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/plan/box_parts.h"

namespace tessera {
namespace {

using Side = BoxWalk::Side;

}  // namespace

// ---- Sources

PackedSource::PackedSource(Pair pair, std::int64_t capacity,
                           const std::shared_ptr<Allocator>& allocator)
    : pair_(std::move(pair)),
      cutter_(pair_.parts, capacity),
      buffer_(Array::empty({cutter_.buffer_bytes()}, DType::kBool, allocator)) {}

PackedSource::AtHand PackedSource::at_hand() {
  if (stretch_ == message_.size()) {
    if (cutter_.is_done() && coming_.empty()) return {};
    if (coming_.empty()) coming_ = cutter_.next();
    if (!fill(coming_, buffer_.bytes())) return {};
    message_ = std::exchange(coming_, {});
    stretch_ = 0;
    consumed_ = 0;
  }
  const Stretch& stretch = message_[stretch_];
  return {stretch.slot, buffer_.bytes() + stretch.offset + consumed_, stretch.bytes - consumed_};
}

void PackedSource::consume(std::int64_t bytes) noexcept {
  consumed_ += bytes;
  if (consumed_ < message_[stretch_].bytes) return;
  consumed_ = 0;
  ++stretch_;
}

ReceivedSource::ReceivedSource(const MovementPlace& place, Pair pair, std::int64_t capacity)
    : PackedSource(std::move(pair), capacity, place.allocator), place_(place) {
  static_cast<void>(at_hand());
}

bool ReceivedSource::fill(const std::vector<Stretch>& message, std::byte* buffer) {
  if (state_ == State::kIdle) {
    messages_.recv(*place_.link, place_.at(peer(), MessagePart::kData), buffer,
                   message_bytes(message), 1);
    state_ = State::kExpecting;
  }
  if (state_ != State::kArrived) return false;
  state_ = State::kIdle;
  return true;
}

bool ReceivedSource::look() {
  if (state_ == State::kExpecting && messages_.done()) state_ = State::kArrived;
  return state_ != State::kExpecting;
}

LocalSource::LocalSource(Pair pair, std::vector<Packer::Source> sources, std::int64_t capacity,
                         const std::shared_ptr<Allocator>& allocator)
    : PackedSource(std::move(pair), capacity, allocator), packer_(std::move(sources)) {}

bool LocalSource::fill(const std::vector<Stretch>& message, std::byte* buffer) {
  packer_.pack(message, buffer);
  return true;
}

// ---- PackedLanding

PackedLanding::PackedLanding(std::span<const ExchangePart> parts, Sources sources)
    : parts_(parts.begin(), parts.end()), sources_(std::move(sources)) {
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    if (parts_[p].boxes->fold) {
      add_folded_part(p);
    } else {
      add_part(p);
    }
  }
}

void PackedLanding::add_part(std::size_t p) {
  for (PackedSource* source : sources_) {
    const auto slot = std::ranges::find(source->parts(), p, &PairPart::part);
    if (slot == source->parts().end()) continue;  // its boxes land without messages
    landing_.push_back({p,
                        {source},
                        BoxWalk(boxes_of(parts_[p], Side::kTarget, source->peer()), Side::kTarget),
                        slot->bytes});
  }
}

void PackedLanding::add_folded_part(std::size_t p) {
  const std::int64_t element = size_of(dtype_of(parts_[p]));
  std::vector<std::vector<PlacedBox>> targets;
  std::vector<Stack> stacks, apart;
  std::vector<PlacedBox> covered;
  std::int64_t stacked = 0;
  std::vector<bool> is_added(sources_.size());
  for (const Transfer& box : parts_[p].boxes->into) {
    const auto source =
        std::ranges::find_if(sources_, [&](const auto& each) { return each->peer() == box.peer; });
    if (box.num_elements() == 0) continue;
    TSR_CHECK(source != sources_.end(), std::to_string(box.peer));
    if (box.contributor == parts_[p].boxes->into.front().contributor) {
      covered.push_back({&box, view_of(parts_[p].out.shape())});
    }
    const auto index = static_cast<std::size_t>(source - sources_.begin());
    if (is_added[index]) continue;
    is_added[index] = true;
    const std::vector<PlacedBox> boxes = boxes_of(parts_[p], Side::kTarget, (*source)->peer());
    const std::int64_t bytes = elements_in(boxes) * element;
    apart.push_back({p, {*source}, BoxWalk(boxes, Side::kTarget), bytes});
    const auto same =
        std::ranges::find_if(targets, [&](const auto& other) { return land_alike(boxes, other); });
    if (same != targets.end()) {
      stacks[static_cast<std::size_t>(same - targets.begin())].sources.push_back(*source);
      continue;
    }
    targets.push_back(boxes);
    stacked += bytes;
    stacks.push_back(apart.back());
  }
  // Each contributor covers the target once, so stacks of that volume in all do not overlap.
  if (stacked == elements_in(covered) * element) {
    std::ranges::move(stacks, std::back_inserter(folding_));
  } else {
    accumulating_.push_back({p, std::move(apart), 0, std::move(covered), {}});
  }
}

// A look in vain costs a turn of the MPI library's own progress, so there is one at most.
bool PackedLanding::advance() {
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const std::size_t at = (looked_at_ + i) % sources_.size();
    if (sources_[at]->look()) continue;
    looked_at_ = at;
    break;
  }
  for (bool moves = true; moves;) {
    moves = false;
    for (Stack& stack : landing_) moves |= land(stack);
    for (Stack& stack : folding_) moves |= fold(stack);
    for (Accumulation& each : accumulating_) moves |= accumulate(each);
    progress_ += moves ? 1 : 0;
    std::erase_if(landing_, [](const Stack& stack) { return stack.left_bytes == 0; });
    std::erase_if(folding_, [](const Stack& stack) { return stack.left_bytes == 0; });
    std::erase_if(accumulating_,
                  [](const Accumulation& each) { return each.next == each.stacks.size(); });
  }
  return landing_.empty() && folding_.empty() && accumulating_.empty();
}

// Bytes of this part, or none.
PackedSource::AtHand PackedLanding::at_hand(PackedSource& source, std::size_t part) {
  const PackedSource::AtHand found = source.at_hand();
  if (found.bytes == 0 || source.parts()[found.slot].part != part) return {};
  return found;
}

bool PackedLanding::land(Stack& stack) {
  const PackedSource::AtHand found = at_hand(*stack.sources[0], stack.part);
  if (found.bytes == 0) return false;
  const Array& out = parts_[stack.part].out;
  const std::int64_t element = size_of(out.dtype());
  const std::byte* data = found.data;
  stack.target.next(found.bytes / element, [&](std::int64_t to, std::int64_t count) {
    std::memcpy(out.bytes() + to * element, data, static_cast<std::size_t>(count * element));
    data += count * element;
  });
  stack.sources[0]->consume(found.bytes);
  stack.left_bytes -= found.bytes;
  return true;
}

// As much as all sources have; folded in the first one's buffer.
bool PackedLanding::fold(Stack& stack) {
  std::byte* folded = at_hand(*stack.sources[0], stack.part).data;
  if (folded == nullptr) return false;
  std::vector<const std::byte*> summands;
  std::int64_t bytes = stack.left_bytes;
  for (PackedSource* source : stack.sources) {
    const PackedSource::AtHand found = at_hand(*source, stack.part);
    if (found.bytes == 0) return false;
    bytes = std::min(bytes, found.bytes);
    summands.push_back(found.data);
  }
  const ExchangePart& part = parts_[stack.part];
  const std::int64_t element = size_of(part.out.dtype());
  tessera::fold(part.out.dtype(), *fold_of(*part.boxes), summands, folded, bytes / element);
  stack.target.next(bytes / element, [&](std::int64_t to, std::int64_t count) {
    std::memcpy(part.out.bytes() + to * element, folded, static_cast<std::size_t>(count * element));
    folded += count * element;
  });
  for (PackedSource* source : stack.sources) source->consume(bytes);
  stack.left_bytes -= bytes;
  return true;
}

bool PackedLanding::accumulate(Accumulation& accumulation) {
  const ExchangePart& part = parts_[accumulation.part];
  const DType dtype = part.out.dtype();
  const std::int64_t element = size_of(dtype), width = accumulator_size(dtype);
  const Fold how = *fold_of(*part.boxes);
  if (accumulation.accumulators.empty()) {
    const std::int64_t count = part.out.num_elements();
    accumulation.accumulators.resize(static_cast<std::size_t>(count * width));
    fill_identity(dtype, how, accumulation.accumulators.data(), count);
  }
  Stack& stack = accumulation.stacks[accumulation.next];
  const PackedSource::AtHand found = at_hand(*stack.sources[0], accumulation.part);
  if (found.bytes == 0) return false;
  const std::byte* data = found.data;
  stack.target.next(found.bytes / element, [&](std::int64_t to, std::int64_t count) {
    combine(dtype, how, accumulation.accumulators.data() + to * width, data, count);
    data += count * element;
  });
  stack.sources[0]->consume(found.bytes);
  stack.left_bytes -= found.bytes;
  if (stack.left_bytes == 0 && ++accumulation.next == accumulation.stacks.size()) {
    store(accumulation);
  }
  return true;
}

void PackedLanding::store(Accumulation& accumulation) {
  const ExchangePart& part = parts_[accumulation.part];
  const DType dtype = part.out.dtype();
  BoxWalk walk(accumulation.covered, Side::kTarget);
  walk.next(elements_in(accumulation.covered), [&](std::int64_t to, std::int64_t count) {
    tessera::store(dtype, *fold_of(*part.boxes),
                   accumulation.accumulators.data() + to * accumulator_size(dtype),
                   part.out.bytes() + to * size_of(dtype), count);
  });
}

}  // namespace tessera
