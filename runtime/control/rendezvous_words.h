// runtime/control/rendezvous_words.h: what rank 0 and its guests tell one another at a rendezvous,
// and how a guest looks for rank 0.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "runtime/control/rendezvous.h"
#include "runtime/control/sealed_stream.h"
#include "runtime/control/socket.h"
#include "runtime/environment.h"

struct pollfd;

namespace tessera::rendezvous {

using Clock = RankClock;
using std::chrono::milliseconds;

/// How long a connection may take to show what it is, and rank 0 to say that a guest has its place.
constexpr milliseconds kStrangerLimit{2'000};
/// How long after a failure a process stays, for the others to hear of it.
constexpr milliseconds kPartingLimit{1'000};
/// What rank 0 may take longer than a guest, for it may have started later.
constexpr milliseconds kVerdictSlack{10'000};
constexpr milliseconds kFirstPause{20};
constexpr milliseconds kLongestPause{500};
/// Strangers that rank 0 hears at a time.
constexpr std::size_t kMostStrangers = 4'096;

// The first character of a text says what it is.
constexpr char kAttends = 'A';  ///< a guest's first word: who it is
constexpr char kSeated = 'S';   ///< rank 0's answer
constexpr char kBegins = 'B';   ///< all are there; with a nonce
constexpr char kVerdict = 'V';
constexpr char kText = 'T';  ///< a rank's part in an exchange, and all of them

/// The key of the meeting's connections, from the job's text.
ControlToken key_of(const Launch& launch);
/// Of the connections after the meeting.
ControlToken token_of(const ControlToken& key, const ControlNonce& nonce);

/// Who a process is, as it tells rank 0.
struct Attendance {
  std::int64_t rank = 0;
  std::int64_t size = 0;
  std::string process;  ///< "process 812 on host7"
  std::vector<AlikeFact> alike = {};
};

std::string to_text(const Attendance& who);
Attendance read_attendance(const std::string& text);
Attendance own_attendance(const Launch& launch, const RendezvousOptions& options);
/// "rank 3 (process 812 on host7)"
std::string named(const Attendance& who);
/// Why two processes are not of one job; empty where they are.
std::string difference(const Attendance& one, const Attendance& other);

/// All texts of an exchange as one.
std::string to_text(const std::vector<std::string>& texts);
std::optional<std::vector<std::string>> read_texts(std::string_view all);

/// "ports 29501 to 29516"
std::string ports_text(const Launch& launch);
/// Of rank 0's host. Errors: Unavailable naming MASTER_ADDR.
StatusOr<std::vector<std::string>> addresses_in(const Launch& launch);

/// Tells of times: "within 60 s".
class Deadline {
 public:
  explicit Deadline(milliseconds limit) : limit_(limit), start_(Clock::now()) {}
  bool is_over(milliseconds slack = {}) const {
    return limit_ >= milliseconds::zero() && Clock::now() >= start_ + limit_ + slack;
  }
  std::string text() const {
    return absl::StrFormat("within %g s", std::chrono::duration<double>(limit_).count());
  }

 private:
  milliseconds limit_;
  Clock::time_point start_;
};

/// Waits for any of them to have something to do.
void wait_for(std::vector<pollfd> entries, milliseconds limit);

/// A guest's look for rank 0 at all addresses and ports at once.
class Search {
 public:
  Search(const ControlToken& key, Attendance own) : key_(key), own_(std::move(own)) {}
  /// The connection on which rank 0 has answered, with its first word.
  struct Found {
    SealedStream stream;
    std::string first_word;
  };
  std::optional<Found> look(const std::vector<Endpoint>& endpoints);
  /// What came of the last look, for texts.
  const std::string& outcome() const { return outcome_; }

 private:
  struct Attempt {
    Endpoint at;
    SealedStream stream;
  };
  const ControlToken key_;
  const Attendance own_;
  std::string outcome_;
};

/// The two sides of Rendezvous::meet().
StatusOr<std::unique_ptr<Rendezvous>> meet_as_host(const Launch& launch,
                                                   const RendezvousOptions& options);
StatusOr<std::unique_ptr<Rendezvous>> meet_as_guest(const Launch& launch,
                                                    const RendezvousOptions& options);

}  // namespace tessera::rendezvous
