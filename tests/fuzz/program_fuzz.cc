// A document of placement-audit run. What is accepted names only tensors that are there, keeps
// within the ranks and bytes allowed, and reads the same again; what is not is told with its place.
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_ops.h"
#include "tools/placement_audit/executed/run_program.h"

namespace tessera {
namespace {

/// What stands in the file of tensors.
StatusOr<TensorType> type_in_file(std::string_view name) {
  if (name == "x") return TensorType{{4, 6}, DType::kF32};
  if (name == "i") return TensorType{{4, 3}, DType::kI64};
  if (name == "w") return TensorType{{5, 6}, DType::kF64};
  return not_found("no such tensor in the file");
}

void check_slot(const audit::Program& program, int slot) {
  TSR_CHECK(slot >= 0 && slot < static_cast<int>(program.tensors.size()), std::to_string(slot));
}

struct StepChecker {
  const audit::Program& program;

  void operator()(const audit::OpStep& step) const {
    TSR_CHECK(!step.operands.empty(), step.op->def.name);
    for (const audit::ProgramOperand& operand : step.operands) {
      TSR_CHECK(operand.slot < 0 || !operand.number, step.op->def.name);
      if (operand.slot >= 0) check_slot(program, operand.slot);
    }
    for (const int slot : step.results) {
      if (slot >= 0) check_slot(program, slot);
    }
  }
  void operator()(const audit::RedistributeStep& step) const {
    check_slot(program, step.slot);
    check_slot(program, step.result);
    const Spec& from = program.tensors[static_cast<std::size_t>(step.slot)].spec;
    TSR_CHECK(from.global_shape() == step.to.global_shape(), step.to.to_string());
  }
  void operator()(const audit::LocalMapStep& step) const {
    const auto check_local = [&](int local, int most) {
      TSR_CHECK(local >= 0 && local < most, std::to_string(local));
    };
    int made = 0;
    for (const audit::LocalMapStep::Argument& each : step.arguments) {
      check_slot(program, each.slot);
      TSR_CHECK(program.tensors[static_cast<std::size_t>(each.slot)].spec.mesh() == step.mesh,
                step.region);
      ++made;
    }
    for (const audit::LocalStep& each : step.body) {
      for (const audit::LocalOperand& operand : each.operands) {
        if (operand.local >= 0) check_local(operand.local, made);
      }
      for (const int axis : each.axes) TSR_CHECK(axis < step.mesh.ndim(), std::to_string(axis));
      for (const int local : each.results) {
        if (local < 0) continue;
        TSR_CHECK(local == made, std::to_string(local));
        ++made;
      }
    }
    TSR_CHECK(made == step.num_locals, std::to_string(made));
    for (const audit::LocalMapStep::Result& each : step.results) {
      check_local(each.local, made);
      check_slot(program, each.slot);
    }
  }
  void operator()(const audit::BackwardStep& step) const {
    check_slot(program, step.root);
    for (const int slot : step.inputs) {
      const auto input = static_cast<std::size_t>(slot);
      TSR_CHECK(input < program.inputs.size() && program.inputs[input].needs_grad,
                std::to_string(slot));
    }
  }
};

void check_program(const audit::Program& program) {
  TSR_CHECK(program.num_ranks <= audit::kMaxProgramRanks, std::to_string(program.num_ranks));
  TSR_CHECK(program.inputs.size() <= program.tensors.size(), "inputs");
  double bytes = 0.0;
  for (const audit::ProgramTensor& tensor : program.tensors) {
    bytes += static_cast<double>(tensor.spec.global_bytes());
  }
  TSR_CHECK(bytes <= static_cast<double>(audit::kMaxProgramBytes), std::to_string(bytes));
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const audit::ProgramInput& input = program.inputs[i];
    const Spec& spec = program.tensors[i].spec;
    const std::vector<std::int64_t> ranks = spec.mesh().ranks();
    for (std::size_t r = 0; r < input.arrays.size(); ++r) {
      const Shape shape = input.from == audit::ProgramInput::From::kLocals
                              ? spec.local_shape(*spec.mesh().coord_of(ranks[r]))
                              : spec.global_shape();
      TSR_CHECK(input.arrays[r].shape() == shape, spec.to_string());
    }
  }
  for (const audit::RunStep& step : program.steps) {
    std::visit(StepChecker{program}, step.what);
  }
}

void try_program(std::string_view text) {
  static const OpTable* const table = new OpTable(testing::fuzz_ops());
  const auto document = JsonDocument::parse(text, "doc", {.bytes = 4096});
  if (!document.ok()) return;
  const JsonView root = document->root();
  const StatusOr<audit::Program> program = audit::read_program(root, *table, type_in_file);
  testing::check_text(program.status(), "doc: ");
  const StatusOr<audit::Program> again = audit::read_program(root, *table, type_in_file);
  TSR_CHECK(again.status() == program.status(), std::string(message_of(again.status())));
  if (!program.ok()) return;
  check_program(*program);
  TSR_CHECK(again->tensors.size() == program->tensors.size(), "read twice");
}

}  // namespace
}  // namespace tessera

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera::try_program({reinterpret_cast<const char*>(data), size});
  return 0;
}
