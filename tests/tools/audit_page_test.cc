// The page of a program: what it is made of, and that a reader can use it, in a browser without a
// window (Chromium; skipped where there is none). tests/data/page/checks.js clicks and types.
#include <filesystem>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "io/json.h"
#include "tests/tools/program.h"

namespace tessera {
namespace {

using testing::Ran;
using testing::run_program;
using testing::ScratchFolder;

std::string recorded_program(const char* name) {
  return testing::test_data(absl::StrFormat("/programs/torch_%s.json", name));
}

std::string page_of(const std::vector<std::string>& arguments) {
  std::vector<std::string> all = arguments;
  all.insert(all.end(), {"--format", "html"});
  const Ran ran = run_program("placement-audit", all, "");
  CHECK(ran.err.empty());
  return ran.out;
}

/// The browser; empty where there is none, which is said.
std::string browser() {
  for (const char* const path : {"/usr/bin/chromium", "/usr/bin/chromium-browser"}) {
    if (std::filesystem::exists(path)) return path;
  }
  WARN("skipped: no chromium in /usr/bin");
  return "";
}

std::string in_script_text(const std::string& text) {
  return absl::StrReplaceAll(Json(text).to_string(), {{"<", "\\u003c"}});
}

/// What checks.js says of a page.
std::string checked(const std::string& browser, std::string page, const std::string& settings,
                    bool dark) {
  const std::string collect =
      "<head><script>window.failures=[];addEventListener('error',(e)=>failures.push(e.message));"
      "addEventListener('unhandledrejection',(e)=>failures.push(String(e.reason)));"
      "for(const kind of ['error','warn'])console[kind]=(...all)=>failures.push(all.join(' '));"
      "</script>";
  page.replace(page.find("<head>"), 6, collect);
  const ScratchFolder scratch;
  const std::string file = scratch.file(
      "checks.html",
      "<!DOCTYPE html><html><head><meta charset=\"utf-8\"></head><body><script>const page=" +
          in_script_text(page) + ";const settings=" + settings + ";</script><script>" +
          testing::read_whole_file(testing::test_data("/page/checks.js")) +
          "</script></body></html>");
  std::vector<std::string> arguments = {"--headless",
                                        "--no-sandbox",
                                        "--disable-gpu",
                                        "--window-size=1300,1000",
                                        "--virtual-time-budget=20000",
                                        "--user-data-dir=" + (scratch / "profile"),
                                        "--dump-dom",
                                        "file://" + file};
  if (dark) arguments.insert(arguments.begin(), "--blink-settings=preferredColorScheme=0");
  const std::string out = run_program(browser, arguments, "").out;
  const std::size_t begin = out.find("<body>"), end = out.find("</body>");
  return begin == std::string::npos || end == std::string::npos
             ? "no page: " + out
             : out.substr(begin + 6, end - begin - 6);
}

// As a check of a program would hand them over.
const std::string kFindings =
    R"("findings":[{"rule":"implicit-move","id":"00000000000000aa","severity":"fail",)"
    R"("module":"layers.*.attention","count":2,"site":"llama.py:33","value":"mm","measure":"1 KiB",)"
    R"("cause":"a \u003c b","fix":"cut it","saved_bytes":12},)"
    R"({"rule":"host-read","id":"00000000000000ab","severity":"note","module":"","count":1,)"
    R"("site":"","value":"","measure":"","cause":"read","fix":"","saved_bytes":null}])";

TEST_CASE("a page is one file of equal bytes that closes no tag by its data", "[tools][page]") {
  const std::string program =
      R"j({"version":1,"name":"</script><!-- <b>x</b>","source":{"kind":"program"},"ranks":1,)j"
      R"j("meshes":{},"values":[{"name":"</SCRIPT >","shape":[2],"dtype":"F32","mesh":null,)j"
      R"j("placements":null,"role":"input"}],"steps":[]})j";
  for (const char* const command : {"show", "memory"}) {
    const Ran ran = run_program("placement-audit", {command, "-", "--format", "html"}, program);
    CHECK(ran.exit_code == 0);
    CHECK(testing::count_of(ran.out, "</script>") == 2);
    CHECK(testing::count_of(ran.out, "<!--") == 0);
    CHECK(testing::count_of(ran.out, "<b>") == 0);
    CHECK(testing::count_of(ran.out, "http") == testing::count_of(ran.out, "http://www.w3.org/"));
    CHECK(run_program("placement-audit", {command, "-", "--format", "html"}, program).out ==
          ran.out);
  }
  const Ran over =
      run_program("placement-audit",
                  {"memory", recorded_program("llama"), "--format", "html", "--cap", "1MiB"}, "");
  CHECK(over.exit_code == 1);
  CHECK(over.out.find("\"cap\":1048576") != std::string::npos);
}

TEST_CASE("a reader can use the page, in light and dark, wide and narrow", "[tools][page]") {
  const std::string chromium = browser();
  if (chromium.empty()) return;
  std::string page = page_of({"show", recorded_program("llama")});
  page.replace(page.find("\"findings\":null"), 15, kFindings);
  const std::string settings =
      R"({"steps":741,"word":"feed_forward","value":"tok_embeddings.weight","cells":8,"findings":2})";
  const std::string light = checked(chromium, page, settings, /*dark=*/false);
  INFO(light);
  CHECK(light.find("FAIL") == std::string::npos);
  CHECK(light.ends_with(" checks in light"));
  const std::string dark = checked(chromium, page, settings, /*dark=*/true);
  INFO(dark);
  CHECK(dark.find("FAIL") == std::string::npos);
  CHECK(dark.ends_with(" checks in dark"));
}

TEST_CASE("the page of a check has its findings", "[tools][page]") {
  const std::string chromium = browser();
  const std::string file = recorded_program("implicit_gather");
  const std::vector<std::string> check = {"check", file, "--format"};
  const auto in = [&](const char* format) {
    std::vector<std::string> arguments = check;
    arguments.emplace_back(format);
    return run_program("placement-audit", arguments, "");
  };
  const Ran page = in("html"), json = in("json");
  CHECK(page.exit_code == json.exit_code);
  const Json answer = value_or_throw(parse_json(json.out, "check"));
  const std::size_t findings = answer.find("findings")->if_array()->size();
  REQUIRE(findings > 0);
  if (chromium.empty()) return;
  const std::string said = checked(
      chromium, page.out,
      absl::StrFormat(R"({"steps":45,"word":"silu","value":"down.weight","cells":4,"findings":%d})",
                      findings),
      false);
  INFO(said);
  CHECK(said.ends_with(" checks in light"));
  CHECK(said.find("FAIL") == std::string::npos);
}

TEST_CASE("a page of 20,000 steps and one of 16,384 ranks are as usable", "[tools][page]") {
  const std::string chromium = browser();
  if (chromium.empty()) return;
  const ScratchFolder scratch;
  const auto made = [&](const std::vector<std::string>& how) {
    std::vector<std::string> arguments = {testing::test_data("/page/make_program.py")};
    arguments.insert(arguments.end(), how.begin(), how.end());
    return scratch.file("program.json", run_program("/usr/bin/python3", arguments, "").out);
  };
  const std::string large =
      checked(chromium, page_of({"memory", made({"870"}), "--cap", "100TiB"}),
              R"({"steps":20011,"word":"layers.17.mlp","value":"layers.3.mlp.up.w","cells":64,)"
              R"("findings":0})",
              false);
  INFO(large);
  CHECK(large.ends_with(" checks in light"));
  CHECK(large.find("FAIL") == std::string::npos);
  // A matrix that is cut over 2,048 x 8 ranks has 16,384 parts, of which 1,024 are drawn.
  const std::string wide = checked(
      chromium, page_of({"memory", made({"61", "folded", "16384"})}),
      R"({"steps":1404,"word":"attn","value":"layers.3.mlp.up.w","cells":1024,"findings":0})",
      false);
  INFO(wide);
  CHECK(wide.ends_with(" checks in light"));
  CHECK(wide.find("FAIL") == std::string::npos);
}

TEST_CASE("the picture of a plan between 16 ranks is not cut off at 1,200 pixels",
          "[tools][page]") {
  const std::string chromium = browser();
  if (chromium.empty()) return;
  const auto placed = [](const char* shape) {
    return absl::StrFormat(
        R"j({"mesh":{"shape":[16],"axes":["dp"]},"tensor":{"shape":%s},"src":["S(0)"],"dst":["S(1)"]})j",
        shape);
  };
  for (const char* const shape : {"[64,64]", "[64,8]", "[64,1]", "[8,64]", "[100,7]"}) {
    CAPTURE(shape);
    std::string page =
        run_program("placement-audit", {"plan", "--format", "html", "--per-rank"}, placed(shape))
            .out;
    page.replace(page.find("</body>"), 7,
                 "<script>const box=document.querySelector('.scroll');const text=document.title;"
                 "document.body.textContent=[box.scrollWidth<=box.clientWidth,"
                 "document.documentElement.scrollWidth<=document.documentElement.clientWidth]"
                 ".join()</script></body>");
    const ScratchFolder scratch;
    const Ran ran =
        run_program(chromium,
                    {"--headless", "--no-sandbox", "--disable-gpu", "--window-size=1200,900",
                     "--user-data-dir=" + (scratch / "profile"), "--dump-dom",
                     "file://" + scratch.file("plan.html", page)},
                    "");
    CHECK(ran.out.find("<body>true,true") != std::string::npos);
  }
}

}  // namespace
}  // namespace tessera
