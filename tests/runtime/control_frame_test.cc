#include <random>

#include "runtime/control/greeting.h"

namespace tessera {
namespace {

using control::decode;
using control::encode;
using control::Message;

constexpr std::size_t kLengthBytes = 4;

/// One message of every kind.
std::vector<Message> one_of_each() {
  ControlNonce nonce;
  for (std::size_t at = 0; at < nonce.size(); ++at) nonce[at] = static_cast<std::uint8_t>(250 + at);
  const StartedCounts counts{{{1, -1, -1}, 812}, {{1, 0, 3}, 5}, {{9, 3, 0}, ~std::uint64_t{0}}};
  const ControlWait wait{{1, 0, 3}, 5, {0, 3}, "recv #5 of moe.dispatch"};
  return {control::Hello{nonce, 3, 1, control::Purpose::kVisit},
          control::Welcome{},
          control::Poison{9, "rank 2: no such expert"},
          control::Failure{14, "rank 3 died"},
          control::GroupAsked{4, {3, 1, 2}},
          control::GroupNumber{4, 17},
          control::Waiting{6, wait, counts},
          control::Running{},
          control::Probe{8},
          control::ProbeReply{8, 6, counts},
          control::Leave{counts},
          control::Gone{2, control::End::kDied, counts},
          control::Query{{1, 0, 3}, 5},
          control::Answer{true, "runs"},
          control::Challenge{nonce},
          control::Proof{}};
}

std::string frame_of(const Message& message) { return encode(message).value(); }
std::optional<Message> decoded(const std::string& frame) {
  return decode(std::string_view(frame).substr(kLengthBytes));
}

template <class Kind>
Kind kept(const Kind& message) {
  return std::get<Kind>(*decoded(frame_of(message)));
}

/// A frame whose first bytes claim `length`.
std::string claiming(std::uint32_t length, const std::string& rest) {
  std::string frame;
  for (int shift = 0; shift < 32; shift += 8) frame += static_cast<char>(length >> shift & 255);
  return frame + rest;
}

}  // namespace

TEST_CASE("every kind of control message survives its bytes", "[runtime][control]") {
  const std::vector<Message> messages = one_of_each();
  REQUIRE(messages.size() == std::variant_size_v<Message>);
  for (std::size_t kind = 0; kind < messages.size(); ++kind) {
    CAPTURE(kind);
    CHECK(messages[kind].index() == kind);
    const std::string frame = frame_of(messages[kind]);
    const std::optional<Message> back = decoded(frame);
    REQUIRE(back.has_value());
    CHECK(back->index() == kind);
    CHECK(frame_of(*back) == frame);
  }
}

TEST_CASE("control messages keep each of their fields", "[runtime][control]") {
  const std::vector<Message> messages = one_of_each();
  const auto& counts = std::get<control::Leave>(messages[10]).started;
  const auto hello = kept(std::get<control::Hello>(messages[0]));
  CHECK(hello.nonce == std::get<control::Hello>(messages[0]).nonce);
  CHECK(std::tuple(hello.rank, hello.to) == std::tuple(3, 1));
  CHECK(hello.purpose == control::Purpose::kVisit);
  const auto poison = kept(control::Poison{9, "rank 2: no such expert"});
  CHECK(poison.code == 9);
  CHECK(poison.text == "rank 2: no such expert");
  const auto failure = kept(control::Failure{14, "rank 3 died"});
  CHECK(failure.code == 14);
  CHECK(failure.text == "rank 3 died");
  const auto asked = kept(control::GroupAsked{4, {3, 1, 2}});
  CHECK(asked.request == 4);
  CHECK(asked.ranks == std::vector<std::int64_t>{3, 1, 2});
  const auto number = kept(control::GroupNumber{4, 17});
  CHECK(std::tuple(number.request, number.id) == std::tuple(4, 17));
  CHECK(kept(control::Probe{8}).epoch == 8);
  const auto reply = kept(control::ProbeReply{8, 6, counts});
  CHECK(std::tuple(reply.epoch, reply.number) == std::tuple(8, 6));
  CHECK(reply.started == counts);
  CHECK(kept(control::Leave{counts}).started == counts);
  const auto gone = kept(control::Gone{2, control::End::kDied, counts});
  CHECK(gone.rank == 2);
  CHECK(gone.end == control::End::kDied);
  CHECK(gone.started == counts);
  CHECK(kept(control::Gone{2, control::End::kLeft, {}}).end == control::End::kLeft);
  const auto query = kept(control::Query{{1, 0, 3}, 5});
  CHECK(query.lane == LaneKey{1, 0, 3});
  CHECK(query.sequence == 5);
  const auto answer = kept(control::Answer{true, "runs"});
  CHECK(answer.arrived);
  CHECK(answer.doing == "runs");
  const auto waiting = kept(std::get<control::Waiting>(messages[6]));
  CHECK(waiting.number == 6);
  CHECK(waiting.wait.lane == LaneKey{1, 0, 3});
  CHECK(waiting.wait.sequence == 5);
  CHECK(waiting.wait.text == "recv #5 of moe.dispatch");
  CHECK(waiting.wait.parties == std::vector<std::int64_t>{0, 3});
  CHECK(waiting.started.at({9, 3, 0}) == ~std::uint64_t{0});
}

TEST_CASE("a frame cut short or drawn out is refused", "[runtime][control]") {
  for (const Message& message : one_of_each()) {
    CAPTURE(message.index());
    const std::string body = frame_of(message).substr(kLengthBytes);
    for (std::size_t size = 0; size < body.size(); ++size) {
      CHECK_FALSE(decode(std::string_view(body).substr(0, size)).has_value());
    }
    CHECK_FALSE(decode(body + '\0').has_value());
  }
}

TEST_CASE("texts are cut, messages beyond a frame are not written", "[runtime][control]") {
  const std::string text(control::kMaxTextBytes + 9, 'x');
  const auto cut = std::get<control::Poison>(*decoded(frame_of(control::Poison{3, text})));
  CHECK(cut.text == text.substr(9));
  const std::vector<std::int64_t> many(control::kMaxFrameBytes / 8);
  CHECK_FALSE(encode(control::GroupAsked{1, many}).has_value());
}

TEST_CASE("messages come out of a stream however it is cut", "[runtime][control]") {
  std::string stream;
  for (const Message& message : one_of_each()) stream += frame_of(message);
  const std::size_t step = GENERATE(1, 3, 7, 1000);
  FrameReader reader(control::kMaxFrameBytes);
  std::string back;
  for (std::size_t at = 0; at < stream.size(); at += step) {
    reader.append(std::string_view(stream).substr(at, step));
    while (const auto message = reader.next()) back += frame_of(*message);
  }
  CHECK(back == stream);
  CHECK_FALSE(reader.is_broken());
}

TEST_CASE("a length beyond the cap breaks a stream before its bytes are there",
          "[runtime][control]") {
  const std::uint32_t length = GENERATE(0u, 257u, 1u << 20, 0x7fffffffu, 0xffffffffu);
  FrameReader reader(control::kMaxHelloBytes);
  reader.append(claiming(length, ""));
  CHECK_FALSE(reader.next().has_value());
  CHECK(reader.is_broken());
  reader.append(frame_of(control::Probe{1}));
  CHECK_FALSE(reader.next().has_value());  // for good
}

TEST_CASE("a count that promises more than its frame holds is refused", "[runtime][control]") {
  // Kind 4 asks for a group: a request of 8 bytes, then how many ranks follow.
  for (const char* count : {"\xff\xff\xff\xff", "\x02\x00\x00\x00", "\x00\x00\x00\x20"}) {
    const std::string body =
        std::string(1, '\4') + std::string(8, '\0') + std::string(count, 4) + std::string(8, '\0');
    CHECK_FALSE(decode(body).has_value());
  }
}

TEST_CASE("20,000 mutated streams are decoded or refused, and what is decoded is sound",
          "[runtime][control]") {
  std::mt19937_64 random(20'240'611);
  const std::vector<Message> messages = one_of_each();
  const auto below = [&](std::size_t bound) { return static_cast<std::size_t>(random() % bound); };
  std::size_t num_decoded = 0;
  std::size_t num_unsound = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string stream = frame_of(messages[below(messages.size())]);
    stream += frame_of(messages[below(messages.size())]);
    for (std::size_t change = 0; change < 1 + below(6); ++change) {
      const std::size_t at = below(stream.size());
      switch (below(4)) {
        case 0:
          stream[at] = static_cast<char>(random());
          break;
        case 1:
          stream[at] = static_cast<char>(stream[at] ^ (1 << below(8)));
          break;
        case 2:
          stream.erase(at, 1 + below(4));
          break;
        default:
          stream.insert(at, 1 + below(4), static_cast<char>(random()));
      }
      if (stream.empty()) break;
    }
    FrameReader reader(control::kMaxFrameBytes);
    reader.append(stream);
    while (const auto message = reader.next()) {
      ++num_decoded;
      // Whatever is accepted is exactly what its own bytes say.
      const auto again = decoded(frame_of(*message));
      if (!again || frame_of(*again) != frame_of(*message)) ++num_unsound;
    }
  }
  CHECK(num_unsound == 0);
  CHECK(num_decoded > 10'000);  // the mutations reach behind the first checks
}

// ---- seals

namespace {

ControlKeys keys_for(std::uint8_t token_byte, std::int64_t rank = 2) {
  ControlToken token;
  token.bytes.fill(token_byte);
  const control::Hello hello{ControlNonce{1, 2, 3}, rank, 0, control::Purpose::kJoin};
  return keys_of(token, hello, control::Challenge{ControlNonce{4, 5, 6}});
}

struct SealedLink {
  explicit SealedLink(const ControlKeys& keys = keys_for(7)) {
    writer.seal_with(keys.from_caller);
    reader.open_with(keys_for(7).from_caller);
  }
  std::string frame_of(std::uint64_t epoch) {
    return writer.frame_of(control::Probe{epoch}).value();
  }
  /// The epochs of the probes that come out.
  std::vector<std::uint64_t> read(const std::string& bytes) {
    reader.append(bytes);
    std::vector<std::uint64_t> epochs;
    while (const auto message = reader.next()) {
      epochs.push_back(std::get<control::Probe>(*message).epoch);
    }
    return epochs;
  }
  FrameWriter writer;
  FrameReader reader{control::kMaxFrameBytes};
};
using Epochs = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("a tag is the HMAC-SHA256 of another library", "[runtime][control]") {
  // python3: hmac.new(bytes(range(32)), bytes(8), "sha256").hexdigest()[:32]
  FrameSeal::Key key;
  for (std::size_t at = 0; at < key.size(); ++at) key[at] = static_cast<std::uint8_t>(at);
  std::string hex;
  for (const char byte : FrameSeal(key).seal("")) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    hex += kDigits[static_cast<std::uint8_t>(byte) >> 4];
    hex += kDigits[static_cast<std::uint8_t>(byte) & 15];
  }
  CHECK(hex == "00000000000000009f0cd9b94097fe4929918d2b8942b344");
}

TEST_CASE("sealed frames come out in order, however the stream is cut", "[runtime][control]") {
  SealedLink link;
  std::string stream;
  for (std::uint64_t epoch = 0; epoch < 300; ++epoch) stream += link.frame_of(epoch);
  Epochs seen;
  for (std::size_t at = 0; at < stream.size(); at += 7) {
    for (const std::uint64_t epoch : link.read(stream.substr(at, 7))) seen.push_back(epoch);
  }
  REQUIRE(seen.size() == 300);
  for (std::uint64_t epoch = 0; epoch < 300; ++epoch) REQUIRE(seen[epoch] == epoch);
  CHECK(link.reader.num_dropped() == 0);
}

TEST_CASE("a frame with any bit changed is passed over, and the true one still heard",
          "[runtime][control]") {
  SealedLink link;
  std::uint64_t num_forged = 0;
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    const std::string frame = link.frame_of(epoch);
    for (std::size_t bit = 8 * kLengthBytes; bit < 8 * frame.size(); ++bit) {
      std::string forged = frame;
      forged[bit / 8] = static_cast<char>(forged[bit / 8] ^ 1 << bit % 8);
      REQUIRE(link.read(forged).empty());
      ++num_forged;
    }
    for (std::size_t size = 1; size < frame.size() - kLengthBytes; ++size) {
      REQUIRE(
          link.read(claiming(static_cast<std::uint32_t>(size), frame.substr(kLengthBytes, size)))
              .empty());
      ++num_forged;
    }
    CHECK(link.read(frame) == Epochs{epoch});
  }
  CHECK(link.reader.num_dropped() == num_forged);
  CHECK_FALSE(link.reader.is_broken());
}

