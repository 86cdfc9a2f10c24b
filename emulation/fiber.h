// emulation/fiber.h: a piece of code with a stack of its own, entered and left by switching.
// A fiber stays on the thread that made it.
#pragma once

#include <cstddef>
#include <memory>

namespace tessera::emulation {

class Fiber {
 public:
  using Body = void (*)(void* argument);
  /// A stack of 64 KiB with a page below it that no access survives.
  /// Errors: ends the process where the system has no memory for it.
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// The next resume() enters body(argument). What this fiber did before is given up where it
  /// stands: no destructor of it runs.
  void start(Body body, void* argument);
  /// Runs the fiber until it leaves. Called by the owning thread, outside of this fiber.
  void resume();
  /// Back to where resume() was called. Called inside the fiber; a body leaves, it never returns.
  void leave();
  /// Whether pass_to() works here: sanitizers are told of ways in and out alone.
  static const bool kPasses;
  /// As leave() and next.resume(), in one switch: where resume() was called is where `next` leaves
  /// to. Called inside the fiber; returns when somebody resumes it, or passes to it.
  void pass_to(Fiber& next);

 private:
  struct Context;
  static void enter(void* self);
  /// The address sanitizer's marks of calls that were given up: the system hands out the stack's
  /// addresses again with them.
  void forget_calls();

  std::byte* stack_ = nullptr;
  std::unique_ptr<Context> context_;
  Body body_ = nullptr;
  void* argument_ = nullptr;
};

}  // namespace tessera::emulation
