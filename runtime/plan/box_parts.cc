#include "runtime/plan/box_parts.h"

#include <algorithm>
#include <utility>

#include "kernels/copy_strip.h"
#include "kernels/fold.h"
#include "kernels/parallel_loop.h"
#include "kernels/parallel_tasks.h"

namespace tessera {
namespace {

// An array of so many bytes is worth waking a second thread for.
constexpr std::int64_t kSharedBytes = 1024 * 1024;

// The part of a strip that one of several threads does: rows of many, elements of a single one.
BoxStrip share_of(const BoxStrip& whole, int part, int of) {
  BoxStrip strip = whole;
  if (whole.rows > 1) {
    const std::int64_t begin = whole.rows * part / of;
    strip.rows = whole.rows * (part + 1) / of - begin;
    strip.src += begin * whole.src_stride;
    strip.dst += begin * whole.dst_stride;
  } else {
    constexpr std::int64_t kGrain = 1024;
    const std::int64_t grains = (whole.row_elements + kGrain - 1) / kGrain;
    const std::int64_t begin = std::min(whole.row_elements, grains * part / of * kGrain);
    const std::int64_t end = std::min(whole.row_elements, grains * (part + 1) / of * kGrain);
    strip.row_elements = end - begin;
    strip.src += begin;
    strip.dst += begin;
  }
  return strip;
}

// The box with one side's elements one after another.
Transfer with_packed(Transfer box, std::int64_t Run::*side) {
  for (std::vector<Run>& runs : box.dims) {
    std::int64_t at = 0;
    for (Run& run : runs) {
      run.*side = at;
      at += run.size;
    }
  }
  return box;
}

}  // namespace

Landing::Landing(std::vector<LandingBox> boxes, std::optional<Fold> fold)
    : boxes_(std::move(boxes)), fold_(fold) {
  if (!fold_) return;
  std::int64_t covered = 0, target = 0;
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    const Box& box = boxes_[i].box;
    if (boxes_[i].contributor == boxes_[0].contributor) target += box.num_elements();
    const auto match = std::find_if(stacks_.begin(), stacks_.end(), [&](const Stack& stack) {
      return boxes_[stack.boxes.front()].box.same_pieces(box);
    });
    if (match == stacks_.end()) {
      stacks_.push_back({{i}});
      covered += box.num_elements();
    } else {
      match->boxes.push_back(i);
    }
  }
  // Each contributor covers the target once, so stacks of that volume in all do not overlap.
  if (covered != target) stacks_.clear();
}

void Landing::land(Sources sources, const Array& out, int threads) const {
  if (fold_ && stacks_.empty()) {
    fold_in_accumulators(sources, out);
    return;
  }
  const bool large = out.num_bytes() >= kSharedBytes;
  const int used = large ? kernels::usable_threads(threads, out.num_elements()) : 1;
  if (used <= 1) {
    land_share(sources, out, {});
  } else {
    kernels::parallel_tasks(used, used, [&](std::int64_t part) {
      land_share(sources, out, {static_cast<int>(part), used});
    });
  }
}

void Landing::land_share(Sources sources, const Array& out, const Share& share) const {
  if (!fold_) copy_share(sources, out, share);
  for (const Stack& stack : stacks_) fold_share(stack, sources, out, share);
  kernels::finish_streams();
}

void Landing::copy_share(Sources sources, const Array& out, const Share& share) const {
  const std::int64_t element = size_of(out.dtype());
  const kernels::Stores stores = kernels::stores_for(out.num_bytes());
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    if (share.of == 1) {
      copy_box(boxes_[i].box, sources[i], out.bytes(), element, stores);
      continue;
    }
    boxes_[i].box.for_each_strip([&](const BoxStrip& whole) {
      const BoxStrip strip = share_of(whole, share.part, share.of);
      kernels::copy_strip({.rows = strip.rows,
                           .row_bytes = strip.row_elements * element,
                           .from_stride = strip.src_stride * element,
                           .to_stride = strip.dst_stride * element},
                          sources[i] + strip.src * element, out.bytes() + strip.dst * element,
                          stores);
    });
  }
}

void Landing::fold_share(const Stack& stack, Sources sources, const Array& out,
                         const Share& share) const {
  const DType dtype = out.dtype();
  const kernels::Stores stores = kernels::stores_for(out.num_bytes());
  std::vector<const std::byte*> at(stack.boxes.size());
  boxes_[stack.boxes.front()].box.for_each_strip([&](const BoxStrip& whole) {
    const BoxStrip strip = share_of(whole, share.part, share.of);
    for (std::int64_t row = 0; row < strip.rows; ++row) {
      for (std::size_t i = 0; i < at.size(); ++i) {
        at[i] = sources[stack.boxes[i]] + (strip.src + row * strip.src_stride) * size_of(dtype);
      }
      std::byte* to = out.bytes() + (strip.dst + row * strip.dst_stride) * size_of(dtype);
      fold_to(dtype, *fold_, at, {{&to, 1}, strip.row_elements, stores});
    }
  });
}

