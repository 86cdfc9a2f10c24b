#include "tools/placement_audit/ops_pages.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/str_format.h"
#include "strategies/rules/host_reads.h"
#include "strategies/rules/propagate.h"
#include "tools/placement_audit/row_texts.h"

namespace tessera::audit {
namespace {

constexpr char kGenerated[] =
    "<!-- Made by scripts/op_pages from the op table; changes by hand are lost. -->\n";

/// A page's name by op: that of its file, or of the file whose name begins it ("index" for
/// index_rows).
std::map<std::string, std::string> families() {
  std::set<std::string> files;
  for (const OpFamily& family : builtin_families()) files.emplace(family.name);
  std::map<std::string, std::string> page_of;
  for (const auto& [name, family] : family_of_ops()) {
    std::string page(family.name);
    for (std::size_t end = page.rfind('_'); end != std::string::npos; end = page.rfind('_', end)) {
      if (files.contains(page.substr(0, end))) {
        page.resize(end);
        break;
      }
      if (end-- == 0) break;
    }
    page_of.emplace(name, page);
  }
  return page_of;
}

std::string title_of(std::string page) {
  std::replace(page.begin(), page.end(), '_', ' ');
  page[0] = static_cast<char>(page[0] >= 'a' && page[0] <= 'z' ? page[0] - 'a' + 'A' : page[0]);
  return page;
}

/// A vertical bar would end a table's cell, and < begin a tag.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '*' || c == '_') {
      (out += '\\') += c;
    } else {
      out += c;
    }
  }
  return out;
}

std::string traits_of(const Op& op) {
  std::string text = op.def.gradient != nullptr ? "gradient" : "no gradient";
  if (op.mutates()) text += ", in place";
  if (op.def.is_view) text += ", view";
  if (const std::string devices = devices_of(op.def); !devices.empty()) text += " · " + devices;
  return text;
}

std::string lowerings_of(const OpDef& def) {
  std::string text;
  for (const Lowering& lowering : def.lowerings) {
    text += absl::StrFormat("- lowering of `%s`: %s\n", lowering.factor, escaped(lowering.doc));
  }
  return text;
}

std::string declined_of(const OpDef& def) {
  std::string text;
  for (const std::string& declined : def.declined) {
    const std::size_t colon = declined.find(": ");
    text += colon == std::string::npos
                ? "- declined: " + escaped(declined) + "\n"
                : absl::StrFormat("- declined `%s`: %s\n", declined.substr(0, colon),
                                  escaped(declined.substr(colon + 2)));
  }
  return text;
}

std::string finite_of(const Op& op) {
  std::string names;
  for (const int argument : op.finite_arguments()) {
    names += (names.empty() ? "`" : ", `") + op.def.args[std::size_t(argument)].name + '`';
  }
  if (names.empty()) return "";
  return "- sums pass beside finite values only: infinities (and zeros that divide) of " + names +
         " need a sum that was reduced before\n";
}

/// One op; `rows_at` knows which op of this page has the same rows spelled out.
std::string section(const Op& op, std::map<std::string, std::string>& rows_at) {
  const OpDef& def = op.def;
  std::string text = absl::StrFormat("\n## %s\n\n`%s` · %s\n\n%s\n\n", escaped(def.name),
                                     signature(def), traits_of(op), escaped(def.doc));
  text += def.rule.empty() ? "Rows by a function of its own.\n"
                           : absl::StrFormat("Rule `%s`\n", def.rule);
  const SpelledRows rows = spell_rows(op);
  const auto [known, is_new] = rows_at.emplace(def.rule + '\n' + rows.on + rows.text, def.name);
  if (rows.text.empty()) {
    text += "\nNo row but all R.\n";
  } else if (is_new) {
    text += absl::StrFormat("\nRows of %s on one axis:\n\n```\n%s```\n", rows.on, rows.text);
  } else {
    text += absl::StrFormat("\nRows as those of `%s`.\n", known->second);
  }
  std::string notes = lowerings_of(def) + declined_of(def) + finite_of(op);
  if (!def.cotangent_spreads.empty()) {
    notes += "- an infinite or NaN cotangent spreads " + escaped(def.cotangent_spreads) + "\n";
  }
  for (const std::string& change : def.amendments) notes += "- amended: " + escaped(change) + "\n";
  return notes.empty() ? text : text + '\n' + notes;
}

Page family_page(const std::string& name, const std::vector<const Op*>& ops) {
  Page page{.name = name + ".md"};
  page.text = absl::StrFormat("%s# %s\n\n%d ops. [All families](README.md)\n", kGenerated,
                              title_of(name), ops.size());
  std::map<std::string, std::string> rows_at;
  for (const Op* op : ops) page.text += section(*op, rows_at);
  return page;
}

Page index_page(const std::map<std::string, std::vector<const Op*>>& by_page) {
  std::size_t ops = 0, gradients = 0, in_place = 0, lowerings = 0, declined = 0;
  std::string on_host;
  std::string table;
  for (const auto& [name, members] : by_page) {
    table += absl::StrFormat("| [%s](%s.md) | %d |", title_of(name), name, members.size());
    for (const Op* op : members) {
      table += " `" + op->def.name + '`';
      ++ops;
      gradients += op->def.gradient != nullptr ? 1 : 0;
      in_place += op->mutates() ? 1 : 0;
      lowerings += op->def.lowerings.empty() ? 0 : 1;
      declined += op->def.declined.size();
      if (host_read_of(op->def.name) != nullptr) {
        on_host += absl::StrFormat("| `%s` | %s |\n", op->def.name, devices_of(op->def));
      }
    }
    table += " |\n";
  }
  Page page{.name = "README.md"};
  page.text = absl::StrFormat(
      "%s# The ops\n\n%d ops: %d with a gradient, %d in place, %d where ranks may talk inside the "
      "op (a lowering); %d groups of rows\ndeclined with a reason. How a rule reads: "
      "[adding_an_op.md](../adding_an_op.md#writing-a-rule). What executing every row\n"
      "gave: [verification.md](verification.md).\n\n| family | ops | names |\n|---|---|---|\n%s",
      kGenerated, ops, gradients, in_place, lowerings, declined, table);
  if (!on_host.empty()) {
    page.text +=
        "\nEvery op says on its page which devices have its kernels. All run on cpu, cuda and "
        "emulated ([cuda.md](../cuda.md)) but\nthose that read values to know what to do next:\n\n"
        "| op | runs on |\n|---|---|\n" +
        on_host;
  }
  return page;
}

}  // namespace

std::map<std::string, OpFamily> family_of_ops() {
  std::map<std::string, OpFamily> family_of;
  OpTable table;  // of all so far: some ops are made of those of other files
  for (const OpFamily& family : builtin_families()) {
    family.add(table);
    for (const Op* op : table.ops()) family_of.emplace(op->def.name, family);
  }
  return family_of;
}

std::vector<Page> op_pages(const std::vector<const Op*>& ops) {
  const std::map<std::string, std::string> family_of = families();
  std::map<std::string, std::vector<const Op*>> by_page;
  for (const Op* op : ops) {
    const auto found = family_of.find(op->def.name);
    by_page[found == family_of.end() ? "own" : found->second].push_back(op);
  }
  std::vector<Page> pages = {index_page(by_page)};
  for (const auto& [name, members] : by_page) pages.push_back(family_page(name, members));
  return pages;
}

}  // namespace tessera::audit
