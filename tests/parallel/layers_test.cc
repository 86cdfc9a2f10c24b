// Tensor-parallel layers are ordinary ops on tensors with declared placements: colwise, rowwise,
// sequence-parallel and vocabulary-parallel, on a user's own meshes, with and without axis names.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "dtensor/ops.h"
#include "parallel/parameter.h"
#include "runtime/world.h"

namespace tessera::testing {
namespace {

constexpr std::int64_t kBatch = 4, kLength = 7, kDim = 6, kHidden = 10, kVocab = 11;

/// Values that repeat nowhere.
Array values(const Shape& shape, double phase) {
  std::vector<double> list;
  for (std::int64_t i = 0; i < num_elements(shape); ++i) {
    list.push_back(0.5 * std::sin(phase + 0.9 * static_cast<double>(i)));
  }
  return Array::from_values(shape, DType::kF64, list);
}

Array ids(std::int64_t step) {
  std::vector<double> list;
  for (std::int64_t i = 0; i < kBatch * kLength; ++i) {
    list.push_back(static_cast<double>(i * step % kVocab));
  }
  return Array::from_values({kBatch, kLength}, DType::kI64, list);
}

/// A mesh of which the last axis is tp and the one before it, if any, dp.
struct UserMesh {
  std::vector<std::int64_t> shape;
  std::vector<std::string> names = {};

  int num_ranks() const { return static_cast<int>(mesh().num_ranks()); }
  Mesh mesh() const { return value_or_throw(Mesh::make(ShapeView(shape), names)); }
  Placements on(Placement dp, Placement tp) const {
    return shape.size() == 1 ? Placements{tp} : Placements{dp, tp};
  }
};

using Outcome = std::map<std::string, std::vector<double>>;

/// Loss and every gradient of embedding → norm → colwise → gelu → rowwise → head → cross-entropy.
Outcome train(World& world, const UserMesh& user) {
  Runtime runtime(world);
  const Mesh mesh = user.mesh();
  const Replicate whole;
  std::map<std::string, DTensor> leaves;
  const auto parameter = [&](const std::string& name, const Shape& shape, Placement tp) {
    DTensor leaf = distribute(runtime, values(shape, static_cast<double>(leaves.size())), mesh,
                              user.on(whole, tp));
    leaf.set_name(name).set_requires_grad(true);
    return leaves.emplace(name, leaf).first->second;
  };
  const Placements tokens = user.on(Shard{0}, Shard{1});  // sequence-parallel
  const Placements gathered = user.on(Shard{0}, whole);
  const DTensor inputs = distribute(runtime, ids(3), mesh, gathered);
  const DTensor targets = distribute(runtime, ids(5), mesh, gathered);

  const DTensor table = parameter("embedding", {kVocab, kDim}, Shard{0});
  DTensor x = redistribute(embedding(table, inputs), tokens);
  const DTensor normed = rms_norm(x, parameter("norm", {kDim}, whole), 1e-5);
  const DTensor colwise =
      linear(redistribute(normed, gathered), parameter("w1", {kHidden, kDim}, Shard{0}),
             parameter("b1", {kHidden}, Shard{0}));
  const DTensor rowwise = linear(gelu(colwise), parameter("w2", {kDim, kHidden}, Shard{1}),
                                 parameter("b2", {kDim}, whole));
  x = add(x, redistribute(rowwise, tokens));
  const DTensor logits =
      linear(redistribute(x, gathered), parameter("head", {kVocab, kDim}, Shard{0}));
  const DTensor loss = sum(cross_entropy(logits, targets));
  backward(loss);
  Outcome outcome = {{"loss", full_tensor(loss).to_vector()}};
  for (const auto& [name, leaf] : leaves) {
    if (!(leaf.grad().spec() == leaf.spec())) {
      throw Error(internal_error("the gradient of " + name + " lies otherwise than it"));
    }
    outcome[name] = full_tensor(leaf.grad()).to_vector();
  }
  return outcome;
}

Outcome rank_0(const UserMesh& user) {
  Outcome first;
  throw_if_error(run_ranks(user.num_ranks(), {}, [&](World& world) {
    Outcome own = train(world, user);
    if (world.rank() == 0) first = std::move(own);
  }));
  return first;
}

}  // namespace

TEST_CASE("layers declared by placements have the gradients of one rank on any mesh",
          "[parallel][layers][C46]") {
  const UserMesh user = GENERATE(UserMesh{{2}}, UserMesh{{4}}, UserMesh{{3}, {"tensor"}},
                                 UserMesh{{2, 2}}, UserMesh{{2, 2}, {"rows", "columns"}});
  CAPTURE(user.shape, user.names);
  const Outcome many = rank_0(user);
  const Outcome one = rank_0({{1}});
  REQUIRE(many.size() == 8);
  for (const auto& [name, expected] : one) {
    CAPTURE(name);
    const std::vector<double>& got = many.at(name);
    REQUIRE(got.size() == expected.size());
    double largest = 0.0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      largest = std::max(largest, std::abs(got[i] - expected[i]));
    }
    CHECK(largest < 1e-12);
  }
}

