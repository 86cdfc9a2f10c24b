#include "runtime/plan/execute.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "kernels/box_moves.h"
#include "kernels/elementwise.h"
#include "runtime/call/signature.h"
#include "runtime/plan/plan_program.h"
#include "runtime/world.h"

namespace tessera {
namespace {

using Way = ProgramStep::Way;

void check_local(const ProgramShare& share, std::int64_t rank, const Array& local,
                 const Device& device) {
  if (!share.gives) {
    if (local.is_null()) return;
    throw Error(invalid_argument(
        absl::StrFormat("execute: rank %d is outside the mesh of %s, so it has no local array; "
                        "pass a null one",
                        rank, share.src.to_string())));
  }
  if (!local.is_null() && local.shape() == share.local && local.dtype() == share.src.dtype()) {
    if (&local.device() == &device) return;
    throw Error(invalid_argument(
        absl::StrFormat("execute: the local array lies on %s, arrays of this World on %s",
                        to_string(local.device().id()), to_string(device.id()))));
  }
  const std::string got =
      local.is_null() ? std::string("null")
                      : absl::StrFormat("%s %s", name_of(local.dtype()), to_string(local.shape()));
  throw Error(
      invalid_argument(absl::StrFormat("execute: local array %s is not this rank's part %s of %s",
                                       got, to_string(share.local), share.src.to_string())));
}

/// Rows [first, first + count) of a contiguous array.
Array rows_at(const Array& array, std::int64_t first, std::int64_t count) {
  return count == array.size(0) ? array : array.slice(0, first, first + count);
}

/// The box of an array with strides that a local step copies and nothing else; none: it does more.
std::optional<Array> box_copied(const ProgramStep& step, const Array& from) {
  const bool copies = step.way == Way::kLocal && step.group == nullptr && step.writes &&
                      !step.in_place && !step.fill && step.boxes->into.size() == 1 &&
                      !step.boxes->fold;
  if (!copies) return std::nullopt;
  Array box = from;
  const std::vector<std::vector<Run>>& dims = step.boxes->into[0].dims;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].size() != 1) return std::nullopt;
    const Run& run = dims[d][0];
    box = box.slice(static_cast<int>(d), run.src, run.src + run.size);
  }
  if (box.shape() != step.written) return std::nullopt;
  return box;
}

/// One tensor on its way.
struct Tensor {
  PlanProgram program;
  Array current;       ///< what the next step reads
  Array written;       ///< what the step under way writes
  bool owned = false;  ///< `current` is an array of ours that nobody else sees
  std::size_t next = 0;
  /// Which exchange of an all_reduce that a bucket takes in exchanges.
  std::optional<std::size_t> line = {};

  const ProgramShare& share() const { return program.share(); }
  const ProgramStep& step() const {
    const ProgramStep& whole = share().steps[next];
    return line ? (*whole.lines)[*line] : whole;
  }
  bool is_over() const { return next == share().steps.size(); }
  bool is_last() const { return next + 1 == share().steps.size(); }
};

/// Tensors whose next steps are one call.
struct Batch {
  Communicator* group = nullptr;
  bool all_reduces = false;
  std::vector<std::size_t> tensors;
};

/// The tensor's part of an exchange.
ExchangePart part_of(const Tensor& tensor) {
  const ProgramStep& step = tensor.step();
  const auto line = [](const Array& array) {
    return array.as_strided({array.num_elements()}, {1}, array.offset());
  };
  if (step.is_line) return {line(tensor.current), line(tensor.written), step.boxes};
  return {step.reads ? tensor.current : Array(), tensor.written, step.boxes};
}

}  // namespace

/// A bucket between its first step and its last.
struct ExecutionState {
  ExecutionState(World& its_world, const ExecuteInfo& its_info)
      : world(&its_world),
        tensor(its_info.tensor),
        why(its_info.why),
        origin(its_info.origin),
        site(its_info.site) {}

