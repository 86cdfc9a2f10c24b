// runtime/call/trace.h: a Chrome trace (JSON for chrome://tracing or Perfetto) from the ranks'
// events. A row is a rank's time line; a span on it is one event; an arrow goes from a send to its
// receive.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "placement/api.h"
#include "placement/mesh.h"
#include "placement/status.h"
#include "runtime/world.h"

namespace tessera TSR_API {

struct TraceOptions {
  /// Of each rank; later ones are counted and left out, and the trace says so.
  std::int64_t max_events = 100'000;
};
/// From now on this rank's log keeps what a trace needs. Collective: no, but arrows need both ends.
/// Cost: about 1 µs and 0.6 KiB an event.
void start_trace(World& world, const TraceOptions& options = {});

/// A stretch of the program, from here to the end of the scope, as a span of the trace. Nothing
/// where the log is not tracing.
class TraceSpan {
 public:
  TraceSpan(World& world, std::string_view name);
  ~TraceSpan();
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  World* world_;  ///< null where nothing is traced
  std::string name_;
  double start_us_ = 0;
};

/// This rank's part of a trace. `mesh` gives the row its coordinates, "rank 3 [dp 1, tp 1]"; a mesh
/// without axes gives none. Collective: no.
std::string trace_part(World& world, const Mesh& mesh);

/// Joins the parts of any of the ranks, in any order, into one JSON document.
class TraceWriter {
 public:
  /// Takes the document piece by piece.
  using Sink = std::function<Status(std::string_view)>;
  explicit TraceWriter(Sink sink) : sink_(std::move(sink)) {}
  /// Errors: the sink's.
  Status add(std::string_view part);
  /// The end of the document. Errors: the sink's.
  Status finish();

 private:
  Sink sink_;
  bool has_begun_ = false;
};

}  // namespace tessera
