#include "runtime/call/trace.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "runtime/call/signature.h"
#include "runtime/json_text.h"

namespace tessera {
namespace {

/// Whole nanoseconds: spans that nest in time nest in the text as well.
struct Interval {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

std::int64_t ns_of(double us) { return std::llround(us * 1e3); }

// A clock that was aligned over a network may have begun a little early.
Interval interval_of(const Event& event) {
  const std::int64_t start = std::max<std::int64_t>(0, ns_of(event.start_us));
  return {start, std::max(start, ns_of(event.end_us))};
}

/// "12.345": Chrome counts in microseconds.
std::string us_text(std::int64_t ns) { return absl::StrFormat("%d.%03d", ns / 1000, ns % 1000); }

std::string_view category_of(Event::Kind kind) noexcept {
  constexpr std::string_view kNames[] = {"collective", "redistribute", "host read", "span"};
  return kNames[static_cast<int>(kind)];
}

/// Spans of one row must nest. Those of asynchronous calls may cross: they go to further rows.
class Rows {
 public:
  /// Intervals come by start, the longer one first.
  int place(const Interval& interval) {
    for (std::size_t row = 0;; ++row) {
      if (row == open_ends_.size()) open_ends_.emplace_back();
      std::vector<std::int64_t>& ends = open_ends_[row];
      while (!ends.empty() && ends.back() <= interval.start_ns) ends.pop_back();
      if (!ends.empty() && ends.back() < interval.end_ns) continue;
      ends.push_back(interval.end_ns);
      return static_cast<int>(row);
    }
  }
  int size() const noexcept { return static_cast<int>(open_ends_.size()); }

 private:
  std::vector<std::vector<std::int64_t>> open_ends_;  ///< by row, the innermost last
};

/// One rank's records, joined by ",\n".
class PartText {
 public:
  explicit PartText(std::int64_t rank) : rank_(rank) {}

  /// `fields` are further members, each with a comma before it.
  void add(std::string_view phase, int row, std::string_view name, const std::string& fields) {
    if (!text_.empty()) text_ += ",\n";
    text_ += absl::StrFormat(R"({"ph":"%s","pid":%d,"tid":%d,"name":)", phase, rank_, row);
    append_json_string(text_, name);
    text_ += fields;
    text_ += '}';
  }
  std::string take() { return std::move(text_); }

 private:
  std::int64_t rank_;
  std::string text_;
};

void append_argument(std::string& text, std::string_view key, std::string_view value) {
  if (value.empty()) return;
  if (text.back() != '{') text += ',';
  append_json_string(text, key);
  text += ':';
  append_json_string(text, value);
}

void append_argument(std::string& text, std::string_view key, std::int64_t value) {
  if (text.back() != '{') text += ',';
  append_json_string(text, key);
  text += ':';
  text += std::to_string(value);
}

std::string arguments_of(const Event& event) {
  std::string text = R"(,"args":{)";
  append_argument(text, "tensor", event.tensor);
  append_argument(text, "module", event.module);
  append_argument(text, "axes", event.axes);
  if (event.kind == Event::Kind::kCollective) {
    append_argument(text, "bytes_sent", event.bytes_sent);
  }
  if (event.kind != Event::Kind::kSpan) {
    append_argument(text, "bytes_received", event.bytes_received);
    append_argument(text, "origin", event.origin == Origin::kExplicit ? "explicit" : "implicit");
  }
  if (event.reduced_natively) append_argument(text, "reduce", "native");
  if (event.device_path != DevicePath::kNone) {
    append_argument(text, "path", event.device_path == DevicePath::kDirect ? "direct" : "staged");
  }
  append_argument(text, "why", event.why);
  if (event.line > 0) {
    append_argument(text, "site",
                    to_string(CallSite(event.file, static_cast<std::uint32_t>(event.line))));
  }
  return text + '}';
}

/// An arrow's two ends agree on its number, each without asking the other.
std::string arrow_id(const Event& event, std::int64_t from, std::int64_t to) {
  const std::uint64_t pair =
      static_cast<std::uint64_t>(from) << 32 ^ static_cast<std::uint64_t>(to);
  return absl::StrFormat("%016x", event.trace.call ^ (pair + 1) * 0x9e3779b97f4a7c15ULL);
}

class RankTrace {
 public:
  RankTrace(World& world, const Mesh& mesh)
      : rank_(world.rank()), log_(world.events()), mesh_(mesh), text_(world.rank()) {}

  std::string write() {
    write_spans();
    write_counters();
    write_names();
    write_note();
    return text_.take();
  }

 private:
  void write_spans() {
    std::vector<std::pair<Interval, const Event*>> spans;
    for (const Event& event : log_.events()) spans.emplace_back(interval_of(event), &event);
    // What holds another was logged after it.
    std::reverse(spans.begin(), spans.end());
    std::stable_sort(spans.begin(), spans.end(), [](const auto& a, const auto& b) {
      if (a.first.start_ns != b.first.start_ns) return a.first.start_ns < b.first.start_ns;
      return a.first.end_ns > b.first.end_ns;
    });
    for (const auto& [interval, event] : spans) {
      const int row = rows_.place(interval);
      text_.add("X", row, event->name,
                absl::StrFormat(R"(,"cat":"%s","ts":%s,"dur":%s)", category_of(event->kind),
                                us_text(interval.start_ns),
                                us_text(interval.end_ns - interval.start_ns)) +
                    arguments_of(*event));
      write_arrows(*event, interval, row);
    }
  }

