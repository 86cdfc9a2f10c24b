// kernels/positions.h: positions along the dims of a whole tensor as positions in the part of it
// that lies here, and back.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "kernels/array.h"
#include "placement/api.h"
#include "placement/layout.h"
#include "placement/status.h"

namespace tessera TSR_API {
namespace kernels {

/// What lies here of one dim, in order.
struct HeldPart {
  std::int64_t size = 0;       ///< of the whole dim
  std::vector<Interval> held;  ///< ascending, none of them empty, no two adjacent

  static HeldPart whole(std::int64_t size) {
    return size == 0 ? HeldPart{} : HeldPart{size, {{0, size}}};
  }
  std::int64_t count() const {
    std::int64_t sum = 0;
    for (const Interval& each : held) sum += each.stop - each.start;
    return sum;
  }
};

/// Values that localize() takes besides 0 … size − 1.
struct OtherPositions {
  bool from_end = false;                     ///< −size … −1 count from the end
  std::optional<std::int64_t> skipped = {};  ///< becomes −1
};
/// What is said of a value that is no position, and where it stands, row-major.
using RefusePosition = std::function<Status(std::int64_t at, std::int64_t value)>;

/// Positions (I64 or I32, any strides) as positions among what is held, −1 where that is not.
/// `local`: dense, of the same shape, I64 or I32. Errors: throws `refuse` of the first value that
/// is no position.
void localize(KernelContext& ctx, const Array& positions, const HeldPart& part,
              const OtherPositions& others, const RefusePosition& refuse, const Array& local);

/// Row-major positions in what is held of some dims as row-major positions in the whole dims. Both
/// arrays are dense I64 and may be the same.
void globalize(KernelContext& ctx, const Array& local, std::span<const HeldPart> dims,
               const Array& positions);

}  // namespace kernels
}  // namespace tessera
