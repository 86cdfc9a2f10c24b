#include "strategies/ops/reduce/level_walk.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "strategies/ops/reduce/lacking.h"

namespace tessera::ops {
namespace {

/// Dims [in_begin, in_end) of one shape that together are dims [out_begin, out_end) of the other.
struct DimGroup {
  std::size_t in_begin = 0, in_end = 0, out_begin = 0, out_end = 0;
};

/// The finest groups of shapes with elements; dims of size 1 at the end join the last.
std::vector<DimGroup> group_dims(const Shape& from, const Shape& to) {
  std::vector<DimGroup> groups;
  std::size_t in = 0;
  std::size_t out = 0;
  while (in < from.size() || out < to.size()) {
    if (!groups.empty() && (in == from.size() || out == to.size())) {
      groups.back().in_end = from.size();
      groups.back().out_end = to.size();
      break;
    }
    DimGroup group = {in, in, out, out};
    std::int64_t product_in = 1;
    std::int64_t product_out = 1;
    if (in < from.size()) product_in = from[in++];
    if (out < to.size()) product_out = to[out++];
    while (product_in != product_out) {
      if (product_in < product_out) {
        product_in *= from[in++];
      } else {
        product_out *= to[out++];
      }
    }
    group.in_end = in;
    group.out_end = out;
    groups.push_back(group);
  }
  return groups;
}

StatusOr<Levels> merge(const Mesh& mesh, const Shape& from, const DimGroup& group,
                       const std::vector<Levels>& levels) {
  Levels merged;
  std::int64_t size = 1;
  for (std::size_t d = group.in_begin; d < group.in_end; ++d) {
    if (d == group.in_begin) {
      merged = levels[d];
    } else {
      TSR_ASSIGN_OR_RETURN(merged, flatten_levels(mesh, merged, size, levels[d], from[d]));
    }
    size *= from[d];
  }
  return merged;
}

Status split(const Mesh& mesh, const Shape& to, const DimGroup& group, Levels merged,
             std::vector<Levels>& out) {
  std::int64_t size = 1;
  for (std::size_t d = group.out_begin; d < group.out_end; ++d) size *= to[d];
  for (std::size_t d = group.out_begin; d + 1 < group.out_end; ++d) {
    const std::int64_t rest = size / to[d];
    TSR_ASSIGN_OR_RETURN(auto parts, unflatten_levels(mesh, merged, to[d], rest));
    out[d] = std::move(parts.first);
    merged = std::move(parts.second);
    size = rest;
  }
  if (group.out_end > group.out_begin) out[group.out_end - 1] = std::move(merged);
  return {};
}

bool any_axis(const Levels& levels) {
  return std::any_of(levels.begin(), levels.end(),
                     [](const Level& level) { return level.kind == Level::Kind::kAxis; });
}

Status no_dim_for_cut(const Shape& from, const Shape& to) {
  return failed_precondition("a cut of " + to_string(from) + " has no dim among " + to_string(to) +
                             "; redistribute so that no axis cuts what goes");
}

/// Without elements every regrouping is right, as long as ranks agree on sizes: dims that lead both
/// shapes keep their cuts.
StatusOr<std::vector<Levels>> walk_without_elements(const Shape& from, const Shape& to,
                                                    const std::vector<Levels>& levels) {
  std::vector<Levels> out(to.size());
  std::size_t d = 0;
  for (; d < std::min(from.size(), to.size()) && from[d] == to[d]; ++d) out[d] = levels[d];
  if (std::any_of(levels.begin() + static_cast<std::ptrdiff_t>(d), levels.end(), any_axis)) {
    return no_dim_for_cut(from, to);
  }
  return out;
}

}  // namespace

Layout without_axes(const Layout& layout, std::uint32_t axes) {
  Layout out = layout;
  for (Levels& levels : out.dims) {
    std::erase_if(levels, [&](const Level& level) {
      return level.kind == Level::Kind::kAxis && ((axes >> level.axis) & 1) != 0;
    });
    if (!any_axis(levels)) levels.clear();
  }
  return out;
}

std::uint32_t cutting_axes(const Layout& layout) {
  std::uint32_t axes = 0;
  for (const Levels& levels : layout.dims) {
    for (const Level& level : levels) {
      if (level.kind == Level::Kind::kAxis) axes |= std::uint32_t{1} << level.axis;
    }
  }
  return axes;
}

std::vector<int> axes_of(const Levels& levels) {
  std::vector<int> axes;
  for (const Level& level : levels) {
    if (level.kind == Level::Kind::kAxis) axes.push_back(level.axis);
  }
  std::sort(axes.begin(), axes.end());
  return axes;
}

Layout with_common_partial(Layout layout, std::span<const Spec* const> tensors) {
  for (std::size_t axis = 0; axis < layout.partial.size(); ++axis) {
    for (const Spec* tensor : tensors) {
      if (tensor->layout().partial[axis] != layout.partial[axis]) layout.partial[axis].reset();
    }
  }
  return layout;
}

StatusOr<Strategy> laid_out(std::span<const Spec* const> inputs, const Layout& in,
                            std::span<const TensorMeta> outputs, const Layout& out,
                            std::string why) {
  Strategy strategy{.why = std::move(why)};
  for (const Spec* input : inputs) {
    TSR_ASSIGN_OR_RETURN(Spec spec,
                         Spec::make(input->mesh(), input->global_shape(), input->dtype(), in));
    strategy.inputs.push_back(std::move(spec));
  }
  for (const TensorMeta& output : outputs) {
    TSR_ASSIGN_OR_RETURN(Spec spec, Spec::make(inputs[0]->mesh(), output.shape, output.dtype, out));
    strategy.outputs.push_back(std::move(spec));
  }
  return strategy;
}

namespace {

StatusOr<Strategy> make_strategy(const Spec& input, const TensorMeta& output, const Layout& in,
                                 const Layout& out, std::string why) {
  const Spec* const operand = &input;
  return laid_out({&operand, 1}, in, {&output, 1}, out, std::move(why));
}

/// What one axis that does not fit could do instead.
class Alternatives {
 public:
  Alternatives(const Spec& input, const TensorMeta& output, const LevelWalk& forward,
               const LevelWalk& inverse)
      : input_(input), output_(output), forward_(forward), inverse_(inverse) {}

