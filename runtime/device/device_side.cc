#include "runtime/device/device_side.h"

#include <utility>

#include "runtime/call/prepared_call.h"

namespace tessera {
namespace {

const Array& an_array_of(const CollectiveCall& call) {
  if (!call.out().is_null()) return call.out();
  if (!call.in().is_null()) return call.in();
  const ExchangePart& part = call.parts().front();
  return part.out.is_null() ? part.in : part.out;
}

}  // namespace

DType dtype_of_copies(std::int64_t element_bytes) {
  switch (element_bytes) {
    case 8:
      return DType::kI64;
    case 4:
      return DType::kI32;
    case 2:
      return DType::kBF16;
    default:
      return DType::kBool;
  }
}

DeviceSide::DeviceSide(const CollectiveCall& call, std::int64_t buffer_bytes, Stream* stream)
    : device_(device_of(call).shared_from_this()),
      stream_(stream == nullptr ? device_->comm() : *stream),
      memory_(an_array_of(call).storage()->allocator()) {
  // Before the mark: what the block held before belongs to the compute stream.
  if (buffer_bytes > 0) buffer_ = Array::empty({buffer_bytes}, DType::kBool, memory_);
  held_until_ = device_->record(device_->compute());
  if (stream == nullptr) begin();
}

void DeviceSide::begin() { device_->wait(stream_, held_until_); }

std::byte* DeviceSide::take(std::int64_t bytes) {
  const std::int64_t begin = std::exchange(taken_, taken_ + aligned(bytes));
  const std::int64_t room = buffer_.is_null() ? 0 : buffer_.num_bytes();
  TSR_CHECK(taken_ <= room, std::to_string(taken_) + " of " + std::to_string(room));
  return buffer_.is_null() ? nullptr : buffer_.bytes() + begin;
}

void DeviceSide::copy(std::byte* to, const std::byte* from, std::int64_t bytes) {
  was_given_ = true;
  device_->copy(to, from, static_cast<std::size_t>(bytes), stream_);
}

void DeviceSide::upload(std::byte* to, const std::byte* from, std::int64_t bytes) {
  was_given_ = true;
  device_->upload(to, from, static_cast<std::size_t>(bytes), stream_);
}

void DeviceSide::move(const kernels::BoxMoves& moves, kernels::MovedArrays arrays,
                      const std::optional<Fold>& how) {
  if (moves.is_empty()) return;
  was_given_ = true;
  KernelContext ctx{.device = device_.get(), .allocator = memory_};
  arrays.broken_off = broken_off_;
  Array kept = kernels::move_boxes(ctx, moves, arrays, how, stream_);
  if (!kept.is_null()) kept_.push_back(std::move(kept));
}

void DeviceSide::fold(std::span<const std::byte* const> summands, std::byte* out,
                      std::int64_t elements, DType dtype, const Fold& how) {
  std::vector<kernels::BoxCut> cuts;
  for (std::int64_t i = 0; i < std::ssize(summands); ++i) cuts.push_back({.source = i});
  kernels::BoxMoves moves(size_of(dtype));
  moves.add({.row_elements = elements}, cuts);
  move(moves, {summands, {&out, 1}, dtype}, how);
}

void DeviceSide::hold_messages() {
  if (was_given_) held_until_ = device_->record(stream_);
}

bool DeviceSide::lets_messages() {
  if (held_until_.state() == nullptr) return true;
  if (!device_->done(held_until_)) return false;
  held_until_ = {};
  return true;
}

void DeviceSide::close() {
  if (was_given_ && !is_closed_) end_ = device_->record(stream_);
  is_closed_ = true;
}

void DeviceSide::finish() {
  close();
  if (was_given_) device_->wait(device_->compute(), end_);
  kept_.clear();
  buffer_ = {};
}

}  // namespace tessera
