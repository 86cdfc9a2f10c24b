#include "dtensor/dispatch.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "dtensor/autograd.h"
#include "dtensor/checked.h"
#include "dtensor/dispatch_cache.h"
#include "dtensor/lowering.h"
#include "dtensor/observer.h"
#include "dtensor/op_node.h"
#include "dtensor/overlap.h"
#include "dtensor/redistribute.h"
#include "dtensor/resolve_call.h"
#include "dtensor/tensor_impl.h"
#include "kernels/elementwise.h"
#include "placement/plan_cost.h"
#include "placement/printable.h"
#include "placement/reduce_op.h"
#include "strategies/rules/binding.h"
#include "strategies/rules/in_place.h"

namespace tessera {

namespace {

constexpr std::size_t kMaxCachedCalls = 1U << 16;

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) noexcept {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
  return hash ^ (hash >> 29);
}

/// Keys outlive the caller's attributes: their names become those of the op's declaration.
Attrs with_own_names(const Op& op, const Attrs& attrs) {
  Attrs own;
  for (const auto& [name, value] : attrs) {
    for (const AttrDef& def : op.def.attrs) {
      if (def.name == name) own.set(def.name, value);
    }
  }
  return own;
}

absl::InlinedVector<const Spec*, 4> specs_of(Operands operands) {
  absl::InlinedVector<const Spec*, 4> specs;
  for (const DTensor* each : operands) {
    specs.push_back(each->defined() ? each->impl()->spec : nullptr);
  }
  return specs;
}

/// As the program would say it: "{Shard{0}, Replicate{}}".
std::string in_code(const Spec& spec) {
  const StatusOr<Placements> placements = spec.placements();
  if (!placements.ok()) return "Layout of " + spec.to_string();
  std::string text;
  for (const Placement& each : *placements) {
    if (!text.empty()) text += ", ";
    if (const auto* shard = std::get_if<Shard>(&each)) {
      text += absl::StrFormat("Shard{%d}", shard->dim);
    } else if (const auto* strided = std::get_if<StridedShard>(&each)) {
      text += absl::StrFormat("StridedShard{%d, %d}", strided->dim, strided->split_factor);
    } else if (const auto* partial = std::get_if<Partial>(&each)) {
      std::string op(name_of(partial->op));
      op[0] = absl::ascii_toupper(static_cast<unsigned char>(op[0]));
      text += "Partial{ReduceOp::k" + op + "}";
    } else if (const auto* ragged = std::get_if<Ragged>(&each)) {
      text += absl::StrFormat("Ragged{%d, {%s}}", ragged->dim, ragged->sizes.to_string());
    } else if (const auto* owned = std::get_if<Owned>(&each)) {
      text += absl::StrFormat("Owned{%d}", owned->coord);
    } else {
      text += "Replicate{}";
    }
  }
  return "{" + text + "}";
}

void check_policy(const Runtime& runtime, const ResolvedCall& call, const OperandMove& move,
                  const DTensor& operand) {
  const ImplicitPolicy policy = runtime.implicit_policy;
  if (policy == ImplicitPolicy::kAllow) return;
  if (!move.communicates && policy != ImplicitPolicy::kForce) return;
  const std::string label = operand_name(*call.op, move.operand);
  std::string remedy = "redistribute it before the call";
  if (policy == ImplicitPolicy::kForbid) {
    remedy += ", or allow implicit redistribution in this region";
  } else if (policy == ImplicitPolicy::kForce) {
    const std::string name = label_of(operand, label);
    remedy = absl::StrFormat("add before the call: %s = redistribute(%s, %s);", name, name,
                             in_code(*move.to));
  }
  const std::string text = absl::StrFormat(
      "%s: operand %s is %s and would be redistributed implicitly to %s, which moves %d bytes; "
      "%s. [%s]",
      call.op->def.name, label, placed(operand.spec()), placed(*move.to), move.bytes, remedy,
      operand.spec().to_string());
  if (policy != ImplicitPolicy::kWarn) throw Error(failed_precondition(text));
  std::fprintf(stderr, "warning: %s\n", printable(text).c_str());
}

/// Operands after promotion and redistribution; `held` keeps the new ones.
void move_operands(Runtime& runtime, const ResolvedCall& call,
                   absl::InlinedVector<const DTensor*, 4>& operands,
                   absl::InlinedVector<DTensor, 4>& held, const Site& site) {
  for (const OperandMove& each : call.moves) {
    check_policy(runtime, call, each, *operands[static_cast<std::size_t>(each.operand)]);
  }
  held.reserve(call.promotions.size() + call.moves.size());  // addresses must stay
  for (const ResolvedCall::Promotion& each : call.promotions) {
    const DTensor*& operand = operands[static_cast<std::size_t>(each.operand)];
    held.push_back(promote_scalar(*operand, each.as, site));
    operand = &held.back();
  }
  for (const OperandMove& each : call.moves) {
    const DTensor*& operand = operands[static_cast<std::size_t>(each.operand)];
    const std::string own = operand_name(*call.op, each.operand);
    const std::string label = label_of(*operand, own);
    MoveInfo info = {Origin::kImplicit, label, each.why};
    std::string needed_by;
    if (runtime.observer != nullptr) info.needed_by = needed_by = call.op->def.name + "." + own;
    held.push_back(move(*operand, each.to, info, site));
    operand = &held.back();
  }
}

void execute_local(Runtime& runtime, const ResolvedCall& call, Operands operands,
                   absl::InlinedVector<Array, 2>& outputs, const Site& site) {
  if (runtime.checked == CheckedMode::kOn) check_indices(runtime, call, operands, site);
  absl::InlinedVector<Array, 4> inputs;
  for (const DTensor* each : operands) {
    if (each->defined()) {
      inputs.push_back(each->impl()->local);
    } else {
      inputs.emplace_back();
    }
  }
  if (call.mutates) separate_overlaps(runtime, *call.op, {inputs.data(), inputs.size()});
  const std::span<const Array> in(inputs.data(), inputs.size());
  for (Array& out : outputs) {
    if (!out.is_null() && !writes_directly(out, in)) out = Array();
  }
  const std::span<Array> out(outputs.data(), outputs.size());
  if (call.lowered) {
    run_lowering(runtime, call, in, out, site);
  } else {
    call.local->run(runtime.kernels(), in, out);
  }
  if (runtime.checked == CheckedMode::kOn && !call.sums.empty()) {
    check_sums(runtime, call, in, out, site);
  }
}

/// What `view` shares with `operand`, as it was given. The answer is the same on all ranks,
/// whatever the strides of their shares allowed.
void mark_view(const ViewAliasing& aliasing, const DTensor& operand, const DTensor& view) {
  using Kind = ViewAliasing::Kind;
  TensorImpl& of = *operand.impl();
  TensorImpl& impl = *view.impl();
  impl.reordered = aliasing.reorders || of.reordered;
  const bool shares = !impl.local.is_null() && impl.local.storage() == of.local.storage();
  const bool is_copy = aliasing.kind == Kind::kCopies;
  if (is_copy || (aliasing.kind == Kind::kIfInOrder && of.reordered)) {
    impl.copied = of.copied;  // of a copy: what that was taken from
    if (!impl.copied && !of.local.is_null()) {
      impl.copied = std::make_shared<CopiedView>(
          CopiedView{of.local.storage(), of.local.storage()->version(), is_copy});
    }
  }
  if (aliasing.kind == Kind::kByStrides && !shares) {
    impl.reordered = false;
    return;  // a tensor of its own, as on one rank
  }
  if (is_copy || (!shares && !impl.local.is_null())) return;
  set_base(view, operand);
  impl.repeats |= aliasing.repeats;
  impl.is_view = true;
  if (shares) impl.history_version = of.local.storage()->version();
}

/// Handles for the outputs: new tensors, or the operands written in place. `given` are the operands
/// before any of them moved.
Results wrap(Runtime& runtime, const ResolvedCall& call, Operands given, Operands operands,
             absl::InlinedVector<Array, 2>& outputs) {
  Results results(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const int alias = call.mutates ? call.op->alias_of(i) : -1;
    if (alias >= 0) {
      results[i] = *operands[static_cast<std::size_t>(alias)];
      TensorImpl& impl = *results[i].impl();
      if (impl.local.is_null()) continue;
      impl.local.storage()->bump_version();
      impl.history_version = impl.local.storage()->version();
      continue;
    }
    results[i] = make_tensor(runtime, call.outputs[i], std::move(outputs[i]));
    if (call.view.kind != ViewAliasing::Kind::kNone) mark_view(call.view, *given[0], results[i]);
  }
  return results;
}

const std::shared_ptr<const ResolvedCall>& find_call(Runtime& runtime, const Op& op,
                                                     const Into& into, const Attrs& attrs) {
  const Operands operands = into.operands;
  absl::InlinedVector<const Spec*, 8> specs(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i]->defined()) continue;
    const TensorImpl& impl = *operands[i]->impl();
    specs[i] = impl.spec;
    if (impl.copied) [[unlikely]]
      check_current(op.def.name, *operands[i]);
  }
  if (!into.outs.empty()) {
    specs.push_back(&runtime.cache().before_outs);
    for (const DTensor* each : into.outs) specs.push_back(each->impl()->spec);
  }
  DispatchCache& cache = runtime.cache();
  if (!cache.asked.empty()) [[unlikely]] {
    if (const Spec* key = asked_key(cache, op)) specs.push_back(key);
  }
  auto& calls = cache.calls;
  const auto found = calls.find(CallKeyView{&op, {specs.data(), specs.size()}, &attrs});
  if (found != calls.end()) return found->second;
  for (const DTensor* each : operands) {
    if (each->defined() && &each->runtime() != &runtime) {
      throw Error(invalid_argument(
          absl::StrFormat("%s: operands belong to different Runtimes", op.def.name)));
    }
  }
  const auto given = specs_of(operands), outs = specs_of(into.outs);
  std::shared_ptr<const ResolvedCall> call =
      resolve_call(runtime, op, {{given.data(), given.size()}, {outs.data(), outs.size()}}, attrs,
                   asked_rows(cache, op));
  if (calls.size() >= kMaxCachedCalls) calls.clear();
  CallKey key{&op, {specs.begin(), specs.end()}, with_own_names(op, attrs)};
  return calls.emplace(std::move(key), std::move(call)).first->second;
}

}  // namespace

