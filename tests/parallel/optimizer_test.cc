// Optimizers over parameters of several meshes, groups by name, frozen parameters, bf16 state, and
// the shapes of the learning rate.
#include "parallel/optimizer.h"

#include <cmath>

#include "dtensor/factories.h"
#include "parallel/learning_rate.h"
#include "runtime/world.h"

namespace tessera::testing {
namespace {

using Groups = std::vector<ParamGroup>;
const std::vector<std::string> kNames = {"layers.0.norm.weight", "layers.0.wq.weight", "lm_head"};

std::string error_of_groups(const std::vector<std::string>& names, const Groups& groups) {
  return std::string(message_of(assign_groups(names, groups).status()));
}
std::string error_of(const Groups& groups) { return error_of_groups(kNames, groups); }

constexpr double kLr = 0.1, kDecay = 0.2;
double start_value(std::int64_t i) { return 1.0 + 0.25 * static_cast<double>(i); }
double gradient(std::int64_t i) { return 0.5 - 0.125 * static_cast<double>(i); }

Array values_of(std::int64_t size, double (*value)(std::int64_t)) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < size; ++i) values.push_back(value(i));
  return Array::from_values({size}, DType::kF64, values);
}

/// Parameters of 6 elements on a mesh of 2 ranks and on the same ranks as 2x1, and what their whole
/// values are after `num_steps`.
struct Outcome {
  std::vector<std::vector<double>> values;
  std::vector<NamedTensor> state;
  bool state_is_placed_alike = true;
};
Outcome run_steps(World& world, const OptimizerConfig& config, int num_steps,
                  const std::string& frozen = {}) {
  Runtime runtime(world);
  ParameterSet parameters(runtime, DType::kF64);
  const Mesh line = value_or_throw(Mesh::make(Shape{2}, {"dp"}));
  const Mesh grid = value_or_throw(Mesh::make(Shape{2, 1}, {"efsdp", "ep"}));
  parameters.add({.name = "dense.a", .shape = {6}, .mesh = line, .used = {Shard{0}}});
  parameters.add({.name = "experts.b", .shape = {5}, .mesh = grid, .used = {Shard{0}, Shard{0}}});
  parameters.add({.name = "norm.c", .shape = {4}, .mesh = line, .used = {Replicate{}}});
  for (Parameter& each : parameters.all()) {
    DTensor stored = each.stored().detach();
    const std::int64_t size = stored.size(0);
    copy_(stored, distribute(runtime, values_of(size, start_value), stored.spec()));
    each.stored().set_grad(distribute(runtime, values_of(size, gradient), stored.spec()));
    if (each.name() == frozen) each.stored().set_requires_grad(false);
  }
  Optimizer optimizer(parameters, config);
  Outcome outcome;
  for (int step = 0; step < num_steps; ++step) optimizer.step(kLr, 1.0);
  for (const NamedTensor& state : optimizer.state_tensors()) {
    const std::string name = state.name.substr(10, state.name.rfind('.') - 10);
    outcome.state_is_placed_alike &=
        state.tensor.spec().layout() == parameters.find(name)->stored().spec().layout();
    outcome.state.push_back({state.name, {}});
  }
  for (Parameter& each : parameters.all()) {
    outcome.values.push_back(full_tensor(each.stored()).to_vector());
  }
  return outcome;
}
std::vector<Outcome> on_two_ranks(const OptimizerConfig& config, int num_steps,
                                  const std::string& frozen = {}) {
  std::vector<Outcome> outcomes(2);
  throw_if_error(run_ranks(2, {}, [&](World& world) {
    outcomes[static_cast<std::size_t>(world.rank())] = run_steps(world, config, num_steps, frozen);
  }));
  return outcomes;
}