  World* world;
  std::string tensor, why;
  Origin origin;
  std::source_location site;
  double start_us = 0;
  std::vector<Tensor> tensors;
  std::vector<std::shared_ptr<Work>> works;
  std::vector<Batch> batches;  ///< under way
  std::int64_t received_bytes = 0;

  void begin(std::span<const PlanProgram> programs, std::span<const Array> locals);
  std::vector<Array> finish();

 private:
  KernelContext context() const {
    return {.threads = world->threads_per_rank(),
            .device = &world->device(),
            .allocator = world->allocator()};
  }
  void make_contiguous(Tensor& tensor);
  void start_collectives();
  void finish_collectives();
  void run_local_steps(Tensor& tensor);
  void run_local(Tensor& tensor);
  void prepare_written(Tensor& tensor);
  static void step_done(Tensor& tensor);
  void add_to_batch(std::size_t index);
  void start(const Batch& batch);
  CollectiveCall call_of(Tensor& tensor);
  CollectiveCall merged_call(const Batch& batch);
  CallInfo info_of(const Batch& batch) const;
  void log() const;
};

void ExecutionState::begin(std::span<const PlanProgram> programs, std::span<const Array> locals) {
  if (programs.size() != locals.size()) {
    throw Error(invalid_argument(absl::StrFormat("execute: %d programs come with %d local arrays",
                                                 programs.size(), locals.size())));
  }
  for (std::size_t i = 0; i < programs.size(); ++i) {
    check_local(programs[i].share(), world->rank(), locals[i], world->allocator()->device());
  }
  start_us = world->now_us();
  tensors.reserve(programs.size());
  for (std::size_t i = 0; i < programs.size(); ++i) {
    Tensor& tensor = tensors.emplace_back(programs[i], locals[i]);
    if (tensor.is_over() || tensor.current.is_null()) continue;
    tensor.current.storage()->wait_ready();
    if (!tensor.current.is_contiguous()) make_contiguous(tensor);
  }
  start_collectives();
}

// Of what a first step cuts off, nothing else is copied: an expanded scalar may be a large tensor.
void ExecutionState::make_contiguous(Tensor& tensor) {
  KernelContext ctx = context();
  const std::optional<Array> box = box_copied(tensor.step(), tensor.current);
  if (!box) {
    tensor.current = kernels::contiguous(ctx, tensor.current);
    return;
  }
  prepare_written(tensor);
  kernels::copy(ctx, *box, tensor.written);
  step_done(tensor);
}

std::vector<Array> ExecutionState::finish() {
  while (!batches.empty()) {
    finish_collectives();
    start_collectives();
  }
  log();
  std::vector<Array> results;
  results.reserve(tensors.size());
  for (Tensor& tensor : tensors) {
    results.push_back(tensor.share().takes ? std::move(tensor.current) : Array());
  }
  return results;
}

// All tensors go on to their next collectives, which are begun together.
void ExecutionState::start_collectives() {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    run_local_steps(tensors[i]);
    if (!tensors[i].is_over()) add_to_batch(i);
  }
  for (const Batch& batch : batches) {
    if (!batch.all_reduces || batch.tensors.size() == 1) continue;
    for (const std::size_t index : batch.tensors) tensors[index].line = 0;
  }
  works.reserve(batches.size());
  for (const Batch& batch : batches) start(batch);
}

void ExecutionState::finish_collectives() {
  for (const auto& work : works) {
    work->wait();
    received_bytes += work->bytes_received();
  }
  works.clear();
  for (const Batch& batch : batches) {
    for (const std::size_t index : batch.tensors) step_done(tensors[index]);
  }
  batches.clear();
}

void ExecutionState::run_local_steps(Tensor& tensor) {
  for (; !tensor.is_over() && tensor.step().group == nullptr; step_done(tensor)) {
    if (tensor.step().way == Way::kLocal) run_local(tensor);
  }
}

