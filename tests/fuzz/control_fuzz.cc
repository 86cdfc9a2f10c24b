// Bytes from a control connection: whatever arrives in whatever pieces, the same messages come out,
// and each is one that encode() writes.
#include "runtime/control_frame.h"
#include "tests/fuzz/fuzz.h"

namespace tessera {
namespace {

constexpr std::size_t kMaxBytes = 4096;

/// The frames of all messages that came out, and whether the stream broke.
std::string read_in_pieces(std::string_view bytes, std::size_t piece) {
  FrameReader reader(kMaxBytes);
  std::string frames;
  const auto take = [&] {
    while (const std::optional<control::Message> message = reader.next()) {
      const std::optional<std::string> frame = control::encode(*message);
      TSR_CHECK(frame.has_value(), "a message that cannot be sent");
      frames += *frame;
    }
  };
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    reader.append(bytes.substr(at, piece));
    take();
  }
  TSR_CHECK(bytes.starts_with(frames), "what was read is not what arrived");
  return frames + (reader.is_broken() ? "!" : "");
}

void fuzz(std::span<const std::uint8_t> input) {
  testing::Bytes in(input);
  const std::size_t piece = 1 + static_cast<std::size_t>(in.next());
  const std::string_view bytes = in.rest_as_text();
  TSR_CHECK(read_in_pieces(bytes, piece) == read_in_pieces(bytes, bytes.size() + 1),
            "pieces change what is read");
}

}  // namespace
}  // namespace tessera

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera::fuzz({data, size});
  return 0;
}
