// emulation/capture.h: what streams would have done while one of them was captured, to be done
// later, any number of times. A capture's first stream is its origin; a stream that waits for a
// captured event joins it as another lane. Guarded by the runtime's mutex unless said otherwise.
#pragma once

#include <cstdint>
#include <thread>
#include <vector>

#include "emulation/stream.h"

namespace tessera::emulation {

/// One step of one lane: an operation, or the record of a completion, or the wait for one.
struct CapturedStep {
  enum class Kind : std::uint8_t { kRun, kRecord, kWait };
  Kind kind = Kind::kRun;
  std::size_t lane = 0;
  Operation operation = {};    // of kRun
  std::size_t completion = 0;  // else: its number in the graph
};

/// Immutable once made. Thread-safety: may be read by many threads.
class Graph {
 public:
  int device = 0;
  std::size_t num_lanes = 1;
  std::size_t num_completions = 0;
  std::vector<CapturedStep> steps;
};

class GraphExec {
 public:
  explicit GraphExec(const Graph& graph);
  /// Waits for its launches.
  ~GraphExec();
  /// Does the steps on `stream` and, for other lanes, on streams of its own; after what `stream`
  /// holds, and after earlier launches.
  void launch(Stream& stream);

 private:
  Graph graph_;
  std::vector<std::unique_ptr<Stream>> lanes_;  // but the first; they end before graph_ does
  CompletionRef last_;
};

class Capture {
 public:
  Capture(Stream& origin, cudaStreamCaptureMode mode);

  std::uint64_t id() const noexcept { return id_; }
  /// Whether it keeps this thread from what might wait.
  bool binds_this_thread() const noexcept {
    if (mode_ == cudaStreamCaptureModeThreadLocal) return thread_ == std::this_thread::get_id();
    return mode_ == cudaStreamCaptureModeGlobal;
  }
  bool is_origin(const Stream& stream) const noexcept { return lanes_[0] == &stream; }
  bool is_broken() const noexcept { return broken_; }
  void break_off() noexcept { broken_ = true; }

  /// How many operations of each lane a moment lies behind.
  using Clock = std::vector<std::size_t>;
  struct Moment {
    std::size_t completion = 0;
    Clock clock;
  };
  void run(std::size_t lane, Operation operation);
  Moment record(std::size_t lane);
  /// The stream waits for the moment; one that is no lane yet becomes one.
  void wait(Stream& stream, const Moment& moment);
  /// Takes all streams out of the capture.
  void release();
  /// Whether the origin lies behind all that the other lanes did.
  bool is_joined() const;
  Graph take_graph() { return std::move(graph_); }

 private:
  void add(CapturedStep step);

  std::uint64_t id_;
  cudaStreamCaptureMode mode_;
  std::thread::id thread_ = std::this_thread::get_id();
  bool broken_ = false;
  Graph graph_;
  std::vector<Stream*> lanes_;
  std::vector<std::size_t> num_steps_;  // of each lane; operations alone
  std::vector<Clock> clocks_;           // of each lane
};

}  // namespace tessera::emulation
