// tests/simulation/player.h: what a rank of a simulated job does, and what it leaves for the
// verdict.
#pragma once

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/checkpoint/fault_fs.h"
#include "tests/simulation/job.h"

namespace tessera::seeded {

/// Within the limit of a call.
constexpr Duration kLate = std::chrono::milliseconds(1'200);
/// Longer than that.
constexpr Duration kAway = std::chrono::milliseconds(30'000);

/// Fails the k-th allocation, spoils what is released, and knows what was not.
class FailingAllocator final : public Allocator {
 public:
  explicit FailingAllocator(std::uint64_t fails_at) : fails_at_(fails_at) {}
  void* allocate(std::size_t bytes) override {
    if (++count_ == fails_at_) {
      throw Error(absl::ResourceExhaustedError("allocate: no memory for a buffer"));
    }
    used_ += static_cast<std::int64_t>(bytes);
    return plain_allocator()->allocate(bytes);
  }
  void release(void* data, std::size_t bytes) noexcept override {
    std::memset(data, 0xa5, bytes);  // whoever reads it later finds that
    used_ -= static_cast<std::int64_t>(bytes);
    plain_allocator()->release(data, bytes);
  }
  std::uint64_t count() const noexcept { return count_; }
  std::int64_t used() const noexcept { return used_; }

 private:
  std::uint64_t fails_at_;
  std::uint64_t count_ = 0;
  std::int64_t used_ = 0;
};

/// A save of version `version` as the log of changes sees it.
struct Save {
  int version = 0;
  std::size_t begin = 0;
  std::optional<std::size_t> end;  ///< once it is complete
  std::string failure;
};

struct Report {
  Status status;
  std::vector<std::string> wrong;
  std::vector<std::string> failures;  ///< of saves and loads
  bool has_returned = false;
  bool was_told = false;     ///< of the job's failure, before any rank ended
  bool ended_alone = false;  ///< others that live had not been told by then
  std::uint64_t hash = 0;
};

struct Job {
  const Plan plan;
  testing::FaultFs files;
  std::vector<Save> saves;
  std::vector<Report> reports;
  std::vector<std::shared_ptr<FailingAllocator>> allocators;
  bool disk_failed = false;

  explicit Job(const Plan& plan_) : plan(plan_) {
    const auto num_ranks = static_cast<std::size_t>(plan.program.num_ranks);
    reports.resize(num_ranks);
    for (std::size_t rank = 0; rank < num_ranks; ++rank) {
      const bool fails = plan.fault == Fault::kAllocation && static_cast<int>(rank) == plan.rank;
      allocators.push_back(std::make_shared<FailingAllocator>(fails ? plan.count : 0));
    }
    files.set_fault(
        [this](std::int64_t number, testing::Call call) { return disk_error(number, call); });
  }
  int disk_error(std::int64_t number, testing::Call call) {
    Simulation& simulation = Simulation::current();
    const int process = simulation.process();
    const auto count = static_cast<std::int64_t>(plan.count);
    if (plan.fault == Fault::kKilledAtDisk && process == plan.rank && number >= count) {
      const bool just_died = !simulation.is_dead(process);
      if (just_died) simulation.die();
      if (just_died && plan.full) return 0;  // it dies once the call is through
    }
    if (simulation.is_dead(process)) return EIO;  // it is no part of the world any more
    if (plan.fault != Fault::kDisk) return 0;
    const bool takes_room = call == testing::Call::kWrite || call == testing::Call::kCreate ||
                            call == testing::Call::kMakeFolder;
    const bool fails = plan.full ? number >= count && takes_room : number == count;
    if (fails) disk_failed = true;
    return fails ? plan.disk_error : 0;
  }
  Save& save(std::size_t index) {
    while (saves.size() <= index) {
      saves.push_back({.version = static_cast<int>(saves.size()), .begin = files.num_ops()});
    }
    return saves[index];
  }
};

/// The program of `job` on this rank; its report is in the job.
void play(World& world, Job& job);

}  // namespace tessera::seeded
