// Data on stdout, one line on stderr for an error and then nothing on stdout; exit codes as in
// io/exit_code.h.
#include "tools/placement_audit/audit_main.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "io/exit_code.h"
#include "io/file.h"
#include "placement/printable.h"
#include "placement/version.h"
#include "tools/placement_audit/command.h"

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
  Request request;
  std::string input = "-";
  std::string output = "-";
  std::string format = "json";
};
/// A subcommand, and what it needs of the command line.
struct Command {
  StatusOr<Answer> (*run)(const Request&) = nullptr;
  bool reads_input = false;
  bool draws = false;    ///< has the formats html and svg, too
  bool writes = false;   ///< has the format md, too
  bool colours = false;  ///< its text may be coloured; no names of a file stand in it

  bool has(Format format) const noexcept {
    if (format == Format::kMarkdown) return writes;
    return draws || (format != Format::kHtml && format != Format::kSvg);
  }
};

bool may_colour(const Options& options) {
  const char* no_color = std::getenv("NO_COLOR");
  return options.output == "-" && (no_color == nullptr || *no_color == '\0') &&
         ::isatty(STDOUT_FILENO) == 1;
}

Status read_input(Options& options) {
  const bool is_stdin = options.input == "-";
  options.request.input_name = is_stdin ? "standard input" : options.input;
  TSR_ASSIGN_OR_RETURN(options.request.input, is_stdin ? read_standard_input(kMaxJsonBytes)
                                                       : read_file(options.input, kMaxJsonBytes));
  return absl::OkStatus();
}

ExitCode write_output(const Options& options, std::string_view text);

/// The pages into the folder that --output names, made where it is not there; else one after the
/// other.
ExitCode write_pages(const Options& options, const std::vector<Page>& pages) {
  if (options.output == "-") {
    std::string all;
    for (const Page& page : pages) all += (all.empty() ? "" : "\n") + page.text;
    return write_output(options, all);
  }
  std::error_code failed;
  std::filesystem::create_directories(options.output, failed);
  if (failed) {
    return options.complain(ExitCode::kInputOutput,
                            options.output + ": cannot make this folder: " + failed.message());
  }
  for (const Page& page : pages) {
    const Status status = write_file(options.output + "/" + page.name, page.text);
    if (!status.ok()) return options.complain(status);
  }
  return ExitCode::kFine;
}

