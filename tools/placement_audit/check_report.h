// tools/placement_audit/check_report.h: a report of a check in each of its formats.
#pragma once

#include <string>

#include "io/json.h"
#include "program/findings/check.h"
#include "tools/placement_audit/command.h"

namespace tessera::audit {

Json json_of(const Finding& finding);
/// What --baseline reads later.
std::string check_json(const Program& program, const CheckReport& report);
/// "FAIL implicit-move  3.2 GiB a step   model/attn.py:118  layers.*.wo (x32)", cause and fix
/// beneath it; lines of at most 100 columns, the last says what to do first.
std::string check_text(const Program& program, const CheckReport& report, Colour colour);
std::string check_markdown(const Program& program, const CheckReport& report);
std::string check_junit(const Program& program, const CheckReport& report);
/// SARIF 2.1.0, below 10 MB, which is what GitHub takes: findings beyond are left out with a
/// notification that counts them. `input_name` stands for places whose line is not known.
std::string check_sarif(const Program& program, const CheckReport& report,
                        std::string_view input_name);

/// "implicit-move: 3.2 GiB a step, layers.*.wo (x32)"
std::string headline(const Finding& finding);
/// "layers.*.wo (x32)"; "" for none.
std::string place_of(const Finding& finding);

}  // namespace tessera::audit
