#include "tests/simulation/simulation.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>

#include "tests/simulation/mail.h"

namespace tessera::seeded {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// Far beyond any limit that a job has.
constexpr Duration kTooLong = std::chrono::minutes(30);
constexpr std::uint64_t kTooManySteps = 3'000'000;

Delays draw_delays(Draw& draw) {
  switch (draw.below(3)) {
    case 0:
      return {.usual = microseconds(5), .seldom = microseconds(50), .times = 10};
    case 1:
      return {.usual = microseconds(200), .seldom = milliseconds(20), .times = 20};
    default:
      return {.usual = milliseconds(5), .seldom = milliseconds(60), .times = 5};
  }
}

/// Of a simulation's threads one runs at a time. On one core a turn is passed where it is given up;
/// another core would have to be woken first, or to finish what it does for somebody else.
void stay_on(int core) noexcept {
  if (core < 0) return;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(static_cast<std::size_t>(core), &cores);
  pthread_setaffinity_np(pthread_self(), sizeof cores, &cores);
}

}  // namespace

std::shared_ptr<Simulation> Simulation::make(std::uint64_t seed, Trace trace) {
  return std::shared_ptr<Simulation>(new Simulation(seed, trace));
}

Simulation::Simulation(std::uint64_t seed, Trace trace)
    : draw_(seed),
      keeps_(trace),
      delays_(draw_delays(draw_)),
      style_(static_cast<Style>(draw_.below(3))),
      switches_once_in_(std::vector<std::uint64_t>{1, 2, 5, 20}[draw_.below(4)]),
      wakes_for_nothing_(draw_.once_in(4)),
      core_(sched_getcpu()),
      wires_(draw_, delays_),
      mail_(std::make_unique<Mail>(*this)) {}

Simulation::~Simulation() {
  for (const auto& fiber : fibers_) {
    if (fiber->thread.joinable()) fiber->thread.join();
  }
}

Simulation::Fiber& Simulation::add_fiber(int process, std::function<void()> body) {
  auto fiber = std::make_unique<Fiber>();
  fiber->number = fibers_.size();
  fiber->process = process;
  fiber->body = std::move(body);
  fiber->priority = draw_.below(1000);
  fibers_.push_back(std::move(fiber));
  Fiber& made = *fibers_.back();
  made.thread = std::thread([this, &made] { live(made); });
  return made;
}

int Simulation::add_process(std::function<void()> body) {
  processes_.emplace_back();
  add_fiber(num_processes() - 1, std::move(body));
  return num_processes() - 1;
}

std::string Simulation::run() {
  hand_over(choose());
  over_.acquire();
  if (!hangs_.empty()) new std::shared_ptr<Simulation>(shared_from_this());  // its threads use it
  return hangs_;
}

void Simulation::live(Fiber& fiber) {
  stay_on(core_);
  this_environment = this;
  fiber.turn.acquire();
  fiber.body();
  fiber.body = nullptr;
  fiber.state = State::kEnded;
  hand_over(choose());
}

// ---- turns

void Simulation::hand_over(Fiber* next) noexcept {
  running_ = next;
  (next == nullptr ? over_ : next->turn).release();
}

void Simulation::switch_away() noexcept {
  Fiber& own = *running_;
  Fiber* const next = choose();
  if (next == &own) return;
  hand_over(next);
  own.turn.acquire();
}

bool Simulation::may_go_on(const Fiber& fiber) const {
  if (processes_[static_cast<std::size_t>(fiber.process)].frozen) return false;
  if (fiber.until && *fiber.until <= now_) return true;
  switch (fiber.state) {
    case State::kReady:
      return true;
    case State::kSleeps:
      return fiber.woken;
    case State::kPolls:
      return std::any_of(fiber.polled.begin(), fiber.polled.end(), [&](const pollfd& entry) {
        return entry.fd >= 0 && wires_.ready(entry.fd, entry.events, now_) != 0;
      });
    case State::kJoins:
      return fiber.joined->state == State::kEnded;
    case State::kEnded:
      return false;
  }
  return false;
}

