// Two layers of a perceptron on four ranks: who holds what, what moves, and where gradients lie.
// The ranks are threads of this process; on MPI the same function runs on each process.
#include <cstdio>
#include <string>
#include <vector>

#include "dtensor/ops.h"
#include "runtime/world.h"

using namespace tessera;

namespace {

/// Small whole numbers, the same on every rank.
Array numbers(std::int64_t rows, std::int64_t columns) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    values.push_back(static_cast<double>(i * 7 % 5) - 2.0);
  }
  return Array::from_values({rows, columns}, DType::kF32, values);
}

void show(const char* name, const DTensor& x) {
  std::printf("%-8s %s, here %s\n", name, x.spec().to_string().c_str(),
              to_string(x.local().shape()).c_str());
}

void on_rank(World& world) {
  Runtime runtime(world);
  const Mesh mesh = value_or_throw(Mesh::make(ShapeView(Shape{2, 2}), {"dp", "tp"}));

  // Distribute: one placement per mesh axis. dp cuts the batch, tp the hidden dim of both weights.
  const Placements batch = {Shard{0}, Replicate{}};
  const Placements hidden_out = {Replicate{}, Shard{1}}, hidden_in = {Replicate{}, Shard{0}};
  const DTensor x = distribute(runtime, numbers(8, 6), mesh, batch);
  DTensor w1 = distribute(runtime, numbers(6, 10), mesh, hidden_out).set_requires_grad(true);
  DTensor w2 = distribute(runtime, numbers(10, 4), mesh, hidden_in).set_requires_grad(true);

  // Compute: each op's rule says that these placements fit, so nothing moves. The second product
  // contracts a dim that tp cuts: each rank along tp holds a summand, P(sum).
  const DTensor hidden = relu(matmul(x, w1));
  const DTensor summands = matmul(hidden, w2);

  // Redistribute: here the summands are added up, along tp only.
  const DTensor y = redistribute(summands, batch);

  // Backward: gradients are ops like any other. Each lies where its weight does.
  backward(sum(square(y)));

  const Array whole = full_tensor(y);  // collective: every rank calls it
  if (world.rank() != 0) return;       // one rank speaks for all
  for (const auto& [name, tensor] : {std::pair{"x", x},
                                     {"w1", w1},
                                     {"w2", w2},
                                     {"hidden", hidden},
                                     {"summands", summands},
                                     {"y", y},
                                     {"w1.grad", w1.grad()},
                                     {"w2.grad", w2.grad()}}) {
    show(name, tensor);
  }
  std::printf("row 3 of y:");
  for (std::size_t j = 12; j < 16; ++j) std::printf(" %g", whole.to_vector()[j]);
  std::printf("\nwhat rank 0 received:\n");
  for (const Event& event : runtime.events().events()) {
    if (event.kind != Event::Kind::kCollective) continue;
    std::printf("  line %d: %s over %s, %lld bytes, %s\n", event.line, event.name.c_str(),
                event.axes.c_str(), static_cast<long long>(event.bytes_received),
                event.origin == Origin::kExplicit ? "asked for" : event.why.c_str());
  }
}

}  // namespace

int main() {
  const Status status = run_ranks(4, {.threads_per_rank = 1}, on_rank);
  if (status.ok()) return 0;
  std::fprintf(stderr, "quickstart: %s\n", std::string(message_of(status)).c_str());
  return 1;
}
