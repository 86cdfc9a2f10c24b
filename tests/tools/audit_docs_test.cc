// docs/audit.md, docs/findings.md and docs/placement-audit.md: each command that they show in a
// block of ```console is run where they stand, and answers what they say. TESSERA_ACCEPT=1 takes
// over what is answered now.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "io/file.h"
#include "tests/support/paths.h"
#include "tests/tools/program.h"

namespace tessera {
namespace {

/// A page with the answers of its commands as they are now: lines "$ …" in blocks of ```console,
/// each followed by what it prints, and by its exit code where that is not 0.
std::string page_as_answered(const std::string& page, int& commands) {
  std::istringstream lines(page);
  std::string out;
  bool in_console = false, in_answer = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      in_console = line == "```console";
      in_answer = false;
    } else if (in_console && line.starts_with("$ ")) {
      in_answer = true;
      ++commands;
      const testing::Ran ran = testing::run_program(
          "/bin/sh", {"-c", "cd '" + testing::test_data("/../..") + "' && PATH='" +
                                testing::built() + "':\"$PATH\" && " + line.substr(2)});
      out += line + "\n" + ran.out + ran.err;
      if (ran.exit_code != 0) out += "exit code " + std::to_string(ran.exit_code) + "\n";
      continue;
    }
    if (!in_answer) out += line + "\n";
  }
  return out;
}

void check_page(const std::string& name, int least_commands) {
  const std::string path = testing::test_data("/../../docs/" + name);
  const std::string page = value_or_throw(read_file(path, 1 << 20));
  int commands = 0;
  const std::string answered = page_as_answered(page, commands);
  if (std::getenv("TESSERA_ACCEPT") != nullptr) {
    throw_if_error(write_file(path, answered));
  } else {
    CHECK(answered == page);
  }
  CHECK(commands >= least_commands);
}

TEST_CASE("what the pages of the audit show is what is answered", "[tools][check][docs]") {
  check_page("audit.md", 4);
  check_page("findings.md", 4);
  check_page("placement-audit.md", 2);
}

TEST_CASE("each example has what it is an example of", "[tools][check][docs]") {
  int examples = 0;
  for (const auto& entry : std::filesystem::directory_iterator(testing::test_data("/findings"))) {
    const std::string name = entry.path().stem().string();
    if (name.find(".budget") != std::string::npos) continue;
    CAPTURE(name);
    ++examples;
    std::vector<std::string> arguments = {"check", entry.path().string(), "--format", "json"};
    const std::string budget = testing::test_data("/findings/" + name + ".budget.json");
    if (std::filesystem::exists(budget)) arguments.insert(arguments.end(), {"--budget", budget});
    const testing::Ran ran = testing::run_program("placement-audit", arguments);
    CHECK(ran.out.find("\"rule\":\"" + name + "\"") != std::string::npos);
  }
  CHECK(examples >= 17);
}

}  // namespace
}  // namespace tessera
