// io/corpus.h: text files as a stream of bytes to train on.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "placement/api.h"
#include "placement/status.h"

namespace tessera TSR_API {

/// The bytes of `paths`, one after the other, nothing between them. Errors: InvalidArgument where
/// no file is named, one is empty, or all are larger than `max_bytes`; io_error for one that is
/// missing, a folder, or not readable.
StatusOr<std::string> read_corpus(std::span<const std::string> paths,
                                  std::int64_t max_bytes = std::int64_t{4} << 30);

}  // namespace tessera
