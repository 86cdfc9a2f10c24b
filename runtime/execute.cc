#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "kernels/elementwise.h"
#include "runtime/box.h"
#include "runtime/fold.h"
#include "runtime/world.h"

namespace tessera {
namespace {

// "dp,tp"
std::string labels_of(const Mesh& mesh, const std::vector<int>& axes) {
  std::string text;
  for (const int axis : axes) text += (text.empty() ? "" : ",") + mesh.axis_label(axis);
  return text;
}

std::uint64_t hash_of(const PlanStep& step) {
  return step.src.hash() * 0x9e3779b97f4a7c15U + step.dst.hash();
}

void number_by_group(std::vector<Transfer>& boxes, const Communicator& group) {
  for (Transfer& box : boxes) {
    int rank = 0;
    while (rank < group.size() && group.world_rank(rank) != box.peer) ++rank;
    TSR_CHECK(rank < group.size(), absl::StrFormat("peer %d", box.peer));
    box.peer = rank;
  }
}

/// One plan on one rank.
class Execution {
 public:
  Execution(World& world, const ExecuteInfo& info) : world_(world), info_(info) {}

  Array run(const Plan& plan, const Array& local) {
    const std::optional<Coord> coord = plan.src.mesh().coord_of(world_.rank());
    if (!coord || plan.steps.empty()) return local;
    check_local(plan.src, *coord, local);
    local.storage()->wait_ready();
    const double start_us = world_.now_us();
    KernelContext ctx{.threads = world_.threads_per_rank(), .allocator = world_.allocator()};
    Array current = kernels::contiguous(ctx, local);
    for (const PlanStep& step : plan.steps) {
      Array next = Array::empty(step.dst.local_shape(*coord), step.dst.dtype(), world_.allocator());
      if (step.kind == PlanStep::Kind::kLocal) {
        run_local(step, current, next);
      } else {
        run_collective(step, current, next);
      }
      current = std::move(next);
    }
    if (!axes_.empty()) log_redistribution(plan.src.mesh(), start_us);
    return current;
  }

 private:
  static void check_local(const Spec& spec, const Coord& coord, const Array& local) {
    const Shape expected = spec.local_shape(coord);
    if (!local.is_null() && local.shape() == expected && local.dtype() == spec.dtype()) return;
    const std::string got = local.is_null() ? std::string("null")
                                            : absl::StrFormat("%s %s", name_of(local.dtype()),
                                                              to_string(local.shape()));
    throw Error(
        invalid_argument(absl::StrFormat("execute: local array %s is not this rank's part %s of %s",
                                         got, to_string(expected), spec.to_string())));
  }

  void run_local(const PlanStep& step, const Array& from, const Array& to) {
    if (const std::optional<ReduceOp> fill = fill_of(step, world_.rank())) {
      fill_identity_elements(to.dtype(), *fill, to.bytes(), to.num_elements());
      return;
    }
    for (const Transfer& transfer : transfers_into(step, world_.rank())) {
      TSR_CHECK(transfer.peer == world_.rank(), absl::StrFormat("peer %d", transfer.peer));
      copy_box(Box(transfer, view_of(from.shape()), view_of(to.shape())), from.bytes(), to.bytes(),
               size_of(to.dtype()));
    }
  }

  void run_collective(const PlanStep& step, const Array& from, const Array& to) {
    Communicator* group = value_or_throw(world_.group_along(step.src.mesh(), step.axes));
    ExchangeBoxes boxes{.into = transfers_into(step, world_.rank()),
                        .from = transfers_from(step, world_.rank())};
    for (const Transfer& box : boxes.into) {
      boxes.cut_from.push_back(step.array_read().local_shape(*step.src.mesh().coord_of(box.peer)));
    }
    number_by_group(boxes.into, *group);
    number_by_group(boxes.from, *group);
    if (const std::optional<Fold> fold = fold_of(step)) {
      boxes.fold = true;
      boxes.reduce = fold->divisor == 1 ? fold->op : ReduceOp::kAvg;
      boxes.divisor = fold->divisor;
    }
    CollectiveCall call;
    call.kind = CollectiveCall::Kind::kExchange;
    call.parts.push_back({from, to, std::make_shared<const ExchangeBoxes>(std::move(boxes))});
    call.signature_extra = hash_of(step);
    const std::string axes = labels_of(step.src.mesh(), step.axes);
    const auto work = group->start(std::move(call), {.tensor = info_.tensor,
                                                     .axes = axes,
                                                     .site = info_.site,
                                                     .event = name_of(step.kind),
                                                     .origin = info_.origin,
                                                     .why = info_.why});
    work->wait();
    received_bytes_ += work->bytes_received();
    axes_.insert(axes_.end(), step.axes.begin(), step.axes.end());
  }

  void log_redistribution(const Mesh& mesh, double start_us) {
    std::sort(axes_.begin(), axes_.end());
    axes_.erase(std::unique(axes_.begin(), axes_.end()), axes_.end());
    world_.events().add({.kind = Event::Kind::kRedistribute,
                         .name = "redistribute",
                         .tensor = std::string(info_.tensor),
                         .axes = labels_of(mesh, axes_),
                         .bytes_received = received_bytes_,
                         .origin = info_.origin,
                         .why = std::string(info_.why),
                         .file = info_.site.file_name(),
                         .line = static_cast<int>(info_.site.line()),
                         .start_us = start_us,
                         .end_us = world_.now_us()});
  }

  World& world_;
  const ExecuteInfo& info_;
  std::vector<int> axes_;  ///< of all collective steps
  std::int64_t received_bytes_ = 0;
};

}  // namespace

Array execute(World& world, const Plan& plan, const Array& local, const ExecuteInfo& info) {
  return Execution(world, info).run(plan, local);
}

}  // namespace tessera
