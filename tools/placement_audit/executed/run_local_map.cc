// A region of a program: what its border declares, and its steps on plain local tensors, checked
// for every rank of the mesh, whose shards may differ in size.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "tools/placement_audit/call.h"
#include "tools/placement_audit/executed/run_scope.h"

namespace tessera::audit {
namespace {

constexpr JsonBound kRegionSteps = {1'000, "steps"};
constexpr JsonBound kRegionBorder = {256, "tensors"};

/// A local tensor: what each rank has of it.
struct Local {
  std::string name;
  std::vector<TensorMeta> on_ranks;  ///< row-major over the mesh
  bool differentiable = true;        ///< no op without a gradient made it
};

class RegionReader {
 public:
  RegionReader(const OpTable& table, ProgramScope& scope) : table_(table), scope_(scope) {}

  StatusOr<ReadRegion> read(const JsonView& view);

 private:
  Status read_argument(const std::string& name, const JsonView& view);
  Status read_step(const JsonView& view);
  Status read_call(const JsonView& view);
  Status read_sum(const JsonView& view);
  Status read_operands(const JsonView& view, LocalStep& step);
  StatusOr<std::vector<std::vector<TensorMeta>>> infer_on_ranks(const JsonView& view,
                                                                const LocalStep& step) const;
  Status read_names(const JsonView& view, std::vector<std::vector<TensorMeta>> on_ranks,
                    LocalStep& step);
  Status read_result(const std::string& name, const JsonView& view);
  StatusOr<int> define(const JsonView& place, Local local);
  StatusOr<int> local_of(const JsonView& view) const;
  int find(std::string_view name) const;

  LocalMapStep& step() { return read_.step; }
  const Mesh& mesh() const { return read_.step.mesh; }
  const Local& local(int number) const { return locals_[static_cast<std::size_t>(number)]; }

  const OpTable& table_;
  ProgramScope& scope_;
  ReadRegion read_;
  std::vector<std::int64_t> ranks_;  // of the mesh, row-major
  std::vector<Local> locals_;
};

int RegionReader::find(std::string_view name) const {
  const auto at = std::find_if(locals_.begin(), locals_.end(),
                               [&](const Local& each) { return each.name == name; });
  return at == locals_.end() ? -1 : static_cast<int>(at - locals_.begin());
}

StatusOr<int> RegionReader::local_of(const JsonView& view) const {
  TSR_ASSIGN_OR_RETURN(const std::string name, view.text());
  if (const int found = find(name); found >= 0) return found;
  std::string known;
  for (const Local& each : locals_) known += (known.empty() ? "" : ", ") + each.name;
  return view.annotate(not_found(
      absl::StrFormat("the region has no local tensor %s so far, but %s", in_quotes(name), known)));
}

/// Counted as if every rank had the largest.
StatusOr<int> RegionReader::define(const JsonView& place, Local local) {
  if (find(local.name) >= 0) {
    return place.error(in_quotes(local.name) + " is a local tensor already; a name is given once");
  }
  const auto largest = std::max_element(local.on_ranks.begin(), local.on_ranks.end(),
                                        [](const TensorMeta& a, const TensorMeta& b) {
                                          return num_elements(a.shape) < num_elements(b.shape);
                                        });
  const Placements everywhere(static_cast<std::size_t>(mesh().ndim()), Replicate{});
  TSR_ASSIGN_OR_RETURN(const Spec spec,
                       Spec::make(mesh(), largest->shape, largest->dtype, everywhere));
  TSR_RETURN_IF_ERROR(scope_.count_bytes(place, spec));
  locals_.push_back(std::move(local));
  return static_cast<int>(locals_.size()) - 1;
}

/// ["R", null]: an axis that is left out says nothing.
StatusOr<std::vector<std::optional<Placement>>> read_grad(const std::optional<JsonView>& view) {
  std::vector<std::optional<Placement>> grad;
  if (!view) return grad;
  TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> items, view->items());
  for (const JsonView& item : items) {
    if (item.kind() == Json::Kind::kNull) {
      grad.emplace_back();
      continue;
    }
    TSR_ASSIGN_OR_RETURN(const std::string text, item.text());
    const StatusOr<Placement> placement = parse_placement(text);
    if (!placement.ok()) return item.annotate(placement.status());
    grad.emplace_back(*placement);
  }
  return grad;
}

Status RegionReader::read_argument(const std::string& name, const JsonView& view) {
  TSR_RETURN_IF_ERROR(view.check_keys({"placements"}, {"grad", "on_mismatch"}));
  LocalMapStep::Argument argument{.slot = scope_.find(name)};
  if (argument.slot < 0) {
    return view.annotate(not_found("no tensor " + in_quotes(name) + " so far"));
  }
  const Spec& given = scope_.tensor(argument.slot).spec;
  if (step().arguments.empty()) {
    step().mesh = given.mesh();
    ranks_ = mesh().ranks();
  } else if (!(given.mesh() == mesh())) {
    return view.error(absl::StrFormat("%s lies on mesh %s, the argument before on %s",
                                      in_quotes(name), given.mesh().to_string(),
                                      mesh().to_string()));
  }
  const JsonView placements = *view.find("placements");
  TSR_ASSIGN_OR_RETURN(argument.placements, read_placements(placements));
  const StatusOr<Spec> spec =
      Spec::make(mesh(), given.global_shape(), given.dtype(), argument.placements);
  if (!spec.ok()) return placements.annotate(spec.status());
  TSR_ASSIGN_OR_RETURN(argument.grad, read_grad(view.find("grad")));
  if (const std::optional<JsonView> on_mismatch = view.find("on_mismatch")) {
    TSR_ASSIGN_OR_RETURN(const std::string text, on_mismatch->text());
    if (text != "error" && text != "redistribute") {
      return on_mismatch->error(in_quotes(text) + "; allowed: error, redistribute");
    }
    argument.may_move = text == "redistribute";
  }
  Local local{.name = name};
  for (const std::int64_t rank : ranks_) {
    local.on_ranks.push_back({spec->local_shape(*mesh().coord_of(rank)), spec->dtype()});
  }
  step().arguments.push_back(std::move(argument));
  return define(view, std::move(local)).status();
}

/// Numbers take after the first tensor, wherever it stands.
Status RegionReader::read_operands(const JsonView& view, LocalStep& step) {
  TSR_ASSIGN_OR_RETURN(const std::vector<std::optional<JsonView>> given,
                       operands_given(view, step.op->def));
  step.operands.resize(given.size());
  std::optional<DType> beside;
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!given[i] || is_number(*given[i])) continue;
    if (given[i]->kind() != Json::Kind::kString) {
      return no_operand(*given[i], "a local tensor's name");
    }
    TSR_ASSIGN_OR_RETURN(step.operands[i].local, local_of(*given[i]));
    if (!beside) beside = local(step.operands[i].local).on_ranks[0].dtype;
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!given[i] || !is_number(*given[i])) continue;
    TSR_ASSIGN_OR_RETURN(step.operands[i].number,
                         read_value(*given[i], number_dtype(*given[i], beside)));
  }
  return absl::OkStatus();
}

