#include "program/export/torch_module.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "placement/utf8.h"
#include "program/export/placement_words.h"
#include "program/export/torch_plan.h"

namespace tessera {
namespace {

constexpr std::string_view kImports = R"py(from collections import Counter
from fnmatch import fnmatch

from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel,
                                               parallelize_module)
)py";

// What follows the tables of every module.
constexpr std::string_view kFunctions = R"py(

def _watch(module, inputs=None, outputs=None, settled=False):
    """Redistributes the first DTensor that a module is given, and the first that it returns. Settled: its gradient, too."""

    def enter(module, args, kwargs):
        keys = [*range(len(args)), *kwargs]
        given = dict(zip(keys, [*args, *kwargs.values()]))
        _move_first(given, inputs)
        return tuple(given[key] for key in range(len(args))), {key: given[key] for key in kwargs}

    def leave(module, args, output):
        if isinstance(output, DTensor):
            output = output.redistribute(placements=outputs)
            return output.redistribute(placements=outputs) if settled else output
        given = dict(enumerate(output))
        _move_first(given, outputs)
        return type(output)(given.values())

    if inputs is not None:
        module.register_forward_pre_hook(enter, with_kwargs=True)
    if outputs is not None:
        module.register_forward_hook(leave)


def _move_first(values, placements):
    for key, value in values.items():
        if isinstance(value, DTensor):
            values[key] = value.redistribute(placements=placements)
            return


def _matches(pattern, name):
    parts, names = pattern.split("."), name.split(".")
    return len(parts) == len(names) and all(map(fnmatch, names, parts))


def _of(table, name):
    return next((value for pattern, value in table.items() if _matches(pattern, name)), None)


def _use_as(module, key, placements):
    """Who reads the parameter gets it redistributed; its gradient comes back as the parameter lies."""
    read = property(lambda self: self._parameters[key].redistribute(placements=placements))
    module.__class__ = type(type(module).__name__, (type(module),), {key: read})


def device_mesh(device_type="cuda"):
    return init_device_mesh(device_type, tuple(MESH.values()), mesh_dim_names=tuple(MESH))


def distribute_inputs(mesh, *inputs):
    """The whole inputs, which every rank has, in the order of INPUTS, as the program places them."""
    return tuple(distribute_tensor(each, mesh, placements) for each, placements in zip(inputs, INPUTS.values()))


def parallelize(model, mesh):
    """The model, in place, with its parameters distributed and its borders watched. Its inputs are DTensors."""
    times = Counter(id(tensor) for module in model.modules() for tensor in [*module._parameters.values(), *module._buffers.values()])
    shared = {}

    def distributed(tensor, placements):
        if id(tensor) in shared:  # what two modules hold stays one
            return shared[id(tensor)][1]
        made = distribute_tensor(tensor.detach(), mesh, placements)
        if isinstance(tensor, nn.Parameter):
            made = nn.Parameter(made, requires_grad=tensor.requires_grad)
        if times[id(tensor)] > 1:
            shared[id(tensor)] = (tensor, made)
        return made

    def cut(path, module, mesh):
        for held in (module._parameters, module._buffers):
            for key, tensor in held.items():
                placements = _of(PARAMETERS, f"{path}.{key}" if path else key)
                if tensor is None or isinstance(tensor, DTensor):
                    continue
                if placements is not None or id(tensor) in shared:
                    held[key] = distributed(tensor, placements)

    if PLAN:
        parallelize_module(model, mesh, PLAN)
    distribute_module(model, mesh, cut)
    for path, module in list(model.named_modules()):
        moves = _of(MOVES, path)
        if moves is not None:
            _watch(module, **moves)
        for key in list(module._parameters):
            used = _of(USED, f"{path}.{key}" if path else key)
            if used is not None:
                _use_as(module, key, used)
    return model
)py";

/// A literal of Python, of ASCII alone.
std::string python_string(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const CodePoint point = first_code_point(text);
    const auto byte = static_cast<unsigned char>(text[0]);
    if (text[0] == '"' || text[0] == '\\') {
      quoted += '\\';
      quoted += text[0];
    } else if (point.bytes == 0 || point.value < 0x20 || point.value == 0x7F) {
      absl::StrAppendFormat(&quoted, "\\x%02x", byte);
    } else if (point.value < 0x80) {
      quoted += text[0];
    } else {
      quoted += point.value > 0xFFFF ? absl::StrFormat("\\U%08x", point.value)
                                     : absl::StrFormat("\\u%04x", point.value);
    }
    text.remove_prefix(std::max<std::size_t>(1, point.bytes));
  }
  return quoted + '"';
}

std::string placement_text(const Placement& placement) {
  if (const auto* shard = std::get_if<Shard>(&placement)) {
    return absl::StrFormat("Shard(%d)", shard->dim);
  }
  if (const auto* strided = std::get_if<StridedShard>(&placement)) {
    return absl::StrFormat("_StridedShard(%d, split_factor=%d)", strided->dim,
                           strided->split_factor);
  }
  if (const auto* partial = std::get_if<Partial>(&placement)) {
    if (partial->op == ReduceOp::kSum) return "Partial()";
    const std::string_view name =
        partial->op == ReduceOp::kProd ? std::string_view("product") : name_of(partial->op);
    return absl::StrFormat("Partial(\"%s\")", name);
  }
  return "Replicate()";
}

std::string joined(const Placements& placements) {
  std::vector<std::string> words;
  for (const Placement& each : placements) words.push_back(placement_text(each));
  return absl::StrJoin(words, ", ");
}
std::string list_text(const Placements& placements) { return '[' + joined(placements) + ']'; }

