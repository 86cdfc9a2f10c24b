#include "tools/placement_audit/executed/run_execute.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <list>
#include <map>
#include <mutex>
#include <tuple>

#include "absl/strings/str_format.h"
#include "capture/capture.h"
#include "devices/devices.h"
#include "dtensor/local_map.h"
#include "dtensor/ops.h"
#include "dtensor/with_row.h"
#include "kernels/elementwise.h"
#include "kernels/shapes_device.h"
#include "program/step_names.h"
#include "runtime/sim/sim_world.h"
#include "runtime/world.h"

namespace tessera::audit {
namespace {

const Site kNoSite{};  // a program's steps stand in a document, not in a source file

/// Where ranks keep their flight records: nobody asks for those of a program that failed.
class RecordsFolder {
 public:
  RecordsFolder() {
    std::error_code failed;
    const std::filesystem::path base = std::filesystem::temp_directory_path(failed);
    std::string pattern = (failed ? "/tmp" : base.string()) + "/tessera_run_XXXXXX";
    if (::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  RecordsFolder(const RecordsFolder&) = delete;
  RecordsFolder& operator=(const RecordsFolder&) = delete;
  ~RecordsFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  /// Empty where it cannot be made: records then stay in memory.
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

/// What all ranks write to.
struct Job {
  const Program& program;
  const RunSources& sources;
  std::vector<Array> whole_inputs;         ///< by input; null where each rank's array is given
  std::vector<RunResult> results;          ///< each written by the first rank of its mesh
  std::vector<std::vector<Event>> events;  ///< by rank
  std::vector<std::vector<std::size_t>> step_ends;  ///< by rank and step: events so far

  std::mutex mutex;  ///< of what follows: the first failure by (step, rank)
  Status failure;
  std::size_t failed_step = 0;
  std::int64_t failed_rank = 0;
};

class RankRun {
 public:
  RankRun(Job& job, World& world)
      : job_(job), program_(job.program), runtime_(world, job.sources.topology) {
    // Indices out of range are told with their position.
    runtime_.kernels().checked = true;
    if (job.program.checked) runtime_.checked = CheckedMode::kOn;
    if (job.sources.add_ops) throw_if_error(job.sources.add_ops(runtime_.ops()));
    tensors_.resize(program_.tensors.size());
  }

  void run() {
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) make_input(i);
    run_steps();
    job_.events[rank()] = runtime_.events().events();
    gather_results();
  }

  /// Inputs without values are left empty.
  tessera::Program trace(ValueNames names) {
    by_ops_ = names == ValueNames::kOfDocument;
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) make_input(i);
    Capture captured(runtime_, "program");
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      const ValueRole role =
          program_.inputs[i].needs_grad ? ValueRole::kParameter : ValueRole::kInput;
      captured.declare(tensors_[i], role, program_.tensors[i].name);
    }
    if (by_ops_) declare_numbers(captured);
    run_steps();
    const std::map<std::string, std::string> own = by_ops_ ? own_names(captured) : NameMap();
    tessera::Program program = captured.finish();
    rename_values(own, program);
    return program;
  }

 private:
  void run_steps() {
    for (std::size_t s = 0; s < program_.steps.size(); ++s) {
      try {
        std::visit([&](const auto& step) { take(step); }, program_.steps[s].what);
      } catch (const Error& error) {
        note_failure(s, error.status());
        throw;
      }
      ends().push_back(runtime_.events().events().size());
    }
  }

  /// They are there before the first step, as inputs are.
  void declare_numbers(Capture& captured) {
    for (const RunStep& step : program_.steps) {
      for (const ProgramOperand* const given : numbers_of(step)) {
        DTensor& made = numbers_[given->number->name];
        made = number(*given);
        captured.declare(made, ValueRole::kInput, given->number->name);
      }
    }
  }

  using NameMap = std::map<std::string, std::string>;
  /// What the document calls values that are still there, by the capture's names.
  NameMap own_names(Capture& captured) {
    NameMap names;
    for (const int slot : program_.results) {
      names[captured.name_of(at(slot))] = program_.tensors[static_cast<std::size_t>(slot)].name;
    }
    for (const int slot : program_.gradients) {
      const DTensor grad = at(slot).grad();
      if (!grad.defined()) continue;
      names[captured.name_of(grad)] =
          gradient_name(program_.tensors[static_cast<std::size_t>(slot)].name);
    }
    return names;
  }

