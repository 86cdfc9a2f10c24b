// The maker of an id gives the ranks their seats, its own and those that other processes send word
// of, and tells everyone once the last has come.
#include "emulation/nccl_cliques.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <sstream>

#include "emulation/nccl_windows.h"

namespace tessera::emulation {
namespace {

/// Never destroyed: the office's thread uses it to the last.
struct Registry {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<NcclClique>> cliques;          ///< by unique id
  std::map<std::string, std::shared_ptr<NcclClique>> awaiting_ours;  ///< others have come already
};
Registry& registry() {
  static Registry& known = *new Registry();
  return known;
}

std::string maker_of(const std::string& id) { return id.substr(0, id.find(' ')); }

void take(const std::string& process, const NcclSlip& slip, std::vector<char> bytes);
void lose(const std::string& process);

NcclOffice& open_office() {
  static NcclOffice& office = [&]() -> NcclOffice& {
    NcclOffice::here().open({.take = take, .lose = lose});
    return NcclOffice::here();
  }();
  return office;
}

std::shared_ptr<NcclClique> find_clique(const std::string& id) {
  const std::lock_guard lock(registry().mutex);
  const auto at = registry().cliques.find(id);
  return at == registry().cliques.end() ? nullptr : at->second.lock();
}

NcclSlip slip_about(const std::string& id, NcclSlip::Kind kind) {
  NcclSlip slip{.kind = kind};
  id.copy(slip.id, sizeof slip.id - 1);
  return slip;
}

// Where each rank is, a line of "DEVICE PROCESS" each.
std::string seats_text(const std::map<int, NcclSeat>& seats) {
  std::string text;
  for (const auto& [rank, seat] : seats) {
    const std::string& process = seat.process.empty() ? open_office().address() : seat.process;
    text += std::to_string(seat.device) + " " + process + "\n";
  }
  return text;
}
std::map<int, NcclSeat> read_seats(const std::vector<char>& bytes) {
  std::map<int, NcclSeat> seats;
  std::istringstream lines(std::string(bytes.begin(), bytes.end()));
  NcclSeat seat;
  while (lines >> seat.device >> seat.process) {
    if (seat.process == open_office().address()) seat.process.clear();
    seats.emplace(static_cast<int>(seats.size()), seat);
  }
  return seats;
}

/// Under the clique's mutex, at its maker.
void tell_others_if_whole(NcclClique& clique) {
  if (!clique.is_whole()) return;
  const std::string text = seats_text(clique.seats);
  for (const std::string& process : clique.others()) {
    open_office().post(process, slip_about(clique.id, NcclSlip::Kind::kWhole), text);
  }
  const std::lock_guard lock(registry().mutex);
  registry().awaiting_ours.erase(clique.id);
}

void refuse_there(const std::string& process, const NcclSlip& join, const NcclRefusal& why) {
  NcclSlip slip = slip_about(join.id, NcclSlip::Kind::kRefused);
  slip.to = join.from;
  slip.number = static_cast<std::uint64_t>(why.result);
  open_office().post(process, slip, why.text);
}

std::string size_refusal(int num_ranks, int others) {
  return std::to_string(num_ranks) + " ranks where others say " + std::to_string(others);
}

// ---- what comes from other processes

void take_join(const std::string& process, const NcclSlip& slip) {
  const std::shared_ptr<NcclClique> clique = clique_of(slip.id, static_cast<int>(slip.count));
  if (clique->size != static_cast<int>(slip.count)) {
    const std::string text = size_refusal(static_cast<int>(slip.count), clique->size);
    return refuse_there(process, slip, {ncclInvalidArgument, text});
  }
  {
    const std::lock_guard lock(registry().mutex);
    registry().awaiting_ours[slip.id] = clique;
  }
  const std::lock_guard lock(clique->mutex);
  const NcclRefusal refusal = clique->seat(slip.from, {process, slip.peer});
  if (refusal.result != ncclSuccess) return refuse_there(process, slip, refusal);
  tell_others_if_whole(*clique);
  clique->changed.notify_all();
}

NcclCall call_of(const NcclSlip& slip, const std::vector<char>& bytes) {
  return {.kind = static_cast<NcclKind>(slip.call_kind),
          .send = bytes.data(),
          .count = slip.count,
          .type = static_cast<ncclDataType_t>(slip.type),
          .op = static_cast<ncclRedOp_t>(slip.op),
          .peer = slip.peer};
}

/// Under the clique's mutex.
void take_in(NcclClique& clique, const NcclSlip& slip, std::vector<char> bytes) {
  switch (slip.kind) {
    case NcclSlip::Kind::kRefused:
      clique.refusals[slip.to] = {static_cast<ncclResult_t>(slip.number),
                                  std::string(bytes.begin(), bytes.end())};
      break;
    case NcclSlip::Kind::kWhole:
      clique.seats = read_seats(bytes);
      // From now on each hears of the others' end.
      for (const std::string& process : clique.others()) open_office().reach(process);
      break;
    case NcclSlip::Kind::kPost: {
      NcclMeeting& meeting = clique.meetings[slip.number];
      std::vector<char>& copy = meeting.copies[slip.from] = std::move(bytes);
      meeting.post(slip.from, clique.size, call_of(slip, copy));
      break;
    }
    case NcclSlip::Kind::kLetter: {
      auto letter = std::make_shared<NcclLetter>();
      letter->copy = std::move(bytes);
      letter->call = call_of(slip, letter->copy);
      letter->number = slip.number;
      clique.letters[{slip.from, slip.to}].push_back(std::move(letter));
      break;
    }
    case NcclSlip::Kind::kTaken: {
      const auto at = clique.sent_far.find(slip.number);
      if (at == clique.sent_far.end()) break;
      at->second->taken = true;
      clique.sent_far.erase(at);
      break;
    }
    case NcclSlip::Kind::kWindow: {
      const std::string where(bytes.begin(), bytes.end());
      clique.bring(slip.number, slip.from, read_part(where, slip.count, slip.peer));
      break;
    }
    default:
      break;
  }
}

void take(const std::string& process, const NcclSlip& slip, std::vector<char> bytes) {
  if (slip.kind == NcclSlip::Kind::kJoin) return take_join(process, slip);
  const std::shared_ptr<NcclClique> clique = find_clique(slip.id);
  if (clique == nullptr) return;  // this process has left it
  const std::lock_guard lock(clique->mutex);
  take_in(*clique, slip, std::move(bytes));
  clique->changed.notify_all();
}

// Ranks that wait for others of a clique which can no longer become whole are told.
void lose(const std::string& process) {
  std::vector<std::shared_ptr<NcclClique>> cliques;
  {
    const std::lock_guard lock(registry().mutex);
    for (const auto& [id, known] : registry().cliques) {
      if (auto clique = known.lock()) cliques.push_back(std::move(clique));
    }
  }
  for (const std::shared_ptr<NcclClique>& clique : cliques) {
    const std::lock_guard lock(clique->mutex);
    clique->lost.insert(process);
    const bool had_come = clique->others().contains(process);
    if (clique->maker.empty() && !clique->is_whole() && had_come) {
      const NcclRefusal why{ncclRemoteError, "the process of another rank has ended"};
      for (int rank = 0; rank < clique->size; ++rank) clique->refusals[rank] = why;
      for (const auto& [rank, seat] : clique->seats) {
        if (seat.process.empty()) continue;
        NcclSlip join = slip_about(clique->id, NcclSlip::Kind::kJoin);
        join.from = rank;
        refuse_there(seat.process, join, why);
      }
      const std::lock_guard registry_lock(registry().mutex);
      registry().awaiting_ours.erase(clique->id);
    }
    clique->changed.notify_all();
  }
}

}  // namespace

// ---- NcclClique

void NcclMeeting::post(int rank, int size, const NcclCall& call) {
  calls.resize(static_cast<std::size_t>(size));
  calls[static_cast<std::size_t>(rank)] = call;
  posted.insert(rank);
}

int NcclClique::num_here() const {
  return static_cast<int>(std::count_if(
      seats.begin(), seats.end(), [](const auto& each) { return each.second.process.empty(); }));
}

std::set<std::string> NcclClique::others() const {
  std::set<std::string> processes;
  for (const auto& [rank, seat] : seats) {
    if (!seat.process.empty()) processes.insert(seat.process);
  }
  return processes;
}

bool NcclClique::is_lost(int rank) const {
  const auto at = seats.find(rank);
  return at != seats.end() && lost.contains(at->second.process);
}

namespace {

bool on_one_host(const NcclSeat& a, const NcclSeat& b) {
  if (a.process == b.process) return true;
  const auto host = [](const NcclSeat& seat) {
    return host_of(seat.process.empty() ? open_office().address() : seat.process);
  };
  return host(a) == host(b);
}

}  // namespace

int NcclClique::ranks_a_host() {
  const std::lock_guard lock(mutex);
  int first = 1;
  while (first < size && on_one_host(seats.at(0), seats.at(first))) ++first;
  for (int rank = 0; rank < size; ++rank) {
    if (!on_one_host(seats.at(rank), seats.at(rank / first * first))) return 1;
  }
  return first;
}

NcclRefusal NcclClique::seat(int rank, const NcclSeat& seat) {
  for (const auto& [other, taken] : seats) {
    if (other == rank) {
      return {ncclInvalidUsage, "rank " + std::to_string(rank) + " has joined before"};
    }
    if (taken.device == seat.device && on_one_host(taken, seat)) {
      return {ncclInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(rank) +
                                    " and rank " + std::to_string(other) + " both on device " +
                                    std::to_string(seat.device)};
    }
  }
  seats[rank] = seat;
  return {};
}

std::string new_clique_id() {
  static std::atomic<int> next{1};
  return open_office().address() + " " + std::to_string(next++);
}

std::shared_ptr<NcclClique> clique_of(const std::string& id, int num_ranks) {
  const std::string maker = maker_of(id);
  const std::lock_guard lock(registry().mutex);
  std::erase_if(registry().cliques, [](const auto& known) { return known.second.expired(); });
  std::weak_ptr<NcclClique>& known = registry().cliques[id];
  std::shared_ptr<NcclClique> clique = known.lock();
  if (clique == nullptr) {
    const bool is_made_here = maker == open_office().address();
    known = clique = std::make_shared<NcclClique>(id, is_made_here ? "" : maker, num_ranks);
  }
  return clique;
}

NcclRefusal take_seat(NcclClique& clique, int rank, int device) {
  if (clique.maker.empty()) {
    const std::lock_guard lock(clique.mutex);
    const NcclRefusal refusal = clique.seat(rank, {"", device});
    if (refusal.result == ncclSuccess) tell_others_if_whole(clique);
    clique.changed.notify_all();
    return refusal;
  }
  NcclSlip slip = slip_about(clique.id, NcclSlip::Kind::kJoin);
  slip.from = rank;
  slip.peer = device;
  slip.count = static_cast<std::uint64_t>(clique.size);
  if (!open_office().post(clique.maker, slip, "")) {
    const std::lock_guard lock(clique.mutex);
    clique.lost.insert(clique.maker);
  }
  return {};
}

NcclSlip slip_of(const NcclClique& clique, NcclSlip::Kind kind, const NcclCall& call) {
  NcclSlip slip = slip_about(clique.id, kind);
  slip.call_kind = static_cast<std::int32_t>(call.kind);
  slip.type = call.type;
  slip.op = call.op;
  slip.peer = call.peer;
  slip.count = call.count;
  return slip;
}

}  // namespace tessera::emulation
