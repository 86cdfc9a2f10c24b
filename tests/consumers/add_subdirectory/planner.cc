// A program of somebody else that only plans: nothing but placement/ is compiled for it.
#include <cstdio>

#include "placement/plan.h"

int main() {
  using namespace tessera;
  const Mesh mesh = value_or_throw(Mesh::make(ShapeView(Shape{2, 2}), {"dp", "tp"}));
  const Placements before = {Shard{0}, Shard{1}}, after = {Shard{1}, Shard{0}};
  const Spec src = value_or_throw(Spec::make(mesh, {8, 8}, DType::kF32, before));
  const Spec dst = value_or_throw(Spec::make(mesh, {8, 8}, DType::kF32, after));
  const Plan moves = value_or_throw(plan(src, dst));
  for (const PlanStep& step : moves.steps)
    std::printf("%s\n", std::string(name_of(step.kind)).c_str());
  for (std::int64_t rank = 0; rank < mesh.num_ranks(); ++rank) {
    std::printf("rank %lld receives %lld bytes\n", static_cast<long long>(rank),
                static_cast<long long>(bytes_received(moves, rank)));
  }
}
