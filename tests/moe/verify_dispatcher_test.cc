// Dispatchers by name, and the proof of one: those of the library pass it, defects do not.
#include "moe/train/verify_dispatcher.h"

#include "dtensor/ops.h"
#include "moe/layer/dispatcher_table.h"
#include "moe/layer/simulated_peers.h"
#include "moe/train/config.h"
#include "testing/ranks.h"

namespace tessera::testing {
namespace {

using Verdict = DispatcherCheck::Verdict;

/// all_to_all's route with one thing changed.
class HalvedRoute final : public Route {
 public:
  explicit HalvedRoute(std::unique_ptr<Route> route) : route_(std::move(route)) {}
  void begin(const DTensor& x_TD) override { route_->begin(x_TD); }
  ExpertRows arrive() override { return route_->arrive(); }
  void begin_return(const DTensor& y_RD, const DTensor& weights_TK) override {
    route_->begin_return(y_RD, mul(weights_TK, 0.5));
  }
  DTensor finish_return() override { return route_->finish_return(); }

 private:
  std::unique_ptr<Route> route_;
};

enum class Defect : std::uint8_t { kHalvesWeights, kForgetsCounts, kDeclinesAll };
class DefectiveDispatcher final : public Dispatcher {
 public:
  DefectiveDispatcher(const DispatcherSetting& setting, Defect defect)
      : Dispatcher(setting), defect_(defect) {
    DispatcherSetting right = setting;
    right.config.dispatcher = "all_to_all";
    right_ = value_or_throw(Dispatcher::make(right));
  }
  RoutePlan plan(const RoutedTokens& tokens) const override {
    if (defect_ == Defect::kDeclinesAll) throw Error(unimplemented(layer() + ": not yet"));
    RoutePlan plan = right_->plan(tokens);
    if (defect_ != Defect::kHalvesWeights) return plan;
    for (std::unique_ptr<Route>& route : plan.routes) {
      route = std::make_unique<HalvedRoute>(std::move(route));
    }
    return plan;
  }
  /// Simulated counts are zeros where they are forgotten.
  void arrive(const SimulatedPeers& peers, const CollectiveCall& call,
              std::span<const std::int64_t> ranks) const override {
    if (defect_ != Defect::kForgetsCounts) right_->arrive(peers, call, ranks);
  }

 private:
  Defect defect_;
  std::unique_ptr<Dispatcher> right_;
};

Status add_defective(const std::string& name, Defect defect) {
  return add_dispatcher(
      {.name = name,
       .make = [defect](const DispatcherSetting& setting) -> StatusOr<std::unique_ptr<Dispatcher>> {
         return std::make_unique<DefectiveDispatcher>(setting, defect);
       }});
}

}  // namespace

TEST_CASE("every dispatcher of the library is proven under every option", "[moe][dispatch]") {
  for (const char* name : {"all_to_all", "all_gather", "hierarchical", "peer"}) {
    const DispatcherReport report = value_or_throw(verify_dispatcher(name));
    CAPTURE(to_text(report));
    CHECK(report.count(Verdict::kRight) == 16);
    CHECK(report.proven());
  }
}

TEST_CASE("the proof of a dispatcher finds wrong values, wrong simulations, and nothing at all",
          "[moe][dispatch]") {
  throw_if_error(add_defective("halved", Defect::kHalvesWeights));
  throw_if_error(add_defective("forgetful", Defect::kForgetsCounts));
  throw_if_error(add_defective("empty", Defect::kDeclinesAll));
  const auto first_of = [](const char* name, std::int64_t right) {
    const DispatcherReport report = value_or_throw(verify_dispatcher(name));
    CHECK(report.count(Verdict::kRight) == right);
    CHECK_FALSE(report.proven());
    return report.checks[0].setting + ": " + report.checks[0].why;
  };
  CHECK_THAT(first_of("halved", 0), Catch::StartsWith("dp_shard 2, ep 2: exact sizes: the loss of "
                                                      "step 0 is "));
  // Where sizes are fixed no count is needed.
  CHECK_THAT(first_of("forgetful", 8),
             Catch::StartsWith("dp_shard 2, ep 2: exact sizes: rank 0, simulated: event "));
  CHECK_THAT(first_of("empty", 0), Catch::StartsWith("dp_shard 2, ep 2: exact sizes: rank ") &&
                                       Catch::EndsWith(": layers.1.moe.routed_experts: not yet"));
}

TEST_CASE("a dispatcher is known by a name of its own", "[moe][dispatch]") {
  const auto make = [](const DispatcherSetting& setting) -> StatusOr<std::unique_ptr<Dispatcher>> {
    return unimplemented(setting.layer + ": nothing is made");
  };
  const auto refused = [&](const std::string& name) {
    return std::string(message_of(add_dispatcher({.name = name, .make = make})));
  };
  CHECK(refused("peer") == "dispatcher \"peer\": the name is in use");
  CHECK(refused("Two Words") ==
        "dispatcher \"Two Words\": a name is made of lower-case letters, digits and underscores");
  CHECK(message_of(add_dispatcher({.name = "unmade", .make = nullptr})) ==
        "dispatcher \"unmade\" has no maker");
  CHECK(refused("own_way") == "");
  CHECK(find_dispatcher("own_way") != nullptr);
  const auto read = [](const char* text) { return parse_parallel_config(text, "plan"); };
  CHECK(value_or_throw(read(R"({"dispatcher": "own_way"})")).dispatch.dispatcher == "own_way");
  CHECK_THAT(std::string(message_of(read(R"({"dispatcher": "pigeon"})").status())),
             Catch::Contains("\"pigeon\" is none of \"all_to_all\", \"all_gather\", "
                             "\"hierarchical\", \"peer\""));
  CHECK_THAT(std::string(message_of(verify_dispatcher("pigeon").status())),
             Catch::StartsWith("dispatcher \"pigeon\" is none of all_to_all, all_gather, "));
}

}  // namespace tessera::testing