  /// Strategies with exactly the axes of `dropped` gathered or moved; none where the rest does not
  /// fit.
  Status add(std::uint32_t dropped) {
    const Layout kept = without_axes(input_.layout(), dropped);
    StatusOr<std::vector<Levels>> mapped = forward_(kept.dims);
    if (!mapped.ok()) return {};
    const Layout out = {*std::move(mapped), kept.partial};
    if (std::has_single_bit(dropped)) {
      TSR_RETURN_IF_ERROR(add_moves(out, std::countr_zero(dropped)));
    }
    TSR_ASSIGN_OR_RETURN(
        Strategy gathered,
        make_strategy(input_, output_, kept, out, "gathers what does not fit: " + names(dropped)));
    found_.push_back(std::move(gathered));
    return {};
  }
  std::vector<Strategy>& found() { return found_; }

 private:
  Status add_moves(const Layout& out, int axis) {
    for (std::size_t d = 0; d < out.dims.size(); ++d) {
      if (output_.shape[d] < 2) continue;
      TSR_ASSIGN_OR_RETURN(const bool is_found, add_move(out, axis, d, {Level::of_axis(axis)}));
      if (is_found) continue;
      for (const Levels& cut : aligned_cuts(axis, d)) {
        TSR_RETURN_IF_ERROR(add_move(out, axis, d, cut).status());
      }
    }
    return {};
  }

  /// The axis as a further cut of dim d of the result; false where the operand has none like it.
  StatusOr<bool> add_move(const Layout& out, int axis, std::size_t d, const Levels& cut) {
    Layout moved_out = out;
    moved_out.dims[d].insert(moved_out.dims[d].end(), cut.begin(), cut.end());
    StatusOr<std::vector<Levels>> back = inverse_(moved_out.dims);
    if (!back.ok()) return false;
    TSR_ASSIGN_OR_RETURN(
        Strategy moved,
        make_strategy(input_, output_, Layout{*std::move(back), out.partial}, moved_out,
                      "moves " + input_.mesh().axis_label(axis) + " to a cut of dim " +
                          std::to_string(d) + " of the result"));
    found_.push_back(std::move(moved));
    return true;
  }

  /// Cuts of dim d of the result that fall on borders of the operand's dims as well: on multiples
  /// of a grain, else inside of blocks that both have.
  std::vector<Levels> aligned_cuts(int axis, std::size_t d) const {
    std::vector<Levels> cuts;
    if (num_elements(output_.shape) == 0) return cuts;
    const std::int64_t size = output_.shape[d], inner = inner_elements(output_.shape, d);
    const Shape& from = input_.global_shape();
    for (std::size_t k = 0; k < from.size(); ++k) {
      const std::int64_t grain = std::lcm(inner, inner_elements(from, k)) / inner;
      const Levels cut = {Level::of_axis(axis, grain)};
      if (grain > 1 && grain < size && std::ranges::find(cuts, cut) == cuts.end()) {
        cuts.push_back(cut);
      }
    }
    for (std::size_t k = 0; k < from.size(); ++k) {
      const std::int64_t common = std::gcd(inner * size, inner_elements(from, k) * from[k]);
      const std::int64_t block = common / inner;
      if (common % inner != 0 || block < 2 || size % block != 0 || block == size) continue;
      const Levels cut = {Level::of_block(size / block), Level::of_axis(axis)};
      if (std::ranges::find(cuts, cut) == cuts.end()) cuts.push_back(cut);
    }
    return cuts;
  }
  /// Elements of a tensor of this shape for each index of dim d.
  static std::int64_t inner_elements(const Shape& shape, std::size_t d) {
    std::int64_t elements = 1;
    for (std::size_t i = d + 1; i < shape.size(); ++i) elements *= shape[i];
    return elements;
  }
  std::string names(std::uint32_t axes) const {
    std::string text;
    for (int axis = 0; axis < input_.mesh().ndim(); ++axis) {
      if (((axes >> axis) & 1) == 0) continue;
      if (!text.empty()) text += ", ";
      text += input_.mesh().axis_label(axis);
    }
    return text;
  }

