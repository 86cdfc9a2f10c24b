#include "io/corpus.h"

#include "absl/strings/str_format.h"
#include "io/file.h"

namespace tessera {

StatusOr<std::string> read_corpus(std::span<const std::string> paths, std::int64_t max_bytes) {
  if (paths.empty()) return invalid_argument("a corpus of no files; name at least one");
  std::string corpus;
  for (const std::string& path : paths) {
    const std::int64_t room = max_bytes - static_cast<std::int64_t>(corpus.size());
    TSR_ASSIGN_OR_RETURN(const std::string text, read_file(path, room));
    if (text.empty()) return invalid_argument(absl::StrFormat("%s: an empty file", path));
    corpus += text;
  }
  return corpus;
}

}  // namespace tessera
