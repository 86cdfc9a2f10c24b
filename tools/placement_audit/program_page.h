// tools/placement_audit/program_page.h: a program as one HTML page that needs nothing else: its
// memory over the step, modules, steps, values with pictures of who holds them, findings.
#pragma once

#include <optional>
#include <string>

#include "io/json.h"
#include "placement/status.h"
#include "program/program.h"
#include "strategies/rules/op.h"

namespace tessera::audit {

struct ProgramPage {
  std::string first;                           ///< the part on top: memory, modules or findings
  std::string title;                           ///< of the page, after the program's name
  std::optional<std::int64_t> cap_bytes = {};  ///< that is drawn in the memory
  std::optional<Json> findings = {};           ///< a list; none: the page has no such part
};

/// Equal programs give equal bytes. Where the program's memory cannot be told the page says why.
/// Errors: those of module_cost().
StatusOr<std::string> program_page(const Program& program, const OpTable& ops,
                                   const ProgramPage& page);

/// The data of the page, for its script.
StatusOr<Json> program_page_data(const Program& program, const OpTable& ops,
                                 const ProgramPage& page);

}  // namespace tessera::audit
