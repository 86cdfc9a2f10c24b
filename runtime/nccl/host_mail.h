// runtime/nccl/host_mail.h: short texts between the ranks of a job, beside the data: how their
// calls are compared, and where a communicator of NCCL is met, before NCCL hears of either.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "placement/api.h"

namespace tessera TSR_API {

/// Which text between two ranks.
struct MailKey {
  std::uint32_t group = 0;
  std::int32_t from = -1, to = -1;  ///< of a lane, see LaneKey
  std::uint64_t sequence = 0;
  std::int32_t part = 0;
  auto operator<=>(const MailKey&) const = default;
};

/// One rank's end. Thread-safety: its rank's thread only.
class HostMail {
 public:
  virtual ~HostMail() = default;
  virtual void send(std::int64_t to, const MailKey& key, std::string text) = 0;
  /// The text of that key from that rank, once it has come; only once. Never blocks.
  virtual std::optional<std::string> take(std::int64_t from, const MailKey& key) = 0;
};

/// Of ranks that are threads of one process. Thread-safety: any thread.
class ThreadsMail {
 public:
  explicit ThreadsMail(int num_ranks) : texts_(static_cast<std::size_t>(num_ranks)) {}
  std::unique_ptr<HostMail> end_of(std::int64_t rank);
  /// Every rank's text, by rank. Collective.
  std::vector<std::string> exchange(std::int64_t rank, const std::string& own);

 private:
  class End;
  std::mutex mutex_;
  std::map<std::tuple<std::int64_t, std::int64_t, MailKey>, std::string> mail_;  ///< by to, from
  std::condition_variable moved_;
  std::vector<std::string> texts_, given_;  ///< of the exchange under way, and of the last
  std::size_t num_here_ = 0;
  int round_ = 0;
};

}  // namespace tessera
