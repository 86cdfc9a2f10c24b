// tools/placement_audit/command.h: what a subcommand is: a request in, an answer out, nothing
// printed. audit_main() alone reads the command line and files, prints, and turns errors into exit
// codes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "io/json.h"
#include "placement/status.h"
#include "placement/topology.h"
#include "program/solver/propagate_program.h"
#include "strategies/rules/op.h"
#include "tools/placement_audit/audit_main.h"

namespace tessera::audit {

enum class Format { kJson, kText, kMarkdown, kHtml, kSvg, kCpp, kSarif, kJunit, kTorch, kShardy };
/// Whether a text answer may colour its cells (escape sequences, for a terminal that wants them).
enum class Colour { kPlain, kAnsi };
/// Whether an answer lists what each rank does.
enum class Detail { kTotals, kPerRank };

/// A file that an option names beside the input; an empty name: none.
struct OtherFile {
  std::string name, text;
};

/// What trace runs: a step of training, or a program of ops.
struct TraceRequest {
  std::string train;  ///< a model's config; empty: none
  std::string parallel = "{}";
  std::string program;  ///< a document that run takes, too; empty: none
  std::string torch;    ///< FILE:FUNCTION of PyTorch; empty: none
  std::string mesh;     ///< "dp=64,tp=8", of `torch`
  bool open = false;    ///< of `train`: the step as ops alone, on one rank
  std::string routing = "balanced";
  std::string dtype = "F32";
  std::int64_t num_ranks = 1;
  std::int64_t rank = 0;  ///< which one is told of
};

/// What solve is asked for, beside the program and a cap.
struct SolveRequest {
  bool greedy = false;       ///< --mode greedy
  bool free = false;         ///< --free, or a mesh
  std::optional<Mesh> mesh;  ///< --mesh: in place of the program's own
  std::vector<PlacementConstraint> pins;
  double tflops = 0.0, gb_per_s = 0.0;
  std::optional<double> time_limit_s;
};

/// What run --solve is asked for, beside pins, a topology and a cap.
struct SolvedRunRequest {
  bool asked = false;
  bool keep_inputs = false;  ///< inputs stay where the document has them
};

struct Request {
  Format format = Format::kJson;
  Colour colour = Colour::kPlain;
  Detail detail = Detail::kTotals;
  std::string input;                       ///< the document that --input names
  std::string input_name;                  ///< for errors: the file, or "standard input"
  std::vector<std::string> names;          ///< positional arguments: op names
  std::vector<Shape> meshes;               ///< verify --mesh
  std::string folder;                      ///< positional argument: flight records, or a checkpoint
  std::string other_folder;                ///< the second one: to compare with, or to write into
  std::optional<std::int64_t> generation;  ///< --generation: of a checkpoint; none: the last
  std::string module;                      ///< show: a path in the program; empty: all of it
  std::string subject;                     ///< explain: a value, or an op
  OtherFile budget, baseline;              ///< check --budget, --baseline
  OtherFile other;                         ///< diff: the later program
  bool new_only = false;                   ///< check --new-only
  std::vector<std::string> fail_on;        ///< check --fail-on
  std::optional<std::int64_t> cap_bytes;   ///< memory, solve --cap: of a rank; none: no check
  SolveRequest solve;
  std::string tensors;  ///< --tensors: a safetensors file to read; empty: none
  std::string save;     ///< --save: a safetensors file to write; empty: none
  TraceRequest trace;
  SolvedRunRequest solved_run;
  /// plan, run, solve, trace --topology: a preset or a file; empty: none given.
  std::string topology;
  std::string device = "cpu";  ///< run, verify --device: cpu, cuda, emulated
  /// verify: every dtype and more meshes; mutants of the rules too.
  enum class Effort { kUsual, kFull };
  Effort effort = Effort::kUsual;
  enum class Mutants { kSkip, kJudge };
  Mutants mutants = Mutants::kSkip;
  AuditRanks ranks;    ///< measure
  double seconds = 3;  ///< measure --seconds
  /// The program's own ops, beside the built-in ones, and its ranks; see AuditProgram.
  std::function<Status(OpTable&)> add_ops = nullptr;
  std::function<Status(const AuditRanks&, const std::function<void(World&)>&)> run_ranks = nullptr;
};

/// A file of an answer that is a folder.
struct Page {
  std::string name;
  std::string text;
};

struct Answer {
  std::string text;           ///< all of what goes to stdout, final line break included
  bool checks_passed = true;  ///< false: exit code 1, after the answer was printed
  /// Input that had to be left out: a line each on stderr, and exit code 3 after the answer.
  std::vector<std::string> warnings = {};
  bool is_for_others = false;  ///< another rank of the job says it: this one writes nothing
  /// Several files: --output names their folder, and on stdout they follow one another; no `text`.
  std::vector<Page> pages = {};
};

/// A rank's share of a tensor: who holds which indices.
StatusOr<Answer> layout(const Request& request);
/// The op table, or the ops named.
StatusOr<Answer> ops(const Request& request);
/// Their samples, each with its values, as documents a line that `run` executes.
StatusOr<Answer> samples(const Request& request);
/// How a tensor gets from one placement to another, and what that costs.
StatusOr<Answer> plan_move(const Request& request);
/// What the modules of a program move and hold.
StatusOr<Answer> show_program(const Request& request);
/// What is dear, doubtful or wrong in a program, and whether it keeps its budget.
StatusOr<Answer> check_step(const Request& request);
/// Where a value's placement comes from, and what would remove the moves on the way.
StatusOr<Answer> explain_step(const Request& request);
/// What moves, and what is held, in one program and not in the other.
StatusOr<Answer> diff_steps(const Request& request);
/// A whole step's program from StableHLO's text, as JSON that show reads.
StatusOr<Answer> trace_stablehlo(const Request& request);
/// What a rank of each stage of a program holds over the step.
StatusOr<Answer> show_memory(const Request& request);
/// The cheapest placements of a program.
StatusOr<Answer> solve_program(const Request& request);
/// A placed program in the words of other systems.
StatusOr<Answer> export_program(const Request& request);
/// How one op call runs on its operands' placements.
StatusOr<Answer> propagate_call(const Request& request);
/// A program of ops on cut tensors, executed on ranks of this process.
StatusOr<Answer> run_program(const Request& request);
/// What one rank does in a step, as a program.
StatusOr<Answer> trace_program(const Request& request);
/// What messages between ranks take, as a topology.
StatusOr<Answer> measure(const Request& request);
/// Every row of the ops named (or of all) against the one-rank result.
StatusOr<Answer> verify_ops(const Request& request);
/// Who was missing where, from the flight records of any of a job's ranks.
StatusOr<Answer> judge_records(const Request& request);

/// What a checkpoint holds.
StatusOr<Answer> list_checkpoint(const Request& request);
/// Whether every byte of a checkpoint is what was written.
StatusOr<Answer> verify_checkpoint_folder(const Request& request);
/// Where two checkpoints differ.
StatusOr<Answer> diff_checkpoint_folders(const Request& request);
/// A checkpoint's weights as Hugging Face's DeepSeek-V3 has them.
StatusOr<Answer> export_checkpoint(const Request& request);

/// What --topology names; none where it was not given. Errors: InvalidArgument naming the flag.
StatusOr<std::optional<Topology>> topology_of(const Request& request);

/// One line of JSON.
inline std::string json_line(const Json& json) { return json.to_string() + '\n'; }

}  // namespace tessera::audit
