#include "runtime/device/box_rounds.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/call/prepared_call.h"
#include "runtime/plan/box_parts.h"

namespace tessera {
namespace {

using kernels::BoxCut;
using kernels::BoxMoves;

// A multiple of what the device takes at once, and so of all elements.
std::int64_t capacity_of(std::int64_t pack_bytes, int num_ranks) {
  const std::int64_t chunk = BoxMoves::kChunkBytes;
  return std::max(chunk, message_capacity(pack_bytes, num_ranks) / chunk * chunk);
}

/// Rows of elements at even distances.
struct Strip {
  std::int64_t first = 0, stride = 0, rows = 1, row_elements = 0;
};
std::vector<Strip> next_strips(BoxWalk& walk, std::int64_t elements) {
  std::vector<Strip> strips;
  walk.next(elements, [&](std::int64_t at, std::int64_t count) {
    if (!strips.empty() && strips.back().row_elements == count && at > strips.back().first) {
      Strip& last = strips.back();
      if (last.rows == 1) last.stride = at - last.first;
      if (at == last.first + last.rows * last.stride) {
        ++last.rows;
        return;
      }
    }
    strips.push_back({at, count, 1, count});
  });
  return strips;
}

}  // namespace

struct BoxRounds::Round {
  std::vector<RoundMessage> sent = {}, received = {};
};

/// Copies in units that divide all elements.
class BoxRounds::Moves {
 public:
  explicit Moves(std::int64_t unit_bytes) : unit_bytes_(unit_bytes), moves_(unit_bytes) {}
  /// Strips of `array`, one after another from or to `packed`.
  void gather(const std::vector<Strip>& strips, std::int64_t element_bytes, const std::byte* array,
              std::byte* packed) {
    from_.push_back(array);
    to_.push_back(packed);
    const std::int64_t units = element_bytes / unit_bytes_;
    std::int64_t at = 0;
    for (const Strip& each : strips) {
      const std::int64_t row = each.row_elements * units;
      const BoxCut cut{std::ssize(from_) - 1, each.first * units, each.stride * units};
      add({.first = at, .stride = row, .rows = each.rows, .row_elements = row}, cut);
      at += each.rows * row;
    }
  }
  void scatter(const std::vector<Strip>& strips, std::int64_t element_bytes,
               const std::byte* packed, std::byte* array) {
    from_.push_back(packed);
    to_.push_back(array);
    const std::int64_t units = element_bytes / unit_bytes_;
    std::int64_t at = 0;
    for (const Strip& each : strips) {
      const std::int64_t row = each.row_elements * units;
      add({.first = each.first * units,
           .stride = each.stride * units,
           .rows = each.rows,
           .row_elements = row},
          {std::ssize(from_) - 1, at, row});
      at += each.rows * row;
    }
  }
  void copy(const Box& box, std::int64_t element_bytes, const std::byte* from, std::byte* to) {
    from_.push_back(from);
    to_.push_back(to);
    const std::int64_t units = element_bytes / unit_bytes_;
    box.for_each_strip([&](const BoxStrip& strip) {
      add({.first = strip.dst * units,
           .stride = strip.dst_stride * units,
           .rows = strip.rows,
           .row_elements = strip.row_elements * units},
          {std::ssize(from_) - 1, strip.src * units, strip.src_stride * units});
    });
  }
  void run(DeviceSide& device) const {
    device.move(moves_, {from_, to_, dtype_of_copies(unit_bytes_)});
  }

 private:
  void add(kernels::BoxRows rows, const BoxCut& cut) {
    rows.first_target = std::ssize(to_) - 1;
    moves_.add(rows, {&cut, 1});
  }

  std::int64_t unit_bytes_;
  BoxMoves moves_;
  std::vector<const std::byte*> from_;
  std::vector<std::byte*> to_;
};

// ---- what flows

BoxRounds::BoxRounds(std::span<const ExchangePart> parts, const GroupPlace& place,
                     std::int64_t pack_bytes)
    : parts_(parts), self_(place.rank), capacity_(capacity_of(pack_bytes, place.size)) {
  for (const ExchangePart& part : parts_) {
    unit_bytes_ = std::min(unit_bytes_, size_of(dtype_of(part)));
  }
  for (Pair& pair : pairs_of(parts_, Side::kSource, self_)) {
    outgoing_.push_back(flow_of(std::move(pair), Side::kSource));
  }
  for (Pair& pair : pairs_of(parts_, Side::kTarget, self_)) {
    incoming_.push_back(flow_of(std::move(pair), Side::kTarget));
  }
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    if (!parts_[p].boxes->fold) continue;
    folded_.push_back(folded_part(p));
    const std::int64_t element = size_of(dtype_of(parts_[p]));
    const std::int64_t bytes = elements_in(boxes_at(parts_[p], self_)) * element;
    if (bytes > 0) own_.push_back(flow_of({self_, bytes, {{p, bytes, element}}}, Side::kSource));
  }
  size_slots();
}

