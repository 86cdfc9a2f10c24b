#include "parallel/fsdp.h"

#include <utility>

#include "dtensor/recompute.h"

namespace tessera {

FsdpUnit::FsdpUnit(std::string name, const FsdpPolicy& policy, FsdpUnit* previous)
    : name_(std::move(name)), policy_(policy), previous_(previous) {
  if (previous != nullptr) previous->next_ = this;
}

GatherBucket* FsdpUnit::bucket() {
  if (!bucket_ && !parameters_.empty()) {
    std::vector<GatherItem> items;
    for (const Parameter* each : parameters_) items.push_back({each->stored(), each->used_spec()});
    bucket_.emplace(name_, std::move(items));
    bucket_->on_backward([this](BackwardStage stage) {
      // The end of this unit's backward pass is the beginning of the one before.
      FsdpUnit* present = stage == BackwardStage::kReads ? this : previous_;
      if (present != nullptr) present->prefetch_backward(Site::current());
    });
  }
  return bucket_ ? &*bucket_ : nullptr;
}

GatheredLife FsdpUnit::life() const {
  Runtime& runtime = parameters_.front()->stored().runtime();
  if (policy_.reshard == ReshardAfterForward::kNever) return GatheredLife::kReleased;
  // Used again by a backward pass, which goes on with it at once.
  if (is_in_backward(runtime)) return GatheredLife::kBackward;
  const bool is_kept = policy_.reshard == ReshardAfterForward::kDefault && next_ == nullptr;
  return is_kept && runtime.grad_enabled ? GatheredLife::kBackward : GatheredLife::kForward;
}

void FsdpUnit::gather(const Site& site) {
  GatherBucket* own = bucket();
  if (own == nullptr) return;
  Runtime& runtime = parameters_.front()->stored().runtime();
  const bool in_backward = is_in_backward(runtime);
  // A piece's first pass says already that there will be a second one.
  is_recomputed_ = is_recomputed_ || in_backward || is_in_piece(runtime);
  std::vector<DTensor> gathered = own->gather(life(), site);
  for (std::size_t i = 0; i < gathered.size(); ++i) {
    parameters_[i]->set_gathered(std::move(gathered[i]));
  }
  if (in_backward) {
    prefetch_backward(site);
  } else {
    prefetch_forward(site);
  }
}

void FsdpUnit::end_use() {
  if (!bucket_) return;
  for (Parameter* each : parameters_) each->set_gathered({});
  bucket_->end_use();
}

void FsdpUnit::prefetch_forward(const Site& site) {
  if (policy_.prefetch == Prefetch::kOff || next_ == nullptr) return;
  if (GatherBucket* next = next_->bucket()) next->start(site);
}

void FsdpUnit::prefetch_backward(const Site& site) {
  // Of a unit without trainable parameters nothing else says that its backward pass is over.
  if (next_ != nullptr && next_->bucket_) next_->bucket_->end_backward();
  if (policy_.prefetch == Prefetch::kOff || previous_ == nullptr || !previous_->bucket_) return;
  if (previous_->bucket_->is_awaited() || previous_->is_recomputed_) {
    previous_->bucket_->start(site);
  }
}

void FsdpUnit::finish_gradients(const Site& site) {
  if (!bucket_) return;
  bucket_->reduce_gradients(site);
  bucket_->release();
}

FsdpUse::FsdpUse(FsdpUnit& unit, const Site& site) : unit_(unit) { unit_.gather(site); }

FsdpUse::~FsdpUse() { unit_.end_use(); }

}  // namespace tessera
