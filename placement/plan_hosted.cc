#include "placement/plan_hosted.h"

#include <algorithm>

#include "placement/layout_pattern.h"
#include "placement/plan_counts.h"

namespace tessera {
namespace {

using Intervals = std::vector<Interval>;

Intervals held_by(const Spec& spec, std::size_t dim, const Coord& coord) {
  return local_intervals(spec.mesh(), spec.global_shape()[dim], spec.layout().dims[dim], coord);
}
Intervals without(const Intervals& a, const Intervals& b) {
  Intervals out;
  std::size_t j = 0;
  for (Interval left : a) {
    while (j < b.size() && b[j].stop <= left.start) ++j;
    for (std::size_t k = j; k < b.size() && b[k].start < left.stop; ++k) {
      if (left.start < b[k].start) out.push_back({left.start, b[k].start});
      left.start = std::min(left.stop, b[k].stop);
    }
    if (left.start < left.stop) out.push_back(left);
  }
  return out;
}

class HostedBoxes {
 public:
  explicit HostedBoxes(const PlanStep& step) : step_(step) {}

  std::vector<BoxRuns> between(const PlanPair& pair) const {
    const std::int64_t reader = step_.dst.mesh().rank_of(pair.reader);
    const bool own = reader == step_.src.mesh().rank_of(pair.sender);
    if (own && step_.in_place) return {};
    const bool keeps = step_.kept && step_.kept->mesh().coord_of(reader);
    std::vector<Intervals> box;
    for (std::size_t d = 0; d < ndim(); ++d) {
      // Its own elements a rank copies as far as the larger array goes.
      const Spec& lands = own && keeps ? *step_.host : step_.dst;
      box.push_back(in_both(held_by(step_.src, d, pair.sender), held_by(lands, d, pair.reader)));
      if (box.back().empty()) return {};
    }
    std::vector<BoxRuns> runs;
    if (!keeps || !step_.in_place) {
      runs.push_back(runs_of(box, pair));
      return runs;
    }
    const Coord kept_at = *step_.kept->mesh().coord_of(reader);
    std::vector<Intervals> kept;
    for (std::size_t d = 0; d < ndim(); ++d) {
      kept.push_back(in_both(box[d], held_by(*step_.kept, d, kept_at)));
    }
    const bool apart =
        std::any_of(kept.begin(), kept.end(), [](const Intervals& part) { return part.empty(); });
    if (apart) {
      runs.push_back(runs_of(box, pair));
      return runs;
    }
    // box \ kept: what lacks in dim d while the dims before it are kept.
    for (std::size_t d = 0; d < ndim(); ++d) {
      std::vector<Intervals> part = box;
      std::copy_n(kept.begin(), d, part.begin());
      part[d] = without(box[d], kept[d]);
      if (!part[d].empty()) runs.push_back(runs_of(part, pair));
    }
    return runs;
  }

 private:
  std::size_t ndim() const { return step_.dst.global_shape().size(); }

  BoxRuns runs_of(const std::vector<Intervals>& box, const PlanPair& pair) const {
    BoxRuns runs(ndim());
    for (std::size_t d = 0; d < ndim(); ++d) {
      const Spec& read = step_.array_read();
      const Spec& written = step_.array_written();
      const std::int64_t size = step_.dst.global_shape()[d];
      const pattern::Pattern from(read.mesh(), read.layout().dims[d], pair.sender);
      const pattern::Pattern to(written.mesh(), written.layout().dims[d], pair.reader);
      for (const Interval& part : box[d]) {
        const Run run{from.held_below(size, part.start), to.held_below(size, part.start),
                      part.stop - part.start};
        if (!runs[d].empty() && runs[d].back().src + runs[d].back().size == run.src &&
            runs[d].back().dst + runs[d].back().size == run.dst) {
          runs[d].back().size += run.size;
        } else {
          runs[d].push_back(run);
        }
      }
    }
    return runs;
  }

  const PlanStep& step_;
};

}  // namespace

std::vector<BoxRuns> hosted_boxes(const PlanStep& step, const PlanPair& pair) {
  return HostedBoxes(step).between(pair);
}

}  // namespace tessera