std::string border_text(const TorchBorder& border) {
  using Style = TorchBorder::Style;
  const std::string local = ", use_local_output=False)";
  const auto io = [&](const char* style) {
    return absl::StrFormat("%s(input_layouts=%s, output_layouts=%s%s", style, joined(*border.given),
                           joined(*border.returned), local);
  };
  switch (border.style) {
    case Style::kColwise:
      return io("ColwiseParallel");
    case Style::kRowwise:
      return io("RowwiseParallel");
    case Style::kSequence:
      return "SequenceParallel(use_local_output=False)";
    case Style::kPrepareInput:
      return absl::StrFormat("PrepareModuleInput(input_layouts=(%s,), desired_input_layouts=(%s,))",
                             joined(*border.given), joined(*border.wanted));
    case Style::kMoves:
      break;
  }
  std::vector<std::string> moves;
  if (border.enters_moved) moves.push_back("inputs=" + list_text(*border.wanted));
  if (border.leaves_moved) moves.push_back("outputs=" + list_text(*border.returned));
  if (border.settles_gradient) moves.emplace_back("settled=True");
  return "dict(" + absl::StrJoin(moves, ", ") + ')';
}

/// A table of Python by names of modules or parameters. Names that differ in numbers alone are one
/// line where all that there are have the same text.
class NameTable {
 public:
  explicit NameTable(const std::vector<std::string>& all) {
    for (const std::string& name : all) ++num_alike_[without_numbers(name)];
  }
  void add(const std::string& name, const std::string& text) { lines_.emplace_back(name, text); }

  std::string text() const {
    std::map<std::pair<std::string, std::string>, int> same;
    for (const auto& [name, text] : lines_) ++same[{without_numbers(name), text}];
    std::string all;
    std::map<std::string, bool> written;
    for (const auto& [name, text] : lines_) {
      const std::string pattern = without_numbers(name);
      const int alike = num_alike_.at(pattern);
      const bool is_one = alike > 1 && same.at({pattern, text}) == alike;
      const std::string& key = is_one ? pattern : name;
      if (!written.emplace(key, true).second) continue;
      all += "    " + python_string(key) + ": " + text + ",\n";
    }
    return all.empty() ? "{}\n" : "{\n" + all + "}\n";
  }

 private:
  std::map<std::string, int> num_alike_;  ///< by the name without numbers
  std::vector<std::pair<std::string, std::string>> lines_;
};

class ModuleText {
 public:
  ModuleText(const Program& program, const TorchPlan& plan) : program_(program), plan_(plan) {}

  std::string write() const {
    const std::string tables = tensors_text() + borders_text();
    std::string text =
        "# Placements of " + python_string(program_.name) + " on " +
        std::to_string(program_.ranks) +
        " ranks, as placement-audit has them. Names with \"*\" stand for a number.\n";
    text += kImports;
    if (tables.find("_StridedShard(") != std::string::npos) {
      text += "from torch.distributed.tensor.placement_types import _StridedShard\n";
    }
    return text + "\nMESH = " + mesh_text() + "\n" + tables + left_text() + std::string(kFunctions);
  }

 private:
  std::string mesh_text() const {
    std::vector<std::string> axes;
    for (int axis = 0; axis < plan_.mesh.ndim(); ++axis) {
      axes.push_back(python_string(plan_.mesh.axis_label(axis)) + ": " +
                     std::to_string(plan_.mesh.size(axis)));
    }
    return '{' + absl::StrJoin(axes, ", ") + '}';
  }

  std::string tensors_text() const {
    std::vector<std::string> kept_names, input_names;
    for (const TorchTensor& each : plan_.tensors) {
      (each.role == ValueRole::kInput ? input_names : kept_names).push_back(each.name);
    }
    NameTable kept(kept_names), used(kept_names);
    std::string inputs;
    for (const TorchTensor& each : plan_.tensors) {
      if (each.role == ValueRole::kInput) {
        inputs += "    " + python_string(each.name) + ": " + list_text(each.kept) + ",\n";
        continue;
      }
      kept.add(each.name, list_text(each.kept));
      if (each.used) used.add(each.name, list_text(*each.used));
    }
    return "\n# Parameters and buffers, and as what the forward pass uses those that it moves "
           "first.\n"
           "PARAMETERS = " +
           kept.text() + "USED = " + used.text() +
           "\nINPUTS = " + (inputs.empty() ? "{}\n" : "{\n" + inputs + "}\n");
  }

  std::string borders_text() const {
    NameTable styles(plan_.modules), moves(plan_.modules);
    for (const TorchBorder& border : plan_.borders) {
      const bool is_style = border.style != TorchBorder::Style::kMoves;
      (is_style ? styles : moves).add(border.module, border_text(border));
      if (is_style && border.settles_gradient) {
        moves.add(border.module, "dict(outputs=" + list_text(*border.returned) + ')');
      }
    }
    return "\n# Styles of tensor parallelism, by module; what moves at the borders of "
           "others.\nPLAN = " +
           styles.text() + "MOVES = " + moves.text();
  }

  std::string left_text() const {
    if (plan_.left.empty()) return "";
    std::string text =
        "\n# Inside of modules, where no border shows it: DTensor's own dispatch decides there.\n";
    for (const std::string& each : plan_.left) text += "#   " + each + "\n";
    return text;
  }

  const Program& program_;
  const TorchPlan& plan_;
};

}  // namespace

StatusOr<std::string> torch_module_of(const Program& program) {
  TSR_ASSIGN_OR_RETURN(const ValueFlow flow, ValueFlow::make(program));
  TSR_ASSIGN_OR_RETURN(const TorchPlan plan, torch_plan(flow));
  return ModuleText(flow.program(), plan).write();
}

}  // namespace tessera
