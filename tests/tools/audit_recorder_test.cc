#include <filesystem>
#include <fstream>

#include "io/json.h"
#include "runtime/recorder/recorder.h"
#include "tests/tools/program.h"

namespace tessera {
namespace {

using testing::Ran;
using testing::run_program;
using testing::ScratchFolder;

Ran audit(const std::string& folder, const std::string& format = "json") {
  return run_program("placement-audit", {"recorder", folder, "--format", format});
}

Signature reduce(std::uint64_t sequence, ReduceOp op = ReduceOp::kSum) {
  Signature call;
  call.kind = CollectiveCall::Kind::kAllReduce;
  call.sequence = sequence;
  call.shape = {8};
  call.reduce = op;
  call.fold = true;
  call.tensor = "w";
  call.site = CallSite("/far/moe/dispatch.cc", 12);
  return call;
}

/// A rank of a job of three that calls `count` times; the last call of a rank that hangs is open.
struct Rank {
  std::int64_t rank = 0;
  std::uint64_t count = 0;
  enum class Last { kDone, kOpen } last = Last::kDone;
  ReduceOp last_op = ReduceOp::kSum;
  std::string failure = {};
  std::uint64_t job = 1;
};
void record(const ScratchFolder& folder, const Rank& rank) {
  auto recorder = value_or_throw(FlightRecorder::open(
      {.dir = folder / "job", .rank = rank.rank, .world_size = 3, .job = rank.job}));
  const std::uint32_t group = recorder->add_group(std::vector<std::int64_t>{0, 1, 2});
  for (std::uint64_t i = 0; i < rank.count; ++i) {
    const bool last = i + 1 == rank.count;
    const std::uint64_t ticket =
        recorder->started(reduce(i, last ? rank.last_op : ReduceOp::kSum), group);
    if (!last || rank.last == Rank::Last::kDone) recorder->finished(ticket);
  }
  if (!rank.failure.empty()) recorder->note_failure(rank.failure);
  recorder->close(FlightRecorder::Leave::kKeep);
}

const std::string kCall = "all_reduce #2 of F32 [8] by sum, tensor w (moe/dispatch.cc:12)";

}  // namespace

TEST_CASE("recorder says who was missing where", "[tools][recorder]") {
  const ScratchFolder folder;
  record(folder, {.rank = 0, .count = 3, .last = Rank::Last::kOpen, .failure = "timed out"});
  record(folder, {.rank = 1, .count = 2});
  SECTION("as JSON") {
    const Ran ran = audit(folder / "job");
    CHECK(ran.exit_code == 1);
    CHECK(ran.err.empty());
    CHECK(
        ran.out ==
        R"j({"world_size":3,"ranks_present":[0,1],"ranks_missing":[2],"clean":false,)j"
        R"j("failures":[{"rank":0,"text":"timed out"}],)j"
        R"j("findings":[{"kind":"never_called","field":null,"odd":null,"group":[0,1,2],)j"
        R"j("sequence":2,"calls":[{"rank":0,"call":")j" +
            kCall +
            R"j(","state":"started"}],"missing":[1],"unknown":[2],"text":"rank 1 never called )j" +
            kCall +
            R"j(, of group [0, 1, 2], which rank 0 called; it ended cleanly after all_reduce #1 of )j"
            R"j(F32 [8] by sum, tensor w (moe/dispatch.cc:12) of group [0, 1, 2]; no record of )j"
            R"j(rank 2: cannot tell"}],)j"
            R"j("last_calls":[{"rank":0,"call":")j" +
            kCall +
            R"j(","state":"started","end":"failed","torn":false},)j"
            R"j({"rank":1,"call":"all_reduce #1 of F32 [8] by sum, tensor w (moe/dispatch.cc:12)",)j"
            R"j("state":"finished","end":"clean","torn":false}]})j"
            "\n");
    CHECK(audit(folder / "job").out == ran.out);
  }
  SECTION("for people") {
    const Ran ran = audit(folder / "job", "text");
    CHECK(ran.exit_code == 1);
    CHECK(ran.out ==
          "records of ranks 0, 1 of a job of 3 ranks; none of rank 2\n"
          "\n"
          "failures, first to last:\n"
          "  rank 0: timed out\n"
          "\n"
          "findings, causes before what follows from them:\n"
          "  1. rank 1 never called " +
              kCall +
              ", of group [0, 1, 2], which rank 0 called; it ended cleanly after all_reduce #1 of "
              "F32 [8] by sum, tensor w (moe/dispatch.cc:12) of group [0, 1, 2]; no record of rank "
              "2: cannot tell\n"
              "\n"
              "last calls:\n"
              "  rank 0: " +
              kCall +
              ", started; failed\n"
              "  rank 1: all_reduce #1 of F32 [8] by sum, tensor w (moe/dispatch.cc:12), finished; "
              "ended cleanly\n");
  }
  SECTION("into a file") {
    const std::string path = folder / "verdict.json";
    const Ran ran = run_program("placement-audit", {"recorder", folder / "job", "--output", path});
    CHECK(ran.exit_code == 1);
    CHECK(ran.out.empty());
    CHECK(testing::read_whole_file(path) == audit(folder / "job").out);
  }
}

