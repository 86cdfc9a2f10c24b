// How the ring works. Each rank keeps its queries; keys and values, packed as one array, travel
// around the ring, and in step s rank r has the block of rank r − s. While it attends to the block
// at hand the block is already on its way to the next rank. Results over the keys so far are joined
// with those over the block by their log-sums (RunningSoftmax), in the accumulation type, so that
// the order of blocks costs no precision. Ranks may hold several runs of tokens: queries and keys
// meet run by run, and pairs that causality excludes are left out. The backward pass sends blocks
// around once more, followed one step later by the sums of their gradients, to which every rank
// adds its share; the last hop brings them home.
#include "parallel/ring_attention.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtensor/autograd.h"
#include "dtensor/observer.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "runtime/call/trace.h"

namespace tessera {
namespace {

using kernels::Binary;
using kernels::Unary;

/// A block on its way to the next rank while another one comes from the previous.
struct Passing {
  std::shared_ptr<Work> sent, received;
  Array leaving;  ///< kept until it has left
  Array arriving;

  Array wait() {
    received->wait();
    sent->wait();
    leaving = Array();
    return std::move(arriving);
  }
};

/// Keys and values of one rank in one array (B, H, L, E + V), so that they are one message.
struct Block {
  Array both;
  std::int64_t key_size = 0;

  Array keys(std::int64_t start, std::int64_t stop) const {
    return both.slice(2, start, stop).slice(3, 0, key_size);
  }
  Array values(std::int64_t start, std::int64_t stop) const {
    return both.slice(2, start, stop).slice(3, key_size, both.size(3));
  }
};

/// Queries and keys that meet: places in the rank's arrays, and the causal offset between them.
struct Meeting {
  Interval queries, keys;
  std::int64_t causal_offset = 0;
};

/// One call's view of the group: who is where, what meets, what is sent.
class Ring {
 public:
  Ring(Runtime& runtime, const RingAttention& ring, const Site& site)
      : runtime_(runtime),
        ring_(ring),
        ranks_(*value_or_throw(runtime.world().group_along(ring.group.mesh, ring.group.axes))),
        site_(site),
        axes_(ring.group.mesh.axis_labels(ring.group.axes)) {}

  int size() const { return ranks_.size(); }
  int rank() const { return ranks_.rank(); }
  /// Whose block is here at a step.
  std::int64_t owner(int step) const { return (rank() - step % size() + size()) % size(); }
  std::int64_t num_places(int step) const { return ring_.order.num_places(owner(step)); }
  KernelContext& kernels() const { return runtime_.kernels(); }
  Array scratch(const Shape& shape, DType dtype) const {
    return Array::empty(shape, dtype, kernels().allocator);
  }
  Array zeros(const Shape& shape, DType dtype) const {
    Array array = scratch(shape, dtype);
    kernels::fill(kernels(), 0.0, array);
    return array;
  }
  kernels::AttentionOptions options(const Meeting& meeting) const {
    return {.scale = ring_.args.scale,
            .causal = ring_.args.causal,
            .causal_offset = meeting.causal_offset};
  }

  /// Sends `block` on; what arrives has the places of the next step's owner.
  Passing pass(const Array& block, int step, std::string_view tensor) const {
    Shape shape = block.shape();
    shape[2] = num_places(step + 1);
    Passing passing{.leaving = block, .arriving = scratch(shape, block.dtype())};
    const CallInfo info{.tensor = tensor, .axes = axes_, .site = site_};
    passing.sent = ranks_.send_async(block, (rank() + 1) % size(), info);
    passing.received = ranks_.recv_async(passing.arriving, (rank() + size() - 1) % size(), info);
    return passing;
  }

