// tests/moe/training_run.h: whole training runs, for claims about their losses and parameters.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "io/json.h"
#include "moe/train/trainer.h"

namespace tessera::testing {

struct RunOptions {
  std::string model = "softmax";  ///< a folder of tests/data/parity
  ParallelConfig parallel = {};
  int num_ranks = 1;
  DType dtype = DType::kF64;
  std::int64_t num_steps = 10;
  /// Changes the model's config; batches then come from a text instead of the recorded tokens.
  std::function<void(ModelConfig&)> change_config = nullptr;
  /// Tokens in place of the text, for a changed config; see TokenData::of.
  std::function<RecordedTokens(const ModelConfig&)> tokens = nullptr;
  /// Looks at each rank's model after the last step, and says what it saw.
  std::function<std::vector<double>(Model&, Trainer&)> inspect = nullptr;
  int threads_per_rank = 0;  ///< as in WorldOptions
  StepMode mode = StepMode::kEach;
  /// As in WorldOptions: the device.
  std::function<std::shared_ptr<Allocator>(std::int64_t rank)> allocator = nullptr;
};
/// Makes a model small enough for many runs: 2 layers, one step of 4 x 16 tokens. Experts, their
/// routing and the recipe stay as they are.
void shrink(ModelConfig& config);
/// The same for four steps of two micro-batches without host reads. `pads`: rows are padded to a
/// capacity.
void shrink_to_capture(ModelConfig& config, bool pads);

/// Every element of a tensor after the last step, row-major.
struct Elements {
  std::vector<double> values;
  std::vector<double> grad;  ///< of that step, before it was scaled; empty for an expert bias
  bool operator==(const Elements&) const = default;
};

struct RunResult {
  std::vector<StepReport> steps;
  std::map<std::string, double> final_l2;  ///< of every parameter and expert bias
  /// The same, whole, with the first rank that has a part of them.
  std::map<std::string, Elements> elements;
  std::vector<double> logits0;  ///< step 0, micro-batch 0, sequence 0: positions 0…3 x ids 0…7
  std::vector<double> inspected;
};
/// Every rank's view; throws Error where any rank fails.
std::vector<RunResult> train_all(const RunOptions& options);
/// Rank 0's view, with the elements of all stages.
RunResult train(const RunOptions& options);
/// The same with ranks as threads of one process, whatever backend the program runs on.
RunResult train_on_threads(const RunOptions& options);

/// How far an element of a parameter or of its gradient in F64 may be from one rank's.
constexpr double kElementTolerance = 1e-10;
/// The first parameter with an element further than kElementTolerance from the reference's, or
/// NaN, or missing on one side: "lm_head.weight: value 17 is 0.5, not 0.25"; empty where there is
/// none.
std::string element_difference(const RunResult& run, const RunResult& reference);

/// Checks that a run is `reference` in F64: losses and gradient norms within 1e-9, counts equal,
/// losses of routing within 1e-12, no element_difference().
void check_same(const RunResult& run, const RunResult& reference);

/// expected.json of a parity model.
Json expected_results(const std::string& model);
/// A file below tests/data.
std::string test_file(std::string_view name);
std::string parity_path(const std::string& model, const std::string& file);

}  // namespace tessera::testing
