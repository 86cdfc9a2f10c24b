#include "tools/placement_audit/command_line.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <optional>

#include "absl/strings/str_format.h"
#include "io/byte_text.h"
#include "placement/version.h"
#include "tools/command_line_error.h"
#include "tools/placement_audit/solve_options.h"

namespace tessera::audit {
namespace {

// The prover holds every rank's arrays in one process.
constexpr std::int64_t kMaxRanks = 64;
constexpr std::int64_t kMaxTracedRanks = 1 << 20;

/// "2x3" is {2, 3}; none for what is no mesh, or too large a one.
std::optional<Shape> mesh_shape_of(std::string_view text) {
  Shape shape;
  std::int64_t ranks = 1;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    std::int64_t size = 0;
    const auto [stop, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size < 1 || size > kMaxRanks) return std::nullopt;
    ranks *= size;
    if (ranks > kMaxRanks) return std::nullopt;
    shape.push_back(size);
    if (stop == end) return shape;
    if (*stop != 'x') return std::nullopt;
    at = stop + 1;
  }
}

std::vector<Shape> mesh_shapes_of(const std::vector<std::string>& texts) {
  std::vector<Shape> shapes;
  for (const std::string& text : texts) {
    const std::optional<Shape> shape = mesh_shape_of(text);
    if (!shape) {
      throw CLI::ValidationError(
          "--mesh", absl::StrFormat("%s: expected sizes such as 3 or 2x2, at most %d ranks in all",
                                    in_quotes(text), kMaxRanks));
    }
    shapes.push_back(*shape);
  }
  return shapes;
}

/// Adds the commands, each with its options, to an app whose parsing fills `line`.
class Commands {
 public:
  Commands(CLI::App& app, CommandLine& line) : app_(app), line_(line) {}
  void add();
  /// What was named, once the app has read the line.
  void settle() {
    const bool prints = line_.command == CommandName::kOps && wants_samples_;
    if (prints && line_.format != "text") line_.command = CommandName::kSamples;
    const bool reads = line_.command == CommandName::kTrace && traces_text_->count() > 0;
    if (reads) line_.command = CommandName::kTraceText;
    const bool is_torch =
        line_.command == CommandName::kTrace && !line_.request.trace.torch.empty();
    if (is_torch) line_.command = CommandName::kTraceTorch;
  }

 private:
  CLI::App* add_command(CLI::App& group, const char* name, CommandName which, const char* doc);
  CLI::App* add_input(CLI::App* command);
  CLI::App* add_names(CLI::App* command);
  void add_flag(CLI::App* command, const char* name, const char* doc, std::function<void()> set) {
    command->add_flag_callback(name, std::move(set), doc);
  }
  void add_device(CLI::App* command);
  void add_topology(CLI::App* command);
  void add_plan();
  void add_show();
  CLI::App* add_step_command(const char* name, CommandName which, const char* doc);
  void add_checks();
  void add_memory();
  CLI::Option* add_cap(CLI::App* command, const char* doc);
  void add_solve();
  void add_run();
  void add_trace();
  void add_verify();
  void add_measure();
  void add_checkpoints();

