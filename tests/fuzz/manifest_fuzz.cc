// Bytes as a checkpoint's manifest, with the hash that they should have where they lack it. What is
// accepted names only its own files, and survives being written and read again.
#include "checkpoint/chunk_hash.h"
#include "checkpoint/manifest.h"
#include "tests/fuzz/fuzz.h"

namespace tessera {
namespace {

void try_manifest(std::string_view bytes) {
  std::string text(bytes);
  if (const std::size_t at = text.rfind(",\"xxh3\""); at != std::string::npos) text.resize(at);
  text += ",\"xxh3\":\"" + hash_to_text(hash_of(text)) + "\"}\n";
  const StatusOr<Manifest> manifest = parse_manifest(text, "fuzz");
  if (!manifest.ok()) return testing::check_text(manifest.status(), "fuzz");
  const StatusOr<Manifest> again = parse_manifest(to_text(*manifest), "fuzz");
  TSR_CHECK(again.ok(), std::string(message_of(again.status())));
  TSR_CHECK(*again == *manifest, text);
  const Status covered = check_manifest_coverage(*manifest, "fuzz");
  if (!covered.ok()) testing::check_text(covered, "fuzz");
  for (const ManifestTensor& tensor : manifest->tensors) {
    TSR_CHECK(manifest->find(tensor.name) == &tensor, in_quotes(tensor.name));
    std::int64_t elements = 0;
    for (const ManifestPart& part : tensor.parts) elements += num_elements(part.region.size);
    if (covered.ok()) TSR_CHECK(elements == num_elements(tensor.shape), in_quotes(tensor.name));
  }
}

}  // namespace
}  // namespace tessera

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera::try_manifest({reinterpret_cast<const char*>(data), size});
  return 0;
}
