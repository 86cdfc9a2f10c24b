// A trace, read back by a strict JSON reader, against what the ranks' logs say.
#include "runtime/call/trace.h"

#include <map>
#include <set>

#include "io/json.h"
#include "kernels/memory_use.h"
#include "runtime/clock_offset.h"
#include "runtime/gather_texts.h"
#include "tests/runtime/ranks.h"

namespace tessera {
namespace {

using testing::complaints_of;
using testing::results_of;
using Rows = std::vector<std::int64_t>;

// JSON allows none of its control characters, quotes, backslashes and broken UTF-8 as they are.
constexpr char kOddName[] =
    "w\"\\\n\x01\x7f</script> gr\xc3\xb6\xc3\x9f"
    "er \xff\xc0\xaf\xed\xa0\x80";
constexpr char kOddNameRead[] =
    "w\"\\\n\x01\x7f</script> gr\xc3\xb6\xc3\x9f"
    "er "
    "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd";

/// What a rank did, as its log and its trace tell it.
struct Told {
  std::string part;
  std::int64_t bytes_sent = 0;
  std::int64_t bytes_received = 0;
  std::int64_t num_events = 0;
  std::int64_t peak_bytes = 0;
};

Array filled(std::int64_t rows) { return Array::zeros({rows, 2}, DType::kF32); }

void all_kinds(World& world) {
  Communicator& group = everyone(world);
  const int rank = group.rank(), size = group.size();
  group.all_reduce(filled(600), filled(600), ReduceOp::kSum, {.tensor = kOddName});
  Rows rows;
  for (int i = 0; i < size; ++i) rows.push_back(i);
  const std::int64_t total = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  group.all_gather(filled(rank), filled(total), rows, {.tensor = "uneven", .axes = "dp,tp"});
  group.reduce_scatter(filled(total), filled(rank), ReduceOp::kSum, rows);
  const Rows turned(static_cast<std::size_t>(size), rank);
  group.all_to_all(filled(total), filled(size * rank), rows, turned);
  group.broadcast(filled(5), 1, {.origin = Origin::kImplicit, .why = "mm: operand A"});
  const auto sending = group.send_async(filled(3), (rank + 1) % size);
  group.recv(filled(3), (rank + size - 1) % size);
  sending->wait();
}

/// Two collectives in flight; which ends first is left to the backend.
void calls_in_flight(World& world) {
  Communicator& group = everyone(world);
  const auto first = group.all_reduce_async(filled(4), filled(4), ReduceOp::kSum, {.tensor = "a"});
  const auto second = group.all_reduce_async(filled(4), filled(4), ReduceOp::kSum, {.tensor = "b"});
  first->wait();
  second->wait();
}

void traced_run(World& world, const Mesh& mesh) {
  {
    const TraceSpan span(world, "step 0");
    const std::string before = world.events().set_module("layers.0");
    all_kinds(world);
    world.events().set_module(before);
  }
  calls_in_flight(world);
  const Placement from[] = {Shard{0}, Shard{1}}, to[] = {Replicate{}, Shard{0}};
  const Spec src = value_or_throw(Spec::make(mesh, {4, 4}, DType::kF32, from));
  const Spec dst = value_or_throw(Spec::make(mesh, {4, 4}, DType::kF32, to));
  execute(world, value_or_throw(plan(src, dst)), Array::zeros({2, 2}, DType::kF32),
          {.tensor = "logits"});
  for (const int axis : {0, 1}) {
    Communicator& some = *value_or_throw(world.group_along(mesh, std::vector<int>{axis}));
    some.all_gather(filled(2), filled(4), {}, {.axes = mesh.axis_label(axis)});
  }
  const double now = world.now_us();
  world.events().add({.kind = Event::Kind::kHostRead,
                      .name = "item",
                      .bytes_received = 8,
                      .file = __FILE__,
                      .line = 7,
                      .start_us = now,
                      .end_us = now});
}

Mesh mesh_of_four() {
  return value_or_throw(Mesh::make(std::vector<std::int64_t>{2, 2}, {"dp", "tp"}));
}

std::vector<Told> trace_of_run(const TraceOptions& options = {}) {
  const Mesh mesh = mesh_of_four();
  return results_of(4, {.threads_per_rank = 1},
                    [&](World& world) {
                      start_trace(world, options);
                      const Array kept = Array::zeros({1000}, DType::kF64, world.allocator());
                      traced_run(world, mesh);
                      Told told{.part = trace_part(world, mesh)};
                      for (const Event& event : world.events().events()) {
                        if (event.kind == Event::Kind::kCollective)
                          told.bytes_sent += event.bytes_sent;
                      }
                      told.bytes_received = world.events().bytes_received();
                      told.num_events = std::ssize(world.events().events());
                      told.peak_bytes = memory_use_of(*world.allocator()).peak_bytes;
                      return told;
                    })
      .value();
}

/// The records of a joined document.
Json::Array records_of(const std::vector<std::string>& parts) {
  std::string text;
  TraceWriter writer([&](std::string_view piece) {
    text += piece;
    return Status();
  });
  for (const std::string& part : parts) throw_if_error(writer.add(part));
  throw_if_error(writer.finish());
  const Json document = value_or_throw(parse_json(text, "trace"));
  return *document.find("traceEvents")->if_array();
}
Json::Array records_of(const std::vector<Told>& ranks) {
  std::vector<std::string> parts;
  for (const Told& told : ranks) parts.push_back(told.part);
  return records_of(parts);
}

std::string text_at(const Json& record, std::string_view key) {
  const Json* found = record.find(key);
  return found == nullptr || found->if_string() == nullptr ? "" : *found->if_string();
}
std::int64_t integer_at(const Json& record, std::string_view key) {
  return *record.find(key)->if_integer();
}
/// Whole nanoseconds; a number of microseconds with three decimals.
std::int64_t ns_at(const Json& record, std::string_view key) {
  return std::llround(*record.find(key)->if_number() * 1e3);
}
const Json& arguments(const Json& record) { return *record.find("args"); }

/// Records of one phase, in the order of the text.
std::vector<Json> of_phase(const Json::Array& records, std::string_view phase) {
  std::vector<Json> found;
  for (const Json& record : records) {
    if (text_at(record, "ph") == phase) found.push_back(record);
  }
  return found;
}
using RowKey = std::pair<std::int64_t, std::int64_t>;
RowKey row_of(const Json& record) { return {integer_at(record, "pid"), integer_at(record, "tid")}; }

}  // namespace

TEST_CASE("a trace has a row for each rank, named by its coordinates", "[runtime][trace]") {
  std::map<std::int64_t, std::string> names;
  for (const Json& record : of_phase(records_of(trace_of_run()), "M")) {
    if (text_at(record, "name") == "process_name") {
      names[integer_at(record, "pid")] = text_at(arguments(record), "name");
    }
  }
  CHECK(names == std::map<std::int64_t, std::string>{{0, "rank 0 [dp 0, tp 0]"},
                                                     {1, "rank 1 [dp 0, tp 1]"},
                                                     {2, "rank 2 [dp 1, tp 0]"},
                                                     {3, "rank 3 [dp 1, tp 1]"}});
}

TEST_CASE("spans are the logged events, in order, and nest within a row", "[runtime][trace]") {
  const std::vector<Told> ranks = trace_of_run();
  std::map<RowKey, std::vector<std::pair<std::int64_t, std::int64_t>>> rows;
  std::map<std::int64_t, std::int64_t> counts;
  for (const Json& span : of_phase(records_of(ranks), "X")) {
    const std::int64_t start = ns_at(span, "ts"), length = ns_at(span, "dur");
    CHECK(start >= 0);
    CHECK(length >= 0);
    rows[row_of(span)].emplace_back(start, start + length);
    ++counts[integer_at(span, "pid")];
  }
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    CHECK(counts[rank] == ranks[static_cast<std::size_t>(rank)].num_events);
  }
  for (const auto& [row, spans] : rows) {
    CAPTURE(row.first, row.second);
    CHECK(std::is_sorted(spans.begin(), spans.end(),
                         [](const auto& a, const auto& b) { return a.first < b.first; }));
    for (std::size_t i = 0; i < spans.size(); ++i) {
      for (std::size_t j = i + 1; j < spans.size() && spans[j].first < spans[i].second; ++j) {
        CHECK(spans[j].second <= spans[i].second);
      }
    }
  }
}