  const Spec& input_;
  const TensorMeta& output_;
  const LevelWalk& forward_;
  const LevelWalk& inverse_;
  std::vector<Strategy> found_;
};

/// Those first of which ranks lack least, then those that cut most evenly: the search's closed form
/// prices cuts of one dim by one axis alike wherever they fall, and takes the first of equals.
void put_nearest_first(const Spec& input, std::vector<Strategy>& strategies) {
  std::vector<std::pair<Lacking, std::size_t>> order;
  for (const Strategy& strategy : strategies) {
    const std::optional<Lacking> lacking = lacking_elements(input, strategy.inputs[0]);
    if (!lacking) return;
    order.emplace_back(*lacking, order.size());
  }
  std::ranges::sort(order);
  std::vector<Strategy> sorted;
  for (const auto& [lacking, at] : order) sorted.push_back(std::move(strategies[at]));
  strategies = std::move(sorted);
}

}  // namespace

LevelWalk reshape_walk(const Mesh& mesh, Shape from, Shape to) {
  if (num_elements(from) == 0) {
    return [from = std::move(from), to = std::move(to)](const std::vector<Levels>& levels) {
      return walk_without_elements(from, to, levels);
    };
  }
  std::vector<DimGroup> groups = group_dims(from, to);
  return [&mesh, groups = std::move(groups), from = std::move(from),
          to = std::move(to)](const std::vector<Levels>& levels) -> StatusOr<std::vector<Levels>> {
    std::vector<Levels> out(to.size());
    for (const DimGroup& group : groups) {
      TSR_ASSIGN_OR_RETURN(Levels merged, merge(mesh, from, group, levels));
      if (group.out_end == group.out_begin && any_axis(merged)) return no_dim_for_cut(from, to);
      TSR_RETURN_IF_ERROR(split(mesh, to, group, std::move(merged), out));
    }
    return out;
  };
}

StatusOr<std::vector<Strategy>> walk_strategies(const Spec& input, const TensorMeta& output,
                                                const LevelWalk& forward,
                                                const LevelWalk& inverse) {
  StatusOr<std::vector<Levels>> mapped = forward(input.layout().dims);
  if (mapped.ok()) {
    TSR_ASSIGN_OR_RETURN(Strategy stays,
                         make_strategy(input, output, input.layout(),
                                       Layout{*std::move(mapped), input.layout().partial}, "view"));
    return std::vector<Strategy>{std::move(stays)};
  }
  const std::uint32_t axes = cutting_axes(input.layout());
  Alternatives alternatives(input, output, forward, inverse);
  for (int count = 1; count <= std::popcount(axes) && alternatives.found().empty(); ++count) {
    for (std::uint32_t dropped = 1; dropped <= axes; ++dropped) {
      if ((dropped & ~axes) != 0 || std::popcount(dropped) != count) continue;
      TSR_RETURN_IF_ERROR(alternatives.add(dropped));
    }
  }
  put_nearest_first(input, alternatives.found());
  return std::move(alternatives.found());
}

StatusOr<std::vector<Strategy>> dim_map_strategies(const Spec& input, const TensorMeta& output,
                                                   const std::vector<int>& sources) {
  Layout in = input.layout();
  std::vector<bool> kept(in.dims.size(), false);
  for (std::size_t d = 0; d < sources.size(); ++d) {
    if (sources[d] < 0) continue;
    const auto source = static_cast<std::size_t>(sources[d]);
    kept[source] = input.global_shape()[source] == output.shape[d];
  }
  for (std::size_t d = 0; d < in.dims.size(); ++d) {
    if (!kept[d]) in.dims[d].clear();
  }
  Layout out = {std::vector<Levels>(sources.size()), in.partial};
  for (std::size_t d = 0; d < sources.size(); ++d) {
    if (sources[d] >= 0) out.dims[d] = in.dims[static_cast<std::size_t>(sources[d])];
  }
  TSR_ASSIGN_OR_RETURN(Strategy strategy,
                       make_strategy(input, output, in, out, "dims keep their cuts"));
  return std::vector<Strategy>{std::move(strategy)};
}

}  // namespace tessera::ops
