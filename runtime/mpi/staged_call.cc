#include "runtime/mpi/staged_call.h"

#include <algorithm>
#include <utility>

#include "kernels/device.h"
#include "runtime/call/signature.h"

namespace tessera {
namespace {

using Kind = CollectiveCall::Kind;

/// Whether the boxes land on every element of `out`; each contributor's of a fold cover the same.
bool cover(const ExchangeBoxes& boxes, const Array& out) {
  std::int64_t elements = 0;
  for (const Transfer& box : boxes.into) {
    const bool counts = !boxes.fold || box.contributor == boxes.into.front().contributor;
    if (counts) elements += box.num_elements();
  }
  return elements == out.num_elements();
}

void copy(Device& device, const Array& to, const Array& from) {
  device.copy(to.bytes(), from.bytes(), static_cast<std::size_t>(from.num_bytes()), device.comm());
}

}  // namespace

// ---- Staging

Staging::~Staging() {
  for (const Kept& each : kept_) {
    try {
      each.device->synchronize(each.read);
    } catch (const Error&) {  // a device that has failed reads no more
    }
  }
}

const std::shared_ptr<Allocator>& Staging::memory_for(const Array& array) {
  if (memory_ == nullptr) memory_ = array.device().make_pinned_allocator();
  release_read();
  return memory_;
}

void Staging::keep(Device& device, const Mark& read, std::vector<Array> on_host) {
  kept_.push_back({device.shared_from_this(), read, std::move(on_host)});
}

void Staging::release_read() {
  const auto first_unread =
      std::ranges::find_if(kept_, [](const Kept& each) { return !each.device->done(each.read); });
  kept_.erase(kept_.begin(), first_unread);
}

// ---- StagedCall

StagedCall::StagedCall(const CollectiveCall& call, int self, Staging& staging)
    : device_(device_of(call)), staging_(staging), call_(call) {
  std::vector<Use> all = uses(self);
  device_.wait(device_.comm(), device_.record(device_.compute()));
  const std::shared_ptr<Allocator>& memory = staging.memory_for(*all.front().array);
  place(std::move(all), memory);
  down_ = device_.record(device_.comm());
}

std::vector<StagedCall::Use> StagedCall::uses(int self) {
  std::vector<Use> all;
  const auto add = [&](const Use& use) {
    if (!use.array->is_null()) all.push_back(use);
  };
  if (auto* broadcast = std::get_if<BroadcastCall>(&call_.of)) {
    add({&broadcast->in_out, broadcast->root == self, broadcast->root != self});
    return all;
  }
  std::visit(
      [&](auto& each) {
        if constexpr (requires { each.in; }) add({&each.in, true, false});
        if constexpr (requires { each.out; }) add({&each.out, false, true});
      },
      call_.of);
  auto* const exchange = std::get_if<ExchangeCall>(&call_.of);
  if (exchange == nullptr) return all;
  for (ExchangePart& part : exchange->parts) {
    const bool gives = !part.boxes->from.empty(), lands = !part.boxes->into.empty();
    const bool in_place = gives && !part.out.is_null() && part.in.bytes() == part.out.bytes();
    add({&part.in, gives, false});
    add({&part.out, lands && !in_place && !cover(*part.boxes, part.out), lands});
  }
  return all;
}

// Arrays that share elements on the device share them on the host.
void StagedCall::place(std::vector<Use> uses, const std::shared_ptr<Allocator>& memory) {
  const auto end_of = [](const Use& use) { return use.array->bytes() + use.array->num_bytes(); };
  std::ranges::sort(uses, {}, [](const Use& use) { return use.array->bytes(); });
  for (auto use = uses.begin(); use != uses.end();) {
    const std::byte* const begin = use->array->bytes();
    const std::byte* end = end_of(*use);
    auto last = use + 1;
    for (; last != uses.end() && last->array->bytes() < end; ++last) {
      end = std::max<const std::byte*>(end, end_of(*last));
    }
    const DType dtype = use->array->dtype();
    const Array stretch = Array::empty({(end - begin) / size_of(dtype)}, dtype, memory);
    for (; use != last; ++use) {
      const Array on_device = *use->array;
      const Shape& shape = on_device.shape();
      *use->array = stretch.as_strided(shape, contiguous_strides(shape),
                                       (on_device.bytes() - begin) / size_of(dtype));
      if (use->is_read) copy(device_, *use->array, on_device);
      pairs_.push_back({on_device, *use->array, use->is_written});
    }
  }
}

void StagedCall::bring_up() {
  std::vector<Array> read;
  for (const Pair& pair : std::exchange(pairs_, {})) {
    if (!pair.is_written) continue;
    copy(device_, pair.on_device, pair.on_host);
    read.push_back(pair.on_host);
  }
  if (read.empty()) return;
  const Mark up = device_.record(device_.comm());
  device_.wait(device_.compute(), up);
  staging_.keep(device_, up, std::move(read));
}

}  // namespace tessera
