#include "io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "io/json.h"

namespace tessera {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

struct FormatDType {
  std::string_view name;
  int bits;
  std::optional<DType> ours = std::nullopt;
};
// Every dtype that the format knows; those of DType can be read.
constexpr FormatDType kFormatDTypes[] = {
    {"F64", 64, DType::kF64},
    {"I64", 64, DType::kI64},
    {"U64", 64},
    {"C64", 64},
    {"F32", 32, DType::kF32},
    {"I32", 32, DType::kI32},
    {"U32", 32},
    {"BF16", 16, DType::kBF16},
    {"F16", 16, DType::kF16},
    {"I16", 16},
    {"U16", 16},
    {"F8_E4M3", 8},
    {"F8_E5M2", 8},
    {"F8_E8M0", 8},
    {"I8", 8},
    {"U8", 8, DType::kU8},
    {"BOOL", 8, DType::kBool},
    {"F6_E2M3", 6},
    {"F6_E3M2", 6},
    {"F4", 4},
};

std::string known_dtypes() {
  std::string names;
  for (const FormatDType& dtype : kFormatDTypes) {
    if (!names.empty()) names += ' ';
    names += dtype.name;
  }
  return names;
}

// Bytes of a tensor of this shape, or what is wrong with it.
StatusOr<std::int64_t> checked_bytes(const FormatDType& dtype, ShapeView shape) {
  TSR_ASSIGN_OR_RETURN(const std::int64_t elements, checked_num_elements(shape));
  if (elements > INT64_MAX / dtype.bits) {
    return out_of_range(
        absl::StrFormat("%d elements of %s are more than 2^63 bits", elements, dtype.name));
  }
  const std::int64_t bits = elements * dtype.bits;
  if (bits % 8 != 0) {
    return invalid_argument(absl::StrFormat("%d elements of %s (%d bits each) fill no whole bytes",
                                            elements, dtype.name, dtype.bits));
  }
  return bits / 8;
}

StatusOr<TensorInfo> read_entry(std::string name, const JsonView& entry) {
  TSR_RETURN_IF_ERROR(entry.check_keys({"dtype", "shape", "data_offsets"}));
  TensorInfo info;
  info.name = std::move(name);
  TSR_ASSIGN_OR_RETURN(const JsonView dtype_view, entry.at("dtype"));
  TSR_ASSIGN_OR_RETURN(const std::string dtype_name, dtype_view.text());
  const auto dtype = std::find_if(std::begin(kFormatDTypes), std::end(kFormatDTypes),
                                  [&](const auto& d) { return d.name == dtype_name; });
  if (dtype == std::end(kFormatDTypes)) {
    return dtype_view.error(
        absl::StrFormat("unknown dtype %s; allowed: %s", in_quotes(dtype_name), known_dtypes()));
  }
  info.format_dtype = static_cast<std::uint8_t>(dtype - std::begin(kFormatDTypes));
  info.dtype = dtype->ours;

  TSR_ASSIGN_OR_RETURN(const JsonView shape_view, entry.at("shape"));
  TSR_ASSIGN_OR_RETURN(const std::vector<std::int64_t> shape, shape_view.integers(kJsonDims));
  const StatusOr<std::int64_t> bytes = checked_bytes(*dtype, shape);
  if (!bytes.ok()) return shape_view.annotate(bytes.status());
  info.shape = to_shape(shape);

  TSR_ASSIGN_OR_RETURN(const JsonView offsets_view, entry.at("data_offsets"));
  TSR_ASSIGN_OR_RETURN(const std::vector<std::int64_t> offsets, offsets_view.integers(kJsonItems));
  if (offsets.size() != 2 || offsets[0] < 0 || offsets[1] < offsets[0]) {
    return offsets_view.error("expected [begin, end] with 0 <= begin <= end");
  }
  info.begin = offsets[0];
  info.end = offsets[1];
  if (info.size_bytes() != *bytes) {
    return offsets_view.error(absl::StrFormat("spans %d bytes, but %s of shape %s has %d",
                                              info.size_bytes(), dtype_name, to_string(info.shape),
                                              *bytes));
  }
  return info;
}

StatusOr<Metadata> read_metadata(const JsonView& view) {
  Metadata metadata;
  TSR_ASSIGN_OR_RETURN(const auto members,
                       view.members({.most = kMaxSafetensorsNotes, .what = "notes"}));
  for (const auto& [key, value] : members) {
    TSR_ASSIGN_OR_RETURN(std::string text, value.text());
    metadata.emplace_back(key, std::move(text));
  }
  return metadata;
}

// The tensors, in the order of their bytes, must cover [0, data_bytes) exactly.
Status check_coverage(const std::string& path, const std::vector<TensorInfo>& tensors,
                      std::int64_t data_bytes) {
  std::int64_t at = 0;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.begin != at) {
      return invalid_argument(absl::StrFormat("%s: tensor %s begins at byte %d, but %s byte %d",
                                              path, in_quotes(tensor.name), tensor.begin,
                                              tensor.begin < at
                                                  ? "it overlaps what came before, which ends at"
                                                  : "that leaves a hole: the next must begin at",
                                              at));
    }
    at = tensor.end;
    if (at > data_bytes) {
      return invalid_argument(absl::StrFormat(
          "%s: tensor %s ends at byte %d of the data, but the file has only %d: it is cut short",
          path, in_quotes(tensor.name), at, data_bytes));
    }
  }
  if (at == data_bytes) return absl::OkStatus();
  return invalid_argument(absl::StrFormat(
      "%s: %d bytes of data, of which the tensors cover %d; nothing may follow them", path,
      data_bytes, at));
}

