// docs/errors.md word for word: each mistake that it shows is made, by the programs in a shell and
// by code on four ranks, and answers with the text that stands there. TESSERA_ACCEPT=1 in the
// environment writes what is answered now into the page; the change shows in `git diff`.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "dtensor/local_map.h"
#include "dtensor/ops.h"
#include "runtime/call/communicator.h"
#include "tests/support/paths.h"
#include "tests/tools/program.h"

namespace tessera::testing {
namespace {

using Lines = std::vector<std::string>;
const std::string kPage = test_data("/../../docs/errors.md");

std::string joined(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}
Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// ---- mistakes of code ----

/// What the page's code is about, on each of four ranks.
struct Given {
  World& world;
  Runtime& runtime;
  Mesh mesh;                        ///< {dp: 2, tp: 2}
  DTensor x;                        ///< F32 [8, 6] (S(0), R)
  DTensor w;                        ///< F32 [6, 10] (R, S(1)), needs a gradient
  DTensor ids;                      ///< I64 [8] (S(0), R)
  std::function<void()> stay_away;  ///< returns once another rank has given up
};
struct CodeMistake {
  std::string code;
  void (*make)(Given&);
};
#define TSR_MISTAKE(...)                                                         \
  code_mistake(#__VA_ARGS__, [](Given& given) {                                  \
    [[maybe_unused]] auto& [world, runtime, mesh, x, w, ids, stay_away] = given; \
    __VA_ARGS__                                                                  \
  })
CodeMistake code_mistake(std::string code, void (*make)(Given&)) { return {std::move(code), make}; }

const std::vector<CodeMistake>& code_mistakes() {
  static const Replicate R{};
  static const auto S = [](int dim) { return Shard{dim}; };
  static const Array zeros_86 = Array::zeros({8, 6}, DType::kF32);
  static const Array zeros_46 = Array::zeros({4, 6}, DType::kF32);
  static const std::vector<CodeMistake> mistakes = {
    TSR_MISTAKE(matmul(w, x);),
    TSR_MISTAKE(add(x, w);),
    TSR_MISTAKE(add(x, DTensor());),
    TSR_MISTAKE(softmax(x, 2);),
    TSR_MISTAKE(topk(x, 7, 1);),
    TSR_MISTAKE(embedding(w, x);),
    TSR_MISTAKE(call(runtime, "softmaks", std::array{x}, {});),
    TSR_MISTAKE(distribute(runtime, zeros_86, mesh, Placements{S(0)});),
    TSR_MISTAKE(distribute(runtime, zeros_86, mesh, Placements{S(2), R});),
    TSR_MISTAKE(redistribute(x, {Partial{ReduceOp::kMax}, StridedShard{0, 0}});),
    TSR_MISTAKE(const Mesh flat = value_or_throw(mesh.flatten(0, 2, "all"));
                add(x, distribute(runtime, zeros_86, flat, Placements{S(0)}));),
    TSR_MISTAKE(const Mesh eight = value_or_throw(Mesh::make(ShapeView(Shape{8}), {"dp"}));
                full_tensor(distribute(runtime, zeros_86, eight, Placements{S(0)}));),
    TSR_MISTAKE(const std::array<std::int64_t, 2> twice = {0, 0};
                value_or_throw(world.group(twice));),
    TSR_MISTAKE(item(x);),
    TSR_MISTAKE(backward(matmul(x, w));),
    TSR_MISTAKE(DTensor loss = sum(matmul(x, w)); backward(loss); backward(loss);),
    TSR_MISTAKE(fill_(w, 0.0);),
    TSR_MISTAKE(ids.set_requires_grad(true);),
    TSR_MISTAKE(to_local(w);),
    TSR_MISTAKE(const bool whole = world.rank() == 1;
                from_local(plain(runtime, whole ? zeros_86 : zeros_46), mesh, Placements{S(0), R},
                           {8, 6});),
    TSR_MISTAKE(reinterpret(x, value_or_throw(
                                   Spec::make(mesh, {8, 6}, DType::kF32, Placements{R, S(0)})));),
    TSR_MISTAKE(const LocalArg args[] = {{.name = "x", .tensor = x, .placements = {R, R}}};
                local_map(runtime, "double", args, {}, nullptr);),
    TSR_MISTAKE(DTensor sums = zeros(runtime, value_or_throw(Spec::make(mesh, {8}, DType::kF32,
                                                                        Placements{Partial{}, R})));
                call(runtime, "relu_", std::array{sums}, {});),
    TSR_MISTAKE(add_(x, distribute(runtime, Array::zeros({3, 8, 6}, DType::kF32), mesh,
                                   Placements{R, R}));),
    TSR_MISTAKE(DTensor flat = reshape(transpose(x, 0, 1), {48}); fill_(flat, 1.0);),
    TSR_MISTAKE(neg(expand(sum(x), {std::int64_t{1} << 45}));),
    TSR_MISTAKE(const bool odd = world.rank() == 1;
                redistribute(x, odd ? Placements{R, S(1)} : Placements{R, R});),
    TSR_MISTAKE(if (world.rank() > 0) return; const std::array<std::int64_t, 2> ranks = {0, 1};
                value_or_throw(world.group(ranks))->barrier();),
    TSR_MISTAKE(if (world.rank() == 3) throw std::runtime_error("disk on fire");
                everyone(world).barrier();),
    TSR_MISTAKE(if (world.rank() > 1) return; const std::array<std::int64_t, 2> ranks = {0, 1};
                Communicator* pair = value_or_throw(world.group(ranks));
                if (world.rank() == 1) return stay_away();
                pair->barrier({.timeout = std::chrono::milliseconds(100)});),
  };
  return mistakes;
}

/// With this file's path shortened and its lines as 88: both change with the build and the code.
std::string without_lines(std::string text) {
  const std::string file = "tools/error_texts_test.cc:";
  for (std::size_t at = text.find(file); at != std::string::npos; at = text.find(file, at)) {
    const std::size_t begin = text.find_last_of(" (", at) + 1;
    const std::size_t digits = at + file.size();
    const std::size_t end = std::min(text.find_first_not_of("0123456789", digits), text.size());
    text.replace(begin, end - begin, file + "88");
    at = begin + file.size();
  }
  return text;
}
/// Without "rank 3: ", which says where a failure that others were told of came from.
std::string without_rank(const std::string& text) {
  const bool has = text.size() > 8 && text.starts_with("rank ") && text.compare(6, 2, ": ") == 0;
  return has ? text.substr(8) : text;
}

/// What the ranks are told where all are told the same; else what the run as a whole returns.
std::string answer_to(const CodeMistake& mistake) {
  std::array<std::string, 4> told;
  std::atomic<bool> gave_up = false;
  const Status first = run_ranks(4, {.threads_per_rank = 1}, [&](World& world) {
    Runtime runtime(world);
    const Mesh mesh = value_or_throw(Mesh::make(ShapeView(Shape{2, 2}), {"dp", "tp"}));
    const auto part = [&](Shape shape, DType dtype, const Placements& placements) {
      return distribute(runtime, Array::zeros(shape, dtype), mesh, placements);
    };
    Given given{world,
                runtime,
                mesh,
                part({8, 6}, DType::kF32, {Shard{0}, Replicate{}}),
                part({6, 10}, DType::kF32, {Replicate{}, Shard{1}}).set_requires_grad(true),
                part({8}, DType::kI64, {Shard{0}, Replicate{}}),
                [&] { gave_up.wait(false); }};
    try {
      mistake.make(given);
    } catch (const Error& error) {
      told[static_cast<std::size_t>(world.rank())] = message_of(error.status());
      gave_up = true;
      gave_up.notify_all();
      throw;
    }
  });
  std::set<std::string> texts, without;
  for (const std::string& each : told) {
    if (each.empty()) continue;
    texts.insert(without_lines(each));
    without.insert(without_lines(without_rank(each)));
  }
  // Which of the ranks that make the same mistake is first to tell the others is left to chance.
  if (texts.size() > 1 && without.size() == 1) return *without.begin();
  return texts.size() == 1 ? *texts.begin() : without_lines(std::string(message_of(first)));
}

std::string without_blanks(std::string text) {
  text.erase(std::remove_if(text.begin(), text.end(), [](char c) { return c == ' ' || c == '\n'; }),
             text.end());
  return text;
}

// ---- mistakes on the command line ----

/// Runs a block's command in a folder that has `configs` and `data`.
class Shell {
 public:
  Shell() {
    std::filesystem::create_directory(folder_ / "bin");
    std::filesystem::create_directory_symlink(test_data("/../../configs"), folder_ / "configs");
    std::filesystem::create_directory_symlink(test_data("/parity/softmax"), folder_ / "data");
#ifdef TSR_MPIEXEC
    std::filesystem::create_symlink(TSR_MPIEXEC, folder_ / "bin/mpirun");
#endif
  }