TEST_CASE("spans that cross go to further rows", "[runtime][trace]") {
  const auto world = make_single_world();
  start_trace(*world);
  const auto add = [&](std::string name, double start_us, double end_us) {
    world->events().add({.name = std::move(name), .start_us = start_us, .end_us = end_us});
  };
  add("inner", 10, 20);
  add("outer", 10, 30);
  add("crosses outer", 25, 40);
  add("crosses both", 28, 50);
  add("later", 30, 32);
  std::map<std::string, std::int64_t> rows;
  for (const Json& span :
       of_phase(records_of(std::vector<std::string>{trace_part(*world, Mesh())}), "X")) {
    rows[text_at(span, "name")] = integer_at(span, "tid");
  }
  CHECK(rows ==
        std::map<std::string, std::int64_t>{
            {"inner", 0}, {"outer", 0}, {"crosses outer", 1}, {"crosses both", 2}, {"later", 0}});
}

TEST_CASE("a span says what moved, why, and where in the source", "[runtime][trace]") {
  std::set<std::string> tensors, categories;
  for (const Json& span : of_phase(records_of(trace_of_run()), "X")) {
    const std::string name = text_at(span, "name");
    const Json& args = arguments(span);
    categories.insert(text_at(span, "cat"));
    tensors.insert(text_at(args, "tensor"));
    if (name == "all_gather_v") {
      CHECK(text_at(args, "axes") == "dp,tp");
      CHECK(text_at(args, "module") == "layers.0");
      CHECK(text_at(args, "origin") == "explicit");
      CHECK(integer_at(args, "bytes_received") + 8 * integer_at(span, "pid") == 6 * 8);
      CHECK_THAT(text_at(args, "site"), Catch::StartsWith("runtime/trace_test.cc:"));
    } else if (name == "broadcast") {
      CHECK(text_at(args, "origin") == "implicit");
      CHECK(text_at(args, "why") == "mm: operand A");
    } else if (name == "item") {
      CHECK(text_at(args, "site") == "runtime/trace_test.cc:7");
    }
  }
  CHECK(categories == std::set<std::string>{"collective", "redistribute", "host read", "span"});
  CHECK(tensors == std::set<std::string>{"", kOddNameRead, "uneven", "a", "b", "logits"});
}

