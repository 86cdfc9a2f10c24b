#include "tests/tools/program.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "tests/support/paths.h"

namespace tessera::testing {

ScratchFolder::ScratchFolder() {
  char pattern[] = "/tmp/tessera_tools_XXXXXX";
  if (::mkdtemp(pattern) == nullptr) throw std::runtime_error("no scratch folder");
  path_ = pattern;
}

ScratchFolder::~ScratchFolder() { std::filesystem::remove_all(path_); }

std::string ScratchFolder::file(const std::string& name, const std::string& text) const {
  const std::string path = *this / name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

std::string read_whole_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

StartedProgram::StartedProgram(const std::string& program,
                               const std::vector<std::string>& arguments, const std::string& input,
                               const std::map<std::string, std::string>& environment) {
  const std::string in = scratch_->file("in", input);
  const std::string out = *scratch_ / "out", err = *scratch_ / "err";
  std::string path = program.starts_with('/') ? "" : built("/");
  path += program;
  std::vector<char*> argv = {path.data()};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);

  child_ = ::fork();
  if (child_ == 0) {
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    ::dup2(::open(in.c_str(), O_RDONLY), STDIN_FILENO);
    ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
    ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    ::execv(path.c_str(), argv.data());
    ::_exit(126);
  }
}

StartedProgram::~StartedProgram() {
  if (child_ <= 0) return;
  signal(SIGKILL);
  finish();
}

void StartedProgram::signal(int number) const { ::kill(child_, number); }

Ran StartedProgram::finish() {
  int status = 0;
  rusage used = {};
  ::wait4(std::exchange(child_, -1), &status, 0, &used);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          read_whole_file(*scratch_ / "out"), read_whole_file(*scratch_ / "err"),
          std::int64_t{used.ru_maxrss} * 1024};
}

Ran run_program(const std::string& program, const std::vector<std::string>& arguments,
                const std::string& input, const std::map<std::string, std::string>& environment) {
  return StartedProgram(program, arguments, input, environment).finish();
}

}  // namespace tessera::testing