TEST_CASE("a replicated bias on a rowwise output is added once, its gradient is not multiplied",
          "[parallel][layers][C71]") {
  const int tp = GENERATE(1, 2, 4);
  CAPTURE(tp);
  std::vector<double> out, grad;
  throw_if_error(run_ranks(tp, {}, [&](World& world) {
    Runtime runtime(world);
    const UserMesh user{{tp}};
    const auto place = [&](const Array& array, Placement on_tp) {
      return distribute(runtime, array, user.mesh(), user.on({}, on_tp));
    };
    const DTensor x = place(Array::zeros({5, kHidden}, DType::kF64), Shard{1});
    const DTensor w = place(values({kDim, kHidden}, 1.0), Shard{1});
    DTensor bias = place(values({kDim}, 2.0), Replicate{});
    bias.set_requires_grad(true);
    const DTensor y = linear(x, w, bias);
    backward(sum(y));
    const std::vector<double> own_out = full_tensor(y).to_vector();
    const std::vector<double> own_grad = full_tensor(bias.grad()).to_vector();
    if (world.rank() != 0) return;
    out = own_out;
    grad = own_grad;
  }));
  const std::vector<double> bias = values({kDim}, 2.0).to_vector();
  REQUIRE(out.size() == 5 * bias.size());
  for (std::size_t i = 0; i < out.size(); ++i) CHECK(out[i] == bias[i % bias.size()]);
  CHECK(grad == std::vector<double>(bias.size(), 5.0));
}

TEST_CASE("a parameter is declared once, and cuts that do not go together are refused",
          "[parallel][layers][C70]") {
  throw_if_error(run_ranks(1, {}, [](World& world) {
    Runtime runtime(world);
    ParameterSet parameters(runtime, DType::kF32);
    const auto error_of = [&](const ParameterDecl& declaration) {
      try {
        parameters.add(declaration);
      } catch (const Error& error) {
        return std::string(error.what());
      }
      return std::string("accepted");
    };
    ParameterDecl declaration{
        .name = "w", .shape = {4, 4}, .mesh = UserMesh{{1}, {"tp"}}.mesh(), .used = {Replicate{}}};
    const std::array found = {error_of(declaration), error_of(declaration)};
    if (found[0] != "accepted") throw Error(internal_error("the first: " + found[0]));
    // A tied weight with other placements would be the same declaration again.
    if (found[1].find("parameter w is declared twice") == std::string::npos) {
      throw Error(internal_error("the second: " + found[1]));
    }
  }));
  const Mesh mesh = UserMesh{{2, 2}, {"fsdp", "tp"}}.mesh();
  const Spec used =
      value_or_throw(Spec::make(mesh, {4, 4}, DType::kF32, Placements{Shard{0}, Replicate{}}));
  const auto twice = fsdp_storage(used, std::array{0}, 0);
  REQUIRE(!twice.ok());
  CHECK_THAT(std::string(message_of(twice.status())), Catch::Contains("axis fsdp already holds"));
}

TEST_CASE("a name that a declaration does not know is an error", "[parallel][layers][C67]") {
  throw_if_error(run_ranks(1, {}, [](World& world) {
    Runtime runtime(world);
    const DTensor x = plain(runtime, values({2, 3}, 0.0));
    try {
      call(runtime, "softmax", std::array{x}, {{"dimension", 1}});
    } catch (const Error& error) {
      if (std::string(error.what()).find("unknown attribute 'dimension'") != std::string::npos) {
        return;
      }
      throw Error(internal_error(error.what()));
    }
    throw Error(internal_error("the call passed"));
  }));
}

}  // namespace tessera::testing
