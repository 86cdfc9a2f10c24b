#include "runtime/device/device_boxes.h"

#include <algorithm>
#include <utility>

#include "runtime/call/prepared_call.h"
#include "runtime/plan/box_parts.h"

namespace tessera {
namespace {

using kernels::BoxCut;
using kernels::BoxMoves;
using Side = BoxWalk::Side;

/// Moves that copy, in units that divide all elements.
struct Copies {
  explicit Copies(std::int64_t unit) : unit_bytes(unit), moves(unit) {}
  /// An array, and the byte of it that counts as the first.
  struct End {
    std::int64_t array = 0;
    std::int64_t begin_bytes = 0;
  };
  void add(const Box& box, std::int64_t element_bytes, const End& source, const End& target) {
    const std::int64_t units = element_bytes / unit_bytes;
    box.for_each_strip([&](const BoxStrip& strip) {
      const BoxCut cut{source.array, source.begin_bytes / unit_bytes + strip.src * units,
                       strip.src_stride * units};
      moves.add({.first = target.begin_bytes / unit_bytes + strip.dst * units,
                 .stride = strip.dst_stride * units,
                 .rows = strip.rows,
                 .row_elements = strip.row_elements * units,
                 .first_target = target.array},
                {&cut, 1});
    });
  }
  std::int64_t add_source(const std::byte* array) {
    from.push_back(array);
    return std::ssize(from) - 1;
  }
  std::int64_t add_target(std::byte* array) {
    to.push_back(array);
    return std::ssize(to) - 1;
  }
  void run(DeviceSide& device) const {
    device.move(moves, {from, to, dtype_of_copies(unit_bytes)});
  }

  std::int64_t unit_bytes;
  BoxMoves moves;
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
};

}  // namespace

/// Folds that are one launch.
struct DeviceBoxes::Bucket {
  Bucket(DType its_dtype, const Fold& its_fold)
      : dtype(its_dtype), fold(its_fold), moves(size_of(its_dtype)) {}
  DType dtype;
  Fold fold;
  BoxMoves moves;
  std::vector<const std::byte*> from = {};
  std::vector<std::byte*> to = {};
};

DeviceBoxes::DeviceBoxes(std::span<const ExchangePart> parts, int self)
    : parts_(parts), self_(self) {
  for (const ExchangePart& part : parts_) {
    unit_bytes_ = std::min(unit_bytes_, size_of(dtype_of(part)));
  }
  for (Pair& pair : pairs_of(parts_, Side::kSource, self_)) {
    add(outgoing_, std::move(pair), Side::kSource);
  }
  for (Pair& pair : pairs_of(parts_, Side::kTarget, self_)) {
    add(incoming_, std::move(pair), Side::kTarget);
  }
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    if (!parts_[p].boxes->fold) continue;
    const std::int64_t element = size_of(dtype_of(parts_[p]));
    const std::int64_t bytes = elements_in(boxes_at(parts_[p], self_)) * element;
    if (bytes > 0) add(own_, {self_, bytes, {{p, bytes, element}}}, Side::kSource);
  }
}

// Summands wait for one another, so they come into the buffer.
void DeviceBoxes::add(std::deque<Parcel>& to, Pair pair, Side side) {
  Parcel& parcel = to.emplace_back();
  parcel.pair = std::move(pair);
  parcel.layout = layout_of(parcel.pair.parts);
  const PairPart& first = parcel.pair.parts.front();
  const ExchangePart& part = parts_[first.part];
  const bool lands = side == Side::kTarget;
  if (parcel.pair.parts.size() > 1 || (lands && part.boxes->fold)) return;
  const std::vector<PlacedBox> boxes =
      lands ? boxes_of(part, side, parcel.pair.peer) : boxes_in(parcel, 0);
  const std::optional<std::int64_t> begin = begin_of_stretch(boxes, side);
  if (!begin) return;
  parcel.data = (lands ? part.out : part.in).bytes() + *begin * first.element_bytes;
  parcel.is_packed = false;
}

// What is cut from this rank's array.
std::vector<PlacedBox> DeviceBoxes::boxes_in(const Parcel& parcel, std::size_t slot) const {
  const ExchangePart& part = parts_[parcel.pair.parts[slot].part];
  return parcel.pair.peer == self_ ? boxes_at(part, self_)
                                   : boxes_of(part, Side::kSource, parcel.pair.peer);
}

std::int64_t DeviceBoxes::buffer_bytes() const noexcept {
  std::int64_t bytes = 0;
  for (const std::deque<Parcel>* parcels : {&outgoing_, &incoming_, &own_}) {
    for (const Parcel& parcel : *parcels) {
      if (parcel.is_packed) bytes += DeviceSide::aligned(parcel.layout.bytes);
    }
  }
  return bytes;
}

std::int64_t DeviceBoxes::begin_of(int peer) const noexcept {
  std::int64_t begin = 0;
  for (const Parcel& parcel : incoming_) {
    if (parcel.pair.peer == peer) break;
    begin += DeviceSide::aligned(parcel.layout.bytes);
  }
  return begin;
}

std::int64_t DeviceBoxes::incoming_bytes() const noexcept { return begin_of(-1); }

void DeviceBoxes::lie_in(std::byte* window, std::span<std::byte* const> places) {
  for (Parcel& parcel : incoming_) {
    parcel.data = window + begin_of(static_cast<int>(parcel.pair.peer));
    parcel.is_packed = true;
  }
  for (Parcel& parcel : outgoing_) {
    parcel.data = places[static_cast<std::size_t>(parcel.pair.peer)];
    parcel.is_packed = true;
  }
}