/// Two AdamW or Adam steps, or SGD with momentum 0.9, with equal gradients, by the formulas.
double by_formula(const OptimizerConfig& config, double p, double g) {
  double m = 0.0, v = 0.0;
  for (int step = 1; step <= 2; ++step) {
    const bool decoupled = config.kind == OptimizerKind::kAdamW;
    const double total = decoupled ? g : g + kDecay * p;
    if (config.kind == OptimizerKind::kSgd) {
      m = config.momentum * m + total;
      const bool nesterov = config.momentum_form == Momentum::kNesterov;
      p -= kLr * (nesterov ? total + config.momentum * m : m);
      continue;
    }
    m = config.beta1 * m + (1 - config.beta1) * total;
    v = config.beta2 * v + (1 - config.beta2) * total * total;
    const double mean = m / (1 - std::pow(config.beta1, step));
    const double root = std::sqrt(v / (1 - std::pow(config.beta2, step)));
    if (decoupled) p *= 1 - kLr * kDecay;
    p -= kLr * mean / (root + config.eps);
  }
  return p;
}

}  // namespace

TEST_CASE("groups take names by the first pattern that matches", "[parallel][optimizer][C66]") {
  const Groups groups = {{.pattern = "norm"}, {.pattern = "^layers"}, {.pattern = ""}};
  CHECK(*assign_groups(kNames, groups) == std::vector<std::size_t>{0, 1, 2});
  CHECK(*assign_groups(kNames, {}) == std::vector<std::size_t>{0, 0, 0});
}

TEST_CASE("groups that leave a pattern or a parameter over are refused by name",
          "[parallel][optimizer][C66]") {
  CHECK(error_of({{.pattern = ""}, {.pattern = "gate"}}) ==
        "param_groups: \"gate\" matches no trainable parameter");
  CHECK_THAT(error_of({{.pattern = "layers"}, {.pattern = "wq"}, {.pattern = ""}}),
             Catch::Contains("before \"wq\" take every parameter"));
  CHECK_THAT(error_of({{.pattern = "layers"}}),
             Catch::Contains("parameter lm_head is in no group"));
  CHECK_THAT(error_of({{.pattern = "(norm"}}),
             Catch::Contains("\"(norm\" is no regular expression"));
}

