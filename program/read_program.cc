#include <algorithm>
#include <array>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "program/program_json.h"
#include "program/program_names.h"
#include "program/read_values.h"

namespace tessera {
namespace {

constexpr std::int64_t kMaxNameChars = 200;
constexpr std::int64_t kMaxWarnings = 10'000;
/// Names, numbers, lists and attributes of all steps: 40 bytes each where the text has two.
constexpr std::int64_t kMaxArguments = 4'000'000;
constexpr int kMaxArgumentDepth = 4;

using Texts = std::initializer_list<std::string_view>;

class Reader {
 public:
  explicit Reader(const OpTable& ops) : ops_(ops) {}

  StatusOr<Program> read(const JsonView& root) {
    TSR_RETURN_IF_ERROR(
        root.check_keys({"version", "name", "source", "ranks", "meshes", "values", "steps"},
                        {"scenario", "warnings"}));
    TSR_RETURN_IF_ERROR(read_head(root));
    TSR_ASSIGN_OR_RETURN(const JsonView meshes, root.at("meshes"));
    TSR_RETURN_IF_ERROR(values_.read_meshes(meshes, program_.ranks));
    program_.meshes = values_.meshes();
    if (const std::optional<JsonView> warnings = root.find("warnings")) {
      TSR_ASSIGN_OR_RETURN(program_.warnings,
                           warnings->texts({.most = kMaxWarnings, .what = "warnings"}));
    }
    TSR_ASSIGN_OR_RETURN(const JsonView values, root.at("values"));
    TSR_RETURN_IF_ERROR(values.for_each_item([this](const JsonView& view) -> Status {
      TSR_ASSIGN_OR_RETURN(ProgramValue value, values_.read_value(view, Declared::kBefore));
      TSR_RETURN_IF_ERROR(view.annotate(names_.define(value)));
      program_.values.push_back(std::move(value));
      return absl::OkStatus();
    }));
    TSR_ASSIGN_OR_RETURN(const JsonView steps, root.at("steps"));
    TSR_RETURN_IF_ERROR(read_steps(steps, program_.steps));
    return std::move(program_);
  }

 private:
  using Declared = ValueReader::Declared;

  Status read_head(const JsonView& root) {
    TSR_ASSIGN_OR_RETURN(const JsonView version, root.at("version"));
    TSR_RETURN_IF_ERROR(version.integer_in(1, 1).status());
    TSR_ASSIGN_OR_RETURN(program_.name, text_at(root, "name"));
    if (std::ssize(program_.name) > kMaxNameChars) {
      return root.find("name")->error(absl::StrFormat("a name of %d bytes; at most %d are allowed",
                                                      program_.name.size(), kMaxNameChars));
    }
    TSR_ASSIGN_OR_RETURN(const JsonView source, root.at("source"));
    TSR_RETURN_IF_ERROR(source.check_keys({"kind"}, {"by", "command"}));
    TSR_ASSIGN_OR_RETURN(program_.source.kind, text_at(source, "kind"));
    constexpr std::array<const char*, 4> kKinds = {"torch", "train", "stablehlo", "program"};
    if (std::ranges::find(kKinds, program_.source.kind) == kKinds.end()) {
      return source.find("kind")->error(in_quotes(program_.source.kind) + ": allowed are " +
                                        absl::StrJoin(kKinds, ", "));
    }
    TSR_ASSIGN_OR_RETURN(program_.source.by, text_at(source, "by"));
    TSR_ASSIGN_OR_RETURN(program_.source.command, text_at(source, "command"));
    if (const std::optional<JsonView> scenario = root.find("scenario")) {
      TSR_RETURN_IF_ERROR(scenario->check_keys({"routing"}));
      TSR_ASSIGN_OR_RETURN(program_.routing, text_at(*scenario, "routing"));
      if (program_.routing.empty()) {
        return scenario->find("routing")->error("\"\": balanced, worst or a file's name is needed");
      }
    }
    TSR_ASSIGN_OR_RETURN(const JsonView ranks, root.at("ranks"));
    TSR_ASSIGN_OR_RETURN(program_.ranks, ranks.integer_in(1, std::int64_t{1} << 40));
    return absl::OkStatus();
  }

  Status read_steps(const JsonView& view, std::vector<AnyStep>& steps) {
    return view.for_each_item([&](const JsonView& item) -> Status {
      if (++num_steps_ > kMaxProgramSteps) {
        return item.error(absl::StrFormat("more than %d steps", kMaxProgramSteps));
      }
      TSR_ASSIGN_OR_RETURN(AnyStep step, read_step(item));
      steps.push_back(std::move(step));
      return absl::OkStatus();
    });
  }

