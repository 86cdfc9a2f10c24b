#include "program/export/torch_plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "io/json.h"
#include "program/export/module_borders.h"
#include "program/export/placement_words.h"

namespace tessera {
namespace {

constexpr std::size_t kMostLeft = 1000;

std::int64_t depth_of(const std::string& path) { return std::ranges::count(path, '.'); }

class Planner {
 public:
  Planner(const ValueFlow& flow, int mesh)
      : flow_(flow),
        borders_(flow),
        mesh_(flow.program().meshes[static_cast<std::size_t>(mesh)].mesh) {}

  StatusOr<TorchPlan> run() {
    plan_.mesh = mesh_;
    TSR_RETURN_IF_ERROR(place_tensors());
    sink_sums();
    for (const auto& [path, border] : borders_.all()) plan_.modules.push_back(path);
    for (const auto& [path, border] : borders_.all()) move_result(path, border);
    std::vector<std::string> outer_first = plan_.modules;
    std::ranges::stable_sort(outer_first, {}, depth_of);
    for (const std::string& path : outer_first) move_input(path, borders_.all().at(path));
    for (const std::string& path : plan_.modules) add_border(path, borders_.all().at(path));
    tell_what_is_left();
    return std::move(plan_);
  }

 private:
  // ---- parameters and inputs ----

  StatusOr<Placements> placements_of(const ProgramValue& value, const Layout& layout) const {
    StatusOr<Placements> found = encode(mesh_, view_of(value.global_shape), layout);
    if (found.ok()) return found;
    return invalid_argument(absl::StrFormat("%s %s: %s: PyTorch needs a list of placements",
                                            name_of(value.role), in_quotes(value.name),
                                            placements_in_words(flow_.program(), value)));
  }

  Status place_tensors() {
    for (int i = 0; i < static_cast<int>(flow_.values().size()); ++i) {
      const ProgramValue& value = flow_.at(i).value;
      const bool is_kept = value.role == ValueRole::kParameter ||
                           value.role == ValueRole::kBuffer || value.role == ValueRole::kInput;
      if (flow_.at(i).made_by != kBeforeAll || !is_kept || !value.mesh) continue;
      TorchTensor tensor{.name = value.name, .role = value.role};
      TSR_ASSIGN_OR_RETURN(tensor.kept, placements_of(value, *value.layout));
      TSR_RETURN_IF_ERROR(note_use(i, tensor));
      tensors_[tensor.name] = plan_.tensors.size();
      plan_.tensors.push_back(std::move(tensor));
    }
    return absl::OkStatus();
  }

  Status note_use(int index, TorchTensor& tensor) {
    const ProgramValue& value = flow_.at(index).value;
    std::vector<Layout> used;
    for (const ModuleBorders::ParameterRead& read : borders_.parameter_reads()) {
      if (read.parameter != index) continue;
      if (std::ranges::find(used, read.layout) == used.end()) used.push_back(read.layout);
    }
    if (used.size() > 1) leave(value.name, "is used in several placements");
    if (used.size() != 1 || used[0] == *value.layout) return absl::OkStatus();
    TSR_ASSIGN_OR_RETURN(tensor.used, placements_of(value, used[0]));
    return absl::OkStatus();
  }

  // ---- moves at borders ----

  const Layout& layout_of(int value) const { return *flow_.at(value).value.layout; }
  /// As a value would lie had nothing moved in front of the view that makes it.
  const Layout& made_layout(int root) const {
    const auto found = sums_.find(root);
    return found == sums_.end() ? layout_of(root) : found->second;
  }

