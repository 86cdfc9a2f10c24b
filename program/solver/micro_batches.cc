#include "program/solver/micro_batches.h"

#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "placement/printable.h"
#include "program/step_names.h"
#include "program/step_shapes.h"

namespace tessera {
namespace {

/// What is known of a value: of which micro-batch it is, and what it is.
struct KnownValue {
  std::optional<std::int64_t> micro_batch;
  std::string text;
};

class MicroBatchReader {
 public:
  explicit MicroBatchReader(const Program& flat) : steps_(flat.steps) {
    for (const ProgramValue& value : flat.values) know(value, std::nullopt);
    for (AnyStep& step : steps_) {
      micro_batches_.push_back(std::exchange(step.origin.micro_batch, std::nullopt));
    }
  }

  std::vector<int> run() {
    const StepShapes shapes(steps_);
    std::vector<int> numbers;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      numbers.push_back(static_cast<int>(i));
      std::string reads = reads_of(i);
      if (!micro_batches_[i] || std::holds_alternative<FreeStep>(steps_[i].what)) continue;
      Key key{shapes.at(static_cast<std::int64_t>(i)), steps_[i].origin.module, std::move(reads)};
      const int round = seen_[key][*micro_batches_[i]]++;
      numbers.back() = firsts_.try_emplace({std::move(key), round}, numbers.back()).first->second;
    }
    return numbers;
  }

 private:
  using Key = std::tuple<int, std::string, std::string>;

  void know(const ProgramValue& value, std::optional<std::int64_t> micro_batch) {
    known_[value.name] = {
        micro_batch,
        absl::StrFormat("%s %d %d %d", to_string(value.global_shape), static_cast<int>(value.dtype),
                        value.mesh.value_or(-1), static_cast<int>(value.role))};
  }

  /// What a step reads, one after another; what it makes is known after it.
  std::string reads_of(std::size_t i) {
    std::string text;
    visit_names(
        steps_[i],
        [&](const std::string& name) {
          const KnownValue& value = known_[name];
          text += value.text;
          text += !value.micro_batch ? '-' : value.micro_batch == micro_batches_[i] ? '=' : '/';
        },
        [&](const ProgramValue& made) { know(made, micro_batches_[i]); });
    return text;
  }

  std::vector<AnyStep> steps_;
  std::vector<std::optional<std::int64_t>> micro_batches_;
  absl::flat_hash_map<std::string, KnownValue> known_;
  std::map<Key, std::map<std::int64_t, int>> seen_;  ///< how often, in each micro-batch
  std::map<std::pair<Key, int>, int> firsts_;
};

class Groups {
 public:
  explicit Groups(std::size_t count) : parents_(count) {
    std::iota(parents_.begin(), parents_.end(), 0);
  }
  int of(int item) {
    auto& parent = parents_[static_cast<std::size_t>(item)];
    return parent == item ? item : parent = of(parent);
  }
  void join(const std::vector<int>& numbers) {
    absl::flat_hash_map<int, int> firsts;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const int item = static_cast<int>(i);
      const int first = firsts.try_emplace(numbers[i], item).first->second;
      parents_[static_cast<std::size_t>(of(item))] = of(first);
    }
  }

 private:
  std::vector<int> parents_;
};

}  // namespace

std::vector<int> alike_in_micro_batches(const Program& flat) {
  return MicroBatchReader(flat).run();
}

std::vector<int> joined(const std::vector<int>& a, const std::vector<int>& b) {
  Groups groups(a.size());
  groups.join(a);
  groups.join(b);
  std::vector<int> numbers;
  absl::flat_hash_map<int, int> known;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const int next = static_cast<int>(known.size());
    numbers.push_back(known.try_emplace(groups.of(static_cast<int>(i)), next).first->second);
  }
  return numbers;
}

}  // namespace tessera
