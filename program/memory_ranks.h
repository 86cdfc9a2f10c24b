// program/memory_ranks.h: which ranks hold the same values: those of one stage that are on the same
// meshes. Internal to program/.
#pragma once

#include <optional>
#include <vector>

#include "program/memory_script.h"

namespace tessera {

inline constexpr std::size_t kMaxRankClasses = 1024;
/// Beyond so many different sets of ranks that meshes have, all ranks of a stage are taken as one
/// class, on all of its meshes.
inline constexpr std::size_t kMaxRankSets = 256;

struct RankClass {
  std::optional<int> stage;
  std::int64_t first_rank = 0, ranks = 0;
};

struct RankClasses {
  std::vector<RankClass> classes;      ///< by stage and first rank; never empty
  std::vector<std::vector<int>> sets;  ///< of indices in `classes`
  std::vector<int> set_of_value;       ///< who holds it: an index in `sets`
};

/// A value is its mesh's stage's, else that of the step that makes it, else that of the steps that
/// read it; what says none is every stage's. Errors: OutOfRange for more than kMaxRankClasses.
StatusOr<RankClasses> rank_classes(const Program& program, const Script& script);

}  // namespace tessera
