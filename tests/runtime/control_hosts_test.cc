#include <sched.h>

#include <functional>
#include <set>
#include <thread>

#include "runtime/control/host_identity.h"
#include "testing/program.h"

namespace tessera {
namespace {

struct Identity {
  bool is_asked = false;  ///< the system allowed what was to differ
  std::string boot, network, processors;
};

/// What a thread is told that has changed its own surroundings.
Identity identity_after(const std::function<bool()>& change) {
  Identity seen;
  std::thread thread([&] {
    seen.is_asked = change();
    seen.boot = boot_id();
    seen.network = network_id();
    seen.processors = processors_id();
  });
  thread.join();
  return seen;
}

}  // namespace

TEST_CASE("a network namespace is a host of its own to sockets, not to memory or processors",
          "[runtime][control]") {
  const Identity here = identity_after([] { return true; });
  CHECK(here.boot.size() == 36);
  CHECK(here.network == network_id());
  CHECK(here.network.find(host_name()) == std::string::npos);
  const Identity apart = identity_after([] { return ::unshare(CLONE_NEWNET) == 0; });
  if (!apart.is_asked) return testing::skip("no network namespace may be made");
  CHECK(apart.network != here.network);
  CHECK(apart.boot == here.boot);
  CHECK(apart.processors == here.processors);
}

TEST_CASE("a rank bound to one processor shares it with those bound to the same",
          "[runtime][control]") {
  cpu_set_t allowed;
  REQUIRE(::sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  std::set<std::string> seen;
  int num_processors = 0;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &allowed)) continue;
    ++num_processors;
    const auto bind = [&] {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(processor, &one);
      return ::sched_setaffinity(0, sizeof one, &one) == 0;
    };
    const Identity first = identity_after(bind), second = identity_after(bind);
    REQUIRE(first.is_asked);
    CHECK(first.processors == second.processors);
    CHECK(first.network == network_id());
    seen.insert(first.processors);
  }
  CHECK(static_cast<int>(seen.size()) == num_processors);
}

}  // namespace tessera
