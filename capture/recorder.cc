#include "capture/recorder.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "capture/event_moves.h"
#include "dtensor/gather_bucket.h"
#include "dtensor/recompute.h"
#include "strategies/rules/op.h"

namespace tessera {
namespace {

/// A file's path below the folder that the engine's own sources are in, where it is below it. What
/// compiled it may have named it from the build's folder.
std::string_view below_root(std::string_view file) {
  constexpr std::string_view kUp = "../";
  constexpr std::string_view kOwn = "capture/recorder.cc";
  constexpr std::string_view kHere = __FILE__;
  static_assert(kHere.ends_with(kOwn));
  constexpr std::string_view kRoot = kHere.substr(0, kHere.size() - kOwn.size());
  if (!kRoot.starts_with(kUp) && file.starts_with(kRoot)) file.remove_prefix(kRoot.size());
  while (file.starts_with(kUp)) file.remove_prefix(kUp.size());
  return file;
}

std::string place(std::string_view file, std::int64_t line) {
  if (file.empty()) return "";
  return std::string(below_root(file)) + ':' + std::to_string(line);
}

Json json_of(const AttrValue& value) {
  return std::visit(
      [](const auto& is) -> Json {
        using T = std::decay_t<decltype(is)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return {};
        } else if constexpr (std::is_same_v<T, DType>) {
          return Json(name_of(is));
        } else if constexpr (std::is_same_v<T, Shape>) {
          return Json(Json::Array(is.begin(), is.end()));
        } else if constexpr (std::is_same_v<T, double>) {
          if (std::isfinite(is)) return Json(is);
          return Json(std::isnan(is) ? "nan" : is > 0 ? "inf" : "-inf");
        } else {
          return Json(is);
        }
      },
      value);
}

/// Attributes that are not as the op declares them anyway.
Json::Object attributes(const Op& op, const Attrs& attrs) {
  Json::Object object;
  for (const auto& [name, value] : attrs) {
    const auto def = std::ranges::find(op.def.attrs, name, &AttrDef::name);
    if (def == op.def.attrs.end()) continue;
    if (def->default_value && *def->default_value == value) continue;
    object.push_back({std::string(name), json_of(value)});
  }
  return object;
}

/// A path without the modules that it shares with another: equal layers' regions are alike.
std::string_view outside_of(std::string_view path, std::string_view module) {
  std::size_t shared = 0;
  for (std::size_t i = 0; i < path.size() && i < module.size() && path[i] == module[i]; ++i) {
    if (path[i] == '.') shared = i + 1;
  }
  return path.substr(shared);
}

/// "layers.0.wq" of "layers.0.wq.weight"; empty for a name without dots.
std::string module_of(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

}  // namespace

ProgramRecorder::ProgramRecorder(Runtime& runtime, std::string name)
    : runtime_(runtime), next_event_(runtime.events().events().size()) {
  program_.name = std::move(name);
  program_.source.kind = "program";
  program_.ranks = runtime.world().size();
  runtime.observer = this;
}

ProgramRecorder::~ProgramRecorder() {
  if (runtime_.observer == this) runtime_.observer = nullptr;
}

void ProgramRecorder::declare(const DTensor& tensor, ValueRole role, const std::string& name,
                              const std::string& module) {
  ProgramValue value = described(tensor, values_.unused_name(name));
  value.role = role;
  value.module = module;
  roles_[value.name] = role;
  values_.add(tensor, value.name);
  program_.values.push_back(std::move(value));
}

Program ProgramRecorder::finish() {
  add_ended();
  add_stray(take_events());
  runtime_.observer = nullptr;
  return std::move(program_);
}

// ---- what the log says

std::vector<Event> ProgramRecorder::take_events() {
  const std::vector<Event>& log = runtime_.events().events();
  std::vector<Event> taken;
  for (next_event_ = std::min(next_event_, log.size()); next_event_ < log.size(); ++next_event_) {
    const Event& event = log[next_event_];
    if (event.kind == Event::Kind::kCollective) taken.push_back(event);
  }
  return taken;
}

/// Collectives that no step claims.
void ProgramRecorder::add_stray(std::span<const Event> events) {
  if (events.empty()) return;
  const std::vector<const Mesh*> meshes = known_meshes();
  for (const Event& event : events) {
    StepOrigin from = origin(Site());
    from.module = event.module;
    from.site = place(event.file, event.line);
    RegionStep region{.name = event.name};
    region.moves = moves_of_events({&event, 1}, meshes);
    add_step(std::move(region), from);
  }
}

void ProgramRecorder::add_ended() {
  std::vector<std::string> ended = values_.take_ended();
  if (!ended.empty()) program_.steps.push_back({FreeStep{std::move(ended)}});
}

void ProgramRecorder::add_step(decltype(AnyStep::what) what, const StepOrigin& origin) {
  program_.steps.push_back({std::move(what), origin});
}

std::optional<StepPhase> ProgramRecorder::phase() const {
  if (is_recomputing(runtime_)) return StepPhase::kRecompute;
  if (is_in_backward(runtime_)) return StepPhase::kBackward;
  if (!marks.pass) return StepPhase::kForward;
  return *marks.pass == PassMark::kUpdate ? StepPhase::kOptimizer : StepPhase::kBackward;
}

StepOrigin ProgramRecorder::origin(const Site& site) const {
  StepOrigin origin{.module = runtime_.events().module(),
                    .site = place(site.file_name(), site.line()),
                    .phase = phase(),
                    .stage = marks.stage,
                    .micro_batch = marks.micro_batch};
  if (!marks.region.empty()) {
    origin.from = "local_map " + std::string(outside_of(marks.region, origin.module));
  }
  return origin;
}

// ---- values

/// Values of equal modules have equal names but for the modules'.
std::string ProgramRecorder::in_module(const std::string& name) const {
  const std::string& module = runtime_.events().module();
  return module.empty() || name.find('.') != std::string::npos ? name : module + '.' + name;
}

std::optional<int> ProgramRecorder::mesh_of(const Spec* spec) {
  const auto [at, is_new] = meshes_.try_emplace(spec);
  if (!is_new || spec->mesh().ndim() == 0) return at->second;
  const auto same = std::ranges::find(program_.meshes, spec->mesh(), &ProgramMesh::mesh);
  at->second = static_cast<int>(same - program_.meshes.begin());
  if (same != program_.meshes.end()) return at->second;
  std::vector<std::string> labels;
  for (int axis = 0; axis < spec->mesh().ndim(); ++axis) {
    labels.push_back(spec->mesh().axis_label(axis));
  }
  const std::string wish = absl::StrJoin(labels, "_");
  std::string name = wish;
  for (int number = 2;
       std::ranges::find(program_.meshes, name, &ProgramMesh::name) != program_.meshes.end();
       ++number) {
    name = wish + '.' + std::to_string(number);
  }
  program_.meshes.push_back({.name = std::move(name), .mesh = spec->mesh(), .stage = {}});
  return at->second;
}

ProgramValue ProgramRecorder::described(const DTensor& tensor, std::string name) {
  return described(tensor.impl()->spec, std::move(name));
}
ProgramValue ProgramRecorder::described(const Spec* spec, std::string name) {
  ProgramValue value{.name = std::move(name),
                     .global_shape = spec->global_shape(),
                     .dtype = spec->dtype(),
                     .mesh = mesh_of(spec),
                     .layout = {}};
  if (value.mesh) value.layout = spec->layout();
  return value;
}

ProgramValue ProgramRecorder::result(const DTensor& tensor, const std::string& wish,
                                     const Axes& varies) {
  const ValueTable::Found before = values_.find(tensor);
  ValueRole role = ValueRole::kTemporary;
  const std::string own = in_module(tensor.name().empty() ? wish : tensor.name());
  if (before.name != nullptr) {
    if (const auto known = roles_.find(*before.name); known != roles_.end()) role = known->second;
  }
  ProgramValue value = described(tensor, values_.unused_name(own));
  value.role = role;
  if (role != ValueRole::kTemporary) roles_[value.name] = role;
  if (!value.mesh && !varies.empty()) {
    value.varies = varies;
    varies_[value.name] = varies;
  }
  values_.add(tensor, value.name);
  if (!tensor.local().is_null()) made_.erase(tensor.local().storage().get());
  return value;
}

std::string ProgramRecorder::value_of(const DTensor& tensor) {
  const ValueTable::Found found = values_.find(tensor);
  if (found.name != nullptr) return *found.name;
  if (found.alias != nullptr) {
    RegionStep region{.name = "alias", .args = {Json(*found.alias)}};
    Axes varies;
    if (!tensor.mesh().ndim()) add_axes(varies_of(*found.alias), varies);
    region.out.push_back(result(tensor, "alias", varies));
    std::string name = region.out[0].name;
    add_step(std::move(region), origin(Site()));
    return name;
  }
  const void* memory = tensor.local().is_null() ? nullptr : tensor.local().storage().get();
  const auto made = made_.find(memory);
  if (memory != nullptr && made != made_.end() && !made->second.expired()) {
    RegionStep region{.name = "made"};
    region.out.push_back(result(tensor, "made", {}));
    std::string name = region.out[0].name;
    add_step(std::move(region), origin(Site()));
    return name;
  }
  const bool is_leaf = tensor.impl()->leaf_needs_grad;
  const ValueRole role = is_leaf                       ? ValueRole::kParameter
                         : is_floating(tensor.dtype()) ? ValueRole::kBuffer
                                                       : ValueRole::kInput;
  const std::string wish =
      tensor.name().empty() ? in_module(std::string(name_of(role))) : tensor.name();
  declare(tensor, role, wish, tensor.name().empty() ? "" : module_of(tensor.name()));
  return program_.values.back().name;
}

const ProgramRecorder::Axes& ProgramRecorder::varies_of(const std::string& name) const {
  static const Axes kNone;
  const auto known = varies_.find(name);
  return known == varies_.end() ? kNone : known->second;
}

void ProgramRecorder::add_axes(const Axes& more, Axes& axes) {
  for (const std::string& each : more) {
    if (std::ranges::find(axes, each) == axes.end()) axes.push_back(each);
  }
}

/// Axes along which what is made of this tensor alone may differ from rank to rank.
void ProgramRecorder::add_varying(const DTensor& tensor, Axes& axes) {
  if (tensor.mesh().ndim() == 0) return add_axes(varies_of(value_of(tensor)), axes);
  const Spec& spec = tensor.spec();
  for (int axis = 0; axis < spec.mesh().ndim(); ++axis) {
    const bool cuts = spec.layout().dim_of_axis(axis) >= 0 || spec.layout().partial[axis];
    if (cuts && spec.mesh().size(axis) > 1) add_axes({spec.mesh().axis_label(axis)}, axes);
  }
}

std::vector<const Mesh*> ProgramRecorder::known_meshes() const {
  std::vector<const Mesh*> meshes;
  for (const ProgramMesh& each : program_.meshes) meshes.push_back(&each.mesh);
  return meshes;
}

// ---- what is told

void ProgramRecorder::on_made(const DTensor& made) {
  if (made.local().is_null()) return;
  add_ended();
  if (values_.find(made).alias != nullptr) return;
  made_[made.local().storage().get()] = made.local().storage();
}

/// In the op's order; a list operand's items are one list.
Json::Array ProgramRecorder::arguments(const CallSeen& seen) {
  Json::Array args;
  const std::vector<ArgDef>& defs = seen.op.def.args;
  for (std::size_t i = 0; i < seen.operands.size(); ++i) {
    Json name;
    if (seen.operands[i]->defined()) name = Json(value_of(*seen.operands[i]));
    const bool in_list = i + 1 >= defs.size() && defs.back().kind == ArgDef::Kind::kList;
    if (!in_list) {
      args.push_back(std::move(name));
      continue;
    }
    if (args.size() < defs.size()) args.push_back(Json(Json::Array()));
    args.back().push(std::move(name));
  }
  return args;
}

void ProgramRecorder::on_call(const CallSeen& seen) {
  add_ended();
  std::vector<Event> events = take_events();
  if (!seen.communicates) {
    add_stray(events);
    events.clear();
  }
  CallStep call{.op = seen.op.def.name, .row = std::string(seen.row)};
  call.args = arguments(seen);
  call.moves = moves_of_events(events, known_meshes());
  call.attrs = attributes(seen.op, seen.attrs);
  Axes varies;
  for (const DTensor* each : seen.operands) {
    if (each->defined()) add_varying(*each, varies);
  }
  for (const DTensor& each : seen.results) call.out.push_back(result(each, call.op, varies));
  add_step(std::move(call), origin(seen.site));
}

void ProgramRecorder::add_move(const Source& from, const MoveSeen& seen) {
  const DTensor& to = seen.to[0];
  MoveStep move{.value = from.value,
                .out = {},
                .implicit = seen.origin == Origin::kImplicit,
                .needed_by = std::string(seen.needed_by),
                .moves = {}};
  move.moves = moves_of_redistribution(runtime_, take_events(), from.spec, to.impl()->spec);
  move.out = described(to, moved_name(to.name(), "moved"));
  values_.add(to, move.out.name);
  add_step(std::move(move), origin(seen.site));
}

/// All of a bucket are one exchange, and so one region. Its names are those of PyTorch's. The names
/// of its results, in order; empty where nothing changes.
std::vector<std::string> ProgramRecorder::add_bucket(std::span<const BucketPart> parts,
                                                     BucketLife life, const Site& site) {
  bool is_sum = false;
  for (const BucketPart& each : parts) is_sum |= each.from->has_partial();
  RegionStep region{.name = life == BucketLife::kCall ? "redistribute_all"
                            : is_sum                  ? "fsdp_reduce_scatter"
                                                      : "fsdp_all_gather"};
  std::vector<std::string> names(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const BucketPart& part = parts[i];
    if (part.from == part.to) continue;
    region.args.push_back(Json(part.value));
    names[i] = moved_name(part.name, is_sum ? "reduced" : "gathered");
    region.out.push_back(described(part.to, names[i]));
  }
  region.moves = moves_of_events(take_events(), known_meshes());
  if (!region.out.empty() || !region.moves.empty()) add_step(std::move(region), origin(site));
  return names;
}

std::string ProgramRecorder::moved_name(std::string_view name, const std::string& how) {
  const std::string own(name);
  return values_.unused_name(own.empty() ? in_module(how) : in_module(own) + '.' + how);
}

void ProgramRecorder::on_move(const MoveSeen& seen) {
  add_ended();
  if (seen.life == BucketLife::kNone) {
    add_move({value_of(seen.from[0]), seen.from[0].impl()->spec}, seen);
    return;
  }
  std::vector<BucketPart> parts;
  for (std::size_t i = 0; i < seen.from.size(); ++i) {
    parts.push_back({value_of(seen.from[i]), seen.from[i].impl()->spec, seen.to[i].impl()->spec,
                     seen.to[i].name()});
  }
  bind(add_bucket(parts, seen.life, seen.site), seen.to);
}

void ProgramRecorder::bind(std::span<const std::string> names, std::span<const DTensor> results) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!names[i].empty()) values_.add(results[i], names[i]);
  }
}

