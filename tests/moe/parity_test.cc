// Losses, norms, counts and parameters against another system's recorded run (tests/data/parity).
#include <cmath>

#include "tests/moe/training_run.h"

namespace tessera::testing {
namespace {

double number_at(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  if (value->if_integer() != nullptr) return static_cast<double>(*value->if_integer());
  return *value->if_number();
}

std::vector<std::vector<std::int64_t>> counts_at(const Json& step) {
  std::vector<std::vector<std::int64_t>> counts;
  for (const Json& layer : *step.find("tokens_per_expert")->if_array()) {
    counts.emplace_back();
    for (const Json& count : *layer.if_array()) counts.back().push_back(*count.if_integer());
  }
  return counts;
}

}  // namespace

TEST_CASE("one rank in F32 repeats another system's run", "[moe][parity]") {
  const std::string model = GENERATE("softmax", "grouped");
  CAPTURE(model);
  const Json expected = expected_results(model);
  const RunResult run = train({.model = model, .dtype = DType::kF32});
  const Json::Array& steps = *expected.find("steps")->if_array();
  REQUIRE(run.steps.size() == steps.size());
  for (std::size_t step = 0; step < steps.size(); ++step) {
    CAPTURE(step);
    CHECK(std::abs(run.steps[step].loss - number_at(steps[step], "loss")) < 2e-6);
    CHECK(std::abs(run.steps[step].grad_norm - number_at(steps[step], "grad_norm")) < 2e-6);
    CHECK(run.steps[step].lr == Approx(number_at(steps[step], "lr")).epsilon(1e-15));
    CHECK(run.steps[step].tokens_per_expert == counts_at(steps[step]));
  }
  const Json::Array& logits = *expected.find("logits0")->if_array();
  for (std::size_t position = 0; position < logits.size(); ++position) {
    const Json::Array& row = *logits[position].if_array();
    for (std::size_t id = 0; id < row.size(); ++id) {
      CAPTURE(position, id);
      CHECK(std::abs(run.logits0[position * row.size() + id] - *row[id].if_number()) < 2e-6);
    }
  }
  const Json::Object& norms = *expected.find("final_param_l2")->if_object();
  REQUIRE(run.final_l2.size() == norms.size());
  for (const JsonMember& norm : norms) {
    CAPTURE(norm.key);
    REQUIRE(run.final_l2.count(norm.key) == 1);
    const double wanted = *norm.value.if_number();
    CHECK(std::abs(run.final_l2.at(norm.key) - wanted) <= 1e-5 * wanted);
  }
}

TEST_CASE("one rank in F64 repeats another system's double-precision losses", "[moe][parity]") {
  const std::string model = GENERATE("softmax", "grouped");
  CAPTURE(model);
  const Json expected = expected_results(model);
  const RunResult run = train({.model = model, .dtype = DType::kF64});
  const Json::Array& losses = *expected.find("loss_fp64_params")->if_array();
  REQUIRE(run.steps.size() == losses.size());
  for (std::size_t step = 0; step < losses.size(); ++step) {
    CAPTURE(step);
    CHECK(std::abs(run.steps[step].loss - *losses[step].if_number()) < 1e-6);
  }
}

}  // namespace tessera::testing
