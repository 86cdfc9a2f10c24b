#include "runtime/plan/plan_program.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "runtime/call/signature.h"
#include "runtime/world.h"

namespace tessera {
namespace {

using Way = ProgramStep::Way;
using StepKind = PlanStep::Kind;

std::uint64_t hash_of(const PlanStep& step) {
  std::uint64_t hash = static_cast<std::uint64_t>(step.kind) * 4 +
                       static_cast<std::uint64_t>(step.replica) * 2 + std::uint64_t{step.in_place};
  const auto mix = [&](const Spec& spec) { hash = hash * 0x9e3779b97f4a7c15U + spec.hash(); };
  mix(step.src);
  mix(step.dst);
  if (step.host) mix(*step.host);
  if (step.kept) mix(*step.kept);
  return hash;
}

void number_by_group(std::vector<Transfer>& boxes, std::span<const std::int64_t> group) {
  for (Transfer& box : boxes) {
    const auto found = std::find(group.begin(), group.end(), box.peer);
    TSR_CHECK(found != group.end(), absl::StrFormat("peer %d", box.peer));
    box.peer = found - group.begin();
  }
}

/// Elements that the boxes land on; each contributor's cover the same.
std::int64_t num_covered(std::span<const Transfer> boxes) {
  std::int64_t elements = 0;
  for (const Transfer& box : boxes) {
    if (box.contributor == boxes.front().contributor) elements += box.num_elements();
  }
  return elements;
}

/// True if `cut` is `whole` with the axes cutting its rows last, in order: then the group's ranks
/// hold consecutive rows, unless blocks above the axes make several pieces of them. The same on all
/// ranks, because it looks at layouts only.
bool cuts_rows(const Layout& cut, const Layout& whole, std::span<const int> axes) {
  if (cut.dims.empty() || whole.dims.empty()) return false;
  const Levels& rows = cut.dims[0];
  if (rows.size() != whole.dims[0].size() + axes.size()) return false;
  const auto is_axis = [](const Level& level) { return level.kind == Level::Kind::kAxis; };
  if (!std::ranges::all_of(rows, is_axis)) return false;
  const auto rest = rows.begin() + static_cast<std::ptrdiff_t>(whole.dims[0].size());
  const bool by_axes = std::equal(rest, rows.end(), axes.begin(), axes.end(),
                                  [](const Level& level, int axis) { return level.axis == axis; });
  return by_axes && std::equal(rows.begin(), rest, whole.dims[0].begin()) &&
         std::equal(cut.dims.begin() + 1, cut.dims.end(), whole.dims.begin() + 1, whole.dims.end());
}

/// True if the step reduces over its axes, all of them, and leaves the others as they are.
bool folds_over_axes(const PlanStep& step) {
  const Layout& src = step.src.layout();
  const Layout& dst = step.dst.layout();
  for (int axis = 0; axis < step.src.mesh().ndim(); ++axis) {
    const auto& from = src.partial[static_cast<std::size_t>(axis)];
    const auto& to = dst.partial[static_cast<std::size_t>(axis)];
    const bool folds = std::ranges::find(step.axes, axis) != step.axes.end();
    if (folds ? !from || to : from != to) return false;
  }
  return true;
}

/// True if arrays of the two layouts differ in their rows at most.
bool same_row_shape(const Layout& a, const Layout& b) {
  return !a.dims.empty() &&
         std::equal(a.dims.begin() + 1, a.dims.end(), b.dims.begin() + 1, b.dims.end());
}

/// The native collective that a step is, if it is one; kExchange else.
Way native_of(const PlanStep& step) {
  const Layout& src = step.src.layout();
  const Layout& dst = step.dst.layout();
  if (step.src.mesh() != step.dst.mesh() || step.kept) return Way::kExchange;
  if (step.kind == StepKind::kAllReduce && !step.host) {
    return src.dims == dst.dims && folds_over_axes(step) ? Way::kAllReduce : Way::kExchange;
  }
  if (step.kind == StepKind::kAllGather && (!step.host || *step.host == step.dst)) {
    const bool rows = src.partial == dst.partial && cuts_rows(src, dst, step.axes);
    return rows ? Way::kAllGather : Way::kExchange;
  }
  if (step.kind == StepKind::kReduceScatter &&
      (!step.host || same_row_shape(dst, step.host->layout()))) {
    const bool rows = folds_over_axes(step) && cuts_rows(dst, src, step.axes);
    return rows ? Way::kReduceScatter : Way::kExchange;
  }
  return Way::kExchange;
}

/// The first element of the array read at which that written lies, where it is a stretch of it.
std::optional<std::int64_t> alias_of(const ExchangeBoxes& boxes, const Shape& written) {
  if (boxes.into.size() != 1) return std::nullopt;
  std::optional<std::int64_t> start;
  const Box box(boxes.into[0], view_of(boxes.cut_from[0]), view_of(written));
  box.for_each_piece([&](std::int64_t from, std::int64_t to, std::int64_t count) {
    if (to == 0 && count == num_elements(written)) start = from;
  });
  return start;
}

/// A stretch of an array as one line.
Transfer box_of(std::int64_t peer, std::int64_t contributor, const Slice& slice) {
  return {peer, contributor, {{{slice.begin, slice.begin, slice.end - slice.begin}}}};
}

std::shared_ptr<const ExchangeBoxes> with_landing(ExchangeBoxes boxes, std::int64_t elements) {
  const auto none = [](const Transfer& box) { return box.num_elements() == 0; };
  std::erase_if(boxes.into, none);
  std::erase_if(boxes.from, none);
  boxes.cut_from.assign(boxes.into.size(), Shape{elements});
  const Shape line{elements};
  boxes.landing = std::make_shared<const Landing>(landing_of(boxes, view_of(line)));
  return std::make_shared<const ExchangeBoxes>(std::move(boxes));
}

/// An all_reduce as exchanges, with the bytes of the native one.
std::vector<ProgramStep> lines_of(const ProgramStep& step, DType dtype) {
  const std::int64_t elements = num_elements(step.written);
  const bool whole = elements * size_of(dtype) <= kFoldAllBytes;
  const int self = step.group->rank(), size = step.group->size();
  const auto slice = [&](int rank) {
    return whole ? Slice{0, elements} : slice_of(elements, {rank, size});
  };
  ExchangeBoxes fold{.fold = true, .reduce = step.reduce, .divisor = step.divisor}, gather;
  for (int rank = 0; rank < size; ++rank) {
    fold.into.push_back(box_of(rank, rank, slice(self)));
    fold.from.push_back(box_of(rank, self, slice(rank)));
    if (rank == self) continue;
    gather.into.push_back(box_of(rank, 0, slice(rank)));
    gather.from.push_back(box_of(rank, 0, slice(self)));
  }
  std::vector<ProgramStep> lines(whole ? 1 : 2, step);
  for (ProgramStep& line : lines) {
    line.way = Way::kExchange;
    line.is_line = true;
    line.may_overwrite = !whole;
  }
  lines[0].boxes = with_landing(std::move(fold), elements);
  if (whole) return lines;
  lines[1].boxes = with_landing(std::move(gather), elements);
  lines[1].in_place = true;
  return lines;
}

/// Works out one step on one rank.
class StepMaker {
 public:
  StepMaker(World& world, const PlanStep& step) : world_(world), step_(step) {}

