// runtime/control/sealed_stream.h: texts over one connection between processes of a job, sealed
// like the control channel's frames, after the same greeting. A text is of any bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/control/greeting.h"
#include "runtime/control/socket.h"

struct pollfd;

namespace tessera {

/// One end. Nothing here waits.
class SealedStream {
 public:
  static constexpr std::size_t kMaxTextBytes = std::size_t{64} << 20;

  /// The end that calls. It may write at once: that goes when the other end has answered.
  static SealedStream call(Descriptor socket, const ControlToken& token,
                           const control::Hello& hello);
  /// The end that is called.
  static SealedStream answer(Descriptor socket, const ControlToken& token,
                             control::Purpose purpose);

  void write(std::string_view text);
  /// Sends and receives what goes now.
  void pump();
  /// The next text of the other end.
  std::optional<std::string> read();

  /// For poll().
  pollfd entry() const noexcept;
  /// Of the end that calls, before anything has come.
  Status outcome_of_connecting() const { return tessera::outcome_of_connecting(socket_); }
  /// The other end has shown that it knows the token.
  bool has_proved() const noexcept { return has_proved_; }
  /// Of the end that has called, as it says.
  const control::Hello& hello() const noexcept { return hello_; }
  /// Nothing more comes but what can be read now: the other end has closed, or broken the rules.
  bool is_over() const noexcept { return over_; }
  bool has_unsent() const noexcept { return !unsent_.empty() || !waiting_.empty(); }

 private:
  SealedStream(Descriptor socket, const ControlToken& token)
      : token_(token), socket_(std::move(socket)) {}
  std::optional<std::string> next_frame();
  void take_greeting(const std::string& frame);
  void open_with(const control::Challenge& challenge);

  ControlToken token_;
  Descriptor socket_;
  bool calls_ = false;
  control::Hello hello_;
  std::optional<FrameSeal> from_here_, from_there_;
  bool has_proved_ = false;
  bool over_ = false;
  std::vector<std::string> waiting_;  ///< written before the keys were there
  std::string unsent_, received_;
};

}  // namespace tessera
