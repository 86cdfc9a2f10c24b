// What it costs to solve for placements of a training step: networks as programs give them, of
// matmuls, sums and norms on a mesh, forward, backward and optimizer.
// Units: seconds of the processor on one thread; the gap in % of the cost.

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>

#include "program/solver/solve_network.h"

namespace tessera {
namespace {

/// Placements of a matrix on one axis, and what a move between two of them takes of its bytes.
enum : int { kR, kS0, kS1, kP, kNumPlacements };
constexpr double kNo = kForbidden;
constexpr double kMoves[kNumPlacements][kNumPlacements] = {
    {0.0, 0.0, 0.0, kNo}, {1.0, 0.0, 0.5, kNo}, {1.0, 0.5, 0.0, kNo}, {2.0, 1.0, 1.0}};

/// Placements of the operands and of the result on one axis.
struct Row {
  int first, second, result;
};
const std::vector<Row> kMatmul = {{kS0, kR, kS0}, {kR, kS1, kS1}, {kS1, kS0, kP},
                                  {kR, kR, kR},   {kP, kR, kP},   {kR, kP, kP}};
const std::vector<Row> kLeftGradient = {
    {kS0, kR, kS0}, {kS1, kS1, kP}, {kR, kS0, kS1}, {kR, kR, kR}, {kP, kR, kP}};
const std::vector<Row> kRightGradient = {
    {kS0, kS0, kP}, {kS1, kR, kS0}, {kR, kS1, kS1}, {kR, kR, kR}, {kR, kP, kP}};
const std::vector<Row> kSum = {{kS0, kS0, kS0}, {kS1, kS1, kS1}, {kR, kR, kR}, {kP, kP, kP}};
const std::vector<Row> kProduct = {{kS0, kS0, kS0}, {kS1, kS1, kS1}, {kR, kR, kR}, {kP, kR, kP}};
const std::vector<Row> kNorm = {{kS0, kS0, kS0}, {kR, kR, kR}};

struct Value {
  int variable = 0;
  std::vector<std::uint16_t> ports;  ///< of the states of the step that makes it
  double bytes = 0.0;
};

class Step {
 public:
  Step(int num_axes, std::uint64_t seed) : num_axes_(num_axes), generator_(seed) {
    num_ports_ = power(kNumPlacements);
    auto table = std::make_shared<CostTable>(CostTable{num_ports_, num_ports_, {}});
    for (int from = 0; from < num_ports_; ++from) {
      for (int to = 0; to < num_ports_; ++to) table->costs.push_back(move(from, to));
    }
    moves_ = table;
  }

  CostNetwork& network() { return network_; }

  Value parameter(double bytes) {
    Value value;
    value.bytes = bytes;
    std::vector<double> costs;
    for (int port = 0; port < num_ports_; ++port) {
      value.ports.push_back(static_cast<std::uint16_t>(port));
      costs.push_back(has_partial(port) ? kForbidden : 0.0);
    }
    value.variable = network_.add_variable(costs);
    parameters_.push_back(value);
    return value;
  }
  const std::vector<Value>& parameters() const { return parameters_; }
  int num_shards(int port) const {
    int shards = 1;
    for (int axis = 0; axis < num_axes_; ++axis, port /= kNumPlacements) {
      if (port % kNumPlacements != kR) shards *= kAxisSize;
    }
    return shards;
  }

  Value op(const std::vector<Row>& rows, const Value& first, const Value& second, double bytes,
           double work) {
    const int num_states = power(static_cast<int>(rows.size()));
    std::vector<std::uint16_t> firsts, seconds;
    Value result;
    result.bytes = bytes;
    std::vector<double> costs;
    for (int state = 0; state < num_states; ++state) {
      int left = state, a = 0, b = 0, c = 0, scale = 1;
      double replicas = 1.0;
      for (int axis = 0; axis < num_axes_; ++axis, scale *= kNumPlacements) {
        const Row& row = rows[static_cast<std::size_t>(left) % rows.size()];
        left /= static_cast<int>(rows.size());
        a += row.first * scale;
        b += row.second * scale;
        c += row.result * scale;
        if (row.first == kR && row.second == kR) replicas *= kAxisSize;
      }
      firsts.push_back(static_cast<std::uint16_t>(a));
      seconds.push_back(static_cast<std::uint16_t>(b));
      result.ports.push_back(static_cast<std::uint16_t>(c));
      costs.push_back(work * replicas);
    }
    result.variable = network_.add_variable(costs);
    use(first, result.variable, firsts);
    if (second.variable != first.variable) use(second, result.variable, seconds);
    return result;
  }