void ExecutionState::run_local(Tensor& tensor) {
  const ProgramStep& step = tensor.step();
  if (step.alias && !tensor.is_last()) {
    tensor.written = tensor.current.as_strided(step.written, contiguous_strides(step.written),
                                               tensor.current.offset() + *step.alias);
    return;
  }
  prepare_written(tensor);
  if (step.boxes->into.empty()) return;
  const std::vector<const std::byte*> sources(step.boxes->into.size(), tensor.current.bytes());
  const Landing& landing = *step.boxes->landing;
  if (tensor.written.is_on_host()) {
    landing.land(sources, tensor.written, world->threads_per_rank());
    return;
  }
  KernelContext ctx = context();
  std::byte* to = tensor.written.bytes();
  const kernels::BoxMoves& moves = landing.device_moves(size_of(tensor.written.dtype())).moves;
  // The compute stream is through with it before anything else has the memory.
  static_cast<void>(kernels::move_boxes(
      ctx, moves, {.sources = sources, .targets = {&to, 1}, .dtype = tensor.written.dtype()},
      landing.fold(), ctx.device->compute()));
}

// The array that a step writes, filled where its boxes leave something out.
void ExecutionState::prepare_written(Tensor& tensor) {
  const ProgramStep& step = tensor.step();
  if (!step.writes) return;
  if (step.in_place) {
    tensor.written = tensor.current;
    return;
  }
  const DType dtype = tensor.share().src.dtype();
  if (step.may_overwrite && tensor.owned) {
    tensor.written = tensor.current;
    return;
  }
  tensor.written = Array::empty(step.written, dtype, world->allocator());
  if (!step.fill) return;
  KernelContext ctx = context();
  kernels::fill_identity(ctx, *step.fill, tensor.written);
}

void ExecutionState::step_done(Tensor& tensor) {
  const ProgramStep& step = tensor.step();
  if (step.way != Way::kNothing) {
    tensor.owned = step.writes && !(step.alias && !tensor.is_last());
    tensor.current = std::move(tensor.written);
    tensor.written = {};
  }
  if (tensor.line && ++*tensor.line < tensor.share().steps[tensor.next].lines->size()) return;
  tensor.line.reset();
  ++tensor.next;
}

void ExecutionState::add_to_batch(std::size_t index) {
  const ProgramStep& step = tensors[index].step();
  const bool all_reduces = step.way == Way::kAllReduce;
  for (Batch& batch : batches) {
    if (batch.group != step.group || batch.all_reduces != all_reduces) continue;
    batch.tensors.push_back(index);
    return;
  }
  batches.push_back({step.group, all_reduces, {index}});
}

void ExecutionState::start(const Batch& batch) {
  for (const std::size_t index : batch.tensors) prepare_written(tensors[index]);
  CollectiveCall call =
      batch.tensors.size() == 1 ? call_of(tensors[batch.tensors.front()]) : merged_call(batch);
  works.push_back(batch.group->start(std::move(call), info_of(batch)));
}

CollectiveCall ExecutionState::call_of(Tensor& tensor) {
  const ProgramStep& step = tensor.step();
  const std::int64_t pack_bytes = tensor.share().pack_bytes;
  const auto own = static_cast<std::size_t>(step.group->rank());
  CollectiveCall call{.signature_extra = step.hash};
  switch (step.way) {
    case Way::kAllReduce:
      call.of = AllReduceCall{.in = tensor.current,
                              .out = tensor.written,
                              .reduce = step.reduce,
                              .divisor = step.divisor,
                              .pack_bytes = pack_bytes};
      break;
    case Way::kAllGather:
      call.of = AllGatherCall{
          .in = step.in_place ? rows_at(tensor.current, sum_before(step.rows, step.group->rank()),
                                        step.rows[own])
                              : tensor.current,
          .out = tensor.written,
          .rows = step.rows};
      break;
    case Way::kReduceScatter:
      call.of = ReduceScatterCall{.in = tensor.current,
                                  .out = rows_at(tensor.written, step.first_row, step.rows[own]),
                                  .reduce = step.reduce,
                                  .rows = step.rows,
                                  .divisor = step.divisor,
                                  .pack_bytes = pack_bytes};
      break;
    default:
      call.of = ExchangeCall{.parts = {part_of(tensor)}, .pack_bytes = pack_bytes};
  }
  return call;
}

