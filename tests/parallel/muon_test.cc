// Muon: owners, what they compute, what moves, and that every mesh gives the updates of one rank.
#include "parallel/muon.h"

#include <cmath>

#include "dtensor/factories.h"
#include "parallel/optimizer.h"
#include "runtime/world.h"

namespace tessera::testing {
namespace {

using Matrix = std::vector<std::vector<double>>;

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(a.size(), std::vector<double>(b[0].size(), 0.0));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t k = 0; k < b.size(); ++k) {
      for (std::size_t j = 0; j < b[0].size(); ++j) c[i][j] += a[i][k] * b[k][j];
    }
  }
  return c;
}
Matrix turned(const Matrix& a) {
  Matrix t(a[0].size(), std::vector<double>(a.size()));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a[0].size(); ++j) t[j][i] = a[i][j];
  }
  return t;
}

/// Written from the formula, with the wide form of the polynomial.
Matrix orthogonalised(Matrix x) {
  double squares = 0.0;
  for (const auto& row : x) {
    for (const double value : row) squares += value * value;
  }
  for (auto& row : x) {
    for (double& value : row) value /= std::sqrt(squares) + 1e-7;
  }
  for (int round = 0; round < 5; ++round) {
    const Matrix cube = product(product(x, turned(x)), x);
    const Matrix fifth = product(product(cube, turned(x)), x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      for (std::size_t j = 0; j < x[0].size(); ++j) {
        x[i][j] = 3.4445 * x[i][j] - 4.7750 * cube[i][j] + 2.0315 * fifth[i][j];
      }
    }
  }
  return x;
}

double value_at(std::int64_t i) { return std::sin(static_cast<double>(3 * i + 1)); }
double gradient_at(std::int64_t i, int step) {
  return std::cos(static_cast<double>(2 * i + 5 * step));
}
template <class Value>
Array filled(const Shape& shape, const Value& value) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < num_elements(shape); ++i) values.push_back(value(i));
  return Array::from_values(shape, DType::kF64, values);
}

Mesh mesh_of(Shape shape, std::vector<std::string> names) {
  return value_or_throw(Mesh::make(view_of(shape), std::move(names)));
}
Spec spec_of(const Mesh& mesh, Shape shape, std::string_view placements) {
  return value_or_throw(Spec::make(mesh, std::move(shape), DType::kF64,
                                   value_or_throw(parse_placements(placements))));
}

struct Wanted {
  std::string name;
  Shape shape;
  std::string used;  ///< placements, R on the fsdp axis
  int fsdp_dim = 0;
};
struct Setting {
  Shape mesh;
  std::vector<std::string> axes;
  std::vector<int> fsdp_axes;
  std::vector<Wanted> parameters;
  std::string grads = {};  ///< placements of the gradients; empty: those of the parameters
};
struct Outcome {
  std::vector<std::vector<double>> values;
  std::vector<std::string> state;
  std::int64_t received = 0;
  bool operator==(const Outcome&) const = default;
};

/// Three steps of momentum 0.9 with weight decay, on every rank of the mesh.
std::vector<Outcome> run(const Setting& setting, Momentum form) {
  const Mesh mesh = mesh_of(setting.mesh, setting.axes);
  std::vector<Outcome> outcomes(static_cast<std::size_t>(mesh.num_ranks()));
  throw_if_error(run_ranks(static_cast<int>(mesh.num_ranks()), {}, [&](World& world) {
    Runtime runtime(world);
    ParameterSet parameters(runtime, DType::kF64);
    for (const Wanted& each : setting.parameters) {
      parameters.add({.name = each.name,
                      .shape = each.shape,
                      .mesh = mesh,
                      .used = value_or_throw(parse_placements(each.used)),
                      .fsdp_axes = setting.fsdp_axes,
                      .fsdp_dim = each.fsdp_dim});
    }
    for (Parameter& each : parameters.all()) {
      DTensor stored = each.stored().detach();
      copy_(stored, distribute(runtime, filled(stored.global_shape(), value_at), stored.spec()));
    }
    Optimizer optimizer(parameters, {.kind = OptimizerKind::kMuon,
                                     .weight_decay = 0.1,
                                     .momentum = 0.9,
                                     .momentum_form = form});
    Outcome& out = outcomes[static_cast<std::size_t>(world.rank())];
    for (int step = 0; step < 3; ++step) {
      for (Parameter& each : parameters.all()) {
        const Array grad = filled(each.stored().global_shape(),
                                  [step](std::int64_t i) { return gradient_at(i, step); });
        each.stored().set_grad(
            setting.grads.empty()
                ? distribute(runtime, grad, each.stored().spec())
                : distribute(runtime, grad, mesh, value_or_throw(parse_placements(setting.grads))));
      }
      const std::int64_t before = world.events().bytes_received();
      optimizer.step(0.1, 0.5);
      out.received = world.events().bytes_received() - before;
    }
    for (const NamedTensor& state : optimizer.state_tensors()) {
      out.state.push_back(state.name + " " + state.tensor.spec().to_string());
    }
    for (Parameter& each : parameters.all()) {
      out.values.push_back(full_tensor(each.stored()).to_vector());
    }
  }));
  return outcomes;
}