  double size() {
    return std::pow(2.0, static_cast<double>(generator_() % 12)) *
           (1.0 + static_cast<double>(generator_() % 100) / 100.0);
  }
  std::size_t below(std::size_t n) { return generator_() % n; }

 private:
  static constexpr int kAxisSize = 8;

  int power(int base) const {
    int result = 1;
    for (int axis = 0; axis < num_axes_; ++axis) result *= base;
    return result;
  }
  bool has_partial(int port) const {
    for (int axis = 0; axis < num_axes_; ++axis, port /= kNumPlacements) {
      if (port % kNumPlacements == kP) return true;
    }
    return false;
  }
  double move(int from, int to) const {
    double sum = 0.0;
    const double size = 1.0 / std::min(num_shards(from), num_shards(to));
    for (int axis = 0; axis < num_axes_; ++axis, from /= kNumPlacements, to /= kNumPlacements) {
      sum += kMoves[from % kNumPlacements][to % kNumPlacements] * size * (1.0 + 0.3 * axis);
    }
    return sum;
  }
  void use(const Value& value, int variable, const std::vector<std::uint16_t>& ports) {
    network_.add_edge(value.variable, value.ports, variable, ports, moves_, value.bytes);
  }

  const int num_axes_;
  std::mt19937_64 generator_;
  int num_ports_ = 0;
  std::shared_ptr<const CostTable> moves_;
  CostNetwork network_;
  std::vector<Value> parameters_;
};

/// A product with a parameter, an operation with an earlier value, and what they were given.
struct Layer {
  Value input, weight, product, other;
};

/// Rows of an op that not every shape has: batches too small to be cut, and the like.
std::vector<Row> some_of(const std::vector<Row>& rows, Step& step) {
  if (step.below(4) != 0) return rows;
  std::vector<Row> some = rows;
  some.erase(some.begin() + static_cast<std::ptrdiff_t>(step.below(2)));
  return some;
}

/// Forward, backward and optimizer of so many layers, each with a skip to one of the `reach`
/// before.
void build(Step& step, int num_layers, int reach) {
  std::vector<Layer> layers;
  std::vector<Value> values = {step.parameter(100.0)};
  for (int i = 0; i < num_layers; ++i) {
    const double bytes = 10.0 * step.size();
    const std::size_t last = std::min(values.size(), static_cast<std::size_t>(reach));
    const Value other = values[values.size() - 1 - step.below(last)];
    const Value normed =
        step.op(some_of(kNorm, step), values.back(), values.back(), values.back().bytes, 0.1);
    const Value weight = step.parameter(50.0 * step.size());
    const Value product = step.op(some_of(kMatmul, step), normed, weight, bytes, 3.0 * bytes);
    layers.push_back({normed, weight, product, other});
    values.push_back(step.op(i % 3 == 0 ? kProduct : kSum, product, other, bytes, 0.2 * bytes));
  }
  Value gradient = step.op(kNorm, values.back(), values.back(), values.back().bytes, 0.1);
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    const Value through = step.op(kProduct, gradient, layer->other, gradient.bytes, 0.1);
    const Value of_weight =
        step.op(kRightGradient, layer->input, through, layer->weight.bytes, 3.0 * gradient.bytes);
    step.op(kProduct, of_weight, layer->weight, layer->weight.bytes, layer->weight.bytes);
    const Value of_input = step.op(some_of(kLeftGradient, step), through, layer->weight,
                                   layer->input.bytes, 3.0 * gradient.bytes);
    gradient = step.op(kSum, of_input, gradient, layer->input.bytes, 0.1);
  }
}

/// Of so many groups of parameters, each takes so much of what it takes where none is cut.
void add_memory_cap(Step& step, double part, std::size_t num_groups, std::size_t group) {
  CostCap cap;
  for (std::size_t i = group; i < step.parameters().size(); i += num_groups) {
    const Value& value = step.parameters()[i];
    CostCap::Amounts amounts{.variable = value.variable};
    for (const std::uint16_t port : value.ports) {
      amounts.of_state.push_back(value.bytes / step.num_shards(port));
    }
    cap.limit += part * value.bytes;
    cap.amounts.push_back(amounts);
  }
  step.network().add_cap(cap);
}

struct Case {
  const char* name;
  int num_axes, num_layers, reach;
  double cap = 0.0;
  std::size_t num_caps = 1;
};

void measure(const char* name, const CostNetwork& network, const NetworkOptions& options) {
  std::size_t states = 0;
  for (int v = 0; v < network.num_variables(); ++v) {
    states += static_cast<std::size_t>(network.num_states(v));
  }
  const std::clock_t start = std::clock();
  const NetworkSolution solution = value_or_throw(solve_network(network, options));
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  std::printf("%-28s %5d %7zu %9.3f %14.4f %8.4f %s\n", name, network.num_variables(), states,
              seconds, solution.cost, 100.0 * solution.gap(), solution.exact ? "exact" : "");
  std::fflush(stdout);
}

void run(const Case& each) {
  Step step(each.num_axes, 1);
  build(step, each.num_layers, each.reach);
  for (std::size_t group = 0; each.cap > 0.0 && group < each.num_caps; ++group) {
    add_memory_cap(step, each.cap / static_cast<double>(1 + group % 3), each.num_caps, group);
  }
  measure(each.name, step.network(), {});
}

/// No structure at all: each variable beside the next ones right and below, by chance.
CostNetwork grid(int width, int num_states) {
  std::mt19937_64 generator(1);
  CostNetwork network;
  std::vector<std::uint16_t> ports;
  for (int s = 0; s < num_states; ++s) ports.push_back(static_cast<std::uint16_t>(s));
  for (int v = 0; v < width * width; ++v) {
    std::vector<double> costs;
    for (int s = 0; s < num_states; ++s) costs.push_back(static_cast<double>(generator() % 100));
    network.add_variable(costs);
  }
  for (int v = 0; v < width * width; ++v) {
    for (const int next : {v % width + 1 < width ? v + 1 : -1, v + width}) {
      if (next < 0 || next >= width * width) continue;
      CostTable table{num_states, num_states, {}};
      for (int i = 0; i < num_states * num_states; ++i) {
        table.costs.push_back(static_cast<double>(generator() % 100));
      }
      network.add_edge(v, ports, next, ports, std::make_shared<CostTable>(table));
    }
  }
  return network;
}

}  // namespace
}  // namespace tessera

