// What a rank holds over a step: peaks counted by hand, repeats against their rounds written out,
// and stages and ranks that hold different things.
#include "program/memory.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "io/file.h"
#include "program/module_cost.h"
#include "program/program_json.h"
#include "program/unfold.h"
#include "tests/support/builtin_ops.h"
#include "tests/support/paths.h"

namespace tessera {
namespace {

Program read_steps(const std::string& values, const std::string& steps,
                   const std::string& meshes = R"("m":{"shape":[4],"axes":["tp"]})",
                   int ranks = 4) {
  const std::string text =
      absl::StrFormat(R"({"version":1,"name":"t","source":{"kind":"program"},"ranks":%d,)", ranks) +
      R"("meshes":{)" + meshes + R"(},"values":[)" + values + R"(],"steps":[)" + steps + "]}";
  return value_or_throw(read_program(text, "t.json", testing::builtin_ops()));
}

/// F32, cut over 4 ranks along dim 0: a rank has as many bytes as there are rows.
std::string rows(const std::string& name, int bytes, const std::string& more = "") {
  return absl::StrFormat(
      R"j({"name":"%s","shape":[%d],"dtype":"F32","mesh":"m","placements":["S(0)"]%s})j", name,
      bytes, more);
}
std::string region(const std::string& args, const std::string& out, const std::string& more = "") {
  return absl::StrFormat(R"({"region":"work","args":[%s],"out":[%s]%s})", args, out, more);
}

std::vector<StageMemory> memory(const Program& program) {
  return value_or_throw(memory_of(program, testing::builtin_ops()));
}
StageMemory only(const Program& program) {
  const std::vector<StageMemory> all = memory(program);
  REQUIRE(all.size() == 1);
  return all[0];
}
std::int64_t of_kind(const StageMemory& stage, MemoryKind kind) {
  return stage.at_peak[static_cast<std::size_t>(kind)];
}

TEST_CASE("the peak is counted from the making of values to their last use", "[program][memory]") {
  const StageMemory held =
      only(read_steps(rows("w", 32, R"(,"role":"parameter","module":"mlp")") + "," +
                          rows("x", 40, R"(,"role":"input")"),
                      R"j({"redistribute":"w","to":["R"],"out":"w.r","module":"mlp"},)j" +
                          region(R"("x")", rows("y", 44)) + "," +
                          region(R"("w.r","y")", rows("z", 64),
                                 R"(,"module":"mlp","site":"mlp.py:7","phase":"forward")") +
                          "," + region(R"("z")", rows("u", 4))));
  // Before: w 32, x 40. Step 0: and w.r, which is whole, 4 x 32. Step 1: and y. Then x has ended.
  // Step 2: w, w.r, y, z.
  CHECK(held.start_bytes == 72);
  CHECK(held.peak_bytes == 32 + 128 + 44 + 64);
  CHECK(held.end_bytes == 32);
  CHECK(of_kind(held, MemoryKind::kParameter) == 32);
  CHECK(of_kind(held, MemoryKind::kGathered) == 128);
  CHECK(of_kind(held, MemoryKind::kActivation) == 108);
  CHECK(of_kind(held, MemoryKind::kInput) == 0);
  CHECK(held.peak_path == "/steps/2");
  CHECK(held.peak_step == 2);
  CHECK(held.peak_origin.site == "mlp.py:7");
  CHECK(held.peak_origin.phase == StepPhase::kForward);
  REQUIRE(held.holders.size() == 4);
  CHECK(held.holders[0] == MemoryHolder{"w.r", "mlp", MemoryKind::kGathered, 128, 1});
  CHECK(held.holders[1] == MemoryHolder{"z", "mlp", MemoryKind::kActivation, 64, 1});
  CHECK(held.holders[3] == MemoryHolder{"w", "mlp", MemoryKind::kParameter, 32, 1});
  std::vector<std::int64_t> bytes;
  for (const MemoryPoint& point : held.timeline) bytes.push_back(point.bytes);
  CHECK(bytes == std::vector<std::int64_t>{200, 244, 268, 32 + 64 + 4, 32});
}

TEST_CASE("what a program frees ends there and nothing else does", "[program][memory]") {
  const std::string values = rows("x", 40, R"(,"role":"input")");
  const std::string work = region(R"("x")", rows("y", 44)) + "," + region(R"("y")", rows("z", 64));
  const StageMemory freed =
      only(read_steps(values, work + R"(,{"free":["y","x"]},)" + region(R"("z")", rows("u", 100))));
  CHECK(freed.peak_bytes == 64 + 100);
  CHECK(freed.end_bytes == 64 + 100);
  CHECK(freed.peak_path == "/steps/3");
  const StageMemory kept =
      only(read_steps(values, work + R"(,{"free":["y"]},)" + region(R"("z")", rows("u", 100))));
  CHECK(kept.peak_bytes == 40 + 64 + 100);
}

TEST_CASE("views and results that are written in place have no memory of their own",
          "[program][memory]") {
  const std::string x = rows("x", 40, R"(,"role":"input")");
  const auto viewed = [&](const std::string& op, const std::string& attrs) {
    return absl::StrFormat(R"({"op":"%s","args":["y"],"attrs":{%s},"out":[%s]})", op, attrs,
                           rows("v", 44));
  };
  // y's memory is v's, and ends with v.
  const auto peak = [&](const std::string& step) {
    return only(read_steps(x, region(R"("x")", rows("y", 44)) + "," + step + "," +
                                  region("", rows("u", 100)) + "," +
                                  region(R"("v")", rows("z", 4))))
        .peak_bytes;
  };
  CHECK(peak(viewed("view", R"("size":[44])")) == 44 + 100);
  CHECK(peak(viewed("relu_", "")) == 44 + 100);
  CHECK(peak(R"({"op":"clone","args":["y"],"out":[)" + rows("v", 44) + "]}") == 44 + 100);
  CHECK(peak(R"j({"redistribute":"y","to":["S(0)"],"out":"v"})j") == 44 + 100);
  const std::string both = R"({"host_read":"y","bytes":4})";
  CHECK(peak(viewed("view", R"("size":[44])") + "," + region("", rows("t", 200)) + "," + both) ==
        44 + 200);
  CHECK(peak(R"({"op":"clone","args":["y"],"out":[)" + rows("v", 44) + "]}," +
             region("", rows("t", 200)) + "," + both) == 44 + 44 + 200);
  const std::string alias = R"({"region":"alias","args":["y"],"out":[)" + rows("v", 44) + "]}";
  CHECK(peak(alias + "," + region("", rows("t", 200)) + "," + both) == 44 + 200);
  CHECK(peak(region(R"("y")", rows("v", 44)) + "," + region("", rows("t", 200)) + "," + both) ==
        44 + 44 + 200);
  // A transposed matrix shares its operand's memory; its rows in order are a copy.
  const auto matrix = [](const char* name) {
    return absl::StrFormat(
        R"j({"name":"%s","shape":[4,4],"dtype":"F32","mesh":"m","placements":["R"]})j", name);
  };
  const StageMemory copied = only(read_steps(
      "", region("", matrix("a")) + R"(,{"op":"t","args":["a"],"out":[)" + matrix("b") +
              R"(]},{"op":"reshape","args":["b"],"attrs":{"shape":[4,4]},"out":[)" + matrix("c") +
              R"(]},{"op":"reshape","args":["c"],"attrs":{"shape":[4,4]},"out":[)" + matrix("d") +
              "]}," + region(R"("a","b","c","d")", "")));
  CHECK(copied.peak_bytes == 2 * 64);
}

TEST_CASE("an optimizer's results take the place of what it was given", "[program][memory]") {
  const std::string values = rows("w", 40, R"(,"role":"parameter")") + "," +
                             rows("m", 44, R"(,"role":"state")") + "," +
                             rows("b", 4, R"(,"role":"buffer")");
  const StageMemory held = only(read_steps(
      values,
      region(R"("w")", rows("g.full", 160), R"(,"phase":"backward")") + "," +
          R"j({"redistribute":"g.full","to":["R"],"out":"g","phase":"backward","moves":[]},)j" +
          region(
              R"("w","g.mean","m")",
              rows("w2", 40, R"(,"role":"parameter")") + "," + rows("m2", 44, R"(,"role":"state")"),
              R"(,"phase":"optimizer")")
              .replace(0, 0,
                       region(R"("g")", rows("g.mean", 40), R"(,"phase":"backward")") + ",")));
  // g.full is 160, g whole: 640.
  CHECK(held.peak_bytes == 40 + 44 + 4 + 160 + 640);
  CHECK(held.end_bytes == 40 + 44 + 4);
  CHECK(of_kind(held, MemoryKind::kOptimizer) == 44);
  CHECK(of_kind(held, MemoryKind::kBuffer) == 4);
  CHECK(of_kind(held, MemoryKind::kActivation) == 800);
}

TEST_CASE("gradients are what an optimizer reads, and what they are made of", "[program][memory]") {
  const StageMemory held = only(read_steps(
      rows("w", 40, R"(,"role":"parameter")"),
      R"j({"redistribute":"w","to":["R"],"out":"w.r","phase":"forward"},)j"
      R"j({"region":"backward","args":["w.r"],"out":[{"name":"g.full","shape":[40],"dtype":"F32",)j"
      R"j("mesh":"m","placements":["P(sum)"]}],"phase":"backward"},)j"
      R"j({"redistribute":"g.full","to":["S(0)"],"out":"g","phase":"backward"},)j" +
          region(R"("w","g")", "", R"(,"phase":"optimizer")")));
  // At the backward: w 40, w.r 160, g.full 160.
  CHECK(held.peak_bytes == 360);
  CHECK(held.peak_path == "/steps/1");
  CHECK(of_kind(held, MemoryKind::kGradient) == 160);
  CHECK(of_kind(held, MemoryKind::kGathered) == 160);
}

TEST_CASE("what rounds save for the backward stays for all of them", "[program][memory]") {
  std::string weights;
  for (int i = 0; i < 61; ++i) {
    weights += "," + rows(absl::StrFormat("w.%d", i), 8, R"(,"role":"parameter")");
  }
  const StageMemory held = only(read_steps(
      rows("x", 40, R"(,"role":"input")") + weights,
      R"({"repeat":61,"as":"layers","steps":[)" +
          region(R"("x","w.*")", rows("h.*", 12) + "," + rows("y.*", 40), R"(,"phase":"forward")") +
          R"(],"carry":{"x":"y.*"}},)" +
          region(R"("x")", rows("g", 40) + "," + rows("t", 4), R"(,"module":"loss")") +
          R"(,{"repeat":61,"first":60,"by":-1,"as":"layers","steps":[)" +
          region(R"("g","h.*","w.*")", rows("g.in.*", 40), R"(,"phase":"backward")") +
          R"(],"carry":{"g":"g.in.*"}})"));
  // Between the repeats all h are there, and the last y, g, t.
  CHECK(held.peak_bytes == 61 * 8 + 61 * 12 + 40 + 40 + 4);
  CHECK(held.peak_origin.module == "loss");
  CHECK(held.start_bytes == 61 * 8 + 40);
  CHECK(held.end_bytes == 61 * 8);
  REQUIRE(held.holders.size() >= 2);
  CHECK(held.holders[0] == MemoryHolder{"h.*", "", MemoryKind::kActivation, 61 * 12, 61});
  CHECK(held.holders[1].count == 61);
  CHECK(held.timeline.back().bytes == 61 * 8);
  for (const MemoryPoint& point : held.timeline) CHECK(point.bytes >= 61 * 8);
}

TEST_CASE("each stage holds its own, and ranks what is on their meshes", "[program][memory]") {
  const std::string meshes = R"("first":{"shape":[2],"axes":["dp"],"stage":0},)"
                             R"("second":{"shape":[4],"axes":["dp"],"first_rank":2,"stage":1},)"
                             R"("half":{"shape":[2],"axes":["dp"],"first_rank":4,"stage":1})";
  const auto on = [](const char* name, const char* mesh, int size, const char* more = "") {
    return absl::StrFormat(
        R"j({"name":"%s","shape":[%d],"dtype":"F32","mesh":"%s","placements":["S(0)"]%s})j", name,
        size, mesh, more);
  };
  const std::string plain = R"({"name":"table","shape":[5],"dtype":"F32","mesh":null,)"
                            R"("placements":null,"role":"buffer"})";
  const std::vector<StageMemory> held =
      memory(read_steps(on("a", "first", 4, R"(,"role":"parameter")") + "," +
                            on("b", "second", 9, R"(,"role":"parameter")") + "," +
                            on("c", "half", 6, R"(,"role":"parameter")") + "," + plain,
                        region(R"("a","table")", on("h", "first", 10), R"(,"stage":0)") + "," +
                            region(R"("h")", on("h2", "second", 4), R"(,"stage":1)"),
                        meshes, 6));
  REQUIRE(held.size() == 3);
  // Two ranks: a 2 x 4, h 5 x 4, the table 20. The second stage has b 3 x 4 and h2 4, and its last
  // two ranks c 3 x 4.
  CHECK(held[0].stage == 0);
  CHECK(held[0].first_rank == 0);
  CHECK(held[0].ranks == 2);
  CHECK(held[0].peak_bytes == 8 + 20 + 20);
  CHECK(held[1].stage == 1);
  CHECK(held[1].first_rank == 2);
  CHECK(held[1].ranks == 2);
  CHECK(held[1].peak_bytes == 12 + 4);
  CHECK(held[2].first_rank == 4);
  CHECK(held[2].ranks == 2);
  CHECK(held[2].peak_bytes == 12 + 4 + 12);
}

TEST_CASE("ranks on no mesh that holds anything are not told of", "[program][memory]") {
  const StageMemory held = only(
      read_steps(R"j({"name":"w","shape":[4],"dtype":"F32","mesh":"m","placements":["S(0)"],)j"
                 R"("role":"parameter"})",
                 R"({"region":"work","args":["w"],"out":[{"name":"y","shape":[5],"dtype":"F32",)"
                 R"("mesh":null,"placements":null}],"stage":3})",
                 R"("m":{"shape":[2],"axes":["tp"],"first_rank":4})", 8));
  CHECK(!held.stage);
  CHECK(held.first_rank == 4);
  CHECK(held.ranks == 2);
  CHECK(held.peak_bytes == 8 + 20);
}

TEST_CASE("sums beyond 2^63 and too many steps to follow are refused", "[program][memory]") {
  const std::string large =
      R"j({"name":"l.*","shape":[1152921504606846976],"dtype":"F32","mesh":"m",)j"
      R"j("placements":["R"],"role":"parameter","count":3})j";
  const auto refusal = [](const Program& program) {
    return std::string(message_of(memory_of(program, testing::builtin_ops()).status()));
  };
  CHECK(refusal(read_steps(large, "")) == "the program's bytes held come to more than 2^63");
  CHECK(refusal(read_steps(rows("w.*", 8, R"(,"role":"parameter","count":3)"),
                           region(R"("w.*")", ""))) ==
        "memory: \"w.*\" has a count of 3, but is used outside of a repeat of that count");
  // 64 followed rounds of each of four repeats in one another would be 16.7 million.
  std::string carried = R"("carry":{)", values = rows("v0", 4, R"(,"role":"input")");
  for (int i = 1; i <= 40; ++i) {
    values += "," + rows(absl::StrFormat("v%d", i), 4, R"(,"role":"input")");
    carried += absl::StrFormat(R"(%s"v%d":"v%d")", i == 1 ? "" : ",", i, i - 1);
  }
  std::string nested = region(R"("v40")", "");
  for (int depth = 0; depth < 4; ++depth) {
    nested = R"({"repeat":1000,"steps":[)" + nested + (depth == 3 ? "]," + carried + "}}" : "]}");
  }
  CHECK(refusal(read_steps(values, nested)) ==
        "the memory of repeats in repeats: more than 5000000 steps to follow");
}

/// Programs with repeats in repeats, carries, values with a count, views and frees; no later repeat
/// reads what an earlier one made.
class ProgramMaker {
 public:
  explicit ProgramMaker(unsigned seed) : random_(seed), frees_(below(2) == 0) {}