const std::vector<Wanted> kWhole = {{"layers.0.wq.weight", {6, 4}, ""},
                                    {"layers.0.wo.weight", {4, 6}, ""},
                                    {"layers.0.w1_EFD", {3, 4, 2}, ""},
                                    {"layers.0.norm.weight", {5}, ""},
                                    {"lm_head.weight", {3, 2}, ""}};

std::vector<Wanted> placed(std::initializer_list<std::string_view> used) {
  std::vector<Wanted> wanted = kWhole;
  std::size_t i = 0;
  for (const std::string_view each : used) wanted[i++].used = each;
  return wanted;
}

double worst_difference(const Outcome& a, const Outcome& b) {
  double worst = 0.0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    for (std::size_t k = 0; k < a.values[i].size(); ++k) {
      worst = std::max(worst, std::abs(a.values[i][k] - b.values[i][k]));
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("hidden matrices are told by their names", "[parallel][muon]") {
  CHECK(is_hidden_matrix("layers.0.attention.wq.weight", 2));
  CHECK(is_hidden_matrix("layers.1.moe.experts.w1_EFD", 3));
  CHECK(is_hidden_matrix("layers.0.multihead.weight", 2));
  CHECK_FALSE(is_hidden_matrix("layers.0.norm.weight", 1));
  CHECK_FALSE(is_hidden_matrix("tok_embeddings.weight", 2));
  CHECK_FALSE(is_hidden_matrix("model.embed_tokens.weight", 2));
  CHECK_FALSE(is_hidden_matrix("lm_head.weight", 2));
  CHECK_FALSE(is_hidden_matrix("head", 2));
}

TEST_CASE("owners have equal work, whatever rank asks", "[parallel][muon]") {
  const Mesh mesh = mesh_of({2, 2}, {"dp", "tp"});
  std::vector<Spec> stored;
  for (int i = 0; i < 8; ++i) stored.push_back(spec_of(mesh, {8, 8}, "S(0), S(1)"));
  stored.push_back(spec_of(mesh, {64, 64}, "S(0), R"));
  stored.push_back(spec_of(mesh, {6, 4, 4}, "R, S(0)"));
  const std::vector<Spec> owned = muon_specs(stored);
  CHECK(owned[8].to_string() == "F64[64, 64] (O(0), O(0)) on {dp: 2, tp: 2}");
  CHECK(owned[9].to_string() == "F64[6, 4, 4] (SS(0,2), S(0)) on {dp: 2, tp: 2}");
  std::map<std::string, int> of_owner;
  for (int i = 0; i < 8; ++i) {
    ++of_owner[to_string(value_or_throw(owned[static_cast<std::size_t>(i)].placements()))];
  }
  // The rank of the large one has no other.
  CHECK(of_owner ==
        std::map<std::string, int>{{"(O(0), O(1))", 3}, {"(O(1), O(0))", 3}, {"(O(1), O(1))", 2}});
}

TEST_CASE("one rank's update is the formula's", "[parallel][muon]") {
  const Momentum form = GENERATE(Momentum::kPlain, Momentum::kNesterov);
  const Outcome out = run({{1}, {"dp"}, {}, placed({"R", "R", "R", "R", "R"})}, form)[0];
  const auto expect = [&](std::size_t which, std::size_t rows, std::size_t columns,
                          std::size_t first) {
    Matrix p(rows, std::vector<double>(columns)), m = p;
    for (int step = 0; step < 3; ++step) {
      Matrix u = m;
      for (std::size_t i = 0; i < rows; ++i) {
        for (std::size_t j = 0; j < columns; ++j) {
          const auto at = static_cast<std::int64_t>(first + i * columns + j);
          if (step == 0) p[i][j] = value_at(at);
          const double g = 0.5 * gradient_at(at, step);
          m[i][j] = 0.9 * m[i][j] + g;
          u[i][j] = form == Momentum::kNesterov ? g + 0.9 * m[i][j] : m[i][j];
        }
      }
      const Matrix x = orthogonalised(u);
      const double scale = std::sqrt(std::max(1.0, double(rows) / double(columns)));
      for (std::size_t i = 0; i < rows; ++i) {
        for (std::size_t j = 0; j < columns; ++j) {
          p[i][j] = p[i][j] * (1 - 0.1 * 0.1) - 0.1 * scale * x[i][j];
        }
      }
    }
    double worst = 0.0;
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < columns; ++j) {
        worst = std::max(worst, std::abs(p[i][j] - out.values[which][first + i * columns + j]));
      }
    }
    return worst;
  };
  CHECK(expect(0, 6, 4, 0) < 1e-11);
  CHECK(expect(1, 4, 6, 0) < 1e-11);
  for (std::size_t expert = 0; expert < 3; ++expert) CHECK(expect(2, 4, 2, 8 * expert) < 1e-11);
  CHECK(out.state ==
        std::vector<std::string>{"optimizer.layers.0.wq.weight.first F64[6, 4] (R) on {dp: 1}",
                                 "optimizer.layers.0.wo.weight.first F64[4, 6] (R) on {dp: 1}",
                                 "optimizer.layers.0.w1_EFD.first F64[3, 4, 2] (R) on {dp: 1}",
                                 "optimizer.layers.0.norm.weight.first F64[5] (R) on {dp: 1}",
                                 "optimizer.layers.0.norm.weight.second F64[5] (R) on {dp: 1}",
                                 "optimizer.lm_head.weight.first F64[3, 2] (R) on {dp: 1}",
                                 "optimizer.lm_head.weight.second F64[3, 2] (R) on {dp: 1}"});
}

