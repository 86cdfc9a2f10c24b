#include "tools/tessera_train/emulated_program.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

namespace tessera {

Status become_emulated_program(char** argv) {
  std::error_code failed;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", failed);
  const std::string program = (own.parent_path() / "tessera-train-emulated").string();
  if (!failed) {  // else it would be one of the working folder
    execv(program.c_str(), argv);
    failed.assign(errno, std::generic_category());
  }
  return unavailable("--device emulated: is in a program of its own, " + in_quotes(program) +
                     ", which cannot be started: " + failed.message() +
                     "; scripts/build release tessera-train-emulated builds it");
}

}  // namespace tessera
