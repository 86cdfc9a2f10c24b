#include "runtime/call/event.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "absl/hash/hash.h"
#include "kernels/memory_use.h"

namespace tessera {
namespace {

bool same_key(const EventLog::Total& total, const Event& event) {
  return total.kind == event.kind && total.origin == event.origin && total.name == event.name &&
         total.axes == event.axes && total.module == event.module;
}

}  // namespace

void EventLog::add(Event event) {
  if (event.module.empty()) event.module = module_;
  if (event.kind == Event::Kind::kCollective) bytes_received_ += event.bytes_received;
  if (event.kind != Event::Kind::kSpan) count(event);
  if (!keep_events_) return;
  if (is_tracing()) {
    if (std::ssize(events_) >= max_events_) {
      ++num_left_out_;
      return;
    }
    event.trace.memory_bytes = memory_use_of(*memory_).used_bytes;
  }
  events_.push_back(std::move(event));
}

void EventLog::count(const Event& event) {
  std::size_t key = absl::HashOf(static_cast<int>(event.kind), static_cast<int>(event.origin),
                                 event.name, event.axes, event.module);
  for (;; ++key) {  // two keys of one hash: the next number
    const auto [slot, is_new] = index_.try_emplace(key, totals_.size());
    if (is_new) {
      totals_.push_back({event.kind, event.name, event.axes, event.module, event.origin, 0, 0});
    }
    Total& total = totals_[slot->second];
    if (!same_key(total, event)) continue;
    ++total.count;
    total.bytes_received += event.bytes_received;
    return;
  }
}

void EventLog::clear() {
  events_.clear();
  totals_.clear();
  index_.clear();
  bytes_received_ = 0;
  num_left_out_ = 0;
}

void EventLog::summarize_only() {
  keep_events_ = false;
  memory_.reset();
  events_.clear();
  events_.shrink_to_fit();
}

void EventLog::trace(std::int64_t max_events, std::shared_ptr<const Allocator> memory) {
  keep_events_ = true;
  max_events_ = max_events;
  memory_ = std::move(memory);
}

std::vector<EventLog::Total> EventLog::totals() const {
  std::vector<Total> sorted = totals_;
  std::sort(sorted.begin(), sorted.end(), [](const Total& a, const Total& b) {
    return std::tie(a.kind, a.module, a.name, a.axes, a.origin) <
           std::tie(b.kind, b.module, b.name, b.axes, b.origin);
  });
  return sorted;
}

std::string EventLog::set_module(std::string path) {
  std::swap(module_, path);
  return path;
}

}  // namespace tessera