CollectiveCall ExecutionState::merged_call(const Batch& batch) {
  CollectiveCall call;
  ExchangeCall exchange{.pack_bytes = INT64_MAX};
  exchange.parts.reserve(batch.tensors.size());
  for (const std::size_t index : batch.tensors) {
    const Tensor& tensor = tensors[index];
    exchange.pack_bytes = std::min(exchange.pack_bytes, tensor.share().pack_bytes);
    call.signature_extra = call.signature_extra * 0x9e3779b97f4a7c15U + tensor.step().hash;
    exchange.parts.push_back(part_of(tensor));
  }
  call.of = std::move(exchange);
  return call;
}

CallInfo ExecutionState::info_of(const Batch& batch) const {
  const ProgramStep& first = tensors[batch.tensors.front()].step();
  const bool alike = std::ranges::all_of(
      batch.tensors, [&](std::size_t index) { return tensors[index].step().event == first.event; });
  return {.tensor = tensor,
          .axes = first.axes,
          .site = site,
          .event = alike ? first.event : name_of(CollectiveCall::Kind::kExchange),
          .origin = origin,
          .why = why};
}

void ExecutionState::log() const {
  std::vector<std::string_view> labels;
  bool moves = false;
  for (const Tensor& tensor : tensors) {
    moves = moves || tensor.share().moves;
    for (const std::string& label : tensor.share().axes) {
      if (std::ranges::find(labels, label) == labels.end()) labels.push_back(label);
    }
  }
  if (!moves) return;
  std::string axes;
  for (const std::string_view label : labels) {
    if (!axes.empty()) axes += ',';
    axes += label;
  }
  world->events().add({.kind = Event::Kind::kRedistribute,
                       .name = "redistribute",
                       .tensor = tensor,
                       .axes = std::move(axes),
                       .bytes_received = received_bytes,
                       .origin = origin,
                       .why = why,
                       .file = site.file_name(),
                       .line = static_cast<int>(site.line()),
                       .start_us = start_us,
                       .end_us = world->now_us()});
}

// ---- the functions that callers see

Array execute(World& world, const PlanProgram& program, const Array& local,
              const ExecuteInfo& info) {
  ExecutionState state(world, info);
  state.begin({&program, 1}, {&local, 1});
  return std::move(state.finish().front());
}

Array execute(World& world, const Plan& plan, const Array& local, const ExecuteInfo& info) {
  return execute(world, PlanProgram(world, plan), local, info);
}

std::vector<Array> execute_all(World& world, std::span<const PlanProgram> programs,
                               std::span<const Array> locals, const ExecuteInfo& info) {
  ExecutionState state(world, info);
  state.begin(programs, locals);
  return state.finish();
}

BucketWork::BucketWork(std::unique_ptr<ExecutionState> state) : state_(std::move(state)) {}
BucketWork::BucketWork(BucketWork&&) noexcept = default;
BucketWork& BucketWork::operator=(BucketWork&&) noexcept = default;
BucketWork::~BucketWork() = default;

std::vector<Array> BucketWork::wait() {
  TSR_CHECK(state_ != nullptr, "waited for twice");
  const std::unique_ptr<ExecutionState> state = std::move(state_);
  return state->finish();
}

BucketWork execute_all_async(World& world, std::span<const PlanProgram> programs,
                             std::span<const Array> locals, const ExecuteInfo& info) {
  auto state = std::make_unique<ExecutionState>(world, info);
  state->begin(programs, locals);
  return BucketWork(std::move(state));
}

}  // namespace tessera
