#include "runtime/box_parts.h"

#include <algorithm>
#include <utility>

#include "runtime/fold.h"

namespace tessera {
namespace {

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

void Landing::land(Sources sources, const Array& out) const {
  if (!fold_) {
    for (std::size_t i = 0; i < boxes_.size(); ++i) {
      copy_box(boxes_[i].box, sources[i], out.bytes(), size_of(out.dtype()));
    }
  } else if (stacks_.empty()) {
    fold_in_accumulators(sources, out);
  } else {
    for (const Stack& stack : stacks_) fold_stack(stack, sources, out);
  }
}

void Landing::fold_stack(const Stack& stack, Sources sources, const Array& out) const {
  const DType dtype = out.dtype();
  std::vector<const std::byte*> at(stack.boxes.size());
  const Box& box = boxes_[stack.boxes.front()].box;
  box.for_each_piece([&](std::int64_t from, std::int64_t to, std::int64_t count) {
    for (std::size_t i = 0; i < at.size(); ++i) {
      at[i] = sources[stack.boxes[i]] + from * size_of(dtype);
    }
    fold(dtype, *fold_, at, out.bytes() + to * size_of(dtype), count);
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

std::optional<Fold> fold_of(const ExchangeBoxes& boxes) {
  if (!boxes.fold) return std::nullopt;
  return fold_by(boxes.reduce, boxes.divisor);
}

Landing landing_of(const ExchangeBoxes& boxes, ShapeView out) {
  std::vector<LandingBox> landing;
  landing.reserve(boxes.into.size());
  for (std::size_t i = 0; i < boxes.into.size(); ++i) {
    const Transfer& box = boxes.into[i];
    landing.push_back({Box(box, view_of(boxes.cut_from[i]), out), box.contributor});
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
