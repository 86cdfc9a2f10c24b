// Lines as the arguments of a program, the first its name: what is accepted lies within what the
// flags allow, whatever the numbers; what is not is an error that says something.
#include <string>
#include <vector>

#include "tests/fuzz/fuzz.h"
#include "tools/placement_audit/command_line.h"
#include "tools/tessera_train/flags.h"

namespace tessera {
namespace {

/// The lines; none holds a NUL, as no argument can.
std::vector<std::string> arguments_of(std::string_view text) {
  std::vector<std::string> arguments(1);
  for (const char c : text) {
    if (c == '\n') {
      arguments.emplace_back();
    } else if (c != '\0') {
      arguments.back() += c;
    }
  }
  return arguments;
}

template <class Number>
void check_range(std::string_view flag, Number value, std::int64_t least, std::int64_t most) {
  const bool inside =
      static_cast<std::int64_t>(value) >= least && static_cast<std::int64_t>(value) <= most;
  TSR_CHECK(inside, std::string(flag) + " " + std::to_string(value));
}

void check_train(int argc, const char* const* argv) {
  TrainFlags flags;
  const StatusOr<std::string> said = parse_flags(argc, argv, flags);
  if (!said.ok()) {
    TSR_CHECK(absl::IsInvalidArgument(said.status()), std::string(message_of(said.status())));
    return;
  }
  if (!said->empty()) return;
  check_range("--ranks", flags.ranks.value_or(1), 1, kMaxProcesses);
  check_range("--steps", flags.steps, 0, kMaxSteps);
  check_range("--threads", flags.threads, 0, kMaxLibraryThreads);
  check_range("--save-every", flags.save_every, 0, kMaxSteps);
  check_range("--timeout", flags.timeout.value_or(1), 1, kMaxTimeoutSeconds);
  check_range("--simulate", flags.simulate.value_or(0), 0, kMaxProcesses - 1);
  TSR_CHECK(flags.format == "text" || flags.format == "json", flags.format);
}

void check_audit(int argc, const char* const* argv) {
  const auto line = audit::parse_command_line("placement-audit", argc, argv);
  if (!line.ok()) {
    TSR_CHECK(absl::IsInvalidArgument(line.status()), std::string(message_of(line.status())));
    return;
  }
  using audit::CommandName;
  TSR_CHECK((line->command == CommandName::kNone) == !line->said.empty(), line->said);
  const bool has_two_folders =
      line->command == CommandName::kCkptDiff || line->command == CommandName::kCkptExport;
  TSR_CHECK(line->request.other_folder.empty() || has_two_folders, line->request.other_folder);
  for (const std::string_view format : {"json", "text", "html", "svg", "md", "cpp"}) {
    if (line->format == format) return;
  }
  TSR_CHECK(line->command == CommandName::kNone, line->format);
}

void try_flags(std::string_view text) {
  const std::vector<std::string> arguments = arguments_of(text);
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  const auto argc = static_cast<int>(argv.size());
  if (arguments[0] == "tessera-train") {
    check_train(argc, argv.data());
  } else {
    check_audit(argc, argv.data());
  }
}

}  // namespace
}  // namespace tessera

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera::try_flags({reinterpret_cast<const char*>(data), size});
  return 0;
}
