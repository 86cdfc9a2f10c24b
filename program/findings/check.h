// program/findings/check.h: findings and limits together: whether a program passes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "placement/api.h"
#include "program/findings/finding.h"

namespace tessera TSR_API {

/// Limits that a program is held to; what is not given is not limited. Bytes are those that the
/// rank with most receives in a step.
struct Budget {
  std::optional<std::int64_t> implicit_bytes, total_bytes, peak_bytes, host_reads;
  std::optional<double> ratio_to_bound;
  std::vector<std::pair<std::string, std::int64_t>>
      modules;  ///< bytes, by pattern: "layers.*.attn"
  std::vector<std::pair<std::string, std::int64_t>> collectives, axes;  ///< bytes
  std::vector<std::pair<std::string, std::int64_t>> rules;  ///< places, by name of the rule
  bool operator==(const Budget&) const = default;
};

/// {"implicit_bytes":0,"peak_bytes":"80 GiB","rules":{"host-read":0}}; docs/audit.md has each key.
/// Sizes are whole numbers of bytes, or texts with a unit. Errors: InvalidArgument "source: /path:
/// what was seen, what is allowed"; those of JsonDocument.
StatusOr<Budget> read_budget(std::string_view text, std::string_view source);

/// What an earlier check found.
struct Baseline {
  std::string source;  ///< its file, for errors
  std::string program, meshes;
  std::vector<std::string> ids;
};
/// `text`: a program, or what `check --format json` wrote. Errors: those of read_program(),
/// find_all() and JsonDocument.
StatusOr<Baseline> read_baseline(std::string_view text, std::string_view source,
                                 const OpTable& ops);
/// "world {dp: 2, tp: 4}; tp {tp: 4}"
std::string meshes_text(const Program& program);

struct CheckOptions {
  std::optional<Budget> budget;
  std::optional<Baseline> baseline;
  bool new_only = false;             ///< leave out what the baseline has
  std::vector<std::string> fail_on;  ///< names of rules; "note", "warn", "fail": that, and worse
};

/// A limit of a budget, and what the program has.
struct LimitCheck {
  std::string name;         ///< "implicit-bytes", "bytes of layers.*", "ratio-to-bound"
  std::string seen, limit;  ///< as text: "3.2 GiB", "0 B"
  bool passed = true;
};

struct CheckReport {
  Findings findings;  ///< without those of a baseline where only new ones are asked for
  std::vector<LimitCheck> limits;
  std::int64_t known_before = 0;  ///< findings that are left out: the baseline has them
  /// No limit is passed and no finding is as severe as what fails.
  bool passed = true;
  std::string first;  ///< one line: what to do first
};

/// Findings that a broken limit is about fail, too. Errors: those of find_all() and memory_of();
/// InvalidArgument for a baseline of another program, and for names in `fail_on` that no rule has.
StatusOr<CheckReport> check_program(const Program& program, const OpTable& ops,
                                    const CheckOptions& options = {});

}  // namespace tessera
