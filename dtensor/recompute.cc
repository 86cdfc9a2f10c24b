#include "dtensor/recompute.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "dtensor/autograd.h"
#include "dtensor/dispatch_cache.h"
#include "runtime/call/trace.h"

namespace tessera {

/// What the first pass of a piece leaves to the second, each by its order.
struct RecomputeStore {
  std::vector<SavedTensor> results;
  std::vector<std::vector<std::int64_t>> values;
};

/// The pass of a piece that runs now; Runtime::recompute_pass points to it.
struct RecomputePass {
  enum class Kind : std::uint8_t { kFirst, kSecond };
  Kind kind = Kind::kFirst;
  Recompute mode = Recompute::kFull;
  std::shared_ptr<RecomputeStore> store;
  std::size_t next_result = 0;
  std::size_t next_values = 0;
  bool is_making = false;    ///< something that is kept whole: what it is made of is not
  std::uint64_t number = 0;  ///< Runtime::pass of both

  bool keeps() const noexcept { return mode == Recompute::kSelective && !is_making; }
};

namespace {

/// Enters a pass: gradients off in the first, on in the second.
class PassScope {
 public:
  PassScope(Runtime& runtime, RecomputePass& pass)
      : runtime_(runtime), grad_before_(runtime.grad_enabled), number_before_(runtime.pass) {
    runtime.recompute_pass = &pass;
    runtime.pass = pass.number;
    runtime.grad_enabled = pass.kind == RecomputePass::Kind::kSecond;
  }
  ~PassScope() {
    runtime_.recompute_pass = nullptr;
    runtime_.grad_enabled = grad_before_;
    runtime_.pass = number_before_;
  }
  PassScope(const PassScope&) = delete;
  PassScope& operator=(const PassScope&) = delete;

 private:
  Runtime& runtime_;
  bool grad_before_;
  std::uint64_t number_before_;
};

/// What runs inside makes one kept value.
class MakingScope {
 public:
  explicit MakingScope(RecomputePass* pass) : pass_(pass), before_(pass && pass->is_making) {
    if (pass_) pass_->is_making = true;
  }
  ~MakingScope() {
    if (pass_) pass_->is_making = before_;
  }
  MakingScope(const MakingScope&) = delete;
  MakingScope& operator=(const MakingScope&) = delete;

 private:
  RecomputePass* pass_;
  bool before_;
};

/// The module path of the forward call, for events and for the nodes that the second pass makes.
class PathScope {
 public:
  PathScope(Runtime& runtime, const std::string* path)
      : runtime_(runtime), path_before_(runtime.cache().module) {
    runtime.cache().module = path;
    events_before_ = runtime.events().set_module(path ? *path : std::string());
  }
  ~PathScope() {
    runtime_.cache().module = path_before_;
    runtime_.events().set_module(std::move(events_before_));
  }
  PathScope(const PathScope&) = delete;
  PathScope& operator=(const PathScope&) = delete;

 private:
  Runtime& runtime_;
  const std::string* path_before_;
  std::string events_before_;
};

/// Stands before a piece's inputs in its second pass, and takes their cotangents as they come.
struct PieceInputNode final : GradNode {
  using GradNode::GradNode;
  std::string_view name() const override { return "input of a recomputed piece"; }
  void run(std::span<const DTensor> cotangents, std::span<DTensor>) override {
    received.assign(cotangents.begin(), cotangents.end());
  }
  std::vector<DTensor> received;
};

struct RecomputeNode final : GradNode {
  using GradNode::GradNode;
  std::string_view name() const override { return "recompute"; }
  void run(std::span<const DTensor> cotangents, std::span<DTensor> grads) override;
  void release() override {
    inputs.clear();
    store.reset();
    fn = nullptr;
  }
  std::vector<DTensor> restored_inputs(const std::shared_ptr<PieceInputNode>& border);

  Recompute mode = Recompute::kFull;
  std::uint64_t number = 0;
  PieceFn fn;
  std::vector<SavedTensor> inputs;
  std::shared_ptr<RecomputeStore> store;
};

std::vector<DTensor> RecomputeNode::restored_inputs(const std::shared_ptr<PieceInputNode>& border) {
  std::vector<DTensor> restored;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].spec == nullptr) {
      restored.emplace_back();
      continue;
    }
    restored.push_back(restore(inputs[i], absl::StrFormat("input %d", i)));
    if (edges[i].wanted()) attach(restored.back(), border, static_cast<int>(i));
  }
  inputs.clear();
  return restored;
}