  ProgramStep make() {
    const std::int64_t rank = world_.rank();
    made_.reads = step_.array_read().mesh().coord_of(rank).has_value();
    made_.writes = step_.array_written().mesh().coord_of(rank).has_value();
    if (!made_.reads && !made_.writes) return std::move(made_);
    made_.in_place = step_.in_place;
    made_.event = name_of(step_.kind);
    if (made_.writes) {
      const Spec& spec = step_.array_written();
      made_.written = spec.local_shape(*spec.mesh().coord_of(rank));
    }
    ranks_ = step_.kind == StepKind::kLocal ? std::vector{rank} : group_of(step_, rank);
    if (ranks_.empty()) ranks_ = {rank};
    make_boxes();
    if (ranks_.size() == 1) {
      made_.way = Way::kLocal;
      if (!made_.fill && !step_.host) made_.alias = alias_of(*made_.boxes, made_.written);
    } else {
      made_.way = native_of(step_);
      made_.group = value_or_throw(world_.group(ranks_));
      made_.hash = hash_of(step_);
      make_native();
    }
    made_.axes = step_.src.mesh().axis_labels(step_.axes);
    return std::move(made_);
  }

 private:
  void make_boxes() {
    const std::int64_t rank = world_.rank();
    ExchangeBoxes boxes{.into = transfers_into(step_, rank), .from = transfers_from(step_, rank)};
    const Spec& read = step_.array_read();
    for (const Transfer& box : boxes.into) {
      boxes.cut_from.push_back(read.local_shape(*read.mesh().coord_of(box.peer)));
    }
    number_by_group(boxes.into, ranks_);
    number_by_group(boxes.from, ranks_);
    if (const std::optional<Fold> fold = fold_of(step_)) {
      boxes.fold = true;
      boxes.reduce = fold->divisor == 1 ? fold->op : ReduceOp::kAvg;
      boxes.divisor = fold->divisor;
    }
    if (made_.writes) {
      made_.fill = fill_of(step_, rank);
      // What boxes cover needs no identity below it.
      if (num_covered(boxes.into) == num_elements(made_.written)) made_.fill.reset();
      boxes.landing = std::make_shared<const Landing>(landing_of(boxes, view_of(made_.written)));
    }
    made_.reduce = boxes.reduce;
    made_.divisor = boxes.divisor;
    made_.boxes = std::make_shared<const ExchangeBoxes>(std::move(boxes));
  }