TEST_CASE("each arrow leaves its sender's span and ends in its receiver's", "[runtime][trace]") {
  const std::vector<Told> ranks = trace_of_run();
  const Json::Array records = records_of(ranks);
  const std::vector<Json> spans = of_phase(records, "X");
  // The name of the innermost span around a moment; what viewers tie an end to.
  const auto span_around = [&](const Json& end) {
    const std::int64_t at = ns_at(end, "ts");
    std::string name;
    std::int64_t shortest = -1;
    for (const Json& span : spans) {
      const std::int64_t start = ns_at(span, "ts"), length = ns_at(span, "dur");
      if (row_of(span) != row_of(end) || at < start || at >= start + length) continue;
      if (shortest < 0 || length < shortest) name = text_at(span, "name");
      shortest = shortest < 0 ? length : std::min(shortest, length);
    }
    return name;
  };
  std::map<std::string, Json> starts;
  std::map<std::int64_t, std::int64_t> sent, received;
  for (const Json& start : of_phase(records, "s")) {
    CHECK(starts.emplace(text_at(start, "id"), start).second);
    sent[integer_at(start, "pid")] += integer_at(arguments(start), "bytes");
  }
  std::set<std::string> ended;
  for (const Json& end : of_phase(records, "f")) {
    const std::string id = text_at(end, "id");
    CAPTURE(id, end.to_string());
    REQUIRE(starts.contains(id));
    CHECK(ended.insert(id).second);
    const Json& start = starts.at(id);
    CHECK(integer_at(arguments(start), "to") == integer_at(end, "pid"));
    CHECK(integer_at(arguments(end), "from") == integer_at(start, "pid"));
    CHECK(integer_at(arguments(start), "bytes") == integer_at(arguments(end), "bytes"));
    CHECK(ns_at(start, "ts") <= ns_at(end, "ts"));
    const std::string sender = span_around(start), receiver = span_around(end);
    CHECK_FALSE(sender.empty());
    CHECK((sender == receiver || (sender == "send" && receiver == "recv")));
    received[integer_at(end, "pid")] += integer_at(arguments(end), "bytes");
  }
  CHECK(ended.size() == starts.size());
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    CHECK(sent[rank] == ranks[static_cast<std::size_t>(rank)].bytes_sent);
    CHECK(received[rank] == ranks[static_cast<std::size_t>(rank)].bytes_received);
  }
}

