#include "program/export/module_borders.h"

#include <algorithm>

namespace tessera {
namespace {

bool is_forward(const AnyStep& step) {
  return !step.origin.phase || *step.origin.phase == StepPhase::kForward;
}

/// The path and every path around it, the innermost first, without "".
std::vector<std::string> paths_around(std::string path) {
  std::vector<std::string> paths;
  while (!path.empty()) {
    paths.push_back(path);
    const std::size_t dot = path.rfind('.');
    path.resize(dot == std::string::npos ? 0 : dot);
  }
  return paths;
}

bool is_transpose(const CallStep& call, const ProgramValue& operand) {
  return operand.global_shape.size() == 2 &&
         (call.op == "t" || call.op == "transpose" || call.op == "permute") &&
         call.out.size() == 1 && call.out[0].global_shape[0] == operand.global_shape[1];
}

}  // namespace

bool holds_module(const std::string& outer, const std::string& inner) {
  return outer.empty() || inner == outer ||
         (inner.size() > outer.size() && inner.starts_with(outer) && inner[outer.size()] == '.');
}

ModuleBorders::ModuleBorders(const ValueFlow& flow)
    : flow_(flow), reads_(flow.values().size()), readers_(flow.values().size()) {
  for (std::int64_t step = 0; step < std::ssize(flow.program().steps); ++step) {
    if (is_forward(flow.step(step))) add_step(step);
  }
  add_results();
}

bool ModuleBorders::is_parameter(int index) const {
  const FlowValue& flow = flow_.at(index);
  return flow.made_by == kBeforeAll && flow.value.role == ValueRole::kParameter;
}

int ModuleBorders::parameter_behind(int root) const {
  if (is_parameter(root)) return root;
  const FlowValue& made = flow_.at(root);
  if (made.made_by == kBeforeAll) return -1;
  const auto* call = std::get_if<CallStep>(&flow_.step(made.made_by).what);
  const std::vector<int>& reads = flow_.read_at(made.made_by);
  if (call == nullptr || reads.size() != 1) return -1;
  const int source = flow_.at(reads[0]).root;
  return is_parameter(source) && is_transpose(*call, flow_.at(source).value) ? source : -1;
}

const std::string& ModuleBorders::maker_module(int root) const {
  static const std::string kNone;
  const FlowValue& made = flow_.at(root);
  return made.made_by == kBeforeAll ? kNone : flow_.step(made.made_by).origin.module;
}

bool ModuleBorders::is_made_in(int root, const std::string& module) const {
  return flow_.at(root).made_by != kBeforeAll && holds_module(module, maker_module(root));
}

void ModuleBorders::add_step(std::int64_t number) {
  const AnyStep& step = flow_.step(number);
  const auto* call = std::get_if<CallStep>(&step.what);
  const auto* region = std::get_if<RegionStep>(&step.what);
  if (call == nullptr && region == nullptr) return;
  const std::string op = call != nullptr ? call->op : region->name;
  for (const std::string& path : paths_around(step.origin.module)) borders_[path];
  if (!step.origin.module.empty()) borders_[step.origin.module].ops.insert(op);
  const bool passes_on =
      flow_.made_at(number).size() == 1 && parameter_behind(flow_.made_at(number)[0]) >= 0;
  if (passes_on) return;  // a transpose of a parameter counts where it is read
  for (const int value : flow_.read_at(number)) {
    add_read(
        {.root = flow_.at(value).root, .value = value, .module = step.origin.module, .op = op});
  }
}

void ModuleBorders::add_read(const BorderRead& read) {
  const ProgramValue& value = flow_.at(read.value).value;
  const int parameter = parameter_behind(read.root);
  if (parameter >= 0) {
    if (!value.layout) return;
    Layout layout = *value.layout;
    if (parameter != read.root) std::swap(layout.dims[0], layout.dims[1]);
    parameter_reads_.push_back({.parameter = parameter, .layout = std::move(layout)});
    return;
  }
  const FlowValue& root = flow_.at(read.root);
  readers_[static_cast<std::size_t>(read.root)].insert(read.module);
  const bool is_buffer = root.made_by == kBeforeAll && root.value.role != ValueRole::kInput;
  if (value.mesh && !is_buffer) reads_[static_cast<std::size_t>(read.root)].push_back(read);
  for (const std::string& path : paths_around(read.module)) {
    if (is_made_in(read.root, path)) continue;
    ModuleBorder& border = borders_[path];
    if (!value.mesh || is_buffer) {
      const bool is_own = is_buffer && holds_module(path, root.value.module);
      border.has_others = border.has_others || !is_own;
    } else if (std::ranges::find(border.in, read.root) == border.in.end()) {
      border.in.push_back(read.root);
    }
  }
}

void ModuleBorders::add_results() {
  for (int root = 0; root < static_cast<int>(readers_.size()); ++root) {
    const FlowValue& made = flow_.at(root);
    if (made.root != root || made.made_by == kBeforeAll) continue;
    if (!is_forward(flow_.step(made.made_by)) || parameter_behind(root) >= 0) continue;
    const std::set<std::string>& readers = readers_[static_cast<std::size_t>(root)];
    // What the backward pass alone reads, and second results that nobody does, leave no module.
    const bool is_first = flow_.made_at(made.made_by)[0] == root;
    if (readers.empty() && (!made.read_by.empty() || !is_first)) continue;
    for (const std::string& path : paths_around(maker_module(root))) {
      const bool is_inner = !readers.empty() && std::ranges::all_of(readers, [&](const auto& each) {
        return holds_module(path, each);
      });
      if (!is_inner) borders_[path].out.push_back(root);
    }
  }
}

}  // namespace tessera