  std::string make() {
    for (int i = 0; i < 3; ++i) values_.push_back({fresh(), size(), true});
    std::string values;
    for (const Value& each : values_) {
      const char* const roles[] = {"input", "parameter", "input"};
      values += (values.empty() ? "" : ",") +
                rows(each.name, each.bytes, absl::StrFormat(R"(,"role":"%s")", roles[below(3)]));
    }
    for (const int count : {3, 30}) {
      counted_[count] = fresh();
      values += "," + rows(counted_[count], size(),
                           absl::StrFormat(R"(,"role":"%s","count":%d)",
                                           below(2) == 0 ? "input" : "parameter", count));
    }
    const std::string steps = body(0, 6);
    return values + "|" + steps;
  }

 private:
  struct Value {
    std::string name;
    int bytes = 4;
    bool may_free = false;
  };

  std::size_t below(std::size_t count) { return random_() % count; }
  int size() { return static_cast<int>(4 * (1 + below(9))); }
  std::string fresh() { return absl::StrFormat("v%d", ++names_); }

  std::string body(int depth, int steps) {
    std::vector<std::string> made;
    for (int i = 0; i < steps; ++i) made.push_back(step(depth));
    return absl::StrJoin(made, ",");
  }

  std::string step(int depth) {
    if (depth < 3 && below(4) == 0) return repeat(depth);
    const Value& read = values_[below(values_.size())];
    if (frees_ && below(5) == 0 && read.may_free && values_.size() > 2) {
      const std::string text = R"({"free":[")" + read.name + R"("]})";
      values_.erase(values_.begin() + (&read - values_.data()));
      return text;
    }
    Value made{fresh(), size(), true};
    std::string args = "\"" + read.name + "\"";
    if (below(4) == 0) {  // a view
      made.bytes = read.bytes;
      values_.push_back(made);
      return absl::StrFormat(R"({"op":"view","args":[%s],"attrs":{"size":[%d]},"out":[%s]})", args,
                             made.bytes, rows(made.name, made.bytes));
    }
    if (below(3) == 0) args += ",\"" + values_[below(values_.size())].name + "\"";
    for (std::size_t i = counts_.size(); i-- > 0;) {
      if (const auto found = counted_.find(counts_[i]); found != counted_.end() && below(3) == 0) {
        args += ",\"" + found->second + "\"";
      }
    }
    values_.push_back(made);
    return region(args, rows(made.name, made.bytes));
  }

