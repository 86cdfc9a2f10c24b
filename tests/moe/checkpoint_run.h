// tests/moe/checkpoint_run.h: a small model and its trainer on one rank, to be saved and loaded.
#pragma once

#include <exception>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "moe/train/train_state.h"
#include "tests/moe/training_run.h"

namespace tessera::testing {

/// The softmax parity model, smaller, with 6 experts.
ModelConfig tiny_config();

/// A folder that goes with the test, once all ranks are through. Ranks agree on its path.
/// Collective: yes, its end too.
class SharedFolder {
 public:
  explicit SharedFolder(World& world);
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  ~SharedFolder();
  std::unique_ptr<FileSystem> open() const;
  const std::string& path() const noexcept { return path_; }

 private:
  World& world_;
  int exceptions_ = std::uncaught_exceptions();
  std::string path_;
};

/// A model and its trainer on one rank, with random weights.
struct TinyRun {
  Runtime runtime;
  ModelConfig config;
  TokenData data;
  MeshViews views;
  Model model;
  Trainer trainer;

  TinyRun(World& world, const ParallelConfig& parallel, DType dtype, std::uint64_t seed = 3,
          const ModelConfig& config = tiny_config());
  /// Losses of steps [from, to).
  std::vector<double> steps(std::int64_t from, std::int64_t to);
  /// Every element of the tensors that this rank's stage has, by name.
  std::map<std::string, std::vector<double>> whole_tensors();
  /// The same, one after the other.
  std::vector<double> whole_state();
  void save(FileSystem& files, std::int64_t step);
};

}  // namespace tessera::testing
