#include "runtime/device/packed_boxes.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "runtime/call/signature.h"

namespace tessera {
namespace {

// Stretches begin at multiples of the longest element.
constexpr std::int64_t kAlignment = 8;
constexpr std::int64_t kHugePage = std::int64_t{2} << 20;

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Of one box that holds something.
std::optional<std::int64_t> begin_of_one(const PlacedBox& placed, BoxWalk::Side side) {
  std::int64_t begin = 0, stride = 1;
  bool is_partial = false;  // of a dim further in
  for (std::size_t d = placed.box->dims.size(); d-- > 0;) {
    const std::vector<Run>& runs = placed.box->dims[d];
    if (runs.size() != 1 || (is_partial && runs[0].size != 1)) return std::nullopt;
    begin += (side == BoxWalk::Side::kSource ? runs[0].src : runs[0].dst) * stride;
    is_partial = is_partial || runs[0].size != placed.shape[d];
    stride *= placed.shape[d];
  }
  return begin;
}

}  // namespace

// ---- BoxWalk

BoxWalk::BoxWalk(std::vector<PlacedBox> boxes, Side side) : boxes_(std::move(boxes)), side_(side) {
  open_box();
}

void BoxWalk::open_box() {
  levels_.clear();
  piece_ = 1;
  left_ = 0;
  if (box_ == boxes_.size()) return;
  const auto& [box, shape] = boxes_[box_];
  std::int64_t stride = 1;
  for (std::size_t d = box->dims.size(); d-- > 0;) {
    const std::vector<Run>& runs = box->dims[d];
    if (levels_.empty() && runs.size() == 1 && runs[0].size == shape[d]) {
      piece_ *= runs[0].size;
    } else {
      levels_.push_back({&runs, stride});
    }
    stride *= shape[d];
  }
  std::reverse(levels_.begin(), levels_.end());
  open_run();
}

void BoxWalk::open_run() {
  at_ = 0;
  left_ = piece_;
  for (const Level& level : levels_) {
    at_ += (begin_of((*level.runs)[level.run]) + level.index) * level.stride;
  }
  if (!levels_.empty()) left_ *= (*levels_.back().runs)[levels_.back().run].size;
}

void BoxWalk::next_run() {
  for (std::size_t l = levels_.size(); l-- > 0;) {
    Level& level = levels_[l];
    const bool inner = l + 1 == levels_.size();
    if (!inner && ++level.index < (*level.runs)[level.run].size) return open_run();
    level.index = 0;
    if (++level.run < level.runs->size()) return open_run();
    level.run = 0;
  }
  ++box_;
  open_box();
}

// ---- Pairs

std::vector<Pair> pairs_of(std::span<const ExchangePart> parts, BoxWalk::Side side, int self) {
  std::vector<Pair> pairs;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const std::int64_t element = size_of(dtype_of(parts[p]));
    const ExchangeBoxes& boxes = *parts[p].boxes;
    for (const Transfer& box : side == BoxWalk::Side::kTarget ? boxes.into : boxes.from) {
      const int peer = static_cast<int>(box.peer);
      const std::int64_t bytes = box.num_elements() * element;
      if (peer == self || bytes == 0) continue;
      auto pair = std::ranges::lower_bound(pairs, peer, {}, &Pair::peer);
      if (pair == pairs.end() || pair->peer != peer) pair = pairs.insert(pair, {peer, 0, {}});
      if (pair->parts.empty() || pair->parts.back().part != p)
        pair->parts.push_back({p, 0, element});
      pair->parts.back().bytes += bytes;
      pair->bytes += bytes;
    }
  }
  return pairs;
}

std::vector<PlacedBox> boxes_of(const ExchangePart& part, BoxWalk::Side side, int peer) {
  const bool target = side == BoxWalk::Side::kTarget;
  const ShapeView shape = view_of(target ? part.out.shape() : part.in.shape());
  std::vector<PlacedBox> boxes;
  for (const Transfer& box : target ? part.boxes->into : part.boxes->from) {
    if (box.peer == peer && box.num_elements() > 0) boxes.push_back({&box, shape});
  }
  return boxes;
}

