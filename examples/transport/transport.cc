// Four processes over a transport of one's own: values, events and errors are those of every
// backend.
#include <cstdio>
#include <string_view>

#include "kernels/array.h"
#include "processes.h"

using namespace tessera;

namespace {

void print(const ProcessRun& run) {
  for (std::size_t rank = 0; rank < run.reports.size(); ++rank) {
    if (!run.reports[rank].empty()) std::printf("rank %zu: %s\n", rank, run.reports[rank].c_str());
  }
  if (run.first.ok()) return;
  // Any rank may be the first to see it: "rank 1: …".
  const std::string_view text = message_of(run.first);
  std::printf("failed: %s\n", std::string(text.substr(text.find(": ") + 2)).c_str());
}

Array ones(std::int64_t size) {
  return Array::from_values({size}, DType::kF32,
                            std::vector<double>(static_cast<std::size_t>(size), 1));
}

}  // namespace

int main() {
  std::printf("a sum over four ranks\n");
  print(run_processes(4, {}, [](World& world, std::string& report) {
    const Array sum = ones(3);
    everyone(world).all_reduce(sum, sum, ReduceOp::kSum, {.tensor = "w"});
    const Event& event = world.events().events().front();
    report = std::to_string(static_cast<int>(sum.to_vector()[0])) + " by " + event.name + " of " +
             event.tensor + ", " + std::to_string(event.bytes_received) + " bytes received";
  }));
  std::printf("a rank that calls something else\n");
  print(run_processes(2, {}, [](World& world, std::string&) {
    const Array array = ones(world.rank() == 0 ? 3 : 4);
    everyone(world).all_reduce(array, array, ReduceOp::kSum, {.tensor = "w"});
  }));
  std::printf("a rank that does not come\n");
  print(run_processes(2, {}, [](World& world, std::string&) {
    if (world.rank() == 0) everyone(world).barrier();
  }));
}
