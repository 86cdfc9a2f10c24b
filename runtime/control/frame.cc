#include "runtime/control/frame.h"

#include <concepts>
#include <type_traits>
#include <utility>

namespace tessera {

namespace control {
namespace {

// One description of each message's fields, which both directions walk.
template <class Archive>
void describe(Archive& archive, Hello& message) {
  for (std::uint8_t& byte : message.nonce) archive(byte);
  archive(message.rank);
  archive(message.to);
  archive(message.purpose, Purpose::kMail);
}
template <class Archive>
void describe(Archive& archive, Challenge& message) {
  for (std::uint8_t& byte : message.nonce) archive(byte);
}
template <class Archive>
void describe(Archive&, Proof&) {}
template <class Archive>
void describe(Archive&, Welcome&) {}
template <class Archive>
void describe(Archive& archive, Poison& message) {
  archive(message.code);
  archive(message.text);
}
template <class Archive>
void describe(Archive& archive, Failure& message) {
  archive(message.code);
  archive(message.text);
}
template <class Archive>
void describe(Archive& archive, GroupAsked& message) {
  archive(message.request);
  archive(message.ranks);
}
template <class Archive>
void describe(Archive& archive, GroupNumber& message) {
  archive(message.request);
  archive(message.id);
}
template <class Archive>
void describe(Archive& archive, Waiting& message) {
  archive(message.number);
  archive(message.wait.lane);
  archive(message.wait.sequence);
  archive(message.wait.parties);
  archive(message.wait.text);
  archive(message.started);
}
template <class Archive>
void describe(Archive&, Running&) {}
template <class Archive>
void describe(Archive& archive, Probe& message) {
  archive(message.epoch);
}
template <class Archive>
void describe(Archive& archive, ProbeReply& message) {
  archive(message.epoch);
  archive(message.number);
  archive(message.started);
}
template <class Archive>
void describe(Archive& archive, Leave& message) {
  archive(message.started);
}
template <class Archive>
void describe(Archive& archive, Gone& message) {
  archive(message.rank);
  archive(message.end, End::kDied);
  archive(message.started);
}
template <class Archive>
void describe(Archive& archive, Query& message) {
  archive(message.lane);
  archive(message.sequence);
}
template <class Archive>
void describe(Archive& archive, Answer& message) {
  archive(message.arrived);
  archive(message.doing);
}

class Writer {
 public:
  explicit Writer(std::string& bytes) : bytes_(bytes) {}

  template <std::integral T>
  void operator()(T value) {
    const auto bits = static_cast<std::uint64_t>(value);
    for (std::size_t at = 0; at < sizeof(T); ++at) {
      bytes_.push_back(static_cast<char>(static_cast<std::uint8_t>(bits >> (8 * at))));
    }
  }
  template <class Enum>
  void operator()(Enum value, Enum /*last*/) {
    (*this)(static_cast<std::uint8_t>(value));
  }
  void operator()(const std::string& text) {
    const std::string_view kept = std::string_view(text).substr(0, kMaxTextBytes);
    (*this)(static_cast<std::uint32_t>(kept.size()));
    bytes_.append(kept);
  }
  void operator()(const LaneKey& lane) {
    (*this)(lane.group);
    (*this)(lane.from);
    (*this)(lane.to);
  }
  void operator()(const std::vector<std::int64_t>& ranks) {
    (*this)(static_cast<std::uint32_t>(ranks.size()));
    for (const std::int64_t rank : ranks) (*this)(rank);
  }
  void operator()(const StartedCounts& counts) {
    (*this)(static_cast<std::uint32_t>(counts.size()));
    for (const auto& [lane, count] : counts) {
      (*this)(lane);
      (*this)(count);
    }
  }

 private:
  std::string& bytes_;
};

/// Reads until something is amiss; then everything that follows is left as it is.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  bool is_done() const noexcept { return !broken_ && bytes_.empty(); }

