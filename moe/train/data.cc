#include "moe/train/data.h"

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

/// One tensor of recorded tokens.
struct Recording {
  std::string_view name;
  std::int64_t places = 0;             ///< of a sequence
  std::string_view places_name;        ///< the same in letters
  std::string_view also_allowed = {};  ///< beside ids of the vocabulary
};
Recording tokens_of(const ModelConfig& config) { return {"tokens", config.seq + 1, "seq + 1"}; }
Recording labels_of(const ModelConfig& config) {
  return {"labels", config.seq, "seq", ", and -100 for a target that does not count"};
}

Status check_shape(const std::string& path, const TensorInfo& info, const Recording& recording,
                   const ModelConfig& config) {
  if (info.dtype != DType::kI32) {
    return invalid_argument(absl::StrFormat("%s: tensor %s has dtype %s; I32 is allowed", path,
                                            info.name, info.dtype_name()));
  }
  const Shape& shape = info.shape;
  const bool fits = shape.size() == 4 && shape[0] >= config.steps && shape[1] == config.accum &&
                    shape[2] == config.batch && shape[3] == recording.places;
  if (fits) return absl::OkStatus();
  return invalid_argument(absl::StrFormat(
      "%s: tensor %s has shape %s; the config needs [>= %d, %d, %d, %d] (steps, accum, batch, %s)",
      path, info.name, to_string(shape), config.steps, config.accum, config.batch, recording.places,
      to_absl(recording.places_name)));
}

Status check_ids(const std::string& source, std::span<const std::int32_t> ids,
                 const Recording& recording, const ModelConfig& config) {
  const bool may_ignore = !recording.also_allowed.empty();
  const auto outside = std::find_if(ids.begin(), ids.end(), [&](std::int32_t id) {
    return (id < 0 || id >= config.vocab) && !(may_ignore && id == kIgnoredLabel);
  });
  if (outside == ids.end()) return absl::OkStatus();
  return invalid_argument(absl::StrFormat(
      "%s: %s[%d] is %d; the vocabulary allows 0 to %d%s", source, to_absl(recording.name),
      outside - ids.begin(), *outside, config.vocab - 1, to_absl(recording.also_allowed)));
}

StatusOr<std::vector<std::int32_t>> read_ids(const SafetensorsFile& file,
                                             const Recording& recording,
                                             const ModelConfig& config) {
  TSR_ASSIGN_OR_RETURN(const TensorInfo* info, file.at(recording.name));
  TSR_RETURN_IF_ERROR(check_shape(file.path(), *info, recording, config));
  std::vector<std::int32_t> ids(static_cast<std::size_t>(num_elements(info->shape)));
  TSR_RETURN_IF_ERROR(file.read(recording.name, std::as_writable_bytes(std::span(ids))));
  TSR_RETURN_IF_ERROR(check_ids(file.path(), ids, recording, config));
  return ids;
}

StatusOr<RecordedTokens> read_token_file(const std::string& path, const ModelConfig& config) {
  TSR_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::open(path));
  RecordedTokens recorded;
  TSR_ASSIGN_OR_RETURN(recorded.tokens, read_ids(file, tokens_of(config), config));
  if (file.find("labels") != nullptr) {
    TSR_ASSIGN_OR_RETURN(recorded.labels, read_ids(file, labels_of(config), config));
  }
  return recorded;
}

/// With a pad_id sequences may be short, but none of the text's own bytes is padding.
Status check_text(const std::string& path, const std::string& text, const ModelConfig& config) {
  const auto size = static_cast<std::int64_t>(text.size());
  if (!config.pad_id) {
    const std::int64_t needed = config.batch * (config.seq + 1);
    if (size >= needed) return absl::OkStatus();
    return invalid_argument(
        absl::StrFormat("%s: the corpus has %d bytes; one batch of %d x (%d + 1) tokens needs %d",
                        path, size, config.batch, config.seq, needed));
  }
  if (size < 2) {
    return invalid_argument(absl::StrFormat(
        "%s: the corpus has %d bytes; a token and the one to predict are 2", path, size));
  }
  if (*config.pad_id >= kByteVocabulary) return absl::OkStatus();
  const std::size_t at = text.find(static_cast<char>(*config.pad_id));
  if (at == std::string::npos) return absl::OkStatus();
  return invalid_argument(absl::StrFormat(
      "%s: byte %d of the corpus is %d, which is the pad_id of the config; a pad_id that no byte "
      "has is allowed, as %d with a vocab of %d",
      path, at, *config.pad_id, kByteVocabulary, kByteVocabulary + 1));
}