/// By result, then by rank.
StatusOr<std::vector<std::vector<TensorMeta>>> RegionReader::infer_on_ranks(
    const JsonView& view, const LocalStep& step) const {
  std::vector<std::vector<TensorMeta>> results;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    std::vector<TensorMeta> inputs;
    for (const LocalOperand& each : step.operands) {
      if (each.local >= 0) {
        inputs.push_back(local(each.local).on_ranks[r]);
      } else if (!each.number.is_null()) {
        inputs.push_back({{}, each.number.dtype()});
      } else {
        inputs.push_back({.absent = true});
      }
    }
    const StatusOr<std::vector<TensorMeta>> outputs = infer(*step.op, inputs, step.attrs);
    if (!outputs.ok()) {
      return view.annotate(
          Status(outputs.status().code(),
                 to_absl(absl::StrFormat("rank %d: %s", ranks_[r], message_of(outputs.status())))));
    }
    if (r > 0 && outputs->size() != results.size()) {
      return view.error(step.op->def.name + " has as many results on every rank");
    }
    results.resize(outputs->size());
    for (std::size_t o = 0; o < outputs->size(); ++o) results[o].push_back((*outputs)[o]);
  }
  return results;
}

Status RegionReader::read_names(const JsonView& view, std::vector<std::vector<TensorMeta>> on_ranks,
                                LocalStep& step) {
  const JsonView out = *view.find("out");
  TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> names, items_of(out));
  if (names.size() != on_ranks.size()) {
    return out.error(
        absl::StrFormat("%d names for %d results (null drops one)", names.size(), on_ranks.size()));
  }
  bool differentiable = step.op == nullptr || step.op->def.gradient != nullptr;
  for (const LocalOperand& each : step.operands) {
    if (each.local >= 0) differentiable &= local(each.local).differentiable;
  }
  for (std::size_t o = 0; o < names.size(); ++o) {
    step.results.push_back(-1);
    if (names[o].kind() == Json::Kind::kNull) continue;
    TSR_ASSIGN_OR_RETURN(std::string name, names[o].text());
    TSR_ASSIGN_OR_RETURN(
        step.results.back(),
        define(names[o], {std::move(name), std::move(on_ranks[o]), differentiable}));
  }
  return absl::OkStatus();
}

