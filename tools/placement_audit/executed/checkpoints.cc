// placement-audit ckpt: what a checkpoint holds, whether it is whole, and where two differ.
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "checkpoint/hf_export.h"
#include "checkpoint/stored_tensors.h"
#include "io/byte_text.h"
#include "tools/placement_audit/command.h"

namespace tessera::audit {
namespace {

StatusOr<std::unique_ptr<FileSystem>> folder_at(const std::string& path) {
  return open_folder(path, MissingFolder::kError);
}

Json integers(ShapeView sizes) { return Json(Json::Array(sizes.begin(), sizes.end())); }

std::int64_t total_bytes(const Manifest& manifest) {
  std::int64_t total = 0;
  for (const ManifestTensor& tensor : manifest.tensors) total += tensor.num_bytes();
  return total;
}

Json to_json(const Manifest& manifest, const std::vector<std::int64_t>& stored) {
  Json::Array files, tensors;
  for (std::size_t rank = 0; rank < manifest.files.size(); ++rank) {
    files.push_back(Json::object({{"name", shard_name(static_cast<std::int64_t>(rank))},
                                  {"bytes", manifest.files[rank].bytes}}));
  }
  for (const ManifestTensor& tensor : manifest.tensors) {
    tensors.push_back(Json::object({{"name", tensor.name},
                                    {"dtype", name_of(tensor.dtype)},
                                    {"shape", integers(view_of(tensor.shape))},
                                    {"bytes", tensor.num_bytes()},
                                    {"parts", static_cast<std::int64_t>(tensor.parts.size())}}));
  }
  return Json::object({{"generation", manifest.generation},
                       {"stored", integers(stored)},
                       {"world_size", manifest.world_size()},
                       {"bytes", total_bytes(manifest)},
                       {"values", manifest.values},
                       {"files", Json(std::move(files))},
                       {"tensors", Json(std::move(tensors))}});
}

// Names come from a file: they are quoted, so that they cannot steer a terminal.
std::string listing_of(const Manifest& manifest, const std::vector<std::int64_t>& stored) {
  std::string text = absl::StrFormat("generation %d, written by %d ranks: %d tensors, %s\n",
                                     manifest.generation, manifest.world_size(),
                                     manifest.tensors.size(), byte_text(total_bytes(manifest)));
  if (stored.size() > 1) text += "  generations stored: " + absl::StrJoin(stored, ", ") + '\n';
  for (const JsonMember& member : *manifest.values.if_object()) {
    if (member.value.if_object() != nullptr) continue;
    const std::string* words = member.value.if_string();
    text += "  " + in_quotes(member.key) + ": " +
            (words != nullptr ? in_quotes(*words) : member.value.to_string()) + '\n';
  }
  for (const ManifestTensor& tensor : manifest.tensors) {
    text += absl::StrFormat("  %s%s in %d parts: %s\n", std::string(name_of(tensor.dtype)),
                            to_string(tensor.shape), tensor.parts.size(), in_quotes(tensor.name));
  }
  return text;
}

}  // namespace

StatusOr<Answer> list_checkpoint(const Request& request) {
  TSR_ASSIGN_OR_RETURN(const std::unique_ptr<FileSystem> files, folder_at(request.folder));
  TSR_ASSIGN_OR_RETURN(const Manifest manifest, read_manifest(*files, request.generation));
  TSR_ASSIGN_OR_RETURN(const std::vector<std::int64_t> stored, stored_generations(*files));
  return Answer{.text = request.format == Format::kText ? listing_of(manifest, stored)
                                                        : json_line(to_json(manifest, stored))};
}

StatusOr<Answer> verify_checkpoint_folder(const Request& request) {
  TSR_ASSIGN_OR_RETURN(const std::unique_ptr<FileSystem> files, folder_at(request.folder));
  TSR_ASSIGN_OR_RETURN(const std::vector<std::string> problems,
                       verify_checkpoint(*files, request.generation));
  Answer answer{.checks_passed = problems.empty()};
  if (request.format == Format::kText) {
    answer.text = problems.empty() ? "whole: every byte has its hash\n" : "";
    for (const std::string& problem : problems) answer.text += problem + '\n';
  } else {
    Json::Array lines(problems.begin(), problems.end());
    answer.text = json_line(
        Json::object({{"whole", problems.empty()}, {"problems", Json(std::move(lines))}}));
  }
  return answer;
}

StatusOr<Answer> diff_checkpoint_folders(const Request& request) {
  TSR_ASSIGN_OR_RETURN(const std::unique_ptr<FileSystem> first, folder_at(request.folder));
  TSR_ASSIGN_OR_RETURN(const std::unique_ptr<FileSystem> second, folder_at(request.other_folder));
  TSR_ASSIGN_OR_RETURN(const std::vector<TensorDifference> differences,
                       diff_checkpoints(*first, *second));
  Answer answer{.checks_passed = differences.empty()};
  if (request.format == Format::kText) {
    answer.text = differences.empty() ? "equal: every tensor, bit by bit\n" : "";
    for (const TensorDifference& each : differences) {
      answer.text += in_quotes(each.name) + ": " + std::string(tessera::name_of(each.kind)) + ": " +
                     each.text + '\n';
    }
    return answer;
  }
  Json::Array list;
  for (const TensorDifference& each : differences) {
    const bool values = each.kind == TensorDifference::Kind::kValues;
    list.push_back(Json::object({{"name", each.name},
                                 {"kind", tessera::name_of(each.kind)},
                                 {"text", each.text},
                                 {"elements", values ? Json(each.num_elements) : Json()},
                                 {"max_difference", values ? Json(each.max_difference) : Json()}}));
  }
  answer.text = json_line(
      Json::object({{"equal", differences.empty()}, {"differences", Json(std::move(list))}}));
  return answer;
}

StatusOr<Answer> export_checkpoint(const Request& request) {
  constexpr std::int64_t kMaxFileBytes = 5'000'000'000;  // as the files there have
  TSR_ASSIGN_OR_RETURN(const std::unique_ptr<FileSystem> files, folder_at(request.folder));
  TSR_ASSIGN_OR_RETURN(StoredTensors from, StoredTensors::open(*files, request.generation));
  TSR_ASSIGN_OR_RETURN(const std::unique_ptr<FileSystem> to,
                       open_folder(request.other_folder, MissingFolder::kMake));
  TSR_ASSIGN_OR_RETURN(const HfExport done, export_hf(from, *to, kMaxFileBytes));
  if (request.format == Format::kText) {
    return Answer{.text = absl::StrFormat("%d tensors, %s, in %d files\n", done.num_tensors,
                                          byte_text(done.num_bytes), done.num_files)};
  }
  return Answer{
      .text = json_line(Json::object(
          {{"files", done.num_files}, {"tensors", done.num_tensors}, {"bytes", done.num_bytes}}))};
}

}  // namespace tessera::audit
