#include "moe/next_token.h"

#include "dtensor/ops.h"

namespace tessera {

DTensor next_in_document(const DTensor& tokens_BL, const DTensor& positions_BL, std::int64_t shift,
                         double fill) {
  Runtime& runtime = tokens_BL.runtime();
  const auto ahead = [&](const DTensor& x) {
    return call(runtime, "roll", {{x}}, {{"shifts", Shape{-shift}}, {"dims", Shape{1}}})[0];
  };
  // A document's positions run on; another one's start again, and so does the row that wraps round.
  const DTensor same_document =
      eq(ahead(positions_BL), add(positions_BL, static_cast<double>(shift)));
  return masked_fill(ahead(tokens_BL), call(runtime, "logical_not", {{same_document}})[0], fill);
}

}  // namespace tessera
