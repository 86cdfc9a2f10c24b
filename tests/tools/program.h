// tests/tools/program.h: runs a program of this project and keeps what it said.
// The programs lie in built(); standard input, output and error are files of a folder of the
// test's own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/paths.h"

namespace tessera::testing {

struct Ran {
  int exit_code = -1;  ///< 128 + the signal's number where one ended it
  std::string out;
  std::string err;
  std::int64_t peak_bytes = 0;  ///< of memory, of the program itself
};

/// A folder that goes with the test.
class ScratchFolder {
 public:
  ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder();
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  /// Writes a file and returns its path.
  std::string file(const std::string& name, const std::string& text) const;

 private:
  std::string path_;
};

std::string read_whole_file(const std::string& path);

std::size_t count_of(const std::string& text, const std::string& part);

/// A program under way, as run_program() runs it.
class StartedProgram {
 public:
  StartedProgram(const std::string& program, const std::vector<std::string>& arguments,
                 const std::string& input = "",
                 const std::map<std::string, std::string>& environment = {});
  StartedProgram(StartedProgram&& other) noexcept
      : scratch_(std::move(other.scratch_)), child_(std::exchange(other.child_, -1)) {}
  ~StartedProgram();  ///< kills what has not been waited for
  void signal(int number) const;
  /// Waits for its end.
  Ran finish();

 private:
  std::unique_ptr<ScratchFolder> scratch_ = std::make_unique<ScratchFolder>();
  int child_ = -1;
};

/// Runs `program` (a name in the build's bin folder, or an absolute path) with `arguments`, `input`
/// as standard input, and further environment variables.
Ran run_program(const std::string& program, const std::vector<std::string>& arguments,
                const std::string& input = "",
                const std::map<std::string, std::string>& environment = {});

#ifdef TSR_MPIEXEC
/// The same as `ranks` processes of mpirun, more than there are cores where need be.
inline Ran run_on_mpi(int ranks, const std::string& program,
                      const std::vector<std::string>& arguments,
                      std::map<std::string, std::string> environment = {}) {
  std::vector<std::string> all = {"--oversubscribe", "-n", std::to_string(ranks),
                                  built("/") + program};
  all.insert(all.end(), arguments.begin(), arguments.end());
  environment.insert({{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                      {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                      {"OMPI_MCA_mpi_yield_when_idle", "0"}});
  return run_program(TSR_MPIEXEC, all, "", environment);
}
#endif

}  // namespace tessera::testing
