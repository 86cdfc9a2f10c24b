// Frames between processes of one host, over a Unix socket for each pair of ranks.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

/// What one rank tells another of a call: whose it is, and what it brings.
struct Frame {
  std::string signature;
  std::string message;
};

/// Which call a frame belongs to: a lane (see tessera::LaneKey), and the call's number in it.
struct CallNumber {
  std::uint32_t group = 0;
  std::int32_t from = -1, to = -1;
  std::uint64_t sequence = 0;
  auto operator<=>(const CallNumber&) const = default;
};

/// One rank's ends of its sockets. Nothing here blocks but exchange() and flush().
class Sockets {
 public:
  /// ends[rank]: a connected stream socket to that rank; the own one is not looked at. Owns them.
  Sockets(int rank, std::vector<int> ends);
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;
  ~Sockets();

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return static_cast<int>(peers_.size()); }

  /// Every rank's text, by rank. Before the first frame; collective over all ranks.
  std::vector<std::string> exchange(const std::string& own);

  void send(int rank, const CallNumber& call, const Frame& frame);
  /// Sends and takes what can go now.
  void pump();
  /// The frame of that call from that rank, once it has come; only once.
  std::optional<Frame> take(int rank, const CallNumber& call);
  /// Until all has gone out, or the other ends have gone.
  void flush();

 private:
  struct Peer {
    int end = -1;
    bool gone = false;
    std::string out;  ///< from sent on yet to go
    std::size_t sent = 0;
    std::string in;  ///< of a frame that is not whole
    std::map<CallNumber, Frame> arrived;
  };
  static void write_some(Peer& peer);
  static void read_some(Peer& peer);

  int rank_;
  std::vector<Peer> peers_;  ///< by rank; what goes to oneself arrives at once
};
