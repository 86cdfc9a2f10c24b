// tests/support/flight_image.h: checks of a flight record whose bytes a test has changed, so that
// the reader's other rules come to judge them.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>

#include "runtime/recorder/file.h"

namespace tessera::testing {

/// Writes every check anew that the image has room for.
inline void seal_image(std::span<std::byte> image) {
  flight::Header header{};
  if (image.size() < sizeof header) return;
  std::memcpy(&header, image.data(), sizeof header);
  for (flight::Checked* field :
       {&header.num_slots, &header.kept_slots, &header.num_groups, &header.end}) {
    *field = flight::checked(field->value);
  }
  header.check = flight::check_of(header);
  if (header.failure_bytes <= flight::kMaxFailureBytes) {
    header.end_check = flight::check_of_end(header, static_cast<flight::End>(header.end.value));
  }
  std::memcpy(image.data(), &header, sizeof header);

  const std::size_t room = (image.size() - std::min<std::size_t>(image.size(), flight::kPageBytes));
  std::vector<std::uint32_t> words(std::min<std::uint64_t>(room / 4, header.group_words));
  if (!words.empty())
    std::memcpy(words.data(), image.data() + flight::kPageBytes, 4 * words.size());
  std::size_t at = 0;
  for (std::uint32_t i = 0; i < header.num_groups.value && at < words.size(); ++i) {
    const std::size_t size = std::size_t{1} + words[at];
    if (words.size() - at <= size) break;
    words[at + size] = flight::check_of_group(std::span(words).subspan(at, size));
    at += size + 1;
  }
  if (!words.empty())
    std::memcpy(image.data() + flight::kPageBytes, words.data(), 4 * words.size());

  std::span<std::byte> slots = image.last(room - 4 * words.size());
  for (; slots.size() >= sizeof(flight::Slot); slots = slots.subspan(sizeof(flight::Slot))) {
    flight::Slot slot;
    std::memcpy(&slot, slots.data(), sizeof slot);
    if (slot.num_send + slot.num_recv > flight::kMaxSplits) continue;
    slot.check = flight::check_of(slot, slot.seal);
    slot.outcome_check = flight::check_of_outcome(slot, slot.seal);
    std::memcpy(slots.data(), &slot, sizeof slot);
  }
}

}  // namespace tessera::testing