// For contributors whose boxes cut the target differently.
void Landing::fold_in_accumulators(Sources sources, const Array& out) const {
  const DType dtype = out.dtype();
  const std::int64_t width = accumulator_size(dtype);
  const std::int64_t count = out.num_elements();
  std::vector<std::byte> accumulators(static_cast<std::size_t>(count * width));
  fill_identity(dtype, *fold_, accumulators.data(), count);
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    boxes_[i].box.for_each_piece([&](std::int64_t from, std::int64_t to, std::int64_t size) {
      combine(dtype, *fold_, accumulators.data() + to * width, sources[i] + from * size_of(dtype),
              size);
    });
  }
  for (const LandingBox& each : boxes_) {
    if (each.contributor != boxes_[0].contributor) break;
    each.box.for_each_piece([&](std::int64_t, std::int64_t to, std::int64_t size) {
      store(dtype, *fold_, accumulators.data() + to * width, out.bytes() + to * size_of(dtype),
            size);
    });
  }
}

// ---- for a device's kernel

const Landing::DeviceMoves& Landing::device_moves(std::int64_t element_bytes) const {
  std::call_once(lazy_->once, [&] { lazy_->moves = make_device_moves(element_bytes); });
  return *lazy_->moves;
}

std::unique_ptr<const Landing::DeviceMoves> Landing::make_device_moves(
    std::int64_t element_bytes) const {
  auto made = std::make_unique<DeviceMoves>(element_bytes);
  std::vector<std::int64_t> sources;  // of each box
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    const auto known = std::ranges::find_if(
        made->first_boxes, [&](std::size_t first) { return boxes_[first].peer == boxes_[i].peer; });
    sources.push_back(known - made->first_boxes.begin());
    if (known == made->first_boxes.end()) made->first_boxes.push_back(i);
  }
  if (!fold_) {
    for (std::size_t i = 0; i < boxes_.size(); ++i) add_stack({{i}}, sources, made->moves);
  }
  for (const Stack& stack : stacks_) add_stack(stack, sources, made->moves);
  if (fold_ && stacks_.empty()) add_uneven(sources, made->moves);
  return made;
}

void Landing::add_stack(const Stack& stack, std::span<const std::int64_t> sources,
                        kernels::BoxMoves& to) const {
  std::vector<kernels::BoxCut> cuts(stack.boxes.size());
  boxes_[stack.boxes.front()].box.for_each_strip([&](const BoxStrip& strip) {
    for (std::size_t i = 0; i < cuts.size(); ++i) {
      cuts[i] = {sources[stack.boxes[i]], strip.src, strip.src_stride};
    }
    to.add({.first = strip.dst,
            .stride = strip.dst_stride,
            .rows = strip.rows,
            .row_elements = strip.row_elements},
           cuts);
  });
}

// Contributors cut the target differently: the pieces between all their cuts, in the target's
// order.
void Landing::add_uneven(std::span<const std::int64_t> sources, kernels::BoxMoves& to) const {
  struct Piece {
    std::int64_t contributor, source, src, dst, size;
  };
  std::vector<Piece> pieces;
  std::vector<std::int64_t> ends;
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    boxes_[i].box.for_each_piece([&](std::int64_t src, std::int64_t dst, std::int64_t size) {
      pieces.push_back({boxes_[i].contributor, sources[i], src, dst, size});
      ends.push_back(dst);
      ends.push_back(dst + size);
    });
  }
  std::ranges::sort(pieces, {},
                    [](const Piece& piece) { return std::pair(piece.contributor, piece.dst); });
  std::ranges::sort(ends);
  ends.erase(std::ranges::unique(ends).begin(), ends.end());
  std::vector<std::size_t> at;  // the piece of each contributor that has not ended
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (i == 0 || pieces[i].contributor != pieces[i - 1].contributor) at.push_back(i);
  }
  std::vector<kernels::BoxCut> cuts(at.size());
  for (std::size_t e = 0; e + 1 < ends.size(); ++e) {
    const std::int64_t begin = ends[e];
    bool covered = true;
    for (std::size_t c = 0; c < at.size(); ++c) {
      const std::int64_t contributor = pieces[at[c]].contributor;
      while (pieces[at[c]].dst + pieces[at[c]].size <= begin && at[c] + 1 < pieces.size() &&
             pieces[at[c] + 1].contributor == contributor) {
        ++at[c];
      }
      const Piece& piece = pieces[at[c]];
      covered = covered && piece.dst <= begin && begin < piece.dst + piece.size;
      cuts[c] = {piece.source, piece.src + begin - piece.dst, 0};
    }
    if (covered) to.add({.first = begin, .row_elements = ends[e + 1] - begin}, cuts);
  }
}

std::optional<Fold> fold_of(const ExchangeBoxes& boxes) {
  if (!boxes.fold) return std::nullopt;
  return fold_by(boxes.reduce, boxes.divisor);
}

Landing landing_of(const ExchangeBoxes& boxes, ShapeView out) {
  std::vector<LandingBox> landing;
  landing.reserve(boxes.into.size());
  for (std::size_t i = 0; i < boxes.into.size(); ++i) {
    const Transfer& box = boxes.into[i];
    landing.push_back({Box(box, view_of(boxes.cut_from[i]), out), box.contributor, box.peer});
  }
  return Landing(std::move(landing), fold_of(boxes));
}

Transfer packed_box(const Transfer& box) { return with_packed(box, &Run::src); }

Shape box_shape(const Transfer& box) {
  Shape shape;
  for (const std::vector<Run>& runs : box.dims) {
    std::int64_t size = 0;
    for (const Run& run : runs) size += run.size;
    shape.push_back(size);
  }
  return shape;
}

Box packing_of(const Transfer& box, ShapeView from) {
  const Shape to = box_shape(box);
  return Box(with_packed(box, &Run::dst), from, view_of(to));
}

}  // namespace tessera