  /// What this rank's queries see of the block at hand.
  std::vector<Meeting> meetings(int step) const {
    std::vector<Meeting> met;
    std::int64_t query = 0;
    for (const Interval& queries : ring_.order.runs(rank())) {
      const std::int64_t num_queries = queries.stop - queries.start;
      std::int64_t key = 0;
      for (const Interval& keys : ring_.order.runs(owner(step))) {
        const std::int64_t num_keys = keys.stop - keys.start;
        if (!ring_.args.causal || keys.start < queries.stop) {
          met.push_back(
              {{query, query + num_queries}, {key, key + num_keys}, queries.start - keys.start});
        }
        key += num_keys;
      }
      query += num_queries;
    }
    return met;
  }

  TraceSpan span(int step) const {
    return TraceSpan(runtime_.world(), absl::StrFormat("attention block of %s %d", axes_,
                                                       static_cast<int>(owner(step))));
  }

 private:
  Runtime& runtime_;
  const RingAttention& ring_;
  Communicator& ranks_;
  Site site_;
  std::string axes_;
};

Block pack(const Ring& ring, const Array& k, const Array& v) {
  Shape shape = k.shape();
  shape[3] += v.size(3);
  Block block{ring.scratch(shape, k.dtype()), k.size(3)};
  kernels::copy(ring.kernels(), k, block.keys(0, k.size(2)));
  kernels::copy(ring.kernels(), v, block.values(0, v.size(2)));
  return block;
}

/// `x` itself where it has the type already.
Array in_type(const Ring& ring, const Array& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  Array cast = ring.scratch(x.shape(), dtype);
  kernels::copy(ring.kernels(), x, cast);
  return cast;
}

/// Results over the keys so far, joined to those over more keys by their log-sums.
class RunningSoftmax {
 public:
  RunningSoftmax(const Ring& ring, const Array& q, std::int64_t value_size, DType dtype)
      : ring_(ring),
        q_(in_type(ring, q, dtype)),
        out_(ring.zeros({q.size(0), q.size(1), q.size(2), value_size}, dtype)),
        lse_(ring.zeros({q.size(0), q.size(1), q.size(2)}, dtype)) {}

  void add(const Block& block, const Meeting& meeting) {
    const auto [first, last] = meeting.queries;
    const Array queries = q_.slice(2, first, last);
    const Array out = out_.slice(2, first, last), lse = lse_.slice(2, first, last);
    const Array keys =
        in_type(ring_, block.keys(meeting.keys.start, meeting.keys.stop), q_.dtype());
    const Array values =
        in_type(ring_, block.values(meeting.keys.start, meeting.keys.stop), q_.dtype());
    if (is_first(first)) {
      kernels::attention(ring_.kernels(), queries, keys, values, ring_.options(meeting), out, lse);
      return;
    }
    const Array more = ring_.scratch(out.shape(), out.dtype());
    const Array more_lse = ring_.scratch(lse.shape(), lse.dtype());
    kernels::attention(ring_.kernels(), queries, keys, values, ring_.options(meeting), more,
                       more_lse);
    join({out, lse}, {more, more_lse});
  }
  const Array& out() const { return out_; }
  const Array& lse() const { return lse_; }

 private:
  struct Part {
    Array out, lse;
  };

  bool is_first(std::int64_t query) {
    for (const std::int64_t before : started_) {
      if (before == query) return false;
    }
    started_.push_back(query);
    return true;
  }

  // Every query sees a key of each block that it meets, so both log-sums are finite.
  void join(const Part& all, const Part& more) {
    KernelContext& ctx = ring_.kernels();
    const auto scratch = [&] { return ring_.scratch(all.lse.shape(), all.lse.dtype()); };
    const Array largest = scratch(), before = scratch(), added = scratch(), sum = scratch();
    kernels::binary(ctx, Binary::kMaximum, all.lse, more.lse, largest);
    kernels::binary(ctx, Binary::kSub, all.lse, largest, before);
    kernels::unary(ctx, Unary::kExp, before, before);
    kernels::binary(ctx, Binary::kSub, more.lse, largest, added);
    kernels::unary(ctx, Unary::kExp, added, added);
    kernels::binary(ctx, Binary::kAdd, before, added, sum);
    kernels::binary(ctx, Binary::kDiv, before, sum, before);
    kernels::binary(ctx, Binary::kDiv, added, sum, added);
    kernels::binary(ctx, Binary::kMul, all.out, column(before), all.out);
    kernels::binary(ctx, Binary::kMul, more.out, column(added), more.out);
    kernels::binary(ctx, Binary::kAdd, all.out, more.out, all.out);
    kernels::unary(ctx, Unary::kLog, sum, sum);
    kernels::binary(ctx, Binary::kAdd, largest, sum, all.lse);
  }
  static Array column(const Array& x) {
    Shape shape = x.shape(), strides = x.strides();
    shape.push_back(1);
    strides.push_back(1);
    return x.as_strided(shape, strides, x.offset());
  }

