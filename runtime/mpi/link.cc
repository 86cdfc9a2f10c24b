#include "runtime/mpi/link.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_format.h"
#include "runtime/environment.h"

namespace tessera {
namespace {

constexpr int kPartBits = 3;
constexpr int kSequenceBits = 10;
static_assert(kMaxPending < (1U << kSequenceBits));

}  // namespace

Status check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return absl::OkStatus();
  std::vector<char> text(MPI_MAX_ERROR_STRING + 1, '\0');
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return unavailable(std::string(call) + ": " + text.data());
}

Status finish(int code, MPI_Request& request, const char* call) {
  constexpr int kYields = 64;
  constexpr std::chrono::microseconds kLongestPause{500};
  std::chrono::microseconds pause{10};
  for (int polls = 0, is_over = 0; code == MPI_SUCCESS;) {
    code = MPI_Test(&request, &is_over, MPI_STATUS_IGNORE);
    if (is_over != 0) break;
    if (++polls < kYields) {
      yield_core();
    } else {
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, kLongestPause);
    }
  }
  return check_mpi(code, call);
}

MpiLink::MpiLink(MPI_Comm comm, std::int64_t max_message_elements)
    : comm_(comm), max_message_elements_(std::max<std::int64_t>(1, max_message_elements)) {
  int rank = 0, size = 1, has_limit = 0;
  int* limit = nullptr;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  // Predefined attributes hang on MPI_COMM_WORLD; a communicator split from it may lack them.
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &limit, &has_limit);
  rank_ = rank;
  size_ = size;
  const int highest = has_limit != 0 ? *limit : 32767;
  max_groups_ = static_cast<std::uint32_t>(highest >> (kPartBits + kSequenceBits));
}

MpiLink::~MpiLink() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!abandoned_ && finalized == 0) MPI_Comm_free(&comm_);
}

int MpiLink::tag(std::uint32_t group, std::uint64_t sequence, MessagePart part) noexcept {
  const std::uint64_t number = sequence & ((1U << kSequenceBits) - 1);
  return static_cast<int>((((std::uint64_t{group} << kSequenceBits) | number) << kPartBits) |
                          static_cast<std::uint64_t>(part));
}

// ---- Messages

MPI_Request& Messages::add(std::int64_t expected) {
  expected_.push_back(expected);
  requests_.push_back(MPI_REQUEST_NULL);
  return requests_.back();
}

void Messages::send(const MpiLink& link, Address to, const std::byte* data, std::int64_t bytes,
                    std::int64_t element_bytes) {
  const std::int64_t piece = link.max_message_elements() * element_bytes;
  for (std::int64_t at = 0; at == 0 || at < bytes; at += piece) {
    MPI_Request& request = add(kSend);
    throw_if_error(
        check_mpi(MPI_Isend(data + at, static_cast<int>(std::min(piece, bytes - at)), MPI_BYTE,
                            static_cast<int>(to.rank), to.tag, link.comm(), &request),
                  "MPI_Isend"));
  }
}

void Messages::recv(const MpiLink& link, Address from, std::byte* data, std::int64_t bytes,
                    std::int64_t element_bytes) {
  const std::int64_t piece = link.max_message_elements() * element_bytes;
  for (std::int64_t at = 0; at == 0 || at < bytes; at += piece) {
    const std::int64_t size = std::min(piece, bytes - at);
    recv_up_to(link, from, data + at, size);
    expected_.back() = size;
  }
}

void Messages::recv_up_to(const MpiLink& link, Address from, std::byte* data,
                          std::int64_t capacity) {
  MPI_Request& request = add(kAnySize);
  const int code = MPI_Irecv(data, static_cast<int>(capacity), MPI_BYTE,
                             static_cast<int>(from.rank), from.tag, link.comm(), &request);
  if (code != MPI_SUCCESS) throw Error(check_mpi(code, "MPI_Irecv"));
}

void Messages::check(std::size_t index, const MPI_Status& status) const {
  if (expected_[index] < 0) return;
  int bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  if (expected_[index] == bytes) return;
  throw Error(failed_precondition(absl::StrFormat(
      "rank %d sends %d bytes where this rank expects %d: the two calls differ (run with checks "
      "on to see both)",
      status.MPI_SOURCE, bytes, expected_[index])));
}

bool Messages::done() {
  for (; next_ < requests_.size(); ++next_) {
    int over = 0;
    MPI_Status status;
    const int code = MPI_Test(&requests_[next_], &over, &status);
    if (code != MPI_SUCCESS) {
      throw Error(failed_precondition(std::string(message_of(check_mpi(code, "MPI_Test"))) +
                                      " (run with checks on to see both calls)"));
    }
    if (over == 0) return false;
    check(next_, status);
  }
  requests_.clear();
  expected_.clear();
  next_ = 0;
  return true;
}

void Messages::abandon() noexcept {
  for (std::size_t i = next_; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    if (expected_[i] != kSend) MPI_Cancel(&requests_[i]);
    MPI_Request_free(&requests_[i]);
  }
  requests_.clear();
  expected_.clear();
  next_ = 0;
}

}  // namespace tessera
