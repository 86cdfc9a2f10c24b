// A placed program in the words of other systems.
#include "program/export/markdown_table.h"
#include "program/export/shardy_text.h"
#include "program/export/torch_module.h"
#include "program/program_json.h"
#include "program/unfold.h"
#include "tools/placement_audit/command.h"
#include "tools/placement_audit/export_answer.h"
#include "tools/placement_audit/find_ops.h"

namespace tessera::audit {

StatusOr<Answer> export_answer(const Program& program, Format format) {
  if (format == Format::kJson) return Answer{write_program(program)};
  if (format == Format::kTorch) {
    TSR_ASSIGN_OR_RETURN(std::string text, torch_module_of(program));
    return Answer{std::move(text)};
  }
  if (format == Format::kShardy) {
    TSR_ASSIGN_OR_RETURN(ShardyText shardy, shardy_of(program));
    Answer answer{std::move(shardy.text)};
    for (const std::string& each : shardy.unsaid) answer.warnings.push_back("left out: " + each);
    return answer;
  }
  TSR_ASSIGN_OR_RETURN(std::string text, markdown_of(program));
  return Answer{std::move(text)};
}

StatusOr<Answer> export_program(const Request& request) {
  TSR_ASSIGN_OR_RETURN(const OpTable table, op_table(request));
  TSR_ASSIGN_OR_RETURN(const Program program,
                       plain_rounds(read_program(request.input, request.input_name, table)));
  return export_answer(program, request.format);
}

}  // namespace tessera::audit