ExitCode write_output(const Options& options, std::string_view text) {
  if (options.output != "-") {
    const Status status = write_file(options.output, text);
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
  return name == "text"   ? Format::kText
         : name == "md"   ? Format::kMarkdown
         : name == "html" ? Format::kHtml
         : name == "svg"  ? Format::kSvg
                          : Format::kJson;
}

/// Names in an answer come from files: none may steer the terminal that shows it, now or later.
/// JSON is ASCII, and pictures escape what they write.
std::string shown(const Options& options, const Command& command, std::string text) {
  const Format format = options.request.format;
  const bool coloured = command.colours && options.request.colour == Colour::kAnsi;
  const bool is_lines = format == Format::kText || format == Format::kMarkdown;
  return is_lines && !coloured ? printable_lines(text) : text;
}

ExitCode run_command(Options& options, const Command& command) {
  options.request.format = format_of(options.format);
  if (!command.has(options.request.format)) {
    return options.complain(
        ExitCode::kUsage,
        "--format " + options.format + ": not built for this command; allowed: json, text" +
            (command.draws ? ", html, svg" : "") + (command.writes ? ", md" : ""));
  }
  options.request.colour = may_colour(options) ? Colour::kAnsi : Colour::kPlain;
  if (command.reads_input) {
    if (const Status status = read_input(options); !status.ok()) return options.complain(status);
  }
  const StatusOr<Answer> answer = command.run(options.request);
  if (!answer.ok()) return options.complain(answer.status());
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

// One subcommand with the options that all of them share.
CLI::App* add_command(CLI::App& app, Options& options, const char* name, const char* doc) {
  CLI::App* command = app.add_subcommand(name, doc);
  command
      ->add_option("--format", options.format,
                   "json; text for a terminal; for plan also html and svg, for ops and verify md")
      ->check(CLI::IsMember({"json", "text", "html", "svg", "md"}))
      ->capture_default_str();
  command->add_option("--output", options.output, "a file; - is standard output")
      ->capture_default_str();
  return command;
}

CLI::App* add_input(CLI::App* command, Options& options) {
  command->add_option("--input", options.input, "a JSON file; - is standard input")
      ->capture_default_str();
  return command;
}

CLI::App* add_names(CLI::App* command, Options& options) {
  command->add_option("OP", options.request.names, "names of ops; none: all");
  return command;
}

CLI::App* add_plan(CLI::App& app, Options& options) {
  CLI::App* command = add_input(
      add_command(app, options, "plan", "How a tensor moves between placements, and what it costs"),
      options);
  command->add_flag_callback(
      "--per-rank", [&options] { options.request.detail = Detail::kPerRank; },
      "lists what each rank receives, sends and reads from whom");
  return command;
}

CLI::App* add_ops(CLI::App& app, Options& options) {
  CLI::App* command =
      add_names(add_command(app, options, "ops", "The op table, or the ops named"), options);
  command->add_flag_callback(
      "--samples", [&options] { options.request.samples = Request::Samples::kPrint; },
      "prints each sample with its values, as a document a line that run executes");
  return command;
}

CLI::App* add_run(CLI::App& app, Options& options) {
  CLI::App* command = add_input(
      add_command(app, options, "run", "Executes a program of ops on cut tensors"), options);
  command->add_option("--tensors", options.request.tensors,
                      "a safetensors file with the inputs that the program does not spell out");
  command->add_option("--save", options.request.save,
                      "a safetensors file for the named results, whole; gradients as grad.NAME");
  return command;
}

CLI::App* add_verify(CLI::App& app, Options& options) {
  CLI::App* command =
      add_command(app, options, "verify", "Executes every row of the ops against one rank");
  command->add_option("--mesh", options.request.meshes, "meshes to cut over: 2,3,4,2x2")
      ->delimiter(',');
  command->add_flag_callback(
      "--full", [&options] { options.request.effort = Request::Effort::kFull; },
      "every dtype, and the meshes 2x3, 3x2 and 2x2x2 too");
  command->add_flag_callback(
      "--mutants", [&options] { options.request.mutants = Request::Mutants::kJudge; },
      "changes every clause of every rule, and says which changes nothing refutes");
  return command;
}

/// The commands of a checkpoint's folder: on(command, what it runs).
template <class On>
void add_checkpoint_commands(CLI::App& app, Options& options, const On& on) {
  CLI::App* group = app.add_subcommand("ckpt", "What a checkpoint holds, and whether it is whole");
  group->require_subcommand(1);
  const auto add = [&](const char* name, const char* doc) {
    CLI::App* command = add_command(*group, options, name, doc);
    command->add_option("DIR", options.request.folder, "folder of the checkpoint")->required();
    return command;
  };
  const auto add_second = [&](CLI::App* command, const char* name, const char* doc) {
    command->add_option(name, options.request.other_folder, doc)->required();
    return command;
  };
  const auto add_generation = [&](CLI::App* command) {
    command->add_option("--generation", options.request.generation,
                        "one that --keep has kept, else the last");
    return command;
  };
  on(add_generation(add("ls", "Its tensors, files and values")), {.run = list_checkpoint});
  on(add_generation(add("verify", "Whether every byte has the hash that was written")),
     {.run = verify_checkpoint_folder});
  on(add_second(add("diff", "Where two checkpoints differ"), "DIR2", "folder of the other"),
     {.run = diff_checkpoint_folders});
  on(add_second(add_generation(add("export", "Its weights as Hugging Face's DeepSeek-V3 has them")),
                "OUT", "folder for the files, made where it is not there"),
     {.run = export_checkpoint});
}

ExitCode run(int argc, char** argv, const AuditProgram& program, const Complaint& complain) {
  Options options = {.complain = complain};
  options.request.add_ops = program.add_ops;
  CLI::App app("Tells what a sharding plan does, before anything runs.", program.name);
  app.set_version_flag("--version", program.name + " " + std::string(version()));
  app.require_subcommand(1);
  ExitCode code = ExitCode::kFine;

  const auto on = [&](CLI::App* command, const Command& what) {
    command->callback([&, what] { code = run_command(options, what); });
  };
  on(add_input(add_command(app, options, "layout", "Which rank holds which indices of a tensor"),
               options),
     {.run = layout, .reads_input = true, .colours = true});
  on(add_plan(app, options),
     {.run = plan_move, .reads_input = true, .draws = true, .colours = true});
  on(add_input(add_command(app, options, "propagate", "How one op call runs, what moves, and why"),
               options),
     {.run = propagate_call, .reads_input = true});
  on(add_run(app, options), {.run = run_program, .reads_input = true});
  on(add_ops(app, options), {.run = ops, .writes = true});
  CLI::App* verify_command = add_verify(app, options);
  on(add_names(verify_command, options), {.run = verify_ops, .writes = true});
  CLI::App* recorder_command =
      add_command(app, options, "recorder", "Who was missing where, from a job's flight records");
  recorder_command->add_option("DIR", options.request.folder, "folder of the records")->required();
  on(recorder_command, {.run = judge_records});
  add_checkpoint_commands(app, options, on);

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
  } catch (const CLI::CallForAllHelp&) {
    std::fputs(app.help("", CLI::AppFormatMode::All).c_str(), stdout);
  } catch (const CLI::CallForVersion&) {
    std::fputs((app.version() + "\n").c_str(), stdout);
  } catch (const CLI::ParseError& error) {
    return complain(ExitCode::kUsage,
                    std::string(error.what()) + " (see " + program.name + " --help)");
  }
  return code;
}

}  // namespace
}  // namespace tessera::audit

namespace tessera {

int audit_main(int argc, char** argv, const AuditProgram& program) {
  // A reader that closes the pipe ends the output, not the process.
  std::signal(SIGPIPE, SIG_IGN);
  const audit::Complaint complain(program.name);
  try {
    return static_cast<int>(audit::run(argc, argv, program, complain));
  } catch (const Error& error) {
    return static_cast<int>(complain(error.status()));
  } catch (const std::bad_alloc&) {
    return static_cast<int>(complain(ExitCode::kInputOutput, "out of memory"));
  } catch (const std::exception& error) {
    return static_cast<int>(
        complain(ExitCode::kDefect, std::string("a defect of this program: ") + error.what()));
  }
}

}  // namespace tessera