Status RegionReader::read_call(const JsonView& view) {
  TSR_RETURN_IF_ERROR(view.check_keys({"op", "args", "out"}, {"attrs"}));
  LocalStep call;
  TSR_ASSIGN_OR_RETURN(call.op, audit::read_op(*view.find("op"), table_));
  if (call.op->mutates()) {
    return view.error(call.op->def.name +
                      " writes its operand, which a region may not: what it "
                      "holds is the tensors' own");
  }
  TSR_RETURN_IF_ERROR(read_operands(*view.find("args"), call));
  TSR_ASSIGN_OR_RETURN(call.attrs, read_attrs(view.find("attrs"), view, *call.op));
  TSR_ASSIGN_OR_RETURN(std::vector<std::vector<TensorMeta>> results, infer_on_ranks(view, call));
  TSR_RETURN_IF_ERROR(read_names(view, std::move(results), call));
  step().body.push_back(std::move(call));
  return absl::OkStatus();
}

Status RegionReader::read_sum(const JsonView& view) {
  TSR_RETURN_IF_ERROR(view.check_keys({"all_reduce", "axes", "out"}, {"grad"}));
  LocalStep sum;
  TSR_ASSIGN_OR_RETURN(const int number, local_of(*view.find("all_reduce")));
  sum.operands.push_back({.local = number});
  const JsonView axes = *view.find("axes");
  TSR_ASSIGN_OR_RETURN(const std::vector<std::string> names, axes.texts());
  for (const std::string& name : names) {
    const StatusOr<int> axis = mesh().find_axis(name);
    if (!axis.ok()) return axes.annotate(axis.status());
    sum.axes.push_back(*axis);
  }
  if (names.empty()) return axes.error("no axis to sum over");
  if (const std::optional<JsonView> grad = view.find("grad")) {
    TSR_ASSIGN_OR_RETURN(const std::string text, grad->text());
    if (text != "R" && text != "P(sum)") {
      return grad->error(in_quotes(text) + "; allowed: R, where every rank goes on alike, P(sum)");
    }
    sum.each_alike = text == "R";
  }
  const std::vector<TensorMeta>& on_ranks = local(number).on_ranks;
  if (!is_floating(on_ranks[0].dtype)) {
    return view.error("sums over ranks are of floating tensors");
  }
  for (std::size_t r = 1; r < ranks_.size(); ++r) {
    // Along the axes summed over, everybody's summand has the same shape.
    Coord base = *mesh().coord_of(ranks_[r]);
    for (const int axis : sum.axes) base[static_cast<std::size_t>(axis)] = 0;
    const auto first =
        std::find(ranks_.begin(), ranks_.end(), mesh().rank_of(base)) - ranks_.begin();
    const Shape &mine = on_ranks[r].shape,
                &theirs = on_ranks[static_cast<std::size_t>(first)].shape;
    if (mine == theirs) continue;
    return view.error(absl::StrFormat("rank %d has a summand of shape %s, rank %d one of %s",
                                      ranks_[static_cast<std::size_t>(first)], to_string(theirs),
                                      ranks_[r], to_string(mine)));
  }
  std::vector<std::vector<TensorMeta>> result = {on_ranks};
  TSR_RETURN_IF_ERROR(read_names(view, std::move(result), sum));
  step().body.push_back(std::move(sum));
  return absl::OkStatus();
}

