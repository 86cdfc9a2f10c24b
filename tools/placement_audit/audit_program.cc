// Data on stdout, one line on stderr for an error and then nothing on stdout; exit codes as in
// io/exit_code.h.
#include "tools/placement_audit/audit_program.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "io/exit_code.h"
#include "io/file.h"
#include "placement/printable.h"
#include "tools/placement_audit/command_line.h"
#include "tools/placement_audit/trace_torch.h"

namespace tessera::audit {
namespace {

/// Says what went wrong, in one line whatever it was.
class Complaint {
 public:
  explicit Complaint(std::string program) : program_(std::move(program)) {}

  ExitCode operator()(ExitCode code, std::string_view text) const {
    std::fprintf(stderr, "%s: %s\n", program_.c_str(), printable(text).c_str());
    return code;
  }
  ExitCode operator()(const Status& status) const {
    const ExitCode code = exit_code_for(status);
    if (code != ExitCode::kDefect) return (*this)(code, message_of(status));
    return (*this)(code, "a defect of this program: " + std::string(message_of(status)));
  }

 private:
  std::string program_;
};

struct Options {
  Complaint complain;
  CommandLine line;
};
bool may_colour(const Options& options) {
  const char* no_color = std::getenv("NO_COLOR");
  return options.line.output == "-" && (no_color == nullptr || *no_color == '\0') &&
         ::isatty(STDOUT_FILENO) == 1;
}

Status read_input(Options& options) {
  const bool is_stdin = options.line.input == "-";
  options.line.request.input_name = is_stdin ? "standard input" : options.line.input;
  TSR_ASSIGN_OR_RETURN(
      options.line.request.input,
      is_stdin ? read_standard_input(kMaxJsonBytes) : read_file(options.line.input, kMaxJsonBytes));
  return absl::OkStatus();
}

Status read_others(Request& request) {
  for (OtherFile* file : {&request.budget, &request.baseline, &request.other}) {
    if (file->name.empty()) continue;
    TSR_ASSIGN_OR_RETURN(file->text, read_file(file->name, kMaxJsonBytes));
  }
  return absl::OkStatus();
}

ExitCode write_output(const Options& options, std::string_view text);

/// The pages into the folder that --output names, made where it is not there; else one after the
/// other.
ExitCode write_pages(const Options& options, const std::vector<Page>& pages) {
  if (options.line.output == "-") {
    std::string all;
    for (const Page& page : pages) all += (all.empty() ? "" : "\n") + page.text;
    return write_output(options, all);
  }
  std::error_code failed;
  std::filesystem::create_directories(options.line.output, failed);
  if (failed) {
    return options.complain(ExitCode::kInputOutput,
                            options.line.output + ": cannot make this folder: " + failed.message());
  }
  for (const Page& page : pages) {
    const Status status = write_file(options.line.output + "/" + page.name, page.text);
    if (!status.ok()) return options.complain(status);
  }
  return ExitCode::kFine;
}

ExitCode write_output(const Options& options, std::string_view text) {
  if (options.line.output != "-") {
    const Status status = write_file(options.line.output, text);
    return status.ok() ? ExitCode::kFine : options.complain(status);
  }
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) {
    return ExitCode::kFine;
  }
  // A reader that has seen enough (head) needs no message.
  if (errno == EPIPE) return ExitCode::kInputOutput;
  return options.complain(ExitCode::kInputOutput,
                          std::string("standard output: cannot write: ") + std::strerror(errno));
}

Format format_of(std::string_view name) {
  return name == "text"     ? Format::kText
         : name == "md"     ? Format::kMarkdown
         : name == "cpp"    ? Format::kCpp
         : name == "html"   ? Format::kHtml
         : name == "svg"    ? Format::kSvg
         : name == "sarif"  ? Format::kSarif
         : name == "junit"  ? Format::kJunit
         : name == "torch"  ? Format::kTorch
         : name == "shardy" ? Format::kShardy
                            : Format::kJson;
}

/// Names in an answer come from files: none may steer the terminal that shows it, now or later.
/// JSON is ASCII, and pictures escape what they write.
std::string shown(const Options& options, const Command& command, std::string text) {
  const Format format = options.line.request.format;
  const bool coloured = command.colours && options.line.request.colour == Colour::kAnsi;
  const bool is_lines = format == Format::kText || format == Format::kMarkdown;
  return is_lines && !coloured ? printable_lines(text) : text;
}

ExitCode run_command(Options& options, const Command& command) {
  options.line.request.format = format_of(options.line.format);
  if (!command.has(options.line.request.format)) {
    return options.complain(
        ExitCode::kUsage,
        "--format " + options.line.format + ": not built for this command; allowed: json, text" +
            (command.draws ? ", html, svg" : "") + (command.pages ? ", html" : "") +
            (command.reports ? ", sarif, junit" : "") + (command.writes ? ", md" : "") +
            (command.declares ? ", cpp" : "") + (command.leaves ? ", torch, shardy" : ""));
  }
  options.line.request.colour = may_colour(options) ? Colour::kAnsi : Colour::kPlain;
  if (command.reads_input) {
    if (const Status status = read_input(options); !status.ok()) return options.complain(status);
  }
  if (const Status status = read_others(options.line.request); !status.ok()) {
    return options.complain(status);
  }
  const StatusOr<Answer> answer = command.run(options.line.request);
  if (!answer.ok()) return options.complain(answer.status());
  if (answer->is_for_others) return ExitCode::kFine;
  const ExitCode code = answer->pages.empty()
                            ? write_output(options, shown(options, command, answer->text))
                            : write_pages(options, answer->pages);
  if (code != ExitCode::kFine) return code;
  for (const std::string& warning : answer->warnings) {
    options.complain(ExitCode::kInvalidInput, warning);
  }
  if (!answer->warnings.empty()) return ExitCode::kInvalidInput;
  return answer->checks_passed ? ExitCode::kFine : ExitCode::kCheckFailed;
}

/// The commands that plan; nothing of them runs an op or reads what ranks wrote.
std::optional<Command> planning_command(CommandName name) {
  switch (name) {
    case CommandName::kLayout:
      return Command{.run = layout, .reads_input = true, .colours = true};
    case CommandName::kPlan:
      return Command{.run = plan_move, .reads_input = true, .draws = true, .colours = true};
    case CommandName::kPropagate:
      return Command{.run = propagate_call, .reads_input = true};
    case CommandName::kShow:
      return Command{.run = show_program, .reads_input = true, .pages = true};
    case CommandName::kMemory:
      return Command{.run = show_memory, .reads_input = true, .pages = true};
    case CommandName::kCheck:
      return Command{.run = check_step,
                     .reads_input = true,
                     .pages = true,
                     .writes = true,
                     .reports = true,
                     .colours = true};
    case CommandName::kExplain:
      return Command{.run = explain_step, .reads_input = true};
    case CommandName::kDiff:
      return Command{.run = diff_steps, .reads_input = true, .writes = true};
    case CommandName::kSolve:
      return Command{.run = solve_program, .reads_input = true, .writes = true, .leaves = true};
    case CommandName::kExport:
      return Command{.run = export_program, .reads_input = true, .writes = true, .leaves = true};
    case CommandName::kTraceText:
      return Command{.run = trace_stablehlo, .reads_input = true};
    case CommandName::kOps:
      return Command{.run = ops, .writes = true, .declares = true};
    default:
      return std::nullopt;
  }
}

ExitCode run(int argc, char** argv, const AuditProgram& program, OtherCommands others,
             const Complaint& complain) {
  StatusOr<CommandLine> line = parse_command_line(program.name, argc, argv);
  if (!line.ok()) return complain(ExitCode::kUsage, message_of(line.status()));
  Options options = {complain, *std::move(line)};
  if (options.line.command == CommandName::kNone) return write_output(options, options.line.said);
  options.line.request.add_ops = program.add_ops;
  options.line.request.run_ranks = program.run_ranks;
  const CommandName name = options.line.command;
  if (name == CommandName::kTraceTorch) {
    return complain(become_torch_tracer(options.line.request.trace, options.line.output));
  }
  const std::optional<Command> planning = planning_command(name);
  const std::optional<Command> command = planning ? planning : others(name);
  if (command) return run_command(options, *command);
  return complain(ExitCode::kUsage,
                  "this command is not in this build, which plans only (TESSERA_RULES_ONLY); "
                  "allowed: layout, plan, propagate, trace --stablehlo and --torch, show, memory, "
                  "check, explain, diff, solve, export, ops without --samples");
}

}  // namespace

int run_audit(int argc, char** argv, const AuditProgram& program, OtherCommands others) {
  // A reader that closes the pipe ends the output, not the process.
  std::signal(SIGPIPE, SIG_IGN);
  const Complaint complain(program.name);
  try {
    return static_cast<int>(run(argc, argv, program, others, complain));
  } catch (const Error& error) {
    return static_cast<int>(complain(error.status()));
  } catch (const std::bad_alloc&) {
    return static_cast<int>(complain(ExitCode::kInputOutput, "out of memory"));
  } catch (const std::exception& error) {
    return static_cast<int>(
        complain(ExitCode::kDefect, std::string("a defect of this program: ") + error.what()));
  }
}

}  // namespace tessera::audit