/// bench_solver_network [NAME]: all cases, or those whose names begin so.
int main(int argc, char** argv) {
  const tessera::Case cases[] = {
      {"block, 2 axes", 2, 12, 2},
      {"step, 2 axes", 2, 60, 2},
      {"step, 2 axes, wide", 2, 60, 6},
      {"step, 2 axes, capped", 2, 60, 2, 0.1},
      {"step, 2 axes, 4 caps", 2, 60, 2, 0.1, 4},
      {"step, 3 axes", 3, 60, 2},
      {"step, 3 axes, wide", 3, 60, 6},
      {"mixture, 2 axes, wide", 2, 200, 8},
      {"mixture, 3 axes, wide", 3, 200, 8},
      {"mixture, 3 axes, capped", 3, 200, 3, 0.1},
  };
  const auto is_asked = [&](const char* name) {
    return argc < 2 || std::string(name).rfind(argv[1], 0) == 0;
  };
  std::printf("%-28s %5s %7s %9s %14s %8s\n", "network", "vars", "states", "s", "cost", "gap %");
  for (const tessera::Case& each : cases) {
    if (is_asked(each.name)) tessera::run(each);
  }
  for (const int width : {8, 12, 20}) {
    const std::string name = "grid, " + std::to_string(width);
    if (is_asked(name.c_str())) tessera::measure(name.c_str(), tessera::grid(width, 10), {});
  }
}
