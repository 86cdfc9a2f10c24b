// parallel/fsdp.h: FSDP units: parameters, of whatever mesh, that are gathered together, and whose
// gradients are reduced together. A unit is used within a scope; around it, the next one is
// prefetched and its own bytes are given back. Source: torch FSDP2, ZeRO-3.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dtensor/gather_bucket.h"
#include "parallel/parameter.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Made by ParameterSet::begin_unit().
class FsdpUnit {
 public:
  /// `previous` is the unit used before this one in a forward pass; null: none.
  FsdpUnit(std::string name, const FsdpPolicy& policy, FsdpUnit* previous);
  FsdpUnit(const FsdpUnit&) = delete;
  FsdpUnit& operator=(const FsdpUnit&) = delete;

  const std::string& name() const noexcept { return name_; }
  std::span<Parameter* const> parameters() const noexcept { return parameters_; }
  /// Before the unit's first use.
  void add(Parameter& parameter) { parameters_.push_back(&parameter); }
  /// See ParameterSet::finish_gradients().
  void finish_gradients(const Site& site);

 private:
  friend class FsdpUse;
  GatherBucket* bucket();
  void gather(const Site& site);
  void end_use();
  void prefetch_forward(const Site& site);
  void prefetch_backward(const Site& site);
  GatheredLife life() const;

  std::string name_;
  FsdpPolicy policy_;
  FsdpUnit* previous_ = nullptr;
  FsdpUnit* next_ = nullptr;
  std::vector<Parameter*> parameters_;
  std::optional<GatherBucket> bucket_;  ///< made at the first use
  bool is_recomputed_ = false;          ///< a backward pass uses it again
};

/// A unit in use: its parameters' use() returns what is gathered. Collective: yes, at its beginning
/// (unless a prefetch has done it): one exchange for each group of ranks; the next unit's gather
/// has been issued when it returns. Backward: one bucket of reductions for the unit; the gather of
/// the unit before it is issued before its own gradients are computed.
class FsdpUse {
 public:
  explicit FsdpUse(FsdpUnit& unit, const Site& site = Site::current());
  ~FsdpUse();
  FsdpUse(const FsdpUse&) = delete;
  FsdpUse& operator=(const FsdpUse&) = delete;

 private:
  FsdpUnit& unit_;
};

}  // namespace tessera
