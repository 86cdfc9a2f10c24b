#include "runtime/gather_texts.h"

#include <cstring>
#include <numeric>

namespace tessera {
namespace {

// Bytes travel as BOOL, the type of one byte.
Array bytes_of(World& world, const std::string& text) {
  const Array bytes =
      Array::empty({static_cast<std::int64_t>(text.size())}, DType::kBool, world.host_allocator());
  if (!text.empty()) std::memcpy(bytes.data<std::byte>(), text.data(), text.size());
  return bytes;
}

std::string_view text_of(const Array& bytes) {
  return {reinterpret_cast<const char*>(bytes.data<std::byte>()),
          static_cast<std::size_t>(bytes.num_bytes())};
}

}  // namespace

std::vector<std::string> gather_texts(World& world, const std::string& own) {
  Communicator& group = everyone(world);
  const CallInfo info{.tensor = "texts", .log = CallLog::kNo};

  const auto length = static_cast<std::int64_t>(own.size());
  const Array own_length = Array::empty({1}, DType::kI64, world.host_allocator());
  *own_length.data<std::int64_t>() = length;
  const Array lengths = Array::empty({world.size()}, DType::kI64, world.host_allocator());
  group.all_gather(own_length, lengths, {}, info);
  const std::int64_t* counts = lengths.data<std::int64_t>();

  const std::vector<std::int64_t> rows(counts, counts + world.size());
  const Array bytes = bytes_of(world, own);
  const std::int64_t total = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  const Array all = Array::empty({total}, DType::kBool, world.host_allocator());
  group.all_gather(bytes, all, rows, info);

  std::vector<std::string> texts;
  const char* at = reinterpret_cast<const char*>(all.data<std::byte>());
  for (const std::int64_t count : rows) {
    texts.emplace_back(at, static_cast<std::size_t>(count));
    at += count;
  }
  return texts;
}

void collect_texts(World& world, const std::string& own,
                   const std::function<void(std::string_view)>& take) {
  Communicator& group = everyone(world);
  const CallInfo info{.tensor = "texts", .log = CallLog::kNo};
  const Array length = Array::empty({1}, DType::kI64, world.host_allocator());
  if (world.rank() != 0) {
    *length.data<std::int64_t>() = static_cast<std::int64_t>(own.size());
    group.send(length, 0, info);
    group.send(bytes_of(world, own), 0, info);
    return;
  }
  take(own);
  for (int rank = 1; rank < group.size(); ++rank) {
    group.recv(length, rank, info);
    const Array bytes =
        Array::empty({*length.data<std::int64_t>()}, DType::kBool, world.host_allocator());
    group.recv(bytes, rank, info);
    take(text_of(bytes));
  }
}

}  // namespace tessera
