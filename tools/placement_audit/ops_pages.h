// tools/placement_audit/ops_pages.h: the op table as reference pages in Markdown: an index, and a
// page for each family of ops with their rows spelled out.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "strategies/rules/families.h"
#include "strategies/rules/op.h"
#include "tools/placement_audit/command.h"

namespace tessera::audit {

/// "topk(self; k, dim=-1)": what is not given a value must be given.
std::string signature(const OpDef& def);
/// Where a built-in op runs; empty for a program's own, of which nobody has said it.
std::string devices_of(const OpDef& def);

/// The file that each built-in op stands in, by the op's name.
std::map<std::string, OpFamily> family_of_ops();

/// README.md, then the families by name; ops that are none of the built-in ones come last, as
/// own.md.
std::vector<Page> op_pages(const std::vector<const Op*>& ops);

}  // namespace tessera::audit
