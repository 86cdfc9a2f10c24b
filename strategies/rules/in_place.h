// strategies/rules/in_place.h: what is written stays where it is: operands of in-place ops, and the
// results that out= names. Whatever would move one is refused before anything runs, with the rows
// that would work and the cheapest redistribution that enables one.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "placement/api.h"
#include "strategies/rules/propagate.h"

namespace tessera TSR_API {

struct Call;  // strategies/rules/search.h

/// As propagate(), for results written into tensors that exist: each result has the shape, dtype
/// and placement of its entry in `outs`, and operands move towards it where they must. Errors:
/// those of propagate(); InvalidArgument where number, shape or dtype of `outs` differ from the
/// results', or the op has no results of its own (a view, an in-place op); FailedPrecondition where
/// no row gives their placements.
StatusOr<Resolution> propagate_into(const Op& op, std::span<const Spec* const> inputs,
                                    const Attrs& attrs, std::span<const Spec* const> outs,
                                    std::span<const ForcedRow> forced = {});

/// "(S(0), R)", or the layout where no placements say it.
std::string placements_text(const Spec& spec);
/// "self F64[8, 6] (S(0)), index I64[8, 2] (R), dim=1, on mesh {tp: 2}".
std::string describe_call(const Op& op, std::span<const Spec* const> inputs, const Attrs& attrs,
                          const Mesh& mesh);

/// Drops the offers that move an operand which the op writes. Errors: FailedPrecondition where none
/// is left. Internal to strategies/.
Status keep_written(const Op& op, std::span<const Spec* const> inputs, const Attrs& attrs,
                    std::vector<Strategy>& offers);

/// The refusal of a call none of whose rows keeps an in-place operand. Internal to strategies/.
Status in_place_refused(const Call& call, const Attrs& attrs);

}  // namespace tessera
