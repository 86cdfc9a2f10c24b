#include "runtime/control/host_identity.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>

namespace tessera {
namespace {

/// Where the kernel does not say which it is, the name must do.
std::string kernel_or_name() {
  const std::string boot = boot_id();
  return boot.empty() ? "name " + host_name() : boot;
}

}  // namespace

std::string boot_id() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id;
}

std::string network_id() {
  char link[64] = "";  // "net:[4026531840]"
  const bool is_known = ::readlink("/proc/thread-self/ns/net", link, sizeof link - 1) > 0;
  return kernel_or_name() + " " + (is_known ? link : "net");
}

std::string processors_id() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::string id = kernel_or_name() + " ";
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return id + "all";
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (CPU_ISSET(processor, &allowed)) id += std::to_string(processor) + ",";
  }
  return id;
}

// The standard library counts the machine's, also where a launcher has bound this process to one.
int num_processors() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const bool known = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0;
  const int count =
      known ? CPU_COUNT(&allowed) : static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, count);
}

std::string host_name() {
  char name[256] = "";
  if (::gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "localhost";
  return name;
}

}  // namespace tessera