  std::string repeat(int depth) {
    constexpr int kCounts[] = {1, 2, 3, 7, 30};
    const int count = kCounts[below(5)];
    std::vector<Value> outside = values_;
    for (Value& each : values_) each.may_free = false;
    counts_.push_back(count);
    const std::size_t before = values_.size();
    const std::string steps = body(depth + 1, static_cast<int>(1 + below(5)));
    counts_.pop_back();
    std::vector<std::string> carry;
    std::vector<std::string> taken;
    for (int i = 0; i < 3; ++i) {
      const Value& begin = values_[below(before)];
      const Value& end = values_[below(values_.size())];
      if (begin.bytes != end.bytes || std::ranges::find(taken, begin.name) != taken.end()) continue;
      if (!std::ranges::any_of(outside, [&](const Value& v) { return v.name == begin.name; })) {
        continue;
      }
      taken.push_back(begin.name);
      carry.push_back(absl::StrFormat(R"("%s":"%s")", begin.name, end.name));
    }
    // Later repeats read none of what this one made or carried.
    std::erase_if(values_, [&](const Value& each) {
      return std::ranges::none_of(outside, [&](const Value& v) { return v.name == each.name; }) ||
             std::ranges::find(taken, each.name) != taken.end();
    });
    for (Value& each : values_) {
      for (const Value& was : outside) {
        if (was.name == each.name) each.may_free = was.may_free;
      }
    }
    if (values_.empty()) values_.push_back({last_resort_, 4, false});
    return absl::StrFormat(R"({"repeat":%d,"steps":[%s],"carry":{%s}})", count, steps,
                           absl::StrJoin(carry, ","));
  }

