// One Runtime per thread, nothing shared between them; and what many distinct calls hold.
#include <thread>

#include "dtensor/dispatch.h"
#include "dtensor/dispatch_cache.h"
#include "tests/dtensor/outcome.h"
#include "tests/support/process_memory.h"

namespace tessera::testing {
namespace {

/// Calls of 8 ops with shapes that follow from `seed`, on one rank of a mesh of 8; the placements
/// and reasons that propagation gave.
std::vector<std::string> calls_of(int seed) {
  const std::unique_ptr<World> world = make_single_world({.threads_per_rank = 1});
  Runtime runtime(*world);
  const Mesh mesh = value_or_throw(Mesh::make(view_of(Shape{2, 4}), {"dp", "tp"}));
  std::vector<std::string> answers;
  for (std::int64_t n = 1; n <= 40; ++n) {
    const Shape shape = {8 * n, 8 * (n + seed)};
    const auto spec = [&](const char* placements, DType dtype = DType::kF32) {
      return value_or_throw(
          Spec::make(mesh, shape, dtype, value_or_throw(parse_placements(placements))));
    };
    const Spec x = spec("S(0), S(1)"), y = spec("P(sum), S(0)"), z = spec("R, S(1)"),
               ids = spec("S(0), R", DType::kI64);
    const auto ask = [&](const char* name, std::initializer_list<const Spec*> operands,
                         const Attrs& attrs = {}) {
      const Op& op = find_op(runtime, name);
      const Resolution answer = value_or_throw(propagate(
          op, {operands.begin(), operands.size()}, value_or_throw(complete_attrs(op, attrs))));
      answers.push_back(answer.outputs[0].to_string() + " " + answer.why + " " + answer.runner_up);
    };
    ask("add", {&x, &y});
    ask("mul", {&x, &z});
    ask("relu", {&y});
    ask("softmax", {&x}, {{"dim", 1}});
    ask("sum", {&y}, {{"dim", Shape{0}}});
    ask("gather", {&x, &ids}, {{"dim", 1}});
    ask("transpose", {&z}, {{"dim0", 0}, {"dim1", 1}});
    ask("linear", {&x, &z, nullptr});
    const DTensor local = empty(runtime, x);
    answers.push_back(add(local, local).spec().to_string());
  }
  return answers;
}

}  // namespace

TEST_CASE("several Runtimes propagate and dispatch on threads of their own",
          "[dtensor][runtimes]") {
  constexpr int kThreads = 4;
  std::vector<std::vector<std::string>> together(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back(
        [&together, t] { together[static_cast<std::size_t>(t)] = calls_of(t % 2); });
  }
  for (std::thread& each : threads) each.join();
  const std::vector<std::string> even = calls_of(0), odd = calls_of(1);
  CHECK(together[0] == even);
  CHECK(together[1] == odd);
  CHECK(together[2] == even);
  CHECK(together[3] == odd);
  CHECK(even != odd);
}

TEST_CASE("10,000 distinct specs and their calls hold less than 100 MB", "[dtensor][runtimes]") {
  constexpr std::int64_t kCalls = 10'000;
  const std::unique_ptr<World> world = make_single_world({.threads_per_rank = 1});
  Runtime runtime(*world);
  const Mesh mesh = value_or_throw(Mesh::make(view_of(Shape{8, 8, 8})));
  const Placements placements = {Shard{0}, Shard{1}, Replicate{}};
  [[maybe_unused]] const std::int64_t before = allocated_bytes();
  for (std::int64_t n = 1; n <= kCalls; ++n) {
    const DTensor a =
        empty(runtime, value_or_throw(Spec::make(mesh, {8, n}, DType::kF32, placements)));
    add(a, a);
  }
  CHECK(runtime.cache().calls.size() == kCalls);
  // Sanitizers bring allocators of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const std::int64_t held = allocated_bytes() - before;
  CHECK(held > kCalls * 100);
  CHECK(held < 100'000'000);
#endif
}

}  // namespace tessera::testing
