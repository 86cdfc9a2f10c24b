// tessera-train --trace as a user runs it, on both backends: what the file holds, and how bad paths
// and failing runs end.
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "io/json.h"
#include "tests/support/paths.h"
#include "tests/tools/program.h"

namespace tessera::testing {
namespace {

constexpr int kRanks = 4;
constexpr int kSteps = 2;

std::string parity(const std::string& name) {
  std::string path = test_data();
  path += "/parity/softmax/";
  path += name;
  return path;
}

/// The softmax parity model's config with another learning rate.
std::string config_with_lr(const ScratchFolder& folder, const std::string& lr) {
  const Json expected = value_or_throw(parse_json(read_whole_file(parity("expected.json")), "e"));
  std::string text = expected.find("config")->to_string();
  const std::string before = "\"lr\":0.002,";
  const std::size_t at = text.find(before);
  REQUIRE(at != std::string::npos);
  text.replace(at, before.size(), "\"lr\":" + lr + ",");
  return folder.file("config.json", text);
}

enum class Ranks { kThreads, kProcesses };
std::vector<Ranks> all_backends() {
#ifdef TSR_MPIEXEC
  return {Ranks::kThreads, Ranks::kProcesses};
#else
  return {Ranks::kThreads};
#endif
}

/// Trains on four ranks with a trace at `path`.
Ran train(Ranks ranks, const ScratchFolder& folder, const std::string& path,
          const std::string& lr = "0.002") {
  std::vector<std::string> arguments = {
      "--config", config_with_lr(folder, lr), "--data",     parity("tokens.safetensors"),
      "--init",   parity("init.safetensors"), "--steps",    std::to_string(kSteps),
      "--ranks",  std::to_string(kRanks),     "--parallel", R"({"dp_shard":2,"tp":2,"ep":2})",
      "--log",    folder / "steps.jsonl",     "--trace",    path};
#ifdef TSR_MPIEXEC
  if (ranks == Ranks::kProcesses) {
    arguments.insert(arguments.end(), {"--backend", "mpi"});
    return run_on_mpi(kRanks, "tessera-train", arguments);
  }
#endif
  static_cast<void>(ranks);
  return run_program("tessera-train", arguments);
}

std::string text_at(const Json& record, std::string_view key) {
  const Json* found = record.find(key);
  return found == nullptr || found->if_string() == nullptr ? "" : *found->if_string();
}
std::int64_t integer_at(const Json& record, std::string_view key) {
  return *record.find(key)->if_integer();
}
std::int64_t ns_at(const Json& record, std::string_view key) {
  return std::llround(*record.find(key)->if_number() * 1e3);
}
std::int64_t argument(const Json& record, std::string_view key) {
  return integer_at(*record.find("args"), key);
}

/// A trace file's records of one phase.
class Trace {
 public:
  explicit Trace(const std::string& path)
      : document_(value_or_throw(parse_json(read_whole_file(path), path))) {}
  std::vector<Json> phase(std::string_view phase) const {
    std::vector<Json> found;
    for (const Json& record : *document_.find("traceEvents")->if_array()) {
      if (text_at(record, "ph") == phase) found.push_back(record);
    }
    return found;
  }
  std::set<std::string> row_names() const {
    std::set<std::string> names;
    for (const Json& record : phase("M")) {
      if (text_at(record, "name") == "process_name") {
        names.insert(text_at(*record.find("args"), "name"));
      }
    }
    return names;
  }
  /// How often each of the trainer's own spans occurs, by rank.
  std::map<std::string, int> spans(std::int64_t rank) const {
    std::map<std::string, int> counts;
    for (const Json& span : phase("X")) {
      if (integer_at(span, "pid") == rank && text_at(span, "cat") == "span") {
        ++counts[text_at(span, "name")];
      }
    }
    return counts;
  }

