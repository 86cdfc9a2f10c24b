// out=: results written into tensors that exist. Whatever the placements of operands and of out,
// out keeps its own and holds what one rank computes, or nothing has changed.
#include "tests/dtensor/outcome.h"
#include "tests/dtensor/short_placements.h"

namespace tessera::testing {
namespace {

Placements repeated(const Shape& sizes, const Placement& each) {
  return Placements(sizes.size(), each);
}
DTensor blank(Rank& rank, const Shape& shape, const Placements& at, DType dtype = DType::kF64) {
  return full(rank.runtime, value_or_throw(Spec::make(rank.mesh, shape, dtype, at)), 7.0);
}
const std::vector<Shape> kMeshes = {{1}, {2}, {3}, {4}, {2, 2}};
const std::vector<Placement> kPlaces = {R, S(0), S(1), P};

}  // namespace

TEST_CASE("out= holds the sum in its own placement, whatever the operands'", "[dtensor][out]") {
  const Array a = random_values({5, 3}, DType::kF64, 1), b = random_values({5, 3}, DType::kF64, 2);
  std::vector<double> expected = a.to_vector();
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += b.to_vector()[i];
  for (const Shape& sizes : kMeshes) {
    if (!runs_here(num_elements(sizes))) continue;
    for (const Placement& of_a : kPlaces) {
      for (const Placement& of_out : kPlaces) {
        CAPTURE(to_string(sizes), to_string(of_a), to_string(of_out));
        const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
          const DTensor out = blank(rank, {5, 3}, repeated(sizes, of_out));
          const Spec before = out.spec();
          const Storage* held = out.local().storage().get();
          const std::uint32_t version = out.local().storage()->version();
          const DTensor operands[] = {rank.distribute(a, repeated(sizes, of_a)),
                                      rank.distribute(b, repeated(sizes, R))};
          call_into({&out, 1}, "add", operands);
          const bool kept = out.spec() == before && out.local().storage().get() == held &&
                            out.local().storage()->version() == version + 1;
          return std::pair{kept, full_tensor(out).to_vector()};
        });
        for (const auto& [kept, values] : ranks) {
          CHECK(kept);
          for (std::size_t i = 0; i < expected.size(); ++i) {
            CHECK(values[i] == Approx(expected[i]).epsilon(1e-14));
          }
        }
      }
    }
  }
}

TEST_CASE("out= of several results, of lowerings and of strategies", "[dtensor][out]") {
  const Array x = random_values({6, 5}, DType::kF64, 1);
  const auto body = [&](Rank& rank, const Placement& of_x, const Placement& of_out) {
    const std::size_t axes = static_cast<std::size_t>(rank.mesh.ndim());
    const Placements at(axes, of_out);
    const DTensor operand = rank.distribute(x, Placements(axes, of_x));
    const DTensor best[] = {blank(rank, {6, 2}, at), blank(rank, {6, 2}, at, DType::kI64)};
    call_into(best, "topk", {&operand, 1}, {{"k", 2}, {"dim", 1}});
    const DTensor soft = blank(rank, {6, 5}, at);
    call_into({&soft, 1}, "softmax", {&operand, 1}, {{"dim", 1}});
    const DTensor both = blank(rank, {12, 5}, Placements(axes, R));
    const DTensor pair[] = {operand, operand};
    call_into({&both, 1}, "cat", pair, {{"dim", 0}});
    return outcome_of({{"best", best[0]}, {"index", best[1]}, {"soft", soft}, {"both", both}}, {});
  };
  const Outcome expected = run_ranks(mesh_of_shape({1}), [&](Rank& rank) {
    const DTensor operand = rank.distribute(x, {R});
    const auto [best, index] = topk(operand, 2, 1);
    const DTensor pair[] = {operand, operand};
    return outcome_of(
        {{"best", best}, {"index", index}, {"soft", softmax(operand, 1)}, {"both", cat(pair, 0)}},
        {});
  })[0];
  for (const Shape& sizes : kMeshes) {
    if (!runs_here(num_elements(sizes))) continue;
    for (const Placement& of_x : {Placement(R), Placement(S(0)), Placement(S(1))}) {
      for (const Placement& of_out : {Placement(R), Placement(S(0))}) {
        CAPTURE(to_string(sizes), to_string(of_x), to_string(of_out));
        const auto ranks =
            run_ranks(mesh_of_shape(sizes), [&](Rank& rank) { return body(rank, of_x, of_out); });
        CHECK(worst_difference(ranks, expected) < 1e-14);
      }
    }
  }
}

