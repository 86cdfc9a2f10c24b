// dtensor/factories.h: new tensors on a mesh from sizes and numbers. Each rank computes its part
// from the global indices: values are the same whatever the placement, and nothing is sent.
#pragma once

#include <cstdint>

#include "dtensor/ops.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Where a new tensor stands. The default is a plain F32 tensor. Errors of the factories: those of
/// Spec::make(); FailedPrecondition for a Partial placement that cannot hold the values.
struct NewTensor {
  Mesh mesh = {};
  Placements placements = {};
  DType dtype = DType::kF32;
};

DTensor empty(Runtime& runtime, const Shape& shape, const NewTensor& as);
DTensor zeros(Runtime& runtime, const Shape& shape, const NewTensor& as);
DTensor ones(Runtime& runtime, const Shape& shape, const NewTensor& as);
DTensor full(Runtime& runtime, const Shape& shape, double value, const NewTensor& as);
/// A 0-d tensor.
DTensor scalar_tensor(Runtime& runtime, double value, const NewTensor& as);

/// start, start + step, … below (above, for a negative step) end. Errors: InvalidArgument for a
/// step of 0.
struct Range {
  double start = 0.0;
  double end = 0.0;
  double step = 1.0;
};
DTensor arange(Runtime& runtime, const Range& range, const NewTensor& as);
/// `steps` values from start to end, both included.
struct Line {
  double start = 0.0;
  double end = 1.0;
  std::int64_t steps = 0;
};
DTensor linspace(Runtime& runtime, const Line& line, const NewTensor& as);
DTensor logspace(Runtime& runtime, const Line& line, double base, const NewTensor& as);
DTensor eye(Runtime& runtime, std::int64_t rows, std::int64_t columns, const NewTensor& as);
/// Rows and columns of the elements of a triangle of rows × columns, row-major: I64 [2, count].
struct TriangleSize {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t offset = 0;
};
DTensor tril_indices(Runtime& runtime, const TriangleSize& size, const NewTensor& as);
DTensor triu_indices(Runtime& runtime, const TriangleSize& size, const NewTensor& as);

/// Uniform in [0, 1).
DTensor rand(Runtime& runtime, const Shape& shape, const RandomArgs& source, const NewTensor& as);
/// Standard normal.
DTensor randn(Runtime& runtime, const Shape& shape, const RandomArgs& source, const NewTensor& as);
/// Integers in [low, high).
struct IntegerRange {
  std::int64_t low = 0;
  std::int64_t high = 0;
};
DTensor randint(Runtime& runtime, const IntegerRange& range, const Shape& shape,
                const RandomArgs& source, const NewTensor& as);
/// 0 … n − 1 in a random order.
DTensor randperm(Runtime& runtime, std::int64_t n, const RandomArgs& source, const NewTensor& as);

}  // namespace tessera
