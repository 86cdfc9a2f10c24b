// dtensor/gather_bucket.h: tensors that are stored in shards and used gathered, as a bucket: one
// exchange for each group of ranks gathers them all, and one brings all their gradients home. What
// ops save of the gathered tensors need not be kept: the backward pass gathers them again.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dtensor/dtensor.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// A leaf, and the spec (of its mesh and shape) that it is used with. The dtype of `used` may be
/// another one: shards are cast before they travel, gradients after they have been computed, so
/// that they are reduced in the dtype of the leaf.
struct GatherItem {
  DTensor stored;
  Spec used;
};

/// How long gathered tensors are kept.
enum class GatheredLife : std::uint8_t {
  kForward,   ///< while they are in use: the backward pass gathers again
  kBackward,  ///< until the backward pass has made their gradients
  kReleased   ///< until release(), for any number of passes
};

/// How far a backward pass is with a bucket.
enum class BackwardStage : std::uint8_t {
  kReads,  ///< it has read its first tensor: the bytes are there
  kDone    ///< all cotangents are there, and the bytes may have gone; gradients are reduced next
};

class GatherBucket {
 public:
  /// `name` stands in events, as their module. Throws Error: InvalidArgument without items, and
  /// where a leaf is Partial, or used on another mesh or with another shape.
  GatherBucket(std::string name, std::vector<GatherItem> items);
  ~GatherBucket();
  GatherBucket(const GatherBucket&) = delete;
  GatherBucket& operator=(const GatherBucket&) = delete;

  /// Begins to gather and returns; nothing where that is under way or done. Collective: yes.
  void start(const Site& site = Site::current());
  /// The tensors as they are used, in the order of the items, recorded as one node for all.
  /// Collective: yes, unless they are there. Backward: one bucket of reductions.
  std::vector<DTensor> gather(GatheredLife life, const Site& site = Site::current());
  /// The part of the program that uses what gather() returned is over.
  void end_use();
  /// Forgets what is gathered, and what start() began for nobody.
  void release();
  /// The same for what is kept for a backward pass that has come to other parts of the program.
  void end_backward();

  /// True where a backward pass is going to read tensors that are not there.
  bool is_awaited() const;
  using BackwardHook = std::function<void(BackwardStage)>;
  /// Called in each backward pass, as it comes to a stage.
  void on_backward(BackwardHook hook);

  /// Brings home the gradients that their leaves' GradReduction::kDeferred has kept. Collective:
  /// yes, where there are any.
  void reduce_gradients(const Site& site = Site::current());

 private:
  struct Share;
  class Generation;
  class Alias;
  struct Node;
  Generation& current();

  std::shared_ptr<const Share> share_;
  std::shared_ptr<Generation> generation_;  ///< of the leaves' present values
  std::shared_ptr<BackwardHook> hook_;
};

/// True inside a backward pass, as where a part of the forward pass is run again.
bool is_in_backward(Runtime& runtime);

}  // namespace tessera
