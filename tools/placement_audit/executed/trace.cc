// placement-audit trace: what one rank does in a training step or in a program of ops, as the
// program of a whole step (docs/program.md).
#include "absl/strings/str_format.h"
#include "io/file.h"
#include "moe/train/open_step.h"
#include "moe/train/routing_scenario.h"
#include "moe/train/simulate.h"
#include "program/fold.h"
#include "program/program_json.h"
#include "tools/placement_audit/command.h"
#include "tools/placement_audit/executed/run_execute.h"
#include "tools/placement_audit/find_ops.h"

namespace tessera::audit {
namespace {

constexpr std::string_view kBy = "placement-audit trace";

/// Tokens of one step: of a simulated one only the number counts.
StatusOr<TokenData> tokens_of(const ModelConfig& config) {
  RecordedTokens recorded;
  recorded.tokens.resize(static_cast<std::size_t>(config.accum * config.batch * (config.seq + 1)));
  return TokenData::of(std::move(recorded), config);
}

std::string file_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// The step on one rank, of ops alone: what a solver places.
StatusOr<tessera::Program> trace_open(const TraceRequest& trace, DType dtype) {
  if (trace.num_ranks != 1 || trace.rank != 0 || trace.parallel != "{}") {
    return invalid_argument(
        "trace --open: the step is of one rank, and its placements are found later; leave "
        "--parallel, --ranks and --simulate-rank out");
  }
  TSR_ASSIGN_OR_RETURN(const ModelConfig config, read_model_config(trace.train));
  TSR_ASSIGN_OR_RETURN(OpenStep step, open_step(config, dtype));
  step.program.name = file_of(trace.train);
  step.program.source.command = absl::StrFormat("--open --dtype %s", trace.dtype);
  return std::move(step.program);
}

StatusOr<tessera::Program> trace_training(const Request& request) {
  const TraceRequest& trace = request.trace;
  TSR_ASSIGN_OR_RETURN(ModelConfig config, read_model_config(trace.train));
  config.steps = 1;
  TSR_ASSIGN_OR_RETURN(const ParallelConfig parallel,
                       parse_parallel_config(trace.parallel, "--parallel"));
  const StatusOr<DType> dtype = parse_dtype(trace.dtype);
  const bool computes =
      dtype.ok() && (*dtype == DType::kF32 || *dtype == DType::kF64 || *dtype == DType::kBF16);
  if (!computes) {
    return invalid_argument("--dtype " + in_quotes(trace.dtype) +
                            ": F32, F64 and BF16 are allowed");
  }
  if (trace.open) return trace_open(trace, *dtype);
  if (trace.rank >= trace.num_ranks) {
    return invalid_argument(absl::StrFormat("--simulate-rank %d: ranks 0 to %d are allowed",
                                            trace.rank, trace.num_ranks - 1));
  }
  TSR_ASSIGN_OR_RETURN(const std::optional<Topology> topology, topology_of(request));
  const SimulatedPlace place = {
      .rank = trace.rank, .num_ranks = trace.num_ranks, .dtype = *dtype, .topology = topology};
  TSR_RETURN_IF_ERROR(force_routing(trace.routing, parallel, place, config));
  TSR_ASSIGN_OR_RETURN(const TokenData data, tokens_of(config));
  TSR_ASSIGN_OR_RETURN(tessera::Program program, trace_step(config, parallel, place, data));
  program.routing = trace.routing;
  program.name = file_of(trace.train);
  program.source.command =
      absl::StrFormat("--parallel %s --ranks %d --simulate-rank %d --dtype %s --routing %s",
                      trace.parallel, trace.num_ranks, trace.rank, trace.dtype, trace.routing);
  if (topology) program.source.command += " --topology " + request.topology;
  return program;
}

StatusOr<tessera::Program> trace_ops(const Request& request) {
  TSR_ASSIGN_OR_RETURN(const std::string text, read_file(request.trace.program, kMaxJsonBytes));
  TSR_ASSIGN_OR_RETURN(const OpTable table, op_table(request));
  TSR_ASSIGN_OR_RETURN(const JsonDocument document,
                       JsonDocument::parse(text, request.trace.program));
  TSR_ASSIGN_OR_RETURN(const Program read, read_program(document.root(), table, TensorTypes()));
  TSR_ASSIGN_OR_RETURN(const std::optional<Topology> topology, topology_of(request));
  return trace(read, request.trace.rank, {.add_ops = request.add_ops, .topology = topology});
}

}  // namespace

StatusOr<Answer> trace_program(const Request& request) {
  const TraceRequest& asked = request.trace;
  if (asked.train.empty() == asked.program.empty()) {
    return invalid_argument("trace: give one of --train, --program and --stablehlo");
  }
  TSR_ASSIGN_OR_RETURN(tessera::Program program,
                       asked.train.empty() ? trace_ops(request) : trace_training(request));
  program.source.by = kBy;
  return Answer{.text = write_program(fold(program))};
}

}  // namespace tessera::audit
