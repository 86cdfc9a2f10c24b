// A typed function follows from an op's schema alone. Its parameters are, in this order: operands
// that must be given, attributes that must be given, optional operands, attributes with a default
// (more than three of them in a struct), the place of the call. As in ATen, an attribute "dim"
// stands before the operand "index". What tells ATen's overloads apart in the names of the table
// ("add_scalar") is left out where the rest is an op, too: C++ tells them apart by their types.
#include "tools/placement_audit/ops_front.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tools/placement_audit/ops_pages.h"

namespace tessera::audit {
namespace {

constexpr char kMade[] =
    "Made by scripts/op_pages from the op table; changes by hand are lost.\n// clang-format off\n";
constexpr std::size_t kColumns = 100;
constexpr std::size_t kMostDefaults = 3;    // more of them go into a struct
constexpr std::size_t kMostParameters = 7;  // without a word to clang-tidy; an op has what it has
/// dtensor/ops.h and dtensor/dtensor.h have functions of these names that do more, or other, than
/// one op.
constexpr std::string_view kByHand[] = {"matmul", "ones_like", "zeros_like"};

// ---- text ----

/// `words` in lines of at most kColumns, each behind `head`.
std::string wrapped(std::string_view words, std::string_view head) {
  std::string text, line;
  const std::vector<std::string> all = absl::StrSplit(std::string(words), ' ', absl::SkipEmpty());
  for (const std::string& word : all) {
    if (!line.empty() && head.size() + line.size() + 1 + word.size() > kColumns) {
      text += std::string(head) + line + '\n';
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return line.empty() ? text : text + std::string(head) + line + '\n';
}

/// "head(a, b)tail", broken between parameters where it is too long.
std::string broken(const std::string& head, const std::vector<std::string>& parts,
                   std::string_view tail) {
  std::string text, line = head;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool last = i + 1 == parts.size();
    const std::string part = parts[i] + std::string(last ? tail : ",");
    if (i > 0 && line.size() + 1 + part.size() > kColumns) {
      text += line + '\n';
      line = "    " + part;
    } else {
      line += (i > 0 ? " " : "") + part;
    }
  }
  return text + line + '\n';
}

/// "conv2d_" as the name of a type: "Conv2d".
std::string type_name(std::string_view name) {
  std::string text;
  const std::vector<std::string> parts = absl::StrSplit(std::string(name), '_', absl::SkipEmpty());
  for (std::string part : parts) {
    part[0] = absl::ascii_toupper(part[0]);
    text += part;
  }
  return text;
}

// ---- what an op's parameters are ----

std::string value_type(AttrDef::Type type) {
  constexpr std::string_view kTypes[] = {"bool",  "std::int64_t", "double",
                                         "Shape", "DType",        "std::string"};
  return std::string(kTypes[static_cast<int>(type)]);
}
bool keeps_dim(const AttrDef& attr) {
  return attr.name == "keepdim" && attr.type == AttrDef::Type::kBool;
}
bool may_be_null(const AttrDef& attr) {
  return attr.default_value && std::holds_alternative<std::monostate>(*attr.default_value);
}
std::string held_type(const AttrDef& attr) {
  if (keeps_dim(attr)) return "KeepDim";
  if (may_be_null(attr)) return "std::optional<" + value_type(attr.type) + ">";
  return value_type(attr.type);
}
std::string passed_type(const AttrDef& attr) {
  const std::string type = held_type(attr);
  if (type == "std::string") return "std::string_view";
  return type == "Shape" || type == "std::optional<Shape>" ? "const " + type + '&' : type;
}

struct Literal {
  std::string operator()(std::monostate) const { return "{}"; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const {
    if (value == std::numeric_limits<std::int64_t>::max()) {
      return "std::numeric_limits<std::int64_t>::max()";
    }
    return std::to_string(value);
  }
  std::string operator()(double value) const {
    if (std::isinf(value)) {
      return std::string(value < 0 ? "-" : "") + "std::numeric_limits<double>::infinity()";
    }
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
    std::string text(digits.data(), end.ptr);
    return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
  }
  std::string operator()(DType dtype) const { return "DType::k" + std::string(name_of(dtype)); }
  std::string operator()(const Shape& sizes) const {
    return '{' + absl::StrJoin(sizes, ", ") + '}';
  }
  std::string operator()(const std::string& text) const { return '"' + text + '"'; }
};
std::string default_of(const AttrDef& attr) {
  if (keeps_dim(attr)) {
    return std::get<bool>(*attr.default_value) ? "KeepDim::kYes" : "KeepDim::kNo";
  }
  return std::visit(Literal(), *attr.default_value);
}

/// A typed function: its names, and the schema's parts in the order of its parameters.
struct Function {
  const Op* op = nullptr;
  std::string name;
  std::vector<const ArgDef*> required, optional;
  std::vector<const AttrDef*> given, defaulted;

  explicit Function(const Op& of, std::string called) : op(&of), name(std::move(called)) {
    for (const ArgDef& arg : of.def.args) {
      (arg.kind == ArgDef::Kind::kOptional ? optional : required).push_back(&arg);
    }
    for (const AttrDef& attr : of.def.attrs) {
      (attr.default_value ? defaulted : given).push_back(&attr);
    }
  }
  bool has_options() const { return defaulted.size() > kMostDefaults; }
  std::string options_type() const { return type_name(op->def.name) + "Options"; }
  /// Results that callers get.
  int num_results() const {
    return op->def.num_outputs == OpDef::kAsInferred
               ? OpDef::kAsInferred
               : op->def.num_outputs - op->def.auxiliary_outputs;
  }
  bool is_mutated(const ArgDef& arg) const {
    const auto index = static_cast<int>(&arg - op->def.args.data());
    return std::find(op->in_place.begin(), op->in_place.end(), index) != op->in_place.end();
  }
  /// An attribute may be called as an operand is.
  std::string parameter(const AttrDef& attr) const {
    for (const ArgDef& arg : op->def.args) {
      if (arg.name == attr.name) return attr.name + "_value";
    }
    return attr.name;
  }
  std::string returned() const {
    if (op->mutates()) return op->def.num_outputs == 1 ? "DTensor&" : "void";
    switch (num_results()) {
      case OpDef::kAsInferred:
        return "std::vector<DTensor>";
      case 1:
        return "DTensor";
      case 2:
        return "std::pair<DTensor, DTensor>";
      default:
        return absl::StrFormat("std::array<DTensor, %d>", num_results());
    }
  }
};

enum class Defaults { kShow, kHide };

std::string operand_parameter(const Function& of, const ArgDef& arg, Defaults defaults) {
  if (arg.kind == ArgDef::Kind::kList) return "std::span<const DTensor> " + arg.name;
  std::string text = of.is_mutated(arg) ? "DTensor& " : "const DTensor& ";
  text += arg.name;
  const bool shown = arg.kind == ArgDef::Kind::kOptional && defaults == Defaults::kShow;
  return shown ? text + " = {}" : text;
}

std::vector<std::string> parameters(const Function& of, Defaults defaults) {
  std::vector<std::string> all;
  std::vector<const AttrDef*> given = of.given;
  for (const ArgDef* arg : of.required) {
    const auto dim = std::find_if(given.begin(), given.end(),
                                  [](const AttrDef* attr) { return attr->name == "dim"; });
    if (arg->name == "index" && !all.empty() && dim != given.end()) {
      all.push_back(passed_type(**dim) + ' ' + of.parameter(**dim));
      given.erase(dim);
    }
    all.push_back(operand_parameter(of, *arg, defaults));
  }
  for (const AttrDef* attr : given) all.push_back(passed_type(*attr) + ' ' + of.parameter(*attr));
  for (const ArgDef* arg : of.optional) all.push_back(operand_parameter(of, *arg, defaults));
  const bool shows = defaults == Defaults::kShow;
  if (of.has_options()) {
    all.push_back("const " + of.options_type() + "& options" + (shows ? " = {}" : ""));
  } else {
    for (const AttrDef* attr : of.defaulted) {
      all.push_back(passed_type(*attr) + ' ' + of.parameter(*attr) +
                    (shows ? " = " + default_of(*attr) : ""));
    }
  }
  all.push_back(shows ? "const Site& site = Site::current()" : "const Site& site");
  return all;
}

// ---- its declaration ----

std::string types_of(ArgDef::Types types) {
  constexpr std::string_view kWords[] = {"",         "floating",   "numbers", "integers or BOOL",
                                         "integers", "I64 or I32", "BOOL"};
  return std::string(kWords[static_cast<int>(types)]);
}
std::string dims_of(const ArgDef& arg) {
  if (arg.least_dims == 0 && arg.most_dims == kMaxDims) return "";
  if (arg.least_dims == arg.most_dims) {
    return absl::StrFormat("%d dim%s", arg.least_dims, arg.least_dims == 1 ? "" : "s");
  }
  return arg.most_dims == kMaxDims
             ? absl::StrFormat("%d dims or more", arg.least_dims)
             : absl::StrFormat("%d to %d dims", arg.least_dims, arg.most_dims);
}

/// "self: floating, 2 dims; index: I64 or I32"; empty where every tensor will do.
std::string requirements(const OpDef& def) {
  std::vector<std::string> all;
  for (const ArgDef& arg : def.args) {
    std::vector<std::string> words;
    if (const std::string types = types_of(arg.types); !types.empty()) words.push_back(types);
    if (const std::string dims = dims_of(arg); !dims.empty()) words.push_back(dims);
    if (arg.dtype_as >= 0) {
      words.push_back("dtype of " + def.args[static_cast<std::size_t>(arg.dtype_as)].name);
    }
    if (arg.shape_as >= 0) {
      words.push_back("shape of " + def.args[static_cast<std::size_t>(arg.shape_as)].name);
    }
    if (!words.empty()) all.push_back(arg.name + ": " + absl::StrJoin(words, ", "));
  }
  for (const AttrDef& attr : def.attrs) {
    const bool from = attr.least != std::numeric_limits<std::int64_t>::min();
    const bool to = attr.most != std::numeric_limits<std::int64_t>::max();
    if (from && to)
      all.push_back(absl::StrFormat("%s: %d to %d", attr.name, attr.least, attr.most));
    if (from && !to) all.push_back(absl::StrFormat("%s: at least %d", attr.name, attr.least));
    if (!from && to) all.push_back(absl::StrFormat("%s: at most %d", attr.name, attr.most));
  }
  return absl::StrJoin(all, "; ");
}

std::string declaration(const Function& of) {
  const OpDef& def = of.op->def;
  std::string text;
  if (of.has_options()) {
    text += "struct " + of.options_type() + " {\n";
    for (const AttrDef* attr : of.defaulted) {
      text += absl::StrFormat("  %s %s = %s;\n", held_type(*attr), of.parameter(*attr),
                              default_of(*attr));
    }
    text += "};\n";
  }
  std::string doc = def.doc;
  if (const std::string needs = requirements(def); !needs.empty()) doc += " Takes " + needs + '.';
  if (def.auxiliary_outputs > 0) doc += " Gives the first result; call() gives all.";
  if (!def.rule.empty()) doc += " Rule: " + def.rule;
  return text + wrapped(doc, "/// ") +
         broken(of.returned() + ' ' + of.name + '(', parameters(of, Defaults::kShow), ");");
}

// ---- its definition ----

/// The value of an attribute from its parameter.
std::string attr_value(const AttrDef& attr, const std::string& from) {
  if (keeps_dim(attr)) return from + " == KeepDim::kYes";
  if (may_be_null(attr)) return '*' + from;
  return attr.type == AttrDef::Type::kString ? "std::string(" + from + ')' : from;
}
std::string differs(const AttrDef& attr, const std::string& from) {
  if (may_be_null(attr)) return from;
  if (attr.type == AttrDef::Type::kInts) {
    const Shape& sizes = std::get<Shape>(*attr.default_value);
    return sizes.empty() ? '!' + from + ".empty()" : from + " != Shape" + default_of(attr);
  }
  return from + " != " + default_of(attr);
}

/// What a call passes as attributes, and the statements before it that make them.
struct PassedAttrs {
  std::string statements, value;
};
PassedAttrs passed_attrs(const Function& of) {
  std::vector<std::string> given;
  for (const AttrDef* attr : of.given) {
    given.push_back(
        absl::StrFormat("{\"%s\", %s}", attr->name, attr_value(*attr, of.parameter(*attr))));
  }
  const std::string list = '{' + absl::StrJoin(given, ", ") + '}';
  if (of.defaulted.empty()) return {.statements = "", .value = list};
  std::string text = "  Attrs attrs" + (given.empty() ? "" : " = " + list) + ";\n";
  for (const AttrDef* attr : of.defaulted) {
    const std::string from = (of.has_options() ? "options." : "") + of.parameter(*attr);
    text += absl::StrFormat("  if (%s) attrs.set(\"%s\", %s);\n", differs(*attr, from), attr->name,
                            attr_value(*attr, from));
  }
  return {.statements = text, .value = "attrs"};
}

std::string definition(const Function& of) {
  const OpDef& def = of.op->def;
  const auto [text, attrs] = passed_attrs(of);
  std::string listed;
  std::vector<std::string> operands;
  for (const ArgDef& arg : def.args) {
    if (arg.kind == ArgDef::Kind::kList) {
      listed = arg.name;
    } else {
      operands.push_back('&' + arg.name);
    }
  }
  std::vector<std::string> passed = {absl::StrFormat("known_op(\"%s\")", def.name),
                                     '{' + absl::StrJoin(operands, ", ") + '}'};
  if (!listed.empty()) passed.push_back(listed);
  passed.push_back(attrs);
  passed.push_back("site");
  std::string call = of.returned() == "void" ? "" : "return ";
  std::string_view end = ");";
  if (of.returned() == "DTensor&") {
    const auto self = static_cast<std::size_t>(of.op->in_place[0]);
    call += listed.empty() ? "call_on(" : "listed_call_on(";
    passed.insert(passed.begin(), def.args[self].name);
  } else if (of.op->mutates() || of.num_results() == 1) {
    call += listed.empty() ? "call_op(" : "listed_call_op(";
  } else {
    call += "results_of<" + of.returned() + ">(" + (listed.empty() ? "" : "listed_") + "call_all(";
    end = "));";
  }
  const std::vector<std::string> taken = parameters(of, Defaults::kHide);
  std::string head = broken(of.returned() + ' ' + of.name + '(', taken, ") {");
  const std::string last = call + absl::StrJoin(passed, ", ") + std::string(end);
  const std::string line(absl::StripSuffix(head, "\n"));
  if (text.empty() && line.size() + last.size() + 3 <= kColumns && !absl::StrContains(line, '\n')) {
    return line + ' ' + last + " }\n";
  }
  if (taken.size() > kMostParameters)
    head = "// NOLINTNEXTLINE(readability-function-size)\n" + head;
  return head + text + broken("  " + call, passed, end) + "}\n";
}

// ---- files ----

/// The header for a family's functions: named as the folder below strategies/ops/; of the largest
/// folder, activations and losses have their own.
std::string group_of_family(const OpFamily& family) {
  for (const std::string_view kind : {"activation", "loss"}) {
    if (family.folder == "pointwise" && family.name.ends_with(kind)) return std::string(kind);
  }
  return std::string(family.folder);
}

/// The header of an op; gradients and what is in place have headers by themselves.
std::string group_of(const Op& op, const OpFamily& family) {
  const std::string& name = op.def.name;
  if (name.find("_grad") != std::string::npos || name.ends_with("_backward")) return "gradients";
  return op.mutates() ? "in_place" : group_of_family(family);
}

/// "add" for "add_scalar", "add_" for "add_scalar_": where the rest is an op by itself; what comes
/// before a dot.
std::string overload_of(const std::string& name, const std::map<std::string, OpFamily>& ops) {
  if (const std::size_t dot = name.find('.'); dot != std::string::npos) return name.substr(0, dot);
  for (const std::string_view kind : {"_scalar", "_value", "_tensor", "_dim"}) {
    for (const std::string_view end : {"", "_"}) {
      const std::string tail = std::string(kind) + std::string(end);
      if (!name.ends_with(tail)) continue;
      const std::string rest = name.substr(0, name.size() - tail.size()) + std::string(end);
      if (ops.contains(rest)) return rest;
    }
  }
  return name;
}

Page names_page(const std::map<std::string, OpFamily>& ops) {
  std::string text = "// dtensor/front/names.h: the built-in ops, sorted.\n// " +
                     std::string(kMade) +
                     "#pragma once\n\n#include <string_view>\n\nnamespace tessera {\n\n"
                     "inline constexpr std::string_view kKnownOpNames[] = {\n";
  std::vector<std::string> quoted;
  for (const auto& [name, family] : ops) quoted.push_back('"' + name + '"');
  text += wrapped(absl::StrJoin(quoted, ", "), "    ");
  return {.name = "names.h", .text = text + "};\n\n}  // namespace tessera\n"};
}

std::string what_of(const std::string& group) {
  if (group == "activation") return "typed functions of activations.";
  if (group == "loss") return "typed functions of pointwise losses.";
  if (group == "gradients") return "typed functions of the ops that gradients consist of.";
  if (group == "in_place") return "typed functions of the ops that change an operand.";
  return "typed functions of the ops in strategies/ops/" + group + "/.";
}

Page header(const std::string& group, const std::vector<Function>& functions) {
  std::string text =
      wrapped("dtensor/front/" + group + ".h: " + what_of(group) +
                  " Each throws Error, naming what was seen and what is allowed, "
                  "for operands and attributes that its op does not take, before any "
                  "collective.",
              "// ");
  text += "// " + std::string(kMade) +
          "#pragma once\n\n#include <array>\n#include <limits>\n#include <optional>\n"
          "#include <span>\n#include <string>\n#include <string_view>\n#include <utility>\n"
          "#include <vector>\n\n#include \"dtensor/dtensor.h\"\n#include \"dtensor/keep_dim.h\"\n"
          "#include \"placement/api.h\"\n\nnamespace tessera TSR_API {\n\n";
  for (const Function& each : functions) text += declaration(each);
  return {.name = group + ".h", .text = text + "\n}  // namespace tessera\n"};
}

Page source(const std::string& group, const std::vector<Function>& functions) {
  std::string text = "// " + std::string(kMade) + "#include \"dtensor/front/" + group +
                     ".h\"\n\n#include \"dtensor/op_call.h\"\n\nnamespace tessera {\n\n";
  for (const Function& each : functions) text += definition(each);
  return {.name = group + ".cc", .text = text + "\n}  // namespace tessera\n"};
}

}  // namespace

std::vector<Page> op_front(const std::vector<const Op*>& ops) {
  const std::map<std::string, OpFamily> family_of = family_of_ops();
  std::map<std::string, std::vector<Function>> by_group;
  for (const Op* op : ops) {
    const std::string& name = op->def.name;
    const auto family = family_of.find(name);
    if (family == family_of.end() || std::ranges::find(kByHand, name) != std::end(kByHand))
      continue;
    by_group[group_of(*op, family->second)].emplace_back(*op, overload_of(name, family_of));
  }
  std::vector<Page> pages = {names_page(family_of)};
  for (const auto& [group, functions] : by_group) {
    pages.push_back(header(group, functions));
    pages.push_back(source(group, functions));
  }
  return pages;
}

}  // namespace tessera::audit