TEST_CASE("counters follow the bytes received and the memory in use", "[runtime][trace]") {
  const std::vector<Told> ranks = trace_of_run();
  std::map<std::pair<std::int64_t, std::string>, std::vector<std::pair<std::int64_t, std::int64_t>>>
      counters;
  for (const Json& record : of_phase(records_of(ranks), "C")) {
    counters[{integer_at(record, "pid"), text_at(record, "name")}].emplace_back(
        ns_at(record, "ts"), integer_at(arguments(record), "bytes"));
  }
  REQUIRE(counters.size() == 8);
  for (const auto& [key, values] : counters) {
    const auto& [rank, name] = key;
    CAPTURE(rank, name);
    CHECK(std::is_sorted(values.begin(), values.end(),
                         [](const auto& a, const auto& b) { return a.first < b.first; }));
    const Told& told = ranks[static_cast<std::size_t>(rank)];
    if (name == "bytes received") {
      CHECK(std::is_sorted(values.begin(), values.end()));
      CHECK(values.back().second == told.bytes_received);
      continue;
    }
    CHECK(name == "memory in use");
    CHECK(std::ssize(values) == told.num_events);
    for (const auto& [at, bytes] : values) {
      CHECK(bytes >= 8000);  // what the body holds all along
      CHECK(bytes <= told.peak_bytes);
    }
  }
}

TEST_CASE("a trace that is full says what it left out", "[runtime][trace]") {
  const std::vector<Told> all = trace_of_run();
  const std::vector<Told> ranks = trace_of_run({.max_events = 3});
  const Json::Array records = records_of(ranks);
  CHECK(of_phase(records, "X").size() == 4 * 3);
  const std::vector<Json> notes = of_phase(records, "i");
  REQUIRE(notes.size() == 4);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    CHECK(text_at(notes[rank], "name") ==
          std::to_string(all[rank].num_events - 3) + " later events were left out");
    CHECK(ranks[rank].bytes_received == all[rank].bytes_received);
  }
  CHECK(of_phase(records_of(all), "i").empty());
}

TEST_CASE("events carry nothing for a trace unless one was started", "[runtime][trace]") {
  const Mesh mesh = mesh_of_four();
  const auto logs = results_of(4, {}, [&](World& world) {
                      traced_run(world, mesh);
                      return world.events().events();
                    }).value();
  for (const std::vector<Event>& events : logs) {
    CHECK(events.size() == 14);
    for (const Event& event : events) {
      CHECK(event.kind != Event::Kind::kSpan);
      CHECK(event.trace.call == 0);
      CHECK(event.trace.sent.empty());
      CHECK(event.trace.memory_bytes == 0);
    }
  }
}

