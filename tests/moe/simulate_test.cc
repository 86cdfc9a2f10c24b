// A step on the simulated backend against the same step on ranks: their events are the same, under
// every composition of docs/parity.md and every dispatcher.
#include "moe/train/simulate.h"

#include <algorithm>

#include "moe/train/routing_scenario.h"
#include "program/fold.h"
#include "program/program_json.h"
#include "program/unfold.h"
#include "testing/results.h"
#include "tests/moe/compositions.h"
#include "tests/moe/trace_difference.h"
#include "tests/moe/training_run.h"

namespace tessera::testing {
namespace {

/// What may differ in how tokens travel under this composition.
std::vector<DispatchConfig> dispatchers(const ParallelConfig& parallel, const ModelConfig& config) {
  std::vector<DispatchConfig> all = {{}, {.expert_alignment = 4, .chunks = 2}};
  if (parallel.ep * parallel.etp == 1) return all;
  const std::int64_t bound = 2 * config.batch * config.seq * config.router_top_k;
  all.push_back({.rows_bound = bound, .chunks = 2});
  all.push_back({.dispatcher = "all_gather"});
  all.push_back(
      {.dispatcher = "all_gather", .rows_bound = bound, .expert_alignment = 4, .chunks = 3});
  if (parallel.ep == 1) return all;
  const std::int64_t ranks = std::max(parallel.ep / 4, std::int64_t{1}) * parallel.etp;
  all.push_back({.dispatcher = "hierarchical", .ranks_per_node = ranks});
  all.push_back({.dispatcher = "hierarchical", .ranks_per_node = ranks, .rows_bound = 2 * bound});
  all.push_back({.dispatcher = "hierarchical",
                 .ranks_per_node = parallel.ep / 2 * parallel.etp,
                 .expert_alignment = 4,
                 .chunks = 2});
  all.push_back({.dispatcher = "peer", .chunks = 2});
  all.push_back({.dispatcher = "peer", .rows_bound = bound, .expert_alignment = 4});
  all.push_back({.dispatcher = "peer", .ranks_per_node = ranks, .rows_bound = 2 * bound});
  all.push_back(
      {.dispatcher = "peer", .ranks_per_node = parallel.ep / 2 * parallel.etp, .chunks = 2});
  return all;
}

/// What a rank saw of one dispatcher: how many transfers and host reads, and where simulated ones
/// first differ.
struct Compared {
  std::int64_t num_events = 0;
  std::string difference;
  std::string trace_difference;  ///< of the traced step's moves and host reads
};

std::string trace_step_difference(Runtime& runtime, const ModelConfig& config,
                                  const TokenData& data, const ParallelConfig& parallel) {
  const SimulatedPlace place = {.rank = runtime.rank(), .num_ranks = runtime.world().size()};
  const Program traced = value_or_throw(trace_step(config, parallel, place, data));
  const std::string text = write_program(traced);
  const Program read = value_or_throw(read_program(text, "traced", runtime.ops()));
  for (std::size_t i = 0; i < traced.steps.size(); ++i) {
    if (i < read.steps.size() && read.steps[i] == traced.steps[i]) continue;
    Program other = traced;
    other.steps = {traced.steps[i]};
    return "what is read is another program from here on: " + write_program(other);
  }
  if (read != traced) return "what is read is another program";
  const SimulatedStep step = value_or_throw(simulate_step(config, parallel, place, data));
  const std::string difference = trace_difference(traced, step.events);
  if (!difference.empty()) return difference;
  const Program folded = fold(traced);
  const Program written = value_or_throw(
      unfold(value_or_throw(read_program(write_program(folded), "folded", runtime.ops()))));
  if (written.steps.size() != traced.steps.size()) return "it has other steps when it was folded";
  return trace_difference(written, step.events);
}
Compared compare_step(Runtime& runtime, const ModelConfig& config, const TokenData& data,
                      const ParallelConfig& parallel, bool traces) {
  Compared compared;
  compared.difference = difference_from_simulation(runtime, config, parallel, data, DType::kF32);
  if (traces) {
    compared.trace_difference = trace_step_difference(runtime, config, data, parallel);
  }
  compared.num_events = std::ranges::count_if(runtime.events().events(), [](const Event& event) {
    return event.kind == Event::Kind::kCollective || event.kind == Event::Kind::kHostRead;
  });
  return compared;
}

/// Which dispatchers a composition is tried with: every third, another third for its neighbours in
/// the list, or all.
enum class Choice : std::uint8_t { kThird, kAll };
/// On this rank: a step with each dispatcher chosen, carried out and simulated.
std::vector<Compared> compare_steps(World& world, std::size_t index, Choice choice,
                                    Scenario scenario) {
  const Composition& composition = compositions()[index];
  const ModelConfig config = config_of(composition, scenario, composition.num_ranks() - 1);
  const std::vector<std::string> files = {test_file("../../LICENSE")};
  const TokenData data = value_or_throw(TokenData::read(files, config));
  Runtime runtime(world);
  std::vector<Compared> compared;
  std::vector<DispatchConfig> all = dispatchers(composition.parallel, config);
  if (config.routing.pad_to_capacity) {
    std::erase_if(all, [](const DispatchConfig& each) { return each.rows_bound > 0; });
  }
  const std::size_t step = choice == Choice::kAll || all.size() < 3 ? 1 : 3;
  for (std::size_t at = index % step; at < all.size(); at += step) {
    ParallelConfig parallel = composition.parallel;
    parallel.dispatch = all[at];
    const bool traces = choice == Choice::kAll || compared.empty();
    compared.push_back(compare_step(runtime, config, data, parallel, traces));
  }
  return compared;
}

void check_composition(std::size_t index, Choice choice, Scenario scenario) {
  const Composition& each = compositions()[index];
  CAPTURE(each.name, static_cast<int>(scenario));
  const std::vector<std::vector<Compared>> ranks =
      results_of(each.num_ranks(), {}, [&](World& world) {
        return compare_steps(world, index, choice, scenario);
      }).value();
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    CHECK(!ranks[rank].empty());
    for (std::size_t dispatcher = 0; dispatcher < ranks[rank].size(); ++dispatcher) {
      CAPTURE(rank, dispatcher);
      CHECK(ranks[rank][dispatcher].num_events > (ranks.size() > 1 ? 9 : 0));
      CHECK(ranks[rank][dispatcher].difference == "");
      CHECK(ranks[rank][dispatcher].trace_difference == "");
    }
  }
}

}  // namespace