TEST_CASE("every mesh gives the updates of one rank", "[parallel][muon]") {
  const Outcome one =
      run({{1}, {"dp"}, {}, placed({"R", "R", "R", "R", "R"})}, Momentum::kNesterov)[0];
  const std::vector<Setting> settings = {
      {{4}, {"dp"}, {}, placed({"R", "R", "R", "R", "R"})},
      {{4}, {"fsdp"}, {0}, placed({"R", "R", "R", "R", "R"})},
      {{2, 2}, {"dp", "fsdp"}, {1}, placed({"R, R", "R, R", "R, R", "R, R", "R, R"})},
      {{2, 2}, {"fsdp", "tp"}, {0}, placed({"R, S(0)", "R, S(1)", "R, S(0)", "R, R", "R, S(0)"})},
      {{3}, {"tp"}, {}, placed({"S(1)", "S(0)", "S(2)", "R", "S(1)"})},
      {{3}, {"dp"}, {}, placed({"R", "R", "R", "R", "R"}), "P(sum)"}};
  for (const Setting& setting : settings) {
    for (const Outcome& out : run(setting, Momentum::kNesterov)) {
      CAPTURE(to_string(setting.mesh), setting.axes);
      CHECK(worst_difference(out, one) < 1e-11);
    }
  }
}

TEST_CASE("a step moves each matrix once either way", "[parallel][muon]") {
  // One matrix of 8 x 4 in F64, 256 bytes, and its owner, rank 0.
  const auto received = [](Shape mesh, std::vector<int> fsdp, std::string used,
                           std::string grads = {}) {
    std::vector<std::int64_t> bytes;
    for (const Outcome& out : run({std::move(mesh),
                                   {"dp"},
                                   std::move(fsdp),
                                   {{"layers.0.w", {8, 4}, std::move(used)}},
                                   std::move(grads)},
                                  Momentum::kPlain)) {
      bytes.push_back(out.received);
    }
    return bytes;
  };
  using Bytes = std::vector<std::int64_t>;
  CHECK(received({4}, {0}, "R") == Bytes{192, 64, 64, 64});
  CHECK(received({2}, {}, "R") == Bytes{0, 256});
  // Summands go to the owner, who reduces them.
  CHECK(received({2}, {}, "R", "P(sum)") == Bytes{256, 256});
}

}  // namespace tessera::testing
