#include "program/export/placement_words.h"

#include "absl/strings/str_join.h"
#include "program/step_shapes.h"

namespace tessera {

std::vector<std::string> placements_by_axis(const Program& program, const ProgramValue& value) {
  if (!value.mesh || !value.layout) return {};
  const Mesh& mesh = program.meshes[static_cast<std::size_t>(*value.mesh)].mesh;
  const auto placements = encode(mesh, view_of(value.global_shape), *value.layout);
  std::vector<std::string> words;
  if (placements.ok()) {
    for (const Placement& each : *placements) words.push_back(to_string(each));
    return words;
  }
  for (const Levels& levels : value.layout->dims) words.push_back(to_string(mesh, levels));
  return {absl::StrJoin(words, " ")};
}

std::string placements_in_words(const Program& program, const ProgramValue& value) {
  const std::vector<std::string> words = placements_by_axis(program, value);
  if (words.empty()) return "plain";
  return words.size() == 1 ? words[0] : '(' + absl::StrJoin(words, ", ") + ')';
}

std::string type_in_words(const ProgramValue& value) {
  return std::string(name_of(value.dtype)) + ' ' +
         (value.global_shape.empty() ? "scalar" : absl::StrJoin(value.global_shape, "x"));
}

std::string without_numbers(const std::string& name) { return numbered(name).text; }

}  // namespace tessera
