// dtensor/recompute.h: pieces of a forward pass that are not recorded but run again in the backward
// pass: activations for compute. A piece is pure: what it reads and its inputs give the same result
// twice.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dtensor/dtensor.h"
#include "placement/api.h"

namespace tessera TSR_API {

enum class Recompute : std::uint8_t {
  kNone,      ///< everything is recorded as it runs
  kFull,      ///< a piece keeps its inputs and runs again whole, exchanges included
  kSelective  ///< it keeps what it marks as well (KeptResult, kept_tensor, kept_values)
};

using PieceFn = std::function<std::vector<DTensor>(std::span<const DTensor>)>;

/// fn(inputs), with gradients to `inputs` and to every leaf that fn uses. While gradients are on,
/// the first pass runs with them off and keeps the inputs; backward runs fn again with gradients
/// on, under the same module path, and goes back through it. Results are aliased, never recorded
/// twice. Errors: FailedPrecondition in backward where fn uses a tensor with history that is not
/// among its inputs, or where an input was written in place since. A piece inside a piece is part
/// of it. Collective: those of fn, once more in backward, but for those kept.
std::vector<DTensor> recompute(Runtime& runtime, Recompute mode, std::span<const DTensor> inputs,
                               const PieceFn& fn, const Site& site = Site::current());

/// True in either pass of a piece.
bool is_in_piece(const Runtime& runtime);
/// True in the second pass of a piece: what counts or reports has seen this forward already.
bool is_recomputing(const Runtime& runtime);
/// True where a forward pass is one of training, and runs for the first time: it is recorded, or is
/// the first pass of a piece (which runs with gradients off). False in evaluation and second
/// passes.
bool is_training_pass(const Runtime& runtime);

struct RecomputeStore;  // dtensor/recompute.cc

/// A place for one result of this rank that a selective piece keeps: reserved in the same order in
/// both passes. Outside such a piece nothing is kept.
class KeptResult {
 public:
  explicit KeptResult(Runtime& runtime);
  /// True in the second pass: take() has it, and it need not be made.
  bool has() const noexcept { return takes_; }
  /// Once. Errors: FailedPrecondition where it was written in place since.
  Array take();
  const Spec* spec() const;
  void keep(const Array& result, const Spec* spec = nullptr);

 private:
  std::shared_ptr<RecomputeStore> store_;
  std::size_t index_ = 0;
  bool takes_ = false;
};

/// What `make` returns, a tensor without history; in the second pass of a selective piece what it
/// returned in the first, without running it.
DTensor kept_tensor(Runtime& runtime, const std::function<DTensor()>& make);
/// The same for values on the host that decide shapes. In a full piece they are made again, and
/// must be what they were. Errors: Internal where they are not.
std::vector<std::int64_t> kept_values(Runtime& runtime,
                                      const std::function<std::vector<std::int64_t>()>& make);

}  // namespace tessera