  CLI::App& app_;
  CommandLine& line_;
  bool wants_samples_ = false;
  CLI::Option* traces_text_ = nullptr;  // trace --stablehlo
};

// One subcommand with the options that all of them share.
CLI::App* Commands::add_command(CLI::App& group, const char* name, CommandName which,
                                const char* doc) {
  CLI::App* command = group.add_subcommand(name, doc);
  command
      ->add_option("--format", line_.format,
                   "json; text for a terminal; for plan also html and svg, for ops and verify md, "
                   "for ops cpp; for show, memory and check html, for check sarif, junit and md, "
                   "for diff md; for solve and export torch, shardy and md")
      ->check(CLI::IsMember(
          {"json", "text", "html", "svg", "md", "cpp", "sarif", "junit", "torch", "shardy"}))
      ->capture_default_str();
  command->add_option("-o,--output", line_.output, "a file; - is standard output")
      ->capture_default_str();
  command->callback([this, which] { line_.command = which; });
  return command;
}

CLI::App* Commands::add_input(CLI::App* command) {
  command->add_option("--input", line_.input, "a JSON file; - is standard input")
      ->capture_default_str();
  return command;
}

CLI::App* Commands::add_names(CLI::App* command) {
  command->add_option("OP", line_.request.names, "names of ops; none: all");
  return command;
}

void Commands::add_plan() {
  CLI::App* command =
      add_input(add_command(app_, "plan", CommandName::kPlan,
                            "How a tensor moves between placements, and what it costs"));
  add_flag(command, "--per-rank", "lists what each rank receives, sends and reads from whom",
           [this] { line_.request.detail = Detail::kPerRank; });
  add_topology(command);
}

void Commands::add_topology(CLI::App* command) {
  command->add_option("--topology", line_.request.topology,
                      "what moves are planned by: host, node8, cluster, or a JSON file, such as "
                      "measure writes");
}

void Commands::add_device(CLI::App* command) {
  command
      ->add_option("--device", line_.request.device,
                   "where arrays lie and kernels run: cpu, cuda, or emulated: the kernels of cuda "
                   "on the processor")
      ->check(CLI::IsMember({"cpu", "cuda", "emulated"}))
      ->capture_default_str();
}

void Commands::add_run() {
  CLI::App* command = add_input(
      add_command(app_, "run", CommandName::kRun, "Executes a program of ops on cut tensors"));
  command->add_option("--tensors", line_.request.tensors,
                      "a safetensors file with the inputs that the program does not spell out");
  command->add_option("--save", line_.request.save,
                      "a safetensors file for the named results, whole; gradients as grad.NAME");
  add_device(command);
  add_topology(command);
  SolvedRunRequest& solved = line_.request.solved_run;
  CLI::Option* solve = command->add_flag(
      "--solve", solved.asked,
      "find the cheapest placements of all values first, the inputs' too; print "
      "what was predicted to move beside what moved, exit code 1 where they differ");
  command
      ->add_flag("--keep-inputs", solved.keep_inputs,
                 "of --solve: inputs stay where the document has them")
      ->needs(solve);
  add_pins(*command, line_.request)->needs(solve);
  add_cap(command, "of --solve: what a rank may hold")->needs(solve);
  add_time_limit(*command, line_.request)->needs(solve);
}

void Commands::add_trace() {
  CLI::App* command =
      add_command(app_, "trace", CommandName::kTrace,
                  "A whole step as a program: one rank's of a trainer, ops, or a module's text");
  TraceRequest& trace = line_.request.trace;
  CLI::Option* train = command->add_option("--train", trace.train, "a model's config");
  command
      ->add_option("--program", trace.program,
                   "a program of ops, as run takes it; values may be left out")
      ->excludes(train);
  traces_text_ =
      command
          ->add_option("--stablehlo", line_.input,
                       "a module's text as jax prints it, Shardy's shardings included; - is "
                       "standard input")
          ->excludes("--train")
          ->excludes("--program");
  CLI::Option* torch =
      command
          ->add_option("--torch", trace.torch,
                       "FILE:FUNCTION, a build function of PyTorch (docs/torch.md); python3 runs "
                       "it, and needs tessera_trace")
          ->excludes("--train")
          ->excludes("--program")
          ->excludes("--stablehlo");
  command->add_option("--mesh", trace.mesh, "of --torch: axes and sizes, dp=64,tp=8")->needs(torch);
  torch->needs("--mesh");
  command
      ->add_flag(
          "--open", trace.open,
          "of --train: the step as ops alone, on one rank, for solve and tessera-train --plan")
      ->needs(train);
  command->add_option("--parallel", trace.parallel, "degrees, as tessera-train takes them")
      ->capture_default_str();
  command->add_option("--ranks", trace.num_ranks, "of the world")
      ->check(CLI::Range(std::int64_t{1}, kMaxTracedRanks))
      ->capture_default_str();
  command->add_option("--simulate-rank", trace.rank, "the rank whose steps are told")
      ->check(CLI::Range(std::int64_t{0}, kMaxTracedRanks - 1))
      ->capture_default_str();
  command
      ->add_option(
          "--routing", trace.routing,
          "how tokens choose experts: balanced, worst (for the rank told of), or a file of loads")
      ->capture_default_str();
  command->add_option("--dtype", trace.dtype, "of computation: F32, F64, BF16")
      ->capture_default_str();
  add_topology(command);
}

void Commands::add_show() {
  CLI::App* command = add_command(app_, "show", CommandName::kShow,
                                  "What the modules of a whole step's program move and hold");
  command->add_option("FILE", line_.input, "a program's JSON; - is standard input")->required();
  command->add_option("MODULE", line_.request.module, "a path such as layers.7.attn; none: all");
}

/// A command about a step's program, whose answers are for people where no format is asked for.
CLI::App* Commands::add_step_command(const char* name, CommandName which, const char* doc) {
  CLI::App* command = add_command(app_, name, which, doc);
  command->callback([this, which, command] {
    line_.command = which;
    if (command->count("--format") == 0) line_.format = "text";
  });
  return command;
}

void Commands::add_checks() {
  CLI::App* check = add_step_command("check", CommandName::kCheck,
                                     "What is dear, doubtful or wrong in a program; a gate for CI");
  check->add_option("FILE", line_.input, "a program's JSON; - is standard input")->required();
  check->add_option("--budget", line_.request.budget.name, "a JSON file of limits");
  CLI::Option* baseline =
      check->add_option("--baseline", line_.request.baseline.name,
                        "an older program, or what check --format json wrote about it");
  check->add_flag("--new-only", line_.request.new_only, "findings that the baseline lacks, alone")
      ->needs(baseline);
  check
      ->add_option("--fail-on", line_.request.fail_on,
                   "rules that fail, or warn: every warning does; none: those that fail anyway")
      ->delimiter(',');
  CLI::App* explain =
      add_step_command("explain", CommandName::kExplain,
                       "Where a placement comes from, and what would remove the moves on the way");
  explain->add_option("FILE", line_.input, "a program's JSON; - is standard input")->required();
  explain->add_option("VALUE", line_.request.subject, "a value, or an op: the first of that name")
      ->required();
  CLI::App* diff = add_step_command(
      "diff", CommandName::kDiff, "What moves, and what is held, in one program and not the other");
  diff->add_option("FILE", line_.input, "the earlier program's JSON; - is standard input")
      ->required();
  diff->add_option("FILE2", line_.request.other.name, "the later one's")->required();
}

void Commands::add_memory() {
  CLI::App* command = add_step_command("memory", CommandName::kMemory,
                                       "What a rank of each stage holds over a step's program");
  command->add_option("FILE", line_.input, "a program's JSON; - is standard input")->required();
  add_cap(command, "what a rank may hold: 80GiB; exit code 1 above it");
}

CLI::Option* Commands::add_cap(CLI::App* command, const char* doc) {
  const auto set_cap = [this](const std::string& text) {
    const StatusOr<std::int64_t> cap = parse_bytes(text);
    if (!cap.ok()) throw CLI::ValidationError("--cap", std::string(message_of(cap.status())));
    if (*cap == 0) throw CLI::ValidationError("--cap", in_quotes(text) + ": expected more than 0");
    line_.request.cap_bytes = *cap;
  };
  return command->add_option_function<std::string>("--cap", set_cap, doc);
}

void Commands::add_solve() {
  CLI::App* solve = add_command(app_, "solve", CommandName::kSolve,
                                "The cheapest placements of a program, and the moves between them");
  solve->add_option("FILE", line_.input, "a program's JSON; - is standard input")->required();
  add_solve_options(*solve, line_.request);
  add_cap(solve, "what a rank may hold: 80GiB");
  CLI::App* leave =
      add_command(app_, "export", CommandName::kExport,
                  "A placed program as PyTorch code, as Shardy's text, or as a table");
  leave->add_option("FILE", line_.input, "a program's JSON; - is standard input")->required();
}

void Commands::add_verify() {
  CLI::App* command = add_command(app_, "verify", CommandName::kVerify,
                                  "Executes every row of the ops against one rank");
  add_device(command);
  const auto set_meshes = [this](const std::vector<std::string>& texts) {
    line_.request.meshes = mesh_shapes_of(texts);
  };
  command
      ->add_option_function<std::vector<std::string>>("--mesh", set_meshes,
                                                      "meshes to cut over: 2,3,4,2x2")
      ->delimiter(',');
  add_flag(command, "--full", "every dtype, and the meshes 2x3, 3x2 and 2x2x2 too",
           [this] { line_.request.effort = Request::Effort::kFull; });
  add_flag(command, "--mutants",
           "changes every clause of every rule, and says which changes nothing refutes",
           [this] { line_.request.mutants = Request::Mutants::kJudge; });
  add_names(command);
}

void Commands::add_measure() {
  CLI::App* command =
      add_command(app_, "measure", CommandName::kMeasure,
                  "What messages between ranks take, as a file that --topology reads");
  command
      ->add_option("--backend", line_.request.ranks.backend,
                   "threads, mpi or nccl; left out: the processes that mpirun has started, else "
                   "threads")
      ->check(CLI::IsMember({"threads", "mpi", "nccl"}));
  command
      ->add_option("--ranks", line_.request.ranks.num_ranks,
                   "of threads; of processes there are as many as were started")
      ->check(CLI::Range(std::int64_t{2}, kMaxRanks))
      ->capture_default_str();
  command
      ->add_option("--device", line_.request.ranks.device,
                   "where arrays lie: cpu, cuda or emulated")
      ->check(CLI::IsMember({"cpu", "cuda", "emulated"}))
      ->capture_default_str();
  command->add_option("--seconds", line_.request.seconds, "for messages between pairs, about")
      ->check(CLI::Range(0.01, 600.0))
      ->capture_default_str();
}

/// The commands of a checkpoint's folder.
void Commands::add_checkpoints() {
  CLI::App* group = app_.add_subcommand("ckpt", "What a checkpoint holds, and whether it is whole");
  group->require_subcommand(1);
  const auto add = [&](const char* name, CommandName which, const char* doc) {
    CLI::App* command = add_command(*group, name, which, doc);
    command->add_option("DIR", line_.request.folder, "folder of the checkpoint")->required();
    return command;
  };
  const auto add_second = [&](CLI::App* command, const char* name, const char* doc) {
    command->add_option(name, line_.request.other_folder, doc)->required();
  };
  const auto add_generation = [&](CLI::App* command) {
    command->add_option("--generation", line_.request.generation,
                        "one that --keep has kept, else the last");
    return command;
  };
  add_generation(add("ls", CommandName::kCkptList, "Its tensors, files and values"));
  add_generation(
      add("verify", CommandName::kCkptVerify, "Whether every byte has the hash that was written"));
  add_second(add("diff", CommandName::kCkptDiff, "Where two checkpoints differ"), "DIR2",
             "folder of the other");
  add_second(add_generation(add("export", CommandName::kCkptExport,
                                "Its weights as Hugging Face's DeepSeek-V3 has them")),
             "OUT", "folder for the files, made where it is not there");
}

void Commands::add() {
  add_input(add_command(app_, "layout", CommandName::kLayout,
                        "Which rank holds which indices of a tensor"));
  add_plan();
  add_input(add_command(app_, "propagate", CommandName::kPropagate,
                        "How one op call runs, what moves, and why"));
  add_show();
  add_checks();
  add_memory();
  add_solve();
  add_run();
  add_trace();
  CLI::App* ops =
      add_names(add_command(app_, "ops", CommandName::kOps, "The op table, or the ops named"));
  add_flag(ops, "--samples",
           "prints each sample with its values, as a document a line that run executes",
           [this] { wants_samples_ = true; });
  add_verify();
  add_measure();
  CLI::App* recorder = add_command(app_, "recorder", CommandName::kRecorder,
                                   "Who was missing where, from a job's flight records");
  recorder->add_option("DIR", line_.request.folder, "folder of the records")->required();
  add_checkpoints();
}

}  // namespace

StatusOr<CommandLine> parse_command_line(const std::string& program, int argc,
                                         const char* const* argv) {
  CommandLine line;
  CLI::App app("Tells what a sharding plan does, before anything runs.", program);
  app.set_version_flag("--version", program + " " + std::string(version()));
  app.require_subcommand(1);
  Commands commands(app, line);  // which the options of the app refer to
  commands.add();
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return CommandLine{.said = app.help()};
  } catch (const CLI::CallForAllHelp&) {
    return CommandLine{.said = app.help("", CLI::AppFormatMode::All)};
  } catch (const CLI::CallForVersion&) {
    return CommandLine{.said = app.version() + "\n"};
  } catch (const CLI::ParseError& error) {
    return invalid_argument(command_line_error(app, error));
  }
  commands.settle();
  const TraceRequest& trace = line.request.trace;
  if (line.command == CommandName::kTrace && trace.train.empty() && trace.program.empty()) {
    return invalid_argument("trace: give one of --train, --program, --stablehlo and --torch");
  }
  return line;
}

}  // namespace tessera::audit
