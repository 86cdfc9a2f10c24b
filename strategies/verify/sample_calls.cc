#include "strategies/verify/sample_calls.h"

#include "strategies/verify/verify_case.h"
#include "strategies/verify/verify_repro.h"

namespace tessera {

std::vector<VerifyRepro> sample_calls(const Op& op, std::uint64_t seed) {
  const Mesh mesh = value_or_throw(Mesh::make(ShapeView(Shape{1})));
  VerifyRandom random(seed);
  std::vector<VerifyRepro> calls;
  for (const Sample& sample : op.def.samples) {
    CaseSource source(op, sample, random);
    const VerifyCase& test = source.as_given();
    Resolution resolution;
    std::vector<std::vector<Array>> operands;
    for (const WholeTensor& operand : test.operands) {
      resolution.inputs.push_back(
          value_or_throw(Spec::make(mesh, operand.shape, operand.dtype, Placements{Replicate{}})));
      operands.push_back({array_of(operand)});
    }
    calls.push_back(make_repro(op, test, mesh, resolution, operands));
  }
  return calls;
}

}  // namespace tessera
