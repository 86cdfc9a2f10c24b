// Bytes from a control connection: whatever arrives in whatever pieces, the same messages come out,
// and each is one that encode() writes. Put as frames between sealed ones, they say nothing.
#include "runtime/control/frame.h"
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

/// The bytes as one frame, whatever they hold.
std::string frame_around(std::string_view bytes) {
  std::string frame;
  for (int shift = 0; shift < 32; shift += 8) {
    frame += static_cast<char>(bytes.size() >> shift & 255);
  }
  return frame.append(bytes);
}

void check_between_sealed(std::string_view bytes) {
  const std::string forged = frame_around(bytes.substr(0, kMaxBytes));
  const FrameSeal seal(FrameSeal::Key{});
  FrameWriter writer;
  FrameReader reader(kMaxBytes), plain(kMaxBytes);
  writer.seal_with(seal);
  reader.open_with(seal);
  plain.append(bytes);
  while (const std::optional<control::Message> message = plain.next()) {
    reader.append(forged + writer.frame_of(*message).value() + forged);
    const std::optional<control::Message> heard = reader.next();
    TSR_CHECK(heard.has_value(), "a sealed frame was not heard");
    TSR_CHECK(control::encode(*heard) == control::encode(*message), "another was heard");
    TSR_CHECK(!reader.next().has_value() && !reader.is_broken(), "forged bytes were heard");
  }
}

void try_control(std::span<const std::uint8_t> input) {
  testing::Bytes in(input);
  const std::size_t piece = 1 + static_cast<std::size_t>(in.next());
  const std::string_view bytes = in.rest_as_text();
  TSR_CHECK(read_in_pieces(bytes, piece) == read_in_pieces(bytes, bytes.size() + 1),
            "pieces change what is read");
  if (!bytes.empty()) check_between_sealed(bytes);
}

}  // namespace
}  // namespace tessera

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera::try_control({data, size});
  return 0;
}