std::size_t CallKeyHash::operator()(const CallKeyView& key) const noexcept {
  std::uint64_t hash = reinterpret_cast<std::uintptr_t>(key.op);
  for (const Spec* spec : key.specs) hash = mix(hash, reinterpret_cast<std::uintptr_t>(spec));
  if (!key.attrs->empty()) hash = mix(hash, key.attrs->hash());
  return static_cast<std::size_t>(hash);
}

bool CallKeyEqual::operator()(const CallKeyView& a, const CallKeyView& b) const noexcept {
  if (a.op != b.op || a.specs.size() != b.specs.size()) return false;
  for (std::size_t i = 0; i < a.specs.size(); ++i) {
    if (a.specs[i] != b.specs[i]) return false;
  }
  return (a.attrs->empty() && b.attrs->empty()) || *a.attrs == *b.attrs;
}

namespace {

[[gnu::noinline]] void tell_call(Runtime& runtime, const ResolvedCall& call, Operands operands,
                                 const Results& results, const Site& site) {
  runtime.observer->on_call({.op = *call.op,
                             .operands = operands,
                             .attrs = call.attrs,
                             .results = {results.data(), results.size()},
                             .row = call.why,
                             .communicates = call.lowered,
                             .site = site});
}

/// Nothing of `outs` may carry a history, and no two may share storage.
void check_outs(Runtime& runtime, const Op& op, const Into& into) {
  for (std::size_t o = 0; o < into.outs.size(); ++o) {
    const DTensor& out = *into.outs[o];
    if (!out.defined() || &out.runtime() != &runtime) {
      throw Error(invalid_argument(absl::StrFormat(
          "%s: out[%d] is undefined, or belongs to another Runtime", op.def.name, o)));
    }
    check_writable(op.def.name, out);
    for (std::size_t before = 0; before < o; ++before) {
      const Array& local = into.outs[before]->local();
      if (into.outs[before]->impl() != out.impl() &&
          (local.is_null() || local.storage() != out.local().storage())) {
        continue;
      }
      throw Error(invalid_argument(
          absl::StrFormat("%s: out[%d] and out[%d] share storage; each result needs its own",
                          op.def.name, before, o)));
    }
  }
  if (!runtime.grad_enabled) return;
  const auto refuse = [&](const DTensor& x, std::string_view fallback) {
    if (!x.defined() || !x.impl()->needs_grad()) return;
    throw Error(failed_precondition(absl::StrFormat(
        "%s: %s needs a gradient, and out= records no history; call it under NoGrad, or without "
        "out=. [%s]",
        op.def.name, label_of(x, fallback), x.spec().to_string())));
  };
  for (const DTensor* each : into.outs) {
    refuse(*each, "out");
    check_in_place(runtime, op.def.name, *each);
  }
  for (std::size_t i = 0; i < into.operands.size(); ++i) {
    refuse(*into.operands[i], operand_name(op, static_cast<int>(i)));
  }
}

/// What the kernel did not write directly is copied; all of it counts as a write.
Results finish_outs(Runtime& runtime, Operands outs, std::span<const Array> outputs) {
  Results results;
  for (std::size_t o = 0; o < outs.size(); ++o) {
    results.push_back(*outs[o]);
    TensorImpl& impl = *outs[o]->impl();
    if (impl.local.is_null()) continue;
    if (outputs[o].bytes() != impl.local.bytes()) {
      kernels::copy(runtime.kernels(), outputs[o], impl.local);
    }
    impl.local.storage()->bump_version();
    impl.history_version = impl.local.storage()->version();
  }
  return results;
}

}  // namespace

