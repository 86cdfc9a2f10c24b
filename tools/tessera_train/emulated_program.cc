#include "tools/tessera_train/emulated_program.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

namespace tessera {

Status become_emulated_program(char** argv) {
  std::error_code unread;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", unread);
  const std::string program = (own.parent_path() / "tessera-train-emulated").string();
  execv(program.c_str(), argv);
  return unavailable("--device emulated: is in a program of its own, " + in_quotes(program) +
                     ", which cannot be started: " + std::generic_category().message(errno) +
                     "; scripts/build release tessera-train-emulated builds it");
}

}  // namespace tessera
