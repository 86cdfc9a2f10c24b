#include "strategies/verify/verify_cotangent.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "absl/strings/str_format.h"
#include "strategies/verify/verify_gradient.h"

namespace tessera {
namespace {

using Tensors = std::vector<std::vector<double>>;

constexpr std::size_t kElementsPerResult = 16;
constexpr int kPointsNear = 5;

/// An element of one result.
struct Place {
  std::size_t result = 0;
  std::size_t element = 0;
};

/// A cotangent of zeros for each floating result, but for one element.
Tensors alone(const std::vector<Array>& results, Place at, double value) {
  Tensors cotangents(results.size());
  for (std::size_t o = 0; o < results.size(); ++o) {
    if (!is_floating(results[o].dtype())) continue;
    cotangents[o].assign(static_cast<std::size_t>(results[o].num_elements()), 0.0);
  }
  cotangents[at.result][at.element] = value;
  return cotangents;
}

/// Which elements of the gradients the place has influence on, at one point.
std::vector<std::vector<bool>> influence(const GradientAt& gradient, Place at) {
  std::vector<std::vector<bool>> reached;
  for (const double value : {1.0, -0.71}) {
    const Tensors gradients = gradient.run(alone(gradient.results(), at, value));
    reached.resize(gradients.size());
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      reached[i].resize(gradients[i].size());
      for (std::size_t e = 0; e < gradients[i].size(); ++e) {
        if (gradients[i][e] != 0.0) reached[i][e] = true;
      }
    }
  }
  return reached;
}

/// Operands a little beside the given ones.
std::vector<WholeTensor> moved(std::span<const WholeTensor> operands, VerifyRandom& random) {
  std::uniform_real_distribution<double> step(-1e-4, 1e-4);
  std::vector<WholeTensor> near(operands.begin(), operands.end());
  for (WholeTensor& operand : near) {
    if (!is_floating(operand.dtype)) continue;
    for (double& value : operand.values) value += step(random);
  }
  return near;
}

/// Judges one call.
class CotangentJudge {
 public:
  CotangentJudge(const OpTable& table, const Op& op, const Attrs& attrs,
                 std::span<const WholeTensor> operands, std::uint64_t seed)
      : random_(seed), given_(table, op, attrs, arrays_of(operands)) {
    for (int i = 0; i < kPointsNear; ++i) {
      near_.emplace_back(table, op, attrs, arrays_of(moved(operands, random_)));
    }
  }

  std::string run() {
    std::uniform_real_distribution<double> draw(-1.0, 1.0);
    for (const Array& result : given_.results()) {
      std::vector<double>& cotangent = finite_.emplace_back();
      if (!is_floating(result.dtype())) continue;
      for (std::int64_t e = 0; e < result.num_elements(); ++e) cotangent.push_back(draw(random_));
    }
    for (std::size_t o = 0; o < finite_.size(); ++o) {
      if (finite_[o].empty()) continue;
      std::vector<std::size_t> elements(finite_[o].size());
      std::iota(elements.begin(), elements.end(), 0);
      std::shuffle(elements.begin(), elements.end(), random_);
      for (std::size_t i = 0; i < std::min(elements.size(), kElementsPerResult); ++i) {
        const std::string problem = judge({o, elements[i]});
        if (!problem.empty()) return problem;
      }
    }
    return "";
  }

 private:
  std::string judge(Place at) {
    std::vector<std::vector<bool>> reached = influence(given_, at);
    for (const GradientAt& near : near_) {
      const std::vector<std::vector<bool>> there = influence(near, at);
      for (std::size_t i = 0; i < reached.size(); ++i) {
        for (std::size_t e = 0; e < reached[i].size(); ++e) {
          if (there[i][e]) reached[i][e] = true;
        }
      }
    }
    const Tensors expected = given_.run(finite_);
    for (const double value :
         {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
      Tensors cotangents = finite_;
      cotangents[at.result][at.element] = value;
      const Tensors got = given_.run(cotangents);
      for (std::size_t i = 0; i < got.size(); ++i) {
        for (std::size_t e = 0; e < got[i].size(); ++e) {
          const bool same = nearly_equal(got[i][e], expected[i][e], DType::kF32);
          if (reached[i][e] || same) continue;
          return absl::StrFormat(
              "operand %d, element %d: its cotangent is %g where that of result %d is %g at "
              "element %d, on which it does not depend; %g where that is finite",
              i, e, got[i][e], at.result, value, at.element, expected[i][e]);
        }
      }
    }
    return "";
  }

  VerifyRandom random_;
  GradientAt given_;
  std::vector<GradientAt> near_;
  Tensors finite_;
};

}  // namespace

std::string cotangent_error(const OpTable& table, const Op& op, const Attrs& attrs,
                            std::span<const WholeTensor> operands, std::uint64_t seed) {
  return CotangentJudge(table, op, attrs, operands, seed).run();
}

}  // namespace tessera