  /// A sum that is reduced and then viewed (as torch's linear views its product) is as good as one
  /// that is viewed and then reduced, which a border can do.
  void sink_sums() {
    for (int view = 0; view < static_cast<int>(flow_.values().size()); ++view) {
      const FlowValue& made = flow_.at(view);
      if (made.made_by == kBeforeAll || !made.value.mesh) continue;
      const auto* call = std::get_if<CallStep>(&flow_.step(made.made_by).what);
      if (call == nullptr || (call->op != "view" && call->op != "reshape")) continue;
      const int moved = flow_.read_at(made.made_by)[0], sum = flow_.at(moved).root;
      if (moved == sum || borders_.reads_of(sum).size() != 1) continue;
      if (borders_.maker_module(sum) != borders_.maker_module(view)) continue;
      Layout layout = layout_of(view);
      bool is_reduced = false;
      for (std::size_t axis = 0; axis < layout.partial.size(); ++axis) {
        if (!layout_of(sum).partial[axis] || layout_of(moved).partial[axis]) continue;
        is_reduced = true;
        for (Levels& levels : layout.dims) {
          std::erase_if(levels, [&](const Level& level) {
            return level.kind == Level::Kind::kAxis && level.axis == static_cast<int>(axis);
          });
        }
        layout.partial[axis] = layout_of(sum).partial[axis];
      }
      if (!is_reduced) continue;
      sunk_.insert(sum);
      sums_[view] = canonical(mesh_, view_of(made.value.global_shape), std::move(layout));
    }
  }

  /// How others read it; none where they do not agree.
  std::optional<Layout> agreed(int root, const std::string& outside_of) const {
    std::optional<Layout> found;
    for (const BorderRead& read : borders_.reads_of(root)) {
      if (!outside_of.empty() && holds_module(outside_of, read.module)) return std::nullopt;
      if (found && *found != layout_of(read.value)) return std::nullopt;
      found = layout_of(read.value);
    }
    return found;
  }

  /// Whether the reads in the module fall into several modules inside of it, or are its own: else
  /// one of those is nearer to them. Lists of modules are never called.
  bool is_innermost(int root, const std::string& path) const {
    std::optional<std::string> child;
    for (const BorderRead& read : borders_.reads_of(root)) {
      if (!holds_module(path, read.module)) continue;
      if (read.module == path) return true;
      const std::size_t begin = path.size() + 1;
      const std::string next = read.module.substr(begin, read.module.find('.', begin) - begin);
      const bool is_list = next.find_first_not_of("0123456789") == std::string::npos;
      if (is_list && borders_.all().at(path).ops.empty()) return false;
      if (child && *child != next) return true;
      child = next;
    }
    return false;
  }

  /// A module that alone reads it, with nothing else coming in.
  bool has_single_reader(int root) const {
    for (const auto& [path, border] : borders_.all()) {
      if (border.in != std::vector<int>{root} || borders_.is_made_in(root, path)) continue;
      if (!is_innermost(root, path)) continue;
      const bool reads_all = std::ranges::all_of(
          borders_.reads_of(root),
          [&](const BorderRead& read) { return holds_module(path, read.module); });
      if (reads_all) return true;
    }
    return false;
  }

  static bool has_partial(const Layout& layout) {
    return std::ranges::any_of(layout.partial, [](const auto& each) { return each.has_value(); });
  }
  /// What torch's look-up in a table of cut rows gives can be reduced where it is made, not later.
  bool is_masked_sum(const std::string& path, int root) const {
    return kind_of(path) == Kind::kEmbedding && has_partial(made_layout(root));
  }
  /// As the first that reads a whole sum has it, else whole on every rank.
  Layout reduced(int root) const {
    for (const BorderRead& read : borders_.reads_of(root)) {
      if (!has_partial(layout_of(read.value))) return layout_of(read.value);
    }
    Layout whole = made_layout(root);
    for (std::optional<ReduceOp>& each : whole.partial) each.reset();
    return whole;
  }

  /// A result that all others read moved alike is moved once, where it leaves.
  void move_result(const std::string& path, const ModuleBorder& border) {
    if (border.out.size() != 1) return;
    const int root = border.out[0];
    if (borders_.maker_module(root) != path || !flow_.at(root).value.mesh) return;
    std::optional<Layout> want = agreed(root, path);
    if (is_masked_sum(path, root) && (!want || has_partial(*want))) want = reduced(root);
    if (!want || *want == made_layout(root)) return;
    const bool is_product = kind_of(path) != Kind::kOther;
    if (is_product || !has_single_reader(root)) leaves_[path] = *want;
  }

