#include "dtensor/local_map.h"
#include "tests/dtensor/outcome.h"
#include "tests/dtensor/short_placements.h"

namespace tessera::testing {
namespace {

/// Runs `body` on one rank and returns what it returns.
template <class F>
auto on_one_rank(F body) {
  return run_ranks(MeshAxes{{"tp", 1}}, body)[0];
}
DTensor leaf_of(Rank& rank, const std::vector<double>& values) {
  const Shape shape = {static_cast<std::int64_t>(values.size())};
  return here(rank.runtime, Array::from_values(shape, DType::kF64, values)).set_requires_grad(true);
}
/// The text without the source position.
std::string before_site(std::string text) { return text.substr(0, text.find(", forward at")); }

}  // namespace

TEST_CASE("a history of 200,000 nodes runs and is destroyed without recursion",
          "[dtensor][autograd]") {
  const auto grads = on_one_rank([](Rank& rank) {
    const DTensor x = leaf_of(rank, {1.0});
    DTensor run = x, dropped = x;
    for (int i = 0; i < 200'000; ++i) run = add(run, 1.0);
    for (int i = 0; i < 200'000; ++i) dropped = add(dropped, 1.0);
    backward(sum(run));
    dropped = {};
    return x.grad().local().to_vector();
  });
  CHECK(grads == std::vector<double>{1.0});
}

TEST_CASE("cotangents of a tensor used several times add up", "[dtensor][autograd]") {
  const auto grads = on_one_rank([](Rank& rank) {
    const DTensor x = leaf_of(rank, {2.0, -3.0});
    const DTensor y = mul(x, x);
    backward(sum(add(mul(y, x), y)));  // x³ + x²
    backward(sum(x));                  // gradients accumulate over calls
    return x.grad().local().to_vector();
  });
  CHECK(grads == std::vector<double>{3 * 4 + 4 + 1, 3 * 9 - 6 + 1});
}

TEST_CASE("P + P stays P until the leaf", "[dtensor][autograd][C23]") {
  // Two column-parallel products of one replicated input: both cotangents are P(sum), they add as
  // they are, and one reduction brings them home.
  const auto ranks = run_ranks(MeshAxes{{"tp", 2}}, [](Rank& rank) {
    const DTensor x = rank.parameter(random_values({3, 4}, DType::kF64, 1), {R});
    const DTensor w1 = rank.distribute(random_values({6, 4}, DType::kF64, 2), {S(0)});
    const DTensor w2 = rank.distribute(random_values({6, 4}, DType::kF64, 3), {S(0)});
    const DTensor y = add(sum(square(linear(x, w1))), sum(square(linear(x, w2))));
    rank.runtime.events().clear();
    backward(y);
    std::int64_t moves = 0;
    for (const Event& event : rank.runtime.events().events()) {
      moves += event.kind == Event::Kind::kRedistribute ? 1 : 0;
    }
    return moves;
  });
  for (const std::int64_t moves : ranks) CHECK(moves == 1);
}

TEST_CASE("a P(sum) loss starts from ones that are R", "[dtensor][autograd]") {
  const auto ranks = run_ranks(MeshAxes{{"dp", 3}}, [](Rank& rank) {
    const DTensor x = rank.parameter(random_values({5, 2}, DType::kF64), {S(0)});
    const DTensor loss = sum(x);
    const bool partial = loss.spec().has_partial();
    backward(loss);
    return std::pair{partial, x.grad().local().to_vector()};
  });
  for (const auto& [partial, grad] : ranks) {
    CHECK(partial);
    CHECK(grad == std::vector<double>(grad.size(), 1.0));
  }
}

TEST_CASE("a history is freed by its backward", "[dtensor][autograd]") {
  const auto text = on_one_rank([](Rank& rank) {
    const DTensor y = sum(square(leaf_of(rank, {1.0})));
    backward(y);
    return error_of([&] { backward(y); });
  });
  CHECK(text.starts_with("backward: the history of sum (forward at "));
  CHECK(text.ends_with(") was freed by an earlier backward(); run the forward pass again"));
}

TEST_CASE("backward refuses what has no gradient or no cotangent", "[dtensor][autograd]") {
  const auto texts = on_one_rank([](Rank& rank) {
    const DTensor x = leaf_of(rank, {1.0, 2.0});
    return std::vector<std::string>{
        error_of([&] { backward(mul(x, 2.0)); }), error_of([&] { backward(sum(x.detach())); }),
        error_of(
            [&] { backward(mul(x, 2.0), here(rank.runtime, Array::zeros({3}, DType::kF64))); }),
        error_of([&] {
          DTensor y = mul(x, 2.0);
          y.set_requires_grad(true);
        })};
  });
  CHECK(texts[0] ==
        "backward: the root has shape [2]; only a 0-d root may leave out the cotangent. [F64[2]]");
  CHECK(texts[1] ==
        "backward: the root does not depend on a tensor that needs a gradient. [F64[]]");
  CHECK(texts[2] == "backward: cotangent F64[3] does not fit the root F64[2]");
  CHECK(texts[3] ==
        "set_requires_grad: the tensor is the result of an op; only leaves have it, detach() it "
        "first. [F64[2]]");
}

TEST_CASE("a saved tensor that was written since is refused", "[dtensor][autograd][version]") {
  const auto text = on_one_rank([](Rank& rank) {
    const DTensor x = leaf_of(rank, {1.0, 2.0});
    DTensor y = mul(x, 2.0);
    const DTensor z = sum(square(y));  // square saves y
    mul_(y, 3.0);
    return before_site(error_of([&] { backward(z); }));
  });
  CHECK(text ==
        "backward: square needs its operand self as it was in the forward pass, but it was written "
        "in place since (version 1, "
        "saved at 0); clone() it before the write. [F64[2]");
}

TEST_CASE("in-place writes rebase the history", "[dtensor][autograd][in_place]") {
  const auto grads = on_one_rank([](Rank& rank) {
    const DTensor x = leaf_of(rank, {1.0, 2.0});
    DTensor y = mul(x, 2.0);
    mul_(y, 3.0);
    DTensor buffer = here(rank.runtime, Array::zeros({2}, DType::kF64));
    add_(buffer, y);  // a tensor without history takes on that of what is written
    backward(sum(buffer));
    return x.grad().local().to_vector();
  });
  CHECK(grads == std::vector<double>{6.0, 6.0});
}

TEST_CASE("in place on a leaf that needs a gradient, or on a view, is refused",
          "[dtensor][autograd][in_place]") {
  const auto texts = on_one_rank([](Rank& rank) {
    DTensor x = leaf_of(rank, {1.0, 2.0}).set_name("w");
    DTensor part = view(x, {2, 1});
    DTensor y = mul(x, 2.0);
    DTensor of_y = view(y, {2, 1});
    std::vector<std::string> errors = {error_of([&] { mul_(x, 2.0); }),
                                       error_of([&] { mul_(part, 2.0); }),
                                       error_of([&] { mul_(of_y, 2.0); })};
    mul_(y, 2.0);  // the view of_y now tells another value than its history
    errors.push_back(error_of([&] { sum(of_y); }));
    const NoGrad no_grad(rank.runtime);
    errors.push_back(error_of([&] { mul_(x, 2.0); }));
    errors.push_back(x.local().to_vector() == std::vector<double>{2.0, 4.0} ? "" : "not written");
    return errors;
  });
  CHECK(texts[0] ==
        "mul_scalar_: w: a leaf that needs a gradient cannot be written in place; do it under "
        "NoGrad, or on a clone(). "
        "[F64[2]]");
  CHECK(texts[1] ==
        "mul_scalar_: the operand: a view of a leaf that needs a gradient cannot be written in "
        "place; do it under NoGrad, or "
        "on a clone(). [F64[2, 1]]");
  CHECK(texts[2] ==
        "mul_scalar_: the operand: a view of a tensor with history cannot be written in place; "
        "write to the tensor itself, or "
        "to a clone(). [F64[2, 1]]");
  CHECK(texts[3] ==
        "a tensor was written through another alias since it was made, so its gradient would be "
        "that of the old value; "
        "clone() it before the write. [F64[2, 1]]");
  CHECK(texts[4] == "");
  CHECK(texts[5] == "");
}

TEST_CASE("a gradient does not alias anything else", "[dtensor][autograd]") {
  const auto values = on_one_rank([](Rank& rank) {
    const DTensor a = leaf_of(rank, {1.0}), b = leaf_of(rank, {2.0});
    const DTensor cotangent =
        here(rank.runtime, Array::from_values({1}, DType::kF64, std::vector<double>{5.0}));
    backward(add(a, b), cotangent);  // the same cotangent goes to both
    DTensor grad = a.grad();
    mul_(grad, 2.0);
    return std::vector<double>{a.grad().local().to_vector()[0], b.grad().local().to_vector()[0],
                               cotangent.local().to_vector()[0]};
  });
  CHECK(values == std::vector<double>{10.0, 5.0, 5.0});
}

TEST_CASE("a deferred gradient stays partial and is reduced once",
          "[dtensor][autograd][deferred]") {
  const Array weight = random_values({4, 6}, DType::kF64, 1),
              first = random_values({8, 6}, DType::kF64, 2),
              second = random_values({8, 6}, DType::kF64, 3);
  struct Result {
    Array grad;
    std::int64_t collectives, later;
  };
  const auto run = [&](GradReduction policy) {
    return run_ranks(MeshAxes{{"fsdp", 2}}, [&](Rank& rank) {
      DTensor w = rank.parameter(weight, {S(0)});
      set_grad_reduction(w, policy);
      rank.runtime.events().clear();
      const auto count = [&] {
        std::int64_t n = 0;
        for (const Event& event : rank.runtime.events().events()) {
          n += event.kind == Event::Kind::kCollective && event.name != "all_gather" ? 1 : 0;
        }
        return n;
      };
      for (const Array& batch : {first, second}) {
        backward(sum(square(linear(rank.distribute(batch, {S(0)}), redistribute(w, {R})))));
      }
      const std::int64_t during = count();
      reduce_grad(w);
      throw_if_error(w.grad().spec() == w.spec() ? Status()
                                                 : internal_error(w.grad().spec().to_string()));
      return Result{copy_of(full_tensor(w.grad())), during, count() - during};
    });
  };
  const auto each = run(GradReduction::kEachBackward), deferred = run(GradReduction::kDeferred);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(max_difference(each[i].grad, deferred[i].grad) < 1e-13);
    CHECK(each[i].collectives == 2);
    CHECK(each[i].later == 0);
    CHECK(deferred[i].collectives == 0);
  }
}

TEST_CASE("events of the backward pass name the module of the forward",
          "[dtensor][autograd][events]") {
  const auto ranks = run_ranks(MeshAxes{{"tp", 2}}, [](Rank& rank) {
    DTensor w = rank.parameter(random_values({4, 4}, DType::kF64), {S(0)});
    DTensor y;
    {
      const ModuleScope layer(rank.runtime, "layers.0");
      const ModuleScope inner(rank.runtime, "ffn");
      y = redistribute(w, {R});
    }
    const DTensor x = rank.distribute(random_values({4, 4}, DType::kF64, 2), {S(0)});
    const DTensor loss = sum(linear(x, y));
    rank.runtime.events().clear();
    backward(loss);
    std::vector<std::string> modules;
    for (const Event& event : rank.runtime.events().events()) modules.push_back(event.module);
    modules.push_back("after: " + rank.runtime.events().module());
    return modules;
  });
  for (const auto& modules : ranks) {
    REQUIRE(modules.size() >= 2);
    for (std::size_t i = 0; i + 1 < modules.size(); ++i) CHECK(modules[i] == "layers.0.ffn");
    CHECK(modules.back() == "after: ");
  }
}

TEST_CASE("a plain 0-d operand counts as R on the mesh, and gets a whole gradient",
          "[dtensor][dispatch]") {
  const auto ranks = run_ranks(MeshAxes{{"dp", 2}}, [](Rank& rank) {
    const DTensor x = rank.distribute(random_values({4, 2}, DType::kF64), {S(0)});
    DTensor scale =
        here(rank.runtime, Array::from_values({}, DType::kF64, std::vector<double>{3.0}));
    scale.set_requires_grad(true);
    backward(sum(mul(x, scale)));
    const std::string refused =
        error_of([&] { mul(x, here(rank.runtime, Array::zeros({2}, DType::kF64))); });
    double sum_of_x = 0;
    for (const double each : random_values({4, 2}, DType::kF64).to_vector()) sum_of_x += each;
    return std::tuple{scale.grad().local().to_vector()[0] - sum_of_x, scale.grad().mesh().ndim(),
                      refused};
  });
  for (const auto& [difference, axes, refused] : ranks) {
    CHECK(std::abs(difference) < 1e-14);
    CHECK(axes == 0);
    CHECK(refused ==
          "mul: other is a plain tensor F64[2] beside operands on mesh {dp: 2}; only 0-d "
          "tensors may be plain there: "
          "distribute() it, or give it a placement with from_local()");
  }
}

TEST_CASE("ranks outside a mesh hold nothing and calls are no-ops there", "[dtensor][dispatch]") {
  // Three ranks; the mesh is ranks 1 and 2.
  const Array full = random_values({4, 4}, DType::kF64, 1),
              weight = random_values({6, 4}, DType::kF64, 2);
  const auto body = [&](Rank& rank) {
    DTensor x = rank.parameter(full, {R});
    DTensor w = rank.parameter(weight, {S(0)});
    const DTensor y = redistribute(linear(x, w), {R});
    backward(sum(square(y)));
    return std::tuple{y.local().is_null(), x.grad().local(), y.global_shape()};
  };
  const Mesh pair = value_or_throw(Mesh::make(Shape{2}, {"tp"}, 1));
  const auto results = run_ranks(pair, body);
  const auto expected = run_ranks(MeshAxes{{"tp", 1}}, body)[0];
  CHECK(std::get<0>(results[0]));
  CHECK(std::get<1>(results[0]).is_null());
  for (std::size_t i = 0; i < 3; ++i) CHECK(std::get<2>(results[i]) == Shape{4, 6});
  for (std::size_t i : {1U, 2U})
    CHECK(max_difference(std::get<1>(results[i]), std::get<1>(expected)) < 1e-13);
}

TEST_CASE("a replicated gate is bitwise equal on all ranks after its step",
          "[dtensor][autograd][C19]") {
  const Array tokens = random_values({7, 4}, DType::kF32, 1),
              gate = random_values({3, 4}, DType::kF32, 2);
  for (const std::int64_t n : {2, 3, 4}) {
    if (!runs_here(n)) continue;
    const auto ranks = run_ranks(MeshAxes{{"tp", n}}, [&](Rank& rank) {
      const DTensor x = rank.distribute(tokens, {S(0)});  // each rank routes its own tokens
      DTensor w = rank.parameter(gate, {R});
      backward(sum(square(softmax(linear(x, w), -1))));
      const NoGrad no_grad(rank.runtime);
      DTensor step = w.grad();
      mul_(step, -0.1);
      add_(w, step);
      return copy_of(w.local());
    });
    for (const Array& each : ranks) CHECK(same_bits(each, ranks[0]));
    CHECK_FALSE(same_bits(ranks[0], gate));
  }
}

}  // namespace tessera::testing
