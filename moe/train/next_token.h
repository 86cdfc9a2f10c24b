// moe/train/next_token.h: targets of multi-token prediction: the tokens some places on, within a
// document.
#pragma once

#include <cstdint>

#include "dtensor/dtensor.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// tokens_BL moved `shift` places to the front along L: place l gets the token of place l + shift
/// where both are of one document, else `fill`. positions_BL (as tokens_BL, integers) count from 0
/// in each document. Keeps the placement: where L is cut, ranks fetch what lies beyond their shard
/// from the next ones. Requires places in the order of the sequence. Source: DeepSeek-V3,
/// 2024, 2.2.
DTensor next_in_document(const DTensor& tokens_BL, const DTensor& positions_BL, std::int64_t shift,
                         double fill);

}  // namespace tessera
