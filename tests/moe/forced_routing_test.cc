// Routing by arithmetic of a token's number: shares of tokens as loads say, and the files and
// scenarios that loads come from.
#include "moe/layer/forced_routing.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <set>

#include "absl/strings/str_format.h"
#include "moe/train/routing_scenario.h"
#include "tests/moe/training_run.h"

namespace tessera::testing {
namespace {

using Experts = std::vector<std::int64_t>;

MoeConfig config_of_loads(std::vector<double> loads, std::int64_t top_k) {
  MoeConfig config;
  config.num_experts = std::ssize(loads);
  config.router_top_k = top_k;
  config.routing.forced_loads = std::move(loads);
  return config;
}

Experts experts_of_token(const ForcedRouting& routing, std::int64_t token) {
  Experts ids;
  routing.append_experts(token, ids);
  return ids;
}

/// Rows of each expert from tokens [first, first + tokens), which choose each at most once.
Experts rows_by_expert(const MoeConfig& config, std::int64_t first, std::int64_t tokens) {
  const ForcedRouting routing(config);
  Experts rows(static_cast<std::size_t>(config.num_experts), 0);
  for (std::int64_t token = first; token < first + tokens; ++token) {
    const Experts ids = experts_of_token(routing, token);
    if (std::set<std::int64_t>(ids.begin(), ids.end()).size() != ids.size()) return {};
    for (const std::int64_t expert : ids) ++rows.at(static_cast<std::size_t>(expert));
  }
  return rows;
}

ModelConfig four_of_eight() {
  ModelConfig config;
  config.num_experts = 8;
  config.router_top_k = 4;
  return config;
}

std::string parse_error(const std::string& text) {
  return std::string(message_of(parse_loads(text, "loads.json", four_of_eight()).status()));
}

}  // namespace

TEST_CASE("equal loads are the balanced routing, slot by slot", "[moe][scenario]") {
  MoeConfig balanced = config_of_loads(std::vector<double>(7, 2.5), 3);
  const ForcedRouting by_loads(balanced);
  balanced.routing.forced_loads.clear();
  balanced.routing.force_balance = true;
  const ForcedRouting in_turn(balanced);
  for (std::int64_t token = 0; token < 40; ++token) {
    const Experts expected = {token * 3 % 7, (token * 3 + 1) % 7, (token * 3 + 2) % 7};
    CHECK(experts_of_token(in_turn, token) == expected);
    CHECK(experts_of_token(by_loads, token) == expected);
  }
}

TEST_CASE("experts get their shares of tokens, wherever the tokens begin", "[moe][scenario]") {
  // 4 slots a token on 40: an expert of load 10 gets every token, one of 5 half of them.
  const MoeConfig config = config_of_loads({10, 5, 0, 5, 2.5, 7.5, 10}, 4);
  const double shares[] = {1, 0.5, 0, 0.5, 0.25, 0.75, 1};
  CHECK(rows_by_expert(config, 0, kForcedParts) ==
        Experts{65536, 32768, 0, 32768, 16384, 49152, 65536});
  const std::int64_t first = GENERATE(std::int64_t{0}, std::int64_t{1} << 44, std::int64_t{12345});
  const std::int64_t tokens = GENERATE(64, 1000, 4096);
  const Experts rows = rows_by_expert(config, first, tokens);
  REQUIRE(rows.size() == 7);
  for (std::size_t expert = 0; expert < 7; ++expert) {
    const double exact = shares[expert] * static_cast<double>(tokens);
    CHECK(std::abs(static_cast<double>(rows[expert]) - exact) <= 8);
  }
  CHECK(rows[0] == tokens);
  CHECK(rows[2] == 0);
}

TEST_CASE("shares that no part divides add up, and none is beyond a token", "[moe][scenario]") {
  // 0.1 ten times is less than 1 as doubles are.
  const Experts all = rows_by_expert(config_of_loads(std::vector<double>(9, 0.1), 9), 0, 100);
  CHECK(all == Experts(9, 100));
  std::vector<double> loads;
  for (int expert = 0; expert < 256; ++expert) loads.push_back(1.0 / (8 + expert));
  const MoeConfig config = config_of_loads(loads, 8);
  REQUIRE(check_loads(loads, 256, 8).ok());
  const Experts rows = rows_by_expert(config, 0, kForcedParts);
  REQUIRE(rows.size() == 256);
  const double sum = std::accumulate(loads.begin(), loads.end(), 0.0);
  for (std::size_t expert = 0; expert < rows.size(); ++expert) {
    const double exact = loads[expert] / sum * 8 * static_cast<double>(kForcedParts);
    CHECK(std::abs(static_cast<double>(rows[expert]) - exact) <= 1);
  }
}

TEST_CASE("the worst routing gives a rank's own experts every token", "[moe][scenario]") {
  ModelConfig config = four_of_eight();
  config.router_top_k = 3;
  const ParallelConfig parallel = {.dp_shard = 2, .tp = 2, .ep = 2, .pp = 2};
  const auto loads_of = [&](std::int64_t rank) {
    return value_or_throw(worst_loads(config, parallel, {.rank = rank, .num_ranks = 8}));
  };
  const std::vector<double> first = {1, 1, 1, 0, 0, 0, 0, 0}, second = {0, 0, 0, 0, 1, 1, 1, 0};
  // ep is the inner axis: ranks 0, 2 of a stage have experts 0 to 3, ranks 1, 3 the others.
  for (const std::int64_t rank : {0, 2, 4, 6}) CHECK(loads_of(rank) == first);
  for (const std::int64_t rank : {1, 3, 5, 7}) CHECK(loads_of(rank) == second);
  // 2 experts a rank: one more that follows, after the last the first.
  const auto wide = [&](std::int64_t rank) {
    return value_or_throw(
        worst_loads(config, {.dp_shard = 4, .ep = 4}, {.rank = rank, .num_ranks = 4}));
  };
  CHECK(wide(1) == std::vector<double>{0, 0, 1, 1, 1, 0, 0, 0});
  CHECK(wide(3) == std::vector<double>{1, 0, 0, 0, 0, 0, 1, 1});
  CHECK(message_of(worst_loads(config, parallel, {.rank = 8, .num_ranks = 8}).status()) ==
        "rank 8: 0 to 7 are allowed");
}

TEST_CASE("loads are read from a list, and from a line of a run's log", "[moe][scenario]") {
  const ModelConfig config = four_of_eight();
  CHECK(value_or_throw(parse_loads(R"({"version":1,"experts":[1,0.5,1,1,1,1,1,0]})", "f",
                                   config)) == std::vector<double>{1, 0.5, 1, 1, 1, 1, 1, 0});
  StepReport report;
  report.tokens_per_expert = {{1, 2, 3, 4, 5, 6, 7, 0}, {3, 3, 3, 3, 3, 3, 3, 3}};
  CHECK(value_or_throw(parse_loads(to_json_line(report), "f", config)) ==
        std::vector<double>{4, 5, 6, 7, 8, 9, 10, 3});
}

TEST_CASE("loads that are no routing are refused with their place", "[moe][scenario][errors]") {
  CHECK(parse_error(R"({"version":1,"experts":[1,1,1]})") ==
        "loads.json: /experts: 3 loads; one for each of num_experts 8 is needed");
  CHECK(parse_error(R"({"version":1,"experts":[1,1,1,-2,1,1,1,1]})") ==
        "loads.json: /experts/3: is -2; 0 or more is allowed");
  CHECK(parse_error(R"({"version":1,"experts":[0,0,0,0,0,0,0,0]})") ==
        "loads.json: /experts: all loads are 0; tokens need experts");
  CHECK(parse_error(R"({"version":1,"experts":[1,1,1,0,0,0,0,0]})") ==
        "loads.json: /experts: expert 0 has 0.3333 of all loads; at most 1 / router_top_k = 0.25 "
        "is allowed, for a token takes an expert once");
  CHECK_THAT(parse_error(R"({"version":1,"experts":[1e308,1e308,1e308,1e308,1,1,1,1]})"),
             Catch::Contains("the sum of the loads is no finite number"));
  CHECK_THAT(parse_error(R"({"version":2,"experts":[]})"),
             Catch::StartsWith("loads.json: /version"));
  CHECK_THAT(parse_error(R"({"version":1,"experts":[1,1,"a",1,1,1,1,1]})"),
             Catch::StartsWith("loads.json: /experts/2: "));
  CHECK_THAT(parse_error(R"({"version":1,"experts":[1,1,1,1,1,1,1,1],"layers":2})"),
             Catch::Contains("unknown key \"layers\""));
  CHECK_THAT(parse_error("[1,1,1,1,1,1,1,1]"), Catch::StartsWith("loads.json: /: "));
  CHECK(parse_error(R"({"tokens_per_expert":[[1,1,1,1,1,1,1,1],[1,1]]})") ==
        "loads.json: /tokens_per_expert/1: has 2 numbers; the layers before have 8");
  CHECK_THAT(parse_error(R"({"tokens_per_expert":[]})"), Catch::Contains("0 loads; one for each"));
}

TEST_CASE("a config's loads fit its experts, and stand alone", "[moe][scenario][config]") {
  const auto error_of = [](const char* routing) {
    const Json expected = expected_results("softmax");
    Json config{Json::Object{}};
    for (const JsonMember& member : *expected.find("config")->if_object()) {
      config.set(member.key, member.value);
    }
    const Json changes = value_or_throw(parse_json(routing, "changes"));
    for (const JsonMember& member : *changes.if_object()) config.set(member.key, member.value);
    return std::string(message_of(parse_model_config(config.to_string(), "c").status()));
  };
  CHECK(error_of(R"({"forced_loads":[1,1,1,1,1,1,1,1]})").empty());
  CHECK(error_of(R"({"forced_loads":null})").empty());
  CHECK_THAT(error_of(R"({"forced_loads":[1,2]})"),
             Catch::Contains("/forced_loads: 2 loads; one for each of num_experts 8 is needed"));
  CHECK_THAT(error_of(R"({"forced_loads":[]})"), Catch::Contains("/forced_loads: is empty"));
  CHECK_THAT(error_of(R"({"forced_loads":[1,1,1,1,1,1,1,1],"force_balance":true})"),
             Catch::Contains("force_balance and forced_loads are set; only one of them can be"));
}

}  // namespace tessera::testing