TEST_CASE("no pattern takes long, much memory or the stack", "[parallel][optimizer]") {
  // Nested repeats take exponential time where a matcher goes back, and deep nesting its stack.
  const std::vector<std::string> names = {std::string(5'000, 'a') + "?"};
  CHECK_THAT(error_of_groups(names, {{.pattern = "^(([a-z0-9._])+)+$!"}}),
             Catch::Contains("matches no trainable parameter"));
  CHECK_THAT(error_of_groups(names, {{.pattern = "(a?){1000}(a){1000}!"}}),
             Catch::Contains("\"(a?)"));
  const std::string open(100'000, '('), close(100'000, ')');
  CHECK(error_of_groups(names, {{.pattern = open + "a" + close}}).empty());
  const std::string text = error_of_groups(names, {{.pattern = open}});
  CHECK_THAT(text, Catch::Contains("is no regular expression"));
  CHECK(text.size() < 1'000);
  CHECK_THAT(error_of_groups(names, {{.pattern = "\x1b[31m("}}), !Catch::Contains("\x1b"));
}

TEST_CASE("one step over parameters of two meshes follows the formulas on every shard",
          "[parallel][optimizer][C53]") {
  OptimizerConfig config{.weight_decay = kDecay};
  config.kind = GENERATE(OptimizerKind::kAdamW, OptimizerKind::kAdam, OptimizerKind::kSgd);
  if (config.kind == OptimizerKind::kSgd) {
    config.momentum = 0.9;
    config.momentum_form = GENERATE(Momentum::kPlain, Momentum::kNesterov);
  }
  for (const Outcome& rank : on_two_ranks(config, 2)) {
    CHECK(rank.state_is_placed_alike);
    CHECK(rank.state.size() == (config.kind == OptimizerKind::kSgd ? 3 : 6));
    CHECK(rank.state[0].name == "optimizer.dense.a.first");
    for (const std::vector<double>& values : rank.values) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto at = static_cast<std::int64_t>(i);
        CHECK(values[i] ==
              Approx(by_formula(config, start_value(at), gradient(at))).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("a frozen parameter keeps its values and has no state", "[parallel][optimizer][C64]") {
  for (const Outcome& rank :
       on_two_ranks({.groups = {{.pattern = "dense|norm"}}}, 2, "experts.b")) {
    CHECK(rank.state.size() == 4);
    CHECK(rank.values[1] == values_of(5, start_value).to_vector());
    CHECK(rank.values[0] != values_of(6, start_value).to_vector());
  }
}

TEST_CASE("a group's own rate and decay count for its parameters alone",
          "[parallel][optimizer][C66]") {
  OptimizerConfig config{.kind = OptimizerKind::kSgd, .weight_decay = kDecay};
  config.groups = {{.pattern = "norm", .weight_decay = 0.0},
                   {.pattern = "experts", .lr_scale = 0.5},
                   {.pattern = ""}};
  for (const Outcome& rank : on_two_ranks(config, 1)) {
    const double p = start_value(1), g = gradient(1);
    CHECK(rank.values[0][1] == Approx(p - kLr * (g + kDecay * p)));
    CHECK(rank.values[1][1] == Approx(p - 0.5 * kLr * (g + kDecay * p)));
    CHECK(rank.values[2][1] == Approx(p - kLr * g));
  }
}

TEST_CASE("state in BF16 stays near the full one, and other types are refused",
          "[parallel][optimizer]") {
  const Outcome full = on_two_ranks({}, 3)[0];
  const Outcome half = on_two_ranks({.state_dtype = DType::kBF16}, 3)[0];
  CHECK(half.values[0] != full.values[0]);
  for (std::size_t i = 0; i < full.values[0].size(); ++i) {
    CHECK(half.values[0][i] == Approx(full.values[0][i]).margin(3 * kLr * 0.01));
  }
  CHECK_THROWS_WITH(on_two_ranks({.state_dtype = DType::kF32}, 1),
                    Catch::Contains("state_dtype F32 for parameter dense.a of F64"));
}

TEST_CASE("the learning rate falls in the shape asked for, to the least factor",
          "[parallel][schedule]") {
  LearningRate rate = {.base = 2.0, .steps = 9, .warmup = 2, .decay_ratio = 4.0 / 9.0};
  rate.min_factor = 0.25;
  const auto expect = [&](DecayShape shape, double (*fall)(double)) {
    rate.shape = shape;
    CHECK(rate.at(0) == Approx(1.0));
    CHECK(rate.at(5) == Approx(2.0));
    for (int done = 1; done <= 3; ++done) {
      CHECK(rate.at(5 + done) == Approx(2.0 * (0.25 + 0.75 * fall(done / 4.0))));
    }
  };
  expect(DecayShape::kLinear, [](double done) { return 1.0 - done; });
  expect(DecayShape::kSqrt, [](double done) { return 1.0 - std::sqrt(done); });
  expect(DecayShape::kCosine, [](double done) { return 0.5 + 0.5 * std::cos(M_PI * done); });
  CHECK(!rate.warning());
}

TEST_CASE("warm-up and decay that exceed the steps are cut, with a warning",
          "[parallel][schedule]") {
  const LearningRate rate = {.base = 1.0, .steps = 10, .warmup = 6, .decay_ratio = 0.8};
  CHECK_THAT(rate.warning().value_or(""), Catch::Contains("warmup 6 and decay 8"));
  CHECK(rate.at(6) == Approx(1.0));
  CHECK(rate.at(9) == Approx(0.25));
  const LearningRate long_warmup = {.base = 1.0, .steps = 4, .warmup = 8};
  CHECK_THAT(long_warmup.warning().value_or(""), Catch::Contains("warmup 8 is more than the 4"));
  CHECK(long_warmup.at(3) == Approx(1.0));
}

}  // namespace tessera::testing
