// A document of placement-audit propagate: operands' specs from JSON, then the call resolved and
// explained. Specs read back from what is written of them; an explanation adds up.
#include "io/placement_json.h"
#include "strategies/rules/explain.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_ops.h"
#include "tools/placement_audit/call.h"

namespace tessera {
namespace {

constexpr int kMostAxes = 4;
constexpr std::size_t kMostOperands = 4;

void check_spec(const Spec& spec) {
  Json written{Json::Object()};
  add_placements(written, spec);
  const JsonMember& lies = (*written.if_object())[0];
  const StatusOr<Layout> read = testing::read_again(lies.value, [&](const JsonView& view) {
    return read_placements_or_layout(view, spec.mesh(), view_of(spec.global_shape()));
  });
  TSR_CHECK(read.ok() && *read == spec.layout(), written.to_string() + " " + spec.to_string());
  const Json type = to_json(TensorType{spec.global_shape(), spec.dtype()});
  const StatusOr<TensorType> same = testing::read_again(type, read_tensor_type);
  TSR_CHECK(same.ok() && same->global_shape == spec.global_shape(), type.to_string());
}

void check_explanation(const audit::Call& call, const Explanation& explanation) {
  const Resolution& chosen = explanation.chosen;
  TSR_CHECK(chosen.inputs.size() == call.operands.size(), call.op->def.name);
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    const std::int64_t moved = chosen.moved_bytes[i];
    TSR_CHECK(moved >= 0, call.op->def.name);
    bytes = moved > INT64_MAX - bytes ? INT64_MAX : bytes + moved;
    if (call.operands[i]) check_spec(chosen.inputs[i]);
  }
  TSR_CHECK(bytes == explanation.bytes, std::to_string(bytes));
  for (const Spec& spec : chosen.outputs) check_spec(spec);
  for (const RowOffer& offer : explanation.offers) {
    TSR_CHECK(offer.axis >= 0 && offer.axis < explanation.mesh.ndim(), to_string(offer.row));
    TSR_CHECK(offer.bytes >= 0, to_string(offer.row));
  }
  for (const Wish& wish : explanation.wishes) {
    TSR_CHECK(wish.bytes < explanation.bytes, wish.why);
  }
}

void try_spec(std::string_view text) {
  static const OpTable* const table = new OpTable(testing::fuzz_ops());
  const auto document = JsonDocument::parse(text, "doc", {.bytes = 4096});
  if (!document.ok()) return;
  const StatusOr<audit::Call> call = audit::read_call(document->root(), *table);
  testing::check_text(call.status(), "doc: ");
  if (!call.ok() || call->operands.size() > kMostOperands) return;
  std::vector<const Spec*> operands;
  for (const std::optional<Spec>& operand : call->operands) {
    operands.push_back(operand ? &*operand : nullptr);
    if (!operand) continue;
    check_spec(*operand);
    if (operand->mesh().ndim() > kMostAxes) return;
  }
  const StatusOr<Explanation> explanation = explain(*call->op, operands, call->attrs);
  if (explanation.ok()) check_explanation(*call, *explanation);
}

}  // namespace
}  // namespace tessera

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera::try_spec({reinterpret_cast<const char*>(data), size});
  return 0;
}