void DeviceBoxes::pack(DeviceSide& device) {
  Copies copies(unit_bytes_);
  for (Parcel& parcel : incoming_) {
    if (parcel.data == nullptr) parcel.data = device.take(parcel.layout.bytes);
  }
  for (std::deque<Parcel>* parcels : {&outgoing_, &own_}) {
    for (Parcel& parcel : *parcels) {
      if (!parcel.is_packed) continue;
      if (parcel.data == nullptr) parcel.data = device.take(parcel.layout.bytes);
      const std::int64_t target = copies.add_target(parcel.data);
      for (std::size_t slot = 0; slot < parcel.pair.parts.size(); ++slot) {
        const PairPart& each = parcel.pair.parts[slot];
        const std::int64_t source = copies.add_source(parts_[each.part].in.bytes());
        std::int64_t at = parcel.layout.begins[slot];
        for (const PlacedBox& placed : boxes_in(parcel, slot)) {
          copies.add(packing_of(*placed.box, placed.shape), each.element_bytes, {source, 0},
                     {target, at});
          at += placed.box->num_elements() * each.element_bytes;
        }
      }
    }
  }
  copies.run(device);
  device.hold_messages();
}

std::vector<DeviceBoxes::Cursor> DeviceBoxes::cursors(std::size_t part) const {
  std::vector<Cursor> all;
  for (const std::deque<Parcel>* parcels : {&incoming_, &own_}) {
    for (const Parcel& parcel : *parcels) {
      const auto slot = std::ranges::find(parcel.pair.parts, part, &PairPart::part);
      if (slot == parcel.pair.parts.end()) continue;
      const auto begin =
          parcel.layout.begins[static_cast<std::size_t>(slot - parcel.pair.parts.begin())];
      const bool in_place = !parcel.is_packed && parcel.pair.peer != self_;
      all.push_back({parcel.pair.peer, in_place ? nullptr : parcel.data + begin});
    }
  }
  return all;
}

void DeviceBoxes::land_copies(DeviceSide& device) {
  Copies copies(unit_bytes_);
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const ExchangePart& part = parts_[p];
    if (part.boxes->fold || part.boxes->into.empty()) continue;
    const std::int64_t element = size_of(dtype_of(part));
    std::vector<Cursor> cursors_of_part = cursors(p);
    const std::int64_t target = copies.add_target(part.out.bytes());
    for (std::size_t i = 0; i < part.boxes->into.size(); ++i) {
      const Transfer& box = part.boxes->into[i];
      if (box.num_elements() == 0) continue;
      if (box.peer == self_) {
        copies.add(Box(box, view_of(part.boxes->cut_from[i]), view_of(part.out.shape())), element,
                   {copies.add_source(part.in.bytes()), 0}, {target, 0});
        continue;
      }
      Cursor& cursor = *std::ranges::find(cursors_of_part, box.peer, &Cursor::peer);
      if (cursor.at == nullptr) continue;
      const Shape shape = box_shape(box);
      copies.add(Box(packed_box(box), view_of(shape), view_of(part.out.shape())), element,
                 {copies.add_source(cursor.at), 0}, {target, 0});
      cursor.at += box.num_elements() * element;
    }
  }
  copies.run(device);
}

void DeviceBoxes::add_fold(std::size_t p, Bucket& bucket) {
  const ExchangePart& part = parts_[p];
  const std::int64_t element = size_of(bucket.dtype);
  std::vector<Cursor> cursors_of_part = cursors(p);
  std::vector<LandingBox> boxes;
  std::vector<const std::byte*> packed;
  for (const Transfer& box : part.boxes->into) {
    if (box.num_elements() == 0) continue;
    Cursor& cursor = *std::ranges::find(cursors_of_part, box.peer, &Cursor::peer);
    const Shape shape = box_shape(box);
    // Each box is cut from an array of its own.
    boxes.push_back({Box(packed_box(box), view_of(shape), view_of(part.out.shape())),
                     box.contributor, std::ssize(boxes)});
    packed.push_back(cursor.at);
    cursor.at += box.num_elements() * element;
  }
  if (boxes.empty()) return;
  const Landing landing(std::move(boxes), bucket.fold);
  const Landing::DeviceMoves& device = landing.device_moves(element);
  bucket.moves.append(device.moves, std::ssize(bucket.from), std::ssize(bucket.to));
  for (const std::size_t box : device.first_boxes) bucket.from.push_back(packed[box]);
  bucket.to.push_back(part.out.bytes());
}

void DeviceBoxes::land_folds(DeviceSide& device) {
  std::deque<Bucket> buckets;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const std::optional<Fold> fold = fold_of(*parts_[p].boxes);
    if (!fold || parts_[p].boxes->into.empty()) continue;
    const DType dtype = dtype_of(parts_[p]);
    const auto same = std::ranges::find_if(
        buckets, [&](const Bucket& each) { return each.dtype == dtype && each.fold == *fold; });
    add_fold(p, same == buckets.end() ? buckets.emplace_back(dtype, *fold) : *same);
  }
  for (const Bucket& each : buckets) {
    device.move(each.moves, {each.from, each.to, each.dtype}, each.fold);
  }
}

void DeviceBoxes::land(DeviceSide& device) {
  land_copies(device);
  land_folds(device);
}

}  // namespace tessera
