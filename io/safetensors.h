// io/safetensors.h: named tensors in a file: 8 bytes of length, a JSON header, the tensors' bytes.
// Reading is strict: what the header says must cover the data exactly, without holes or overlaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "io/file.h"
#include "placement/api.h"
#include "placement/dtype.h"
#include "placement/shape.h"

namespace tessera TSR_API {

/// One entry of a file's header.
struct TensorInfo {
  std::string name;
  std::uint32_t position = 0;     ///< among the entries of the header, as it is written
  std::uint8_t format_dtype = 0;  ///< place in the format's list of dtypes
  /// None for a dtype of the format that this engine has not (I16, F4, …).
  std::optional<DType> dtype;
  Shape shape;
  std::int64_t begin = 0;  ///< byte of the data section
  std::int64_t end = 0;
  std::int64_t size_bytes() const noexcept { return end - begin; }
  std::string_view dtype_name() const noexcept;  ///< as the file spells it
};

/// Bounds of a header, beside that of its bytes.
inline constexpr std::int64_t kMaxSafetensorsDims = 4'000'000;  ///< of all its tensors together
inline constexpr std::int64_t kMaxSafetensorsNotes = 65'536;

/// Notes that a file carries beside its tensors.
using Metadata = std::vector<std::pair<std::string, std::string>>;

/// What a file says about itself before its data.
struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  ///< in the order of their bytes in the file
  Metadata metadata;
  std::int64_t data_begin = 0;  ///< byte of the file at which the data section begins
};
/// Units: bytes that hold a header's length, at the beginning of a file.
inline constexpr std::int64_t kSafetensorsLengthBytes = 8;
/// Where the data of a file of `file_bytes` begin, from its first 8 bytes. `path` names the file in
/// errors. Errors: InvalidArgument for a file or a header that is too short or too long.
StatusOr<std::int64_t> safetensors_data_begin(const std::string& path, std::uint64_t length,
                                              std::int64_t file_bytes,
                                              std::int64_t max_header_bytes);
/// Reads and checks the header (blanks that pad it included) of a file of `file_bytes`. Errors:
/// InvalidArgument naming file and tensor, what was seen and what is allowed.
StatusOr<SafetensorsHeader> parse_safetensors_header(const std::string& path,
                                                     std::string_view header,
                                                     std::int64_t file_bytes);

/// An open file whose header was read and checked. Reads by pread: a file that is cut while it is
/// open gives an error, never a signal. Reading from several threads is safe.
class SafetensorsFile {
 public:
  /// Units: bytes of a header; the format's own bound.
  static constexpr std::int64_t kMaxHeaderBytes = 100'000'000;

  /// Errors: io_error where the file cannot be read; InvalidArgument naming file and tensor, what
  /// was seen and what is allowed, for anything malformed.
  static StatusOr<SafetensorsFile> open(const std::string& path,
                                        std::int64_t max_header_bytes = kMaxHeaderBytes);

  const std::string& path() const noexcept { return file_.path(); }
  /// In the order of their bytes in the file.
  const std::vector<TensorInfo>& tensors() const noexcept { return header_.tensors; }
  const Metadata& metadata() const noexcept { return header_.metadata; }

  /// Null where the file has no tensor of that name.
  const TensorInfo* find(std::string_view name) const;
  /// Errors: NotFound naming the file and some of the tensors that it has.
  StatusOr<const TensorInfo*> at(std::string_view name) const;

  /// The whole tensor, row-major, as it lies in the file. Errors: as at(); InvalidArgument unless
  /// `out` has exactly its size, or for a BOOL byte other than 0 and 1; Unimplemented for a dtype
  /// the engine has not.
  Status read(std::string_view name, std::span<std::byte> out) const;
  StatusOr<std::vector<std::byte>> read(std::string_view name) const;
  /// Bytes [offset, offset + out.size()) of the tensor, for a rank that needs a part. Errors: as
  /// read(); OutOfRange beyond its end.
  Status read_range(std::string_view name, std::int64_t offset, std::span<std::byte> out) const;

 private:
  explicit SafetensorsFile(InputFile file) : file_(std::move(file)) {}
  Status read_header(std::int64_t max_header_bytes);

  InputFile file_;
  SafetensorsHeader header_;
  absl::flat_hash_map<std::string_view, std::uint32_t> index_;  ///< by tensor's name
};

/// A tensor to be written; the bytes are row-major and stay the caller's.
struct TensorBytes {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::span<const std::byte> bytes;
};

/// A tensor of a file to be written.
struct TensorEntry {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
};
/// What stands before the data of a file with these tensors, in this order and without gaps: the
/// length and a header padded to 8 bytes. Each tensor is aligned to its element where wide dtypes
/// come first.
std::string safetensors_preamble(std::span<const TensorEntry> tensors, const Metadata& metadata);

/// Replaces or makes `path` in one step; wide dtypes come first and each tensor is aligned to its
/// element, so equal input gives an equal file. Errors: InvalidArgument for a repeated or reserved
/// name or for bytes that are not the shape's; io_error (the old file is then intact).
Status write_safetensors(const std::string& path, std::span<const TensorBytes> tensors,
                         const Metadata& metadata = {});

}  // namespace tessera
