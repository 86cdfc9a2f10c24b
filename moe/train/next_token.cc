#include "moe/train/next_token.h"

#include "dtensor/ops.h"

namespace tessera {

DTensor next_in_document(const DTensor& tokens_BL, const DTensor& positions_BL, std::int64_t shift,
                         double fill) {
  const auto ahead = [&](const DTensor& x) { return roll(x, {-shift}, {1}); };
  // A document's positions run on; another one's start again, and so does the row that wraps round.
  const DTensor same_document =
      eq(ahead(positions_BL), add(positions_BL, static_cast<double>(shift)));
  return masked_fill(ahead(tokens_BL), logical_not(same_document), fill);
}

}  // namespace tessera