BoxRounds::Flow BoxRounds::flow_of(Pair pair, Side side) {
  Flow flow{.pair = {}, .landing = MessageCutter({}, capacity_)};
  std::vector<PairPart> lands;
  for (const PairPart& each : pair.parts) {
    const ExchangePart& part = parts_[each.part];
    const bool is_own = pair.peer == self_;
    const std::vector<PlacedBox> boxes =
        is_own ? boxes_at(part, self_) : boxes_of(part, side, pair.peer);
    Stream stream{.of = each, .walk = BoxWalk(boxes, side)};
    stream.array = (side == Side::kSource ? part.in : part.out).bytes();
    const std::optional<std::int64_t> begin = begin_of_stretch(boxes, side);
    const bool may_lie = side == Side::kSource || !part.boxes->fold;
    if (begin && may_lie) stream.in_place = stream.array + *begin * each.element_bytes;
    flow.streams.push_back(std::move(stream));
    if (part.boxes->fold) continue;
    flow.lands.push_back(flow.streams.size() - 1);
    lands.push_back(each);
  }
  flow.layout = layout_of(pair.parts);
  flow.is_one = flow.layout.bytes <= capacity_;
  if (!flow.is_one) flow.landing = MessageCutter(std::move(lands), capacity_);
  flow.pair = std::move(pair);
  return flow;
}

BoxRounds::FoldedPart BoxRounds::folded_part(std::size_t p) const {
  const ExchangePart& part = parts_[p];
  const std::int64_t element = size_of(dtype_of(part));
  FoldedPart folded{.part = p};
  std::vector<std::vector<PlacedBox>> targets;
  std::vector<std::int64_t> seen;
  std::int64_t stacked = 0, covered = 0;
  for (const Transfer& box : part.boxes->into) {
    if (box.num_elements() == 0) continue;
    if (box.contributor == part.boxes->into.front().contributor) covered += box.num_elements();
    if (std::ranges::find(seen, box.peer) != seen.end()) continue;
    seen.push_back(box.peer);
    const auto peer = static_cast<int>(box.peer);
    const std::vector<PlacedBox> boxes = boxes_of(part, Side::kTarget, peer);
    const auto same =
        std::ranges::find_if(targets, [&](const auto& other) { return land_alike(boxes, other); });
    if (same != targets.end()) {
      folded.stacks[static_cast<std::size_t>(same - targets.begin())].peers.push_back(peer);
      continue;
    }
    stacked += elements_in(boxes);
    folded.stacks.push_back({{peer}, BoxWalk(boxes, Side::kTarget), elements_in(boxes) * element});
    targets.push_back(boxes);
  }
  // Each contributor covers the target once, so stacks of that volume in all do not overlap.
  if (stacked != covered) folded.stacks.clear();
  return folded;
}

BoxRounds::Stream* BoxRounds::stream_of(Flow& flow, std::size_t part) {
  const auto found = std::ranges::find_if(
      flow.streams, [part](const Stream& stream) { return stream.of.part == part; });
  return found == flow.streams.end() ? nullptr : &*found;
}

BoxRounds::Flow* BoxRounds::incoming_of(int peer) {
  const auto found =
      std::ranges::find_if(incoming_, [peer](const Flow& flow) { return flow.pair.peer == peer; });
  return found == incoming_.end() ? nullptr : &*found;
}

