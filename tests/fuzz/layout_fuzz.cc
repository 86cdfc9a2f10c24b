// A document {"mesh":…,"tensor":…,"placements":…} as the programs read it: what is accepted has one
// canonical form, whose text reads back, and the ranks' shares cover the tensor.
#include <algorithm>

#include "io/placement_json.h"
#include "tests/fuzz/fuzz.h"

namespace tessera {
namespace {

constexpr std::int64_t kMostRanks = 64;
constexpr std::int64_t kLongestDim = 96;

std::int64_t width(const Interval& interval) { return interval.stop - interval.start; }

/// Indices of a dim, held by each coord: inside the dim, ascending, as many as local_size says, and
/// each index as often as there are coords on the axes that do not cut the dim.
void check_dim(const Mesh& mesh, std::int64_t size, const Levels& levels) {
  std::vector<std::int64_t> holders(static_cast<std::size_t>(size), 0);
  for (std::int64_t rank = 0; rank < mesh.num_ranks(); ++rank) {
    const Coord coord = *mesh.coord_of(mesh.first_rank() + rank);
    const std::string place = to_string(mesh, levels) + " of " + std::to_string(size) +
                              " at coord " + to_string(view_of(coord));
    std::int64_t held = 0;
    std::int64_t last = -1;
    for (const Interval& interval : local_intervals(mesh, size, levels, coord)) {
      TSR_CHECK(interval.start > last && interval.stop <= size && width(interval) > 0, place);
      last = interval.stop;
      for (std::int64_t i = interval.start; i < interval.stop; ++i) {
        ++holders[static_cast<std::size_t>(i)];
        TSR_CHECK(local_to_global(mesh, size, levels, coord, held) == i, place);
        TSR_CHECK(global_to_local(mesh, size, levels, coord, i) == held, place);
        ++held;
      }
    }
    TSR_CHECK(local_size(mesh, size, levels, coord) == held, place);
  }
  std::int64_t copies = mesh.num_ranks();
  for (const Level& level : levels) {
    if (level.kind == Level::Kind::kAxis) copies /= mesh.size(level.axis);
  }
  for (const std::int64_t count : holders) TSR_CHECK(count == copies, to_string(mesh, levels));
}

void check_layout(const Mesh& mesh, const TensorType& tensor, const Layout& layout) {
  const ShapeView shape = view_of(tensor.global_shape);
  const Json written = to_json(mesh, layout);
  TSR_CHECK(validate(mesh, shape, layout).ok(), written.to_string());
  TSR_CHECK(canonical(mesh, shape, layout) == layout, written.to_string());
  const StatusOr<Layout> again = testing::read_again(
      written, [&](const JsonView& view) { return read_layout(view, mesh, shape); });
  TSR_CHECK(again.ok(), written.to_string() + ": " + std::string(message_of(again.status())));
  TSR_CHECK(*again == layout, written.to_string());
  const StatusOr<Placements> placements = encode(mesh, shape, layout);
  if (placements.ok()) {
    const StatusOr<Layout> decoded = decode(mesh, shape, *placements);
    TSR_CHECK(decoded.ok() && *decoded == layout, written.to_string());
    const StatusOr<Placements> read = parse_placements(to_string(*placements));
    TSR_CHECK(read.ok() && *read == *placements, to_string(*placements));
  }
  if (mesh.num_ranks() > kMostRanks) return;
  for (std::size_t d = 0; d < layout.dims.size(); ++d) {
    if (shape[d] <= kLongestDim) check_dim(mesh, shape[d], layout.dims[d]);
  }
}

Status read_and_check(const JsonView& view) {
  TSR_RETURN_IF_ERROR(view.check_keys({"mesh", "tensor", "placements"}));
  TSR_ASSIGN_OR_RETURN(const Mesh mesh, read_mesh(*view.find("mesh")));
  const Json written = to_json(mesh);
  const StatusOr<Mesh> again = testing::read_again(written, read_mesh);
  TSR_CHECK(again.ok() && *again == mesh, written.to_string());
  TSR_ASSIGN_OR_RETURN(const TensorType tensor, read_tensor_type(*view.find("tensor")));
  TSR_ASSIGN_OR_RETURN(
      const Layout layout,
      read_placements_or_layout(*view.find("placements"), mesh, view_of(tensor.global_shape)));
  check_layout(mesh, tensor, layout);
  const StatusOr<Spec> spec = Spec::make(mesh, tensor.global_shape, tensor.dtype, layout);
  if (!spec.ok()) return view.annotate(spec.status());
  TSR_CHECK(spec->layout() == layout && !spec->to_string().empty(), spec->to_string());
  return absl::OkStatus();
}

void try_layout(std::string_view text) {
  const auto document = JsonDocument::parse(text, "doc", {.bytes = 4096});
  if (!document.ok()) return;
  testing::check_text(read_and_check(document->root()), "doc: ");
}

}  // namespace
}  // namespace tessera

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera::try_layout({reinterpret_cast<const char*>(data), size});
  return 0;
}
