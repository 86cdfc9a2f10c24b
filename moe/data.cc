#include "moe/data.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "io/corpus.h"
#include "io/json.h"
#include "io/safetensors.h"

namespace tessera {
namespace {

constexpr std::int64_t kByteVocabulary = 256;

/// A fixed hash of a sequence's number (splitmix64), so that neighbouring sequences read far-apart
/// places.
std::uint64_t scatter_hash(std::uint64_t number) {
  number += 0x9e3779b97f4a7c15ULL;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9ULL;
  number = (number ^ (number >> 27)) * 0x94d049bb133111ebULL;
  return number ^ (number >> 31);
}

Status check_token_file(const std::string& path, const TensorInfo& info,
                        const ModelConfig& config) {
  if (info.dtype != DType::kI32) {
    return invalid_argument(
        absl::StrFormat("%s: tensor tokens has dtype %s; I32 is allowed", path, info.dtype_name));
  }
  const Shape& shape = info.shape;
  const bool fits = shape.size() == 4 && shape[0] >= config.steps && shape[1] == config.accum &&
                    shape[2] == config.batch && shape[3] == config.seq + 1;
  if (fits) return absl::OkStatus();
  return invalid_argument(absl::StrFormat(
      "%s: tensor tokens has shape %s; the config needs [>= %d, %d, %d, %d] (steps, accum, batch, "
      "seq + 1)",
      path, to_string(shape), config.steps, config.accum, config.batch, config.seq + 1));
}

StatusOr<std::vector<std::int32_t>> read_token_file(const std::string& path,
                                                    const ModelConfig& config) {
  TSR_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::open(path));
  TSR_ASSIGN_OR_RETURN(const TensorInfo* info, file.at("tokens"));
  TSR_RETURN_IF_ERROR(check_token_file(path, *info, config));
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(num_elements(info->shape)));
  TSR_RETURN_IF_ERROR(file.read("tokens", std::as_writable_bytes(std::span(tokens))));
  const auto outside = std::find_if(tokens.begin(), tokens.end(), [&](std::int32_t token) {
    return token < 0 || token >= config.vocab;
  });
  if (outside != tokens.end()) {
    return invalid_argument(absl::StrFormat("%s: tokens[%d] is %d; the vocabulary allows 0 to %d",
                                            path, outside - tokens.begin(), *outside,
                                            config.vocab - 1));
  }
  return tokens;
}

bool is_token_file(std::span<const std::string> paths) {
  return paths.size() == 1 && std::string_view(paths[0]).ends_with(".safetensors");
}

}  // namespace

StatusOr<TokenData> TokenData::read(std::span<const std::string> paths, const ModelConfig& config) {
  TokenData data;
  data.config_ = config;
  if (is_token_file(paths)) {
    TSR_ASSIGN_OR_RETURN(data.tokens_, read_token_file(paths[0], config));
    return data;
  }
  if (config.vocab < kByteVocabulary) {
    return invalid_argument(absl::StrFormat(
        "config: vocab is %d; text is read as bytes, which need at least 256", config.vocab));
  }
  TSR_ASSIGN_OR_RETURN(data.text_, read_corpus(paths));
  const std::int64_t needed = config.batch * (config.seq + 1);
  if (static_cast<std::int64_t>(data.text_.size()) < needed) {
    return invalid_argument(absl::StrFormat(
        "%s: the corpus has %d bytes; one batch of %d x (%d + 1) tokens needs %d",
        paths.empty() ? "data" : paths[0], data.text_.size(), config.batch, config.seq, needed));
  }
  return data;
}

TokenBatch TokenData::batch(std::int64_t step, std::int64_t micro) const {
  const Shape shape = {config_.batch, config_.seq};
  TokenBatch out = {Array::empty(shape, DType::kI32), Array::empty(shape, DType::kI32)};
  const std::int64_t first = (step * config_.accum + micro) * config_.batch;
  for (std::int64_t row = 0; row < config_.batch; ++row) {
    const std::int64_t sequence = first + row;
    std::int32_t* ids = out.ids_BL.data<std::int32_t>() + row * config_.seq;
    std::int32_t* targets = out.targets_BL.data<std::int32_t>() + row * config_.seq;
    if (!tokens_.empty()) {
      const std::int32_t* source = tokens_.data() + sequence * (config_.seq + 1);
      std::copy_n(source, config_.seq, ids);
      std::copy_n(source + 1, config_.seq, targets);
      continue;
    }
    const std::size_t places = text_.size() - static_cast<std::size_t>(config_.seq);
    const auto* source = reinterpret_cast<const unsigned char*>(text_.data()) +
                         scatter_hash(static_cast<std::uint64_t>(sequence)) % places;
    std::copy_n(source, config_.seq, ids);
    std::copy_n(source + 1, config_.seq, targets);
  }
  return out;
}

}  // namespace tessera
