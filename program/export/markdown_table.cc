#include "program/export/markdown_table.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "io/byte_text.h"
#include "program/export/placement_words.h"
#include "program/export/value_groups.h"

namespace tessera {
namespace {

/// Text of a cell: what would end it, or the line, is spelled out.
std::string cell(const std::string& text) {
  return absl::StrReplaceAll(text, {{"|", "\\|"}, {"\n", " "}, {"*", "\\*"}, {"_", "\\_"}});
}

std::string moves_cell(const std::vector<ProgramMove>& moves) {
  std::vector<std::string> words;
  for (const ProgramMove& move : moves) {
    std::string text = cell(move.collective);
    if (!move.axes.empty()) text += " " + cell(absl::StrJoin(move.axes, ","));
    words.push_back(text + " " + byte_text(move.bytes.max, 1));
  }
  return absl::StrJoin(words, ", ");
}

class Table {
 public:
  /// One column for each axis where all values are on the program's only mesh.
  explicit Table(const Program& program) : program_(program) {
    if (program.meshes.size() != 1) return;
    const Mesh& mesh = program.meshes[0].mesh;
    for (int axis = 0; axis < mesh.ndim(); ++axis) axes_.push_back(mesh.axis_label(axis));
  }

  std::string head() const {
    std::string text = "| value | module | of | shape |", rule = "|---|---|---|---|";
    for (const std::string& axis : axes_) text += " " + cell(axis) + " |", rule += "---|";
    if (axes_.empty()) text += " placements |", rule += "---|";
    return text + " bytes a rank | moves in | moves out |\n" + rule + "---:|---|---|\n";
  }

  std::string row(const ValueGroup& group) const {
    const std::string count = group.count == 1 ? "" : absl::StrFormat(" (x%d)", group.count);
    const std::string module = group.name.starts_with(group.module) ? "" : group.module;
    std::string text =
        absl::StrFormat("| %s%s | %s | %s | %s |", cell(group.name), count, cell(module),
                        cell(group.made_by), type_in_words(group.first));
    for (const std::string& word : placement_cells(group.first)) text += " " + cell(word) + " |";
    return text + absl::StrFormat(" %s | %s | %s |\n", byte_text(group.held_bytes, 1),
                                  moves_cell(group.in), moves_cell(group.out));
  }

 private:
  std::vector<std::string> placement_cells(const ProgramValue& value) const {
    if (axes_.empty()) {
      const std::string mesh =
          value.mesh ? " on " + program_.meshes[static_cast<std::size_t>(*value.mesh)].name : "";
      return {placements_in_words(program_, value) + mesh};
    }
    std::vector<std::string> words = placements_by_axis(program_, value);
    if (words.empty()) words.emplace_back("plain");
    words.resize(axes_.size());
    return words;
  }

  const Program& program_;
  std::vector<std::string> axes_;
};

std::string part_text(const Table& table, const std::string& title,
                      const std::vector<ValueGroup>& groups, bool made) {
  std::string rows;
  for (const ValueGroup& group : groups) {
    const bool is_there = group.made_by == name_of(group.first.role);
    if (is_there != made) rows += table.row(group);
  }
  return rows.empty() ? "" : "\n## " + title + "\n\n" + table.head() + rows;
}

}  // namespace

StatusOr<std::string> markdown_of(const Program& program) {
  TSR_ASSIGN_OR_RETURN(const std::vector<ValueGroup> groups, value_groups(program));
  std::string text =
      absl::StrFormat("# %s: placements\n\n%d ranks", cell(program.name), program.ranks);
  for (const ProgramMesh& each : program.meshes) {
    text += absl::StrFormat("; mesh %s %s", cell(each.name), cell(each.mesh.to_string()));
  }
  text +=
      ". Bytes a rank are those of one value, on the rank with most; moves are those of all in a "
      "line, by bytes that the rank with most receives: in are what its step waits for, out what "
      "is made of it.\n";
  const Table table(program);
  text += part_text(table, "Before the first step", groups, /*made=*/false);
  return text + part_text(table, "Made by steps", groups, /*made=*/true);
}

}  // namespace tessera