TEST_CASE("under forced balance the simulated and the executed events of a step are the same",
          "[moe][simulate]") {
  check_composition(GENERATE_COPY(range(std::size_t{0}, compositions().size())), Choice::kThird,
                    Scenario::kBalanced);
}

TEST_CASE("so they are where a rank gets all rows that it can, or experts have uneven loads",
          "[moe][simulate][scenario]") {
  const std::size_t index = GENERATE_COPY(range(std::size_t{0}, compositions().size()));
  check_composition(index, Choice::kThird, kUneven[index % 2]);
}

TEST_CASE(
    "simulated and executed events are the same under every pair of composition and "
    "dispatcher",
    "[moe][simulate][.deep]") {
  check_composition(GENERATE_COPY(range(std::size_t{0}, compositions().size())), Choice::kAll,
                    GENERATE(Scenario::kBalanced, Scenario::kWorst, Scenario::kLoads));
}

TEST_CASE("a simulation refuses routing that depends on data", "[moe][simulate]") {
  const auto error_of = [](const Json& changes) {
    const ModelConfig config = small_config(changes);
    const std::vector<std::string> files = {test_file("../../LICENSE")};
    const TokenData data = value_or_throw(TokenData::read(files, config));
    return std::string(simulate_step(config, {.ep = 1}, {}, data).status().message());
  };
  CHECK(error_of(Json::object({{"force_balance", false}})) ==
        "simulation: force_balance must be true in the config, or forced_loads be given; other "
        "routing depends on data");
  CHECK(error_of(Json::object({{"capacity_factor", 0.5}})) ==
        "simulation: capacity_factor 0.5: what it drops depends on data; leave it out, or let "
        "pad_to_capacity be true and the factor have room for all rows");
  // 8 sequences of 16 tokens choose 3 of 8 experts: 48 rows of each.
  CHECK(error_of(Json::object({{"capacity_factor", 0.5}, {"pad_to_capacity", true}})) ==
        "simulation: capacity_factor 0.5 has room for 24 of the 48 rows of the fullest expert, and "
        "what it drops depends on data; leave it out, or let it be at least 1");
  // All tokens choose the first three: an expert gets 128 rows, 16 of each sequence.
  const Json loads = value_or_throw(parse_json("[1,1,1,0,0,0,0,0]", "loads"));
  const auto error_of_loads = [&](double factor, const char* scope) {
    return error_of(Json::object({{"force_balance", false},
                                  {"forced_loads", loads},
                                  {"capacity_factor", factor},
                                  {"pad_to_capacity", true},
                                  {"capacity_scope", scope}}));
  };
  CHECK_THAT(error_of_loads(2, "microbatch"), Catch::Contains("room for 96 of the 128 rows") &&
                                                  Catch::Contains("let it be at least 2.667"));
  CHECK_THAT(error_of_loads(2, "sequence"), Catch::Contains("room for 12 of the 16 rows"));
  CHECK(error_of_loads(8.0 / 3, "microbatch").empty());
}

}  // namespace tessera::testing