 private:
  Json document_;
};

/// Bytes that rank 0 received by its --log.
std::int64_t logged_bytes(const std::string& path) {
  const std::string lines = read_whole_file(path);
  std::int64_t sum = 0;
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = lines.find('\n', at);
    const Json line = value_or_throw(parse_json(lines.substr(at, end - at), "log"));
    for (const JsonMember& member : *line.find("bytes")->if_object()) {
      sum += *member.value.if_integer();
    }
    at = end + 1;
  }
  return sum;
}

/// Every arrow has two ends that agree; returns the bytes that arrive, by rank.
std::map<std::int64_t, std::int64_t> check_arrows(const Trace& trace) {
  std::map<std::string, Json> starts;
  for (const Json& start : trace.phase("s")) starts.emplace(text_at(start, "id"), start);
  CHECK(starts.size() == trace.phase("s").size());
  CHECK(starts.size() == trace.phase("f").size());
  std::map<std::int64_t, std::int64_t> received;
  for (const Json& end : trace.phase("f")) {
    REQUIRE(starts.contains(text_at(end, "id")));
    const Json& start = starts.at(text_at(end, "id"));
    const bool agrees = argument(start, "to") == integer_at(end, "pid") &&
                        argument(end, "from") == integer_at(start, "pid") &&
                        argument(start, "bytes") == argument(end, "bytes") &&
                        ns_at(start, "ts") >= 0 && ns_at(start, "ts") <= ns_at(end, "ts");
    CHECK(agrees);
    received[integer_at(end, "pid")] += argument(end, "bytes");
  }
  return received;
}

}  // namespace

TEST_CASE("tessera-train --trace shows each rank's steps, calls, messages and counters",
          "[tools][train][trace]") {
  for (const Ranks ranks : all_backends()) {
    CAPTURE(static_cast<int>(ranks));
    const ScratchFolder folder;
    const Ran ran = train(ranks, folder, folder / "out.json");
    CAPTURE(ran.out, ran.err);
    REQUIRE(ran.exit_code == 0);
    const Trace trace(folder / "out.json");
    CHECK(trace.row_names() ==
          std::set<std::string>{"rank 0 [dp_shard 0, tp 0]", "rank 1 [dp_shard 0, tp 1]",
                                "rank 2 [dp_shard 1, tp 0]", "rank 3 [dp_shard 1, tp 1]"});
    const std::map<std::string, int> expected = {{"step 0", 1},
                                                 {"step 1", 1},
                                                 {"forward", kSteps},
                                                 {"backward", kSteps},
                                                 {"optimizer", kSteps}};
    for (int rank = 0; rank < kRanks; ++rank) CHECK(trace.spans(rank) == expected);

    const std::map<std::int64_t, std::int64_t> received = check_arrows(trace);
    CHECK(received.at(0) == logged_bytes(folder / "steps.jsonl"));
    std::map<std::pair<std::int64_t, std::string>, std::int64_t> last;
    for (const Json& counter : trace.phase("C")) {
      last[{integer_at(counter, "pid"), text_at(counter, "name")}] = argument(counter, "bytes");
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      CHECK(last.at({rank, "bytes received"}) == received.at(rank));
      CHECK(last.at({rank, "memory in use"}) > 232'480 / kRanks * 4);  // at least its parameters
    }
  }
}

TEST_CASE("a trace that cannot be written is refused before training starts",
          "[tools][train][trace]") {
  for (const Ranks ranks : all_backends()) {
    CAPTURE(static_cast<int>(ranks));
    const ScratchFolder folder;
    const Ran nowhere = train(ranks, folder, "/nowhere/out.json");
    CHECK(nowhere.exit_code == 4);
    CHECK(nowhere.out.empty());
    CHECK_THAT(nowhere.err, Catch::Contains("--trace /nowhere/out.json: cannot create"));
    CHECK(read_whole_file(folder / "steps.jsonl").empty());
    const Ran device = train(ranks, folder, "/dev/null");
    CHECK(device.exit_code == 4);
    CHECK(device.out.empty());
    CHECK_THAT(device.err, Catch::Contains("--trace /dev/null: not a regular file"));
  }
}

TEST_CASE("a run that fails leaves the trace up to there", "[tools][train][trace]") {
  for (const Ranks ranks : all_backends()) {
    CAPTURE(static_cast<int>(ranks));
    const ScratchFolder folder;
    const Ran ran = train(ranks, folder, folder / "out.json", "1e+30");
    CAPTURE(ran.out, ran.err);
    CHECK(ran.exit_code == 3);
    CHECK_THAT(ran.err, Catch::Contains("step 1: loss"));
    for (int rank = 0; rank < kRanks; ++rank) {
      const std::string own = folder / ("out.json.rank" + std::to_string(rank));
      const Trace trace(ranks == Ranks::kThreads ? folder / "out.json" : own);
      const std::map<std::string, int> spans = trace.spans(rank);
      CHECK(spans.at("step 0") == 1);
      CHECK(spans.at("forward") == 2);
      CHECK(spans.at("optimizer") == 2);  // the second wrote nothing
    }
  }
}

}  // namespace tessera::testing
