#include "absl/strings/str_format.h"
#include "io/placement_json.h"
#include "strategies/rules/host_reads.h"
#include "strategies/rules/op.h"
#include "tools/placement_audit/command.h"
#include "tools/placement_audit/find_ops.h"
#include "tools/placement_audit/ops_front.h"
#include "tools/placement_audit/ops_pages.h"

namespace tessera::audit {
namespace {

std::string_view name_of(ArgDef::Kind kind) {
  switch (kind) {
    case ArgDef::Kind::kTensor:
      return "tensor";
    case ArgDef::Kind::kOptional:
      return "optional";
    case ArgDef::Kind::kList:
      return "list";
  }
  return "";
}

std::string_view name_of(AttrDef::Type type) {
  constexpr std::string_view kNames[] = {"bool", "int", "double", "ints", "dtype", "string"};
  return kNames[static_cast<int>(type)];
}

struct ToJson {
  Json operator()(std::monostate) const { return Json(); }
  Json operator()(DType dtype) const { return Json(tessera::name_of(dtype)); }
  Json operator()(const Shape& sizes) const {
    return Json(Json::Array(sizes.begin(), sizes.end()));
  }
  template <class T>
  Json operator()(const T& value) const {
    return Json(value);
  }
};

Json args_of(const OpDef& def) {
  Json::Array args;
  for (const ArgDef& arg : def.args) {
    args.push_back(Json::object({{"name", arg.name}, {"kind", name_of(arg.kind)}}));
  }
  return Json(std::move(args));
}

Json attrs_of(const OpDef& def) {
  Json::Array attrs;
  for (const AttrDef& attr : def.attrs) {
    Json json = Json::object({{"name", attr.name}, {"type", name_of(attr.type)}});
    // Without a default the attribute must be given; a null default means "not given" is a value.
    if (attr.default_value) json.set("default", std::visit(ToJson(), *attr.default_value));
    attrs.push_back(std::move(json));
  }
  return Json(std::move(attrs));
}

Json op_to_json(const Op& op) {
  const OpDef& def = op.def;
  Json json = Json::object({{"name", def.name},
                            {"doc", def.doc},
                            {"args", args_of(def)},
                            {"attrs", attrs_of(def)},
                            {"rule", def.rule},
                            {"num_outputs", def.num_outputs},
                            {"in_place", op.mutates()},
                            {"view", def.is_view},
                            {"differentiable", def.gradient != nullptr}});
  Json::Array lowerings, declined;
  for (const Lowering& lowering : def.lowerings) {
    lowerings.push_back(Json::object({{"factor", lowering.factor}, {"doc", lowering.doc}}));
  }
  for (const std::string& reason : def.declined) declined.push_back(Json(reason));
  json.set("lowerings", Json(std::move(lowerings)));
  json.set("declined", Json(std::move(declined)));
  Json::Array finite;
  for (const int argument : op.finite_arguments()) {
    finite.push_back(Json(def.args[static_cast<std::size_t>(argument)].name));
  }
  json.set("finite", Json(std::move(finite)));
  if (!def.cotangent_spreads.empty()) json.set("cotangent_spreads", Json(def.cotangent_spreads));
  if (!def.amendments.empty()) json.set("amended", amendments_of(def));
  if (const std::string devices = devices_of(def); !devices.empty()) {
    json.set("devices", Json(devices));
  }
  return json;
}

std::string op_to_text(const Op& op) {
  const OpDef& def = op.def;
  std::string text = signature(def) + "\n    " + def.doc + "\n    ";
  text += def.rule.empty() ? "rows by a function of its own" : def.rule;
  text += '\n';
  for (const std::string& change : def.amendments) text += "    amended: " + change + '\n';
  for (const Lowering& lowering : def.lowerings) {
    text += absl::StrFormat("    lowers %s: %s\n", lowering.factor, lowering.doc);
  }
  for (const std::string& reason : def.declined) text += "    declines " + reason + '\n';
  for (const int argument : op.finite_arguments()) {
    text +=
        "    sums pass while finite: " + def.args[static_cast<std::size_t>(argument)].name + '\n';
  }
  if (!def.cotangent_spreads.empty()) {
    text += "    an infinite cotangent spreads " + def.cotangent_spreads + '\n';
  }
  if (const std::string devices = devices_of(def); !devices.empty()) {
    text += "    runs on " + devices + '\n';
  }
  return text;
}

}  // namespace

std::string signature(const OpDef& def) {
  std::string text = def.name + '(';
  for (std::size_t i = 0; i < def.args.size(); ++i) {
    if (i > 0) text += ", ";
    text += def.args[i].name;
    if (def.args[i].kind == ArgDef::Kind::kOptional) text += '?';
    if (def.args[i].kind == ArgDef::Kind::kList) text += "..";
  }
  for (std::size_t i = 0; i < def.attrs.size(); ++i) {
    text += i > 0 ? ", " : def.args.empty() ? "" : "; ";
    text += def.attrs[i].name;
    if (def.attrs[i].default_value) {
      text += '=' + std::visit(ToJson(), *def.attrs[i].default_value).to_string();
    }
  }
  return text + ')';
}

Json amendments_of(const OpDef& def) {
  return Json(Json::Array(def.amendments.begin(), def.amendments.end()));
}

std::string devices_of(const OpDef& def) {
  static const OpTable kBuiltin = [] {
    OpTable table;
    add_builtin_ops(table);
    return table;
  }();
  const bool as_built_in = def.amendments.empty() && kBuiltin.find(def.name).ok();
  return as_built_in ? devices_text(def.name) : "";
}

StatusOr<OpTable> op_table(const Request& request) {
  OpTable table;
  add_builtin_ops(table);
  if (request.add_ops) TSR_RETURN_IF_ERROR(request.add_ops(table));
  return table;
}

StatusOr<std::vector<const Op*>> find_ops(const OpTable& table,
                                          const std::vector<std::string>& names) {
  if (names.empty()) return table.ops();
  std::vector<const Op*> found;
  for (const std::string& name : names) {
    TSR_ASSIGN_OR_RETURN(const Op* op, table.find(name));
    found.push_back(op);
  }
  return found;
}

StatusOr<Answer> ops(const Request& request) {
  TSR_ASSIGN_OR_RETURN(const OpTable table, op_table(request));
  TSR_ASSIGN_OR_RETURN(const std::vector<const Op*> chosen, find_ops(table, request.names));
  if (request.format == Format::kText) {
    std::string text;
    for (const Op* op : chosen) text += op_to_text(*op);
    return Answer{.text = std::move(text)};
  }
  if (request.format == Format::kMarkdown) return Answer{.pages = op_pages(chosen)};
  if (request.format == Format::kCpp) return Answer{.pages = op_front(chosen)};
  Json::Array list;
  for (const Op* op : chosen) list.push_back(op_to_json(*op));
  return Answer{.text = json_line(Json::object({{"ops", Json(std::move(list))}}))};
}

}  // namespace tessera::audit