void BoxRounds::size_slots() {
  for (std::deque<Flow>* flows : {&outgoing_, &incoming_}) {
    for (Flow& flow : *flows) {
      const bool in_place = flow.streams.size() == 1 && flow.streams[0].in_place != nullptr;
      if (!in_place) flow.slot_bytes = std::min(flow.layout.bytes, capacity_);
    }
  }
  for (Flow& flow : own_) {
    if (flow.streams[0].in_place == nullptr) {
      flow.slot_bytes = std::min(flow.layout.bytes, capacity_);
    }
  }
  for (const FoldedPart& folded : folded_) {
    if (!folded.stacks.empty()) continue;
    for (std::deque<Flow>* flows : {&incoming_, &own_}) {
      for (Flow& flow : *flows) {
        const Stream* const stream = stream_of(flow, folded.part);
        if (stream == nullptr || flow.is_one) continue;
        flow.slot_bytes = std::max(flow.slot_bytes, stream->of.bytes);
      }
    }
  }
}

bool BoxRounds::is_one() const noexcept {
  const auto is_one = [](const Flow& flow) { return flow.is_one; };
  return std::ranges::all_of(outgoing_, is_one) && std::ranges::all_of(incoming_, is_one);
}

// Parts fold one after another, and so do this rank's summands take one place.
std::int64_t BoxRounds::buffer_bytes() const noexcept {
  std::int64_t bytes = 0, own = 0;
  for (const std::deque<Flow>* flows : {&outgoing_, &incoming_}) {
    for (const Flow& flow : *flows) bytes += DeviceSide::aligned(flow.slot_bytes);
  }
  for (const Flow& flow : own_) own = std::max(own, DeviceSide::aligned(flow.slot_bytes));
  return bytes + own;
}

// ---- rounds

void BoxRounds::run(DeviceSide& device, const Give& give) {
  std::int64_t own_bytes = 0;
  for (std::deque<Flow>* flows : {&outgoing_, &incoming_}) {
    for (Flow& flow : *flows) {
      if (flow.slot_bytes > 0) flow.slot = device.take(flow.slot_bytes);
    }
  }
  for (const Flow& flow : own_) own_bytes = std::max(own_bytes, flow.slot_bytes);
  std::byte* const own = own_bytes > 0 ? device.take(own_bytes) : nullptr;
  for (Flow& flow : own_) flow.slot = own;
  land_own(device);
  run_ones(device, give);
  run_landing(device, give);
  for (FoldedPart& folded : folded_) run_folded(folded, device, give);
}

void BoxRounds::pack(Stream& stream, std::int64_t bytes, std::byte* to, Moves& moves) const {
  const std::int64_t element = stream.of.element_bytes;
  moves.gather(next_strips(stream.walk, bytes / element), element, stream.array, to);
  stream.moved_bytes += bytes;
}

void BoxRounds::land(Stream& stream, std::int64_t bytes, std::byte* from, Moves& moves) const {
  const std::int64_t element = stream.of.element_bytes;
  moves.scatter(next_strips(stream.walk, bytes / element), element, from, stream.array);
  stream.moved_bytes += bytes;
}

void BoxRounds::land_own(DeviceSide& device) {
  Moves moves(unit_bytes_);
  for (const ExchangePart& part : parts_) {
    if (part.boxes->fold) continue;
    for (std::size_t i = 0; i < part.boxes->into.size(); ++i) {
      const Transfer& box = part.boxes->into[i];
      if (box.peer != self_ || box.num_elements() == 0) continue;
      moves.copy(Box(box, view_of(part.boxes->cut_from[i]), view_of(part.out.shape())),
                 size_of(dtype_of(part)), part.in.bytes(), part.out.bytes());
    }
  }
  moves.run(device);
}

// Flows that are one message; what of them folds stays in their slots.
void BoxRounds::run_ones(DeviceSide& device, const Give& give) {
  Moves packs(unit_bytes_), lands(unit_bytes_);
  Round round;
  const auto message_of = [](Flow& flow) {
    std::byte* const data = flow.slot != nullptr ? flow.slot : flow.streams[0].in_place;
    return RoundMessage{flow.pair.peer, data, flow.layout.bytes};
  };
  for (Flow& flow : outgoing_) {
    if (!flow.is_one) continue;
    for (std::size_t i = 0; flow.slot != nullptr && i < flow.streams.size(); ++i) {
      pack(flow.streams[i], flow.streams[i].of.bytes, flow.slot + flow.layout.begins[i], packs);
    }
    round.sent.push_back(message_of(flow));
  }
  for (Flow& flow : incoming_) {
    if (!flow.is_one) continue;
    round.received.push_back(message_of(flow));
    if (flow.slot == nullptr) continue;
    for (const std::size_t i : flow.lands) {
      land(flow.streams[i], flow.streams[i].of.bytes, flow.slot + flow.layout.begins[i], lands);
    }
  }
  packs.run(device);
  give(round.sent, round.received);
  lands.run(device);
}

