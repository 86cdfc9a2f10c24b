// Where a value's placement comes from.
#include "absl/strings/str_format.h"
#include "io/byte_text.h"
#include "program/findings/explain_value.h"
#include "program/program_json.h"
#include "program/unfold.h"
#include "tools/placement_audit/command.h"
#include "tools/placement_audit/find_ops.h"
#include "tools/placement_audit/report_lines.h"

namespace tessera::audit {
namespace {

constexpr std::size_t kMaxOnward = 10;  // redistributions of the value, in text

std::string kind_name(Cause::Kind kind) {
  constexpr const char* kNames[] = {"declared", "row", "move", "region"};
  return kNames[static_cast<int>(kind)];
}

Json cause_json(const Cause& cause) {
  Json json = Json::object({{"value", cause.value},
                            {"placements", cause.placements},
                            {"kind", kind_name(cause.kind)},
                            {"text", cause.text},
                            {"module", cause.module},
                            {"site", cause.site}});
  if (cause.phase) json.set("phase", std::string(name_of(*cause.phase)));
  if (cause.kind == Cause::Kind::kMove) json.set("implicit", cause.implicit);
  json.set("bytes", Json::object({{"max", cause.bytes.max}, {"total", cause.bytes.total}}));
  if (!cause.fix.empty()) {
    json.set("fix", cause.fix);
    json.set("saved_bytes", cause.saved_bytes);
  }
  return json;
}

std::string lines_of(const Cause& cause) {
  std::string where = cause.site;
  if (!cause.module.empty()) where += (where.empty() ? "" : "  ") + cause.module;
  if (cause.phase) where += (where.empty() ? "" : "  ") + std::string(name_of(*cause.phase));
  std::string text = wrapped(cause.value + " is " + cause.placements, "");
  text += wrapped(cause.text, "     ");
  if (!where.empty()) text += wrapped("at " + where, "     ");
  if (!cause.fix.empty()) {
    const std::string saved =
        cause.saved_bytes > 0 ? ": " + byte_text(cause.saved_bytes, 1) + " less" : "";
    text += wrapped("fix: " + cause.fix + saved, "     ");
  }
  return text;
}

std::string text_of_chain(const CauseChain& chain) {
  std::string text;
  if (chain.others > 0) {
    text += one_line(absl::StrFormat("the first of %d: %s", chain.others + 1, chain.value));
  }
  for (const Cause& cause : chain.causes) text += lines_of(cause);
  if (!chain.moved_on.empty()) text += "\nfrom there it moves on\n";
  for (std::size_t i = 0; i < chain.moved_on.size() && i < kMaxOnward; ++i) {
    text += lines_of(chain.moved_on[i]);
  }
  if (chain.moved_on.size() > kMaxOnward) {
    text += absl::StrFormat("... and %d more\n", chain.moved_on.size() - kMaxOnward);
  }
  const Cause* best = nullptr;
  for (const std::vector<Cause>* causes : {&chain.causes, &chain.moved_on}) {
    for (const Cause& cause : *causes) {
      if (!cause.fix.empty() && cause.saved_bytes > (best == nullptr ? -1 : best->saved_bytes)) {
        best = &cause;
      }
    }
  }
  const std::string first = best != nullptr ? best->fix
                            : chain.causes.empty()
                                ? "nothing"
                                : "nothing moves that could be spared; the placement begins at " +
                                      chain.causes.back().value;
  return text + one_line("first: " + first);
}

}  // namespace

StatusOr<Answer> explain_step(const Request& request) {
  TSR_ASSIGN_OR_RETURN(const OpTable table, op_table(request));
  TSR_ASSIGN_OR_RETURN(const Program program,
                       plain_rounds(read_program(request.input, request.input_name, table)));
  TSR_ASSIGN_OR_RETURN(const CauseChain chain, explain_value(program, table, request.subject));
  if (request.format == Format::kText) return Answer{text_of_chain(chain)};
  Json::Array causes, onward;
  for (const Cause& cause : chain.causes) causes.push_back(cause_json(cause));
  for (const Cause& cause : chain.moved_on) onward.push_back(cause_json(cause));
  return Answer{json_line(Json::object({{"version", 1},
                                        {"value", chain.value},
                                        {"others", chain.others},
                                        {"causes", Json(std::move(causes))},
                                        {"moves_on", Json(std::move(onward))}}))};
}

}  // namespace tessera::audit
