// Budgets and baselines, as their files have them.
#include <algorithm>
#include <limits>

#include "absl/strings/str_format.h"
#include "io/byte_text.h"
#include "program/findings/check.h"
#include "program/program_json.h"
#include "program/unfold.h"

namespace tessera {
namespace {

constexpr JsonBound kLimits = {1000, "limits"};
constexpr std::int64_t kMaxBudgetBytes = 1 << 20;

StatusOr<std::int64_t> read_size(const JsonView& view) {
  if (view.kind() == Json::Kind::kString) {
    TSR_ASSIGN_OR_RETURN(const std::string text, view.text());
    StatusOr<std::int64_t> size = parse_bytes(text);
    return size.ok() ? std::move(size) : view.annotate(size.status());
  }
  return view.integer_in(0, std::numeric_limits<std::int64_t>::max());
}

StatusOr<std::int64_t> read_count(const JsonView& view) {
  return view.integer_in(0, std::numeric_limits<std::int64_t>::max());
}

using Limits = std::vector<std::pair<std::string, std::int64_t>>;

template <class Read, class Allow>
Status read_limits(const JsonView& root, std::string_view key, const Read& read, const Allow& allow,
                   Limits& limits) {
  const std::optional<JsonView> view = root.find(key);
  if (!view) return absl::OkStatus();
  TSR_ASSIGN_OR_RETURN(const auto members, view->members(kLimits));
  for (const auto& [name, value] : members) {
    const Status allowed = allow(name);
    if (!allowed.ok()) return view->annotate(allowed);
    TSR_ASSIGN_OR_RETURN(const std::int64_t limit, read(value));
    limits.emplace_back(name, limit);
  }
  return absl::OkStatus();
}

template <class Names>
Status one_of(const std::string& name, std::string_view what, const Names& names) {
  std::string all;
  for (const auto& each : names) {
    if (std::string_view(each) == name) return absl::OkStatus();
    all += (all.empty() ? "" : ", ") + std::string(each);
  }
  return invalid_argument(
      absl::StrFormat("%s is no %s; allowed are %s", in_quotes(name), what, all));
}

Status check_pattern(const std::string& pattern) {
  if (!pattern.empty() && pattern.size() <= 1000) return absl::OkStatus();
  return invalid_argument("a module is a path such as layers.*.attn, of 1 to 1000 characters");
}

Status any_axis(const std::string& axis) {
  if (!axis.empty() && axis.size() <= 200) return absl::OkStatus();
  return invalid_argument("an axis has a name of 1 to 200 characters");
}

template <class T, class Read>
Status read_one(const JsonView& root, std::string_view key, const Read& read,
                std::optional<T>& limit) {
  const std::optional<JsonView> view = root.find(key);
  if (!view) return absl::OkStatus();
  TSR_ASSIGN_OR_RETURN(limit, read(*view));
  return absl::OkStatus();
}

StatusOr<double> read_ratio(const JsonView& view) {
  TSR_ASSIGN_OR_RETURN(const double ratio, view.number());
  if (ratio >= 1) return ratio;
  return view.error(
      absl::StrFormat("%g: no program moves less than its bound; allowed are numbers "
                      "from 1 on",
                      ratio));
}

StatusOr<Baseline> read_saved_check(const JsonView& root, std::string_view source) {
  Baseline baseline;
  baseline.source = source;
  TSR_ASSIGN_OR_RETURN(const JsonView version, root.at("version"));
  TSR_RETURN_IF_ERROR(version.integer_in(1, 1).status());
  TSR_ASSIGN_OR_RETURN(const JsonView program, root.at("program"));
  TSR_ASSIGN_OR_RETURN(baseline.program, program.text());
  TSR_ASSIGN_OR_RETURN(const JsonView meshes, root.at("meshes"));
  TSR_ASSIGN_OR_RETURN(baseline.meshes, meshes.text());
  TSR_ASSIGN_OR_RETURN(const JsonView findings, root.at("findings"));
  TSR_RETURN_IF_ERROR(findings.for_each_item([&](const JsonView& finding) -> Status {
    TSR_ASSIGN_OR_RETURN(const JsonView id, finding.at("id"));
    TSR_ASSIGN_OR_RETURN(std::string text, id.text());
    baseline.ids.push_back(std::move(text));
    return absl::OkStatus();
  }));
  return baseline;
}

}  // namespace

StatusOr<Budget> read_budget(std::string_view text, std::string_view source) {
  TSR_ASSIGN_OR_RETURN(const JsonDocument document,
                       JsonDocument::parse(text, source, {.bytes = kMaxBudgetBytes, .depth = 8}));
  const JsonView root = document.root();
  TSR_RETURN_IF_ERROR(
      root.check_keys({}, {"version", "implicit_bytes", "total_bytes", "peak_bytes", "host_reads",
                           "ratio_to_bound", "modules", "collectives", "axes", "rules"}));
  if (const std::optional<JsonView> version = root.find("version")) {
    TSR_RETURN_IF_ERROR(version->integer_in(1, 1).status());
  }
  Budget budget;
  TSR_RETURN_IF_ERROR(read_one(root, "implicit_bytes", read_size, budget.implicit_bytes));
  TSR_RETURN_IF_ERROR(read_one(root, "total_bytes", read_size, budget.total_bytes));
  TSR_RETURN_IF_ERROR(read_one(root, "peak_bytes", read_size, budget.peak_bytes));
  TSR_RETURN_IF_ERROR(read_one(root, "host_reads", read_count, budget.host_reads));
  TSR_RETURN_IF_ERROR(read_one(root, "ratio_to_bound", read_ratio, budget.ratio_to_bound));
  TSR_RETURN_IF_ERROR(read_limits(root, "modules", read_size, check_pattern, budget.modules));
  const auto is_collective = [](const std::string& name) {
    return one_of(name, "collective", move_names());
  };
  TSR_RETURN_IF_ERROR(
      read_limits(root, "collectives", read_size, is_collective, budget.collectives));
  TSR_RETURN_IF_ERROR(read_limits(root, "axes", read_size, any_axis, budget.axes));
  const auto is_rule = [](const std::string& name) {
    std::vector<std::string_view> names;
    for (const FindingRule& rule : finding_rules()) names.push_back(rule.name);
    return one_of(name, "rule", names);
  };
  TSR_RETURN_IF_ERROR(read_limits(root, "rules", read_count, is_rule, budget.rules));
  return budget;
}

StatusOr<Baseline> read_baseline(std::string_view text, std::string_view source,
                                 const OpTable& ops) {
  {
    TSR_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::parse(text, source));
    const JsonView root = document.root();
    if (root.kind() == Json::Kind::kObject && !root.find("steps")) {
      if (root.find("findings")) return read_saved_check(root, source);
      return root.error(
          "neither a program (\"steps\") nor what check --format json writes (\"findings\")");
    }
  }
  TSR_ASSIGN_OR_RETURN(const Program program, plain_rounds(read_program(text, source, ops)));
  TSR_ASSIGN_OR_RETURN(const Findings findings, find_all(program, ops));
  Baseline baseline = {
      .source = std::string(source), .program = program.name, .meshes = meshes_text(program)};
  for (const Finding& finding : findings.all) baseline.ids.push_back(finding.id);
  return baseline;
}

}  // namespace tessera