  /// How a value comes to a module: as it was made, as its maker's border left it, or as a border
  /// around this module made it.
  const Layout& arrival(int root, const std::string& module) const {
    const Layout* found = &made_layout(root);
    const auto left = leaves_.find(borders_.maker_module(root));
    if (left != leaves_.end() && borders_.all().at(left->first).out[0] == root) {
      found = &left->second;
    }
    std::size_t longest = 0;
    for (const auto& [path, moved] : enters_) {
      const bool is_around = holds_module(path, module) && path.size() > longest;
      if (!is_around || borders_.all().at(path).in[0] != root) continue;
      longest = path.size();
      found = &moved;
    }
    return *found;
  }

  std::optional<Layout> wanted(int root, const std::string& module) const {
    std::optional<Layout> found;
    for (const BorderRead& read : borders_.reads_of(root)) {
      if (!holds_module(module, read.module)) continue;
      if (found && *found != layout_of(read.value)) return std::nullopt;
      found = layout_of(read.value);
    }
    return found;
  }

  void move_input(const std::string& path, const ModuleBorder& border) {
    if (border.in.size() != 1 || !is_innermost(border.in[0], path)) return;
    const std::optional<Layout> want = wanted(border.in[0], path);
    if (want && *want != arrival(border.in[0], path)) enters_[path] = *want;
  }

  // ---- styles ----

  enum class Kind : std::uint8_t { kLinear, kEmbedding, kOther };

  const TorchTensor* tensor(const std::string& name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &plan_.tensors[found->second];
  }

  /// A module of "weight", and perhaps "bias", whose own steps are one product or one look-up.
  Kind kind_of(const std::string& path) const {
    const TorchTensor* const weight = tensor(path + ".weight");
    const ModuleBorder& border = borders_.all().at(path);
    if (weight == nullptr || border.in.size() != 1 || border.out.size() != 1) return Kind::kOther;
    if (border.ops.contains("embedding")) return Kind::kEmbedding;
    for (const char* const op : {"linear", "mm", "matmul", "addmm"}) {
      if (border.ops.contains(op)) return Kind::kLinear;
    }
    return Kind::kOther;
  }

  bool is_cut(const std::string& name, int dim) const {
    const TorchTensor* const found = tensor(name);
    return found != nullptr && !found->used && found->kept == Placements{Shard{dim}};
  }
  bool is_whole(const std::string& name) const {
    const TorchTensor* const found = tensor(name);
    return found != nullptr && !found->used && found->kept == Placements{Replicate{}};
  }

  std::optional<Placements> said(int root, const std::optional<Layout>& layout) const {
    if (!layout) return std::nullopt;
    StatusOr<Placements> found = encode(mesh_, view_of(flow_.at(root).value.global_shape), *layout);
    return found.ok() ? std::optional(*std::move(found)) : std::nullopt;
  }

  TorchBorder::Style style_of(const TorchBorder& border, const ModuleBorder& of) const {
    using Style = TorchBorder::Style;
    if (mesh_.ndim() != 1 || of.in.size() != 1 || !border.wanted) return Style::kMoves;
    const Kind kind = kind_of(border.module);
    const std::string weight = border.module + ".weight", bias = border.module + ".bias";
    const bool no_bias = tensor(bias) == nullptr;
    const Placements whole = {Replicate{}};
    const auto ndim = [&](int root) {
      return static_cast<int>(flow_.at(root).value.global_shape.size());
    };
    if (kind != Kind::kOther) {
      const bool is_table = kind == Kind::kEmbedding;
      const Placements last_in = {Shard{ndim(of.in[0]) - 1}},
                       last_out = {Shard{ndim(of.out[0]) - 1}};
      const std::optional<Placements> made = said(of.out[0], made_layout(of.out[0]));
      if (is_cut(weight, is_table ? 1 : 0) && (no_bias || is_cut(bias, 0)) &&
          border.wanted == whole && made == last_out) {
        return Style::kColwise;
      }
      if (is_cut(weight, is_table ? 0 : 1) && (no_bias || is_whole(bias)) &&
          border.wanted == (is_table ? whole : last_in) && made == Placements{Partial{}} &&
          (!is_table || border.leaves_moved)) {
        return Style::kRowwise;  // torch's masked sum of a look-up has to leave as another
      }
    }
    if (kind == Kind::kOther && of.out.size() == 1 && is_whole(weight) &&
        (no_bias || is_whole(bias)) && !border.leaves_moved &&
        border.wanted == Placements{Shard{1}} && border.returned == border.wanted) {
      return Style::kSequence;
    }
    const bool is_lone_input = border.enters_moved && !border.leaves_moved && !of.has_others;
    return is_lone_input ? Style::kPrepareInput : Style::kMoves;
  }