  StatusOr<AnyStep> read_step(const JsonView& view) {
    TSR_RETURN_IF_ERROR(view.size().status());
    if (view.kind() == Json::Kind::kObject) {
      if (view.find("op")) return read_call(view);
      if (view.find("redistribute")) return read_move(view);
      if (view.find("region")) return read_region(view);
      if (view.find("free")) return read_free(view);
      if (view.find("host_read")) return read_host_read(view);
      if (view.find("repeat")) return read_repeat(view);
    }
    return view.error(
        "a step has one of the keys op, redistribute, region, free, host_read, repeat");
  }

  StatusOr<AnyStep> read_call(const JsonView& view) {
    TSR_RETURN_IF_ERROR(check_keys(view, {"op", "args", "out"}, {"attrs", "row", "moves"}));
    CallStep call;
    TSR_ASSIGN_OR_RETURN(call.op, text_at(view, "op"));
    const StatusOr<const Op*> op = ops_.find(call.op);
    if (!op.ok()) return view.find("op")->error(message_of(op.status()));
    TSR_ASSIGN_OR_RETURN(call.args, read_args(*view.find("args")));
    if (const std::optional<JsonView> attrs = view.find("attrs")) {
      TSR_RETURN_IF_ERROR(check_attrs(**op, *attrs));
      call.attrs = *attrs->to_json().if_object();
    }
    TSR_ASSIGN_OR_RETURN(call.row, text_at(view, "row"));
    if (const std::optional<JsonView> moves = view.find("moves")) {
      TSR_ASSIGN_OR_RETURN(call.moves, read_moves(*moves));
    }
    TSR_ASSIGN_OR_RETURN(call.out, read_results(*view.find("out")));
    return with_origin(view, std::move(call));
  }

  Status check_attrs(const Op& op, const JsonView& view) {
    TSR_RETURN_IF_ERROR(count_arguments(view));
    return view.for_each_member([&](const std::string& name, const JsonView& attr) -> Status {
      if (std::ranges::find(op.def.attrs, name, &AttrDef::name) != op.def.attrs.end()) {
        return absl::OkStatus();
      }
      std::string allowed;
      for (const AttrDef& each : op.def.attrs) allowed += (allowed.empty() ? "" : ", ") + each.name;
      return attr.error(op.def.name +
                        " has no such attribute; it has: " + (allowed.empty() ? "none" : allowed));
    });
  }

  StatusOr<AnyStep> read_move(const JsonView& view) {
    TSR_RETURN_IF_ERROR(
        check_keys(view, {"redistribute", "to", "out"}, {"mesh", "implicit", "for", "moves"}));
    MoveStep move;
    TSR_ASSIGN_OR_RETURN(move.value, text_at(view, "redistribute"));
    const StatusOr<const ProgramNames::Known*> source = names_.use(move.value);
    if (!source.ok()) return view.find("redistribute")->annotate(source.status());
    move.out.global_shape = (*source)->global_shape;
    move.out.dtype = (*source)->dtype;
    move.out.mesh = (*source)->mesh;
    move.out.varies = (*source)->varies;
    if (const std::optional<JsonView> mesh = view.find("mesh")) {
      TSR_ASSIGN_OR_RETURN(move.out.mesh, values_.read_mesh_name(*mesh));
    }
    TSR_RETURN_IF_ERROR(values_.read_layout_of(*view.find("to"), move.out));
    TSR_ASSIGN_OR_RETURN(move.out.name, text_at(view, "out"));
    if (const std::optional<JsonView> implicit = view.find("implicit")) {
      TSR_ASSIGN_OR_RETURN(move.implicit, implicit->boolean());
    }
    TSR_ASSIGN_OR_RETURN(move.needed_by, text_at(view, "for"));
    if (const std::optional<JsonView> moves = view.find("moves")) {
      TSR_ASSIGN_OR_RETURN(move.moves, read_moves(*moves));
    }
    if (move.out.name.empty()) return view.find("out")->error("\"\": a value needs a name");
    TSR_RETURN_IF_ERROR(view.find("out")->annotate(names_.define(move.out)));
    return with_origin(view, std::move(move));
  }

  StatusOr<AnyStep> read_region(const JsonView& view) {
    TSR_RETURN_IF_ERROR(
        check_keys(view, {"region", "args", "out"}, {"flops", "bytes", "moves", "warning"}));
    RegionStep region;
    TSR_ASSIGN_OR_RETURN(region.name, text_at(view, "region"));
    TSR_ASSIGN_OR_RETURN(region.args, read_args(*view.find("args")));
    for (const auto& [key, count] : {std::pair{"flops", &region.flops}, {"bytes", &region.bytes}}) {
      if (const std::optional<JsonView> found = view.find(key)) {
        TSR_ASSIGN_OR_RETURN(*count, found->integer_in(0, INT64_MAX));
      }
    }
    if (const std::optional<JsonView> moves = view.find("moves")) {
      TSR_ASSIGN_OR_RETURN(region.moves, read_moves(*moves));
    }
    TSR_ASSIGN_OR_RETURN(region.warning, text_at(view, "warning"));
    TSR_ASSIGN_OR_RETURN(region.out, read_results(*view.find("out")));
    return with_origin(view, std::move(region));
  }