Results dispatch_into(Runtime& runtime, const Op& op, const Into& into, const Attrs& attrs,
                      const Site& site) {
  check_outs(runtime, op, into);
  const std::shared_ptr<const ResolvedCall> call = find_call(runtime, op, into, attrs);
  absl::InlinedVector<const DTensor*, 4> operands(into.operands.begin(), into.operands.end());
  absl::InlinedVector<DTensor, 4> held;
  move_operands(runtime, *call, operands, held, site);
  absl::InlinedVector<Array, 2> outputs;
  for (const DTensor* each : into.outs) outputs.push_back(each->impl()->local);
  if (call->local) {
    execute_local(runtime, *call, {operands.data(), operands.size()}, outputs, site);
  }
  Results results = finish_outs(runtime, into.outs, {outputs.data(), outputs.size()});
  if (runtime.observer != nullptr) [[unlikely]] {
    tell_call(runtime, *call, {operands.data(), operands.size()}, results, site);
  }
  return results;
}

Results dispatch(Runtime& runtime, const Op& op, Operands given, const Attrs& attrs,
                 const Site& site) {
  return run_resolved(runtime, find_call(runtime, op, {given, {}}, attrs), given, site);
}

// The call is held: a nested dispatch may empty the cache.
Results run_resolved(Runtime& runtime, const std::shared_ptr<const ResolvedCall> call,
                     Operands given, const Site& site) {
  const Op& op = *call->op;
  if (call->mutates) {
    for (const int alias : op.in_place) {
      if (alias < 0) continue;
      const DTensor& written = *given[static_cast<std::size_t>(alias)];
      check_writable(op.def.name, written);
      check_in_place(runtime, op.def.name, written);
      check_values_into_view(runtime, op.def.name, written, given);
    }
  }
  Operands operands = given;
  absl::InlinedVector<const DTensor*, 4> moved;
  absl::InlinedVector<DTensor, 4> held;
  if (!call->moves.empty() || !call->promotions.empty()) {
    moved.assign(given.begin(), given.end());
    move_operands(runtime, *call, moved, held, site);
    operands = {moved.data(), moved.size()};
  }
  bool recorded = false;
  if (runtime.grad_enabled) {
    for (const DTensor* each : operands) recorded |= records(runtime, *each);
  }
  absl::InlinedVector<Array, 2> outputs(call->outputs.size());
  if (call->local) execute_local(runtime, *call, operands, outputs, site);
  Results results = wrap(runtime, *call, given, operands, outputs);
  if (recorded) record_call(call, operands, {results.data(), results.size()}, site);
  if (runtime.observer != nullptr) [[unlikely]] {
    tell_call(runtime, *call, operands, results, site);
  }
  return results;
}

}  // namespace tessera