TEST_CASE("recorder names the rank whose call differs", "[tools][recorder]") {
  const ScratchFolder folder;
  for (const std::int64_t rank : {0, 1, 2}) {
    record(folder, {.rank = rank,
                    .count = 3,
                    .last = Rank::Last::kOpen,
                    .last_op = rank == 1 ? ReduceOp::kMax : ReduceOp::kSum});
  }
  const Ran ran = audit(folder / "job");
  CHECK(ran.exit_code == 1);
  const Json json = *parse_json(ran.out, "stdout");
  const Json::Array& findings = *json.find("findings")->if_array();
  REQUIRE(findings.size() == 1);
  CHECK(*findings[0].find("kind") == Json("mismatch"));
  CHECK(*findings[0].find("field") == Json("reduce op"));
  CHECK(*findings[0].find("odd") == Json(1));
}

TEST_CASE("recorder finds nothing wrong with a clean job", "[tools][recorder]") {
  const ScratchFolder folder;
  for (const std::int64_t rank : {0, 1, 2}) record(folder, {.rank = rank, .count = 3});
  const Ran ran = audit(folder / "job", "text");
  CHECK(ran.exit_code == 0);
  CHECK(ran.err.empty());
  CHECK_THAT(ran.out, Catch::StartsWith("records of ranks 0, 1, 2 of a job of 3 ranks\n"
                                        "nothing wrong\n"));
}

TEST_CASE("recorder leaves out what it cannot read, says so, and reports the rest",
          "[tools][recorder]") {
  const ScratchFolder folder;
  record(folder, {.rank = 0, .count = 3});
  record(folder, {.rank = 1, .count = 3});
  SECTION("a file that is no record") {
    const std::string path = folder.file("job/rank_00002.tsrrec", "garbage");
    const Ran ran = audit(folder / "job");
    CHECK(ran.exit_code == 3);
    CHECK(ran.err ==
          "placement-audit: " + path + ": not a flight record: 7 bytes, of at least 4096\n");
    CHECK_THAT(ran.out, Catch::Contains(R"j("ranks_missing":[2],"clean":true)j"));
  }
  SECTION("a record under another rank's name") {
    std::filesystem::copy(folder / "job/rank_00001.tsrrec", folder / "job/rank_00002.tsrrec");
    const Ran ran = audit(folder / "job");
    CHECK(ran.exit_code == 3);
    CHECK_THAT(ran.err, Catch::EndsWith("rank_00002.tsrrec: is the record of rank 1\n"));
  }
  SECTION("a record of an earlier job") {
    record(folder, {.rank = 1, .count = 3, .job = 2});
    const Ran ran = audit(folder / "job");
    CHECK(ran.exit_code == 3);
    CHECK_THAT(ran.err, Catch::EndsWith("rank_00000.tsrrec: left out: of an earlier job than the "
                                        "others\n"));
    CHECK_THAT(ran.out, Catch::Contains(R"j("ranks_present":[1])j"));
  }
  SECTION("files of other names are none of its business") {
    for (const char* name : {"rank_2.tsrrec", "rank_00002.tsrrec~", "rank_0000x.tsrrec", "notes"}) {
      folder.file(std::string("job/") + name, "garbage");
    }
    CHECK(audit(folder / "job").exit_code == 0);
  }
}

TEST_CASE("recorder without anything to read is an error", "[tools][recorder]") {
  const ScratchFolder folder;
  const Ran none = audit(folder / "none");
  CHECK(none.exit_code == 4);
  CHECK(none.out.empty());
  CHECK(none.err == "placement-audit: " + (folder / "none") +
                        ": cannot read the folder: No such file or directory\n");
  std::filesystem::create_directory(folder / "empty");
  const Ran empty = audit(folder / "empty");
  CHECK(empty.exit_code == 3);
  CHECK_THAT(empty.err,
             Catch::Contains("empty: holds no flight record (files such as rank_00000.tsrrec)"));
  folder.file("empty/rank_00000.tsrrec", std::string(5000, '\0'));
  const Ran zeros = audit(folder / "empty");
  CHECK(zeros.exit_code == 3);
  CHECK(zeros.out.empty());
  CHECK_THAT(zeros.err, Catch::Contains("not a flight record"));
  CHECK(run_program("placement-audit", {"recorder"}).exit_code == 2);
}

}  // namespace tessera