Simulation::Fiber* Simulation::choose() noexcept {
  std::vector<Fiber*> ready;
  for (;;) {
    for (Process& process : processes_) {
      if (!process.goes_on || *process.goes_on > now_) continue;
      process.frozen = false;
      process.goes_on.reset();
    }
    for (const auto& fiber : fibers_) {
      if (may_go_on(*fiber)) ready.push_back(fiber.get());
    }
    if (!ready.empty()) break;
    if (pass_time()) continue;
    if (release_frozen()) continue;
    const bool all_ended = std::all_of(fibers_.begin(), fibers_.end(), [](const auto& fiber) {
      return fiber->state == State::kEnded;
    });
    if (!all_ended) hangs_ = describe_all();
    return nullptr;
  }
  if (elapsed() > kTooLong || num_steps_ > kTooManySteps) {
    hangs_ = describe_all();
    return nullptr;
  }
  Fiber& next = pick(ready);
  note(next);
  return &next;
}

Simulation::Fiber& Simulation::pick(const std::vector<Fiber*>& ready) {
  Fiber* const any = ready[draw_.below(ready.size())];
  if (style_ == Style::kUniform) return *any;
  if (style_ == Style::kSticky) {
    const bool stays = std::find(ready.begin(), ready.end(), running_) != ready.end();
    return stays && !draw_.once_in(10) ? *running_ : *any;
  }
  if (draw_.once_in(100)) any->priority = draw_.below(1000);
  return **std::max_element(ready.begin(), ready.end(), [](const Fiber* a, const Fiber* b) {
    return a->priority < b->priority;
  });
}

std::optional<Simulation::Time> Simulation::next_event() const {
  std::optional<Time> first;
  const auto consider = [&](const std::optional<Time>& time) {
    if (time && (!first || *time < *first)) first = time;
  };
  for (const Process& process : processes_) consider(process.goes_on);
  for (const auto& fiber : fibers_) {
    if (processes_[static_cast<std::size_t>(fiber->process)].frozen) continue;
    if (fiber->state == State::kSleeps || fiber->state == State::kPolls) consider(fiber->until);
    if (fiber->state != State::kPolls) continue;
    for (const pollfd& entry : fiber->polled) {
      if (entry.fd >= 0) consider(wires_.changes_at(entry.fd, now_));
    }
  }
  return first;
}

bool Simulation::pass_time() {
  const std::optional<Time> next = next_event();
  if (!next || *next > kStart + kTooLong) return false;
  now_ = std::max(now_, *next);
  return true;
}

// All that live have ended. The dead go on, cut off from all others, so that what they hold is
// freed.
bool Simulation::release_frozen() {
  bool any = false;
  for (Process& process : processes_) any = std::exchange(process.frozen, false) || any;
  return any;
}

// ---- steps

void Simulation::freeze_where_planned(Process& process) {
  const int number = running_->process;
  for (const Freeze& freeze : freezes_) {
    if (freeze.process != number || freeze.step != process.steps) continue;
    if (!freeze.lasts) {
      die();
      continue;
    }
    process.frozen = true;
    process.goes_on = now_ + *freeze.lasts;
  }
}

void Simulation::die() noexcept {
  Process& own = at(process());
  own.frozen = own.dead = true;
  wires_.cut(process(), now_);
}

void Simulation::step() noexcept {
  ++num_steps_;
  now_ += microseconds(1);
  Process& own = at(process());
  if (!own.armed) return;
  ++own.steps;
  freeze_where_planned(own);
}

void Simulation::interleave() noexcept {
  step();
  if (at(process()).frozen || draw_.once_in(switches_once_in_)) switch_away();
}

void Simulation::yield() noexcept {
  step();
  now_ += microseconds(20 + draw_.below(60));
  if (style_ == Style::kPriorities) running_->priority = draw_.below(1000);
  switch_away();
}

