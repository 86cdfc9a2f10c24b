#include "tests/mpi/two_hosts.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "runtime/control/frame.h"
#include "runtime/control/socket.h"
#include "tests/support/paths.h"
#include "tests/support/patience.h"

namespace tessera::testing {
namespace {

Ran shell(const std::string& commands) { return run_program("/bin/sh", {"-ec", commands}); }

}  // namespace

// ---- TwoHosts

TwoHosts::TwoHosts() : name_("tessera_" + std::to_string(::getpid())) {
  const std::string a = name_of(0), b = name_of(1);
  const Ran made = shell(
      "ip netns add " + a + "\nip netns add " + b + "\nip link add wire netns " + a +
      " type veth peer name wire netns " + b + "\nfor host in " + a + " " + b +
      "\ndo ip -n $host link set lo up; ip -n $host link set wire up; done\nip -n " + a +
      " addr add " + address_of(0) + "/24 dev wire\nip -n " + b + " addr add " + address_of(1) +
      "/24 dev wire\nip netns exec " + b + " unshare --pid --fork --mount-proc --kill-child true");
  if (made.exit_code != 0) refused_ = "no network namespaces may be made: " + made.err;
  while (!refused_.empty() && refused_.back() == '\n') refused_.pop_back();
  std::replace(refused_.begin(), refused_.end(), '\n', ' ');
}

TwoHosts::~TwoHosts() {
  shell("ip netns del " + name_of(0) + " || :\nip netns del " + name_of(1) + " || :");
}

bool TwoHosts::enter(int host) const {
  const int space = ::open(("/run/netns/" + name_of(host)).c_str(), O_RDONLY | O_CLOEXEC);
  const bool entered = space >= 0 && ::setns(space, CLONE_NEWNET) == 0;
  if (space >= 0) ::close(space);
  return entered;
}

std::string TwoHosts::prefix_of(int host, ProcessTables tables) const {
  const std::string own = " unshare --pid --fork --mount-proc --kill-child";
  return "ip netns exec " + name_of(host) + (tables == ProcessTables::kOwn ? own : "");
}

Ran TwoHosts::train(ProcessTables tables, const std::vector<std::string>& arguments,
                    const std::vector<std::string>& launcher_options) const {
  const ScratchFolder scratch;
  // In place of ssh: its first argument is the host, the others are the command.
  const std::string agent =
      scratch.file("agent", "#!/bin/sh\nshift\nexec " + prefix_of(1, tables) + " sh -c \"$*\"\n");
  std::filesystem::permissions(agent, std::filesystem::perms::owner_all);
  const std::string net = "10.99.0.0/24";
  std::vector<std::string> all = {"-c",
                                  "exec " + prefix_of(0, tables) + " \"$0\" \"$@\"",
                                  TSR_MPIEXEC,
                                  "--host",
                                  address_of(0) + ":2," + address_of(1) + ":2",
                                  "--bind-to",
                                  "none",
                                  "--mca",
                                  "plm_rsh_agent",
                                  agent,
                                  "--mca",
                                  "oob_tcp_if_include",
                                  net,
                                  "--mca",
                                  "btl",
                                  "tcp,self",
                                  "--mca",
                                  "btl_tcp_if_include",
                                  net,
                                  "--mca",
                                  "mpi_yield_when_idle",
                                  "1"};
  all.insert(all.end(), launcher_options.begin(), launcher_options.end());
  all.insert(all.end(), {"-n", "4", built("/tessera-train")});
  all.insert(all.end(), arguments.begin(), arguments.end());
  return run_program("/bin/sh", all, "",
                     {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}});
}

StartedProgram TwoHosts::start_rank(int host, const std::vector<std::string>& arguments,
                                    const std::map<std::string, std::string>& environment) const {
  std::vector<std::string> all = {
      "-c", "exec " + prefix_of(host, ProcessTables::kShared) + " \"$0\" \"$@\"",
      built("/tessera-train")};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return StartedProgram("/bin/sh", all, "", environment);
}

// ---- Wiretap

bool is_turned_away(const HeardSession& session, const std::string& bytes) {
  const StatusOr<Descriptor> socket = begin_connecting({session.address, session.port});
  if (!socket.ok()) return false;
  std::vector<pollfd> entries{{socket->number(), POLLOUT, 0}};
  poll_until(entries, std::chrono::steady_clock::now() + kSoon);
  std::string unsent = bytes, answer;
  const auto is_ended = [&] {
    send_some(*socket, unsent);
    return receive_some(*socket, answer) == SocketState::kClosed;
  };
  return becomes_true(is_ended, kSoon);
}

Wiretap::Wiretap(const TwoHosts& hosts) : hosts_(hosts), thread_([this] { run(); }) {}

Wiretap::~Wiretap() {
  closing_ = true;
  thread_.join();
}

void Wiretap::run() {
  if (!hosts_.enter(0)) return;
  const int wire = ::socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, htons(ETH_P_IP));
  std::string packet(std::size_t{1} << 17, '\0');
  while (wire >= 0 && !closing_) {
    pollfd entry{wire, POLLIN, 0};
    if (::poll(&entry, 1, 20) <= 0) continue;
    const ssize_t size = ::recv(wire, packet.data(), packet.size(), 0);
    if (size > 0) hear(std::string_view(packet).substr(0, static_cast<std::size_t>(size)));
  }
  if (wire >= 0) ::close(wire);
}

void Wiretap::hear(std::string_view packet) {
  iphdr ip;
  tcphdr tcp;
  if (packet.size() < sizeof ip) return;
  std::memcpy(&ip, packet.data(), sizeof ip);
  const std::size_t at = std::size_t{4} * ip.ihl;
  if (ip.protocol != IPPROTO_TCP || packet.size() < at + sizeof tcp) return;
  std::memcpy(&tcp, packet.data() + at, sizeof tcp);
  const std::size_t begin = at + std::size_t{4} * tcp.doff, end = ntohs(ip.tot_len);
  if (begin >= end || end > packet.size()) return;
  const std::string_view said = packet.substr(begin, end - begin);
  const auto name = [](std::uint32_t address, std::uint16_t port) {
    return std::to_string(address) + ":" + std::to_string(port);
  };
  const std::string connection = name(ip.saddr, tcp.source) + ">" + name(ip.daddr, tcp.dest);

  static const std::string kGreeting = control::encode(control::Hello{}).value().substr(0, 5);
  const std::lock_guard lock(mutex_);
  const auto known = by_connection_.find(connection);
  if (known != by_connection_.end()) {
    known->second.bytes += said;
  } else if (said.starts_with(kGreeting)) {
    char address[INET_ADDRSTRLEN] = "";
    ::inet_ntop(AF_INET, &ip.daddr, address, sizeof address);
    by_connection_[connection] = {address, ntohs(tcp.dest), std::string(said)};
  }
}

std::vector<HeardSession> Wiretap::sessions() const {
  const std::lock_guard lock(mutex_);
  std::vector<HeardSession> all;
  for (const auto& [connection, session] : by_connection_) all.push_back(session);
  return all;
}

}  // namespace tessera::testing
