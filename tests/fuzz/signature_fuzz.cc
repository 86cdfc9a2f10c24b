// Two signatures as peers send them: what is accepted reads back from its own bytes, and the two
// can be compared and told of.
#include "runtime/call/signature_wire.h"
#include "tests/fuzz/fuzz.h"

namespace tessera {
namespace {

std::string bytes_of(const Signature& signature) {
  std::string bytes;
  write_signature(signature, bytes);
  return bytes;
}

void check_round_trip(const Signature& signature, std::set<std::string>& files) {
  const std::string bytes = bytes_of(signature);
  const StatusOr<Signature> again = read_signature(bytes, files);
  TSR_CHECK(again.ok(), to_string(signature));
  TSR_CHECK(bytes_of(*again) == bytes, to_string(signature));
  TSR_CHECK(to_string(*again) == to_string(signature), to_string(signature));
  const Signature* const same[] = {&signature, &*again};
  TSR_CHECK(!find_mismatch(same).has_value() || signature.kind == CollectiveCall::Kind::kSend ||
                signature.kind == CollectiveCall::Kind::kRecv ||
                signature.kind == CollectiveCall::Kind::kAllToAll,
            to_string(signature));
}

void try_signature(std::span<const std::uint8_t> input) {
  testing::Bytes in(input);
  const std::size_t first = in.next();
  const auto text_of = [](std::span<const std::uint8_t> bytes) {
    return std::span(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  std::set<std::string> files;
  const StatusOr<Signature> a = read_signature(text_of(in.take(first)), files);
  const StatusOr<Signature> b = read_signature(text_of(in.take(input.size())), files);
  if (a.ok()) check_round_trip(*a, files);
  if (b.ok()) check_round_trip(*b, files);
  if (!a.ok() || !b.ok()) return;
  const Signature* const calls[] = {&*a, &*b};
  const std::int64_t ranks[] = {0, 1};
  const std::optional<Mismatch> mismatch = find_mismatch(calls);
  TSR_CHECK(compare_calls(calls, ranks).ok() != mismatch.has_value(), to_string(*a));
}

}  // namespace
}  // namespace tessera

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera::try_signature({data, size});
  return 0;
}
