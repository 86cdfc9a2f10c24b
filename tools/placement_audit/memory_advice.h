// tools/placement_audit/memory_advice.h: what is said of a stage's memory, and what to do first.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/json.h"
#include "program/memory.h"

namespace tessera::audit {

/// "stage 1, ranks 8 to 15", "8 ranks".
std::string ranks_text(const StageMemory& stage);

/// {"name","module","kind","count","bytes"}
Json holder_json(const MemoryHolder& holder);

/// One line: what is above the cap and what would help, by the kind that is most of it.
std::string first_advice(const Program& program, const std::vector<StageMemory>& stages,
                         std::optional<std::int64_t> cap_bytes);

}  // namespace tessera::audit
