#include "dtensor/gather_bucket.h"

#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtensor/autograd.h"
#include "dtensor/dispatch_cache.h"
#include "dtensor/observer.h"
#include "dtensor/ops.h"
#include "dtensor/redistribute.h"
#include "kernels/memory_use.h"

namespace tessera {
namespace {

struct Item {
  DTensor stored;
  const Spec* shard = nullptr;  ///< of the stored shards, cast
  const Spec* used = nullptr;
  bool moves = false;  ///< the same on all ranks
};

Item item_of(const std::string& bucket, const GatherItem& given) {
  const Spec& stored = given.stored.spec();
  Runtime& runtime = given.stored.runtime();
  const bool fits = stored.mesh() == given.used.mesh() && !stored.has_partial() &&
                    stored.global_shape() == given.used.global_shape();
  if (!fits) {
    throw Error(invalid_argument(absl::StrFormat(
        "gather bucket %s: %s is stored as %s and would be used as %s; both must be of one mesh "
        "and shape, and the stored one not Partial",
        bucket, label_of(given.stored, "a tensor"), stored.to_string(), given.used.to_string())));
  }
  Item item = {.stored = given.stored,
               .shard = runtime.intern(stored.with_dtype(given.used.dtype())),
               .used = runtime.intern(given.used)};
  item.moves = !plan_between(runtime, item.shard, item.used).steps.empty();
  return item;
}

/// Events inside belong to the bucket, wherever the program is.
class BucketModule {
 public:
  BucketModule(EventLog& events, const std::string& name)
      : events_(events), before_(events.set_module(name)) {}
  ~BucketModule() { events_.set_module(before_); }
  BucketModule(const BucketModule&) = delete;
  BucketModule& operator=(const BucketModule&) = delete;

 private:
  EventLog& events_;
  std::string before_;
};

std::uint32_t version_of(const Array& x) { return x.is_null() ? 0 : x.storage()->version(); }

}  // namespace

/// What does not change from step to step.
struct GatherBucket::Share {
  std::string name;
  Runtime* runtime = nullptr;
  std::vector<Item> items;

  /// Brings tensors to where they are wanted, in one bucket.
  std::vector<DTensor> move_all(std::span<const DTensor> xs, std::span<const Spec* const> to,
                                const ExecuteInfo& info) const;
  std::vector<std::uint32_t> leaf_versions() const;
};

std::vector<DTensor> GatherBucket::Share::move_all(std::span<const DTensor> xs,
                                                   std::span<const Spec* const> to,
                                                   const ExecuteInfo& info) const {
  const BucketModule module(runtime->events(), name);
  std::vector<PlanProgram> programs;
  std::vector<Array> locals;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    programs.push_back(program_between(*runtime, xs[i].impl()->spec, to[i]));
    locals.push_back(xs[i].local());
  }
  std::vector<Array> arrays = execute_all(runtime->world(), programs, locals, info);
  std::vector<DTensor> results;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    results.push_back(make_tensor(*runtime, to[i], std::move(arrays[i])));
  }
  if (runtime->observer != nullptr) [[unlikely]] {
    runtime->observer->on_move(
        {.from = xs, .to = results, .life = BucketLife::kGathered, .site = info.site});
  }
  return results;
}

std::vector<std::uint32_t> GatherBucket::Share::leaf_versions() const {
  std::vector<std::uint32_t> versions;
  for (const Item& item : items) versions.push_back(version_of(item.stored.local()));
  return versions;
}

