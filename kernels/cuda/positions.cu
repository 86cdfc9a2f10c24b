// Positions in a whole tensor and in the part that lies here.
#include <cstring>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/map.h"
#include "kernels/elementwise.h"
#include "kernels/lines.h"
#include "kernels/position_runs.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

struct Localize {
  PositionRule rule;
  FaultWord fault;
  __device__ void operator()(std::int64_t i, const std::int64_t* in, std::int64_t* out) const {
    if (!rule.apply(in[0], out[0])) fault.note(i);
  }
};

constexpr int kCutDims = 16;  // that a launch takes: dims that lie here whole merge

struct Globalize {
  int ndim;
  PositionRuns dims[kCutDims];
  __device__ void operator()(std::int64_t, const std::int64_t* in, std::int64_t* out) const {
    std::int64_t rest = in[0], step = 1;
    out[0] = 0;
    for (int d = ndim - 1; d >= 0; --d) {
      out[0] += step * dims[d].to_global(rest % dims[d].count);
      rest /= dims[d].count;
      step *= dims[d].size;
    }
  }
};

/// The part's runs on the device; `table` keeps them there.
PositionRuns upload_runs(KernelContext& ctx, const HeldPart& part, Array& table) {
  const std::vector<PositionRun> runs = table_of(part);
  if (runs.empty()) return runs_of(part, nullptr);
  const Array host = Array::empty({static_cast<std::int64_t>(runs.size()), 3}, DType::kI64);
  static_assert(sizeof(PositionRun) == 3 * sizeof(std::int64_t));
  std::memcpy(host.data<std::byte>(), runs.data(), runs.size() * sizeof(PositionRun));
  table = to_device(ctx, host);
  return runs_of(part, device_data<const PositionRun>(table));
}

bool is_whole(const HeldPart& part) { return part.count() == part.size; }

/// The same dims with those that lie here whole merged with their neighbours.
std::vector<HeldPart> merged(std::span<const HeldPart> dims) {
  std::vector<HeldPart> out;
  for (const HeldPart& dim : dims) {
    if (!out.empty() && is_whole(out.back()) && is_whole(dim)) {
      out.back() = HeldPart::whole(out.back().size * dim.size);
    } else {
      out.push_back(dim);
    }
  }
  return out;
}

}  // namespace

void localize(KernelContext& ctx, const Array& positions, const HeldPart& part,
              const OtherPositions& others, const RefusePosition& refuse, const Array& local) {
  check_localize(positions, local);
  const Array ids = contiguous(ctx, as_dtype(ctx, positions, DType::kI64));
  Array table;
  const PositionRule rule = rule_of(upload_runs(ctx, part, table), others);
  const FaultWord fault = device_of(ctx).next_fault_word(
      [ids, refuse](std::int64_t at) { return refuse(at, integer_at(ids, at)); });
  map<std::int64_t, 1, 1>(ctx, "localize", {&local, &ids}, Localize{rule, fault});
}

void globalize(KernelContext& ctx, const Array& local, std::span<const HeldPart> dims,
               const Array& positions) {
  check_globalize(local, dims, positions);
  const std::vector<HeldPart> cut = merged(dims);
  if (cut.size() > kCutDims) {
    throw Error(unimplemented("globalize over " + std::to_string(cut.size()) +
                              " cut dims has no kernel on " + to_string(ctx.device->id())));
  }
  Globalize function{.ndim = static_cast<int>(cut.size()), .dims = {}};
  Array tables[kCutDims];
  for (std::size_t d = 0; d < cut.size(); ++d) {
    function.dims[d] = upload_runs(ctx, cut[d], tables[d]);
  }
  map<std::int64_t, 1, 1>(ctx, "globalize", {&positions, &local}, function);
}

}  // namespace tessera::kernels::TSR_CUDA
