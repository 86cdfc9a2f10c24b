// Adds a dispatcher from outside of the library and proves it: models train with it on ranks and
// are compared with one rank, and with the simulation.
#include <cstdio>
#include <string>

#include "dense_dispatcher.h"
#include "moe/train/config.h"
#include "moe/train/verify_dispatcher.h"

using namespace tessera;

int main() {
  try {
    throw_if_error(add_dense_dispatcher());
    const DispatcherReport report = value_or_throw(verify_dispatcher("dense"));
    std::fputs(to_text(report).c_str(), stdout);

    const ParallelConfig plan = value_or_throw(
        parse_parallel_config(R"({"dp_shard": 4, "ep": 4, "dispatcher": "dense"})", "plan"));
    std::printf("a plan may name it: dispatcher %s\n", plan.dispatch.dispatcher.c_str());
    return report.proven() ? 0 : 1;
  } catch (const Error& error) {
    std::fprintf(stderr, "dispatcher: %s\n", error.what());
    return 1;
  }
}
