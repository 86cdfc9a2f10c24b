#include "runtime/box_parts.h"

#include <algorithm>

#include "runtime/fold.h"

namespace tessera {
namespace {

// Boxes with the same pieces, each with all its sources in order: one fold per piece.
struct Stack {
  const Box* box;
  std::vector<const std::byte*> sources;
};

std::vector<Stack> stacks_of(const std::vector<BoxPart>& parts) {
  std::vector<Stack> stacks;
  for (const BoxPart& part : parts) {
    const auto match = std::find_if(stacks.begin(), stacks.end(), [&](const Stack& stack) {
      return stack.box->same_pieces(part.box);
    });
    if (match == stacks.end()) {
      stacks.push_back({&part.box, {part.source}});
    } else {
      match->sources.push_back(part.source);
    }
  }
  return stacks;
}

void fold_stack(const Stack& stack, const CollectiveCall& call, const Fold& how) {
  const DType dtype = call.out.dtype();
  std::vector<const std::byte*> at(stack.sources.size());
  stack.box->for_each_piece([&](std::int64_t from, std::int64_t to, std::int64_t count) {
    for (std::size_t i = 0; i < at.size(); ++i) at[i] = stack.sources[i] + from * size_of(dtype);
    fold(dtype, how, at, call.out.bytes() + to * size_of(dtype), count);
  });
}

// For contributors whose boxes cut the target differently.
void fold_in_accumulators(const std::vector<BoxPart>& parts, const CollectiveCall& call,
                          const Fold& how) {
  const DType dtype = call.out.dtype();
  const std::int64_t count = call.out.num_elements();
  std::vector<std::byte> accumulators(static_cast<std::size_t>(count * accumulator_size(dtype)));
  fill_identity(dtype, how, accumulators.data(), count);
  for (const BoxPart& part : parts) {
    part.box.for_each_piece([&](std::int64_t from, std::int64_t to, std::int64_t size) {
      combine(dtype, how, accumulators.data() + to * accumulator_size(dtype),
              part.source + from * size_of(dtype), size);
    });
  }
  store(dtype, how, accumulators.data(), call.out.bytes(), count);
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

void place_parts(const std::vector<BoxPart>& parts, const CollectiveCall& call) {
  if (!call.fold) {
    for (const BoxPart& part : parts) {
      copy_box(part.box, part.source, call.out.bytes(), size_of(call.out.dtype()));
    }
    return;
  }
  const Fold how = fold_by(call.reduce, call.divisor);
  const std::vector<Stack> stacks = stacks_of(parts);
  std::int64_t covered = 0;
  for (const Stack& stack : stacks) covered += stack.box->num_elements();
  // Each contributor covers the target once, so stacks of that volume in all do not overlap.
  if (covered == call.out.num_elements()) {
    for (const Stack& stack : stacks) fold_stack(stack, call, how);
  } else {
    fold_in_accumulators(parts, call, how);
  }
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
