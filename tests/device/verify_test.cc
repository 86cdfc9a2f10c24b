// The proof of placements (strategies/verify/verify.h) with the ranks' kernels on the emulated
// device.
#include "strategies/verify/verify.h"

#include <algorithm>

#include "placement/status.h"
#include "strategies/rules/host_reads.h"
#include "strategies/rules/local_op.h"
#include "tests/device/device_arrays.h"

namespace tessera::testing {
namespace {

/// Ops that sum in another order than the processor, which shows where a sum holds infinities: NaN
/// for an infinity, or the other way round.
const std::vector<std::string> kOtherwiseAtInfinities = {"attention_grad", "instance_norm",
                                                         "logcumsumexp_grad"};

/// On a card cuBLASLt sums in another order than the processor: where a sum is 0 in one of them and
/// a remainder of rounding in the other, an infinite factor makes NaN of the first.
const std::vector<std::string> kProductsTimesFactor = {"addbmm", "addmm", "addmv", "baddbmm"};
/// So is the step's sum where the processor fuses products into it and the emulation does not.
/// Clang, which evaluates arguments in another order, draws such a sample; GCC draws none and is
/// held to all.
#ifdef __clang__
const std::vector<std::string> kSumsTimesRate = {"sgd_momentum_"};
#else
const std::vector<std::string> kSumsTimesRate;
#endif

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// By name, for reading on the host what lies on a device.
bool is_refused(const VerifyFailure& failure) {
  return failure.detail.find(failure.op + ": an array of ") != std::string::npos &&
         failure.detail.ends_with(" is used as memory of the host");
}

bool has_infinite(const VerifyFailure& failure, const std::string& attribute) {
  return failure.sample.find(attribute + "=inf") != std::string::npos ||
         failure.sample.find(attribute + "=-inf") != std::string::npos;
}

/// `read`: what the op is said to read, or null, and then nothing may be refused.
void check_failures(const VerifyReport& report, const HostReadingOp* read) {
  for (const VerifyFailure& failure : report.failures) {
    if (read != nullptr && is_refused(failure)) continue;
    if (is_among(kOtherwiseAtInfinities, failure.op) && failure.sample.ends_with("(infinities)")) {
      continue;
    }
    if (device_kind() == DeviceId::Kind::kCuda && is_among(kProductsTimesFactor, failure.op) &&
        has_infinite(failure, "alpha")) {
      continue;
    }
    if (is_among(kSumsTimesRate, failure.op) && has_infinite(failure, "lr")) continue;
    FAIL_CHECK(failure.op << ", " << failure.row << ", " << failure.sample << ": "
                          << failure.detail);
  }
}

}  // namespace

TEST_CASE("operands of two devices are refused before a kernel runs",
          "[device][errors][emulated]") {
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
  // A card's other device has streams of its own, which nothing here waits for.
  const OnDevice other;
  const Array apart[] = {to_device(on.ctx, host), Array::zeros({2}, DType::kF32, other.memory)};
  CHECK_THROWS_WITH(local.run(on.ctx, apart, outputs),
                    "mul: operand 1 lies on emulated:0, but the call runs on emulated:0");
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
  for (const Op* op : table.ops()) {
    const VerifyReport report = verify(table, *op, options);
    proven += report.rows_proven;
    const HostReadingOp* read = host_read_of(op->def.name);
    check_failures(report, read);
    if (read == nullptr) continue;
    INFO(op->def.name);
    CHECK(std::ranges::any_of(report.failures, is_refused));
    CHECK((report.rows_proven > 0) == !read->where.empty());
  }
  CHECK(proven > 3000);
  for (const HostReadingOp& read : host_reads()) CHECK(table.find(read.op).ok());
}

}  // namespace tessera::testing