  void add_border(const std::string& path, const ModuleBorder& of) {
    TorchBorder border{.module = path};
    border.enters_moved = enters_.contains(path);
    border.leaves_moved = leaves_.contains(path);
    if (of.in.size() == 1) {
      const std::size_t dot = path.rfind('.');
      const std::string around = dot == std::string::npos ? "" : path.substr(0, dot);
      border.given = said(of.in[0], arrival(of.in[0], around));
      border.wanted = said(of.in[0], wanted(of.in[0], path));
    }
    if (of.out.size() == 1 && flow_.at(of.out[0]).value.mesh) {
      border.returned =
          said(of.out[0], border.leaves_moved ? leaves_.at(path) : made_layout(of.out[0]));
    }
    border.settles_gradient = of.out.size() == 1 && is_masked_sum(path, of.out[0]);
    border.style = style_of(border, of);
    const bool is_said = (!border.enters_moved || (border.wanted && border.given)) &&
                         (!border.leaves_moved || border.returned);
    const bool does =
        border.style != TorchBorder::Style::kMoves || border.enters_moved || border.leaves_moved;
    if (is_said && does) plan_.borders.push_back(std::move(border));
  }

  // ---- the rest ----

  void leave(const std::string& name, const std::string& what) {
    if (plan_.left.size() < kMostLeft) plan_.left.push_back(in_quotes(name) + ' ' + what);
  }

  void tell_what_is_left() {
    std::set<std::pair<int, int>> told;
    for (int root = 0; root < static_cast<int>(flow_.values().size()); ++root) {
      for (const BorderRead& read : borders_.reads_of(root)) {
        if (sunk_.contains(root) || layout_of(read.value) == arrival(root, read.module)) continue;
        if (told.emplace(root, read.value).second) tell_read(read);
      }
    }
  }
  void tell_read(const BorderRead& read) {
    const ProgramValue &made = flow_.at(read.root).value, &used = flow_.at(read.value).value;
    leave(made.name,
          absl::StrFormat("%s becomes %s for %s%s", placements_in_words(flow_.program(), made),
                          placements_in_words(flow_.program(), used), in_quotes(read.op),
                          read.module.empty() ? "" : " in " + in_quotes(read.module)));
  }

  const ValueFlow& flow_;
  ModuleBorders borders_;
  Mesh mesh_;
  TorchPlan plan_;
  std::map<std::string, std::size_t> tensors_;
  std::map<int, Layout> sums_;  ///< made_layout(), where it is another
  std::set<int> sunk_;          ///< sums that are reduced behind their view instead
  std::map<std::string, Layout> enters_, leaves_;  ///< by module: what its border makes of it
};

}  // namespace

StatusOr<TorchPlan> torch_plan(const ValueFlow& flow) {
  std::optional<int> mesh;
  for (const FlowValue& each : flow.values()) {
    if (!each.value.mesh || each.value.mesh == mesh) continue;
    const auto name = [&](int index) {
      return in_quotes(flow.program().meshes[static_cast<std::size_t>(index)].name);
    };
    if (mesh) {
      return invalid_argument(absl::StrFormat(
          "values are on the meshes %s and %s; PyTorch code is written for programs of one mesh",
          name(*mesh), name(*each.value.mesh)));
    }
    mesh = each.value.mesh;
  }
  if (!mesh) return invalid_argument("no value is on a mesh: nothing is placed");
  if (flow.program().meshes[static_cast<std::size_t>(*mesh)].mesh.first_rank() != 0) {
    return invalid_argument("a mesh that does not begin with rank 0; init_device_mesh() has none");
  }
  return Planner(flow, *mesh).run();
}

}  // namespace tessera
