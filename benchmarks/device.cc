// What kernels take on a device beside floors of the same run: a plain copy of as many bytes, a
// launch of nothing, a dense product of the same size. Times are medians over rounds of many calls,
// from a device at rest until it is at rest again. On the emulation sizes are tiny, and the figures
// say that it works and no more.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/device_floor.h"
#include "benchmarks/device_table.h"
#include "devices/devices.h"
#include "dtensor/ops.h"
#include "kernels/attention.h"
#include "kernels/box_moves.h"
#include "kernels/elementwise.h"
#include "kernels/index.h"
#include "kernels/matmul.h"
#include "kernels/random.h"
#include "kernels/route.h"
#include "kernels/row_sums.h"

namespace tessera::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Work = std::function<void()>;

constexpr int kRanks = 4;  // whose arrays lie on the one card

struct Sizes {
  int rounds = 7, calls = 50, host_calls = 500;
  std::int64_t box_rows = 65536, box_columns = 512;      ///< a rank's columns are rows of 512 B
  std::int64_t piece_rows = 8388608;                     ///< of 4 columns: pieces of 4 B
  std::int64_t bucket_tensors = 100, bucket_side = 128;  ///< 64 KiB each
  std::int64_t tokens = 16384, dim = 2048, top_k = 6, experts = 64;
  std::int64_t batch = 2, heads = 16, sequence = 2048, head_dim = 128;
  DType product = DType::kBF16;
  std::int64_t inner = 2048, outer = 768;                                   ///< of grouped products
  std::vector<std::vector<std::int64_t>> groups = {{8, 4096}, {16, 2048}};  ///< experts, rows each
  // The step of configs/debug.json, in F32, for which no library has such kernels.
  std::int64_t small_batch = 4, small_sequence = 512, key_dim = 192, value_dim = 128;
  std::int64_t small_experts = 8, small_rows = 768, small_dim = 256;
};

Sizes tiny() {
  return {.rounds = 1,
          .calls = 2,
          .host_calls = 20,
          .box_rows = 32,
          .box_columns = 16,
          .piece_rows = 64,
          .bucket_tensors = 6,
          .bucket_side = 4,
          .tokens = 32,
          .dim = 16,
          .top_k = 2,
          .experts = 8,
          .batch = 1,
          .heads = 2,
          .sequence = 16,
          .head_dim = 8,
          .product = DType::kF32,  // not every processor multiplies BF16
          .inner = 16,
          .outer = 8,
          .groups = {{2, 8}, {4, 4}},
          .small_batch = 1,
          .small_sequence = 20,
          .key_dim = 12,
          .value_dim = 8,
          .small_experts = 2,
          .small_rows = 9,
          .small_dim = 16};
}

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

class DeviceBench {
 public:
  DeviceBench(std::shared_ptr<Device> device, DeviceFloor floor, Sizes sizes, Claim claim)
      : device_(std::move(device)),
        memory_(device_->make_allocator()),
        ctx_{.device = device_.get(), .allocator = memory_},
        floor_(floor),
        sizes_(std::move(sizes)),
        claim_(claim) {}

  void run() {
    print_libraries();
    print_header();
    copy_boxes("box copies F32 128 MiB, 4 ranks, rows of 512 B", sizes_.box_rows,
               sizes_.box_columns, Rate::kTime);
    copy_boxes("box copies F32 128 MiB, 4 ranks, pieces of 4 B", sizes_.piece_rows, kRanks,
               Rate::kBytes);
    copy_bucket();
    move_tokens();
    select_experts();
    for (const auto& group : sizes_.groups) multiply_groups(group[0], group[1]);
    attend();
    multiply_small_groups();
    attend_small();
    time_host();
    device_->raise_faults();
  }

 private:
  enum class Rate : std::uint8_t { kTime, kBytes };

  void finish() { device_->synchronize(device_->record(device_->compute())); }

  /// Microseconds of one call in a row of calls.
  double us_of(const Work& work) {
    work();
    finish();
    std::vector<double> times;
    for (int round = 0; round < sizes_.rounds; ++round) {
      const auto begin = Clock::now();
      for (int call = 0; call < sizes_.calls; ++call) work();
      finish();
      times.push_back(us_since(begin) / sizes_.calls);
    }
    return median_of(times);
  }
  /// Microseconds of the host for one call, whatever the device still does.
  double host_us_of(const Work& work) {
    std::vector<double> times;
    for (int round = -1; round < sizes_.rounds; ++round) {
      const auto begin = Clock::now();
      for (int call = 0; call < sizes_.host_calls; ++call) work();
      if (round >= 0) times.push_back(us_since(begin) / sizes_.host_calls);
      finish();
    }
    return median_of(times);
  }