void RecomputeNode::run(std::span<const DTensor> cotangents, std::span<DTensor> grads) {
  const TraceSpan span(runtime.world(), "recompute");
  const PathScope path(runtime, module);
  auto border = std::make_shared<PieceInputNode>(runtime, site);
  border->num_results = static_cast<int>(edges.size());
  std::vector<BackwardRoot> roots;
  {
    RecomputePass again{.kind = RecomputePass::Kind::kSecond,
                        .mode = mode,
                        .store = std::move(store),
                        .number = number};
    const PassScope scope(runtime, again);
    const std::vector<DTensor> results = fn(restored_inputs(border));
    for (std::size_t i = 0; i < results.size() && i < cotangents.size(); ++i) {
      GradEdge edge = edge_of(results[i]);
      if (cotangents[i].defined() && edge.wanted())
        roots.push_back({std::move(edge), cotangents[i]});
    }
  }
  backward_within(runtime, std::move(roots), border->sequence);
  for (std::size_t i = 0; i < border->received.size(); ++i) {
    grads[i] = std::move(border->received[i]);
  }
}

}  // namespace

std::vector<DTensor> recompute(Runtime& runtime, Recompute mode, std::span<const DTensor> inputs,
                               const PieceFn& fn, const Site& site) {
  const bool inside_piece = runtime.recompute_pass != nullptr;
  if (mode == Recompute::kNone || !runtime.grad_enabled || inside_piece) return fn(inputs);
  auto node = std::make_shared<RecomputeNode>(runtime, site);
  node->mode = mode;
  node->number = runtime.pass;
  node->fn = fn;
  node->store = std::make_shared<RecomputeStore>();
  for (const DTensor& input : inputs) {
    node->edges.push_back(records(runtime, input) ? edge_of(input) : GradEdge{});
    node->inputs.push_back(input.defined() ? save(input) : SavedTensor{});
  }
  std::vector<DTensor> results;
  {
    RecomputePass first{.kind = RecomputePass::Kind::kFirst,
                        .mode = mode,
                        .store = node->store,
                        .number = node->number};
    const PassScope scope(runtime, first);
    std::vector<DTensor> given;
    for (const DTensor& input : inputs) given.push_back(input.defined() ? input.detach() : input);
    results = fn(given);
  }
  node->num_results = static_cast<int>(results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined()) continue;
    results[i] = results[i].detach();
    if (is_floating(results[i].dtype())) attach(results[i], node, static_cast<int>(i));
  }
  return results;
}

bool is_in_piece(const Runtime& runtime) { return runtime.recompute_pass != nullptr; }

bool is_recomputing(const Runtime& runtime) {
  const RecomputePass* pass = runtime.recompute_pass;
  return pass != nullptr && pass->kind == RecomputePass::Kind::kSecond;
}

bool is_training_pass(const Runtime& runtime) {
  if (runtime.recompute_pass == nullptr) return runtime.grad_enabled;
  return runtime.recompute_pass->kind == RecomputePass::Kind::kFirst;
}

KeptResult::KeptResult(Runtime& runtime) {
  RecomputePass* pass = runtime.recompute_pass;
  if (pass == nullptr || !pass->keeps()) return;
  store_ = pass->store;
  index_ = pass->next_result++;
  takes_ = pass->kind == RecomputePass::Kind::kSecond;
  if (!takes_) store_->results.emplace_back();
}

const Spec* KeptResult::spec() const { return store_->results.at(index_).spec; }

Array KeptResult::take() {
  const SavedTensor kept = std::exchange(store_->results.at(index_), {});
  if (!kept.local.is_null() && kept.local.storage()->version() != kept.version) {
    throw Error(failed_precondition(
        "recompute: a result that the piece keeps was written in place since; clone() it before "
        "the write"));
  }
  return kept.local;
}

void KeptResult::keep(const Array& result, const Spec* spec) {
  if (!store_ || takes_) return;
  store_->results[index_] = {
      .spec = spec, .local = result, .version = result.is_null() ? 0 : result.storage()->version()};
}

DTensor kept_tensor(Runtime& runtime, const std::function<DTensor()>& make) {
  KeptResult kept(runtime);
  if (!kept.has()) {
    const MakingScope scope(runtime.recompute_pass);
    DTensor made = make();
    kept.keep(made.local(), made.impl()->spec);
    return made;
  }
  const Spec* spec = kept.spec();
  return make_tensor(runtime, spec, kept.take());
}

std::vector<std::int64_t> kept_values(Runtime& runtime,
                                      const std::function<std::vector<std::int64_t>()>& make) {
  RecomputePass* pass = runtime.recompute_pass;
  if (pass == nullptr || pass->is_making) return make();
  const MakingScope scope(pass);
  if (pass->kind == RecomputePass::Kind::kFirst) {
    pass->store->values.push_back(make());
    return pass->store->values.back();
  }
  const std::vector<std::int64_t>& before = pass->store->values.at(pass->next_values++);
  if (pass->mode == Recompute::kSelective) return before;
  std::vector<std::int64_t> again = make();
  if (again == before) return again;
  throw Error(internal_error(absl::StrFormat(
      "recompute: the second pass of %s sees sizes %s where the first saw %s; what decides them "
      "must not change between forward and backward",
      runtime.events().module(), to_string(ShapeView(again)), to_string(ShapeView(before)))));
}

}  // namespace tessera