TEST_CASE("a trace of no rank and of an idle rank are whole documents", "[runtime][trace]") {
  CHECK(records_of(std::vector<std::string>{}).empty());
  const auto world = make_single_world();
  start_trace(*world);
  const Json::Array records = records_of(std::vector<std::string>{trace_part(*world, Mesh())});
  REQUIRE(records.size() == 3);
  CHECK(text_at(arguments(records[0]), "name") == "rank 0");
}

TEST_CASE("spans change no totals", "[runtime][trace]") {
  const auto world = make_single_world();
  start_trace(*world);
  { const TraceSpan span(*world, "forward"); }
  REQUIRE(world->events().events().size() == 1);
  CHECK(world->events().events()[0].end_us >= world->events().events()[0].start_us);
  CHECK(world->events().totals().empty());
  world->events().summarize_only();
  CHECK_FALSE(world->events().is_tracing());
}

TEST_CASE("a sink that fails ends the trace with its error", "[runtime][trace]") {
  TraceWriter writer([](std::string_view) { return io_error("no space"); });
  CHECK(writer.add("{}") == io_error("no space"));
  CHECK(writer.finish() == io_error("no space"));
}

TEST_CASE("clocks of ranks agree: a barrier ends nowhere before it was entered everywhere",
          "[runtime][trace]") {
  using Times = std::vector<std::pair<double, double>>;
  const int num_ranks = GENERATE(2, 4);
  const auto ranks = results_of(num_ranks, {}, [](World& world) {
                       Times times;
                       for (int i = 0; i < 50; ++i) {
                         const double before = world.now_us();
                         everyone(world).barrier();
                         times.emplace_back(before, world.now_us());
                       }
                       return times;
                     }).value();
  for (std::size_t i = 0; i < 50; ++i) {
    double last_in = 0, first_out = ranks[0][i].second;
    for (const Times& times : ranks) {
      last_in = std::max(last_in, times[i].first);
      first_out = std::min(first_out, times[i].second);
    }
    CHECK(last_in <= first_out);
  }
}

TEST_CASE("another host's clock is taken from the shortest round trip", "[runtime][trace]") {
  // The other clock began 1,000 before this one's zero, so it began at −1,000.
  const ClockSample samples[] = {
      {.asked = 10, .answer = 1090, .answered = 110},  // its answer lay late in a long trip
      {.asked = 200, .answer = 1203, .answered = 206},
      {.asked = 300, .answer = 1310, .answered = 370}};
  CHECK(zero_of_other_clock(samples).at == -1000);
  CHECK(zero_of_other_clock(samples).most_error == 3);
  CHECK(zero_of_other_clock(std::span(samples).first(1)).at == -1030);
}

TEST_CASE("texts of all ranks come to rank 0 in order and leave no event", "[runtime][trace]") {
  const auto wrong = complaints_of(4, [](World& world, std::vector<std::string>& notes) {
    std::vector<std::string> taken;
    const std::string own(static_cast<std::size_t>(world.rank() * 1000), 'x');
    collect_texts(world, own, [&](std::string_view text) { taken.emplace_back(text); });
    const std::size_t expected = world.rank() == 0 ? 4 : 0;
    if (taken.size() != expected) notes.push_back("number of texts");
    for (std::size_t rank = 0; rank < taken.size(); ++rank) {
      if (taken[rank] != std::string(rank * 1000, 'x')) notes.push_back("text");
    }
    if (!world.events().events().empty()) notes.push_back("an event");
  });
  CHECK(wrong == std::vector<std::string>{});
}

}  // namespace tessera