void BoxRounds::run_landing(DeviceSide& device, const Give& give) {
  const auto next = [&](Flow& flow, Moves& moves, auto&& pack_or_land) {
    const std::vector<Stretch> message = flow.landing.next();
    Stream& first = flow.streams[flow.lands[message[0].slot]];
    const RoundMessage whole{flow.pair.peer, flow.slot, message_bytes(message)};
    if (message.size() == 1 && first.in_place != nullptr) {
      const RoundMessage lying{flow.pair.peer, first.in_place + first.moved_bytes, whole.bytes};
      static_cast<void>(next_strips(first.walk, whole.bytes / first.of.element_bytes));
      first.moved_bytes += whole.bytes;
      return lying;
    }
    for (const Stretch& each : message) {
      pack_or_land(flow.streams[flow.lands[each.slot]], each.bytes, flow.slot + each.offset, moves);
    }
    return whole;
  };
  while (true) {
    Moves packs(unit_bytes_), lands(unit_bytes_);
    Round round;
    for (Flow& flow : outgoing_) {
      if (flow.landing.is_done()) continue;
      round.sent.push_back(next(flow, packs, [&](auto&&... of) { pack(of...); }));
    }
    for (Flow& flow : incoming_) {
      if (flow.landing.is_done()) continue;
      round.received.push_back(next(flow, lands, [&](auto&&... of) { land(of...); }));
    }
    if (round.sent.empty() && round.received.empty()) return;
    packs.run(device);
    give(round.sent, round.received);
    lands.run(device);
  }
}

void BoxRounds::send_piece(Flow& flow, const FoldedPart& folded, Round& round, Moves& packs) {
  Stream* const stream = stream_of(flow, folded.part);
  if (flow.is_one || stream == nullptr || stream->moved_bytes == stream->of.bytes) return;
  const std::int64_t bytes = std::min(capacity_, stream->of.bytes - stream->moved_bytes);
  if (stream->in_place != nullptr) {
    round.sent.push_back({flow.pair.peer, stream->in_place + stream->moved_bytes, bytes});
    stream->moved_bytes += bytes;
    return;
  }
  pack(*stream, bytes, flow.slot, packs);
  round.sent.push_back({flow.pair.peer, flow.slot, bytes});
}

void BoxRounds::expect_piece(Flow& flow, const FoldedPart& folded, Round& round) {
  Stream* const stream = stream_of(flow, folded.part);
  if (flow.is_one || stream == nullptr || stream->moved_bytes == stream->of.bytes) return;
  const std::int64_t bytes = std::min(capacity_, stream->of.bytes - stream->moved_bytes);
  std::byte* const to = folded.stacks.empty() ? flow.slot + stream->moved_bytes : flow.slot;
  round.received.push_back({flow.pair.peer, to, bytes});
  stream->moved_bytes += bytes;
}

void BoxRounds::run_folded(FoldedPart& folded, DeviceSide& device, const Give& give) {
  Flow* const own = own_of(folded.part);
  const auto is_left = [](const Stack& stack) { return stack.left_bytes > 0; };
  while (true) {
    Moves packs(unit_bytes_);
    Round round;
    for (Flow& flow : outgoing_) send_piece(flow, folded, round, packs);
    for (Flow& flow : incoming_) expect_piece(flow, folded, round);
    if (own != nullptr && own->streams[0].in_place == nullptr) {
      Stream& summands = own->streams[0];
      const std::int64_t most = folded.stacks.empty() ? summands.of.bytes : capacity_;
      const std::int64_t bytes = std::min(most, summands.of.bytes - summands.moved_bytes);
      if (bytes > 0) pack(summands, bytes, own->slot, packs);
    }
    const bool has_messages = !round.sent.empty() || !round.received.empty();
    if (!has_messages && !std::ranges::any_of(folded.stacks, is_left)) {
      packs.run(device);
      break;
    }
    packs.run(device);
    if (has_messages) give(round.sent, round.received);
    for (Stack& stack : folded.stacks) fold_piece(stack, folded.part, device);
  }
  if (folded.stacks.empty()) fold_whole(folded.part, device);
}