/// What is gathered of one set of the leaves' values. Saved aliases keep it alive, it does not keep
/// them.
class GatherBucket::Generation final : public ReturningStorage,
                                       public std::enable_shared_from_this<Generation> {
 public:
  Generation(std::shared_ptr<const Share> share, std::shared_ptr<BackwardHook> hook)
      : share_(std::move(share)), hook_(std::move(hook)), leaf_versions_(share_->leaf_versions()) {}

  ~Generation() override { forget_storages(); }
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  const Share& share() const noexcept { return *share_; }
  bool is_current() const { return share_->leaf_versions() == leaf_versions_; }
  bool is_there() const noexcept { return !arrays_.empty(); }
  bool is_awaited() const noexcept { return num_aliases_ > 0 && !is_there(); }

  void start(const Site& site);
  /// Waits for what start() has begun, or gathers now.
  const std::vector<Array>& arrays(const Site& site);
  void begin_use(GatheredLife life);
  void end_use();
  void release();
  void end_backward();
  void tell(BackwardStage stage) const {
    if (*hook_) (*hook_)(stage);
  }

  std::shared_ptr<ReturningArray> returning(const Array& array) override;
  /// Item i as the backward pass reads it.
  const Array& read_back(std::size_t i);
  void count_alias(int change) noexcept { num_aliases_ += change; }

 private:
  void forget();
  void forget_storages();
  void tell_begun(std::span<const DTensor> shards) const;
  void tell_gathered() const;

  std::shared_ptr<const Share> share_;
  std::shared_ptr<BackwardHook> hook_;
  std::vector<std::uint32_t> leaf_versions_;
  std::vector<Array> arrays_;            ///< empty: not there
  std::vector<std::uint32_t> versions_;  ///< of the arrays, as gathered
  std::optional<BucketWork> work_;
  GatheredLife life_ = GatheredLife::kForward;
  int num_aliases_ = 0;
  bool is_reading_ = false;  ///< a backward pass has begun to read
  Site site_ = Site::current();
};

/// An operand that an op saved: a view of one gathered tensor.
class GatherBucket::Alias final : public ReturningArray {
 public:
  Alias(std::shared_ptr<Generation> generation, std::size_t item, const Array& like)
      : generation_(std::move(generation)),
        item_(item),
        shape_(like.shape()),
        strides_(like.strides()),
        offset_(like.offset()) {
    generation_->count_alias(1);
  }
  ~Alias() override { generation_->count_alias(-1); }
  Alias(const Alias&) = delete;
  Alias& operator=(const Alias&) = delete;
  Array bring() override {
    return generation_->read_back(item_).as_strided(shape_, strides_, offset_);
  }

 private:
  std::shared_ptr<Generation> generation_;
  std::size_t item_;
  Shape shape_, strides_;
  std::int64_t offset_;
};

void GatherBucket::Generation::start(const Site& site) {
  if (work_ || is_there()) return;
  if (!is_current()) {
    throw Error(failed_precondition(absl::StrFormat(
        "backward: what %s had gathered for the forward pass was given back, and its tensors were "
        "written since, so the values of then cannot come again; run backward() before the "
        "update, or keep what is gathered. [gathered at %s:%d]",
        share_->name, site_.file_name(), site_.line())));
  }
  site_ = site;
  Runtime& runtime = *share_->runtime;
  const NoGrad no_grad(runtime);
  const BucketModule module(runtime.events(), share_->name);
  const MemoryTagScope tag(*runtime.world().allocator(), MemoryTag::kGathered);
  std::vector<PlanProgram> programs;
  std::vector<Array> locals;
  std::vector<DTensor> shards;  // for who observes
  for (const Item& item : share_->items) {
    const DTensor stored = item.stored.detach();
    const bool same = stored.impl()->spec == item.shard;
    const DTensor shard = same ? stored : cast(stored, item.shard->dtype(), site);
    locals.push_back(shard.local());
    if (runtime.observer != nullptr) shards.push_back(shard);
    programs.push_back(program_between(runtime, item.shard, item.used));
  }
  const std::string_view why = is_in_backward(runtime) ? "gather for backward" : "gather";
  work_.emplace(execute_all_async(runtime.world(), programs, locals,
                                  {.tensor = share_->name, .why = why, .site = site}));
  if (runtime.observer != nullptr) [[unlikely]]
    tell_begun(shards);
}

