#include "emulation/capture.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "emulation/sanitizer.h"

namespace tessera::emulation {

GraphExec::GraphExec(const Graph& graph) : graph_(graph) {
  for (std::size_t lane = 1; lane < graph.num_lanes; ++lane) {
    lanes_.push_back(std::make_unique<Stream>(graph.device));
  }
}

GraphExec::~GraphExec() {
  const Hidden hidden;  // of its own: the thread that ran the operations is not told of their end
  if (last_) last_->wait();
  lanes_.clear();
  graph_ = {};
}

void GraphExec::launch(Stream& stream) {
  if (last_) stream.wait_for(last_);
  const CompletionRef begin = stream.mark();
  for (const auto& lane : lanes_) lane->wait_for(begin);
  std::vector<CompletionRef> completions;
  for (std::size_t i = 0; i < graph_.num_completions; ++i)
    completions.push_back(CompletionRef::make());
  for (const CapturedStep& step : graph_.steps) {
    Stream& lane = step.lane == 0 ? stream : *lanes_[step.lane - 1];
    switch (step.kind) {
      case CapturedStep::Kind::kRun:
        lane.enqueue([&step](BlockRunner& runner) { step.operation(runner); });
        break;
      case CapturedStep::Kind::kRecord:
        lane.enqueue(
            [completion = completions[step.completion]](BlockRunner&) { completion->finish(); });
        break;
      case CapturedStep::Kind::kWait:
        lane.wait_for(completions[step.completion]);
        break;
    }
  }
  last_ = stream.mark();
}

namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

Capture::Capture(Stream& origin, cudaStreamCaptureMode mode)
    : id_(next_id()), mode_(mode), lanes_{&origin}, num_steps_{0}, clocks_{{0}} {
  graph_.device = origin.device();
  origin.capture = this;
  origin.lane = 0;
}

void Capture::add(CapturedStep step) {
  if (step.kind == CapturedStep::Kind::kRun)
    clocks_[step.lane][step.lane] = ++num_steps_[step.lane];
  graph_.steps.push_back(std::move(step));
}

void Capture::run(std::size_t lane, Operation operation) {
  add({.kind = CapturedStep::Kind::kRun, .lane = lane, .operation = std::move(operation)});
}

Capture::Moment Capture::record(std::size_t lane) {
  const std::size_t completion = graph_.num_completions++;
  add({.kind = CapturedStep::Kind::kRecord, .lane = lane, .completion = completion});
  return {.completion = completion, .clock = clocks_[lane]};
}

void Capture::wait(Stream& stream, const Moment& moment) {
  if (stream.capture == nullptr) {
    stream.capture = this;
    stream.lane = lanes_.size();
    lanes_.push_back(&stream);
    num_steps_.push_back(0);
    ++graph_.num_lanes;
    clocks_.emplace_back();
    for (Clock& clock : clocks_) clock.resize(lanes_.size());
  }
  add({.kind = CapturedStep::Kind::kWait, .lane = stream.lane, .completion = moment.completion});
  Clock& clock = clocks_[stream.lane];
  for (std::size_t i = 0; i < moment.clock.size(); ++i)
    clock[i] = std::max(clock[i], moment.clock[i]);
}

void Capture::release() {
  for (Stream* lane : lanes_) lane->capture = nullptr;
}

bool Capture::is_joined() const {
  for (std::size_t lane = 1; lane < lanes_.size(); ++lane) {
    if (clocks_[0][lane] < num_steps_[lane]) return false;
  }
  return true;
}

}  // namespace tessera::emulation
