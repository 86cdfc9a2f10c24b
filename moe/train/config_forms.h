// moe/train/config_forms.h: how the values of a config's keys look in JSON. A form reads a value,
// with errors that say what is allowed, and writes it as it would read it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "io/json.h"
#include "moe/train/config.h"
#include "moe/train/read_choice.h"

namespace tessera {

/// Far beyond any model's: what is counted by layer or by expert can be listed, and the product of
/// any three sizes fits 64 bits.
inline constexpr std::int64_t kMostLayers = 1 << 11;
inline constexpr std::int64_t kMostParts = 1 << 16;  ///< heads, experts
inline constexpr std::int64_t kMostSize = 1 << 24;   ///< of a dim; tokens of a sequence
inline constexpr std::int64_t kMostWords = 1 << 30;
inline constexpr std::int64_t kMostSequences = 1 << 20;  ///< of a micro-batch; micro-batches
inline constexpr std::int64_t kMostSteps = std::int64_t{1} << 40;

struct IntegerForm {
  std::int64_t low = 0;
  std::int64_t high = kMostSize;
  Status read(const JsonView& at, std::int64_t& field) const;
  Json write(std::int64_t field) const { return {field}; }
};

/// At least 1; null: absent.
struct OptionalIntegerForm {
  std::int64_t high = kMostParts;
  Status read(const JsonView& at, std::optional<std::int64_t>& field) const;
  Json write(const std::optional<std::int64_t>& field) const {
    return field ? Json(*field) : Json();
  }
};

struct NumberForm {
  double low = 0.0;
  std::optional<double> high = {};
  Status read(const JsonView& at, double& field) const;
  Json write(double field) const { return {field}; }
};

/// Any number; null: absent.
struct OptionalNumberForm {
  Status read(const JsonView& at, std::optional<double>& field) const;
  Json write(const std::optional<double>& field) const { return field ? Json(*field) : Json(); }
};

struct FlagForm {
  Status read(const JsonView& at, bool& field) const;
  Json write(bool field) const { return {field}; }
};

/// One of a few names.
template <class Value>
struct ChoiceForm {
  std::vector<std::pair<std::string_view, Value>> choices;
  Status read(const JsonView& at, Value& field) const {
    return read_choice(at, std::span(choices), field);
  }
  Json write(Value field) const {
    for (const auto& [name, value] : choices) {
      if (value == field) return {name};
    }
    return {};
  }
};

/// A loss's coefficient, 0 where it is off.
struct CoefficientForm : NumberForm {
  Status read(const JsonView& at, double& field) const;
};
/// Noise in 1 ± jitter.
struct JitterForm : NumberForm {
  Status read(const JsonView& at, double& field) const;
};
/// Above 0; null: no limit.
struct CapacityForm : OptionalNumberForm {
  Status read(const JsonView& at, std::optional<double>& field) const;
};
/// A list of numbers; null: none.
struct LoadsForm {
  Status read(const JsonView& at, std::vector<double>& field) const;
  Json write(const std::vector<double>& field) const;
};
/// A number above 0, or "inf".
struct NormTypeForm {
  Status read(const JsonView& at, double& field) const;
  Json write(double field) const;
};
/// "BF16", "F32" or "F64".
struct StateDtypeForm {
  Status read(const JsonView& at, std::optional<DType>& field) const;
  Json write(const std::optional<DType>& field) const;
};
/// An id of the vocabulary, which must have been read; null: absent.
struct PadIdForm {
  Status read(const JsonView& at, ModelConfig& config) const;
  Json write(const ModelConfig& config) const { return OptionalIntegerForm{}.write(config.pad_id); }
};
/// [beta1, beta2]
struct BetasForm {
  Status read(const JsonView& at, ModelConfig& config) const;
  Json write(const ModelConfig& config) const;
};
/// Needs the momentum to have been read.
struct NesterovForm {
  Status read(const JsonView& at, ModelConfig& config) const;
  Json write(const ModelConfig& config) const;
};
/// [{"pattern": …, "lr_scale": …, "weight_decay": …, "betas": …}, …]
struct ParamGroupsForm {
  Status read(const JsonView& at, std::vector<ParamGroup>& field) const;
  Json write(const std::vector<ParamGroup>& field) const;
};

}  // namespace tessera
