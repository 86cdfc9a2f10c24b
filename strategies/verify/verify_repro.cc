#include "strategies/verify/verify_repro.h"

#include "kernels/elementwise.h"
#include "strategies/verify/verify_search.h"

namespace tessera {

std::int64_t VerifyRepro::size() const noexcept {
  constexpr std::int64_t kRank = 1'000'000;
  std::int64_t total = 0;
  for (const Input& input : inputs) {
    for (const std::vector<double>& values : input.local) {
      total += static_cast<std::int64_t>(values.size());
    }
  }
  return total + kRank * num_elements(mesh);
}

VerifyRepro make_repro(const Op& op, const VerifyCase& test, const Mesh& mesh,
                       const Resolution& resolution,
                       const std::vector<std::vector<Array>>& operands) {
  VerifyRepro repro;
  repro.mesh = mesh.shape();
  repro.attrs = test.attrs;
  const auto by_argument = operands_by_argument(op, operands.size());
  for (std::size_t a = 0; a < by_argument.size(); ++a) {
    for (std::size_t k = 0; k < by_argument[a].size(); ++k) {
      const std::size_t i = by_argument[a][k];
      VerifyRepro::Input& input = repro.inputs.emplace_back();
      input.name = op.def.args[a].name;
      if (by_argument[a].size() > 1) input.name += std::to_string(k);
      input.argument = a;
      input.list = op.def.args[a].kind == ArgDef::Kind::kList;
      input.spec = resolution.inputs[i];
      for (const Array& local : operands[i]) input.local.push_back(local.to_vector());
    }
  }
  for (std::size_t o = 0; o < test.expected.size(); ++o) {
    const WholeTensor& whole = test.expected[o];
    repro.results.push_back({"out" + std::to_string(o), {whole.shape, whole.dtype}, whole.values});
  }
  return repro;
}

std::vector<std::vector<Array>> copies_of(const std::vector<std::vector<Array>>& operands) {
  KernelContext ctx;
  std::vector<std::vector<Array>> copies = operands;
  for (std::vector<Array>& ranks : copies) {
    for (Array& array : ranks) {
      const Array copy = Array::empty(array.shape(), array.dtype());
      kernels::copy(ctx, array, copy);
      array = copy;
    }
  }
  return copies;
}

}  // namespace tessera
