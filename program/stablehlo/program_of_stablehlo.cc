#include "program/stablehlo/program_of_stablehlo.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "placement/utf8.h"
#include "program/implicit_moves.h"
#include "program/stablehlo/inline_module.h"

namespace tessera {
namespace {

/// Names go into JSON as they are.
Status check_encoding(const stablehlo::MlirText& named) {
  for (std::size_t at = 0; at < named.text.size();) {
    const CodePoint point = first_code_point(named.text.substr(at));
    if (point.bytes == 0) return named.error(at, "bytes that are no UTF-8");
    at += point.bytes;
  }
  return absl::OkStatus();
}

/// As much as a program's name may have, of whole characters.
std::string beginning_of(const std::string& name) {
  constexpr std::size_t kMostBytes = 200;
  if (name.size() <= kMostBytes) return name;
  std::size_t end = 0;
  for (;;) {
    const std::size_t bytes = first_code_point(std::string_view(name).substr(end)).bytes;
    if (end + bytes > kMostBytes) return name.substr(0, end);
    end += bytes;
  }
}

}  // namespace

StatusOr<Program> program_of_stablehlo(std::string_view text, std::string_view source,
                                       const OpTable& ops) {
  const stablehlo::MlirText named{.text = text, .source = std::string(source)};
  if (std::ssize(text) > kMaxStablehloBytes) {
    return named.error(
        0, absl::StrFormat("%d bytes; at most %d are read", text.size(), kMaxStablehloBytes));
  }
  TSR_RETURN_IF_ERROR(check_encoding(named));
  TSR_ASSIGN_OR_RETURN(const stablehlo::Module module, stablehlo::read_module(named));
  stablehlo::Builder builder(module, ops);
  Program& program = builder.program();
  program.name = beginning_of(module.name);
  program.source.kind = "stablehlo";
  program.meshes = module.meshes.meshes();
  for (const ProgramMesh& mesh : program.meshes) {
    program.ranks = std::max(program.ranks, mesh.mesh.num_ranks());
  }
  TSR_RETURN_IF_ERROR(stablehlo::inline_main(builder));
  return module.is_propagated ? with_moves(std::move(program), ops) : std::move(program);
}

}  // namespace tessera
