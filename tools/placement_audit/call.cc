#include "tools/placement_audit/call.h"

#include "absl/strings/str_format.h"
#include "io/placement_json.h"
#include "tools/placement_audit/run_values.h"

namespace tessera::audit {
namespace {

constexpr JsonBound kForcedRows = {64, "rows"};

StatusOr<Spec> read_tensor(const JsonView& view, const Mesh& mesh) {
  TSR_RETURN_IF_ERROR(view.check_keys({"tensor"}, {"placements", "layout"}));
  TSR_ASSIGN_OR_RETURN(const JsonView tensor_view, view.at("tensor"));
  TSR_ASSIGN_OR_RETURN(TensorType tensor, read_tensor_type(tensor_view));
  const std::optional<JsonView> placements = view.find("placements");
  const std::optional<JsonView> layout = view.find("layout");
  if (placements.has_value() == layout.has_value()) {
    return view.error("give one of \"placements\" and \"layout\"");
  }
  TSR_ASSIGN_OR_RETURN(Layout read, read_placements_or_layout(placements ? *placements : *layout,
                                                              mesh, view_of(tensor.global_shape)));
  return Spec::make(mesh, std::move(tensor.global_shape), tensor.dtype, std::move(read));
}

// The dtype of the first operand that is a tensor: numbers take it.
StatusOr<std::optional<DType>> dtype_of_first_tensor(const std::vector<JsonView>& args) {
  for (const JsonView& arg : args) {
    if (const std::optional<JsonView> tensor = arg.find("tensor")) {
      TSR_ASSIGN_OR_RETURN(const TensorType type, read_tensor_type(*tensor));
      return std::optional<DType>(type.dtype);
    }
  }
  return std::optional<DType>();
}

class CallReader {
 public:
  CallReader(const Op& op, const Mesh& mesh, std::optional<DType> first_tensor)
      : op_(op), mesh_(mesh), first_tensor_(first_tensor) {}

  Status read(const JsonView& args_view, const std::vector<JsonView>& args);
  std::vector<std::optional<Spec>> take() { return std::move(operands_); }

 private:
  Status read_operand(const JsonView& view, const ArgDef& arg);
  Status read_one(const JsonView& view);

  const Op& op_;
  const Mesh& mesh_;
  std::optional<DType> first_tensor_;
  std::vector<std::optional<Spec>> operands_;
};

Status CallReader::read(const JsonView& args_view, const std::vector<JsonView>& args) {
  const std::vector<ArgDef>& expected = op_.def.args;
  TSR_RETURN_IF_ERROR(check_arity(args_view, args.size(), op_.def));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (i < args.size()) {
      TSR_RETURN_IF_ERROR(read_operand(args[i], expected[i]));
    } else {
      operands_.push_back(std::nullopt);
    }
  }
  return absl::OkStatus();
}

Status CallReader::read_operand(const JsonView& view, const ArgDef& arg) {
  if (arg.kind == ArgDef::Kind::kList) {
    TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> items, view.items(kListOperands));
    if (items.empty()) return view.error("a list operand has at least one item");
    for (const JsonView& item : items) TSR_RETURN_IF_ERROR(read_one(item));
    return absl::OkStatus();
  }
  if (arg.kind == ArgDef::Kind::kOptional && view.kind() == Json::Kind::kNull) {
    operands_.push_back(std::nullopt);
    return absl::OkStatus();
  }
  return read_one(view);
}

Status CallReader::read_one(const JsonView& view) {
  if (is_number(view)) {
    const Placements everywhere(static_cast<std::size_t>(mesh_.ndim()), Replicate{});
    const DType dtype = number_dtype(view, first_tensor_);
    TSR_ASSIGN_OR_RETURN(Spec spec, Spec::make(mesh_, Shape(), dtype, everywhere));
    operands_.push_back(std::move(spec));
    return absl::OkStatus();
  }
  TSR_ASSIGN_OR_RETURN(Spec spec, read_tensor(view, mesh_));
  operands_.push_back(std::move(spec));
  return absl::OkStatus();
}

StatusOr<AttrValue> read_attr(const JsonView& view, AttrDef::Type type) {
  switch (type) {
    case AttrDef::Type::kBool: {
      TSR_ASSIGN_OR_RETURN(const bool value, view.boolean());
      return AttrValue(value);
    }
    case AttrDef::Type::kInt: {
      TSR_ASSIGN_OR_RETURN(const std::int64_t value, view.integer());
      return AttrValue(value);
    }
    case AttrDef::Type::kDouble: {
      TSR_ASSIGN_OR_RETURN(const double value, read_floating(view));
      return AttrValue(value);
    }
    case AttrDef::Type::kInts: {
      if (view.kind() == Json::Kind::kInteger) {
        TSR_ASSIGN_OR_RETURN(const std::int64_t one, view.integer());
        return AttrValue(Shape{one});
      }
      TSR_ASSIGN_OR_RETURN(const std::vector<std::int64_t> values, view.integers());
      return AttrValue(to_shape(values));
    }
    case AttrDef::Type::kDType: {
      TSR_ASSIGN_OR_RETURN(const std::string name, view.text());
      const StatusOr<DType> dtype = parse_dtype(name);
      if (!dtype.ok()) return view.annotate(dtype.status());
      return AttrValue(*dtype);
    }
    case AttrDef::Type::kString: {
      TSR_ASSIGN_OR_RETURN(std::string value, view.text());
      return AttrValue(std::move(value));
    }
  }
  return view.error("an attribute of no known type");
}

}  // namespace