  Array empty(const Shape& shape, DType dtype) { return Array::empty(shape, dtype, memory_); }
  /// Zeros would cost products less power, and so less time.
  Array values(const Shape& shape, DType dtype) {
    std::vector<std::vector<std::int64_t>> indices;
    for (const std::int64_t size : shape) {
      indices.emplace_back(static_cast<std::size_t>(size));
      for (std::int64_t i = 0; i < size; ++i) indices.back()[static_cast<std::size_t>(i)] = i;
    }
    const Array out = empty(shape, dtype);
    kernels::random(ctx_, {.distribution = kernels::Distribution::kNormal, .seed = 1}, shape,
                    indices, out);
    return out;
  }
  Array integers(const Shape& shape, const std::vector<std::int64_t>& numbers) {
    const Array host = Array::empty(shape, DType::kI64);
    std::copy(numbers.begin(), numbers.end(), host.data<std::int64_t>());
    return to_device(ctx_, host);
  }
  /// A copy that reads and writes `bytes` in all, by whichever of two ways is faster.
  double copy_us(std::int64_t bytes) {
    const std::int64_t half = bytes / 32 * 16;
    const Array from = empty({half}, DType::kU8), to = empty({half}, DType::kU8);
    kernels::fill(ctx_, 7.0, from);
    const double by_kernel = us_of([&] { floor_.copy(ctx_, from, to); });
    const double by_library = us_of([&] {
      device_->copy(to.bytes(), from.bytes(), static_cast<std::size_t>(half), device_->compute());
    });
    return std::min(by_kernel, by_library);
  }
  void row(TableRow row) { print_row(row, claim_); }

  void print_libraries() {
    for (const LibraryUse& use : libraries_of(*device_)) {
      std::printf("%s: %s\n", use.work.c_str(), use.by.c_str());
    }
  }
  LibraryUse use_of(std::string_view work) {
    const std::vector<LibraryUse> all = libraries_of(*device_);
    return *std::ranges::find(all, work, &LibraryUse::work);
  }
  /// Whose kernel a call runs: the library's name without its version, or "plain".
  std::string implementation_of(std::string_view work, const Work& call) {
    const std::int64_t before = use_of(work).library_calls;
    call();
    const LibraryUse use = use_of(work);
    return use.library_calls == before ? "plain" : use.by.substr(0, use.by.find(' '));
  }

  // Rows cut among the ranks become columns cut among them, in one launch.
  void copy_boxes(const std::string& what, std::int64_t rows, std::int64_t columns, Rate rate) {
    const std::int64_t part_rows = rows / kRanks, part_columns = columns / kRanks;
    kernels::BoxMoves moves(4, kernels::BoxMoves::Stay::kYes);
    std::vector<Array> from, to;
    std::vector<const std::byte*> sources;
    std::vector<std::byte*> targets;
    for (int rank = 0; rank < kRanks; ++rank) {
      from.push_back(empty({part_rows, columns}, DType::kF32));
      kernels::fill(ctx_, rank + 1.0, from.back());
      to.push_back(empty({rows, part_columns}, DType::kF32));
      sources.push_back(from.back().bytes());
      targets.push_back(to.back().bytes());
      for (int peer = 0; peer < kRanks; ++peer) {
        const kernels::BoxCut cut = {
            .source = peer, .first = rank * part_columns, .stride = columns};
        moves.add({.first = peer * part_rows * part_columns,
                   .stride = part_columns,
                   .rows = part_rows,
                   .row_elements = part_columns,
                   .first_target = rank},
                  {&cut, 1});
      }
    }
    const double us = us_of([&] { move(moves, sources, targets); });
    const std::int64_t bytes = 2 * rows * columns * 4;
    const double floor = copy_us(bytes);
    if (rate == Rate::kTime) return row({what, "us", floor, us, 1.1 * floor});
    const auto rate_of = [&](double time) { return static_cast<double>(bytes) / time * 1e-6; };
    row({what, "TB/s", rate_of(floor), rate_of(us), 2.0, Good::kHigh});
  }

  void move(const kernels::BoxMoves& moves, const std::vector<const std::byte*>& sources,
            const std::vector<std::byte*>& targets) {
    // What it returns serves the compute stream again in its order.
    static_cast<void>(kernels::move_boxes(ctx_, moves, {.sources = sources, .targets = targets},
                                          std::nullopt, device_->compute()));
  }

