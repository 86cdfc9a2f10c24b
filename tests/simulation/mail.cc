#include "tests/simulation/mail.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace tessera::seeded {

Mail::Mail(Simulation& simulation)
    : simulation_(simulation),
      copied_up_to_(std::vector<std::size_t>{0, 64, 4096, 1 << 20}[simulation.draw().below(4)]) {}

Mail::Box& Mail::box(int rank) { return boxes_[rank]; }

MPI_Comm Mail::duplicate() { return ++box(simulation_.process()).num_comms; }

MPI_Request Mail::send(const std::byte* data, std::size_t bytes, const Address& to) {
  simulation_.interleave();
  auto* request = new TsrMailRequest;
  if (simulation_.is_dead(to.rank) || simulation_.is_dead(simulation_.process())) {
    request->over = bytes <= copied_up_to_;
    return request;
  }
  Box& there = box(to.rank);
  const int own = simulation_.process();
  Environment::Time& last = there.last[own];
  last = std::max(last, simulation_.now() + simulation_.delays().draw(simulation_.draw()));
  Letter letter{.from = {own, to.tag, to.comm}, .at = last, .bytes = bytes};
  if (bytes <= copied_up_to_) {
    if (bytes > 0) letter.copy.assign(reinterpret_cast<const char*>(data), bytes);
    request->over = true;
  } else {
    letter.data = data;
    letter.sender = request;
  }
  there.letters.push_back(std::move(letter));
  return request;
}

MPI_Request Mail::receive(std::byte* data, std::size_t capacity, const Address& from) {
  simulation_.interleave();
  auto* request = new TsrMailRequest;
  box(simulation_.process()).places.push_back({from, data, capacity, request});
  return request;
}

void Mail::fill(const Letter& letter, const Place& place) {
  place.request->over = true;
  place.request->status = {letter.from.rank, static_cast<int>(letter.bytes)};
  if (letter.bytes > place.capacity) place.request->code = MPI_ERR_TRUNCATE;
  const std::size_t bytes = std::min(letter.bytes, place.capacity);
  const auto* from = letter.data != nullptr ? static_cast<const void*>(letter.data)
                                            : static_cast<const void*>(letter.copy.data());
  if (bytes > 0) std::memcpy(place.data, from, bytes);
  if (letter.sender != nullptr) letter.sender->over = true;
}

void Mail::take_in(Box& box) {
  for (auto letter = box.letters.begin(); letter != box.letters.end();) {
    const auto place = std::find_if(box.places.begin(), box.places.end(),
                                    [&](const Place& one) { return one.from == letter->from; });
    if (letter->at > simulation_.now() || place == box.places.end()) {
      ++letter;
      continue;
    }
    fill(*letter, *place);
    box.places.erase(place);
    letter = box.letters.erase(letter);
  }
}

bool Mail::test(const TsrMailRequest* request) {
  const int own = simulation_.process();
  if (!request->over && !simulation_.is_dead(own)) take_in(box(own));
  return request->over;
}

void Mail::give_up(MPI_Request request) {
  std::erase_if(box(simulation_.process()).places,
                [&](const Place& place) { return place.request == request; });
  for (auto& [rank, box] : boxes_) {
    for (Letter& letter : box.letters) {
      if (letter.sender == request) letter.sender = nullptr;
    }
  }
  delete request;
}

std::vector<std::string> Mail::gather(MPI_Comm comm, const std::string& own) {
  const int rank = simulation_.process();
  const auto key = std::pair(comm, box(rank).num_gathered[comm]++);
  Gathering& gathering = gatherings_[key];
  gathering.texts.resize(static_cast<std::size_t>(simulation_.num_processes()));
  gathering.texts[static_cast<std::size_t>(rank)] = own;
  ++gathering.num_here;
  while (gathering.num_here < simulation_.num_processes()) simulation_.yield();
  return gathering.texts;
}

}  // namespace tessera::seeded

namespace {

using tessera::seeded::Mail;
using tessera::seeded::Simulation;

Mail& mail() { return Simulation::current().mail(); }
int set(int* to, int value) {
  *to = value;
  return MPI_SUCCESS;
}
std::size_t bytes_of(int count, MPI_Datatype type) {
  return static_cast<std::size_t>(count) * static_cast<std::size_t>(type);
}

}  // namespace

