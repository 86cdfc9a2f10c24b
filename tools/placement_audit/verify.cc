#include "strategies/verify.h"

#include <charconv>

#include "absl/strings/str_format.h"
#include "io/json.h"
#include "tools/placement_audit/command.h"
#include "tools/placement_audit/find_ops.h"

namespace tessera::audit {
namespace {

// The prover holds every rank's arrays in one process.
constexpr std::int64_t kMaxRanks = 64;

// "2x3" → {2, 3}.
StatusOr<Shape> parse_mesh_shape(std::string_view text) {
  const auto refuse = [&] {
    return invalid_argument(
        absl::StrFormat("--mesh %s: expected sizes such as 3 or 2x2, at most %d ranks in all",
                        in_quotes(text), kMaxRanks));
  };
  Shape shape;
  std::int64_t ranks = 1;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    std::int64_t size = 0;
    const auto [stop, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size < 1 || size > kMaxRanks) return refuse();
    ranks *= size;
    if (ranks > kMaxRanks) return refuse();
    shape.push_back(size);
    if (stop == end) return shape;
    if (*stop != 'x') return refuse();
    at = stop + 1;
  }
}

Json texts(const std::vector<std::string>& lines) {
  Json::Array items;
  for (const std::string& line : lines) items.push_back(Json(line));
  return Json(std::move(items));
}

struct Verdict {
  const Op* op = nullptr;
  VerifyReport report;
};

Json to_json(const std::vector<Verdict>& verdicts) {
  std::int64_t proven = 0, failed = 0;
  Json::Array ops, failures;
  for (const auto& [op, report] : verdicts) {
    proven += report.rows_proven;
    failed += report.rows_failed;
    ops.push_back(Json::object({{"op", op->def.name},
                                {"rows_proven", report.rows_proven},
                                {"rows_failed", report.rows_failed},
                                {"declined", texts(report.declined)}}));
    for (const VerifyFailure& failure : report.failures) {
      failures.push_back(Json::object({{"op", failure.op},
                                       {"mesh", failure.mesh},
                                       {"row", failure.row},
                                       {"sample", failure.sample},
                                       {"detail", failure.detail}}));
    }
  }
  return Json::object({{"rows_proven", proven},
                       {"rows_failed", failed},
                       {"ops", Json(std::move(ops))},
                       {"failures", Json(std::move(failures))}});
}

std::string to_text(const std::vector<Verdict>& verdicts) {
  std::int64_t proven = 0, failed = 0;
  std::string text;
  for (const auto& [op, report] : verdicts) {
    proven += report.rows_proven;
    failed += report.rows_failed;
    text += absl::StrFormat("%-28s %6d rows proven, %d failed\n", op->def.name, report.rows_proven,
                            report.rows_failed);
    for (const std::string& reason : report.declined) text += "    declines " + reason + '\n';
    for (const VerifyFailure& failure : report.failures) {
      text += absl::StrFormat("    FAILED on %s: %s, sample %s: %s\n", failure.mesh, failure.row,
                              failure.sample, failure.detail);
    }
  }
  return text + absl::StrFormat("%d rows proven, %d failed\n", proven, failed);
}

}  // namespace

StatusOr<Answer> verify_ops(const Request& request) {
  VerifyOptions options;
  if (!request.meshes.empty()) {
    options.meshes.clear();
    for (const std::string& text : request.meshes) {
      TSR_ASSIGN_OR_RETURN(Shape shape, parse_mesh_shape(text));
      options.meshes.push_back(std::move(shape));
    }
  }
  TSR_ASSIGN_OR_RETURN(const OpTable table, op_table(request));
  TSR_ASSIGN_OR_RETURN(const std::vector<const Op*> chosen, find_ops(table, request.names));
  std::vector<Verdict> verdicts;
  bool all_proven = true;
  for (const Op* op : chosen) {
    verdicts.push_back({op, verify(table, *op, options)});
    all_proven = all_proven && verdicts.back().report.rows_failed == 0 &&
                 verdicts.back().report.failures.empty();
  }
  return Answer{
      .text = request.format == Format::kText ? to_text(verdicts) : json_line(to_json(verdicts)),
      .checks_passed = all_proven};
}

}  // namespace tessera::audit
