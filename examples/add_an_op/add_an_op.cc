// Proves the op of lora_delta.cc, then trains a step with it on four ranks (threads of this
// process). With arguments it is placement-audit for that op too: add_an_op verify lora_delta
// --format text
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "lora_delta.h"
#include "runtime/world.h"
#include "strategies/verify/verify.h"
#include "tools/placement_audit/audit_main.h"

using namespace tessera;

namespace {

Array values(std::int64_t rows, std::int64_t columns, double phase) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    out.push_back(std::sin(phase + 0.9 * static_cast<double>(i)));
  }
  return Array::from_values({rows, columns}, DType::kF64, out);
}

/// The proof as a call: for a unit test of one's own.
bool prove() {
  OpTable table;
  add_builtin_ops(table);  // the gradient is made of them
  throw_if_error(add_lora_delta(table));
  const VerifyReport report = verify(table, *value_or_throw(table.find("lora_delta")));
  std::printf("lora_delta: %lld rows proven, %lld failed\n",
              static_cast<long long>(report.rows_proven),
              static_cast<long long>(report.rows_failed));
  return report.rows_failed == 0;
}

/// How the three weights of an adapter may be cut over tp, and what the op makes of it.
struct Cut {
  const char* what;
  Placement x, down, up;
};

void on_rank(World& world) {
  Runtime runtime(world);
  throw_if_error(add_lora_delta(runtime.ops()));
  const Mesh mesh = value_or_throw(Mesh::make(ShapeView(Shape{world.size()}), {"tp"}));
  const Cut cuts[] = {{"up by columns", Replicate{}, Replicate{}, Shard{0}},
                      {"x and down along K", Shard{1}, Shard{1}, Replicate{}},
                      {"down and up along R", Replicate{}, Shard{0}, Shard{1}},
                      {"x by tokens, up along R", Shard{0}, Replicate{}, Shard{1}}};
  for (const Cut& cut : cuts) {
    runtime.events().clear();
    const auto leaf = [&](const Array& whole, Placement placement) {
      return distribute(runtime, whole, mesh, Placements{placement}).set_requires_grad(true);
    };
    const DTensor x = leaf(values(8, 12, 0.1), cut.x), down = leaf(values(4, 12, 0.2), cut.down),
                  up = leaf(values(6, 4, 0.3), cut.up);
    const DTensor y = lora_delta(x, down, up, /*scale=*/0.5);
    const std::int64_t moved = runtime.events().bytes_received();
    backward(sum(square(y)));
    const double total = item(sum(square(up.grad())).detach());
    if (world.rank() != 0) continue;
    std::printf("%s: y %s, %lld bytes moved\n", cut.what, y.spec().to_string().c_str(),
                static_cast<long long>(moved));
    std::printf("  gradients %s, %s, %s; that of up squared %.6f\n",
                x.grad().spec().to_string().c_str(), down.grad().spec().to_string().c_str(),
                up.grad().spec().to_string().c_str(), total);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) return audit_main(argc, argv, {.name = "add_an_op", .add_ops = add_lora_delta});
  try {
    if (!prove()) return 1;
    throw_if_error(run_ranks(4, {.threads_per_rank = 1}, on_rank));
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "add_an_op: %s\n", error.what());
    return 1;
  }
}
