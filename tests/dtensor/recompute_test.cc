// Pieces that run again in backward: gradients, what is kept, what is refused, module paths and
// memory.
#include "dtensor/recompute.h"

#include "tests/dtensor/outcome.h"
#include "tests/dtensor/short_placements.h"
#include "tests/support/counted_world.h"

namespace tessera::testing {
namespace {

DTensor weight(Rank& rank, const Shape& shape, unsigned seed, const Placements& placements) {
  DTensor w = rank.distribute(random_values(shape, DType::kF64, seed), placements);
  return w.set_requires_grad(true);
}

/// Three pieces of x ← x + tanh(x·w1)·w2 with weights cut over two ranks, and a loss.
std::vector<Outcome> train_pieces(Recompute mode) {
  return run_ranks(mesh_of_shape({2}), [&](Rank& rank) {
    DTensor x0 = weight(rank, {4, 6}, 1, {S(0)});
    Named leaves = {{"x", x0}};
    DTensor x = x0;
    for (unsigned layer = 0; layer < 3; ++layer) {
      const DTensor w1 = weight(rank, {8, 6}, 10 + layer, {S(0)});
      const DTensor w2 = weight(rank, {6, 8}, 20 + layer, {S(1)});
      leaves.emplace_back("w1." + std::to_string(layer), w1);
      leaves.emplace_back("w2." + std::to_string(layer), w2);
      const auto piece = [w1, w2](std::span<const DTensor> in) -> std::vector<DTensor> {
        const DTensor whole = redistribute(in[0], {R});
        const DTensor out = redistribute(linear(tanh(linear(whole, w1)), w2), {S(0)});
        return {add(in[0], out)};
      };
      x = recompute(rank.runtime, mode, {&x, 1}, piece)[0];
    }
    const DTensor loss = sum(mul(x, x));
    backward(loss);
    return outcome_of({{"loss", loss.detach()}}, leaves);
  });
}

}  // namespace

TEST_CASE("gradients through recomputed pieces have the bits of recorded ones",
          "[dtensor][recompute]") {
  const std::vector<Outcome> recorded = train_pieces(Recompute::kNone);
  CHECK(same_bits(train_pieces(Recompute::kFull), recorded));
  CHECK(same_bits(train_pieces(Recompute::kSelective), recorded));
}

TEST_CASE("a piece knows its pass, keeps its module path, and makes kept values once",
          "[dtensor][recompute][C18]") {
  const auto seen = run_ranks(mesh_of_shape({1}), [](Rank& rank) {
    Runtime& runtime = rank.runtime;
    std::string log;
    const auto piece = [&](std::span<const DTensor> in) -> std::vector<DTensor> {
      const ModuleScope scope(runtime, "piece");
      log += is_recomputing(runtime) ? "second" : "first";
      log += is_training_pass(runtime) ? "+" : "-";
      log += " at " + runtime.events().module();
      const DTensor kept = kept_tensor(runtime, [&] {
        log += " tensor";
        return in[0].detach();
      });
      const auto sizes = kept_values(runtime, [&] {
        log += " sizes";
        return std::vector<std::int64_t>{3, 4};
      });
      log += sizes[1] == 4 && full_tensor(kept).to_vector()[0] == 2.0 ? " right; " : " wrong; ";
      return {mul(in[0], in[0])};
    };
    DTensor x =
        rank.distribute(Array::from_values({1}, DType::kF64, std::vector<double>{2.0}), {R});
    x.set_requires_grad(true);
    DTensor y;
    for (const Recompute mode : {Recompute::kNone, Recompute::kFull, Recompute::kSelective}) {
      {
        const ModuleScope scope(runtime, "model");
        y = recompute(runtime, mode, {&x, 1}, piece)[0];
      }
      backward(sum(y));
    }
    const NoGrad no_grad(runtime);
    recompute(runtime, Recompute::kFull, {&x, 1}, piece);
    return log + std::to_string(x.grad().local().to_vector()[0]);
  });
  CHECK(seen[0] ==
        "first+ at model.piece tensor sizes right; "
        "first+ at model.piece tensor sizes right; second- at model.piece tensor sizes right; "
        "first+ at model.piece tensor sizes right; second- at model.piece right; "
        "first- at piece tensor sizes right; 12.000000");
}

TEST_CASE("a piece that reads history from outside, or changes its mind, is refused",
          "[dtensor][recompute][C27]") {
  const auto errors = run_ranks(mesh_of_shape({1}), [](Rank& rank) {
    Runtime& runtime = rank.runtime;
    const DTensor x = weight(rank, {3}, 1, {R});
    const DTensor outside = mul(x, 2.0);
    const auto leaky = [&](std::span<const DTensor> in) -> std::vector<DTensor> {
      return {mul(in[0], outside)};
    };
    std::int64_t calls = 0;
    const auto fickle = [&](std::span<const DTensor> in) -> std::vector<DTensor> {
      kept_values(runtime, [&] { return std::vector<std::int64_t>{++calls}; });
      return {mul(in[0], in[0])};
    };
    DTensor written = mul(x, 3.0);
    const auto plain_piece = [&](std::span<const DTensor> in) -> std::vector<DTensor> {
      return {mul(in[0], in[0])};
    };
    std::vector<std::string> texts;
    const DTensor a = recompute(runtime, Recompute::kFull, {&x, 1}, leaky)[0];
    texts.push_back(error_of([&] { backward(sum(a)); }));
    const DTensor b = recompute(runtime, Recompute::kFull, {&x, 1}, fickle)[0];
    texts.push_back(error_of([&] { backward(sum(b)); }));
    const DTensor c = recompute(runtime, Recompute::kFull, {&written, 1}, plain_piece)[0];
    {
      const NoGrad no_grad(runtime);
      fill_(written, 1.0);
    }
    texts.push_back(error_of([&] { backward(sum(c)); }));
    return texts;
  });
  CHECK_THAT(errors[0][0], Catch::Contains("pass it as an input"));
  CHECK_THAT(errors[0][1], Catch::Contains("sees sizes [2] where the first saw [1]"));
  CHECK_THAT(errors[0][2], Catch::Contains("needs its input 0 as it was in the forward pass"));
}

TEST_CASE("recomputing 8 pieces takes less than half of the memory of recording them",
          "[dtensor][recompute]") {
  const auto peak_of = [](Recompute mode) {
    return results_of(1, {},
                      [mode](World& inner) {
                        CountedWorld world(inner);
                        Runtime runtime(world);
                        const Array values = random_values({64, 64}, DType::kF64, 3);
                        DTensor x = here(runtime, values).set_requires_grad(true);
                        const auto piece = [](std::span<const DTensor> in) -> std::vector<DTensor> {
                          DTensor y = in[0];
                          for (int i = 0; i < 6; ++i) y = tanh(mul(y, y));
                          return {y};
                        };
                        DTensor y = x;
                        for (int i = 0; i < 8; ++i) y = recompute(runtime, mode, {&y, 1}, piece)[0];
                        backward(sum(y));
                        return memory_use_of(*world.allocator()).peak_bytes;
                      })
        .value()[0];
  };
  const std::int64_t recorded = peak_of(Recompute::kNone), again = peak_of(Recompute::kFull);
  // Recorded, 8 pieces hold 6 results each; recomputed, each holds its input, and one of them its 6
  // results and what its gradient is made of.
  constexpr std::int64_t kBytes = 64 * 64 * 8;
  CHECK(recorded >= 8 * 6 * kBytes);
  CHECK(again <= (8 + 6 + 5) * kBytes);
}

}  // namespace tessera::testing