StatusOr<const Op*> read_op(const JsonView& view, const OpTable& table) {
  TSR_ASSIGN_OR_RETURN(const std::string name, view.text());
  StatusOr<const Op*> op = table.find(name);
  if (!op.ok()) return view.annotate(op.status());
  return op;
}

Status check_arity(const JsonView& args_view, std::size_t given, const OpDef& def) {
  std::size_t required = 0;
  std::string names;
  for (const ArgDef& arg : def.args) {
    required += arg.kind != ArgDef::Kind::kOptional ? 1 : 0;
    names += (names.empty() ? "" : ", ") + arg.name;
  }
  if (given >= required && given <= def.args.size()) return absl::OkStatus();
  return args_view.error(
      absl::StrFormat("%d operands for %s, which takes (%s)", given, def.name, names));
}

StatusOr<Attrs> read_attrs(const std::optional<JsonView>& view, const JsonView& call,
                           const Op& op) {
  Attrs given;
  if (view) {
    TSR_ASSIGN_OR_RETURN(const auto members, view->members());
    for (const auto& [name, value] : members) {
      const AttrDef* found = nullptr;
      std::string allowed;
      for (const AttrDef& attr : op.def.attrs) {
        if (attr.name == name) found = &attr;
        allowed += (allowed.empty() ? "" : ", ") + attr.name;
      }
      if (found == nullptr) {
        return view->error(absl::StrFormat("%s has no attribute %s; allowed: %s", op.def.name,
                                           in_quotes(name), allowed.empty() ? "none" : allowed));
      }
      if (value.kind() == Json::Kind::kNull) continue;  // not given
      TSR_ASSIGN_OR_RETURN(AttrValue read, read_attr(value, found->type));
      given.set(found->name, std::move(read));
    }
  }
  StatusOr<Attrs> complete = complete_attrs(op, given);
  if (!complete.ok()) return (view ? *view : call).annotate(complete.status());
  return complete;
}

StatusOr<std::vector<ForcedRow>> read_forced(const JsonView& call, const Mesh& mesh) {
  std::vector<ForcedRow> forced;
  const std::optional<JsonView> view = call.find("force");
  if (!view) return forced;
  TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> items, view->items(kForcedRows));
  for (const JsonView& item : items) {
    TSR_RETURN_IF_ERROR(item.check_keys({"row"}, {"axis"}));
    ForcedRow& each = forced.emplace_back();
    TSR_ASSIGN_OR_RETURN(each.row, item.find("row")->text());
    each.by = "\"force\"";
    const std::optional<JsonView> axis = item.find("axis");
    if (!axis) continue;
    TSR_ASSIGN_OR_RETURN(each.axis, axis->text());
    std::string labels;
    bool known = false;
    for (int a = 0; a < mesh.ndim(); ++a) {
      known |= mesh.axis_label(a) == each.axis;
      labels += (a == 0 ? "" : ", ") + mesh.axis_label(a);
    }
    if (!known) {
      return axis->error(
          absl::StrFormat("%s is no axis of the mesh; it has %s", in_quotes(each.axis), labels));
    }
  }
  return forced;
}

DType number_dtype(const JsonView& number, std::optional<DType> first_tensor) {
  if (!first_tensor) return DType::kF32;
  if (number.kind() == Json::Kind::kNumber && !is_floating(*first_tensor)) return DType::kF32;
  return *first_tensor == DType::kBool ? DType::kI64 : *first_tensor;
}

StatusOr<Call> read_call(const JsonView& root, const OpTable& table) {
  TSR_RETURN_IF_ERROR(root.check_keys({"mesh", "op", "args"}, {"attrs", "force"}));
  TSR_ASSIGN_OR_RETURN(const JsonView mesh_view, root.at("mesh"));
  TSR_ASSIGN_OR_RETURN(const Mesh mesh, read_mesh(mesh_view));
  TSR_ASSIGN_OR_RETURN(const JsonView op_view, root.at("op"));
  TSR_ASSIGN_OR_RETURN(const Op* op, read_op(op_view, table));

  TSR_ASSIGN_OR_RETURN(const JsonView args_view, root.at("args"));
  TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> args, args_view.items());
  TSR_ASSIGN_OR_RETURN(const std::optional<DType> first_tensor, dtype_of_first_tensor(args));
  CallReader reader(*op, mesh, first_tensor);
  TSR_RETURN_IF_ERROR(reader.read(args_view, args));
  TSR_ASSIGN_OR_RETURN(Attrs attrs, read_attrs(root.find("attrs"), root, *op));
  TSR_ASSIGN_OR_RETURN(std::vector<ForcedRow> forced, read_forced(root, mesh));
  return Call{
      .op = op, .operands = reader.take(), .attrs = std::move(attrs), .forced = std::move(forced)};
}

}  // namespace tessera::audit