  StatusOr<AnyStep> read_free(const JsonView& view) {
    TSR_RETURN_IF_ERROR(view.check_keys({"free"}));
    FreeStep step;
    TSR_RETURN_IF_ERROR(view.find("free")->for_each_item([&](const JsonView& item) -> Status {
      TSR_ASSIGN_OR_RETURN(std::string name, item.text());
      TSR_RETURN_IF_ERROR(item.annotate(names_.end(name)));
      step.values.push_back(std::move(name));
      return absl::OkStatus();
    }));
    return AnyStep{std::move(step)};
  }

  StatusOr<AnyStep> read_host_read(const JsonView& view) {
    TSR_RETURN_IF_ERROR(check_keys(view, {"host_read", "bytes"}, {"why"}));
    HostReadStep step;
    TSR_ASSIGN_OR_RETURN(step.value, text_at(view, "host_read"));
    TSR_RETURN_IF_ERROR(view.find("host_read")->annotate(names_.use(step.value).status()));
    TSR_ASSIGN_OR_RETURN(step.bytes, view.find("bytes")->integer_in(0, INT64_MAX));
    TSR_ASSIGN_OR_RETURN(step.why, text_at(view, "why"));
    return with_origin(view, std::move(step));
  }

  StatusOr<AnyStep> read_repeat(const JsonView& view) {
    TSR_RETURN_IF_ERROR(view.check_keys({"repeat", "steps"}, {"first", "by", "as", "carry"}));
    if (depth_ == kMaxRepeatDepth) {
      return view.error(absl::StrFormat("repeats in more than %d others", kMaxRepeatDepth - 1));
    }
    RepeatStep repeat;
    TSR_ASSIGN_OR_RETURN(repeat.count, view.find("repeat")->integer_in(1, kMaxRepeats));
    if (const std::optional<JsonView> first = view.find("first")) {
      TSR_ASSIGN_OR_RETURN(repeat.first, first->integer_in(-kMaxRepeats, kMaxRepeats));
    }
    if (const std::optional<JsonView> by = view.find("by")) {
      TSR_ASSIGN_OR_RETURN(repeat.by, by->integer_in(-1, 1));
      if (repeat.by == 0) return by->error("0: rounds are numbered by 1 or -1");
    }
    TSR_ASSIGN_OR_RETURN(repeat.as, text_at(view, "as"));
    ++depth_;
    names_.begin_body({.count = repeat.count, .first = repeat.first, .by = repeat.by});
    TSR_RETURN_IF_ERROR(read_steps(*view.find("steps"), repeat.steps));
    --depth_;
    if (const std::optional<JsonView> carry = view.find("carry")) {
      TSR_RETURN_IF_ERROR(
          carry->for_each_member([&](std::string begin, const JsonView& end) -> Status {
            TSR_ASSIGN_OR_RETURN(std::string name, end.text());
            TSR_RETURN_IF_ERROR(end.annotate(names_.carry(begin, name)));
            repeat.carry.emplace_back(std::move(begin), std::move(name));
            return absl::OkStatus();
          }));
    }
    TSR_RETURN_IF_ERROR(view.find("steps")->annotate(names_.end_body()));
    return AnyStep{std::move(repeat)};
  }

  static Status check_keys(const JsonView& view, Texts required, Texts also) {
    constexpr std::string_view kOrigin[] = {"module",      "site", "phase",  "stage",
                                            "micro_batch", "from", "time_us"};
    std::vector<std::string_view> optional(also);
    optional.insert(optional.end(), std::begin(kOrigin), std::end(kOrigin));
    return view.check_keys(std::span(required.begin(), required.size()), optional);
  }

