// tests/simulation/simulation.h: processes whose threads go on one at a time, in an order, on a
// clock and over wires that a seed decides. A process is a rank's thread and all that it starts; it
// can be stopped, go on later, or die.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/environment.h"
#include "tests/simulation/draw.h"
#include "tests/simulation/wires.h"

namespace tessera::seeded {

class Mail;

/// What happens to a process at one of its steps, counted from Simulation::arm().
struct Freeze {
  int process = 0;
  std::uint64_t step = 0;
  /// Until it goes on; nullopt: it is dead, and its sockets end.
  std::optional<Duration> lasts = std::nullopt;
};

/// Threads of a simulation call its functions; all others only before and after run(). The real
/// threads of one that hangs are left behind, and it with them: hold it by keep().
class Simulation final : public Environment, public std::enable_shared_from_this<Simulation> {
 public:
  /// `trace`: keep every switch as a line of text.
  enum class Trace : std::uint8_t { kHash, kText };
  static std::shared_ptr<Simulation> make(std::uint64_t seed, Trace trace = Trace::kHash);
  ~Simulation() override;

  /// Its number, from 0 up. `body` runs in the process's first thread.
  int add_process(std::function<void()> body);
  void plan(const Freeze& freeze) { freezes_.push_back(freeze); }
  /// Until all threads have ended. "", or what hangs.
  std::string run();

  /// Differs where anything went otherwise.
  std::uint64_t trace_hash() const noexcept { return hash_; }
  const std::vector<std::string>& trace() const noexcept { return lines_; }
  std::uint64_t num_steps() const noexcept { return num_steps_; }
  Duration elapsed() const noexcept { return now_ - kStart; }
  /// Sleeps that nobody ended.
  int num_timeouts() const noexcept { return num_timeouts_; }
  int num_open_sockets() const { return wires_.num_open(); }

  // For what runs in it.
  static Simulation& current() { return static_cast<Simulation&>(*environment()); }
  int process() const noexcept { return running_->process; }
  int num_processes() const noexcept { return static_cast<int>(processes_.size()); }
  /// Steps of the calling process count towards its freezes from now on.
  void arm() { at(process()).armed = true; }
  void pause(Duration duration);
  /// The calling process is dead from its next step on.
  void die() noexcept;
  bool is_dead(int process) const noexcept {
    return processes_[static_cast<std::size_t>(process)].dead;
  }
  Draw& draw() noexcept { return draw_; }
  const Delays& delays() const noexcept { return delays_; }
  Mail& mail() noexcept { return *mail_; }

  Time now() noexcept override { return now_; }
  void interleave() noexcept override;
  void yield() noexcept override;
  void sleep(const void* place, std::unique_lock<std::mutex>& lock, Time until) override;
  void wake_one(const void* place) noexcept override;
  void wake_all(const void* place) noexcept override;
  std::uint64_t start(std::function<void()> body) override;
  void join(std::uint64_t thread) override;
  int listen() override { return wires_.listen(process()); }
  int port_of(int listener) override { return wires_.port_of(listener); }
  int accept(int listener) override { return wires_.accept(listener, now_); }
  int connect(int port) override;
  int outcome_of_connecting(int socket) override { return wires_.outcome_of_connecting(socket); }
  std::int64_t send(int socket, std::string_view bytes) override;
  std::int64_t receive(int socket, std::span<char> into) override;
  void end_sending(int socket) noexcept override { wires_.end_sending(socket, now_); }
  int make_event() override { return wires_.make_event(process()); }
  void set_event(int event) noexcept override;
  void clear_event(int event) noexcept override { wires_.set_event(event, false); }
  void close(int number) noexcept override { wires_.close(number, now_); }
  void poll(std::span<pollfd> entries, std::optional<Time> until) override;

 private:
  static constexpr Time kStart = Time(std::chrono::hours(1));
  enum class State : std::uint8_t { kReady, kSleeps, kPolls, kJoins, kEnded };
  /// Given by one thread and taken by another, which sleeps until then. A semaphore of the library
  /// yields first, and on a busy core each of its yields lasts another program's time slice.
  class Turn {
   public:
    void release() {
      {
        const std::lock_guard lock(mutex_);
        given_ = true;
      }
      came_.notify_one();
    }
    void acquire() {
      std::unique_lock lock(mutex_);
      came_.wait(lock, [this] { return given_; });
      given_ = false;
    }

   private:
    std::mutex mutex_;
    std::condition_variable came_;
    bool given_ = false;
  };
  struct Fiber {
    std::uint64_t number = 0;
    int process = 0;
    std::function<void()> body;
    std::thread thread = {};
    Turn turn = {};
    State state = State::kReady;
    const void* place = nullptr;  ///< kSleeps
    bool woken = false;
    std::optional<Time> until = std::nullopt;  ///< kSleeps, kPolls
    std::span<pollfd> polled = {};             ///< kPolls
    const Fiber* joined = nullptr;             ///< kJoins
    std::uint64_t priority = 0;
  };
  struct Process {
    bool armed = false;
    std::uint64_t steps = 0;
    bool frozen = false;
    bool dead = false;
    std::optional<Time> goes_on = std::nullopt;
  };
  /// How the next thread is chosen.
  enum class Style : std::uint8_t { kUniform, kSticky, kPriorities };

  Simulation(std::uint64_t seed, Trace trace);
  Process& at(int process) { return processes_[static_cast<std::size_t>(process)]; }
  Fiber& add_fiber(int process, std::function<void()> body);
  void live(Fiber& fiber);
  void step() noexcept;
  void freeze_where_planned(Process& process);
  /// The calling thread waits for its turn.
  void switch_away() noexcept;
  void hand_over(Fiber* next) noexcept;
  /// Null where all have ended, or none ever will.
  Fiber* choose() noexcept;
  bool may_go_on(const Fiber& fiber) const;
  Fiber& pick(const std::vector<Fiber*>& ready);
  /// The next time at which something happens by itself.
  std::optional<Time> next_event() const;
  bool pass_time();
  bool release_frozen();
  void note(const Fiber& next);
  std::string describe_all() const;

  Draw draw_;
  Trace keeps_;
  Delays delays_;
  Style style_ = Style::kUniform;
  std::uint64_t switches_once_in_ = 1;
  bool wakes_for_nothing_ = false;
  Time now_ = kStart;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Process> processes_;
  std::vector<Freeze> freezes_;
  int core_;  ///< where all threads run
  Wires wires_;
  std::unique_ptr<Mail> mail_;
  Fiber* running_ = nullptr;
  Turn over_;
  std::string hangs_;
  std::uint64_t hash_ = 1469598103934665603U;
  std::uint64_t num_steps_ = 0;
  int num_timeouts_ = 0;
  std::vector<std::string> lines_;
};

}  // namespace tessera::seeded