  template <std::integral T>
  void operator()(T& value) {
    if (!has(sizeof(T))) return;
    std::uint64_t bits = 0;
    for (std::size_t at = 0; at < sizeof(T); ++at) {
      bits |= std::uint64_t{static_cast<std::uint8_t>(bytes_[at])} << (8 * at);
    }
    bytes_.remove_prefix(sizeof(T));
    if constexpr (std::same_as<T, bool>) {
      if (bits > 1) broken_ = true;
    }
    value = static_cast<T>(bits);
  }
  template <class Enum>
  void operator()(Enum& value, Enum last) {
    std::uint8_t number = 0;
    (*this)(number);
    if (number > static_cast<std::uint8_t>(last)) broken_ = true;
    if (!broken_) value = static_cast<Enum>(number);
  }
  void operator()(std::string& text) {
    const std::size_t size = size_of(1);
    if (size > kMaxTextBytes) broken_ = true;
    if (broken_) return;
    text = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
  }
  void operator()(LaneKey& lane) {
    (*this)(lane.group);
    (*this)(lane.from);
    (*this)(lane.to);
  }
  void operator()(std::vector<std::int64_t>& ranks) {
    ranks.resize(size_of(sizeof(std::int64_t)));
    for (std::int64_t& rank : ranks) (*this)(rank);
  }
  void operator()(StartedCounts& counts) {
    constexpr std::size_t kEntryBytes = 3 * sizeof(std::uint32_t) + sizeof(std::uint64_t);
    const std::size_t size = size_of(kEntryBytes);
    for (std::size_t at = 0; at < size && !broken_; ++at) {
      LaneKey lane;
      (*this)(lane);
      if (!counts.empty() && !(counts.rbegin()->first < lane)) broken_ = true;  // once, in order
      (*this)(counts.emplace_hint(counts.end(), lane, 0)->second);
    }
  }

 private:
  bool has(std::size_t size) {
    if (bytes_.size() < size) broken_ = true;
    return !broken_;
  }
  /// A count of things of `bytes_each`, no larger than what is there.
  std::size_t size_of(std::size_t bytes_each) {
    std::uint32_t size = 0;
    (*this)(size);
    if (size > bytes_.size() / bytes_each) broken_ = true;
    return broken_ ? 0 : size;
  }

  std::string_view bytes_;
  bool broken_ = false;
};

template <std::size_t kKind = 0>
std::optional<Message> decode_as(std::size_t kind, std::string_view body) {
  if constexpr (kKind < std::variant_size_v<Message>) {
    if (kind != kKind) return decode_as<kKind + 1>(kind, body);
    std::variant_alternative_t<kKind, Message> message;
    Reader reader(body);
    describe(reader, message);
    if (!reader.is_done()) return std::nullopt;
    return Message(std::move(message));
  } else {
    return std::nullopt;
  }
}

constexpr std::size_t kLengthBytes = sizeof(std::uint32_t);

/// Kind and body; nullopt for those beyond kMaxFrameBytes.
std::optional<std::string> content_of(const Message& message) {
  std::string bytes;
  Writer writer(bytes);
  writer(static_cast<std::uint8_t>(message.index()));
  // The writer changes nothing: descriptions are shared with the reader, which does.
  std::visit(
      [&](const auto& kind) {
        describe(writer, const_cast<std::remove_cvref_t<decltype(kind)>&>(kind));
      },
      message);
  if (bytes.size() > kMaxFrameBytes) return std::nullopt;
  return bytes;
}

std::string with_length(const std::string& content) {
  std::string frame;
  Writer{frame}(static_cast<std::uint32_t>(content.size()));
  return frame + content;
}

}  // namespace

std::optional<std::string> encode(const Message& message) {
  const std::optional<std::string> content = content_of(message);
  if (!content) return std::nullopt;
  return with_length(*content);
}

std::optional<Message> decode(std::string_view frame) {
  if (frame.empty()) return std::nullopt;
  return decode_as(static_cast<std::uint8_t>(frame.front()), frame.substr(1));
}

}  // namespace control

std::optional<std::string> FrameWriter::frame_of(const control::Message& message) {
  std::optional<std::string> content = control::content_of(message);
  if (!content) return std::nullopt;
  return control::with_length(seal_ ? seal_->seal(*content) : *content);
}

std::optional<std::string> FrameReader::next_frame() {
  if (broken_ || bytes_.size() < control::kLengthBytes) return std::nullopt;
  std::uint32_t length = 0;
  control::Reader{std::string_view(bytes_).substr(0, control::kLengthBytes)}(length);
  if (length == 0 || length > max_bytes_ + (seal_ ? FrameSeal::kBytes : 0)) {
    broken_ = true;
    return std::nullopt;
  }
  if (bytes_.size() - control::kLengthBytes < length) return std::nullopt;
  std::string frame = bytes_.substr(control::kLengthBytes, length);
  bytes_.erase(0, control::kLengthBytes + length);
  return frame;
}

std::optional<control::Message> FrameReader::next() {
  while (const std::optional<std::string> frame = next_frame()) {
    std::optional<std::string_view> content = *frame;
    if (seal_) content = seal_->open(*frame);
    if (content) {
      std::optional<control::Message> message = control::decode(*content);
      broken_ = !message.has_value();
      return message;
    }
    ++num_dropped_;
    broken_ = seal_->has_gap();
  }
  return std::nullopt;
}

}  // namespace tessera
