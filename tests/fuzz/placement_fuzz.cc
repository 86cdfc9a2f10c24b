// Texts as a user types them: placements, levels, dtypes, reductions, axes. What is accepted reads
// back from its own text.
#include "placement/layout.h"
#include "placement/spec.h"
#include "tests/fuzz/fuzz.h"

namespace tessera {
namespace {

Mesh sample_mesh(int which) {
  switch (which) {
    case 0:
      return value_or_throw(Mesh::make(std::vector<std::int64_t>{2, 3}, {"dp", "tp"}));
    case 1:
      return value_or_throw(Mesh::make(std::vector<std::int64_t>{2, 1, 4}));
    default:
      return value_or_throw(Mesh::make(std::vector<std::int64_t>{1 << 20, 1 << 20, 1 << 22}));
  }
}

void check_level(const Mesh& mesh, std::string_view text) {
  const StatusOr<Level> level = parse_level(mesh, text);
  if (!level.ok()) return;
  const StatusOr<Level> again = parse_level(mesh, level_to_string(mesh, *level));
  TSR_CHECK(again.ok() && *again == *level, level_to_string(mesh, *level));
}

void check_placements(const Mesh& mesh, std::string_view text) {
  const StatusOr<Placements> placements = parse_placements(text);
  const StatusOr<Placement> one = parse_placement(text);
  TSR_CHECK(!one.ok() || (placements.ok() && *placements == Placements{*one}), std::string(text));
  if (!placements.ok()) return;
  const std::string written = to_string(*placements);
  const StatusOr<Placements> again = parse_placements(written);
  TSR_CHECK(again.ok() && *again == *placements, written);
  const Shape shapes[] = {{8, 6}, {5, 0, 7}, {INT64_MAX}};
  for (const Shape& shape : shapes) {
    const StatusOr<Layout> layout = decode(mesh, view_of(shape), *placements);
    if (!layout.ok()) continue;
    TSR_CHECK(canonical(mesh, view_of(shape), *layout) == *layout, written);
    const StatusOr<Placements> encoded = encode(mesh, view_of(shape), *layout);
    if (!encoded.ok()) continue;
    const StatusOr<Layout> decoded = decode(mesh, view_of(shape), *encoded);
    TSR_CHECK(decoded.ok() && *decoded == *layout, written + " as " + to_string(*encoded));
  }
}

void try_placement(std::span<const std::uint8_t> bytes) {
  testing::Bytes in(bytes);
  const Mesh mesh = sample_mesh(in.next_below(3));
  const std::string_view text = in.rest_as_text();
  check_level(mesh, text);
  check_placements(mesh, text);
  if (const auto dtype = parse_dtype(text); dtype.ok()) TSR_CHECK(name_of(*dtype) == text, "");
  if (const auto op = parse_reduce_op(text); op.ok()) TSR_CHECK(name_of(*op) == text, "");
  if (const auto axis = mesh.find_axis(text); axis.ok()) {
    TSR_CHECK(*axis >= 0 && *axis < mesh.ndim(), std::string(text));
  }
}

}  // namespace
}  // namespace tessera

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera::try_placement({data, size});
  return 0;
}
