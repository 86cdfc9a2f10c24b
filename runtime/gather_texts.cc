#include "runtime/gather_texts.h"

#include <cstring>
#include <numeric>

namespace tessera {

std::vector<std::string> gather_texts(World& world, const std::string& own) {
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  Communicator& group = *value_or_throw(world.group(ranks));
  const CallInfo info{.tensor = "texts", .log = CallLog::kNo};

  const auto length = static_cast<std::int64_t>(own.size());
  const Array own_length = Array::empty({1}, DType::kI64, world.allocator());
  *own_length.data<std::int64_t>() = length;
  const Array lengths = Array::empty({world.size()}, DType::kI64, world.allocator());
  group.all_gather(own_length, lengths, {}, info);
  const std::int64_t* counts = lengths.data<std::int64_t>();

  const std::vector<std::int64_t> rows(counts, counts + world.size());
  const Array bytes = Array::empty({length}, DType::kBool, world.allocator());
  if (length > 0) std::memcpy(bytes.bytes(), own.data(), own.size());
  const std::int64_t total = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  const Array all = Array::empty({total}, DType::kBool, world.allocator());
  group.all_gather(bytes, all, rows, info);

  std::vector<std::string> texts;
  const char* at = reinterpret_cast<const char*>(all.bytes());
  for (const std::int64_t count : rows) {
    texts.emplace_back(at, static_cast<std::size_t>(count));
    at += count;
  }
  return texts;
}

}  // namespace tessera
