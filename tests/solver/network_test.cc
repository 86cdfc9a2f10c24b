// Networks of costs: the least cost against all states tried one by one, and bounds where that is
// too much.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "program/solver/solve_network.h"

namespace tessera {
namespace {

/// Numbers below n, from the generator alone: alike with all standard libraries.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : generator_(seed) {}
  int below(int n) { return static_cast<int>(generator_() % static_cast<std::uint64_t>(n)); }
  bool one_in(int n) { return below(n) == 0; }
  /// Many zeros, ties and some that are forbidden; magnitudes far apart.
  double cost() {
    if (one_in(8)) return kForbidden;
    if (one_in(3)) return 0.0;
    if (one_in(4)) return std::pow(10.0, below(10) - 3) * (1 + below(1000)) / 7.0;
    return 1 + below(5);
  }
  double finite_cost() {
    const double drawn = cost();
    return drawn == kForbidden ? 0.0 : drawn;
  }

 private:
  std::mt19937_64 generator_;
};

struct Form {
  int max_variables = 6, max_states = 5, max_caps = 0;
  bool forbids = true;
};

std::shared_ptr<const CostTable> random_table(Dice& dice, const Form& form) {
  CostTable table{.rows = 1 + dice.below(4), .columns = 1 + dice.below(4)};
  for (int i = 0; i < table.rows * table.columns; ++i) {
    table.costs.push_back(form.forbids ? dice.cost() : dice.finite_cost());
  }
  return std::make_shared<CostTable>(table);
}

std::vector<std::uint16_t> random_ports(Dice& dice, int num_states, int num_ports) {
  std::vector<std::uint16_t> ports;
  for (int s = 0; s < num_states; ++s) {
    ports.push_back(static_cast<std::uint16_t>(dice.below(num_ports)));
  }
  return ports;
}

void add_random_edge(CostNetwork& network, Dice& dice, std::shared_ptr<const CostTable> table) {
  const int a = dice.below(network.num_variables()), b = dice.below(network.num_variables());
  const double weight = dice.one_in(3) ? dice.below(4) : 1.0;
  network.add_edge(a, random_ports(dice, network.num_states(a), table->rows), b,
                   random_ports(dice, network.num_states(b), table->columns), table, weight);
}

CostCap random_cap(Dice& dice, const CostNetwork& network) {
  CostCap cap;
  double most = 0.0;
  for (int v = 0; v < network.num_variables(); ++v) {
    if (dice.one_in(4)) continue;
    CostCap::Amounts amounts{.variable = v};
    for (int s = 0; s < network.num_states(v); ++s) amounts.of_state.push_back(dice.below(10));
    most += *std::max_element(amounts.of_state.begin(), amounts.of_state.end());
    cap.amounts.push_back(amounts);
  }
  cap.limit = std::floor(most * (1 + dice.below(9)) / 10.0);
  return cap;
}

CostNetwork random_network(std::uint64_t seed, const Form& form) {
  Dice dice(seed);
  CostNetwork network;
  const int n = 1 + dice.below(form.max_variables);
  for (int v = 0; v < n; ++v) {
    std::vector<double> costs;
    const int num_states = 1 + dice.below(form.max_states);
    for (int s = 0; s < num_states; ++s) {
      costs.push_back(form.forbids && dice.one_in(10) ? kForbidden : dice.finite_cost());
    }
    network.add_variable(costs);
  }
  std::vector<std::shared_ptr<const CostTable>> tables;
  for (int i = 0; i < 4; ++i) tables.push_back(random_table(dice, form));
  const int num_edges = dice.below(2 * n + 2);
  for (int i = 0; i < num_edges; ++i) {
    const auto& shared = tables[static_cast<std::size_t>(dice.below(4))];
    add_random_edge(network, dice, dice.one_in(2) ? shared : random_table(dice, form));
  }
  for (int i = form.max_caps > 0 ? 1 + dice.below(form.max_caps) : 0; i > 0; --i) {
    network.add_cap(random_cap(dice, network));
  }
  return network;
}

/// The least cost of all, and with each state of each variable.
struct Tried {
  double least = kForbidden;
  std::vector<std::vector<double>> with;
};
Tried try_all(const CostNetwork& network) {
  Tried tried;
  std::vector<int> states(static_cast<std::size_t>(network.num_variables()));
  for (int v = 0; v < network.num_variables(); ++v) {
    tried.with.emplace_back(static_cast<std::size_t>(network.num_states(v)), kForbidden);
  }
  for (std::size_t v = 0; v < states.size();) {
    const double cost = network.cost_of(states);
    tried.least = std::min(tried.least, cost);
    for (std::size_t w = 0; w < states.size(); ++w) {
      double& with = tried.with[w][static_cast<std::size_t>(states[w])];
      with = std::min(with, cost);
    }
    for (v = 0; v < states.size(); ++v) {
      if (++states[v] < network.num_states(static_cast<int>(v))) break;
      states[v] = 0;
    }
  }
  return tried;
}

bool is_near(double x, double y, double scale) {
  return x == y || std::abs(x - y) <= 1e-9 * std::max(1e-3, std::abs(scale));
}

double second_best(const Tried& tried, const std::vector<int>& states, std::size_t v) {
  double least = kForbidden;
  for (std::size_t s = 0; s < tried.with[v].size(); ++s) {
    if (static_cast<int>(s) != states[v]) least = std::min(least, tried.with[v][s]);
  }
  return least - tried.least;
}

/// What is wrong with a solution, empty if nothing is.
std::string fault_of(const CostNetwork& network, const NetworkSolution& solution,
                     const Tried& tried, bool must_be_exact) {
  const double cost = network.cost_of(solution.states);
  if (!is_near(cost, solution.cost, cost)) return "its cost is not that of its states";
  if (solution.bound > tried.least + 1e-9 * tried.least) return "the bound is above the least cost";
  if (solution.bound > solution.cost) return "the bound is above the cost";
  if (solution.exact && !is_near(solution.cost, tried.least, tried.least)) return "not the least";
  if (must_be_exact && !solution.exact) return "not exact";
  return "";
}

std::string fault_of_next(const NetworkSolution& solution, const Tried& tried, bool must_be_exact) {
  for (std::size_t v = 0; v < solution.states.size(); ++v) {
    const double expected = second_best(tried, solution.states, v);
    const bool is_exact = solution.next_kind[v] == NextKind::kExact;
    if (must_be_exact && !is_exact) return "a second choice is not exact";
    if (is_exact && !is_near(solution.next_best[v], expected, tried.least + expected)) {
      return "a second choice is not the least: " + std::to_string(solution.next_best[v]) +
             ", not " + std::to_string(expected) + ", of variable " + std::to_string(v);
    }
    if (solution.next_best[v] < expected - 1e-9 * (tried.least + expected)) {
      return "a second choice is below the least";
    }
  }
  return "";
}

std::string judged(const CostNetwork& network, const NetworkOptions& options, bool is_next_exact,
                   bool must_be_exact = true) {
  const Tried tried = try_all(network);
  const StatusOr<NetworkSolution> solution = solve_network(network, options);
  if (!solution.ok()) {
    return tried.least == kForbidden ? "" : std::string(message_of(solution.status()));
  }
  if (tried.least == kForbidden) return "found states where none are allowed";
  const std::string fault = fault_of(network, *solution, tried, must_be_exact);
  return fault.empty() ? fault_of_next(*solution, tried, is_next_exact) : fault;
}

TEST_CASE("Random networks are solved exactly, second choices included", "[solver][network]") {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const std::string fault = judged(random_network(seed, {}), {}, /*is_next_exact=*/true);
    if (!fault.empty()) FAIL("seed " << seed << ": " << fault);
  }
}