  void make_native() {
    if (made_.way == Way::kAllReduce) {
      made_.may_overwrite = true;
      made_.lines =
          std::make_shared<const std::vector<ProgramStep>>(lines_of(made_, step_.dst.dtype()));
    }
    if (made_.way != Way::kAllGather && made_.way != Way::kReduceScatter) return;
    const Spec& cut = made_.way == Way::kAllGather ? step_.src : step_.dst;
    for (const std::int64_t rank : ranks_) {
      made_.rows.push_back(cut.local_shape(*cut.mesh().coord_of(rank))[0]);
    }
    if (made_.way == Way::kReduceScatter && !made_.boxes->into.empty()) {
      made_.first_row = made_.boxes->into.front().dims[0].front().dst;
    }
  }

  World& world_;
  const PlanStep& step_;
  ProgramStep made_;
  std::vector<std::int64_t> ranks_;
};

/// Labels of the axes along which bytes move, in the order of the axes.
std::vector<std::string> labels_of(const Plan& plan, std::span<const ProgramStep> steps) {
  std::vector<std::pair<int, std::string>> axes;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].group == nullptr) continue;
    for (const int axis : plan.steps[i].axes) {
      axes.emplace_back(axis, plan.steps[i].src.mesh().axis_label(axis));
    }
  }
  std::ranges::stable_sort(axes, {}, &std::pair<int, std::string>::first);
  std::vector<std::string> labels;
  for (auto& [axis, label] : axes) {
    if (std::ranges::find(labels, label) == labels.end()) labels.push_back(std::move(label));
  }
  return labels;
}

/// Every rank refuses, also one whose own groups are complete.
void check_ranks(const World& world, const Plan& plan) {
  for (const Spec* spec : {&plan.src, &plan.dst}) {
    const Mesh& mesh = spec->mesh();
    std::int64_t last = mesh.first_rank();
    for (const MeshAxis& axis : mesh.axes()) last += (axis.size - 1) * axis.stride;
    if (last < world.size()) continue;
    throw Error(invalid_argument(absl::StrFormat(
        "execute: mesh %s has rank %d, but the world's ranks are 0 to %d [from %s, "
        "to %s]",
        mesh.to_string(), last, world.size() - 1, plan.src.to_string(), plan.dst.to_string())));
  }
}

ProgramShare share_of(World& world, const Plan& plan) {
  check_ranks(world, plan);
  ProgramShare share{.src = plan.src, .pack_bytes = plan.pack_bytes};
  const auto coord = plan.src.mesh().coord_of(world.rank());
  share.gives = coord.has_value();
  if (coord) share.local = plan.src.local_shape(*coord);
  share.takes = plan.dst.mesh().coord_of(world.rank()).has_value();
  for (const PlanStep& step : plan.steps) {
    share.steps.push_back(StepMaker(world, step).make());
  }
  share.axes = labels_of(plan, share.steps);
  share.moves = std::ranges::any_of(share.steps,
                                    [](const ProgramStep& step) { return step.group != nullptr; });
  return share;
}

}  // namespace

PlanProgram::PlanProgram(World& world, const Plan& plan)
    : share_(std::make_shared<const ProgramShare>(share_of(world, plan))) {}

bool PlanProgram::is_empty() const noexcept { return share_->steps.empty(); }

}  // namespace tessera
