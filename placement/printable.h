// placement/printable.h: text of unknown origin (names in files, flags, what a peer says) as it may
// be shown on a terminal.
#pragma once

#include <string>
#include <string_view>

#include "placement/api.h"

namespace tessera TSR_API {

/// One line that moves no cursor, changes no colour and reads in one direction: control characters
/// (C0, DEL, C1), line and paragraph separators, bidirectional controls and bytes that are no UTF-8
/// become \x1b, \u202e; a newline becomes a space, a tab stays. Anything else is left as it is.
/// Longer texts than `max_bytes` keep their beginning and their end around "…".
std::string printable(std::string_view text, std::size_t max_bytes = 16'384);
/// The same of each line of an answer, whole and with its line breaks.
std::string printable_lines(std::string_view text);

}  // namespace tessera
