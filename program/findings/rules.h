// program/findings/rules.h: the functions of the table of rules, a family a source file.
// Internal to program/findings/.
#pragma once

#include "program/findings/context.h"

namespace tessera {

// move_rules.cc
Status find_implicit_moves(FindingContext& context);
Status find_moves_above_bound(FindingContext& context);
Status find_gathers_then_slices(FindingContext& context);
Status find_repeated_moves(FindingContext& context);
Status find_unplaced_moves(FindingContext& context);

// message_rules.cc
Status find_all_reduce_splits(FindingContext& context);
Status find_small_messages(FindingContext& context);
Status find_host_reads(FindingContext& context);

// work_rules.cc
Status find_replicated_work(FindingContext& context);
Status find_uneven_cuts(FindingContext& context);

// gradient_rules.cc
Status find_missing_reductions(FindingContext& context);
Status find_missing_gradient_placements(FindingContext& context);

// unsound_rows.cc
Status find_unsound_rows(FindingContext& context);

// source_notes.cc
Status find_unmapped_ops(FindingContext& context);
Status find_region_warnings(FindingContext& context);
Status find_program_warnings(FindingContext& context);

}  // namespace tessera