TEST_CASE("out= that overlaps an operand is written after that was read", "[dtensor][out]") {
  const Array square = random_values({4, 4}, DType::kF64, 3);
  const auto ranks = run_ranks(mesh_of_shape({2}), [&](Rank& rank) {
    // out = x + xᵀ into x itself.
    const DTensor x = rank.distribute(square, {R});
    const DTensor operands[] = {x, transpose(x, 0, 1)};
    call_into({&x, 1}, "add", operands);
    // A shifted window: rows 1 to 3 take rows 0 to 2.
    const DTensor y = rank.distribute(square, {S(1)});
    const DTensor from = slice(y, 0, 0, 3), to = slice(y, 0, 1, 4);
    call_into({&to, 1}, "neg", {&from, 1});
    // A result that is not contiguous.
    const DTensor z = rank.distribute(square, {R});
    const DTensor turned = transpose(z, 0, 1);
    const DTensor source = rank.distribute(square, {R});
    call_into({&turned, 1}, "neg", {&source, 1});
    return std::tuple{full_tensor(x).to_vector(), full_tensor(y).to_vector(),
                      full_tensor(z).to_vector()};
  });
  const std::vector<double> v = square.to_vector();
  for (const auto& [x, y, z] : ranks) {
    for (std::size_t i = 0; i < 4; ++i) {
      for (std::size_t j = 0; j < 4; ++j) {
        CHECK(x[i * 4 + j] == v[i * 4 + j] + v[j * 4 + i]);
        CHECK(y[i * 4 + j] == (i == 0 ? v[j] : -v[(i - 1) * 4 + j]));
        CHECK(z[i * 4 + j] == -v[j * 4 + i]);
      }
    }
  }
}

TEST_CASE("a refused out= leaves everything as it was, and no rank waits", "[dtensor][out]") {
  for (const Shape& sizes : {Shape{2}, Shape{2, 2}}) {
    if (!runs_here(num_elements(sizes))) continue;
    const auto ranks = run_ranks(mesh_of_shape(sizes), [&](Rank& rank) {
      const Array values = random_values({4, 4}, DType::kF64, 1);
      const DTensor sums = rank.distribute(values, repeated(sizes, P));
      const DTensor out = blank(rank, {4, 4}, repeated(sizes, P));
      const DTensor leaf = rank.parameter(values, repeated(sizes, R));
      const DTensor plain_out = here(rank.runtime, Array::zeros({4, 4}, DType::kF64));
      const std::vector<double> held = out.local().to_vector();
      const std::uint32_t version = out.local().storage()->version();
      rank.runtime.events().clear();
      std::vector<std::string> errors;
      const auto refuse = [&](const DTensor& into, std::string_view op,
                              std::vector<DTensor> operands) {
        errors.push_back(error_of([&] { call_into({&into, 1}, op, operands); }));
      };
      refuse(out, "relu", {sums});
      refuse(plain_out, "relu", {sums});
      refuse(out, "relu", {leaf});
      refuse(leaf, "relu", {sums});
      refuse(out, "add", {sums});
      refuse(DTensor(), "relu", {sums});
      refuse(expand(rank.distribute(Array::zeros({1, 4}, DType::kF64), repeated(sizes, R)), {4, 4}),
             "neg", {rank.distribute(values, repeated(sizes, R))});
      const DTensor twice[] = {blank(rank, {4, 1}, repeated(sizes, R), DType::kF64)};
      const DTensor again[] = {twice[0], twice[0]};
      errors.push_back(error_of([&] {
        call_into(again, "topk", {&leaf, 1}, {{"k", 1}, {"dim", 1}});
      }));
      const bool unchanged = out.local().to_vector() == held &&
                             out.local().storage()->version() == version &&
                             rank.runtime.events().events().empty();
      errors.push_back(unchanged ? "" : "changed");
      item(sum(sums));  // all ranks are at the same call
      return errors;
    });
    for (const auto& errors : ranks) {
      CHECK(errors[0].starts_with("relu: out stands as (P(sum)"));
      CHECK(errors[1].starts_with("relu: out lives on no mesh (plain), the operands on mesh {"));
      CHECK(
          errors[2].starts_with("relu: self needs a gradient, and out= records no history; call "
                                "it under NoGrad, or without out=. [F64[4, 4] (R"));
      CHECK(errors[3].starts_with("relu: out needs a gradient, and out= records no history"));
      CHECK(errors[4] == "add: 1 operands given; it takes 2");
      CHECK(errors[5] == "relu: out= names no tensor; call() makes one for the result");
      CHECK(
          errors[6].starts_with("neg: the operand cannot be written in place: it repeats "
                                "elements (expand), so several of them share one place"));
      CHECK(errors[7].starts_with("topk: out[0] and out[1] share storage"));
      CHECK(errors[8] == "");
    }
  }
}

TEST_CASE("under NoGrad out= may be a parameter, and a saved operand is told of the write",
          "[dtensor][out][autograd]") {
  const auto errors = run_ranks(mesh_of_shape({2}), [&](Rank& rank) {
    const Array values = random_values({4, 4}, DType::kF64, 1);
    DTensor leaf = rank.parameter(values, {S(0)});
    const DTensor loss = sum(square(leaf));
    {
      const NoGrad no_grad(rank.runtime);
      const DTensor from = rank.distribute(values, {S(1)});
      call_into({&leaf, 1}, "neg", {&from, 1});
    }
    return error_of([&] { backward(loss); });
  });
  for (const std::string& error : errors) {
    CHECK(
        error.starts_with("backward: square needs its operand self as it was in the forward "
                          "pass, but it was written in place since"));
  }
}

}  // namespace tessera::testing
