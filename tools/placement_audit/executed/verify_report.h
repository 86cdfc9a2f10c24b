// tools/placement_audit/executed/verify_report.h: what the prover found about a table, and its
// forms: JSON, text, a page of Markdown.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/json.h"
#include "strategies/verify/verify.h"
#include "strategies/verify/verify_mutants.h"

namespace tessera::audit {

struct Verdict {
  const Op* op = nullptr;
  VerifyReport report;
  std::optional<MutantReport> mutants;
};
struct VerifySummary {
  std::vector<Verdict> verdicts;
  double seconds = 0.0;
  bool whole_table = false;
  std::string device = "cpu";  ///< as --device names it

  /// Every row is right, there or declined; at least 95 of 100 mutants are refuted.
  bool passed() const;
};

Json to_json(const VerifySummary& summary);
std::string to_text(const VerifySummary& summary);
std::string to_markdown(const VerifySummary& summary);

}  // namespace tessera::audit