std::vector<PlacedBox> boxes_at(const ExchangePart& part, int peer) {
  std::vector<PlacedBox> boxes;
  for (std::size_t i = 0; i < part.boxes->into.size(); ++i) {
    const Transfer& box = part.boxes->into[i];
    if (box.peer == peer && box.num_elements() > 0) {
      boxes.push_back({&box, view_of(part.boxes->cut_from[i])});
    }
  }
  return boxes;
}

std::optional<std::int64_t> begin_of_stretch(std::span<const PlacedBox> boxes, BoxWalk::Side side) {
  std::optional<std::int64_t> first;
  std::int64_t end = 0;
  for (const PlacedBox& each : boxes) {
    const std::optional<std::int64_t> begin = begin_of_one(each, side);
    if (!begin || (first && *begin != end)) return std::nullopt;
    if (!first) first = begin;
    end = *begin + each.box->num_elements();
  }
  return first;
}

std::int64_t elements_in(std::span<const PlacedBox> boxes) {
  std::int64_t elements = 0;
  for (const PlacedBox& each : boxes) elements += each.box->num_elements();
  return elements;
}

bool land_alike(std::span<const PlacedBox> a, std::span<const PlacedBox> b) {
  const auto same_runs = [](const std::vector<Run>& x, const std::vector<Run>& y) {
    return std::ranges::equal(x, y, [](const Run& one, const Run& other) {
      return one.dst == other.dst && one.size == other.size;
    });
  };
  return std::ranges::equal(a, b, [&](const PlacedBox& x, const PlacedBox& y) {
    return std::ranges::equal(x.box->dims, y.box->dims, same_runs);
  });
}

// ---- Messages

// A size that allocators do not round up.
std::int64_t message_capacity(std::int64_t pack_bytes, int num_ranks) {
  const std::int64_t share = pack_bytes / std::max(1, 2 * num_ranks - 1);
  if (share < 8 * kAlignment) return std::max(kAlignment, share / kAlignment * kAlignment);
  const std::int64_t step = std::int64_t{1}
                            << (std::bit_width(static_cast<std::uint64_t>(share)) - 3);
  const std::int64_t size = share / step * step;
  return size >= kHugePage ? size / kHugePage * kHugePage : size / kAlignment * kAlignment;
}

MessageCutter::MessageCutter(std::vector<PairPart> parts, std::int64_t capacity)
    : parts_(std::move(parts)), capacity_(capacity) {
  for (const PairPart& part : parts_) buffer_bytes_ += aligned(part.bytes);
  buffer_bytes_ = std::min(buffer_bytes_, capacity);
}

std::vector<Stretch> MessageCutter::next() {
  std::vector<Stretch> message;
  for (std::int64_t at = 0; slot_ < parts_.size();) {
    const PairPart& part = parts_[slot_];
    const std::int64_t room = (capacity_ - at) / part.element_bytes * part.element_bytes;
    const std::int64_t bytes = std::min(room, part.bytes - taken_);
    if (bytes <= 0) break;
    message.push_back({slot_, at, bytes});
    taken_ += bytes;
    at = aligned(at + bytes);
    if (taken_ < part.bytes) break;
    taken_ = 0;
    ++slot_;
  }
  return message;
}

std::int64_t message_bytes(std::span<const Stretch> message) {
  return message.empty() ? 0 : message.back().offset + message.back().bytes;
}

// A message that does not end with its part is full, to a multiple of kAlignment.
PairLayout layout_of(std::span<const PairPart> parts) {
  PairLayout layout;
  for (const PairPart& part : parts) {
    layout.begins.push_back(aligned(layout.bytes));
    layout.bytes = layout.begins.back() + part.bytes;
  }
  return layout;
}

Packer::Packer(std::vector<Source> sources) {
  slots_.reserve(sources.size());
  for (Source& source : sources) {
    slots_.push_back({BoxWalk(std::move(source.boxes), BoxWalk::Side::kSource), source.data,
                      source.element_bytes});
  }
}

void Packer::pack(std::span<const Stretch> message, std::byte* to) {
  for (const Stretch& stretch : message) {
    Slot& slot = slots_[stretch.slot];
    std::byte* at = to + stretch.offset;
    slot.walk.next(stretch.bytes / slot.element_bytes, [&](std::int64_t from, std::int64_t count) {
      const auto bytes = static_cast<std::size_t>(count * slot.element_bytes);
      std::memcpy(at, slot.data + from * slot.element_bytes, bytes);
      at += bytes;
    });
  }
}

}  // namespace tessera
