#include "checkpoint/manifest.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "checkpoint/chunk_hash.h"

namespace tessera {
namespace {

constexpr std::int64_t kMaxRanks = 1 << 20;
constexpr std::int64_t kMaxFileBytes = std::int64_t{1} << 60;
constexpr std::int64_t kMaxChunkBytes = std::int64_t{1} << 30;
constexpr std::int64_t kMaxValues = std::int64_t{1} << 18;  // step, config, …
constexpr std::string_view kFormat = "tessera checkpoint";
// The hash is the last member; it is of everything before its comma.
constexpr std::string_view kHashKey = ",\"xxh3\":\"";
constexpr std::string_view kEnd = "\"}\n";
constexpr std::size_t kHashDigits = 16;

Json to_json(ShapeView sizes) { return Json(Json::Array(sizes.begin(), sizes.end())); }

Json to_json(const ManifestTensor& tensor) {
  Json::Array parts;
  for (const ManifestPart& part : tensor.parts) {
    parts.push_back(Json::object({{"file", part.file},
                                  {"offset", to_json(view_of(part.region.offset))},
                                  {"shape", to_json(view_of(part.region.size))}}));
  }
  return Json::object({{"name", tensor.name},
                       {"dtype", name_of(tensor.dtype)},
                       {"shape", to_json(view_of(tensor.shape))},
                       {"parts", Json(std::move(parts))}});
}

Json to_json(std::int64_t rank, const ManifestFile& file) {
  Json::Array hashes;
  for (const std::uint64_t hash : file.hashes) hashes.emplace_back(hash_to_text(hash));
  return Json::object(
      {{"name", shard_name(rank)}, {"bytes", file.bytes}, {"xxh3", Json(std::move(hashes))}});
}

StatusOr<ManifestFile> read_file_entry(const JsonView& view, std::int64_t rank,
                                       std::int64_t chunk_bytes) {
  TSR_RETURN_IF_ERROR(view.check_keys({"name", "bytes", "xxh3"}));
  TSR_ASSIGN_OR_RETURN(const JsonView name_view, view.at("name"));
  TSR_ASSIGN_OR_RETURN(const std::string name, name_view.text());
  // No name of a file ever comes from the document: it can only be the one that it must be.
  if (name != shard_name(rank)) {
    return name_view.error(
        absl::StrFormat("is %s; file %d is %s", in_quotes(name), rank, shard_name(rank)));
  }
  ManifestFile file;
  TSR_ASSIGN_OR_RETURN(const JsonView bytes, view.at("bytes"));
  TSR_ASSIGN_OR_RETURN(file.bytes, bytes.integer_in(0, kMaxFileBytes));
  TSR_ASSIGN_OR_RETURN(const JsonView hashes_view, view.at("xxh3"));
  TSR_ASSIGN_OR_RETURN(const std::int64_t hashes, hashes_view.size());
  const std::int64_t chunks = num_chunks(file.bytes, chunk_bytes);
  if (hashes != chunks) {
    return hashes_view.error(absl::StrFormat("has %d hashes; %d bytes in chunks of %d have %d",
                                             hashes, file.bytes, chunk_bytes, chunks));
  }
  file.hashes.reserve(static_cast<std::size_t>(hashes));
  TSR_RETURN_IF_ERROR(hashes_view.for_each_item([&](const JsonView& each) -> Status {
    TSR_ASSIGN_OR_RETURN(const std::string text, each.text());
    const std::optional<std::uint64_t> hash = hash_from_text(text);
    if (!hash) return each.error("expected 16 hexadecimal digits");
    file.hashes.push_back(*hash);
    return absl::OkStatus();
  }));
  return file;
}

StatusOr<Shape> read_sizes(const JsonView& object, std::string_view key) {
  TSR_ASSIGN_OR_RETURN(const JsonView view, object.at(key));
  TSR_ASSIGN_OR_RETURN(const std::vector<std::int64_t> sizes, view.integers(kJsonDims));
  const StatusOr<std::int64_t> elements = checked_num_elements(sizes);
  if (!elements.ok()) return view.annotate(elements.status());
  if (*elements > kMaxFileBytes / 8) return view.error("is of more than 2^57 elements");
  return to_shape(sizes);
}

StatusOr<ManifestPart> read_part(const JsonView& view, ShapeView shape, std::int64_t world_size) {
  TSR_RETURN_IF_ERROR(view.check_keys({"file", "offset", "shape"}));
  ManifestPart part;
  TSR_ASSIGN_OR_RETURN(const JsonView file, view.at("file"));
  TSR_ASSIGN_OR_RETURN(part.file, file.integer_in(0, world_size - 1));
  TSR_ASSIGN_OR_RETURN(part.region.offset, read_sizes(view, "offset"));
  TSR_ASSIGN_OR_RETURN(part.region.size, read_sizes(view, "shape"));
  bool inside =
      part.region.offset.size() == shape.size() && part.region.size.size() == shape.size();
  for (std::size_t d = 0; inside && d < shape.size(); ++d) {
    inside = part.region.offset[d] <= shape[d] && part.region.size[d] > 0 &&
             part.region.size[d] <= shape[d] - part.region.offset[d];
  }
  if (!inside) {
    return view.error("is empty or lies outside of its tensor of shape " + to_string(shape));
  }
  return part;
}

StatusOr<ManifestTensor> read_tensor(const JsonView& view, std::int64_t world_size) {
  TSR_RETURN_IF_ERROR(view.check_keys({"name", "dtype", "shape", "parts"}));
  ManifestTensor tensor;
  TSR_ASSIGN_OR_RETURN(const JsonView name, view.at("name"));
  TSR_ASSIGN_OR_RETURN(tensor.name, name.text());
  TSR_ASSIGN_OR_RETURN(const JsonView dtype_view, view.at("dtype"));
  TSR_ASSIGN_OR_RETURN(const std::string dtype_name, dtype_view.text());
  const StatusOr<DType> dtype = parse_dtype(dtype_name);
  if (!dtype.ok()) return dtype_view.annotate(dtype.status());
  tensor.dtype = *dtype;
  TSR_ASSIGN_OR_RETURN(tensor.shape, read_sizes(view, "shape"));
  tensor.parts = PartList(view_of(tensor.shape));
  TSR_ASSIGN_OR_RETURN(const JsonView parts_view, view.at("parts"));
  TSR_ASSIGN_OR_RETURN(const std::int64_t parts, parts_view.size());
  if (const std::int64_t most = num_elements(tensor.shape); parts > most) {
    return parts_view.error(absl::StrFormat(
        "holds %d parts; a tensor of %d elements has at most as many", parts, most));
  }
  tensor.parts.reserve(static_cast<std::size_t>(parts));
  TSR_RETURN_IF_ERROR(parts_view.for_each_item([&](const JsonView& each) -> Status {
    TSR_ASSIGN_OR_RETURN(const ManifestPart part,
                         read_part(each, view_of(tensor.shape), world_size));
    tensor.parts.push_back(part);
    return absl::OkStatus();
  }));
  return tensor;
}

Status read_tensors(const JsonView& root, Manifest& manifest) {
  TSR_ASSIGN_OR_RETURN(const JsonView tensors_view, root.at("tensors"));
  TSR_ASSIGN_OR_RETURN(const std::int64_t count, tensors_view.size());
  manifest.tensors.reserve(static_cast<std::size_t>(count));
  return tensors_view.for_each_item([&](const JsonView& each) -> Status {
    TSR_ASSIGN_OR_RETURN(ManifestTensor tensor, read_tensor(each, manifest.world_size()));
    if (!manifest.tensors.empty() && manifest.tensors.back().name >= tensor.name) {
      return each.error(manifest.tensors.back().name == tensor.name
                            ? "tensor " + in_quotes(tensor.name) + " stands twice"
                            : "tensors must be sorted by name; " + in_quotes(tensor.name) +
                                  " comes after " + in_quotes(manifest.tensors.back().name));
    }
    manifest.tensors.push_back(std::move(tensor));
    return absl::OkStatus();
  });
}

/// The document has its own hash.
Status check_own_hash(std::string_view text, std::string_view source) {
  const std::size_t tail = kHashKey.size() + kHashDigits + kEnd.size();
  const std::size_t body = text.size() < tail ? 0 : text.size() - tail;
  const std::string_view hash = text.substr(std::min(text.size(), body + kHashKey.size()));
  const bool has_hash =
      text.size() >= tail && text.substr(body, kHashKey.size()) == kHashKey && text.ends_with(kEnd);
  if (has_hash && hash_from_text(hash.substr(0, kHashDigits)) == hash_of(text.substr(0, body))) {
    return absl::OkStatus();
  }
  return invalid_argument(absl::StrFormat(
      "%s: %s: the file was damaged or changed by hand", std::string(source),
      has_hash ? "does not have the hash that it ends with" : "does not end with its own hash"));
}

/// The number of at most 18 digits that stands between the two; −1 for a name of another form.
std::int64_t number_between(std::string_view name, std::string_view prefix,
                            std::string_view suffix) {
  if (!name.starts_with(prefix) || !name.ends_with(suffix)) return -1;
  if (name.size() <= prefix.size() + suffix.size()) return -1;
  const std::string_view digits =
      name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
  if (digits.size() > 18 || (digits.size() > 1 && digits[0] == '0')) return -1;
  std::int64_t number = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return -1;
    number = 10 * number + (c - '0');
  }
  return number;
}

}  // namespace