Status RegionReader::read_step(const JsonView& view) {
  if (view.kind() == Json::Kind::kObject) {
    if (view.find("op")) return read_call(view);
    if (view.find("all_reduce")) return read_sum(view);
  }
  return view.error("a region's step is an object with \"op\" or \"all_reduce\"");
}

Status RegionReader::read_result(const std::string& name, const JsonView& view) {
  TSR_RETURN_IF_ERROR(view.check_keys({"placements", "shape"}, {"grad"}));
  LocalMapStep::Result result{.local = find(name)};
  if (result.local < static_cast<int>(step().arguments.size())) {
    return view.error(result.local < 0 ? in_quotes(name) + ": no step of the region makes it"
                                       : in_quotes(name) + " is an argument; results are made");
  }
  const Local& made = local(result.local);
  TSR_ASSIGN_OR_RETURN(result.placements, read_placements(*view.find("placements")));
  TSR_ASSIGN_OR_RETURN(const TensorType type, read_stated_type(view, {{}, made.on_ranks[0].dtype}));
  StatusOr<Spec> spec = Spec::make(mesh(), type.global_shape, type.dtype, result.placements);
  if (!spec.ok()) return view.annotate(spec.status());
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const std::int64_t rank = ranks_[r];
    const Shape expected = spec->local_shape(*mesh().coord_of(rank));
    if (expected == made.on_ranks[r].shape) continue;
    return view.error(absl::StrFormat("rank %d makes %s of shape %s, and %s needs %s", rank,
                                      in_quotes(name), to_string(made.on_ranks[r].shape),
                                      spec->to_string(), to_string(expected)));
  }
  TSR_ASSIGN_OR_RETURN(result.grad, read_grad(view.find("grad")));
  step().differentiable &= made.differentiable;
  step().results.push_back(std::move(result));
  read_.specs.push_back(*std::move(spec));
  read_.names.emplace_back(name, view);
  return absl::OkStatus();
}

StatusOr<ReadRegion> RegionReader::read(const JsonView& view) {
  TSR_RETURN_IF_ERROR(view.check_keys({"local_map", "args", "body", "out"}));
  TSR_ASSIGN_OR_RETURN(step().region, view.find("local_map")->text());
  TSR_ASSIGN_OR_RETURN(const auto arguments, view.find("args")->members(kRegionBorder));
  if (arguments.empty()) return view.find("args")->error("a region has an argument at least");
  for (const auto& [name, each] : arguments) TSR_RETURN_IF_ERROR(read_argument(name, each));
  TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> body, view.find("body")->items(kRegionSteps));
  for (const JsonView& each : body) TSR_RETURN_IF_ERROR(read_step(each));
  TSR_ASSIGN_OR_RETURN(const auto results, view.find("out")->members(kRegionBorder));
  if (results.empty()) return view.find("out")->error("a region has a result at least");
  for (const auto& [name, each] : results) TSR_RETURN_IF_ERROR(read_result(name, each));
  step().num_locals = static_cast<int>(locals_.size());
  return std::move(read_);
}

}  // namespace

StatusOr<ReadRegion> read_local_map(const JsonView& view, const OpTable& table,
                                    ProgramScope& scope) {
  return RegionReader(table, scope).read(view);
}

}  // namespace tessera::audit