const std::vector<Array>& GatherBucket::Generation::arrays(const Site& site) {
  if (is_there()) return arrays_;
  start(site);
  {
    // A plan of several steps makes its last arrays now.
    const MemoryTagScope tag(*share_->runtime->world().allocator(), MemoryTag::kGathered);
    arrays_ = work_->wait();
  }
  work_.reset();
  versions_.clear();
  for (const Array& each : arrays_) versions_.push_back(version_of(each));
  if (share_->runtime->observer != nullptr) [[unlikely]]
    tell_gathered();
  return arrays_;
}

void GatherBucket::Generation::tell_begun(std::span<const DTensor> shards) const {
  std::vector<const Spec*> to;
  std::vector<std::string> names;
  for (const Item& item : share_->items) {
    to.push_back(item.used);
    names.push_back(item.stored.name());
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  share_->runtime->observer->on_move_begun(
      this, {.from = shards, .to = to, .names = views, .site = site_});
}

void GatherBucket::Generation::tell_gathered() const {
  std::vector<DTensor> used;
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    used.push_back(make_tensor(*share_->runtime, share_->items[i].used, arrays_[i]));
  }
  share_->runtime->observer->on_move_ended(this, used);
}

void GatherBucket::Generation::begin_use(GatheredLife life) {
  life_ = life;
  auto& returning = share_->runtime->cache().returning;
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    if (share_->items[i].moves && !arrays_[i].is_null()) {
      returning[arrays_[i].storage().get()] = this;
    }
  }
}

void GatherBucket::Generation::forget_storages() {
  auto& returning = share_->runtime->cache().returning;
  if (returning.empty()) return;
  for (const Array& each : arrays_) {
    if (!each.is_null()) returning.erase(each.storage().get());
  }
}

void GatherBucket::Generation::end_use() {
  forget_storages();
  if (life_ == GatheredLife::kForward) forget();
}

void GatherBucket::Generation::release() {
  if (work_) work_->wait();
  forget();
}

void GatherBucket::Generation::end_backward() {
  if (life_ != GatheredLife::kReleased) forget();
  is_reading_ = false;
}

void GatherBucket::Generation::forget() {
  work_.reset();
  arrays_.clear();
  is_reading_ = false;
}

std::shared_ptr<ReturningArray> GatherBucket::Generation::returning(const Array& array) {
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    if (arrays_[i].is_null() || arrays_[i].storage() != array.storage()) continue;
    // What was written since would not come again.
    if (version_of(array) != versions_[i]) return nullptr;
    return std::make_shared<Alias>(shared_from_this(), i, array);
  }
  return nullptr;
}

const Array& GatherBucket::Generation::read_back(std::size_t i) {
  const Array& array = arrays(site_)[i];
  if (version_of(array) != versions_[i]) {
    throw Error(failed_precondition(absl::StrFormat(
        "backward: %s was gathered for the forward pass, and written in place since; clone() it "
        "before the write. [gathered at %s:%d]",
        label_of(share_->items[i].stored, share_->name), site_.file_name(), site_.line())));
  }
  if (!std::exchange(is_reading_, true)) tell(BackwardStage::kReads);
  return array;
}

/// All gathers of a bucket at once, so that their gradients are reduced together.
struct GatherBucket::Node final : GradNode {
  using GradNode::GradNode;
  std::string_view name() const override { return "gather"; }
  void run(std::span<const DTensor> cotangents, std::span<DTensor> grads) override;
  void release() override { generation.reset(); }

  std::shared_ptr<Generation> generation;
};