// Bytes that say "bool" must be 0 or 1, else copying them into a bool is undefined.
Status check_bools(const std::string& path, const TensorInfo& tensor,
                   std::span<const std::byte> bytes) {
  const auto bad = std::find_if(bytes.begin(), bytes.end(),
                                [](std::byte b) { return std::to_integer<int>(b) > 1; });
  if (bad == bytes.end()) return absl::OkStatus();
  return invalid_argument(absl::StrFormat("%s: tensor %s: a BOOL byte is %d; allowed: 0, 1", path,
                                          in_quotes(tensor.name), std::to_integer<int>(*bad)));
}

}  // namespace

std::string_view TensorInfo::dtype_name() const noexcept {
  return kFormatDTypes[format_dtype].name;
}

StatusOr<SafetensorsFile> SafetensorsFile::open(const std::string& path,
                                                std::int64_t max_header_bytes) {
  TSR_ASSIGN_OR_RETURN(InputFile input, InputFile::open(path));
  SafetensorsFile file(std::move(input));
  TSR_RETURN_IF_ERROR(file.read_header(max_header_bytes));
  return file;
}

StatusOr<std::int64_t> safetensors_data_begin(const std::string& path, std::uint64_t length,
                                              std::int64_t file_bytes,
                                              std::int64_t max_header_bytes) {
  if (length > static_cast<std::uint64_t>(max_header_bytes)) {
    return invalid_argument(absl::StrFormat(
        "%s: the first 8 bytes give a header of %d bytes; at most %d are read (is it safetensors?)",
        path, length, max_header_bytes));
  }
  const std::int64_t begin = kSafetensorsLengthBytes + static_cast<std::int64_t>(length);
  if (begin <= file_bytes) return begin;
  return invalid_argument(absl::StrFormat(
      "%s: a header of %d bytes in a file of %d: it is cut short", path, length, file_bytes));
}

