// Bytes as a safetensors file. Bytes that begin with '{' are a header and the data after its last
// '}', so that inputs need not keep a length right. What is accepted lies inside the file, covers
// it exactly, and survives being written and read again.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "io/json.h"
#include "io/safetensors.h"
#include "tests/fuzz/fuzz.h"

namespace tessera {
namespace {

/// A file that lives in memory only.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    TSR_CHECK(descriptor_ >= 0, "memfd_create");
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    TSR_CHECK(written == static_cast<ssize_t>(bytes.size()), "write");
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(descriptor_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

/// A folder of this process, gone at its end.
class Folder {
 public:
  Folder() { TSR_CHECK(::mkdtemp(path_) != nullptr, "mkdtemp"); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    ::unlink(file().c_str());
    ::rmdir(path_);
  }
  std::string file() const { return std::string(path_) + "/again.safetensors"; }

 private:
  char path_[32] = "/tmp/tessera_fuzz_XXXXXX";
};

std::string file_of(std::string_view bytes) {
  if (bytes.empty() || bytes.front() != '{') return std::string(bytes);
  const std::size_t closing = bytes.rfind('}');
  const std::uint64_t length = closing == std::string_view::npos ? bytes.size() : closing + 1;
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file.append(bytes);
}

void check_coverage(const SafetensorsFile& file, std::int64_t file_bytes) {
  std::int64_t at = 0;
  for (const TensorInfo& tensor : file.tensors()) {
    TSR_CHECK(tensor.begin == at && tensor.end >= tensor.begin, in_quotes(tensor.name));
    TSR_CHECK(file.find(tensor.name) == &tensor, in_quotes(tensor.name));
    if (tensor.dtype) {
      TSR_CHECK(num_elements(tensor.shape) * size_of(*tensor.dtype) == tensor.size_bytes(),
                in_quotes(tensor.name));
    }
    at = tensor.end;
  }
  TSR_CHECK(at <= file_bytes - 8, std::to_string(at));
}

void check_round_trip(const SafetensorsFile& file, const std::string& place) {
  std::vector<std::vector<std::byte>> kept;
  std::vector<TensorBytes> tensors;
  kept.reserve(file.tensors().size());
  for (const TensorInfo& tensor : file.tensors()) {
    StatusOr<std::vector<std::byte>> bytes = file.read(tensor.name);
    if (!bytes.ok()) return testing::check_text(bytes.status(), file.path());
    kept.push_back(*std::move(bytes));
    tensors.push_back({tensor.name, *tensor.dtype, tensor.shape, kept.back()});
  }
  const Status written = write_safetensors(place, tensors, file.metadata());
  TSR_CHECK(written.ok(), std::string(message_of(written)));
  const StatusOr<SafetensorsFile> again = SafetensorsFile::open(place);
  TSR_CHECK(again.ok(), std::string(message_of(again.status())));
  TSR_CHECK(again->tensors().size() == tensors.size(), place);
  TSR_CHECK(again->metadata() == file.metadata(), place);
  for (const TensorBytes& tensor : tensors) {
    const TensorInfo* info = again->find(tensor.name);
    TSR_CHECK(info != nullptr && info->dtype == tensor.dtype && info->shape == tensor.shape,
              in_quotes(tensor.name));
    TSR_CHECK(info->begin % size_of(tensor.dtype) == 0, in_quotes(tensor.name));
    const StatusOr<std::vector<std::byte>> bytes = again->read(tensor.name);
    TSR_CHECK(bytes.ok() && std::equal(bytes->begin(), bytes->end(), tensor.bytes.begin(),
                                       tensor.bytes.end()),
              in_quotes(tensor.name));
  }
}

void try_safetensors(std::string_view bytes) {
  static const Folder folder;
  const std::string image = file_of(bytes);
  const MemoryFile memory(image);
  const StatusOr<SafetensorsFile> file = SafetensorsFile::open(memory.path(), 1 << 16);
  if (!file.ok()) return testing::check_text(file.status(), memory.path());
  check_coverage(*file, static_cast<std::int64_t>(image.size()));
  check_round_trip(*file, folder.file());
}

}  // namespace
}  // namespace tessera

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera::try_safetensors({reinterpret_cast<const char*>(data), size});
  return 0;
}
