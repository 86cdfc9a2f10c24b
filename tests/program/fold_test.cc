// Flat programs as repeats: what is written out again is the program, and layers are one body.
#include "program/fold.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <random>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "program/program_json.h"
#include "program/step_names.h"
#include "program/unfold.h"
#include "tests/support/builtin_ops.h"

namespace tessera {
namespace {

/// What steps make is called v0, v1, … in their order.
Program renamed(Program program) {
  absl::flat_hash_map<std::string, std::string> names;
  for (AnyStep& step : program.steps) {
    visit_names(
        step,
        [&](std::string& name) {
          const auto found = names.find(name);
          if (found != names.end()) name = found->second;
        },
        [&](ProgramValue& value) {
          const std::string name = "v" + std::to_string(names.size());
          names[value.name] = name;
          value.name = name;
        });
  }
  return program;
}

/// Steps as written, bodies once.
std::int64_t num_steps(const std::vector<AnyStep>& steps) {
  std::int64_t count = 0;
  for (const AnyStep& step : steps) {
    ++count;
    if (const auto* repeat = std::get_if<RepeatStep>(&step.what)) count += num_steps(repeat->steps);
  }
  return count;
}

/// Empty where the folded program is read as it was written, and is the program when written out.
std::string difference_when_folded(const Program& program, const Program& folded) {
  const std::string text = write_program(folded);
  const StatusOr<Program> read = read_program(text, "folded", testing::builtin_ops());
  if (!read.ok()) return std::string(message_of(read.status())) + "\n" + text;
  if (*read != folded) return "what is read is another program\n" + text;
  const StatusOr<Program> flat = unfold(*read);
  if (!flat.ok()) return std::string(message_of(flat.status())) + "\n" + text;
  const Program a = renamed(program), b = renamed(*flat);
  if (a == b) return "";
  return write_program(a) + "\nis not\n" + write_program(b) + "\nof\n" + text;
}

/// Writes flat programs of one shape of value.
class FlatProgram {
 public:
  FlatProgram() {
    program_.name = "flat";
    program_.source.kind = "program";
    program_.ranks = 2;
    program_.meshes.push_back(
        {.name = "tp", .mesh = value_or_throw(Mesh::make(Shape{2}, {"tp"})), .stage = {}});
  }
  ProgramValue value(const std::string& name) const {
    Layout layout;
    layout.dims.resize(2);
    layout.partial.resize(1);
    return {.name = name, .global_shape = {4, 4}, .mesh = 0, .layout = layout};
  }
  std::string declare(const std::string& name, ValueRole role) {
    ProgramValue made = value(name);
    made.role = role;
    program_.values.push_back(std::move(made));
    return name;
  }
  std::string call(const std::string& op, std::vector<std::string> args, const std::string& module,
                   StepPhase phase = StepPhase::kForward) {
    CallStep step{.op = op, .args = {}, .attrs = {}, .out = {}, .row = {}};
    for (std::string& each : args) step.args.push_back(Json(std::move(each)));
    std::string name = op + '.' + std::to_string(next_++);
    step.out.push_back(value(name));
    program_.steps.push_back(
        {std::move(step), {.module = module, .site = "a.cc:1", .phase = phase}});
    return name;
  }
  void free(std::vector<std::string> names) {
    program_.steps.push_back({FreeStep{std::move(names)}});
  }
  const Program& program() const { return program_; }