std::string generation_folder(std::int64_t generation) {
  return "gen-" + std::to_string(generation);
}

std::int64_t generation_of(std::string_view name) { return number_between(name, "gen-", ""); }

std::string kept_manifest_name(std::int64_t generation) {
  return "manifest-" + std::to_string(generation) + ".json";
}

std::int64_t generation_of_kept_manifest(std::string_view name) {
  return number_between(name, "manifest-", ".json");
}

std::string shard_name(std::int64_t rank) {
  return "shard-" + std::to_string(rank) + ".safetensors";
}

std::string entry_name(const ManifestTensor& tensor, const Region& region) {
  return region == whole_region(view_of(tensor.shape)) ? tensor.name
                                                       : tensor.name + to_string(region);
}

const ManifestTensor* Manifest::find(std::string_view name) const {
  const auto at = std::lower_bound(
      tensors.begin(), tensors.end(), name,
      [](const ManifestTensor& tensor, std::string_view wanted) { return tensor.name < wanted; });
  return at != tensors.end() && at->name == name ? &*at : nullptr;
}

std::string to_text(const Manifest& manifest) {
  Json::Array files, tensors;
  for (std::size_t rank = 0; rank < manifest.files.size(); ++rank) {
    files.push_back(to_json(static_cast<std::int64_t>(rank), manifest.files[rank]));
  }
  for (const ManifestTensor& tensor : manifest.tensors) tensors.push_back(to_json(tensor));
  std::string text = Json::object({{"format", kFormat},
                                   {"version", kManifestVersion},
                                   {"generation", manifest.generation},
                                   {"world_size", manifest.world_size()},
                                   {"chunk_bytes", manifest.chunk_bytes},
                                   {"values", manifest.values},
                                   {"files", Json(std::move(files))},
                                   {"tensors", Json(std::move(tensors))}})
                         .to_string();
  text.pop_back();  // the brace comes back after the hash
  const std::string hash = hash_to_text(hash_of(text));
  text += kHashKey;
  text += hash;
  text += kEnd;
  return text;
}