void ProgramRecorder::on_move_begun(const void* bucket, const MoveBegun& seen) {
  add_ended();
  std::vector<BucketPart> parts;
  for (std::size_t i = 0; i < seen.from.size(); ++i) {
    parts.push_back({value_of(seen.from[i]), seen.from[i].impl()->spec, seen.to[i], seen.names[i]});
  }
  buckets_[bucket] = add_bucket(parts, BucketLife::kGathered, seen.site);
}

void ProgramRecorder::on_move_ended(const void* bucket, std::span<const DTensor> results) {
  const auto begun = buckets_.find(bucket);
  if (begun == buckets_.end()) return;
  bind(begun->second, results);
  buckets_.erase(begun);
}

/// Whether nothing ran for the result: a recomputed piece takes what its first pass has kept.
bool ProgramRecorder::is_kept(const RegionSeen& seen) const {
  if (seen.results.size() != 1 || values_.find(seen.results[0]).alias == nullptr) return false;
  return std::ranges::none_of(seen.args, [&](const DTensor& each) {
    return each.local().storage() == seen.results[0].local().storage();
  });
}

void ProgramRecorder::on_region(const RegionSeen& seen) {
  add_ended();
  std::vector<Event> events = take_events();
  if (seen.kind == RegionKind::kLocal) {
    add_stray(events);
    events.clear();
  }
  RegionStep region{.name = std::string(seen.name)};
  for (const DTensor& each : seen.args) region.args.push_back(Json(value_of(each)));
  region.moves = moves_of_events(events, known_meshes());
  if (seen.results.empty() && region.moves.empty()) return;
  if (region.moves.empty() && is_kept(seen)) {
    value_of(seen.results[0]);
    return;
  }
  Axes varies;
  for (const DTensor& each : seen.args) add_varying(each, varies);
  for (const DTensor& each : seen.results) {
    region.out.push_back(result(each, region.name, varies));
  }
  add_step(std::move(region), origin(seen.site));
}

void ProgramRecorder::on_host_read(const HostReadSeen& seen) {
  add_ended();
  add_stray(take_events());
  const std::string* value = values_.find(seen.array);
  std::string name = value != nullptr ? *value : std::string();
  if (value == nullptr) {
    RegionStep region{.name = "made"};
    region.out.push_back({.name = values_.unused_name("read"),
                          .global_shape = seen.array.shape(),
                          .dtype = seen.array.dtype(),
                          .mesh = {},
                          .layout = {}});
    name = region.out[0].name;
    add_step(std::move(region), origin(seen.site));
  }
  add_step(
      HostReadStep{
          .value = std::move(name), .bytes = seen.array.num_bytes(), .why = std::string(seen.why)},
      origin(seen.site));
}

}  // namespace tessera
