// The flight records of tessera-train as a user meets them.
#include <filesystem>

#include "io/json.h"
#include "placement/status.h"
#include "tests/support/paths.h"
#include "tests/tools/program.h"

namespace tessera::testing {
namespace {

/// Trains two ranks of the softmax parity model with this learning rate.
Ran train(const ScratchFolder& folder, const std::string& lr, const std::string& records) {
  std::string parity = test_data();
  parity += "/parity/softmax/";
  const Json expected =
      value_or_throw(parse_json(read_whole_file(parity + "expected.json"), "expected.json"));
  std::string text = expected.find("config")->to_string();
  const std::string before = "\"lr\":0.002,";
  text.replace(text.find(before), before.size(), "\"lr\":" + lr + ",");
  std::vector<std::string> arguments = {"--config",   folder.file("config.json", text),
                                        "--data",     parity + "tokens.safetensors",
                                        "--init",     parity + "init.safetensors",
                                        "--steps",    "2",
                                        "--ranks",    "2",
                                        "--parallel", R"({"dp_shard":2})"};
  if (!records.empty()) arguments.insert(arguments.end(), {"--recorder", records});
  std::filesystem::create_directory(folder / "temporary");
  return run_program("tessera-train", arguments, "",
                     {{"TESSERA_RECORDER_DIR", folder / "temporary"}});
}

}  // namespace

TEST_CASE("a training run leaves flight records where it failed or was asked to",
          "[tools][train][recorder]") {
  const ScratchFolder folder;
  SECTION("nothing of a clean run") {
    CHECK(train(folder, "0.002", "").exit_code == 0);
    CHECK(std::filesystem::is_empty(folder / "temporary"));
  }
  SECTION("a folder that was asked for") {
    const Ran ran = train(folder, "0.002", folder / "records");
    CHECK(ran.exit_code == 0);
    CHECK(ran.err.empty());
    CHECK(std::filesystem::is_empty(folder / "temporary"));
    CHECK(run_program("placement-audit", {"recorder", folder / "records"}).exit_code == 0);
  }
  SECTION("a run that failed says where they are") {
    const Ran ran = train(folder, "1e+30", "");
    CHECK(ran.exit_code == 3);
    const std::size_t line = ran.err.find("\nflight records: " + (folder / "temporary/"));
    REQUIRE(line != std::string::npos);
    const std::string path = ran.err.substr(line + 17, ran.err.size() - 1 - (line + 17));
    const Ran audit = run_program("placement-audit", {"recorder", path});
    CHECK(audit.exit_code == 1);
    CHECK_THAT(audit.out, Catch::Contains("must be finite; nothing was updated"));
  }
}

}  // namespace tessera::testing
