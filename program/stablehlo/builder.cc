#include "program/stablehlo/builder.h"

#include "absl/strings/str_format.h"
#include "program/program_json.h"

namespace tessera::stablehlo {
namespace {

constexpr std::int64_t kMaxCounted = 2'000'000;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 28;  // read again and again
constexpr std::size_t kMaxNameBytes = 400;

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }

std::vector<ProgramValue>* results_of(AnyStep& step) {
  if (auto* call = std::get_if<CallStep>(&step.what)) return &call->out;
  if (auto* region = std::get_if<RegionStep>(&step.what)) return &region->out;
  return nullptr;
}

}  // namespace

std::string Builder::fresh(const std::string& wanted) {
  // Calls in calls have the names of all of them.
  std::size_t begin = wanted.size() <= kMaxNameBytes ? 0 : wanted.size() - kMaxNameBytes;
  while (begin < wanted.size() && !begins_character(wanted[begin])) ++begin;
  const std::string name = wanted.substr(begin);
  int& used = names_[name];
  if (++used == 1) return name;
  for (;;) {
    std::string numbered = absl::StrFormat("%s#%d", name, used);
    if (names_.try_emplace(numbered, 1).second) return numbered;
    ++used;
  }
}

BoundId Builder::add(const std::string& wanted, TensorType type, std::optional<int> mesh) {
  Bound& bound = bounds_.emplace_back();
  bound.value.name = fresh(wanted);
  bound.value.global_shape = type.shape;
  bound.value.dtype = type.dtype;
  bound.type = std::move(type);
  const auto id = static_cast<BoundId>(bounds_.size() - 1);
  bound.value.mesh = mesh;
  if (module_.is_propagated) place_everywhere(id);
  return id;
}

void Builder::place_everywhere(BoundId id) {
  ProgramValue& value = at(id).value;
  if (!value.mesh) return;
  const Mesh& mesh = module_.meshes.meshes()[static_cast<std::size_t>(*value.mesh)].mesh;
  value.layout = Layout{.dims = std::vector<Levels>(value.global_shape.size()), .partial = {}};
  value.layout->partial.resize(static_cast<std::size_t>(mesh.ndim()));
}

Status Builder::place(BoundId id, const Sharding& sharding) {
  TSR_RETURN_IF_ERROR(module_.meshes.place(sharding, at(id).value));
  const ProgramValue& value = at(id).value;
  if (module_.is_propagated && value.mesh && !value.layout) place_everywhere(id);
  return absl::OkStatus();
}

StatusOr<std::string> Builder::name_of(BoundId id, const StepOrigin& origin) {
  if (at(id).made) return at(id).value.name;
  RegionStep step{.name = "stablehlo.constant", .args = {}, .out = {at(id).value}};
  StepOrigin from = origin;
  from.from = "stablehlo.constant";
  TSR_RETURN_IF_ERROR(push({std::move(step), std::move(from)}, {id}, 0));
  return at(id).value.name;
}

Status Builder::push(AnyStep step, const std::vector<BoundId>& made, std::size_t offset) {
  if (num_steps_ == kMaxProgramSteps || std::ssize(made_) + std::ssize(made) > kMaxProgramValues) {
    return text().error(offset, absl::StrFormat("more than %d steps or %d values, each function as "
                                                "often as it is called",
                                                kMaxProgramSteps, kMaxProgramValues));
  }
  if (std::vector<ProgramValue>* results = results_of(step)) {
    TSR_CHECK(results->size() == made.size(), step.origin.from);
  }
  ++num_steps_;
  program_.steps.push_back(std::move(step));
  for (std::size_t i = 0; i < made.size(); ++i) {
    Bound& bound = at(made[i]);
    bound.made = true;
    bound.step = bodies_.empty() ? std::ssize(program_.steps) - 1 : -1;
    bound.serial = made_.size();
    bound.out = i;
    made_.push_back(made[i]);
  }
  return absl::OkStatus();
}

StatusOr<BoundId> Builder::redistribute(BoundId id, const Sharding& sharding,
                                        const std::string& wanted, bool implicit,
                                        const std::string& needed_by, const StepOrigin& origin,
                                        std::size_t offset) {
  TSR_ASSIGN_OR_RETURN(const std::string from, name_of(id, origin));
  const BoundId moved = add(wanted, at(id).type);
  TSR_RETURN_IF_ERROR(place(moved, sharding));
  at(moved).splat = at(id).splat;
  MoveStep step{.value = from,
                .out = at(moved).value,
                .implicit = implicit,
                .needed_by = needed_by,
                .moves = {}};
  TSR_RETURN_IF_ERROR(push({std::move(step), origin}, {moved}, offset));
  return moved;
}

void Builder::undo_to(const Mark& mark) {
  num_steps_ -= std::ssize(program_.steps) - static_cast<std::ptrdiff_t>(mark.steps);
  program_.steps.resize(mark.steps);
  for (std::size_t i = mark.made; i < made_.size(); ++i) at(made_[i]).made = false;
  made_.resize(mark.made);
}

Status Builder::begin_body(std::size_t offset) {
  if (body_depth() == kMaxRepeatDepth) {
    return text().error(offset,
                        absl::StrFormat("more than %d loops in one another", kMaxRepeatDepth));
  }
  bodies_.push_back({.steps_before = std::move(program_.steps), .made_before = made_.size()});
  program_.steps.clear();
  return absl::OkStatus();
}

std::vector<AnyStep> Builder::end_body() {
  std::vector<AnyStep> steps = std::move(program_.steps);
  program_.steps = std::move(bodies_.back().steps_before);
  bodies_.pop_back();
  return steps;
}

bool Builder::is_of_body(BoundId id) const {
  return at(id).made && at(id).step < 0 && at(id).serial >= bodies_.back().made_before;
}

Status Builder::count(const Statement& statement, std::size_t end) {
  num_bytes_ += static_cast<std::int64_t>(end - statement.offset);
  if (num_bytes_ > kMaxBytes) {
    return text().error(statement.offset,
                        absl::StrFormat("more than %d bytes of text, each function as often as it "
                                        "is called",
                                        kMaxBytes));
  }
  num_counted_ += 1 + std::ssize(statement.operands()) + std::ssize(statement.result_types);
  if (num_counted_ <= kMaxCounted) return absl::OkStatus();
  return text().error(
      statement.offset,
      absl::StrFormat("more than %d operations, operands and results, each function "
                      "as often as it is called",
                      kMaxCounted));
}

}  // namespace tessera::stablehlo