  template <class Step>
  static StatusOr<AnyStep> with_origin(const JsonView& view, Step step) {
    AnyStep made{std::move(step)};
    StepOrigin& origin = made.origin;
    TSR_ASSIGN_OR_RETURN(origin.module, module_at(view));
    TSR_ASSIGN_OR_RETURN(origin.site, text_at(view, "site"));
    if (const std::optional<JsonView> phase = view.find("phase")) {
      constexpr std::array kAllowed = {StepPhase::kForward, StepPhase::kRecompute,
                                       StepPhase::kBackward, StepPhase::kOptimizer};
      TSR_ASSIGN_OR_RETURN(origin.phase, read_choice(*phase, kAllowed));
    }
    if (const std::optional<JsonView> stage = view.find("stage")) {
      TSR_ASSIGN_OR_RETURN(const std::int64_t number, stage->integer_in(0, INT32_MAX));
      origin.stage = static_cast<int>(number);
    }
    if (const std::optional<JsonView> piece = view.find("micro_batch")) {
      TSR_ASSIGN_OR_RETURN(origin.micro_batch, piece->integer_in(0, INT64_MAX));
    }
    TSR_ASSIGN_OR_RETURN(origin.from, text_at(view, "from"));
    if (const std::optional<JsonView> time = view.find("time_us")) {
      TSR_ASSIGN_OR_RETURN(const double us, time->number());
      if (us < 0) return time->error(absl::StrFormat("%g: a time is at least 0", us));
      origin.time_us = us;
    }
    return made;
  }

  Status count_arguments(const JsonView& view) {
    num_arguments_ += view.num_entries();
    if (num_arguments_ <= kMaxArguments) return absl::OkStatus();
    return view.error(absl::StrFormat("more than %d arguments in all", kMaxArguments));
  }

  StatusOr<Json::Array> read_args(const JsonView& view) {
    TSR_RETURN_IF_ERROR(count_arguments(view));
    TSR_RETURN_IF_ERROR(check_list(view, 1));
    return *view.to_json().if_array();
  }
  Status check_list(const JsonView& view, int depth) {
    if (depth > kMaxArgumentDepth) {
      return view.error(absl::StrFormat("lists in more than %d others", kMaxArgumentDepth - 1));
    }
    return view.for_each_item([&](const JsonView& item) -> Status {
      switch (item.kind()) {
        case Json::Kind::kNull:
        case Json::Kind::kInteger:
        case Json::Kind::kNumber:
          return absl::OkStatus();
        case Json::Kind::kString: {
          TSR_ASSIGN_OR_RETURN(const std::string name, item.text());
          return item.annotate(names_.use(name).status());
        }
        case Json::Kind::kArray:
          return check_list(item, depth + 1);
        default:
          return item.error("expected a value's name, a number, null or a list of them, not " +
                            std::string(describe(item.kind())));
      }
    });
  }

  StatusOr<std::vector<ProgramValue>> read_results(const JsonView& view) {
    std::vector<ProgramValue> results;
    TSR_RETURN_IF_ERROR(view.for_each_item([&](const JsonView& item) -> Status {
      TSR_ASSIGN_OR_RETURN(ProgramValue value, values_.read_value(item, Declared::kByStep));
      TSR_RETURN_IF_ERROR(item.annotate(names_.define(value)));
      results.push_back(std::move(value));
      return absl::OkStatus();
    }));
    return results;
  }

  static StatusOr<std::vector<ProgramMove>> read_moves(const JsonView& view) {
    std::vector<ProgramMove> moves;
    TSR_RETURN_IF_ERROR(view.for_each_item([&](const JsonView& item) -> Status {
      TSR_RETURN_IF_ERROR(item.check_keys({"collective", "axes", "ranks", "bytes"}));
      ProgramMove& move = moves.emplace_back();
      TSR_ASSIGN_OR_RETURN(move.collective, text_at(item, "collective"));
      if (std::ranges::find(move_names(), move.collective) == move_names().end()) {
        return item.find("collective")
            ->error(in_quotes(move.collective) + ": allowed are " +
                    absl::StrJoin(move_names(), ", "));
      }
      TSR_ASSIGN_OR_RETURN(move.axes, item.find("axes")->texts({.most = kMaxDims, .what = "axes"}));
      TSR_ASSIGN_OR_RETURN(move.ranks, item.find("ranks")->integer_in(1, INT64_MAX));
      const JsonView bytes = *item.find("bytes");
      TSR_RETURN_IF_ERROR(bytes.check_keys({"max", "total"}));
      TSR_ASSIGN_OR_RETURN(move.bytes.max, bytes.find("max")->integer_in(0, INT64_MAX));
      TSR_ASSIGN_OR_RETURN(move.bytes.total, bytes.find("total")->integer_in(0, INT64_MAX));
      return absl::OkStatus();
    }));
    return moves;
  }

  const OpTable& ops_;
  Program program_;
  ValueReader values_;
  ProgramNames names_;
  std::int64_t num_steps_ = 0, num_arguments_ = 0;
  int depth_ = 0;
};

}  // namespace

StatusOr<Program> read_program(std::string_view text, std::string_view source, const OpTable& ops) {
  TSR_ASSIGN_OR_RETURN(const JsonDocument document,
                       JsonDocument::parse(text, source, {.bytes = kMaxProgramTextBytes}));
  return Reader(ops).read(document.root());
}

}  // namespace tessera