StatusOr<Manifest> parse_manifest(std::string_view text, std::string_view source) {
  TSR_RETURN_IF_ERROR(check_own_hash(text, source));
  TSR_ASSIGN_OR_RETURN(const JsonDocument document,
                       JsonDocument::parse(text, source, {.bytes = kMaxManifestBytes}));
  const JsonView root = document.root();
  TSR_RETURN_IF_ERROR(root.check_keys({"format", "version", "generation", "world_size",
                                       "chunk_bytes", "values", "files", "tensors", "xxh3"}));
  TSR_ASSIGN_OR_RETURN(const JsonView format_view, root.at("format"));
  TSR_ASSIGN_OR_RETURN(const std::string format, format_view.text());
  if (format != kFormat) return format_view.error("is no checkpoint of this kind");
  TSR_ASSIGN_OR_RETURN(const JsonView version_view, root.at("version"));
  TSR_RETURN_IF_ERROR(version_view.integer_in(1, kManifestVersion).status());
  Manifest manifest;
  TSR_ASSIGN_OR_RETURN(const JsonView generation, root.at("generation"));
  TSR_ASSIGN_OR_RETURN(manifest.generation, generation.integer_in(1, kMaxGeneration));
  TSR_ASSIGN_OR_RETURN(const JsonView world_size_view, root.at("world_size"));
  TSR_ASSIGN_OR_RETURN(const std::int64_t world_size, world_size_view.integer_in(1, kMaxRanks));
  TSR_ASSIGN_OR_RETURN(const JsonView chunk_bytes, root.at("chunk_bytes"));
  TSR_ASSIGN_OR_RETURN(manifest.chunk_bytes, chunk_bytes.integer_in(1, kMaxChunkBytes));
  TSR_ASSIGN_OR_RETURN(const JsonView values, root.at("values"));
  if (values.kind() != Json::Kind::kObject) return values.error("expected an object");
  if (values.num_entries() > kMaxValues) {
    return values.error(absl::StrFormat("holds %d values and keys; at most %d are allowed",
                                        values.num_entries(), kMaxValues));
  }
  manifest.values = values.to_json();
  TSR_ASSIGN_OR_RETURN(const JsonView files_view, root.at("files"));
  TSR_ASSIGN_OR_RETURN(const std::int64_t files, files_view.size());
  if (files != world_size) {
    return files_view.error(
        absl::StrFormat("has %d files; %d ranks wrote one each", files, world_size));
  }
  manifest.files.reserve(static_cast<std::size_t>(files));
  TSR_RETURN_IF_ERROR(files_view.for_each_item([&](const JsonView& each) -> Status {
    const auto rank = static_cast<std::int64_t>(manifest.files.size());
    TSR_ASSIGN_OR_RETURN(ManifestFile file, read_file_entry(each, rank, manifest.chunk_bytes));
    manifest.files.push_back(std::move(file));
    return absl::OkStatus();
  }));
  TSR_RETURN_IF_ERROR(read_tensors(root, manifest));
  return manifest;
}

Status check_manifest_coverage(const Manifest& manifest, std::string_view source) {
  for (const ManifestTensor& tensor : manifest.tensors) {
    const Status status = check_coverage(view_of(tensor.shape), tensor.parts);
    if (status.ok()) continue;
    return invalid_argument(absl::StrFormat("%s: tensor %s: %s", std::string(source),
                                            in_quotes(tensor.name),
                                            std::string(message_of(status))));
  }
  return absl::OkStatus();
}

}  // namespace tessera