  const Ring& ring_;
  Array q_, out_, lse_;
  std::vector<std::int64_t> started_;
};

RunningSoftmax attend(const Ring& ring, const Array& q, const Array& k, const Array& v) {
  RunningSoftmax result(ring, q, v.size(3), accumulation_type(q.dtype()));
  Block block = pack(ring, k, v);
  for (int step = 0; step < ring.size(); ++step) {
    std::optional<Passing> next;
    if (step + 1 < ring.size()) next = ring.pass(block.both, step, "keys and values");
    {
      const TraceSpan span = ring.span(step);
      for (const Meeting& meeting : ring.meetings(step)) result.add(block, meeting);
    }
    if (next) block.both = next->wait();
  }
  return result;
}

/// What the backward pass reads and gathers, in the accumulation type but for keys and values.
struct Backward {
  Array grad, q, out, lse;
  Array grad_q;
};

/// Cotangents of the queries added up in `back`, those of the block returned.
Array block_gradient(const Ring& ring, const Block& block, int step, Backward& back) {
  KernelContext& ctx = ring.kernels();
  const DType dtype = back.q.dtype();
  const TraceSpan span = ring.span(step);
  const Block sums{ring.zeros(block.both.shape(), dtype), block.key_size};
  for (const Meeting& meeting : ring.meetings(step)) {
    const auto rows = [&](const Array& x) {
      return x.slice(2, meeting.queries.start, meeting.queries.stop);
    };
    const auto [first, last] = meeting.keys;
    const Array k = in_type(ring, block.keys(first, last), dtype);
    const Array v = in_type(ring, block.values(first, last), dtype);
    const Array q = rows(back.q);
    const kernels::AttentionGradients grads{ring.scratch(q.shape(), dtype),
                                            ring.scratch(k.shape(), dtype),
                                            ring.scratch(v.shape(), dtype)};
    kernels::attention_grad(ctx, rows(back.grad), q, k, v, rows(back.out), rows(back.lse),
                            ring.options(meeting), grads);
    kernels::binary(ctx, Binary::kAdd, rows(back.grad_q), grads.q, rows(back.grad_q));
    kernels::binary(ctx, Binary::kAdd, sums.keys(first, last), grads.k, sums.keys(first, last));
    kernels::binary(ctx, Binary::kAdd, sums.values(first, last), grads.v, sums.values(first, last));
  }
  return sums.both;
}

/// The gradient of this rank's own block, once it has been with every rank.
Array gather_gradients(const Ring& ring, Block block, Backward& back) {
  std::optional<Passing> gradient;
  Array sums;
  for (int step = 0; step < ring.size(); ++step) {
    std::optional<Passing> next;
    if (step + 1 < ring.size()) next = ring.pass(block.both, step, "keys and values");
    sums = block_gradient(ring, block, step, back);
    if (gradient) {
      kernels::binary(ring.kernels(), Binary::kAdd, gradient->wait(), sums, sums);
    }
    if (ring.size() > 1) gradient = ring.pass(sums, step, "gradient of keys and values");
    if (next) block.both = next->wait();
  }
  return gradient ? gradient->wait() : sums;
}

struct RingNode final : GradNode {
  RingNode(Runtime& rt, RingAttention what, const Site& where)
      : GradNode(rt, where), ring(std::move(what)) {}
  std::string_view name() const override { return "ring_attention"; }

