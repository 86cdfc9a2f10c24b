// emulation/sanitizer.h: what the sanitizers are told, so that they judge emulated device code by
// the device's rules: an order exists where a stream, an event or a barrier makes one, and nowhere
// else. TSR_UNDER_THREAD_SANITIZER is defined for the sources here that are not instrumented
// themselves.
#pragma once

#if defined(__SANITIZE_THREAD__) || defined(TSR_UNDER_THREAD_SANITIZER)
#define TSR_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TSR_THREAD_SANITIZER 1
#endif
#endif

#if defined(__SANITIZE_ADDRESS__)
#define TSR_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TSR_ADDRESS_SANITIZER 1
#endif
#endif

#ifdef TSR_THREAD_SANITIZER
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
void __tsan_acquire(void* object);
void __tsan_release(void* object);
}
#endif

namespace tessera::emulation {

/// While one lives, the thread sanitizer sees neither what this thread reads and writes nor how it
/// synchronises: the emulation's own order must not stand for an order that the device lacks.
class Hidden {
 public:
#ifdef TSR_THREAD_SANITIZER
  Hidden() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
  }
  ~Hidden() {
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
#else
  Hidden() noexcept {}
  ~Hidden() {}
#endif
  Hidden(const Hidden&) = delete;
  Hidden& operator=(const Hidden&) = delete;
};

/// What was done before order_before(object) is seen by whoever calls order_after(object) later.
inline void order_before([[maybe_unused]] const void* object) noexcept {
#ifdef TSR_THREAD_SANITIZER
  __tsan_release(const_cast<void*>(object));
#endif
}
inline void order_after([[maybe_unused]] const void* object) noexcept {
#ifdef TSR_THREAD_SANITIZER
  __tsan_acquire(const_cast<void*>(object));
#endif
}

}  // namespace tessera::emulation
