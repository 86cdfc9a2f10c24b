#include "tools/placement_audit/trace_torch.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

namespace tessera::audit {
namespace {

// Python's own words for a package that is missing are a traceback and exit code 1.
constexpr const char* kTracer = R"(import sys
try:
    from tessera_trace.__main__ import main
except ModuleNotFoundError as error:
    if error.name != "tessera_trace":
        raise
    sys.exit(print(f"placement-audit: trace --torch: {sys.executable} has no tessera_trace; install it from the folder "
                   "python of this project: pip install ./python", file=sys.stderr) or 4)
sys.exit(main())
)";

}  // namespace

Status become_torch_tracer(const TraceRequest& trace, const std::string& output) {
  std::vector<std::string> words = {"python3", "-c",       kTracer,    trace.torch,
                                    "--mesh",  trace.mesh, "--output", output};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  return unavailable(std::string("trace --torch: python3 cannot be started: ") +
                     std::strerror(errno));
}

}  // namespace tessera::audit