  // Viewers tie an end to the innermost span around it, which does not hold its own last moment.
  void write_arrows(const Event& event, const Interval& interval, int row) {
    const auto write = [&](std::string_view phase, std::int64_t at_ns, std::string_view id,
                           const std::string& rest) {
      text_.add(
          phase, row, "message",
          absl::StrFormat(R"(,"cat":"message","id":"%s","ts":%s)", id, us_text(at_ns)) + rest);
    };
    for (const Flow& flow : event.trace.sent) {
      write("s", interval.start_ns, arrow_id(event, rank_, flow.rank),
            absl::StrFormat(R"(,"args":{"to":%d,"bytes":%d})", flow.rank, flow.bytes));
    }
    for (const Flow& flow : event.trace.received) {
      write("f", std::max(interval.start_ns, interval.end_ns - 1),
            arrow_id(event, flow.rank, rank_),
            absl::StrFormat(R"(,"bp":"e","args":{"from":%d,"bytes":%d})", flow.rank, flow.bytes));
    }
  }

  void write_counters() {
    std::vector<const Event*> events;
    for (const Event& event : log_.events()) events.push_back(&event);
    std::stable_sort(events.begin(), events.end(), [](const Event* a, const Event* b) {
      return interval_of(*a).end_ns < interval_of(*b).end_ns;
    });
    std::int64_t received = 0;
    for (const Event* event : events) {
      const std::string at = us_text(interval_of(*event).end_ns);
      if (event->kind == Event::Kind::kCollective) {
        received += event->bytes_received;
        text_.add("C", 0, "bytes received",
                  absl::StrFormat(R"(,"ts":%s,"args":{"bytes":%d})", at, received));
      }
      text_.add("C", 0, "memory in use",
                absl::StrFormat(R"(,"ts":%s,"args":{"bytes":%d})", at, event->trace.memory_bytes));
    }
  }

  void write_names() {
    std::string label = "rank " + std::to_string(rank_);
    if (const std::optional<Coord> coord = mesh_.coord_of(rank_); coord && mesh_.ndim() > 0) {
      for (int axis = 0; axis < mesh_.ndim(); ++axis) {
        label += absl::StrFormat("%s%s %d", axis == 0 ? " [" : ", ", mesh_.axis_label(axis),
                                 (*coord)[static_cast<std::size_t>(axis)]);
      }
      label += ']';
    }
    write_name("process_name", 0, label);
    text_.add("M", 0, "process_sort_index", absl::StrFormat(R"(,"args":{"sort_index":%d})", rank_));
    for (int row = 0; row < std::max(1, rows_.size()); ++row) {
      write_name("thread_name", row,
                 row == 0 ? label : absl::StrFormat("rank %d, in flight beside it", rank_));
    }
  }

  void write_name(std::string_view kind, int row, const std::string& name) {
    std::string fields = R"(,"args":{)";
    append_argument(fields, "name", name);
    text_.add("M", row, kind, fields + '}');
  }

  // A mark on the row where the trace ends before the run.
  void write_note() {
    if (log_.num_left_out() == 0) return;
    std::int64_t last_ns = 0;
    for (const Event& event : log_.events()) last_ns = std::max(last_ns, interval_of(event).end_ns);
    text_.add("i", 0, absl::StrFormat("%d later events were left out", log_.num_left_out()),
              absl::StrFormat(R"(,"s":"p","ts":%s)", us_text(last_ns)));
  }

  std::int64_t rank_;
  const EventLog& log_;
  const Mesh& mesh_;
  PartText text_;
  Rows rows_;
};

}  // namespace

void start_trace(World& world, const TraceOptions& options) {
  world.events().trace(options.max_events, world.allocator());
}

TraceSpan::TraceSpan(World& world, std::string_view name)
    : world_(world.events().is_tracing() ? &world : nullptr) {
  if (world_ == nullptr) return;
  name_ = name;
  start_us_ = world_->now_us();
}

TraceSpan::~TraceSpan() {
  if (world_ == nullptr) return;
  world_->events().add({.kind = Event::Kind::kSpan,
                        .name = std::move(name_),
                        .start_us = start_us_,
                        .end_us = world_->now_us()});
}

std::string trace_part(World& world, const Mesh& mesh) { return RankTrace(world, mesh).write(); }

Status TraceWriter::add(std::string_view part) {
  TSR_RETURN_IF_ERROR(
      sink_(has_begun_ ? ",\n" : "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"));
  has_begun_ = true;
  return sink_(part);
}

Status TraceWriter::finish() {
  return sink_(has_begun_ ? "\n]}\n" : "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[]}\n");
}

}  // namespace tessera