BoxRounds::Flow* BoxRounds::own_of(std::size_t part) {
  const auto is_of = [part](const Flow& own) { return own.streams[0].of.part == part; };
  const auto at = std::ranges::find_if(own_, is_of);
  return at == own_.end() ? nullptr : &*at;
}

void BoxRounds::fold_piece(Stack& stack, std::size_t p, DeviceSide& device) {
  if (stack.left_bytes == 0) return;
  const ExchangePart& part = parts_[p];
  const DType dtype = dtype_of(part);
  const std::int64_t element = size_of(dtype), bytes = std::min(capacity_, stack.left_bytes);
  std::vector<const std::byte*> from;
  for (const int peer : stack.peers) {
    Flow* const found = peer == self_ ? own_of(p) : incoming_of(peer);
    if (found == nullptr) {
      throw Error(internal_error("exchange: no summand of rank " + std::to_string(peer)));
    }
    Flow& flow = *found;
    const Stream& stream = *stream_of(flow, p);
    const std::int64_t done = stream.of.bytes - stack.left_bytes;
    if (stream.in_place != nullptr) {
      from.push_back(stream.in_place + done);
    } else if (peer != self_ && flow.is_one) {
      const auto slot = static_cast<std::size_t>(&stream - flow.streams.data());
      from.push_back(flow.slot + flow.layout.begins[slot] + done);
    } else {
      from.push_back(flow.slot);
    }
  }
  BoxMoves moves(element);
  std::vector<BoxCut> cuts(from.size());
  std::int64_t at = 0;
  for (const Strip& each : next_strips(stack.target, bytes / element)) {
    for (std::size_t i = 0; i < cuts.size(); ++i) {
      cuts[i] = {static_cast<std::int64_t>(i), at, each.row_elements};
    }
    moves.add({.first = each.first,
               .stride = each.stride,
               .rows = each.rows,
               .row_elements = each.row_elements},
              cuts);
    at += each.rows * each.row_elements;
  }
  std::byte* const to = part.out.bytes();
  device.move(moves, {from, {&to, 1}, dtype}, *fold_of(*part.boxes));
  stack.left_bytes -= bytes;
}

void BoxRounds::fold_whole(std::size_t p, DeviceSide& device) {
  const ExchangePart& part = parts_[p];
  const DType dtype = dtype_of(part);
  const std::int64_t element = size_of(dtype);
  std::vector<std::pair<std::int64_t, const std::byte*>> at;  // of each peer
  std::vector<LandingBox> boxes;
  std::vector<const std::byte*> packed;
  for (const Transfer& box : part.boxes->into) {
    if (box.num_elements() == 0) continue;
    auto cursor =
        std::ranges::find_if(at, [&](const auto& each) { return each.first == box.peer; });
    if (cursor == at.end()) {
      const std::byte* begin = nullptr;
      if (box.peer == self_) {
        const Flow& flow = *own_of(p);
        const Stream& stream = flow.streams[0];
        begin = stream.in_place != nullptr ? stream.in_place : flow.slot;
      } else {
        Flow& flow = *incoming_of(static_cast<int>(box.peer));
        const auto slot = static_cast<std::size_t>(stream_of(flow, p) - flow.streams.data());
        begin = flow.slot + (flow.is_one ? flow.layout.begins[slot] : 0);
      }
      cursor = at.insert(at.end(), {box.peer, begin});
    }
    const Shape shape = box_shape(box);
    boxes.push_back({Box(packed_box(box), view_of(shape), view_of(part.out.shape())),
                     box.contributor, std::ssize(boxes)});
    packed.push_back(cursor->second);
    cursor->second += box.num_elements() * element;
  }
  if (boxes.empty()) return;
  const Fold fold = *fold_of(*part.boxes);
  const Landing landing(std::move(boxes), fold);
  const Landing::DeviceMoves& made = landing.device_moves(element);
  BoxMoves moves(element);
  moves.append(made.moves, 0, 0);
  std::vector<const std::byte*> from;
  for (const std::size_t box : made.first_boxes) from.push_back(packed[box]);
  std::byte* const to = part.out.bytes();
  device.move(moves, {from, {&to, 1}, dtype}, fold);
}

}  // namespace tessera