TEST_CASE("Caps are kept at least cost", "[solver][network]") {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const CostNetwork network = random_network(seed, {.max_caps = 3, .forbids = seed % 2 == 0});
    const std::string fault = judged(network, {}, /*is_next_exact=*/false);
    if (!fault.empty()) FAIL("seed " << seed << ": " << fault);
  }
}

TEST_CASE("Networks too wide for their tables are solved below bounds", "[solver][network]") {
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const CostNetwork network = random_network(seed, {.max_variables = 8, .max_states = 4});
    const std::string fault = judged(network, {.max_table = 1 + static_cast<int>(seed % 5)},
                                     /*is_next_exact=*/false);
    if (!fault.empty()) FAIL("seed " << seed << ": " << fault);
  }
}

TEST_CASE("Little work leaves states and a bound", "[solver][network]") {
  int found = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const CostNetwork network = random_network(seed, {.forbids = false});
    const NetworkOptions options{.max_table = 2, .max_work = 1 + static_cast<int>(seed)};
    const std::string fault = judged(network, options, false, /*must_be_exact=*/false);
    if (!fault.empty()) FAIL("seed " << seed << ": " << fault);
    found += solve_network(network, options).ok() ? 1 : 0;
  }
  CHECK(found == 500);
}

/// width x height variables, each linked with the next ones right and below.
CostNetwork grid(int width, int height, int num_states, std::uint64_t seed) {
  Dice dice(seed);
  CostNetwork network;
  std::vector<std::uint16_t> ports;
  for (int s = 0; s < num_states; ++s) ports.push_back(static_cast<std::uint16_t>(s));
  for (int v = 0; v < width * height; ++v) {
    std::vector<double> costs;
    for (int s = 0; s < num_states; ++s) costs.push_back(dice.below(100));
    network.add_variable(costs);
  }
  const auto link = [&](int a, int b) {
    auto table = std::make_shared<CostTable>(CostTable{.rows = num_states, .columns = num_states});
    for (int i = 0; i < num_states * num_states; ++i) table->costs.push_back(dice.below(100));
    network.add_edge(a, ports, b, ports, table);
  };
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const int v = y * width + x;
      if (x + 1 < width) link(v, v + 1);
      if (y + 1 < height) link(v, v + width);
    }
  }
  return network;
}