TEST_CASE("a frame that was there before, or is of another connection, is passed over",
          "[runtime][control]") {
  SealedLink link;
  const std::string first = link.frame_of(1), second = link.frame_of(2);
  CHECK(link.read(first + first + second + first + second) == Epochs{1, 2});
  CHECK(link.reader.num_dropped() == 3);
  SealedLink other_rank(keys_for(7, 1)), other_job(keys_for(8));
  for (int count = 0; count < 3; ++count) {
    CHECK(link.read(other_rank.frame_of(9) + other_job.frame_of(9)).empty());
  }
  SealedLink back;  // the other direction of the same connection
  back.writer.seal_with(keys_for(7).from_callee);
  CHECK(link.read(back.frame_of(9)).empty());
  CHECK(link.read(encode(control::Probe{9}).value()).empty());  // unsealed
  CHECK(link.read(link.frame_of(3)) == Epochs{3});
  CHECK_FALSE(link.reader.is_broken());
}

TEST_CASE("a genuine frame before its turn ends the stream: others are missing",
          "[runtime][control]") {
  SealedLink link;
  const std::string first = link.frame_of(1), second = link.frame_of(2), third = link.frame_of(3);
  CHECK(link.read(first + third + second) == Epochs{1});
  CHECK(link.reader.is_broken());
  CHECK(link.reader.lacks_frames());
}

}  // namespace tessera
