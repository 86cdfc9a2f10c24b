// The hostile inputs of tests/hostile/cases.jsonl (README.md there says how they are written): each
// ends as it should, says what it should, drives no terminal and takes no more memory than allowed.

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "checkpoint/chunk_hash.h"
#include "io/json.h"
#include "placement/printable.h"
#include "testing/program.h"
#include "tests/support/llvm_openmp.h"
#include "tests/support/paths.h"
#include "tests/support/process_memory.h"
#include "tests/tools/program.h"

namespace tessera::testing {
namespace {

const std::string kData = test_data();
// What a program takes before it reads anything, with room for what threads reserve.
constexpr std::int64_t kOwnBytes = std::int64_t{64} << 20;

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

/// A document of the suite's own, which is right.
template <class T>
T right(StatusOr<T> value) {
  return value_or_throw(std::move(value));
}
std::vector<JsonView> items_of(const JsonView& view, std::string_view key) {
  const std::optional<JsonView> list = view.find(key);
  return list ? right(list->items()) : std::vector<JsonView>{};
}
std::vector<std::pair<std::string, JsonView>> members_of(const JsonView& view,
                                                         std::string_view key) {
  const std::optional<JsonView> object = view.find(key);
  return object ? right(object->members()) : std::vector<std::pair<std::string, JsonView>>{};
}

std::string expand(const std::vector<JsonView>& pieces);

std::string repeated(const JsonView& piece) {
  const std::string text = right(right(piece.at("repeat")).text());
  const std::int64_t times = right(right(piece.at("times")).integer());
  const bool numbered = text.find("{n}") != std::string::npos;
  std::string all;
  if (!numbered) all.reserve(text.size() * static_cast<std::size_t>(times));
  for (std::int64_t n = 0; n < times; ++n) {
    std::string one = text;
    if (numbered) replace_all(one, "{n}", std::to_string(n));
    all += one;
  }
  return all;
}

std::string bytes_of(std::uint64_t number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

std::string unhex(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

/// A file of the repository, changed in one place.
std::string file_with(const JsonView& piece) {
  std::string text = read_whole_file(kData + "/../../" + right(right(piece.at("file")).text()));
  for (const JsonView& change : items_of(piece, "replace")) {
    const std::vector<std::string> both = right(change.texts());
    const std::size_t at = text.find(both.at(0));
    INFO(both.at(0));
    REQUIRE(at != std::string::npos);
    text.replace(at, both.at(0).size(), both.at(1));
  }
  return text;
}

std::string expand(const JsonView& piece) {
  if (piece.kind() == Json::Kind::kString) return right(piece.text());
  if (piece.find("repeat")) return repeated(piece);
  if (piece.find("file")) return file_with(piece);
  if (const auto digits = piece.find("hex")) return unhex(right(digits->text()));
  if (const auto digits = piece.find("u64")) return bytes_of(std::stoull(right(digits->text())));
  if (piece.find("header")) {
    const std::string header = expand(items_of(piece, "header"));
    return bytes_of(header.size()) + header;
  }
  const std::string text = expand(items_of(piece, "hashed"));
  return text + ",\"xxh3\":\"" + hash_to_text(hash_of(text)) + "\"}\n";
}

std::string expand(const std::vector<JsonView>& pieces) {
  std::string text;
  for (const JsonView& piece : pieces) {
    if (text.empty()) {
      text = expand(piece);
    } else {
      text += expand(piece);
    }
  }
  return text;
}

/// LLVM's prints values of its variables as they are and aborts over some, before a program begins.
bool is_for_llvm_openmp(std::string_view variable) {
  return kHasLlvmOpenMp && variable.starts_with("OMP_");
}

class HostileCase {
 public:
  explicit HostileCase(const JsonView& view) : view_(view) {
    for (const auto& [name, pieces] : members_of(view, "files")) {
      const std::string path = folder_ / name;
      std::filesystem::create_directories(std::filesystem::path(path).parent_path());
      const std::string text = expand(right(pieces.items()));
      std::ofstream(path, std::ios::binary) << text;
      places_.emplace_back("{" + name + "}", path);
      file_bytes_ = std::max(file_bytes_, static_cast<std::int64_t>(text.size()));
    }
    places_.emplace_back("{folder}", folder_ / "");
    places_.emplace_back("{hostile}", kData + "/../hostile");
    places_.emplace_back("{configs}", kData + "/../../configs");
    places_.emplace_back("{parity}", kData + "/parity/softmax");
  }

  void check() const {
    const std::vector<std::string> command = commands();
    const std::map<std::string, std::string> variables = environment();
    for (const auto& [name, value] : members_of(view_, "environment")) {
      if (!is_for_llvm_openmp(name)) continue;
      skip("hostile values of " + name + ": LLVM's OpenMP runtime reads them first");
      return;
    }
    return_free_memory();
    const Ran ran = run_program(command[0], {command.begin() + 1, command.end()},
                                expand(items_of(view_, "input")), variables);
    CAPTURE(printable(ran.err, 2000), printable(ran.out, 2000));
    CHECK(ran.exit_code == right(right(view_.at("exit")).integer()));
    for (const JsonView& part : items_of(view_, "error")) {
      CHECK_THAT(ran.err, Catch::Contains(with_places(right(part.text()))));
    }
    for (const JsonView& part : items_of(view_, "out")) {
      CHECK_THAT(ran.out, Catch::Contains(with_places(right(part.text()))));
    }
    CHECK(printable_lines(ran.err) == ran.err);
    CHECK(printable_lines(ran.out) == ran.out);
#ifndef __SANITIZE_ADDRESS__
    const std::int64_t factor = right(right(view_.at("memory")).integer());
    CAPTURE(ran.peak_bytes, file_bytes_);
    CHECK(ran.peak_bytes <= factor * file_bytes_ + kOwnBytes);
#endif
  }

 private:
  std::string with_places(std::string text) const {
    for (const auto& [name, path] : places_) replace_all(text, name, path);
    return text;
  }
  std::vector<std::string> commands() const {
    std::vector<std::string> words;
    for (const JsonView& word : items_of(view_, "run")) {
      const bool made = word.kind() == Json::Kind::kObject;
      words.push_back(made ? expand(word) : with_places(right(word.text())));
    }
    return words;
  }
  std::map<std::string, std::string> environment() const {
    std::map<std::string, std::string> variables = {{"OMP_WAIT_POLICY", "passive"}};
    for (const auto& [name, value] : members_of(view_, "environment")) {
      variables[name] = right(value.text());
    }
    return variables;
  }

  JsonView view_;
  ScratchFolder folder_;
  std::vector<std::pair<std::string, std::string>> places_;
  std::int64_t file_bytes_ = 0;
};

const std::vector<std::string>& hostile_words() {
  static const std::vector<std::string> words = {"",      "-",         "--",
                                                 "-1",    "0",         "4294967297",
                                                 "1e9",   "NaN",       "99999999999999999999",
                                                 "[",     "{}",        "\x1b[31m",
                                                 "\xff",  "%s%n",      "\xe2\x80\xae",
                                                 "../..", "/dev/full", "a\nb\rc",
                                                 "=",     "spread",    std::string(20'000, 'A')};
  return words;
}

/// Neither a crash nor a defect, and nothing that drives a terminal.
void check_clean(const Ran& ran) {
  CAPTURE(printable(ran.err, 2000), printable(ran.out, 2000));
  CHECK((ran.exit_code >= 0 && ran.exit_code <= 4));
  CHECK(printable_lines(ran.err) == ran.err);
  CHECK(printable_lines(ran.out) == ran.out);
}

TEST_CASE("mutated flags are a usage error at worst", "[tools][hostile][R33]") {
  const std::string config = kData + "/../../configs/parity_softmax.json";
  // None that names a file to be written.
  const std::vector<std::vector<std::string>> commands = {
      {"placement-audit", "plan", "--input", "/dev/null", "--format", "text", "--per-rank"},
      {"placement-audit", "verify", "--mesh", "2", "--format", "json", "relu"},
      {"placement-audit", "ops", "relu", "--format", "text", "--samples"},
      {"placement-audit", "ckpt", "diff", "no", "such", "--format", "text"},
      {"tessera-train", "--placements", "--config", config, "--ranks", "2", "--parallel",
       R"({"dp_shard":2})", "--threads", "1", "--timeout", "60", "--dtype", "F64"}};
  std::mt19937 random(20);
  for (int run = 0; run < 100; ++run) {
    std::vector<std::string> words = commands[run % commands.size()];
    for (int edits = 1 + random() % 2; edits > 0; --edits) {
      const std::string& word = hostile_words()[random() % hostile_words().size()];
      const auto at =
          words.begin() + 1 + static_cast<std::ptrdiff_t>(random() % (words.size() - 1));
      switch (random() % 4) {
        case 0:
          words.insert(at, word);
          break;
        case 1:
          *at += '=' + word;
          break;
        case 2:
          words.push_back(*at);
          break;
        default:
          *at = word;
      }
    }
    CAPTURE(words);
    check_clean(run_program(words[0], {words.begin() + 1, words.end()}));
  }
}

TEST_CASE("no variable of the environment changes an answer", "[tools][hostile][R33]") {
  const std::string program =
      R"j({"mesh":{"shape":[2]},"inputs":{"x":{"shape":[2],"placements":["S(0)"],"values":[1,2]}},)j"
      R"j("program":[{"op":"relu","args":["x"],"out":"y"},)j"
      R"j({"redistribute":"y","to":["R"],"out":"z"}]})j";
  std::vector<std::string> names = {"TESSERA_RECORDER_DIR",
                                    "TMPDIR",
                                    "TESSERA_MPI_PEER_MEMORY",
                                    "TESSERA_MPI_DEVICE_POINTERS",
                                    "OMP_NUM_THREADS",
                                    "OMP_STACKSIZE",
                                    "OMP_PLACES",
                                    "OMP_PROC_BIND",
                                    "OMP_SCHEDULE",
                                    "OMP_THREAD_LIMIT",
                                    "OMP_DYNAMIC",
                                    "OMP_WAIT_POLICY",
                                    "NO_COLOR",
                                    "LANG",
                                    "HOME",
                                    "GOMP_SPINCOUNT",
                                    "DNNL_VERBOSE"};
  std::erase_if(names, is_for_llvm_openmp);
  const std::vector<std::string> arguments = {"run", "--format", "text"};
  const Ran usual = run_program("placement-audit", arguments, program);
  REQUIRE(usual.exit_code == 0);
  std::mt19937 random(21);
  for (int run = 0; run < 60; ++run) {
    std::map<std::string, std::string> environment;
    for (int count = 1 + random() % 4; count > 0; --count) {
      environment[names[random() % names.size()]] =
          hostile_words()[random() % hostile_words().size()];
    }
    CAPTURE(environment);
    const Ran ran = run_program("placement-audit", arguments, program, environment);
    check_clean(ran);
    CHECK(ran.out == usual.out);
  }
}

TEST_CASE("hostile inputs end as they should, and take little", "[tools][hostile][R31][R33]") {
  std::ifstream file(kData + "/../hostile/cases.jsonl");
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    const JsonDocument document = right(JsonDocument::parse(line, "cases.jsonl"));
    const std::string name = right(right(document.root().at("name")).text());
    DYNAMIC_SECTION(name) { HostileCase(document.root()).check(); }
    ++number;
  }
  CHECK(number > 0);
}

}  // namespace
}  // namespace tessera::testing