StatusOr<SafetensorsHeader> parse_safetensors_header(const std::string& path,
                                                     std::string_view header,
                                                     std::int64_t file_bytes) {
  SafetensorsHeader out;
  const auto header_bytes = static_cast<std::int64_t>(header.size());
  out.data_begin = kSafetensorsLengthBytes + header_bytes;
  if (header.empty() || header.front() != '{') {
    return invalid_argument(absl::StrFormat("%s: the header must begin with '{'", path));
  }
  // Writers pad with blanks to align the data; no other character may follow the object.
  while (header.back() == ' ') header.remove_suffix(1);
  if (header.back() != '}') {
    return invalid_argument(absl::StrFormat("%s: the header must end with '}'", path));
  }
  TSR_ASSIGN_OR_RETURN(const JsonDocument document,
                       JsonDocument::parse(header, path, {.bytes = header_bytes}));
  const JsonView root = document.root();
  TSR_ASSIGN_OR_RETURN(const std::int64_t members, root.size());
  out.tensors.reserve(static_cast<std::size_t>(members));
  std::int64_t dims = 0;
  TSR_RETURN_IF_ERROR(root.for_each_member([&](std::string name, const JsonView& entry) -> Status {
    if (name == "__metadata__") {
      TSR_ASSIGN_OR_RETURN(out.metadata, read_metadata(entry));
      return absl::OkStatus();
    }
    TSR_ASSIGN_OR_RETURN(TensorInfo info, read_entry(std::move(name), entry));
    dims += static_cast<std::int64_t>(info.shape.size());
    if (dims > kMaxSafetensorsDims) {
      return entry.error(absl::StrFormat("with it the tensors have %d dims; at most %d are allowed",
                                         dims, kMaxSafetensorsDims));
    }
    info.position = static_cast<std::uint32_t>(out.tensors.size());
    out.tensors.push_back(std::move(info));
    return absl::OkStatus();
  }));
  // In place: a stable sort would take room for half of them.
  const auto before = [](const TensorInfo& a, const TensorInfo& b) {
    return std::tuple(a.begin, a.end, a.position) < std::tuple(b.begin, b.end, b.position);
  };
  if (!std::is_sorted(out.tensors.begin(), out.tensors.end(), before)) {
    std::sort(out.tensors.begin(), out.tensors.end(), before);
  }
  TSR_RETURN_IF_ERROR(check_coverage(path, out.tensors, file_bytes - out.data_begin));
  return out;
}

Status SafetensorsFile::read_header(std::int64_t max_header_bytes) {
  const std::int64_t file_bytes = file_.size_bytes();
  if (file_bytes < kSafetensorsLengthBytes) {
    return invalid_argument(absl::StrFormat(
        "%s: %d bytes; a safetensors file has at least the 8 of its header's length", path(),
        file_bytes));
  }
  std::uint64_t length = 0;
  TSR_RETURN_IF_ERROR(file_.read_at(0, std::as_writable_bytes(std::span(&length, 1))));
  TSR_RETURN_IF_ERROR(
      safetensors_data_begin(path(), length, file_bytes, max_header_bytes).status());
  {
    std::string header(static_cast<std::size_t>(length), '\0');
    TSR_RETURN_IF_ERROR(
        file_.read_at(kSafetensorsLengthBytes, std::as_writable_bytes(std::span(header))));
    TSR_ASSIGN_OR_RETURN(header_, parse_safetensors_header(path(), header, file_bytes));
  }
  index_.reserve(tensors().size());
  for (const TensorInfo& tensor : tensors()) {
    index_.emplace(tensor.name, static_cast<std::uint32_t>(index_.size()));
  }
  return absl::OkStatus();
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  const auto at = index_.find(name);
  return at == index_.end() ? nullptr : &tensors()[at->second];
}

StatusOr<const TensorInfo*> SafetensorsFile::at(std::string_view name) const {
  if (const TensorInfo* info = find(name)) return info;
  constexpr std::size_t kListed = 6;
  std::string names;
  for (std::size_t i = 0; i < std::min(kListed, tensors().size()); ++i) {
    names += (i == 0 ? "" : ", ") + in_quotes(tensors()[i].name);
  }
  if (tensors().size() > kListed) names += absl::StrFormat(", … (%d in all)", tensors().size());
  return not_found(absl::StrFormat("%s: no tensor %s; it has %s", path(), in_quotes(name),
                                   names.empty() ? "none" : names));
}

Status SafetensorsFile::read(std::string_view name, std::span<std::byte> out) const {
  TSR_ASSIGN_OR_RETURN(const TensorInfo* info, at(name));
  if (static_cast<std::int64_t>(out.size()) != info->size_bytes()) {
    return invalid_argument(absl::StrFormat("%s: tensor %s has %d bytes, room was given for %d",
                                            path(), in_quotes(name), info->size_bytes(),
                                            out.size()));
  }
  return read_range(name, 0, out);
}

StatusOr<std::vector<std::byte>> SafetensorsFile::read(std::string_view name) const {
  TSR_ASSIGN_OR_RETURN(const TensorInfo* info, at(name));
  std::vector<std::byte> bytes(static_cast<std::size_t>(info->size_bytes()));
  TSR_RETURN_IF_ERROR(read_range(name, 0, bytes));
  return bytes;
}