  std::mt19937 random_;
  bool frees_;
  int names_ = 0;
  std::vector<Value> values_;
  std::map<int, std::string> counted_;
  std::vector<int> counts_;
  std::string last_resort_ = "always";
};

TEST_CASE("rounds hold what they hold written out", "[program][memory]") {
  int compared = 0, left_out = 0;
  for (unsigned seed = 0; seed < 600; ++seed) {
    CAPTURE(seed);
    const std::string made = ProgramMaker(seed).make();
    const std::size_t bar = made.find('|');
    const Program program =
        read_steps(made.substr(0, bar) + "," + rows("always", 4, R"(,"role":"parameter")"),
                   made.substr(bar + 1));
    const StatusOr<Program> unfolded = unfold(program, 20'000);
    if (!unfolded.ok()) continue;
    const StageMemory held = only(program), apart = only(*unfolded);
    INFO(write_program(program));
    REQUIRE(held.peak_bytes == apart.peak_bytes);
    REQUIRE(held.at_peak == apart.at_peak);
    REQUIRE(held.peak_step == apart.peak_step);
    REQUIRE(held.start_bytes == apart.start_bytes);
    REQUIRE(held.end_bytes == apart.end_bytes);
    std::int64_t most = 0, all = 0;
    for (const MemoryPoint& point : held.timeline) most = std::max(most, point.bytes);
    for (const MemoryHolder& holder : held.holders) all += holder.bytes;
    REQUIRE(std::max(most, held.start_bytes) == held.peak_bytes);
    REQUIRE((held.holders.size() == 64 || all == held.peak_bytes));
    ++compared;
    left_out += std::ssize(unfolded->steps) > 100 ? 1 : 0;
  }
  CHECK(compared > 400);
  CHECK(left_out > 100);
}

TEST_CASE("recorded programs hold their parameters and optimizer states whole",
          "[program][memory][recorded]") {
  for (const char* const name : {"llama", "llama_stages", "deepseek", "implicit_gather", "regions",
                                 "router", "wrong_rows"}) {
    CAPTURE(name);
    const std::string path = testing::test_data(absl::StrFormat("/programs/torch_%s.json", name));
    const std::string text = value_or_throw(read_file(path, kMaxProgramTextBytes));
    const Program program = value_or_throw(read_program(text, name, testing::builtin_ops()));
    const std::vector<StageMemory> held = memory(program);
    CHECK(held == memory(program));
    std::map<ValueRole, std::int64_t> declared;
    for (const ProgramValue& value : program.values) {
      declared[value.role] += value_or_throw(held_bytes(program, value));
    }
    std::int64_t parameters = 0, states = 0;
    for (const StageMemory& stage : held) {
      parameters += of_kind(stage, MemoryKind::kParameter);
      states += of_kind(stage, MemoryKind::kOptimizer);
    }
    CHECK(parameters == declared[ValueRole::kParameter]);
    CHECK(states == declared[ValueRole::kState]);
    for (const StageMemory& stage : held) {
      std::int64_t sum = 0;
      for (const std::int64_t bytes : stage.at_peak) sum += bytes;
      CHECK(sum == stage.peak_bytes);
      CHECK(stage.timeline.size() <= 512);
      CHECK(stage.peak_bytes >= stage.start_bytes);
    }
  }
}

TEST_CASE("10,000 changed programs have a memory or are refused", "[program][memory]") {
  const std::string made = ProgramMaker(17).make();
  const std::size_t bar = made.find('|');
  const std::string whole = write_program(
      read_steps(made.substr(0, bar) + "," + rows("always", 4, R"(,"role":"parameter")"),
                 made.substr(bar + 1)));
  std::mt19937 random(1);
  const auto below = [&](std::size_t count) { return random() % count; };
  int accepted = 0, refused = 0;
  for (int round = 0; round < 10'000; ++round) {
    std::string text = whole;
    for (std::size_t change = 1 + below(3); change > 0; --change) {
      const std::size_t at = below(text.size() - 20), from = below(text.size());
      if (below(2) == 0) {
        text[at] = text[from];
      } else {
        text[text.find_last_of("0123456789", at + 20)] = static_cast<char>('0' + below(10));
      }
    }
    const StatusOr<Program> program = read_program(text, "run.json", testing::builtin_ops());
    if (!program.ok()) continue;
    const auto held = memory_of(*program, testing::builtin_ops());
    ++(held.ok() ? accepted : refused);
    if (held.ok()) REQUIRE(held->front().peak_bytes >= held->front().start_bytes);
  }
  CHECK(accepted > 500);
}

}  // namespace
}  // namespace tessera
