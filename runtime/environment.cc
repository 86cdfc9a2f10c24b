#include "runtime/environment.h"

namespace tessera {

constinit thread_local Environment* this_environment = nullptr;

void Condition::wait(std::unique_lock<Mutex>& lock, RankClock::time_point until) {
  std::unique_lock<std::mutex> held(lock.mutex()->mutex_, std::adopt_lock);
  if (Environment* const stand_in = environment()) {
    stand_in->sleep(this, held, until);
    while (!held.try_lock()) yield_core();
  } else {
    condition_.wait_until(held, until);
  }
  held.release();  // `lock` holds it on
}

Thread::Thread(std::function<void()> body) {
  if (Environment* const stand_in = environment()) {
    number_ = stand_in->start(std::move(body));
  } else {
    thread_ = std::thread(std::move(body));
  }
}

void Thread::join() {
  if (number_) {
    environment()->join(*std::exchange(number_, std::nullopt));
  } else {
    thread_.join();
  }
}

}  // namespace tessera
