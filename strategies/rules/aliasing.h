// strategies/rules/aliasing.h: what the result of a view op shares with its operand. Known before
// anything runs and equal on all ranks, so that a write that would be lost on one of them is
// refused on all.
#pragma once

#include <cstdint>
#include <string_view>

#include "placement/api.h"
#include "strategies/rules/propagate.h"

namespace tessera TSR_API {

struct ViewAliasing {
  enum class Kind : std::uint8_t {
    kNone,       ///< the op is no view: its results are tensors of their own
    kShares,     ///< the operand's storage, on every rank
    kCopies,     ///< a copy: the operand is cut where the view takes a part, or had to move
    kIfInOrder,  ///< the operand's storage where its elements stand in row-major order; else some
                 ///< ranks may have copied
    kByStrides   ///< every rank holds the whole operand: shared or copied as on one rank
  };
  Kind kind = Kind::kNone;
  bool reorders = false;  ///< elements stand in another order than the operand's, or with gaps
  bool repeats = false;   ///< several elements may share a place
};

/// Why a tensor may not be written in place.
enum class WriteHazard : std::uint8_t {
  kRepeats,        ///< several elements share a place
  kCopiedByCut,    ///< a view that ranks had to copy
  kCopiedByOrder,  ///< a view that some ranks may have copied
  kLeaf,           ///< a leaf that needs a gradient
  kViewOfLeaf,
  kViewOfHistory,  ///< a view of a tensor with a history
  kValuesOfView    ///< a view, and what is written needs a gradient
};
/// "add_: v cannot be written in place: …". FailedPrecondition.
Status write_refused(std::string_view op, std::string_view name, WriteHazard hazard,
                     const Spec& spec);
/// A copied view is read after what it was taken from was written. FailedPrecondition.
Status stale_view_refused(std::string_view op, std::string_view name, bool by_cut,
                          const Spec& spec);

/// For result 0 and all others of a call resolved so, with operand 0 as it was given.
ViewAliasing view_aliasing(const Op& op, const Spec& operand, const Resolution& resolution);

}  // namespace tessera
