#include "runtime/control/sealed_stream.h"

#include <poll.h>

#include <cstdint>
#include <utility>

namespace tessera {
namespace {

constexpr std::size_t kCountBytes = sizeof(std::uint32_t);

std::string with_count(const std::string& bytes) {
  std::string frame;
  for (std::size_t at = 0; at < kCountBytes; ++at) {
    frame.push_back(static_cast<char>(bytes.size() >> (8 * at) & 255));
  }
  return frame + bytes;
}
std::size_t count_at_front(const std::string& frame) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < kCountBytes; ++at) {
    count |= std::size_t{static_cast<std::uint8_t>(frame[at])} << (8 * at);
  }
  return count;
}

}  // namespace

SealedStream SealedStream::call(Descriptor socket, const ControlToken& token,
                                const control::Hello& hello) {
  SealedStream stream(std::move(socket), token);
  stream.calls_ = true;
  stream.hello_ = hello;
  stream.unsent_ = control::encode(hello).value_or("");
  return stream;
}

SealedStream SealedStream::answer(Descriptor socket, const ControlToken& token,
                                  control::Purpose purpose) {
  SealedStream stream(std::move(socket), token);
  stream.hello_.purpose = purpose;
  return stream;
}

void SealedStream::write(std::string_view text) {
  if (from_here_) {
    unsent_ += with_count(from_here_->seal(text));
  } else {
    waiting_.emplace_back(text);
  }
}

void SealedStream::open_with(const control::Challenge& challenge) {
  const ControlKeys keys = keys_of(token_, hello_, challenge);
  from_here_.emplace(calls_ ? keys.from_caller : keys.from_callee);
  from_there_.emplace(calls_ ? keys.from_callee : keys.from_caller);
  if (calls_) write("");  // the proof
  for (const std::string& text : std::exchange(waiting_, {})) write(text);
}

void SealedStream::take_greeting(const std::string& frame) {
  const std::optional<control::Message> message = control::decode(frame);
  const auto* const challenge = message ? std::get_if<control::Challenge>(&*message) : nullptr;
  const auto* const hello = message ? std::get_if<control::Hello>(&*message) : nullptr;
  if (calls_ && challenge != nullptr) return open_with(*challenge);
  if (calls_ || hello == nullptr || hello->purpose != hello_.purpose) {
    over_ = true;
    return;
  }
  hello_ = *hello;
  const control::Challenge own = new_challenge();
  unsent_ += control::encode(own).value_or("");
  open_with(own);
}

void SealedStream::pump() {
  if (!socket_.is_open()) over_ = true;
  if (over_) return;
  const bool is_closed = receive_some(socket_, received_) == SocketState::kClosed;
  while (!over_ && !from_there_) {
    const std::optional<std::string> frame = next_frame();
    if (!frame) break;
    take_greeting(*frame);
  }
  const bool is_deaf = send_some(socket_, unsent_) == SocketState::kClosed;
  over_ = over_ || is_closed || is_deaf;
}

std::optional<std::string> SealedStream::next_frame() {
  if (received_.size() < kCountBytes) return std::nullopt;
  const std::size_t count = count_at_front(received_);
  const std::size_t most =
      has_proved_ ? kMaxTextBytes + FrameSeal::kBytes : control::kMaxHelloBytes;
  if (count == 0 || count > most) {
    over_ = true;
    received_.clear();
    return std::nullopt;
  }
  if (received_.size() - kCountBytes < count) return std::nullopt;
  std::string frame = received_.substr(kCountBytes, count);
  received_.erase(0, kCountBytes + count);
  return frame;
}

std::optional<std::string> SealedStream::read() {
  while (from_there_) {
    const std::optional<std::string> frame = next_frame();
    if (!frame) return std::nullopt;
    const std::optional<std::string_view> text = from_there_->open(*frame);
    if (!text) {
      over_ = true;
      return std::nullopt;
    }
    const bool is_proof = !calls_ && !has_proved_;
    has_proved_ = true;
    if (!is_proof) return std::string(*text);
  }
  return std::nullopt;
}

pollfd SealedStream::entry() const noexcept {
  const bool sends = !unsent_.empty();
  return {over_ ? -1 : socket_.number(), sends ? short{POLLIN | POLLOUT} : short{POLLIN}, 0};
}

}  // namespace tessera