  void run(std::span<const DTensor> cotangents, std::span<DTensor> grads) override {
    const Ring group(runtime, ring, site);
    const Array q_now = restore(q, "query").local();
    const DType dtype = q_now.dtype(), sum_type = accumulation_type(dtype);
    Backward back{.grad = in_type(group, cotangents[0].local(), sum_type),
                  .q = in_type(group, q_now, sum_type),
                  .out = in_type(group, restore(out, "result").local(), sum_type),
                  .lse = lse,
                  .grad_q = group.zeros(q_now.shape(), sum_type)};
    const Array k_now = restore(k, "key").local();
    Block block = pack(group, k_now, restore(v, "value").local());
    const Block sums{gather_gradients(group, std::move(block), back), k_now.size(3)};
    const std::int64_t places = k_now.size(2);
    grads[0] = plain(runtime, in_type(group, back.grad_q, dtype));
    grads[1] = plain(runtime, own(group, sums.keys(0, places), dtype));
    grads[2] = plain(runtime, own(group, sums.values(0, places), dtype));
    if (runtime.observer == nullptr) return;
    const DTensor read[] = {cotangents[0], restore(q, "query"), restore(k, "key"),
                            restore(v, "value"), restore(out, "result")};
    runtime.observer->on_region({.name = "ring_attention_backward",
                                 .args = read,
                                 .results = grads.first(3),
                                 .kind = RegionKind::kCommunicates,
                                 .site = site});
  }
  void release() override {
    q = k = v = out = SavedTensor();
    lse = Array();
  }

  static Array own(const Ring& group, const Array& part, DType dtype) {
    Array copy = group.scratch(part.shape(), dtype);
    kernels::copy(group.kernels(), part, copy);
    return copy;
  }

  RingAttention ring;
  SavedTensor q, k, v, out;
  Array lse;
};

void check(const DTensor& q, const DTensor& k, const DTensor& v, const RingAttention& ring) {
  const bool plain = q.mesh().ndim() == 0 && k.mesh().ndim() == 0 && v.mesh().ndim() == 0;
  const bool fits = plain && ring.group.axes.size() == 1 && q.ndim() == 4 && k.ndim() == 4 &&
                    v.ndim() == 4 && q.dtype() == k.dtype() && q.dtype() == v.dtype() &&
                    ring.order.num_ranks() == ring.group.mesh.size(ring.group.axes[0]);
  if (fits) return;
  throw Error(invalid_argument(absl::StrFormat(
      "ring_attention: query %s, key %s and value %s must be plain tensors (b, h, l, e) of one "
      "dtype inside a region, along one axis of %d ranks",
      q.spec().to_string(), k.spec().to_string(), v.spec().to_string(), ring.order.num_ranks())));
}

}  // namespace

DTensor ring_attention(const DTensor& q, const DTensor& k, const DTensor& v,
                       const RingAttention& ring, const Site& site) {
  check(q, k, v, ring);
  Runtime& runtime = q.runtime();
  const Ring group(runtime, ring, site);
  const RunningSoftmax softmax = attend(group, q.local(), k.local(), v.local());
  DTensor result = plain(runtime, in_type(group, softmax.out(), q.dtype()));
  tell_region(runtime, "ring_attention", RegionKind::kCommunicates, {q, k, v}, result, site);
  if (!records(runtime, q) && !records(runtime, k) && !records(runtime, v)) return result;
  auto node = std::make_shared<RingNode>(runtime, ring, site);
  node->q = save(q);
  node->k = save(k);
  node->v = save(v);
  node->out = save(result);
  node->lse = softmax.lse();
  for (const DTensor* x : {&q, &k, &v}) node->edges.push_back(edge_of(*x));
  attach(result, std::move(node));
  return result;
}

}  // namespace tessera