  std::size_t rank() const { return static_cast<std::size_t>(runtime_.rank()); }
  std::vector<std::size_t>& ends() { return job_.step_ends[rank()]; }
  DTensor& at(int slot) { return tensors_[static_cast<std::size_t>(slot)]; }

  void make_input(std::size_t i);
  void take(const OpStep& step);
  void take(const RedistributeStep& step);
  void take(const BackwardStep& step);
  void take(const LocalMapStep& step);
  std::vector<DTensor> run_region(const LocalMapStep& step, const LocalInputs& inputs);
  DTensor operand(const ProgramOperand& given);
  DTensor number(const ProgramOperand& given) {
    return distribute(runtime_, given.value, given.number->spec);
  }
  DTensor gradient_of(int slot);
  void gather_results();
  void note_failure(std::size_t step, const Status& status);

  Job& job_;
  const Program& program_;
  bool by_ops_ = false;  ///< what autograd begins with is made by an op, too
  Runtime runtime_;
  std::vector<DTensor> tensors_;
  std::map<std::string, DTensor> numbers_;  ///< operands by name, where by_ops_
};

void RankRun::make_input(std::size_t i) {
  const ProgramInput& input = program_.inputs[i];
  const auto& [name, spec] = program_.tensors[i];
  DTensor& made = tensors_[i];
  if (input.from == ProgramInput::From::kLocals) {
    made = empty(runtime_, spec);
    const std::vector<std::int64_t> ranks = spec.mesh().ranks();
    const auto found = std::find(ranks.begin(), ranks.end(), runtime_.rank());
    if (found != ranks.end()) {
      const Array& local = input.arrays[static_cast<std::size_t>(found - ranks.begin())];
      kernels::copy(runtime_.kernels(), to_device(runtime_.kernels(), local), made.local());
    }
  } else if (job_.whole_inputs[i].is_null()) {
    made = empty(runtime_, spec);
  } else {
    made = distribute(runtime_, job_.whole_inputs[i], spec);
  }
  made.set_name(name);
  if (input.needs_grad) made.set_requires_grad(true);
}

DTensor RankRun::operand(const ProgramOperand& given) {
  if (given.slot >= 0) return at(given.slot);
  if (!given.number) return {};
  if (by_ops_) return numbers_.at(given.number->name);
  return number(given);
}

void RankRun::take(const OpStep& step) {
  std::list<RowScope> scopes;
  for (const ForcedRow& each : step.forced) {
    scopes.emplace_back(runtime_, step.op->def.name, each.row, each.axis, kNoSite);
  }
  std::vector<DTensor> operands;
  for (const ProgramOperand& given : step.operands) operands.push_back(operand(given));
  if (step.into) {
    std::vector<DTensor> outs;
    for (const int slot : step.results) outs.push_back(at(slot));
    return call_into(outs, step.op->def.name, operands, step.attrs, kNoSite);
  }
  std::vector<DTensor> results = call(runtime_, step.op->def.name, operands, step.attrs, kNoSite);
  for (std::size_t o = 0; o < results.size() && o < step.results.size(); ++o) {
    const int slot = step.results[o];
    if (slot < 0) continue;
    at(slot) = std::move(results[o]);
    // A written operand keeps the name that it came with.
    if (at(slot).name().empty()) {
      at(slot).set_name(program_.tensors[static_cast<std::size_t>(slot)].name);
    }
  }
}

void RankRun::take(const RedistributeStep& step) {
  const DTensor& from = at(step.slot);
  DTensor moved;
  if (step.to.mesh() == from.mesh()) {
    moved = redistribute(from, step.to.layout(), kNoSite);
  } else {
    const Placements to = value_or_throw(step.to.placements());
    moved = redistribute(from, step.to.mesh(), to, kNoSite);
  }
  at(step.result) = std::move(moved);
}

void RankRun::take(const BackwardStep& step) {
  const DTensor& root = at(step.root);
  if (step.cotangent >= 0) return backward(root, at(step.cotangent));
  backward(root, by_ops_ ? full_like(root.detach(), 1.0) : ones_like(root.detach()));
}

std::vector<DTensor> RankRun::run_region(const LocalMapStep& step, const LocalInputs& inputs) {
  std::vector<DTensor> locals;
  for (const LocalMapStep::Argument& each : step.arguments) {
    locals.push_back(inputs[program_.tensors[static_cast<std::size_t>(each.slot)].name]);
  }
  locals.resize(static_cast<std::size_t>(step.num_locals));
  const auto local = [&](int number) -> DTensor& {
    return locals[static_cast<std::size_t>(number)];
  };
  for (const LocalStep& each : step.body) {
    if (each.op == nullptr) {
      const auto grad = each.each_alike ? SumGradient::kReplicated : SumGradient::kPartial;
      DTensor sum =
          all_reduce_sum(local(each.operands[0].local), {step.mesh, each.axes}, grad, kNoSite);
      if (each.results[0] >= 0) local(each.results[0]) = std::move(sum);
      continue;
    }
    std::vector<DTensor> operands;
    for (const LocalOperand& operand : each.operands) {
      if (operand.local >= 0) {
        operands.push_back(local(operand.local));
      } else if (!operand.number.is_null()) {
        operands.push_back(plain(runtime_, to_device(runtime_.kernels(), operand.number)));
      } else {
        operands.emplace_back();
      }
    }
    std::vector<DTensor> made = call(runtime_, each.op->def.name, operands, each.attrs, kNoSite);
    for (std::size_t o = 0; o < made.size(); ++o) {
      if (each.results[o] >= 0) local(each.results[o]) = std::move(made[o]);
    }
  }
  // What leaves shares nothing with what came in: a tensor that is written later is no other.
  std::vector<DTensor> results;
  for (const LocalMapStep::Result& each : step.results) {
    const DTensor* const made = &local(each.local);
    results.push_back(call(runtime_, "clone", {made, 1}, {}, kNoSite)[0]);
  }
  return results;
}

void RankRun::take(const LocalMapStep& step) {
  std::vector<LocalArg> args;
  for (const LocalMapStep::Argument& each : step.arguments) {
    args.push_back({program_.tensors[static_cast<std::size_t>(each.slot)].name, at(each.slot),
                    each.placements, each.grad,
                    each.may_move ? OnMismatch::kRedistribute : OnMismatch::kError});
  }
  std::vector<LocalResult> results;
  for (const LocalMapStep::Result& each : step.results) {
    const ProgramTensor& made = program_.tensors[static_cast<std::size_t>(each.slot)];
    results.push_back({made.name, step.mesh, each.placements, made.spec.global_shape(), each.grad});
  }
  const auto body = [&](const LocalInputs& inputs) { return run_region(step, inputs); };
  std::vector<DTensor> made = local_map(runtime_, step.region, args, results, body, kNoSite);
  for (std::size_t i = 0; i < made.size(); ++i) {
    const ProgramTensor& named = program_.tensors[static_cast<std::size_t>(step.results[i].slot)];
    made[i].set_name(named.name);
    at(step.results[i].slot) = std::move(made[i]);
  }
}

/// Zeros where nothing flowed back: what depends on it does so by no slope.
DTensor RankRun::gradient_of(int slot) {
  const DTensor grad = at(slot).grad();
  return grad.defined() ? grad : zeros_like(at(slot).detach());
}

void RankRun::gather_results() {
  const NoGrad no_grad(runtime_);
  std::size_t next = 0;
  const auto gather = [&](const DTensor& tensor, std::string name) {
    const Array whole = full_tensor(tensor, kNoSite);
    RunResult& result = job_.results[next++];
    if (runtime_.rank() != tensor.mesh().first_rank()) return;
    result.name = std::move(name);
    result.spec = tensor.spec();
    const Array here = to_host(whole);
    KernelContext host;
    result.whole = Array::empty(here.shape(), here.dtype());
    kernels::copy(host, here, result.whole);
  };
  for (const int slot : program_.results) {
    gather(at(slot).detach(), program_.tensors[static_cast<std::size_t>(slot)].name);
  }
  for (const int slot : program_.gradients) {
    gather(gradient_of(slot), gradient_name(program_.tensors[static_cast<std::size_t>(slot)].name));
  }
}

void RankRun::note_failure(std::size_t step, const Status& status) {
  if (status.code() == absl::StatusCode::kUnavailable) return;  // another rank's
  const std::lock_guard lock(job_.mutex);
  const std::pair mine{step, runtime_.rank()};
  if (!job_.failure.ok() && mine >= std::pair{job_.failed_step, job_.failed_rank}) return;
  job_.failure = status;
  std::tie(job_.failed_step, job_.failed_rank) = mine;
}

/// The same step's events of several ranks become one: equal in all but bytes, the n-th with the
/// n-th.
void merge(int step, std::span<const Event> events, std::vector<RunEvent>& merged) {
  const auto same = [&](const RunEvent& have, const Event& event) {
    return have.step == step && have.kind == event.kind && have.name == event.name &&
           have.tensor == event.tensor && have.axes == event.axes && have.why == event.why &&
           have.origin == event.origin;
  };
  std::vector<std::size_t> taken;  // of this rank
  for (const Event& event : events) {
    std::size_t place = 0;
    while (place < merged.size() &&
           (!same(merged[place], event) || std::count(taken.begin(), taken.end(), place) > 0)) {
      ++place;
    }
    if (place == merged.size()) {
      merged.push_back({.step = step,
                        .kind = event.kind,
                        .name = event.name,
                        .tensor = event.tensor,
                        .axes = event.axes,
                        .why = event.why,
                        .origin = event.origin});
    }
    RunEvent& into = merged[place];
    ++into.ranks;
    into.bytes_received += event.bytes_received;
    into.most_received = std::max(into.most_received, event.bytes_received);
    taken.push_back(place);
  }
}

std::vector<RunEvent> merge_events(const Job& job) {
  std::vector<RunEvent> all;
  for (std::size_t s = 0; s < job.program.steps.size(); ++s) {
    std::vector<RunEvent> merged;
    for (std::size_t r = 0; r < job.events.size(); ++r) {
      const std::size_t begin = s == 0 ? 0 : job.step_ends[r][s - 1];
      const std::span<const Event> events(job.events[r]);
      merge(static_cast<int>(s), events.subspan(begin, job.step_ends[r][s] - begin), merged);
    }
    all.insert(all.end(), merged.begin(), merged.end());
  }
  return all;
}

/// Where it happened, and why; the text of run_ranks() where no step failed.
Status explain_failure(const Job& job, const Status& status) {
  if (job.failure.ok()) return status;
  const std::string text =
      absl::StrFormat("%srank %d: %s", job.program.steps[job.failed_step].place, job.failed_rank,
                      message_of(job.failure));
  return Status(job.failure.code(), to_absl(text));
}

}  // namespace

StatusOr<std::vector<Array>> whole_inputs(const Program& program, const RunSources& sources) {
  std::vector<Array> inputs;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const ProgramInput& input = program.inputs[i];
    Array& whole = inputs.emplace_back();
    if (input.from == ProgramInput::From::kWhole) whole = input.arrays[0];
    if (input.from != ProgramInput::From::kFile || sources.file == nullptr) continue;
    const auto& [name, spec] = program.tensors[i];
    whole = Array::empty(spec.global_shape(), spec.dtype());
    TSR_RETURN_IF_ERROR(
        sources.file->read(name, {whole.bytes(), static_cast<std::size_t>(whole.num_bytes())}));
  }
  return inputs;
}

