#include "placement/plan.h"

#include "absl/strings/str_format.h"
#include "io/placement_json.h"
#include "io/plan_json.h"
#include "tools/placement_audit/command.h"
#include "tools/placement_audit/interval_bound.h"
#include "tools/placement_audit/plan_report.h"

namespace tessera::audit {
namespace {

// Costs look at every rank, and at every stretch that two ranks have in common: these bound both.
constexpr std::int64_t kMaxRanks = std::int64_t{1} << 20;
constexpr std::int64_t kMaxIntervalsOfDim = std::int64_t{1} << 20;
// What --per-rank lists at most.
constexpr std::int64_t kMaxListed = std::int64_t{1} << 23;

/// What a request asks to be planned.
struct Move {
  Spec src;
  Spec dst;
  std::optional<Topology> topology;
  PlanOptions options;  ///< without the topology
};

Status check_size(const JsonView& view, const Spec& spec) {
  const std::int64_t ranks = spec.mesh().num_ranks();
  if (ranks > kMaxRanks) {
    return view.error(absl::StrFormat("mesh %s has %d ranks; plans are shown for up to %d",
                                      spec.mesh().to_string(), ranks, kMaxRanks));
  }
  for (int dim = 0; dim < spec.ndim(); ++dim) {
    const auto d = static_cast<std::size_t>(dim);
    if (interval_bound(spec.mesh(), spec.global_shape()[d], spec.layout().dims[d]) >
        kMaxIntervalsOfDim) {
      return view.error(
          absl::StrFormat("dim %d of %s may fall into more than %d intervals on one rank; plans "
                          "are shown for up to that many",
                          dim, spec.to_string(), kMaxIntervalsOfDim));
    }
  }
  return absl::OkStatus();
}

StatusOr<Spec> read_spec(const JsonView& view, Mesh mesh, const TensorType& tensor) {
  TSR_ASSIGN_OR_RETURN(Layout layout,
                       read_placements_or_layout(view, mesh, view_of(tensor.global_shape)));
  StatusOr<Spec> spec =
      Spec::make(std::move(mesh), tensor.global_shape, tensor.dtype, std::move(layout));
  if (!spec.ok()) return view.annotate(spec.status());
  TSR_RETURN_IF_ERROR(check_size(view, *spec));
  return spec;
}

StatusOr<Move> read_move(const JsonView& root) {
  TSR_RETURN_IF_ERROR(
      root.check_keys({"mesh", "tensor", "src", "dst"}, {"dst_mesh", "topology", "pack_bytes"}));
  TSR_ASSIGN_OR_RETURN(const JsonView mesh_view, root.at("mesh"));
  TSR_ASSIGN_OR_RETURN(const Mesh mesh, read_mesh(mesh_view));
  TSR_ASSIGN_OR_RETURN(const JsonView tensor_view, root.at("tensor"));
  TSR_ASSIGN_OR_RETURN(const TensorType tensor, read_tensor_type(tensor_view));
  Mesh dst_mesh = mesh;
  if (const std::optional<JsonView> view = root.find("dst_mesh")) {
    TSR_ASSIGN_OR_RETURN(dst_mesh, read_mesh(*view));
  }
  Move move;
  TSR_ASSIGN_OR_RETURN(const JsonView src, root.at("src"));
  TSR_ASSIGN_OR_RETURN(move.src, read_spec(src, mesh, tensor));
  TSR_ASSIGN_OR_RETURN(const JsonView dst, root.at("dst"));
  TSR_ASSIGN_OR_RETURN(move.dst, read_spec(dst, std::move(dst_mesh), tensor));
  if (const std::optional<JsonView> view = root.find("topology")) {
    TSR_ASSIGN_OR_RETURN(move.topology, read_topology(*view));
  }
  if (const std::optional<JsonView> view = root.find("pack_bytes")) {
    TSR_ASSIGN_OR_RETURN(move.options.pack_bytes, view->integer_in(0, INT64_MAX));
  }
  return move;
}

std::string price_of(const std::optional<Topology>& topology) {
  if (!topology) return "bytes received, then messages";
  if (!topology->name.empty()) return "topology " + topology->name;
  return absl::StrFormat("a topology of %d link class%s", topology->links.size(),
                         topology->links.size() == 1 ? "" : "es");
}

/// The flag's, where the document has none.
StatusOr<std::optional<Topology>> topology_of(const Request& request, const Move& move) {
  if (request.topology.empty()) return move.topology;
  if (!move.topology) return audit::topology_of(request);
  return invalid_argument("--topology: the document has a topology of its own; leave one out");
}

StatusOr<PlanReport> report_of(Move move) {
  PlanReport report{.topology = std::move(move.topology)};
  const Topology* topology = report.topology ? &*report.topology : nullptr;
  move.options.topology = topology;
  TSR_ASSIGN_OR_RETURN(report.plan, tessera::plan(move.src, move.dst, move.options));
  report.cost = cost_of(report.plan, topology);
  report.priced_by = price_of(report.topology);
  return report;
}

StatusOr<std::string> json_of(const PlanReport& report, Detail detail) {
  Json json = to_json(report.plan, report.cost, report.topology ? &*report.topology : nullptr);
  if (detail == Detail::kPerRank) {
    TSR_ASSIGN_OR_RETURN(Json ranks, ranks_to_json(report.plan, kMaxListed));
    json.set("ranks", std::move(ranks));
  }
  return json_line(json);
}

StatusOr<std::string> text_of(const PlanReport& report, const Request& request) {
  switch (request.format) {
    case Format::kJson:
      return json_of(report, request.detail);
    case Format::kText:
      return plan_text(report, request.colour, request.detail);
    case Format::kSvg:
      return plan_svg(report, Captions::kAll);
    case Format::kHtml:
      return plan_html(report, request.detail);
    case Format::kMarkdown:  // these are not offered for this command
    case Format::kCpp:
    case Format::kSarif:
    case Format::kJunit:
    case Format::kTorch:
    case Format::kShardy:
      break;
  }
  return internal_error("a format without a form");
}

}  // namespace

StatusOr<std::optional<Topology>> topology_of(const Request& request) {
  if (request.topology.empty()) return std::optional<Topology>();
  StatusOr<Topology> topology = topology_from(request.topology);
  if (topology.ok()) return std::optional(*std::move(topology));
  return Status(topology.status().code(),
                to_absl("--topology: " + std::string(message_of(topology.status()))));
}

StatusOr<Answer> plan_move(const Request& request) {
  TSR_ASSIGN_OR_RETURN(const JsonDocument document,
                       JsonDocument::parse(request.input, request.input_name));
  const JsonView root = document.root();
  TSR_ASSIGN_OR_RETURN(Move move, read_move(root));
  TSR_ASSIGN_OR_RETURN(move.topology, topology_of(request, move));
  const StatusOr<PlanReport> report = report_of(std::move(move));
  if (!report.ok()) return root.annotate(report.status());
  StatusOr<std::string> text = text_of(*report, request);
  if (!text.ok()) return root.annotate(text.status());
  return Answer{.text = *std::move(text)};
}

}  // namespace tessera::audit
