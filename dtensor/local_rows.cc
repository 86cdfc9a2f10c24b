#include "dtensor/local_rows.h"

#include <utility>

#include "dtensor/autograd.h"
#include "dtensor/observer.h"
#include "kernels/elementwise.h"
#include "kernels/index.h"
#include "kernels/row_sums.h"

namespace tessera {
namespace {

Array empty_rows(Runtime& runtime, std::int64_t rows, const Array& like) {
  return Array::empty({rows, like.size(1)}, like.dtype(), runtime.kernels().allocator);
}

Array pick(Runtime& runtime, const Array& x, const Array& index) {
  Array out = empty_rows(runtime, index.num_elements(), x);
  kernels::index_select(runtime.kernels(), x, 0, index, kernels::Absent::kSkip, out);
  return out;
}

/// Row n's token: its slot / K, −1 stays.
Array tokens_of(Runtime& runtime, const Array& slot_N, std::int64_t top_k) {
  Array tokens = Array::empty(slot_N.shape(), DType::kI64, runtime.kernels().allocator);
  kernels::binary_scalar(runtime.kernels(), kernels::Binary::kFloorDivide, slot_N,
                         static_cast<double>(top_k), tokens);
  return tokens;
}

/// Each token's sum of its rows.
Array add(Runtime& runtime, const Array& rows_ND, const Array& place_TK) {
  const Array rows = kernels::contiguous(runtime.kernels(), rows_ND);
  Array out = empty_rows(runtime, place_TK.size(0), rows);
  kernels::weighted_row_sum(runtime.kernels(), rows, Array(), place_TK, out);
  return out;
}

struct TakeNode final : GradNode {
  using GradNode::GradNode;
  std::string_view name() const override { return "take_rows"; }
  void run(std::span<const DTensor> cotangents, std::span<DTensor> grads) override {
    grads[0] = plain(runtime, add(runtime, cotangents[0].local(), place_TK));
    tell_region(runtime, "add_rows", RegionKind::kLocal, {cotangents[0]}, grads[0], site);
  }
  void release() override { place_TK = {}; }
  Array place_TK;
};

struct AddNode final : GradNode {
  using GradNode::GradNode;
  std::string_view name() const override { return "add_rows"; }
  void run(std::span<const DTensor> cotangents, std::span<DTensor> grads) override {
    grads[0] = plain(runtime, pick(runtime, cotangents[0].local(), token_N));
    tell_region(runtime, "take_rows", RegionKind::kLocal, {cotangents[0]}, grads[0], site);
  }
  void release() override { token_N = {}; }
  Array token_N;
};

struct SumNode final : GradNode {
  using GradNode::GradNode;
  std::string_view name() const override { return "sum_rows"; }
  void run(std::span<const DTensor> cotangents, std::span<DTensor> grads) override {
    KernelContext& kernels = runtime.kernels();
    const Array rows_ND = kernels::contiguous(kernels, restore(rows, "rows").local());
    const Array weights_TK = kernels::contiguous(kernels, restore(weights, "weights").local());
    const kernels::RowSumGrads out = {
        .rows_ND = empty_rows(runtime, rows_ND.size(0), rows_ND),
        .weights_TK = Array::empty(weights_TK.shape(), weights_TK.dtype(), kernels.allocator)};
    kernels::weighted_row_sum_grad(kernels, rows_ND, weights_TK, slot_N,
                                   kernels::contiguous(kernels, cotangents[0].local()), out);
    const DTensor both[] = {plain(runtime, out.rows_ND), plain(runtime, out.weights_TK)};
    grads[0] = both[0];
    grads[1] = both[1];
    if (runtime.observer == nullptr) return;
    const DTensor read[] = {cotangents[0], restore(rows, "rows"), restore(weights, "weights")};
    runtime.observer->on_region(
        {.name = "sum_rows_backward", .args = read, .results = both, .site = site});
  }
  void release() override {
    rows = {};
    weights = {};
    slot_N = {};
  }
  SavedTensor rows, weights;
  Array slot_N;
};

struct ReorderNode final : GradNode {
  using GradNode::GradNode;
  std::string_view name() const override { return "reorder_rows"; }
  void run(std::span<const DTensor> cotangents, std::span<DTensor> grads) override {
    grads[0] = plain(runtime, pick(runtime, cotangents[0].local(), restore_N));
    tell_region(runtime, "reorder_rows", RegionKind::kLocal, {cotangents[0]}, grads[0], site);
  }
  void release() override { restore_N = {}; }
  Array restore_N;
};

}  // namespace

DTensor take_rows(const DTensor& x_TD, const RowPlaces& places, const Site& site) {
  Runtime& runtime = x_TD.runtime();
  const Array tokens = tokens_of(runtime, places.slot_N.local(), places.place_TK.size(1));
  DTensor result = plain(runtime, pick(runtime, x_TD.local(), tokens));
  tell_region(runtime, "take_rows", RegionKind::kLocal, {x_TD, places.slot_N}, result, site);
  if (!records(runtime, x_TD)) return result;
  auto node = std::make_shared<TakeNode>(runtime, site);
  node->place_TK = places.place_TK.local();
  node->edges.push_back(edge_of(x_TD));
  attach(result, std::move(node));
  return result;
}

DTensor add_rows(const DTensor& rows_ND, const RowPlaces& places, const Site& site) {
  Runtime& runtime = rows_ND.runtime();
  const Array place_TK = places.place_TK.local();
  DTensor result = plain(runtime, add(runtime, rows_ND.local(), place_TK));
  tell_region(runtime, "add_rows", RegionKind::kLocal, {rows_ND, places.place_TK}, result, site);
  if (!records(runtime, rows_ND)) return result;
  auto node = std::make_shared<AddNode>(runtime, site);
  node->token_N = tokens_of(runtime, places.slot_N.local(), place_TK.size(1));
  node->edges.push_back(edge_of(rows_ND));
  attach(result, std::move(node));
  return result;
}

DTensor sum_rows(const DTensor& rows_ND, const DTensor& weights_TK, const RowPlaces& places,
                 DType out, const Site& site) {
  Runtime& runtime = rows_ND.runtime();
  KernelContext& kernels = runtime.kernels();
  Array sums = Array::empty({places.place_TK.size(0), rows_ND.size(1)}, out, kernels.allocator);
  kernels::weighted_row_sum(kernels, kernels::contiguous(kernels, rows_ND.local()),
                            kernels::contiguous(kernels, weights_TK.local()),
                            places.place_TK.local(), sums);
  DTensor result = plain(runtime, std::move(sums));
  tell_region(runtime, "sum_rows", RegionKind::kLocal, {rows_ND, weights_TK, places.place_TK},
              result, site);
  const bool records_rows = records(runtime, rows_ND);
  if (!records(runtime, weights_TK) && !records_rows) return result;
  auto node = std::make_shared<SumNode>(runtime, site);
  node->rows = save(rows_ND);
  node->weights = save(weights_TK);
  node->slot_N = places.slot_N.local();
  node->edges.push_back(edge_of(rows_ND));
  node->edges.push_back(edge_of(weights_TK));
  attach(result, std::move(node));
  return result;
}

DTensor reorder_rows(const DTensor& x_ND, const DTensor& source_R, const DTensor& restore_N,
                     const Site& site) {
  Runtime& runtime = x_ND.runtime();
  DTensor result = plain(runtime, pick(runtime, x_ND.local(), source_R.local()));
  tell_region(runtime, "reorder_rows", RegionKind::kLocal, {x_ND, source_R}, result, site);
  if (!records(runtime, x_ND)) return result;
  auto node = std::make_shared<ReorderNode>(runtime, site);
  node->restore_N = restore_N.local();
  node->edges.push_back(edge_of(x_ND));
  attach(result, std::move(node));
  return result;
}

}  // namespace tessera