  // The tables of a bucket are made for each call and travel with it, as in a collective.
  void copy_bucket() {
    const std::int64_t side = sizes_.bucket_side;
    std::vector<Array> from, to;
    std::vector<const std::byte*> sources;
    std::vector<std::byte*> targets;
    kernels::BoxMoves moves(4);
    for (std::int64_t i = 0; i < sizes_.bucket_tensors; ++i) {
      from.push_back(empty({side, 2 * side}, DType::kF32));
      kernels::fill(ctx_, static_cast<double>(i), from.back());
      to.push_back(empty({side, side}, DType::kF32));
      sources.push_back(from.back().bytes());
      targets.push_back(to.back().bytes());
      const kernels::BoxCut cut = {.source = i, .stride = 2 * side};
      moves.add({.stride = side, .rows = side, .row_elements = side, .first_target = i}, {&cut, 1});
    }
    const double us = us_of([&] { move(moves, sources, targets); });
    row({"bucket of 100 tensors of 64 KiB, one launch", "us",
         copy_us(2 * sizes_.bucket_tensors * side * side * 4), us, 12.0});
  }

  /// Where each slot's row lies: the slots by expert. Each token's experts are distinct.
  std::vector<std::int64_t> places() const {
    std::vector<std::vector<std::int64_t>> slots_of(static_cast<std::size_t>(sizes_.experts));
    std::uint64_t state = 1;
    for (std::int64_t token = 0; token < sizes_.tokens; ++token) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      for (std::int64_t k = 0; k < sizes_.top_k; ++k) {
        const auto expert = (static_cast<std::int64_t>(state >> 40) + k) % sizes_.experts;
        slots_of[static_cast<std::size_t>(expert)].push_back(token * sizes_.top_k + k);
      }
    }
    std::vector<std::int64_t> places(static_cast<std::size_t>(sizes_.tokens * sizes_.top_k));
    std::int64_t place = 0;
    for (const auto& slots : slots_of) {
      for (const std::int64_t slot : slots) places[static_cast<std::size_t>(slot)] = place++;
    }
    return places;
  }

  void move_tokens() {
    const std::int64_t slots = sizes_.tokens * sizes_.top_k;
    const std::vector<std::int64_t> place_of = places();
    std::vector<std::int64_t> token_of(place_of.size());
    for (std::size_t slot = 0; slot < place_of.size(); ++slot) {
      token_of[static_cast<std::size_t>(place_of[slot])] =
          static_cast<std::int64_t>(slot) / sizes_.top_k;
    }
    const Array x_TD = values({sizes_.tokens, sizes_.dim}, DType::kBF16);
    const Array rows_ND = empty({slots, sizes_.dim}, DType::kBF16);
    const Array token_N = integers({slots}, token_of);
    const Array place_TK = integers({sizes_.tokens, sizes_.top_k}, place_of);
    const Array weights_TK = empty({sizes_.tokens, sizes_.top_k}, DType::kF32);
    kernels::fill(ctx_, 0.25, weights_TK);
    const double floor = copy_us(x_TD.num_bytes() + rows_ND.num_bytes());
    row({"permute BF16 16,384 x 2,048, K 6", "us", floor,
         us_of([&] { kernels::permute_rows(ctx_, x_TD, token_N, rows_ND); }), 180.0});
    row({"weighted unpermute BF16 16,384 x 2,048, K 6", "us", floor,
         us_of([&] { kernels::weighted_row_sum(ctx_, rows_ND, weights_TK, place_TK, x_TD); }),
         185.0});
  }

  void select_experts() {
    const Array logits_TE = values({sizes_.tokens, sizes_.experts}, DType::kF32);
    const Shape chosen = {sizes_.tokens, sizes_.top_k};
    const kernels::RouteResults routes = {.scores = empty(logits_TE.shape(), DType::kF32),
                                          .ids = empty(chosen, DType::kI64),
                                          .weights = empty(chosen, DType::kF32)};
    const kernels::RouteOptions shares = {.weights = kernels::RouteWeights::kShares};
    const double us =
        us_of([&] { kernels::route_topk(ctx_, shares, {.logits = logits_TE}, routes); });
    row({"score + top-k 64 to 6 + shares, 16,384 tokens, one launch", "us",
         us_of([&] { floor_.launch_nothing(ctx_); }), us, 8.0});
  }

  void multiply_groups(std::int64_t experts, std::int64_t rows_each) {
    const std::int64_t rows = experts * rows_each, inner = sizes_.inner, outer = sizes_.outer;
    const Array x_TK = values({rows, inner}, sizes_.product);
    const Array weights_ENK = values({experts, outer, inner}, sizes_.product);
    const Array out_TN = empty({rows, outer}, sizes_.product);
    const Array counts_E = integers(
        {experts}, std::vector<std::int64_t>(static_cast<std::size_t>(experts), rows_each));
    const Array one_NK = weights_ENK.slice(0, 0, 1).as_strided({outer, inner}, {inner, 1}, 0);
    const double floor =
        us_of([&] { kernels::matmul(ctx_, x_TK, one_NK.transpose(0, 1), out_TN); });
    const Work multiply = [&] {
      kernels::grouped_matmul(ctx_, x_TK, weights_ENK.transpose(1, 2), counts_E, out_TN);
    };
    const std::string by = implementation_of("grouped products", multiply);
    const double us = us_of(multiply);
    const double operations = 2.0 * static_cast<double>(rows * inner * outer);
    const auto rate_of = [&](double time) { return operations / time * 1e-6; };
    row({"grouped product BF16 " + std::to_string(experts) + " x " + std::to_string(rows_each) +
             " x " + std::to_string(outer) + " x " + std::to_string(inner) + " (floor: one dense)",
         "TFLOP/s", rate_of(floor), rate_of(us), experts == 8 ? 620.0 : 600.0, Good::kHigh, by});
  }

  // Causal, so that half of the scores count; the gradient has five products where attention has
  // two.
  void attend() {
    const std::int64_t batch = sizes_.batch, heads = sizes_.heads, length = sizes_.sequence,
                       dim = sizes_.head_dim;
    const auto some = [&] { return values({batch, heads, length, dim}, sizes_.product); };
    const Array q = some(), k = some(), v = some(), grad = some();
    const auto room = [&] { return empty(q.shape(), sizes_.product); };
    const Array out = room(), lse = empty({batch, heads, length}, DType::kF32);
    const kernels::AttentionGradients grads{room(), room(), room()};
    const kernels::AttentionOptions options{
        .scale = 1.0 / std::sqrt(static_cast<double>(dim)), .causal = true, .causal_offset = 0};

    const std::int64_t rows = batch * length, cols = heads * dim;
    const Array x = values({rows, cols}, sizes_.product), w = values({cols, cols}, sizes_.product),
                y = empty({rows, cols}, sizes_.product);
    const double dense = 2.0 * static_cast<double>(rows * cols * cols);
    const double floor = dense / us_of([&] { kernels::matmul(ctx_, x, w, y); }) * 1e-6;
    const double product = static_cast<double>(batch * heads * length * length * dim);
    const auto measure = [&](const char* what, double products, const Work& call) {
      const std::string by = implementation_of("attention", call);
      row({what, "TFLOP/s", floor, products * product / us_of(call) * 1e-6, 0.0, Good::kHigh, by});
    };
    measure("attention BF16 2 x 16 x 2,048 x 128, causal (floor: dense)", 2.0,
            [&] { kernels::attention(ctx_, q, k, v, options, out, lse); });
    measure("gradients of the same", 5.0,
            [&] { kernels::attention_grad(ctx_, grad, q, k, v, out, lse, options, grads); });
  }

  void multiply_small_groups() {
    const std::int64_t experts = sizes_.small_experts, each = sizes_.small_rows,
                       dim = sizes_.small_dim, rows = experts * each;
    const Array x_TK = values({rows, dim}, DType::kF32), out_TN = values({rows, dim}, DType::kF32);
    const Array weights_EKN = values({experts, dim, dim}, DType::kF32);
    const Array counts_E =
        integers({experts}, std::vector<std::int64_t>(static_cast<std::size_t>(experts), each));
    const Array one_KN = weights_EKN.slice(0, 0, 1).as_strided({dim, dim}, {dim, 1}, 0);
    const double operations = 2.0 * static_cast<double>(rows * dim * dim) * 1e-6;
    const double floor = operations / us_of([&] { kernels::matmul(ctx_, x_TK, one_KN, out_TN); });
    const auto measure = [&](const char* what, const Work& call) {
      const std::string by = implementation_of("grouped products", call);
      row({what, "TFLOP/s", floor, operations / us_of(call), 0.0, Good::kHigh, by});
    };
    measure("grouped product F32 8 x 768 x 256 x 256 (floor: one dense)",
            [&] { kernels::grouped_matmul(ctx_, x_TK, weights_EKN, counts_E, out_TN); });
    measure("gradient of its weights", [&] {
      kernels::grouped_matmul_weight_grad(ctx_, x_TK, out_TN, counts_E, weights_EKN);
    });
  }

  // In time, and beside the whole scores' products: what lies beyond the causal bound is not owed.
  void attend_small() {
    const std::int64_t batch = sizes_.small_batch, heads = sizes_.heads,
                       length = sizes_.small_sequence;
    const auto some = [&](std::int64_t dim) {
      return values({batch, heads, length, dim}, DType::kF32);
    };
    const Array q = some(sizes_.key_dim), k = some(sizes_.key_dim), v = some(sizes_.value_dim),
                grad = some(sizes_.value_dim), out = some(sizes_.value_dim);
    const Array lse = empty({batch, heads, length}, DType::kF32);
    const auto room = [&](const Array& x) { return empty(x.shape(), DType::kF32); };
    const kernels::AttentionGradients grads{room(q), room(k), room(v)};
    const kernels::AttentionOptions options{
        .scale = 1.0 / std::sqrt(static_cast<double>(sizes_.key_dim)), .causal = true};
    const Array scores = empty({batch, heads, length, length}, DType::kF32);
    const double of_keys = us_of([&] { kernels::matmul(ctx_, q, k.transpose(2, 3), scores); });
    const double of_values = us_of([&] { kernels::matmul(ctx_, scores, v, out); });
    const auto measure = [&](const char* what, double floor, const Work& call) {
      const std::string by = implementation_of("attention", call);
      row({what, "us", floor, us_of(call), 0.0, Good::kLow, by});
    };
    measure("attention F32 4 x 16 x 512 x 192/128, causal (floor: dense)", of_keys + of_values,
            [&] { kernels::attention(ctx_, q, k, v, options, out, lse); });
    measure("gradients of the same", 3 * of_keys + 2 * of_values,
            [&] { kernels::attention_grad(ctx_, grad, q, k, v, out, lse, options, grads); });
  }

  // The calls are few enough to fit into the queue of launches.
  void time_host() {
    const double launch = host_us_of([&] { floor_.launch_nothing(ctx_); });
    const std::unique_ptr<World> world = make_single_world(
        {.threads_per_rank = 1, .allocator = [this](std::int64_t) { return memory_; }});
    world->events().summarize_only();
    Runtime runtime(*world);
    const DTensor x = plain(runtime, values({16, 16}, DType::kF32));
    const auto add_once = [&] { static_cast<void>(add(x, x)); };
    const NoGrad no_grad(runtime);
    const double op = host_us_of(add_once);
    finish();
    row({"host time of an op above a raw launch (floor: the launch)", "us", launch, op - launch,
         0.5});
  }

  std::shared_ptr<Device> device_;
  std::shared_ptr<Allocator> memory_;
  KernelContext ctx_;
  DeviceFloor floor_;
  Sizes sizes_;
  Claim claim_;
};

