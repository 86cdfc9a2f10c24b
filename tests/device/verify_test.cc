// The proof of placements (strategies/verify.h) with the ranks' kernels on the emulated device.
#include "strategies/verify.h"

#include <algorithm>

#include "placement/status.h"
#include "strategies/local_op.h"
#include "tests/device/device_arrays.h"

namespace tessera::testing {
namespace {

/// Ops that read values to know what to do next, so far on the host.
const std::vector<std::string> kOnHostOnly = {"embedding_bag",
                                              "grouped_mm",
                                              "grouped_mm_input_grad",
                                              "grouped_mm_slots",
                                              "grouped_mm_slots_weight_grad",
                                              "grouped_mm_weight_grad",
                                              "masked_scatter",
                                              "masked_scatter_",
                                              "masked_scatter_backward",
                                              "multinomial",
                                              "offset2bag",
                                              "repeat_interleave_tensor"};
/// Ops that sum in another order than the processor, which shows where a sum holds infinities: NaN
/// for an infinity, or the other way round.
const std::vector<std::string> kOtherwiseAtInfinities = {"attention_grad", "instance_norm",
                                                         "logcumsumexp_grad"};

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

TEST_CASE("operands of two devices are refused before a kernel runs", "[device][errors]") {
  OnDevice on;
  OpTable table;
  add_builtin_ops(table);
  const Op& mul = *value_or_throw(table.find("mul"));
  const Spec spec = Spec::plain({2}, DType::kF32);
  const LocalOp local =
      LocalOp::make(mul, value_or_throw(propagate(mul, std::vector{&spec, &spec}, {})), {}, {});
  const Array host = Array::zeros({2}, DType::kF32);
  const Array inputs[] = {to_device(on.ctx, host), host};
  Array outputs[1];
  CHECK_THROWS_WITH(local.run(on.ctx, inputs, outputs),
                    "mul: operand 1 lies on cpu:0, but the call runs on emulated:0");
}

TEST_CASE("rows of ops hold on the device", "[device][verify]") {
  OnDevice on;
  OpTable table;
  add_builtin_ops(table);
  VerifyOptions options;
  options.meshes = {{2}};
  options.gradients = VerifyOptions::Gradients::kSkip;
  options.completeness = VerifyOptions::Completeness::kSkip;
  options.context = on.ctx;
  std::int64_t proven = 0;
  std::vector<std::string> on_host;
  for (const Op* op : table.ops()) {
    const VerifyReport report = verify(table, *op, options);
    proven += report.rows_proven;
    for (const VerifyFailure& failure : report.failures) {
      if (failure.detail.find("is used as memory of the host") != std::string::npos) {
        on_host.push_back(op->def.name);
        break;
      }
      if (is_among(kOtherwiseAtInfinities, op->def.name) &&
          failure.sample.ends_with("(infinities)")) {
        continue;
      }
      FAIL_CHECK(failure.op << ", " << failure.row << ", " << failure.sample << ": "
                            << failure.detail);
    }
  }
  CHECK(on_host == kOnHostOnly);
  CHECK(proven > 3000);
}

}  // namespace tessera::testing