 private:
  Program program_;
  int next_ = 0;
};

/// `layers` blocks x + (x · w) from layer `first` on, then back through them: a block's backward
/// reads its weight, what came into it and what came from behind.
Program trained(int layers, int first) {
  FlatProgram flat;
  for (int i = first; i < first + layers; ++i) {
    flat.declare(absl::StrFormat("layers.%d.w", i), ValueRole::kParameter);
  }
  const std::string input = flat.declare("x", ValueRole::kInput);
  std::vector<std::string> entered = {flat.call("relu", {input}, "embed")};
  for (int i = first; i < first + layers; ++i) {
    const std::string module = absl::StrFormat("layers.%d", i);
    const std::string y = flat.call("matmul", {entered.back(), module + ".w"}, module + ".mlp");
    entered.push_back(flat.call("add", {entered.back(), y}, module));
    flat.free({y});
  }
  std::string grad = flat.call("neg", {entered.back()}, "loss");
  for (int i = layers; i-- > 0;) {
    const std::string module = absl::StrFormat("layers.%d", first + i);
    const std::string& before = entered[static_cast<std::size_t>(i)];
    const auto back = StepPhase::kBackward;
    const std::string of_w = flat.call("matmul", {before, grad}, module + ".mlp", back);
    const std::string of_x = flat.call("matmul", {grad, module + ".w"}, module + ".mlp", back);
    const std::string sum = flat.call("add", {grad, of_x}, module, back);
    flat.free({of_x, grad});
    grad = sum;
    flat.call("sub", {module + ".w", of_w}, module, back);
  }
  return flat.program();
}

TEST_CASE("layers are one body, forward and backward, by their own numbers", "[program][fold]") {
  const int first = GENERATE(0, 3, 58);
  const Program program = trained(8, first);
  const Program folded = fold(program);
  CHECK(difference_when_folded(program, folded) == "");
  // relu, the forward repeat with 3 steps, neg, and the backward one with 5; a round more of each
  // may stand alone at either end.
  REQUIRE(program.steps.size() == 1 + 8 * 3 + 1 + 8 * 5);
  CHECK(num_steps(folded.steps) <= 2 + 2 + 2 * (3 + 5));
  std::vector<const RepeatStep*> repeats;
  for (const AnyStep& step : folded.steps) {
    if (const auto* repeat = std::get_if<RepeatStep>(&step.what)) repeats.push_back(repeat);
  }
  REQUIRE(repeats.size() == 2);
  CHECK(repeats[0]->count >= 7);
  CHECK(repeats[0]->by == 1);
  CHECK(repeats[0]->as == "layers");
  CHECK(repeats[1]->count >= 7);
  CHECK(repeats[1]->by == -1);
}

TEST_CASE("rounds that begin the next layer's work name its modules by numbers beside theirs",
          "[program][fold]") {
  FlatProgram flat;
  for (int i = 0; i < 9; ++i) {
    flat.declare(absl::StrFormat("layers.%d.w", i), ValueRole::kParameter);
  }
  std::string x = flat.declare("x", ValueRole::kInput);
  std::string fetched = flat.call("neg", {"layers.0.w"}, "layers.0");
  for (int i = 0; i < 8; ++i) {
    const std::string module = absl::StrFormat("layers.%d", i),
                      next = absl::StrFormat("layers.%d", i + 1);
    const std::string y = flat.call("matmul", {x, fetched}, module);
    fetched = flat.call("neg", {next + ".w"}, next);
    x = flat.call("add", {x, y}, module);
  }
  const Program folded = fold(flat.program());
  CHECK(difference_when_folded(flat.program(), folded) == "");
  const auto repeat = std::ranges::find_if(folded.steps, [](const AnyStep& step) {
    return std::holds_alternative<RepeatStep>(step.what);
  });
  REQUIRE(repeat != folded.steps.end());
  const auto& rounds = std::get<RepeatStep>(repeat->what);
  CHECK(rounds.count >= 7);
  std::vector<std::string> modules;
  for (const AnyStep& step : rounds.steps) modules.push_back(step.origin.module);
  CHECK(std::ranges::count(modules, "layers.*") == 2);
  CHECK(std::ranges::count(modules, "layers.*+1") == 1);
}

TEST_CASE("a list of steps without equal runs stays as it is", "[program][fold]") {
  FlatProgram flat;
  std::string x = flat.declare("x", ValueRole::kInput);
  for (const char* op : {"relu", "neg", "exp", "abs", "sqrt", "tanh"}) x = flat.call(op, {x}, "");
  CHECK(fold(flat.program(), {.least_saved = 1}) == flat.program());
}

TEST_CASE("a value of every round that is not told by a number keeps rounds apart",
          "[program][fold]") {
  FlatProgram flat;
  const std::string x = flat.declare("x", ValueRole::kInput);
  std::vector<std::string> made;
  for (int i = 0; i < 6; ++i) made.push_back(flat.call("relu", {x}, ""));
  // Read in an order that no numbers tell.
  std::string sum = x;
  for (const int i : {4, 0, 3, 1, 5, 2}) {
    sum = flat.call("add", {sum, made[static_cast<std::size_t>(i)]}, "");
  }
  const Program folded = fold(flat.program(), {.least_saved = 1});
  CHECK(difference_when_folded(flat.program(), folded) == "");
  CHECK(num_steps(folded.steps) < std::ssize(flat.program().steps));
}

/// A program of random layers and passes over them; some steps are other than in other layers.
Program random_program(std::mt19937_64& random) {
  const auto below = [&](int most) {
    return static_cast<int>(random() % static_cast<std::uint64_t>(most));
  };
  FlatProgram flat;
  const int layers = 1 + below(6), first = below(4), body = 1 + below(5);
  std::vector<std::string> live;
  for (int i = 0; i < layers; ++i) {
    live.push_back(flat.declare(absl::StrFormat("layers.%d.w", first + i), ValueRole::kParameter));
  }
  live.push_back(flat.declare("x", ValueRole::kInput));
  // Per step of a body: the op, and where its operands stand, counted from the last value or among
  // the declared ones.
  struct Line {
    std::string op;
    int back_a, back_b;
    bool reads_weight;
  };
  std::vector<std::string> weights(live.begin(), live.end() - 1);
  std::vector<std::string> made = {live.back()};
  const int passes = 1 + below(3);
  for (int pass = 0; pass < passes; ++pass) {
    std::vector<Line> lines;
    for (int i = 0; i < body; ++i) {
      lines.push_back(
          {below(2) == 0 ? "add" : "mul", below(2 * body), below(2 * body), below(3) == 0});
    }
    const bool goes_back = below(2) == 0, numbers = below(3) > 0;
    for (int i = 0; i < layers; ++i) {
      const int layer = goes_back ? layers - 1 - i : i;
      const std::string module = numbers ? absl::StrFormat("layers.%d", first + layer) : "block";
      for (const Line& line : lines) {
        const auto from_back = [&](int back) {
          return made[static_cast<std::size_t>(
              std::max<std::int64_t>(std::ssize(made) - 1 - back, 0))];
        };
        const std::string a = from_back(line.back_a);
        const std::string b =
            line.reads_weight ? weights[static_cast<std::size_t>(layer)] : from_back(line.back_b);
        const std::string op = below(40) == 0 ? "sub" : line.op;
        made.push_back(flat.call(op, {a, b}, module));
      }
    }
    if (below(2) == 0) made.push_back(flat.call("relu", {made.back()}, "head"));
  }
  return flat.program();
}

TEST_CASE("random programs are the same when folded and written out", "[program][fold]") {
  std::mt19937_64 random(20);
  int shorter = 0;
  for (int i = 0; i < 2000; ++i) {
    CAPTURE(i);
    const Program program = random_program(random);
    const Program folded = fold(program, {.least_saved = 1 + i % 4});
    const std::string difference = difference_when_folded(program, folded);
    if (!difference.empty()) FAIL_CHECK(difference);
    shorter += num_steps(folded.steps) < std::ssize(program.steps) ? 1 : 0;
  }
  CHECK(shorter > 300);
}

TEST_CASE("rounds read what other rounds and values with their numbers are", "[program][fold]") {
  const auto error_of = [](const std::string& steps) {
    const std::string values = [] {
      std::string all;
      for (const char* name : {"layers.1.w", "layers.2.w", "layers.4.w", "y.0"}) {
        all += absl::StrFormat(
            R"j(%s{"name":"%s","shape":[4],"dtype":"F32","mesh":null,"role":"input"})j",
            all.empty() ? "" : ",", name);
      }
      return all +
             R"j(,{"name":"layers.5.w","shape":[5],"dtype":"F32","mesh":null,"role":"input"})j";
    }();
    const std::string text =
        R"({"version":1,"name":"","source":{"kind":"program"},"ranks":1,"meshes":{},"values":[)" +
        values + "],\"steps\":[" + steps + "]}";
    return std::string(message_of(read_program(text, "p", testing::builtin_ops()).status()));
  };
  const auto repeat = [](const std::string& numbers, const std::string& args) {
    return R"j({"repeat":)j" + numbers + R"j(,"steps":[{"op":"add","args":[)j" + args +
           R"j(],"out":[{"name":"y.*","shape":[4],"dtype":"F32","mesh":null}]}]})j";
  };
  const std::string first = repeat(R"(2,"first":1)", R"("layers.*.w","y.*-1")");
  CHECK(error_of(first) == "");
  // A flat step, the next repeat, and one that goes back.
  CHECK(error_of(first + R"(,{"free":["y.1","y.2"]})") == "");
  CHECK(error_of(first + R"(,{"free":["y.3"]})") ==
        "p: /steps/1/free/0: \"y.3\": no such value here; values are declared, or made by a step "
        "before");
  CHECK(error_of(first + R"(,{"repeat":2,"first":2,"by":-1,"steps":[{"free":["y.*"]}]})") == "");
  CHECK(
      error_of(first + R"(,{"repeat":2,"first":2,"steps":[{"free":["y.*+1"]}]})") ==
      "p: /steps/1/steps/0/free/0: \"y.*+1\": no such value here; values are declared, or made by "
      "a step before");
  CHECK(error_of(repeat(R"(3,"first":1)", R"("layers.*.w","y.0")")) ==
        "p: /steps/0/steps: \"layers.*.w\": round 2 has no value \"layers.3.w\" like the first "
        "round's");
  CHECK(error_of(repeat(R"(2,"first":4)", R"("layers.*.w","y.0")")) ==
        "p: /steps/0/steps: \"layers.*.w\": round 1 has no value \"layers.5.w\" like the first "
        "round's");
  CHECK(error_of(repeat(R"(2,"by":0)", R"("y.0","y.0")")) ==
        "p: /steps/0/by: 0: rounds are numbered by 1 or -1");
}

TEST_CASE("100,000 steps are folded in a second", "[program][fold]") {
  const Program program = trained(12'500, 0);
  REQUIRE(program.steps.size() >= 100'000);
  const auto start = std::chrono::steady_clock::now();
  const Program folded = fold(program);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  CHECK(num_steps(folded.steps) < 30);
  // The machine may be busy.
  CHECK(took.count() < 10.0);
  CHECK(unfold(folded).value().steps.size() == program.steps.size());
}

}  // namespace
}  // namespace tessera
