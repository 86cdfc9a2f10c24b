// How a fiber is switched: registers that a call must keep go to the stack that is left, and come
// from the one that is entered; both sanitizers are told of it. Not instrumented for the thread
// sanitizer (cmake/emulation.cmake): a function that is entered on one stack and left on another
// would confuse it.
#include "emulation/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "emulation/sanitizer.h"

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#ifdef TSR_UNDER_THREAD_SANITIZER
extern "C" {
void* __tsan_get_current_fiber(void);
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
}
#endif
#ifdef TSR_ADDRESS_SANITIZER
extern "C" {
void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, std::size_t bytes);
void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom, std::size_t* bytes);
void __asan_unpoison_memory_region(const volatile void* at, std::size_t bytes);
}
#endif

#if defined(__x86_64__)
extern "C" void tessera_switch_stack(void** from, void* to);
extern "C" void tessera_enter_stack();
asm(R"(
.text
.p2align 4
.type tessera_switch_stack, @function
tessera_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size tessera_switch_stack, . - tessera_switch_stack
.p2align 4
.type tessera_enter_stack, @function
tessera_enter_stack:
  movq %r12, %rdi
  call *%r13
  ud2
.size tessera_enter_stack, . - tessera_enter_stack
)");
#endif

namespace tessera::emulation {

#if defined(__x86_64__) && !defined(TSR_UNDER_THREAD_SANITIZER) && !defined(TSR_ADDRESS_SANITIZER)
const bool Fiber::kPasses = true;
#else
const bool Fiber::kPasses = false;
#endif

namespace {

constexpr std::size_t kStackBytes = std::size_t{64} << 10;

std::size_t guard_bytes() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

#if defined(__x86_64__)

struct Fiber::Context {
  void* inside =
      nullptr;  // the stack pointers of the fiber and of its owner, where they do not run
  void* outside = nullptr;

  void prepare(std::byte* stack, void (*enter)(void*), void* self) {
    // As tessera_switch_stack finds it: r15, r14, r13, r12, rbx, rbp, and where to go.
    auto* words = reinterpret_cast<void**>(stack + kStackBytes) - 9;
    for (int i = 0; i < 9; ++i) words[i] = nullptr;
    words[2] = reinterpret_cast<void*>(enter);
    words[3] = self;
    words[6] = reinterpret_cast<void*>(&tessera_enter_stack);
    inside = words;
  }
  void switch_in() { tessera_switch_stack(&outside, inside); }
  void switch_out() { tessera_switch_stack(&inside, outside); }
  void switch_to(Context& next) {
    next.outside = outside;
    tessera_switch_stack(&inside, next.inside);
  }
#else

struct Fiber::Context {
  ::ucontext_t inside, outside;

  // makecontext passes ints.
  static void enter_by_halves(unsigned enter_high, unsigned enter_low, unsigned self_high,
                              unsigned self_low) {
    const auto joined = [](unsigned high, unsigned low) {
      return static_cast<std::uintptr_t>((std::uint64_t{high} << 32) | low);
    };
    reinterpret_cast<void (*)(void*)>(joined(enter_high, enter_low))(
        reinterpret_cast<void*>(joined(self_high, self_low)));
  }
  void prepare(std::byte* stack, void (*enter)(void*), void* self) {
    ::getcontext(&inside);
    inside.uc_stack = {.ss_sp = stack, .ss_flags = 0, .ss_size = kStackBytes};
    inside.uc_link = nullptr;
    const auto code = std::uint64_t{reinterpret_cast<std::uintptr_t>(enter)};
    const auto data = std::uint64_t{reinterpret_cast<std::uintptr_t>(self)};
    ::makecontext(&inside, reinterpret_cast<void (*)()>(&enter_by_halves), 4,
                  static_cast<unsigned>(code >> 32), static_cast<unsigned>(code),
                  static_cast<unsigned>(data >> 32), static_cast<unsigned>(data));
  }
  void switch_in() { ::swapcontext(&outside, &inside); }
  void switch_out() { ::swapcontext(&inside, &outside); }
  void switch_to(Context&) { std::abort(); }
#endif

#ifdef TSR_UNDER_THREAD_SANITIZER
  static constexpr unsigned kWithoutOrder = 1;  // a switch orders nothing
  void* fiber = ::__tsan_create_fiber(0);
  void* owner = nullptr;
  ~Context() { ::__tsan_destroy_fiber(fiber); }
  void before_switch_in(const void*) {
    owner = ::__tsan_get_current_fiber();
    ::__tsan_switch_to_fiber(fiber, kWithoutOrder);
  }
  void after_switch_in() {}
  void before_switch_out() { ::__tsan_switch_to_fiber(owner, kWithoutOrder); }
  void after_switch_out() {}
  void on_entry() {}
#elif defined(TSR_ADDRESS_SANITIZER)
  void* fake_stack_inside = nullptr;
  void* fake_stack_outside = nullptr;
  const void* owner_stack = nullptr;
  std::size_t owner_stack_bytes = 0;
  void before_switch_in(const void* stack) {
    ::__sanitizer_start_switch_fiber(&fake_stack_outside, stack, kStackBytes);
  }
  void after_switch_in() {
    ::__sanitizer_finish_switch_fiber(fake_stack_outside, nullptr, nullptr);
  }
  void before_switch_out() {
    ::__sanitizer_start_switch_fiber(&fake_stack_inside, owner_stack, owner_stack_bytes);
  }
  void after_switch_out() {
    ::__sanitizer_finish_switch_fiber(fake_stack_inside, &owner_stack, &owner_stack_bytes);
  }
  void on_entry() { ::__sanitizer_finish_switch_fiber(nullptr, &owner_stack, &owner_stack_bytes); }
#else
void before_switch_in(const void*) {}
void after_switch_in() {}
void before_switch_out() {}
void after_switch_out() {}
void on_entry() {}
#endif
};

Fiber::Fiber() : context_(std::make_unique<Context>()) {
  void* memory = ::mmap(nullptr, guard_bytes() + kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || ::mprotect(memory, guard_bytes(), PROT_NONE) != 0) {
    std::fprintf(stderr, "emulated device: no memory for the stack of a device thread\n");
    std::abort();
  }
  stack_ = static_cast<std::byte*>(memory) + guard_bytes();
}

Fiber::~Fiber() {
  forget_calls();
  ::munmap(stack_ - guard_bytes(), guard_bytes() + kStackBytes);
}

void Fiber::forget_calls() {
#ifdef TSR_ADDRESS_SANITIZER
  ::__asan_unpoison_memory_region(stack_, kStackBytes);
#endif
}

void Fiber::start(Body body, void* argument) {
  body_ = body;
  argument_ = argument;
  forget_calls();
  context_->prepare(stack_, &enter, this);
}

void Fiber::enter(void* self) {
  auto* fiber = static_cast<Fiber*>(self);
  fiber->context_->on_entry();
  fiber->body_(fiber->argument_);
  std::fprintf(stderr, "emulated device: a device thread returned instead of leaving\n");
  std::abort();
}

void Fiber::resume() {
  context_->before_switch_in(stack_);
  context_->switch_in();
  context_->after_switch_in();
}

void Fiber::pass_to(Fiber& next) { context_->switch_to(*next.context_); }

void Fiber::leave() {
  context_->before_switch_out();
  context_->switch_out();
  context_->after_switch_out();
}

}  // namespace tessera::emulation
