#include "program/findings/check.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "io/byte_text.h"
#include "program/findings/context.h"
#include "program/findings/texts.h"
#include "program/memory.h"

namespace tessera {
namespace {

std::vector<std::string_view> parts_of(std::string_view path) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    parts.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// Whether a module is the pattern's, or inside of one: "*" is any one part.
bool covers(const std::vector<std::string_view>& pattern, std::string_view module) {
  const std::vector<std::string_view> parts = parts_of(module);
  if (parts.size() < pattern.size()) return false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != "*" && pattern[i] != parts[i]) return false;
  }
  return true;
}

class Checker {
 public:
  Checker(const Program& program, const OpTable& ops, const CheckOptions& options)
      : program_(program), ops_(ops), options_(options) {}

  StatusOr<CheckReport> run() {
    TSR_RETURN_IF_ERROR(check_names());
    TSR_RETURN_IF_ERROR(check_baseline());
    TSR_ASSIGN_OR_RETURN(report_.findings, find_all(program_, ops_));
    if (options_.budget) TSR_RETURN_IF_ERROR(hold_to(*options_.budget));
    mark_known();
    for (Finding& finding : report_.findings.all) {
      if (fails(finding)) finding.severity = Severity::kFail;
    }
    std::vector<Finding>& all = report_.findings.all;
    std::stable_sort(all.begin(), all.end(),
                     [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
    report_.passed = std::all_of(report_.limits.begin(), report_.limits.end(),
                                 [](const LimitCheck& limit) { return limit.passed; }) &&
                     std::none_of(all.begin(), all.end(), [](const Finding& each) {
                       return each.severity == Severity::kFail;
                     });
    report_.first = first();
    return std::move(report_);
  }

 private:
  Status check_names() const {
    for (const std::string& name : options_.fail_on) {
      if (name == "note" || name == "warn" || name == "fail" || find_rule(name) != nullptr)
        continue;
      std::string names = "note, warn, fail";
      for (const FindingRule& rule : finding_rules()) names += ", " + std::string(rule.name);
      return invalid_argument("--fail-on: " + in_quotes(name) + " is no rule; allowed are " +
                              names);
    }
    return absl::OkStatus();
  }

  Status check_baseline() const {
    if (!options_.baseline) return absl::OkStatus();
    const Baseline& baseline = *options_.baseline;
    const std::string meshes = meshes_text(program_);
    if (baseline.program == program_.name && baseline.meshes == meshes) return absl::OkStatus();
    return invalid_argument(absl::StrFormat(
        "%s: a baseline of another program: it is %s on %s, and this one is %s on %s",
        baseline.source, in_quotes(baseline.program), baseline.meshes, in_quotes(program_.name),
        meshes));
  }

  void mark_known() {
    if (!options_.baseline) return;
    const absl::flat_hash_set<std::string> ids(options_.baseline->ids.begin(),
                                               options_.baseline->ids.end());
    std::vector<Finding>& all = report_.findings.all;
    for (Finding& finding : all) finding.known = ids.contains(finding.id);
    if (!options_.new_only) return;
    report_.known_before = static_cast<std::int64_t>(
        std::erase_if(all, [](const Finding& each) { return each.known; }));
  }

  bool fails(const Finding& finding) const {
    return std::any_of(options_.fail_on.begin(), options_.fail_on.end(),
                       [&](const std::string& name) {
                         if (name == "note") return true;
                         if (name == "warn") return finding.severity >= Severity::kWarn;
                         return name == finding.rule;
                       });
  }

  void limit(std::string name, const std::string& seen, const std::string& allowed, bool passed,
             std::string_view rule = "") {
    if (!passed && !rule.empty()) {
      for (Finding& finding : report_.findings.all) {
        if (finding.rule == rule) finding.severity = Severity::kFail;
      }
    }
    report_.limits.push_back(
        {.name = std::move(name), .seen = seen, .limit = allowed, .passed = passed});
  }
  void limit_bytes(std::string name, std::int64_t seen, std::int64_t allowed,
                   std::string_view rule = "") {
    limit(std::move(name), byte_text(seen, 1), byte_text(allowed, 1), seen <= allowed, rule);
  }
  template <class Counts>
  std::int64_t bytes_where(const Counts& counts) const {
    CheckedInt sum = 0;
    for (const MoveSum& each : report_.findings.sums) {
      if (counts(each)) sum += each.bytes.max;
    }
    return sum.clamped();
  }

  Status hold_to(const Budget& budget) {
    const Findings& findings = report_.findings;
    if (budget.implicit_bytes) {
      limit_bytes("implicit-bytes", findings.implicit_bytes.max, *budget.implicit_bytes,
                  "implicit-move");
    }
    if (budget.total_bytes) limit_bytes("total-bytes", findings.bytes.max, *budget.total_bytes);
    for (const auto& [pattern, allowed] : budget.modules) {
      const std::vector<std::string_view> parts = parts_of(pattern);
      limit_bytes("bytes of " + pattern,
                  bytes_where([&](const MoveSum& each) { return covers(parts, each.module); }),
                  allowed);
    }
    for (const auto& [collective, allowed] : budget.collectives) {
      limit_bytes("bytes of " + collective,
                  bytes_where([&, &name = collective](const MoveSum& each) {
                    return each.collective == name;
                  }),
                  allowed);
    }
    for (const auto& [axis, allowed] : budget.axes) {
      limit_bytes("bytes over " + axis, bytes_where([&, &name = axis](const MoveSum& each) {
                    return std::find(each.axes.begin(), each.axes.end(), name) != each.axes.end();
                  }),
                  allowed);
    }
    if (budget.peak_bytes) TSR_RETURN_IF_ERROR(hold_memory(*budget.peak_bytes));
    if (budget.host_reads) {
      limit("host-reads", std::to_string(findings.host_reads), std::to_string(*budget.host_reads),
            findings.host_reads <= *budget.host_reads, "host-read");
    }
    if (budget.ratio_to_bound) {
      limit("ratio-to-bound", absl::StrFormat("%.2f", findings.ratio()),
            absl::StrFormat("%.2f", *budget.ratio_to_bound),
            findings.ratio() <= *budget.ratio_to_bound, "above-bound");
    }
    for (const auto& [rule, allowed] : budget.rules) {
      CheckedInt places = 0;
      for (const Finding& finding : findings.all) {
        if (finding.rule == rule) places += finding.count;
      }
      limit("places of " + rule, std::to_string(places.clamped()), std::to_string(allowed),
            places.clamped() <= allowed, rule);
    }
    return absl::OkStatus();
  }

  /// A finding for each stage that holds more.
  Status hold_memory(std::int64_t allowed) {
    TSR_ASSIGN_OR_RETURN(const std::vector<StageMemory> stages, memory_of(program_, ops_));
    std::int64_t most = 0;
    for (const StageMemory& stage : stages) {
      most = std::max(most, stage.peak_bytes);
      if (stage.peak_bytes <= allowed) continue;
      Finding finding = {.rule = "peak-memory",
                         .severity = Severity::kFail,
                         .module = group_of_layers(stage.peak_origin.module),
                         .site = stage.peak_origin.site,
                         .phase = stage.peak_origin.phase,
                         .stage = stage.stage};
      finding.op = stage.stage ? absl::StrFormat("stage %d", *stage.stage) : "step";
      finding.measure = byte_text(stage.peak_bytes, 1) + " > " + byte_text(allowed, 1);
      finding.cause = absl::StrFormat("%s holds most", finding.op);
      if (stage.peak_origin.phase) {
        finding.cause += " in " + std::string(name_of(*stage.peak_origin.phase));
      }
      if (!stage.peak_origin.module.empty()) finding.cause += " of " + stage.peak_origin.module;
      for (std::size_t i = 0; i < std::min<std::size_t>(3, stage.holders.size()); ++i) {
        const MemoryHolder& holder = stage.holders[i];
        finding.cause +=
            absl::StrFormat("%s%s %s (%s)", i == 0 ? ": " : ", ", byte_text(holder.bytes, 1),
                            holder.name, std::string(name_of(holder.kind)));
        if (i == 0) finding.value = holder.name;
      }
      finding.id = id_of(finding);
      report_.findings.all.push_back(std::move(finding));
    }
    limit_bytes("peak-memory", most, allowed);
    return absl::OkStatus();
  }

  std::string first() const {
    const std::vector<Finding>& all = report_.findings.all;  // the most severe stand first
    const Finding* best = nullptr;
    for (const Finding& finding : all) {
      if (finding.severity == Severity::kNote || finding.severity != all[0].severity) break;
      const auto worth = [](const Finding& each) {
        return each.fix.empty() ? -1 : each.saved_bytes.value_or(0);
      };
      if (best == nullptr || worth(finding) > worth(*best)) best = &finding;
    }
    if (best != nullptr) {
      const std::string place = !best->site.empty() ? best->site : best->module;
      return (place.empty() ? best->rule : place) + ": " +
             (best->fix.empty() ? best->cause : best->fix);
    }
    for (const LimitCheck& each : report_.limits) {
      if (!each.passed) return each.name + " is " + each.seen + ", allowed is " + each.limit;
    }
    return "nothing to do";
  }

  const Program& program_;
  const OpTable& ops_;
  const CheckOptions& options_;
  CheckReport report_;
};

}  // namespace

std::string meshes_text(const Program& program) {
  std::string text;
  for (const ProgramMesh& mesh : program.meshes) {
    text += (text.empty() ? "" : "; ") + mesh.name + " " + mesh.mesh.to_string();
  }
  return text.empty() ? "no mesh" : text;
}

StatusOr<CheckReport> check_program(const Program& program, const OpTable& ops,
                                    const CheckOptions& options) {
  return Checker(program, ops, options).run();
}

}  // namespace tessera