/// From all variables at 0, each in turn to its best state.
double descent(const CostNetwork& network) {
  std::vector<int> states(static_cast<std::size_t>(network.num_variables()));
  double cost = network.cost_of(states);
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    for (int v = 0; v < network.num_variables(); ++v) {
      for (int s = 0; s < network.num_states(v); ++s) {
        std::vector<int> trial = states;
        trial[static_cast<std::size_t>(v)] = s;
        if (network.cost_of(trial) >= cost) continue;
        states = trial;
        cost = network.cost_of(trial);
        is_changed = true;
      }
    }
  }
  return cost;
}

TEST_CASE("A wide grid has a bound, and a cost below that of a descent", "[solver][network]") {
  const CostNetwork network = grid(12, 12, 10, 7);
  const NetworkSolution solution =
      value_or_throw(solve_network(network, {.max_work = 1'000'000'000}));
  CAPTURE(solution.cost, solution.bound);
  CHECK(network.cost_of(solution.states) == solution.cost);
  CHECK(solution.cost < descent(network));
  CHECK(solution.bound <= solution.cost);
  CHECK(solution.gap() < 0.1);
}

TEST_CASE("The same is found again, whatever the order of edges", "[solver][network]") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const CostNetwork network = grid(5, 4, 4, seed);
    CostNetwork turned;
    for (int v = 0; v < network.num_variables(); ++v) turned.add_variable(network.costs_of(v));
    for (auto edge = network.edges().rbegin(); edge != network.edges().rend(); ++edge) {
      turned.add_edge(*edge);
    }
    const NetworkSolution first = value_or_throw(solve_network(network));
    const NetworkSolution second = value_or_throw(solve_network(network));
    CHECK(first.states == second.states);
    CHECK(first.next_best == second.next_best);
    CHECK(value_or_throw(solve_network(turned)).cost == first.cost);
  }
}

TEST_CASE("No time leaves valid states and a bound", "[solver][network]") {
  const CostNetwork network = grid(12, 12, 10, 3);
  const NetworkSolution solution = value_or_throw(solve_network(network, {.time_limit_s = 0.0}));
  CHECK(network.cost_of(solution.states) == solution.cost);
  CHECK(solution.bound <= solution.cost);
}

TEST_CASE("Given states are a start", "[solver][network]") {
  const CostNetwork network = grid(12, 12, 10, 3);
  const NetworkSolution best = value_or_throw(solve_network(network, {.max_work = 300'000'000}));
  const NetworkOptions options{.time_limit_s = 0.0, .start = best.states};
  CHECK(value_or_throw(solve_network(network, options)).cost <= best.cost);
}

std::string error_of(const CostNetwork& network, const NetworkOptions& options = {}) {
  const StatusOr<NetworkSolution> solution = solve_network(network, options);
  return solution.ok() ? "" : solution.status().ToString();
}

TEST_CASE("A network of nothing costs nothing", "[solver][network]") {
  CostNetwork network;
  network.add_cap({{}, 1.0});
  const NetworkSolution solution = value_or_throw(solve_network(network));
  CHECK(solution.states.empty());
  CHECK(solution.exact);
  CHECK(solution.cost == 0.0);
}

TEST_CASE("Networks that cannot be solved say why", "[solver][network]") {
  const auto equal =
      std::make_shared<CostTable>(CostTable{2, 2, {0.0, kForbidden, kForbidden, 0.0}});
  const auto unequal =
      std::make_shared<CostTable>(CostTable{2, 2, {kForbidden, 0.0, 0.0, kForbidden}});
  CostNetwork network;
  for (int v = 0; v < 3; ++v) network.add_variable({0.0, 1.0});
  for (int v = 0; v < 2; ++v) network.add_edge(v, {0, 1}, v + 1, {0, 1}, equal);
  CHECK(error_of(network).empty());
  network.add_cap({{{0, {3.0, 2.0}}, {2, {4.0, 2.0}}}, 3.5});
  CHECK(error_of(network) ==
        "RESOURCE_EXHAUSTED: cost network: cap 0 allows 3.5, but no states have less than 4");
  network.add_edge(0, {0, 1}, 2, {0, 1}, unequal);
  CHECK(error_of(network) == "FAILED_PRECONDITION: cost network: no states are allowed together");
  network.add_cost(1, 0, kForbidden);
  CHECK(error_of(network) ==
        "FAILED_PRECONDITION: cost network: no states are allowed together: variable 0 has none "
        "that its edges allow");
}

TEST_CASE("Networks that are malformed are refused", "[solver][network]") {
  const auto table = std::make_shared<CostTable>(CostTable{1, 2, {0.0, 1.0}});
  const auto refusal = [&](const auto& change) {
    CostNetwork network;
    network.add_variable({0.0, 1.0});
    network.add_variable({0.0});
    change(network);
    return error_of(network);
  };
  CHECK(refusal([](CostNetwork& network) { network.add_variable({-1.0}); }) ==
        "INVALID_ARGUMENT: cost network: variable 2 has -1; allowed are numbers >= 0");
  CHECK(refusal([&](CostNetwork& network) {
          network.add_edge(0, {0, 0}, 2, {0}, table);
        }) == "INVALID_ARGUMENT: cost network: edge 0 names variable 2; there are 2");
  CHECK(refusal([&](CostNetwork& network) { network.add_edge(0, {0}, 1, {0}, table); }) ==
        "INVALID_ARGUMENT: cost network: edge 0 has ports of 1 states, but its variable has 2");
  CHECK(refusal([&](CostNetwork& network) {
          network.add_edge(0, {0, 1}, 1, {0}, table);
        }) == "INVALID_ARGUMENT: cost network: edge 0 has port 1; its table has 1");
  CHECK(refusal([&](CostNetwork& network) {
          network.add_edge(0, {0, 0}, 1, {0}, nullptr);
        }) == "INVALID_ARGUMENT: cost network: edge 0 has no table");
  CHECK(refusal([](CostNetwork& network) {
          network.add_cap({{{0, {1.0}}}, 1.0});
        }) ==
        "INVALID_ARGUMENT: cost network: cap 0 has amounts of 1 states of variable 0, which has 2");
}

}  // namespace
}  // namespace tessera
