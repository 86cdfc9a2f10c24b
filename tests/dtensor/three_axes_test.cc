// Sums over three mesh axes at once, one by one and as a bucket: as HSDP's gradients need them.
#include <cmath>

#include "dtensor/ops.h"
#include "testing/ranks.h"
#include "testing/results.h"

namespace tessera::testing {
namespace {

constexpr std::int64_t kRanks = 8;

/// Rank's summand of element i of a tensor.
double summand(std::int64_t rank, std::int64_t i, std::int64_t tensor) {
  return std::sin(static_cast<double>(rank * 131 + i * 7 + tensor * 1009));
}

struct Tensor {
  Shape shape;
  bool cut_by_tp;  ///< along dim 0, else a summand there
};
const std::vector<Tensor> kTensors = {{{64}, false}, {{16, 64}, true}, {{16, 64}, false},
                                      {{5}, false},  {{96, 64}, true}, {{40, 64}, false}};

/// Element i summed over the ranks that hold a part of it; the last axis of the mesh is tp.
double total(std::int64_t i, std::int64_t tensor) {
  const Tensor& which = kTensors[static_cast<std::size_t>(tensor)];
  const std::int64_t half = num_elements(which.shape) / 2;
  double sum = 0;
  for (std::int64_t rank = 0; rank < kRanks; ++rank) {
    if (!which.cut_by_tp || rank % 2 == i / half) sum += summand(rank, i, tensor);
  }
  return sum;
}

/// The largest error of `x`, whose elements are totals of `tensor`.
double error_of(const DTensor& x, std::int64_t tensor) {
  double error = 0;
  const std::vector<double> values = full_tensor(x).to_vector();
  for (std::size_t i = 0; i < values.size(); ++i) {
    error = std::max(error, std::abs(values[i] - total(static_cast<std::int64_t>(i), tensor)));
  }
  return error;
}

DTensor summands_of(Runtime& runtime, const Mesh& mesh, std::int64_t tensor) {
  const Tensor& which = kTensors[static_cast<std::size_t>(tensor)];
  const std::int64_t rank = runtime.rank();
  const std::int64_t size = num_elements(which.shape);
  Shape local = which.shape;
  if (which.cut_by_tp) local[0] /= 2;
  const std::int64_t first = which.cut_by_tp ? rank % 2 * (size / 2) : 0;
  std::vector<double> values;
  for (std::int64_t i = 0; i < num_elements(local); ++i) {
    values.push_back(summand(rank, first + i, tensor));
  }
  const Placements placements = {Partial{}, Partial{},
                                 which.cut_by_tp ? Placement(Shard{0}) : Placement(Partial{})};
  return from_local(testing::here(runtime, Array::from_values(local, DType::kF64, values)), mesh,
                    placements, which.shape);
}

Placements home_of(std::int64_t tensor) {
  if (kTensors[static_cast<std::size_t>(tensor)].cut_by_tp) {
    return {Replicate{}, StridedShard{0, 2}, Shard{0}};
  }
  return {Replicate{}, Shard{0}, Replicate{}};
}

}  // namespace

TEST_CASE("sums over three axes go home alone and in a bucket", "[dtensor][bucket]") {
  const auto body = [&](World& world) {
    Runtime runtime(world);
    const Shape mesh_shape = {2, 2, 2};
    const Mesh mesh = value_or_throw(Mesh::make(view_of(mesh_shape), {"rep", "cp", "tp"}));
    std::vector<double> errors;
    for (int round = 0; round < 10; ++round) {
      std::vector<DTensor> xs;
      std::vector<Spec> to;
      const auto num_tensors = static_cast<std::int64_t>(kTensors.size());
      for (std::int64_t tensor = 0; tensor < num_tensors; ++tensor) {
        xs.push_back(summands_of(runtime, mesh, tensor));
        to.push_back(value_or_throw(Spec::make(
            mesh, kTensors[static_cast<std::size_t>(tensor)].shape, DType::kF64, home_of(tensor))));
        errors.push_back(error_of(redistribute(xs.back(), home_of(tensor)), tensor));
      }
      const std::vector<DTensor> bucket = redistribute_all(xs, to);
      for (std::int64_t tensor = 0; tensor < num_tensors; ++tensor) {
        errors.push_back(error_of(bucket[static_cast<std::size_t>(tensor)], tensor));
      }
    }
    return errors;
  };
  const std::vector<std::vector<double>> ranks =
      results_of(static_cast<int>(kRanks), {}, body).value();
  for (const std::vector<double>& errors : ranks) {
    for (std::size_t i = 0; i < errors.size(); ++i) {
      CAPTURE(i);
      CHECK(errors[i] < 1e-14);
    }
  }
}

}  // namespace tessera::testing
