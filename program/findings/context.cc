#include "program/findings/context.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "io/byte_text.h"
#include "placement/plan.h"
#include "program/call_arguments.h"
#include "program/findings/texts.h"

namespace tessera {
namespace {

std::string collectives_of(const std::vector<ProgramMove>& moves) {
  std::vector<std::string> names;
  for (const ProgramMove& move : moves) {
    if (std::find(names.begin(), names.end(), move.collective) == names.end()) {
      names.push_back(move.collective);
    }
  }
  return absl::StrJoin(names, ", ");
}

std::vector<std::string> axes_of(const std::vector<ProgramMove>& moves) {
  std::vector<std::string> axes;
  for (const ProgramMove& move : moves) {
    for (const std::string& axis : move.axes) {
      if (std::find(axes.begin(), axes.end(), axis) == axes.end()) axes.push_back(axis);
    }
  }
  return axes;
}

}  // namespace

std::string group_of_layers(std::string_view module) {
  std::string group;
  for (std::size_t begin = 0; begin < module.size();) {
    const std::size_t end = std::min(module.find('.', begin), module.size());
    const std::string_view part = module.substr(begin, end - begin);
    const bool number =
        !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    if (begin > 0) group += '.';
    group += number ? "*" : std::string(part);
    begin = end + 1;
  }
  return group;
}

std::string id_of(const Finding& finding) {
  std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a: it stays the same over releases
  const auto mix = [&hash](std::string_view text) {
    for (const char c : text) {
      hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    }
    hash = (hash ^ 0xff) * 1099511628211ULL;  // no byte of a text that is UTF-8
  };
  mix(finding.rule);
  mix(finding.module);
  mix(finding.site);
  mix(finding.phase ? name_of(*finding.phase) : "");
  mix(finding.op);
  mix(finding.collective);
  for (const std::string& axis : finding.axes) mix(axis);
  return absl::StrFormat("%016x", hash);
}

FindingContext::FindingContext(const Program& program, const OpTable& ops)
    : program_(program), ops_(ops) {
  for (const ProgramValue& value : program.values) declare(value, -1);
  read(program.steps, 1, 0);
  specs_.resize(values_.size());
  has_spec_.resize(values_.size());
  moves_.resize(steps_.size());
}

int FindingContext::declare(const ProgramValue& value, int made_by) {
  const int index = static_cast<int>(values_.size());
  values_.push_back({.value = &value, .made_by = made_by});
  names_[value.name] = index;
  return index;
}

void FindingContext::use(int step, const std::string& name) {
  const int index = find_value(name);
  if (index < 0) return;
  steps_[static_cast<std::size_t>(step)].reads.push_back(index);
  std::vector<int>& users = values_[static_cast<std::size_t>(index)].users;
  if (users.empty() || users.back() != step) users.push_back(step);
}

void FindingContext::use_all(int step, const Json& args) {
  if (args.if_string() != nullptr) use(step, *args.if_string());
  if (args.if_array() == nullptr) return;
  for (const Json& each : *args.if_array()) use_all(step, each);
}

void FindingContext::read_call(int step, const CallStep& call) {
  std::vector<int>& operands = operands_[static_cast<std::size_t>(step)];
  for (const Json& arg : call.args) {
    use_all(step, arg);
    const auto operand = [&](const Json& one) {
      operands.push_back(one.if_string() != nullptr ? find_value(*one.if_string()) : -1);
    };
    if (arg.if_array() == nullptr) {
      operand(arg);
    } else {
      for (const Json& each : *arg.if_array()) operand(each);
    }
  }
  StepNode& node = steps_[static_cast<std::size_t>(step)];
  for (const ProgramValue& out : call.out) node.makes.push_back(declare(out, step));
  const Op* found = op(call);
  if (found == nullptr) return;
  for (const int input : found->in_place) {
    if (input >= 0 && input < std::ssize(operands) &&
        operands[static_cast<std::size_t>(input)] >= 0) {
      node.writes.push_back(operands[static_cast<std::size_t>(input)]);
    }
  }
}

void FindingContext::read(const std::vector<AnyStep>& steps, CheckedInt rounds, int body) {
  for (const AnyStep& each : steps) {
    if (const auto* repeat = std::get_if<RepeatStep>(&each.what)) {
      read(repeat->steps, rounds * repeat->count, num_bodies_++);
      continue;
    }
    if (std::holds_alternative<FreeStep>(each.what)) continue;
    const int index = static_cast<int>(steps_.size());
    steps_.push_back({.step = &each, .rounds = rounds, .body = body});
    operands_.emplace_back();
    if (const auto* call = std::get_if<CallStep>(&each.what)) {
      read_call(index, *call);
    } else if (const auto* region = std::get_if<RegionStep>(&each.what)) {
      for (const Json& arg : region->args) use_all(index, arg);
      for (const ProgramValue& out : region->out) {
        const int made = declare(out, index);
        steps_[static_cast<std::size_t>(index)].makes.push_back(made);
      }
    } else if (const auto* move = std::get_if<MoveStep>(&each.what)) {
      use(index, move->value);
      const int made = declare(move->out, index);
      steps_[static_cast<std::size_t>(index)].makes.push_back(made);
    } else if (const auto* read = std::get_if<HostReadStep>(&each.what)) {
      use(index, read->value);
    }
  }
}

int FindingContext::find_value(std::string_view name) const {
  const auto found = names_.find(std::string(name));
  return found == names_.end() ? -1 : found->second;
}

const Spec* FindingContext::spec(int value) {
  if (value < 0) return nullptr;
  const auto at = static_cast<std::size_t>(value);
  if (!has_spec_[at]) {
    has_spec_[at] = true;
    StatusOr<Spec> made = spec_of(program_, *values_[at].value);
    if (made.ok()) specs_[at] = *std::move(made);
  }
  return specs_[at] ? &*specs_[at] : nullptr;
}

const Op* FindingContext::op(const CallStep& call) const {
  const StatusOr<const Op*> found = ops_.find(call.op);
  return found.ok() ? *found : nullptr;
}

std::optional<Attrs> FindingContext::attrs(const CallStep& call) const {
  const Op* found = op(call);
  if (found == nullptr) return std::nullopt;
  StatusOr<Attrs> complete = attrs_of_call(*found, call.attrs);
  if (!complete.ok()) return std::nullopt;
  return *std::move(complete);
}

const PairCost& FindingContext::pair(const ProgramValue& from, const Spec& src, const Spec& dst) {
  std::string key = src.to_string() + " > " + dst.to_string();
  if (from.mesh) key += absl::StrFormat(" %d", *from.mesh);
  std::unique_ptr<PairCost>& cost = pairs_[key];
  if (cost) return *cost;
  cost = std::make_unique<PairCost>();
  ProgramValue source = from, target = from;
  source.global_shape = target.global_shape = src.global_shape();
  source.dtype = target.dtype = src.dtype();
  source.layout = src.layout();
  target.layout = dst.layout();
  if (!from.mesh || !(src.mesh() == dst.mesh())) return *cost;
  StatusOr<std::vector<ProgramMove>> moved = moves_of(program_, source, target);
  if (!moved.ok()) return *cost;
  cost->known = true;
  cost->moves = *std::move(moved);
  cost->bytes = sum_of(cost->moves);
  cost->bound = lower_bound(src, dst);
  const std::int64_t slices =
      slices_alike(program_, program_.meshes[static_cast<std::size_t>(*from.mesh)]);
  cost->bound.total = (CheckedInt(cost->bound.total) * slices).clamped();
  return *cost;
}

const std::vector<ProgramMove>& FindingContext::moves(int step) {
  std::optional<std::vector<ProgramMove>>& known = moves_[static_cast<std::size_t>(step)];
  if (known) return *known;
  known.emplace();
  const AnyStep& any = *this->step(step).step;
  if (const auto* call = std::get_if<CallStep>(&any.what)) {
    known = call->moves;
  } else if (const auto* region = std::get_if<RegionStep>(&any.what)) {
    known = region->moves;
  } else if (const auto* move = std::get_if<MoveStep>(&any.what)) {
    if (move->moves) {
      known = *move->moves;
    } else if (!this->step(step).reads.empty()) {
      const int source = this->step(step).reads[0];
      const Spec* from = spec(source);
      const Spec* to = spec(this->step(step).makes.at(0));
      if (from != nullptr && to != nullptr) {
        if (const PairCost& cost = pair(*value(source).value, *from, *to); cost.known) {
          known = cost.moves;
          return *known;
        }
      }
      const StatusOr<std::vector<ProgramMove>> planned =
          moves_of(program_, *value(source).value, move->out);
      if (planned.ok()) known = *planned;
    }
  }
  return *known;
}

Volume FindingContext::bytes(int step) { return sum_of(moves(step)); }

std::string FindingContext::site_near(int step) const {
  for (int hops = 0; hops < 16 && step >= 0; ++hops) {
    const StepNode& node = this->step(step);
    if (!node.step->origin.site.empty()) return node.step->origin.site;
    int before = -1;
    for (const int read : node.reads) before = std::max(before, value(read).made_by);
    step = before;
  }
  return "";
}

Finding FindingContext::start(std::string_view rule, int step) {
  Finding finding;
  finding.rule = rule;
  if (const FindingRule* known = find_rule(rule)) finding.severity = known->severity;
  if (step < 0) return finding;
  const StepNode& node = this->step(step);
  const StepOrigin& origin = node.step->origin;
  finding.module = group_of_layers(origin.module);
  finding.site = origin.site;
  finding.phase = origin.phase;
  finding.stage = origin.stage;
  if (const auto* call = std::get_if<CallStep>(&node.step->what)) finding.op = call->op;
  if (const auto* region = std::get_if<RegionStep>(&node.step->what)) finding.op = region->name;
  if (const auto* move = std::get_if<MoveStep>(&node.step->what)) {
    finding.op = move->needed_by.substr(0, move->needed_by.find('.'));
    finding.value = move->value;
  }
  const std::vector<ProgramMove>& moved = moves(step);
  finding.collective = collectives_of(moved);
  finding.axes = axes_of(moved);
  finding.bytes = sum_of(moved);
  return finding;
}

bool FindingContext::is_first(const Finding& finding) const {
  return !by_id_.contains(id_of(finding));
}

void FindingContext::add(Finding finding, int step) {
  const CheckedInt rounds = step < 0 ? CheckedInt(1) : this->step(step).rounds;
  finding.id = id_of(finding);
  const auto [entry, is_new] = by_id_.emplace(finding.id, found_.size());
  if (is_new) {
    found_.push_back(finding);
    sums_.emplace_back();
  }
  Sum& sum = sums_[entry->second];
  sum.count += rounds * finding.count;
  sum.max += rounds * finding.bytes.max;
  sum.total += rounds * finding.bytes.total;
  Finding& first = found_[entry->second];
  // Texts are made for the first of equal places alone: the others save as much for their bytes.
  if (finding.saved_bytes) {
    sum.saved += rounds * *finding.saved_bytes;
  } else if (first.saved_bytes && !is_new) {
    sum.saved += rounds * *first.saved_bytes;
  }
  first.severity = std::max(first.severity, finding.severity);
}

Status FindingContext::take(Findings& findings) {
  for (std::size_t i = 0; i < found_.size(); ++i) {
    Finding& finding = found_[i];
    const Sum& sum = sums_[i];
    for (const CheckedInt each : {sum.count, sum.max, sum.total, sum.saved}) {
      if (!(CheckedInt(each.clamped()) == each)) {
        return out_of_range("what " + finding.rule + " counts comes to more than 2^63");
      }
    }
    finding.count = sum.count.clamped();
    finding.bytes = {sum.max.clamped(), sum.total.clamped()};
    if (finding.saved_bytes) finding.saved_bytes = sum.saved.clamped();
    if (finding.measure.empty() && finding.bytes.max > 0) {
      finding.measure = byte_text(finding.bytes.max, 1) + " a step";
    }
  }
  std::stable_sort(found_.begin(), found_.end(), [](const Finding& a, const Finding& b) {
    return std::tuple(b.severity, b.bytes.max, std::string_view(a.rule), std::string_view(a.module),
                      std::string_view(a.site), std::string_view(a.id)) <
           std::tuple(a.severity, a.bytes.max, std::string_view(b.rule), std::string_view(b.module),
                      std::string_view(b.site), std::string_view(b.id));
  });
  findings.all = std::move(found_);
  return absl::OkStatus();
}

}  // namespace tessera