  Lines answer_to(const std::string& command) const {
    const std::string path = folder_ / "bin:" + built() + ":" + std::getenv("PATH");
    const Ran ran = run_program(
        "/bin/bash", {"-o", "pipefail", "-c", "exec 2>&1; cd " + (folder_ / "") + "; " + command},
        "",
        {{"PATH", path},
         {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
         {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
         {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
         {"OMPI_MCA_mpi_yield_when_idle", "1"}});
    Lines lines = lines_of(ran.out);
    lines.push_back("exit code " + std::to_string(ran.exit_code));
    return lines;
  }

 private:
  ScratchFolder folder_;
};

// ---- the page ----

struct Block {
  Lines asked;     ///< the command with its marks, or the code
  Lines answered;  ///< lines of the answer as they stand on the page
};

Block split_console(const Lines& lines) {
  Block block;
  for (const std::string& line : lines) {
    const bool asks = block.answered.empty() && (line.starts_with("$ ") || line.starts_with("> "));
    (asks ? block.asked : block.answered).push_back(line);
  }
  return block;
}
Block split_code(const Lines& lines) {
  Block block;
  for (const std::string& line : lines) {
    (line.starts_with("// ") ? block.answered : block.asked).push_back(line);
  }
  return block;
}

class Page {
 public:
  /// The block with what is answered now. Counts as a check where that differs.
  Lines answered_now(const std::string& kind, const Lines& lines) {
    Block block = kind == "```cpp" ? split_code(lines) : split_console(lines);
    const Lines now = kind == "```cpp" ? code_answer(block) : console_answer(block);
    CAPTURE(joined(block.asked));
    if (accepts_) {
      block.answered = now;
    } else {
      CHECK(joined(now) == joined(block.answered));
    }
    Lines all = block.asked;
    all.insert(all.end(), block.answered.begin(), block.answered.end());
    return all;
  }
  bool accepts() const { return accepts_; }
  std::size_t num_code() const { return shown_.size(); }
  std::size_t num_commands() const { return num_commands_; }

 private:
  Lines code_answer(const Block& block) {
    const std::string code = without_blanks(joined(block.asked));
    for (const CodeMistake& mistake : code_mistakes()) {
      if (without_blanks(mistake.code) != code) continue;
      shown_.insert(code);
      Lines lines = lines_of(answer_to(mistake));
      for (std::string& line : lines) line.insert(0, "// ");
      return lines;
    }
    return {"// is code that this test does not have"};
  }
  Lines console_answer(const Block& block) {
    ++num_commands_;
    std::string command;
    for (const std::string& line : block.asked) command += line.substr(2) + "\n";
#ifndef TSR_MPIEXEC
    if (command.starts_with("mpirun")) return block.answered;
#endif
    return shell_.answer_to(command);
  }

  Shell shell_;
  bool accepts_ = std::getenv("TESSERA_ACCEPT") != nullptr;
  std::set<std::string> shown_;
  std::size_t num_commands_ = 0;
};

}  // namespace

TEST_CASE("what docs/errors.md says of common mistakes is what is answered", "[tools][errors]") {
  INFO("TESSERA_ACCEPT=1 build/release/bin/test_tools '[errors]' takes over what is answered now");
  Page page;
  Lines result, block;
  std::string kind;
  for (const std::string& line : lines_of(read_whole_file(kPage))) {
    if (!kind.empty() && line != "```") {
      block.push_back(line);
      continue;
    }
    if (!kind.empty()) {
      const Lines now = page.answered_now(kind, block);
      result.insert(result.end(), now.begin(), now.end());
      block.clear();
      kind.clear();
    } else if (line == "```console" || line == "```cpp") {
      kind = line;
    }
    result.push_back(line);
  }
  CHECK(page.num_code() == code_mistakes().size());
  CHECK(page.num_code() + page.num_commands() >= 50);
  if (page.accepts()) std::ofstream(kPage, std::ios::binary) << joined(result);
}

}  // namespace tessera::testing