Status SafetensorsFile::read_range(std::string_view name, std::int64_t offset,
                                   std::span<std::byte> out) const {
  TSR_ASSIGN_OR_RETURN(const TensorInfo* info, at(name));
  if (!info->dtype) {
    return unimplemented(
        absl::StrFormat("%s: tensor %s has dtype %s, which cannot be read; readable: F64 F32 BF16 "
                        "F16 I64 I32 U8 BOOL",
                        path(), in_quotes(name), info->dtype_name()));
  }
  const auto wanted = static_cast<std::int64_t>(out.size());
  if (offset < 0 || offset > info->size_bytes() || wanted > info->size_bytes() - offset) {
    return out_of_range(
        absl::StrFormat("%s: tensor %s has %d bytes; %d from byte %d were asked for", path(),
                        in_quotes(name), info->size_bytes(), wanted, offset));
  }
  TSR_RETURN_IF_ERROR(file_.read_at(header_.data_begin + info->begin + offset, out));
  return *info->dtype == DType::kBool ? check_bools(path(), *info, out) : absl::OkStatus();
}

namespace {

Status check_writable(const std::string& path, std::span<const TensorBytes> tensors) {
  absl::flat_hash_set<std::string> names = {"__metadata__"};
  for (const TensorBytes& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      return invalid_argument(absl::StrFormat(
          "%s: tensor name %s is given twice or the format's own", path, in_quotes(tensor.name)));
    }
    TSR_ASSIGN_OR_RETURN(const std::int64_t elements, checked_num_elements(view_of(tensor.shape)));
    if (elements > INT64_MAX / size_of(tensor.dtype) ||
        elements * size_of(tensor.dtype) != static_cast<std::int64_t>(tensor.bytes.size())) {
      return invalid_argument(absl::StrFormat("%s: tensor %s: %d bytes are not those of %s%s", path,
                                              in_quotes(tensor.name), tensor.bytes.size(),
                                              name_of(tensor.dtype), to_string(tensor.shape)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string safetensors_preamble(std::span<const TensorEntry> tensors, const Metadata& metadata) {
  Json header{Json::Object()};
  if (!metadata.empty()) {
    Json notes{Json::Object()};
    for (const auto& [key, value] : metadata) notes.set(key, value);
    header.set("__metadata__", std::move(notes));
  }
  std::int64_t at = 0;
  for (const TensorEntry& tensor : tensors) {
    const std::int64_t end = at + num_elements(tensor.shape) * size_of(tensor.dtype);
    header.set(tensor.name,
               Json::object({{"dtype", name_of(tensor.dtype)},
                             {"shape", Json::Array(tensor.shape.begin(), tensor.shape.end())},
                             {"data_offsets", Json::array({at, end})}}));
    at = end;
  }
  std::string text = header.to_string();
  constexpr std::size_t kAlignment = 8;
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  const std::uint64_t length = text.size();
  std::string preamble(sizeof length, '\0');
  std::memcpy(preamble.data(), &length, sizeof length);
  return preamble + text;
}

Status write_safetensors(const std::string& path, std::span<const TensorBytes> tensors,
                         const Metadata& metadata) {
  TSR_RETURN_IF_ERROR(check_writable(path, tensors));
  std::vector<const TensorBytes*> ordered;
  for (const TensorBytes& tensor : tensors) ordered.push_back(&tensor);
  std::sort(ordered.begin(), ordered.end(), [](const TensorBytes* a, const TensorBytes* b) {
    const auto width = [](const TensorBytes* t) { return -size_of(t->dtype); };
    return std::pair(width(a), std::string_view(a->name)) <
           std::pair(width(b), std::string_view(b->name));
  });
  std::vector<TensorEntry> entries;
  entries.reserve(ordered.size());
  for (const TensorBytes* tensor : ordered) {
    entries.push_back({tensor->name, tensor->dtype, tensor->shape});
  }
  const std::string preamble = safetensors_preamble(entries, metadata);
  const auto header_bytes = static_cast<std::int64_t>(preamble.size()) - kSafetensorsLengthBytes;
  if (header_bytes > SafetensorsFile::kMaxHeaderBytes) {
    return invalid_argument(absl::StrFormat("%s: a header of %d bytes; the format allows %d", path,
                                            header_bytes, SafetensorsFile::kMaxHeaderBytes));
  }
  TSR_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  TSR_RETURN_IF_ERROR(file.append(std::as_bytes(std::span(preamble))));
  for (const TensorBytes* tensor : ordered) TSR_RETURN_IF_ERROR(file.append(tensor->bytes));
  return file.commit();
}

}  // namespace tessera