StatusOr<RunOutcome> execute(const Program& program, const RunSources& sources) {
  Job job{.program = program, .sources = sources};
  TSR_ASSIGN_OR_RETURN(job.whole_inputs, whole_inputs(program, sources));
  const auto num_ranks = static_cast<std::size_t>(program.num_ranks);
  job.results.resize(program.results.size() + program.gradients.size());
  job.events.resize(num_ranks);
  job.step_ends.resize(num_ranks);
  const RecordsFolder records;
  WorldOptions options{.threads_per_rank = 1, .recorder_dir = records.path()};
  TSR_ASSIGN_OR_RETURN(options.allocator, memory_of_devices(sources.device));
  const Status status = run_ranks(static_cast<int>(program.num_ranks), options,
                                  [&](World& world) { RankRun(job, world).run(); });
  if (!status.ok()) return explain_failure(job, status);
  return RunOutcome{.results = std::move(job.results), .events = merge_events(job)};
}

StatusOr<tessera::Program> trace(const Program& program, std::int64_t rank,
                                 const RunSources& sources, ValueNames names) {
  if (rank >= program.num_ranks) {
    return invalid_argument(absl::StrFormat("--simulate-rank %d: the program has ranks 0 to %d",
                                            rank, program.num_ranks - 1));
  }
  Job job{.program = program, .sources = sources};
  TSR_ASSIGN_OR_RETURN(job.whole_inputs, whole_inputs(program, sources));
  job.step_ends.resize(static_cast<std::size_t>(program.num_ranks));
  SimOptions options;
  options.value_bytes = std::numeric_limits<std::int64_t>::max();
  options.device = &shapes_device();
  TSR_ASSIGN_OR_RETURN(const std::unique_ptr<World> world,
                       make_sim_world(rank, program.num_ranks, options));
  try {
    return RankRun(job, *world).trace(names);
  } catch (const Error& error) {
    return explain_failure(job, error.status());
  }
}

}  // namespace tessera::audit