DeviceFloor floor_of(DeviceId::Kind kind) {
#ifdef TSR_HAS_CUDA
  if (kind == DeviceId::Kind::kCuda) return cuda_floor();
#endif
  static_cast<void>(kind);
  return emulated_floor();
}

StatusOr<DeviceId::Kind> kind_of(int argc, char** argv) {
  if (argc == 1) return DeviceId::Kind::kCuda;
  if (argc != 3 || std::string_view(argv[1]) != "--device") {
    return invalid_argument("usage: bench_device [--device cuda|emulated]");
  }
  TSR_ASSIGN_OR_RETURN(const DeviceId::Kind kind, parse_device_kind("--device", argv[2]));
  if (kind == DeviceId::Kind::kCpu) {
    return invalid_argument("--device cpu: cuda and emulated are allowed");
  }
  return kind;
}

int refused(const Status& status, int exit_code) {
  std::fprintf(stderr, "bench_device: %s\n", std::string(message_of(status)).c_str());
  return exit_code;
}

int bench_device(int argc, char** argv) {
  const StatusOr<DeviceId::Kind> kind = kind_of(argc, argv);
  if (!kind.ok()) return refused(kind.status(), 2);
  StatusOr<std::shared_ptr<Device>> device = make_device_of_rank(*kind, 0);
  if (!device.ok()) return refused(device.status(), 4);
  const bool is_emulated = *kind == DeviceId::Kind::kEmulated;
  std::printf(
      "device: %s%s\n", to_string((*device)->id()).c_str(),
      is_emulated ? ", emulated on the processor: sizes are tiny, figures mean nothing" : "");
  try {
    DeviceBench(*device, floor_of(*kind), is_emulated ? tiny() : Sizes(),
                is_emulated ? Claim::kNone : Claim::kTargets)
        .run();
  } catch (const Error& error) {
    return refused(error.status(), 1);
  }
  return 0;
}

}  // namespace
}  // namespace tessera::bench

/// bench_device [--device cuda|emulated]
int main(int argc, char** argv) { return tessera::bench::bench_device(argc, argv); }