void Simulation::pause(Duration duration) {
  step();
  running_->state = State::kSleeps;
  running_->place = nullptr;
  running_->woken = false;
  running_->until = now_ + duration;
  switch_away();
  running_->state = State::kReady;
  running_->until.reset();
}

void Simulation::sleep(const void* place, std::unique_lock<std::mutex>& lock, Time until) {
  lock.unlock();
  step();
  Fiber& own = *running_;
  own.state = State::kSleeps;
  own.place = place;
  own.woken = wakes_for_nothing_ && draw_.once_in(50);
  own.until = until;
  switch_away();
  own.state = State::kReady;
  own.until.reset();
  if (!own.woken) ++num_timeouts_;
}

void Simulation::wake_one(const void* place) noexcept {
  std::vector<Fiber*> sleepers;
  for (const auto& fiber : fibers_) {
    if (fiber->state == State::kSleeps && fiber->place == place && !fiber->woken) {
      sleepers.push_back(fiber.get());
    }
  }
  if (!sleepers.empty()) draw_.one_of(sleepers)->woken = true;
  interleave();
}

void Simulation::wake_all(const void* place) noexcept {
  for (const auto& fiber : fibers_) {
    if (fiber->state == State::kSleeps && fiber->place == place) fiber->woken = true;
  }
  interleave();
}

std::uint64_t Simulation::start(std::function<void()> body) {
  const std::uint64_t number = add_fiber(process(), std::move(body)).number;
  interleave();
  return number;
}

void Simulation::join(std::uint64_t thread) {
  step();
  Fiber& own = *running_;
  own.joined = fibers_[thread].get();
  own.state = State::kJoins;
  switch_away();
  own.state = State::kReady;
}

int Simulation::connect(int port) {
  interleave();
  return wires_.connect(process(), port, now_);
}

std::int64_t Simulation::send(int socket, std::string_view bytes) {
  interleave();
  return wires_.send(socket, bytes, now_);
}

std::int64_t Simulation::receive(int socket, std::span<char> into) {
  interleave();
  return wires_.receive(socket, into, now_);
}

void Simulation::set_event(int event) noexcept {
  wires_.set_event(event, true);
  interleave();
}

void Simulation::poll(std::span<pollfd> entries, std::optional<Time> until) {
  step();
  Fiber& own = *running_;
  own.state = State::kPolls;
  own.polled = entries;
  own.until = until;
  switch_away();
  own.state = State::kReady;
  own.until.reset();
  for (pollfd& entry : entries) {
    entry.revents = entry.fd < 0 ? short{0} : wires_.ready(entry.fd, entry.events, now_);
  }
}

// ---- what happened

void Simulation::note(const Fiber& next) {
  for (const std::uint64_t word :
       {next.number, static_cast<std::uint64_t>(now_.time_since_epoch().count())}) {
    hash_ = (hash_ ^ word) * 1099511628211U;
  }
  if (keeps_ == Trace::kHash) return;
  const auto us = std::chrono::duration_cast<microseconds>(elapsed()).count();
  lines_.push_back(std::to_string(us) + " us: thread " + std::to_string(next.number) +
                   " of process " + std::to_string(next.process));
}

std::string Simulation::describe_all() const {
  const auto ms = std::chrono::duration_cast<milliseconds>(elapsed()).count();
  std::string text =
      "hangs after " + std::to_string(ms) + " ms and " + std::to_string(num_steps_) + " steps:";
  constexpr const char* kNames[] = {"could go on", "sleeps", "polls", "joins", "has ended"};
  for (const auto& fiber : fibers_) {
    if (fiber->state == State::kEnded) continue;
    text += " thread " + std::to_string(fiber->number) + " of process " +
            std::to_string(fiber->process) + " " + kNames[static_cast<int>(fiber->state)] + ";";
  }
  return text;
}

}  // namespace tessera::seeded