Array equal_to(const Array& tokens, std::int64_t id) {
  const Array out = Array::empty(tokens.shape(), DType::kBool);
  const std::int32_t* token = tokens.data<std::int32_t>();
  std::transform(token, token + tokens.num_elements(), out.data<bool>(),
                 [id](std::int32_t each) { return each == id; });
  return out;
}

bool is_token_file(std::span<const std::string> paths) {
  return paths.size() == 1 && std::string_view(paths[0]).ends_with(".safetensors");
}

}  // namespace

StatusOr<TokenData> TokenData::read(std::span<const std::string> paths, const ModelConfig& config) {
  TokenData data;
  data.config_ = config;
  if (is_token_file(paths)) {
    TSR_ASSIGN_OR_RETURN(data.recorded_, read_token_file(paths[0], config));
    return data;
  }
  if (config.vocab < kByteVocabulary) {
    return invalid_argument(absl::StrFormat(
        "config: vocab is %d; text is read as bytes, which need at least 256", config.vocab));
  }
  TSR_ASSIGN_OR_RETURN(data.text_, read_corpus(paths));
  TSR_RETURN_IF_ERROR(check_text(paths[0], data.text_, config));
  return data;
}

StatusOr<TokenData> TokenData::of(RecordedTokens recorded, const ModelConfig& config) {
  const std::int64_t sequences = config.accum * config.batch;
  const auto fits = [&](std::span<const std::int32_t> ids, const Recording& recording) -> Status {
    const std::int64_t step = sequences * recording.places;
    const auto size = static_cast<std::int64_t>(ids.size());
    if (size >= config.steps * step && size % step == 0) {
      return check_ids("data", ids, recording, config);
    }
    return invalid_argument(absl::StrFormat(
        "data: %d %s; the config needs %d steps of %d x %d x (%s = %d), or more steps", size,
        to_absl(recording.name), config.steps, config.accum, config.batch,
        to_absl(recording.places_name), recording.places));
  };
  TSR_RETURN_IF_ERROR(fits(recorded.tokens, tokens_of(config)));
  if (!recorded.labels.empty()) TSR_RETURN_IF_ERROR(fits(recorded.labels, labels_of(config)));
  TokenData data;
  data.config_ = config;
  data.recorded_ = std::move(recorded);
  return data;
}

void TokenData::read_sequence(std::int64_t sequence, std::span<std::int32_t> tokens) const {
  if (!recorded_.tokens.empty()) {
    std::copy_n(recorded_.tokens.data() + sequence * (config_.seq + 1), tokens.size(),
                tokens.data());
    return;
  }
  const std::size_t least = config_.pad_id ? 1 : static_cast<std::size_t>(config_.seq);
  const std::size_t place =
      scatter_hash(static_cast<std::uint64_t>(sequence)) % (text_.size() - least);
  const std::size_t held = std::min(tokens.size(), text_.size() - place);
  const auto* source = reinterpret_cast<const unsigned char*>(text_.data()) + place;
  std::copy_n(source, held, tokens.begin());
  if (held == tokens.size()) return;
  std::fill(tokens.begin() + static_cast<std::ptrdiff_t>(held), tokens.end(),
            static_cast<std::int32_t>(*config_.pad_id));
}

TokenBatch TokenData::batch(std::int64_t step, std::int64_t micro) const {
  const Shape shape = {config_.batch, config_.seq};
  TokenBatch out = {Array::empty(shape, DType::kI32), Array::empty(shape, DType::kI32)};
  auto* targets = out.targets_BL.data<std::int32_t>();
  const std::int64_t first = (step * config_.accum + micro) * config_.batch;
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(config_.seq + 1));
  for (std::int64_t row = 0; row < config_.batch; ++row) {
    read_sequence(first + row, tokens);
    const std::int64_t at = row * config_.seq;
    std::copy_n(tokens.begin(), config_.seq, out.ids_BL.data<std::int32_t>() + at);
    std::copy_n(tokens.begin() + 1, config_.seq, targets + at);
  }
  if (config_.pad_id) out.padding_BL = equal_to(out.ids_BL, *config_.pad_id);
  const std::int64_t num_targets = num_elements(shape);
  if (!recorded_.labels.empty()) {
    std::copy_n(recorded_.labels.data() + first * config_.seq, num_targets, targets);
    const std::int64_t pad = config_.pad_id.value_or(kIgnoredLabel);
    std::replace(targets, targets + num_targets, static_cast<std::int32_t>(pad), kIgnoredLabel);
    out.ignored_BL = equal_to(out.targets_BL, kIgnoredLabel);
    std::replace(targets, targets + num_targets, kIgnoredLabel, 0);  // some class
  } else if (config_.pad_id) {
    out.ignored_BL = equal_to(out.targets_BL, *config_.pad_id);
  }
  return out;
}

}  // namespace tessera