void GatherBucket::Node::run(std::span<const DTensor> cotangents, std::span<DTensor> grads) {
  const Share& share = generation->share();
  std::vector<DTensor> summands;
  std::vector<const Spec*> homes;
  std::vector<std::size_t> positions;
  generation->end_backward();
  generation->tell(BackwardStage::kDone);
  for (std::size_t i = 0; i < share.items.size(); ++i) {
    if (!cotangents[i].defined() || !edges[i].wanted()) continue;
    const DTensor& leaf = share.items[i].stored;
    DTensor grad = cotangents[i].dtype() == leaf.dtype() ? cotangents[i]
                                                         : cast(cotangents[i], leaf.dtype(), site);
    if (leaf.impl()->reduction == GradReduction::kDeferred) {
      grads[i] = std::move(grad);
      continue;
    }
    summands.push_back(std::move(grad));
    homes.push_back(leaf.impl()->spec);
    positions.push_back(i);
  }
  std::vector<DTensor> reduced = share.move_all(
      summands, homes, {.tensor = share.name, .why = "gradients of a bucket", .site = site});
  for (std::size_t i = 0; i < positions.size(); ++i) grads[positions[i]] = std::move(reduced[i]);
}

GatherBucket::GatherBucket(std::string name, std::vector<GatherItem> items)
    : hook_(std::make_shared<BackwardHook>()) {
  if (items.empty()) {
    throw Error(invalid_argument("gather bucket " + name + ": it has no tensors"));
  }
  auto share = std::make_shared<Share>();
  share->runtime = &items[0].stored.runtime();
  for (const GatherItem& item : items) share->items.push_back(item_of(name, item));
  share->name = std::move(name);
  share_ = std::move(share);
}

GatherBucket::~GatherBucket() { *hook_ = nullptr; }

GatherBucket::Generation& GatherBucket::current() {
  if (generation_ == nullptr || !generation_->is_current()) {
    generation_ = std::make_shared<Generation>(share_, hook_);
  }
  return *generation_;
}

void GatherBucket::start(const Site& site) { current().start(site); }

std::vector<DTensor> GatherBucket::gather(GatheredLife life, const Site& site) {
  Generation& generation = current();
  const std::vector<Array>& arrays = generation.arrays(site);
  generation.begin_use(life);
  Runtime& runtime = *share_->runtime;
  std::shared_ptr<Node> node;
  std::vector<DTensor> results;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const Item& item = share_->items[i];
    results.push_back(make_tensor(runtime, item.used, arrays[i]));
    results.back().set_name(item.stored.name());
    if (!records(runtime, item.stored)) continue;
    if (node == nullptr) {
      node = std::make_shared<Node>(runtime, site);
      node->generation = generation_;
      node->num_results = static_cast<int>(arrays.size());
      node->edges.resize(arrays.size());
    }
    node->edges[i] = edge_of(item.stored);
    attach(results.back(), node, static_cast<int>(i));
  }
  return results;
}

void GatherBucket::end_use() {
  if (generation_ != nullptr) generation_->end_use();
}

void GatherBucket::release() {
  if (generation_ != nullptr) generation_->release();
}

void GatherBucket::end_backward() {
  if (generation_ != nullptr) generation_->end_backward();
}

bool GatherBucket::is_awaited() const {
  return generation_ != nullptr && generation_->is_awaited();
}

void GatherBucket::on_backward(BackwardHook hook) { *hook_ = std::move(hook); }

void GatherBucket::reduce_gradients(const Site& site) {
  std::vector<DTensor> summands;
  std::vector<const Spec*> homes;
  std::vector<DTensor> leaves;
  for (const Item& item : share_->items) {
    const DTensor grad = item.stored.grad();
    if (!grad.defined() || grad.impl()->spec == item.stored.impl()->spec) continue;
    leaves.push_back(item.stored);
    summands.push_back(grad);
    homes.push_back(item.stored.impl()->spec);
  }
  if (leaves.empty()) return;
  const NoGrad no_grad(*share_->runtime);
  const std::vector<DTensor> reduced = share_->move_all(
      summands, homes, {.tensor = share_->name, .why = "kept gradients of a bucket", .site = site});
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    tag_memory(*share_->runtime->world().allocator(), reduced[i].local(), MemoryTag::kGradients);
    leaves[i].set_grad(reduced[i]);
  }
}

bool is_in_backward(Runtime& runtime) { return runtime.cache().backward_depth > 0; }

}  // namespace tessera
