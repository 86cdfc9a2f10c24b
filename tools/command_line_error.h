// tools/command_line_error.h: what is wrong with a command line, as a program says it.
// For the sources that read one with CLI11, which is slow to compile.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "io/json.h"
#include "io/nearest_names.h"

namespace tessera {

/// The command of `app` that stands on the command line, or `app` itself.
inline const CLI::App& innermost_command(const CLI::App& app) {
  const std::vector<CLI::App*> given = app.get_subcommands();
  return given.empty() ? app : innermost_command(*given.front());
}

/// One line: the argument that is not known and the nearest that are, the commands where none is
/// given, or what CLI11 says; at the end where to read on.
inline std::string command_line_error(const CLI::App& app, const CLI::ParseError& error) {
  const std::string see = " (see " + app.get_name() + " --help)";
  const CLI::App& command = innermost_command(app);
  const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
  std::vector<std::string> commands, flags;
  for (const CLI::App* each : command.get_subcommands({})) commands.push_back(each->get_name());
  for (const CLI::Option* each : command.get_options()) {
    if (!each->get_lnames().empty()) flags.push_back("--" + each->get_lnames().front());
  }
  if (unknown.empty()) {
    if (commands.empty()) return error.what() + see;
    std::string allowed;
    for (const std::string& each : commands) allowed += (allowed.empty() ? "" : ", ") + each;
    return "a command is missing; there are " + allowed + see;
  }
  const bool is_flag = unknown.front().starts_with('-') || commands.empty();
  return in_quotes(unknown.front()) + " is unknown; " +
         nearest_names(unknown.front(), is_flag ? flags : commands) + see;
}

}  // namespace tessera