int MPI_Init_thread(int*, char***, int, int* provided) {
  return set(provided, MPI_THREAD_FUNNELED);
}
int MPI_Initialized(int* flag) { return set(flag, 1); }
int MPI_Finalized(int* flag) { return set(flag, 0); }
int MPI_Finalize() { return MPI_SUCCESS; }
int MPI_Abort(MPI_Comm, int) { return MPI_ERR_OTHER; }
int MPI_Query_thread(int* provided) { return set(provided, MPI_THREAD_FUNNELED); }
int MPI_Is_thread_main(int* flag) { return set(flag, 1); }
int MPI_Error_string(int code, char* text, int* length) {
  const std::string_view name = code == MPI_ERR_TRUNCATE ? "message truncated" : "not simulated";
  *length = static_cast<int>(name.copy(text, MPI_MAX_ERROR_STRING));
  return MPI_SUCCESS;
}

int MPI_Comm_rank(MPI_Comm, int* rank) { return set(rank, Simulation::current().process()); }
int MPI_Comm_size(MPI_Comm, int* size) { return set(size, Simulation::current().num_processes()); }
int MPI_Comm_idup(MPI_Comm, MPI_Comm* made, MPI_Request* request) {
  *request = MPI_REQUEST_NULL;
  return set(made, mail().duplicate());
}
int MPI_Comm_split_type(MPI_Comm, int, int, MPI_Info, MPI_Comm* made) {
  return set(made, mail().duplicate());
}
int MPI_Comm_free(MPI_Comm* comm) { return set(comm, MPI_COMM_NULL); }
int MPI_Comm_get_attr(MPI_Comm, int, void* value, int* flag) {
  static int highest_tag = std::numeric_limits<int>::max();
  *static_cast<int**>(value) = &highest_tag;
  return set(flag, 1);
}
int MPI_Comm_set_errhandler(MPI_Comm, MPI_Errhandler) { return MPI_SUCCESS; }
MPI_Comm MPI_Comm_f2c(int handle) { return handle; }

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
  *request = mail().send(static_cast<const std::byte*>(data), bytes_of(count, type),
                         {.rank = to, .tag = tag, .comm = comm});
  return MPI_SUCCESS;
}
int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request* request) {
  *request = mail().receive(static_cast<std::byte*>(data), bytes_of(count, type),
                            {.rank = from, .tag = tag, .comm = comm});
  return MPI_SUCCESS;
}
int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  *flag = *request == MPI_REQUEST_NULL || mail().test(*request) ? 1 : 0;
  if (*flag == 0 || *request == MPI_REQUEST_NULL) return MPI_SUCCESS;
  if (status != MPI_STATUS_IGNORE) *status = (*request)->status;
  const int code = (*request)->code;
  mail().give_up(*request);
  *request = MPI_REQUEST_NULL;
  return code;
}
int MPI_Cancel(MPI_Request*) { return MPI_SUCCESS; }
int MPI_Request_free(MPI_Request* request) {
  mail().give_up(*request);
  *request = MPI_REQUEST_NULL;
  return MPI_SUCCESS;
}
int MPI_Get_count(const MPI_Status* status, MPI_Datatype type, int* count) {
  return set(count, status->bytes / type);
}

int MPI_Iallgather(const void* data, int count, MPI_Datatype type, void* all, int each,
                   MPI_Datatype all_type, MPI_Comm comm, MPI_Request* request) {
  *request = MPI_REQUEST_NULL;
  const std::size_t room = bytes_of(each, all_type);
  auto* to = static_cast<char*>(all);
  for (const std::string& text :
       mail().gather(comm, std::string(static_cast<const char*>(data), bytes_of(count, type)))) {
    text.copy(to, room);
    to += room;
  }
  return MPI_SUCCESS;
}
int MPI_Iallgatherv(const void* data, int count, MPI_Datatype type, void* all, const int* counts,
                    const int* offsets, MPI_Datatype all_type, MPI_Comm comm,
                    MPI_Request* request) {
  *request = MPI_REQUEST_NULL;
  const auto texts =
      mail().gather(comm, std::string(static_cast<const char*>(data), bytes_of(count, type)));
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    texts[rank].copy(static_cast<char*>(all) + bytes_of(offsets[rank], all_type),
                     bytes_of(counts[rank], all_type));
  }
  return MPI_SUCCESS;
}

// Not part of the simulation: ranks share one clock, and end by themselves.
int MPI_Barrier(MPI_Comm) { return MPI_ERR_OTHER; }
int MPI_Ibarrier(MPI_Comm, MPI_Request*) { return MPI_ERR_OTHER; }
