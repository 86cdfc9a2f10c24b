#include "program/stablehlo/conversion.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "io/json.h"

namespace tessera::stablehlo {
namespace {

Json json_of(const AttrValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return Json(*flag);
  if (const auto* number = std::get_if<std::int64_t>(&value)) return Json(*number);
  if (const auto* number = std::get_if<double>(&value)) {
    if (std::isnan(*number)) return Json("nan");
    if (std::isinf(*number)) return Json(*number > 0 ? "inf" : "-inf");
    return Json(*number);
  }
  if (const auto* dtype = std::get_if<DType>(&value)) return Json(tessera::name_of(*dtype));
  if (const auto* text = std::get_if<std::string>(&value)) return Json(*text);
  Json::Array items;
  if (const auto* sizes = std::get_if<Shape>(&value)) {
    for (const std::int64_t size : *sizes) items.emplace_back(size);
  }
  return Json(std::move(items));
}

/// What our op gives may be what the text declares: products may be kept wider, and counts of
/// positions are of either index type.
bool fits(const TensorMeta& made, const TensorType& declared) {
  if (made.shape != declared.shape) return false;
  if (made.dtype == declared.dtype) return true;
  return (is_index(made.dtype) && is_index(declared.dtype)) ||
         (is_floating(made.dtype) && is_floating(declared.dtype));
}

}  // namespace

Status Conversion::error(const std::string& what) const {
  return builder_.text().error(statement_.offset, statement_.op + ": " + what);
}

Status Conversion::need_operands(std::size_t least) const {
  if (operands_.size() >= least) return absl::OkStatus();
  return error(absl::StrFormat("%d operands; it takes %d", operands_.size(), least));
}

StatusOr<std::vector<std::int64_t>> Conversion::ints(std::string_view pretty,
                                                     std::string_view generic) const {
  Nodes found = statement_.attribute(pretty);
  if (found.empty() && !generic.empty()) found = statement_.attribute(generic);
  return integers_of(builder_.text(), found);
}

bool Conversion::has_stand_in() const {
  const auto stands_in = [](const TensorType& type) { return !type.stand_in.empty(); };
  return std::ranges::any_of(statement_.result_types, stands_in) ||
         std::ranges::any_of(operands_,
                             [&](BoundId id) { return stands_in(builder_.at(id).type); });
}

StatusOr<std::vector<BoundId>> Conversion::declare_results() {
  std::vector<std::string> names;
  for (const Result& result : statement_.results) {
    for (int i = 0; i < result.count; ++i) {
      names.push_back(prefix_ + result.name + (result.count > 1 ? absl::StrFormat("#%d", i) : ""));
    }
  }
  if (names.size() != statement_.result_types.size()) {
    return error(
        absl::StrFormat("%d results of %d types", names.size(), statement_.result_types.size()));
  }
  std::vector<Sharding> shardings;
  if (const Nodes found = statement_.attribute("sdy.sharding"); !found.empty()) {
    TSR_ASSIGN_OR_RETURN(shardings, parse_shardings(builder_.text(), found));
    if (shardings.size() != names.size()) {
      return error(absl::StrFormat("%d shardings of %d results", shardings.size(), names.size()));
    }
  }
  // Where no sharding says it, results are on the mesh of what they are made of.
  std::optional<int> mesh = builder_.module().meshes.main();
  for (const BoundId id : operands_) {
    if (!builder_.at(id).value.mesh) continue;
    mesh = builder_.at(id).value.mesh;
    break;
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    results_.push_back(builder_.add(names[i], statement_.result_types[i], mesh));
    if (!shardings.empty()) TSR_RETURN_IF_ERROR(builder_.place(results_.back(), shardings[i]));
  }
  return results_;
}

StatusOr<std::vector<BoundId>> Conversion::run() {
  origin_.from = statement_.op;
  TSR_RETURN_IF_ERROR(declare_results().status());
  const OpRow* const row = find_op_row(statement_.op);
  if (row == nullptr) {
    why_ = "no op of the table says what it does, nor what it would move";
  } else if (!takes_any_type(row->form) && has_stand_in()) {
    why_ = "its element type is held in one of the same size that the table has";
  } else {
    const Builder::Mark mark = builder_.mark();
    TSR_ASSIGN_OR_RETURN(std::optional<Ids> made, convert(*row));
    if (made) return *std::move(made);
    builder_.undo_to(mark);
  }
  return make_region();
}

StatusOr<std::optional<Conversion::Ids>> Conversion::convert(const OpRow& row) {
  switch (row.form) {
    case Form::kConstant:
      return constant();
    case Form::kIota:
      return iota();
    case Form::kPass:
      return pass();
    case Form::kConstraint:
      return move(/*implicit=*/false);
    case Form::kReshard:
      return move(/*implicit=*/row.name != "sdy.reshard");
    case Form::kTopK:
      return top_k();
    default:
      break;
  }
  TSR_RETURN_IF_ERROR(need_operands(1));
  if (results_.size() != 1) {
    why_ = "it gives several results";
    return std::optional<Ids>();
  }
  TSR_ASSIGN_OR_RETURN(const std::optional<BoundId> made, convert_one(row));
  if (!made) return std::optional<Ids>();
  return std::optional<Ids>(Ids{*made});
}

Conversion::Made Conversion::convert_one(const OpRow& row) {
  switch (row.form) {
    case Form::kElementwise:
      return call(row.ops, operands_, {});
    case Form::kPair:
      return pair(row);
    case Form::kLogical:
      return logical();
    case Form::kCompare:
      return compare();
    case Form::kSelect:
      return select();
    case Form::kClamp:
      return clamp();
    case Form::kConvert:
      return convert_type();
    case Form::kBroadcast:
      return broadcast();
    case Form::kReshape:
      return reshape();
    case Form::kTranspose:
      return transpose();
    case Form::kReverse:
      return reverse();
    case Form::kConcatenate:
      return concatenate();
    case Form::kSlice:
      return slice();
    case Form::kPad:
      return pad();
    case Form::kDynamicSlice:
      return dynamic_slice();
    case Form::kDynamicUpdateSlice:
      return dynamic_update_slice();
    case Form::kDot:
      return dot();
    case Form::kReduce:
      return reduce();
    case Form::kReduceWindow:
      return reduce_window();
    case Form::kGather:
      return gather();
    case Form::kScatter:
      return scatter();
    default:
      return no("no op of the table says what it does");
  }
}

StatusOr<Conversion::Ids> Conversion::make_region() {
  RegionStep step;
  step.name = statement_.op;
  for (const BoundId id : operands_) {
    TSR_ASSIGN_OR_RETURN(const std::string name, builder_.name_of(id, origin_));
    step.args.emplace_back(name);
  }
  for (const BoundId id : results_) step.out.push_back(builder_.at(id).value);
  step.warning = why_;
  TSR_RETURN_IF_ERROR(builder_.push({std::move(step), origin_}, results_, statement_.offset));
  return results_;
}

std::vector<TensorMeta> Conversion::metas(const Ids& operands) const {
  std::vector<TensorMeta> found;
  for (const BoundId id : operands) {
    const TensorType& type = builder_.at(id).type;
    found.push_back({.shape = type.shape, .dtype = type.dtype});
  }
  return found;
}

Conversion::Made Conversion::call(std::string_view name, const Ids& operands, const AttrList& attrs,
                                  Gives gives) {
  const StatusOr<const Op*> found_op = builder_.ops().find(name);
  if (!found_op.ok()) return no(std::string(message_of(found_op.status())));
  const Op* const op = *found_op;
  Attrs given;
  CallStep step{.op = op->def.name, .args = {}, .attrs = {}, .out = {}, .row = {}};
  for (const auto& [key, value] : attrs) {
    const auto found = std::ranges::find(op->def.attrs, key, &AttrDef::name);
    if (found == op->def.attrs.end())
      return no(op->def.name + " has no attribute " + std::string(key));
    given.set(found->name, value);
    step.attrs.push_back({found->name, json_of(value)});
  }
  const StatusOr<Attrs> complete = complete_attrs(*op, given);
  if (!complete.ok()) return no(std::string(message_of(complete.status())));
  std::vector<TensorMeta> inputs = metas(operands);
  for (std::size_t i = inputs.size(); i < op->def.args.size(); ++i) {
    if (op->def.args[i].kind == ArgDef::Kind::kOptional) inputs.push_back({.absent = true});
  }
  const StatusOr<std::vector<TensorMeta>> made = infer(*op, inputs, *complete);
  if (!made.ok()) return no(std::string(message_of(made.status())));
  BoundId id = results_[0];
  if (gives == Gives::kLast) {
    if (!fits(made->front(), builder_.at(id).type)) {
      return no(absl::StrFormat("%s would give %s%s", op->def.name,
                                tessera::name_of(made->front().dtype),
                                to_string(made->front().shape)));
    }
  } else {
    id = builder_.add(builder_.at(id).value.name + '.' + op->def.name,
                      {.shape = made->front().shape, .dtype = made->front().dtype},
                      builder_.at(id).value.mesh);
    builder_.at(id).value.layout.reset();
  }
  Json::Array args;
  for (const BoundId operand : operands) {
    TSR_ASSIGN_OR_RETURN(std::string text, builder_.name_of(operand, origin_));
    args.emplace_back(std::move(text));
  }
  const bool is_list = !op->def.args.empty() && op->def.args.back().kind == ArgDef::Kind::kList;
  step.args = is_list ? Json::Array{Json(std::move(args))} : std::move(args);
  step.out.push_back(builder_.at(id).value);
  TSR_RETURN_IF_ERROR(builder_.push({std::move(step), origin_}, {id}, statement_.offset));
  return std::optional<BoundId>(id);
}

StatusOr<Conversion::Ids> Conversion::pass() {
  if (results_.size() > operands_.size()) return error("fewer operands than results");
  Ids passed;
  for (std::size_t i = 0; i < results_.size(); ++i) {
    const Bound &from = builder_.at(operands_[i]), &to = builder_.at(results_[i]);
    if (from.type != to.type) return error("results of other types than its operands");
    if (from.splat || !to.value.layout || from.value.layout == to.value.layout) {
      passed.push_back(operands_[i]);
      continue;
    }
    TSR_ASSIGN_OR_RETURN(std::string name, builder_.name_of(operands_[i], origin_));
    MoveStep step{.value = std::move(name),
                  .out = builder_.at(results_[i]).value,
                  .implicit = true,
                  .needed_by = statement_.op,
                  .moves = {}};
    TSR_RETURN_IF_ERROR(
        builder_.push({std::move(step), origin_}, {results_[i]}, statement_.offset));
    passed.push_back(results_[i]);
  }
  return passed;
}

Status Conversion::mark_summands() {
  Bound& bound = builder_.at(operands_[0]);
  if (!bound.value.layout || bound.step < 0) return absl::OkStatus();
  AnyStep& made_by = builder_.program().steps[static_cast<std::size_t>(bound.step)];
  auto* const call = std::get_if<CallStep>(&made_by.what);
  if (call == nullptr) return absl::OkStatus();
  for (const Node& node : statement_.body) {
    if (!node.is_group('{') && !node.is_group('[')) continue;
    TSR_ASSIGN_OR_RETURN(const std::vector<AxisRef> refs, parse_axes(builder_.text(), node));
    for (const AxisRef& ref : refs) {
      TSR_ASSIGN_OR_RETURN(const std::vector<int> axes,
                           builder_.module().meshes.axes_of(*bound.value.mesh, ref));
      for (const int axis : axes) {
        if (bound.value.layout->dim_of_axis(axis) >= 0) {
          return error("axis " + in_quotes(ref.name) +
                       " cuts its operand; a sum over it cannot be");
        }
        const Mesh& mesh =
            builder_.program().meshes[static_cast<std::size_t>(*bound.value.mesh)].mesh;
        if (mesh.size(axis) == 1) continue;  // one summand is the sum
        bound.value.layout->partial[static_cast<std::size_t>(axis)] = ReduceOp::kSum;
      }
    }
    break;
  }
  call->out[bound.out].layout = bound.value.layout;
  return absl::OkStatus();
}

StatusOr<Conversion::Ids> Conversion::move(bool implicit) {
  TSR_RETURN_IF_ERROR(need_operands(1));
  if (results_.size() != 1) return error("one result is expected of it");
  if (type(0) != result_type()) return error("a result of another type than its operand");
  Nodes wanted = statement_.attribute("out_sharding");
  if (wanted.empty()) wanted = statement_.attribute("sharding");
  for (const Node& node : statement_.body) {
    const bool names_mesh = node.is_group('<') && !node.inside.empty() &&
                            node.inside[0].token.kind == Token::Kind::kSymbol;
    if (wanted.empty() && names_mesh) wanted = Nodes(&node, 1);
  }
  if (wanted.empty()) return error("expected a sharding such as <@mesh, [{\"x\"}, {}]>");
  TSR_ASSIGN_OR_RETURN(const Sharding sharding, parse_sharding(builder_.text(), wanted));
  TSR_RETURN_IF_ERROR(builder_.place(results_[0], sharding));
  builder_.at(results_[0]).splat = splat(0);
  if (splat(0)) return results_;
  if (statement_.op == "sdy.all_reduce" || statement_.op == "sdy.reduce_scatter") {
    TSR_RETURN_IF_ERROR(mark_summands());
  }
  TSR_ASSIGN_OR_RETURN(std::string name, builder_.name_of(operands_[0], origin_));
  MoveStep step{.value = std::move(name),
                .out = builder_.at(results_[0]).value,
                .implicit = implicit,
                .needed_by = {},
                .moves = {}};
  TSR_RETURN_IF_ERROR(builder_.push({std::move(step), origin_}, results_, statement_.offset));
  return results_;
}

}  // namespace tessera::stablehlo
