#include "io/json.h"

#include <random>

#include "absl/strings/str_format.h"

namespace tessera {
namespace {

Json parsed(std::string_view text) {
  const StatusOr<Json> json = parse_json(text, "in.json");
  INFO(text << ": " << json.status());
  REQUIRE(json.ok());
  return *json;
}

JsonDocument document_of(std::string_view text) {
  return value_or_throw(JsonDocument::parse(text, "in.json"));
}

std::string refusal(std::string_view text, const JsonLimits& limits = {}) {
  const StatusOr<Json> json = parse_json(text, "in.json", limits);
  INFO(text);
  REQUIRE_FALSE(json.ok());
  CHECK(json.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(message_of(json.status()));
}

std::string nested(int depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST_CASE("JSON integers are exact or refused", "[io][json]") {
  CHECK(*parsed("9223372036854775807").if_integer() == INT64_MAX);
  CHECK(*parsed("-9223372036854775808").if_integer() == INT64_MIN);
  CHECK(*parsed("4294967296").if_integer() == 4294967296);
  CHECK(refusal("[1, 9223372036854775808]") ==
        "in.json: /1: integer 9223372036854775808 does not fit; integers are -2^63 to 2^63 - 1");
  CHECK(refusal("{\"n\":18446744073709551616}") ==
        "in.json: /n: integer 18446744073709551616 does not fit; integers are -2^63 to 2^63 - 1");
  CHECK(refusal("-9223372036854775809").find("does not fit") != std::string::npos);
}

TEST_CASE("a number with a fraction is no integer, however whole", "[io][json]") {
  const JsonDocument document = document_of("[3.0, 1e3, 3]");
  const auto items = document.root().items();
  REQUIRE(items.ok());
  CHECK(message_of((*items)[0].integer().status()) == "in.json: /0: expected an integer, not 3.0");
  CHECK_FALSE((*items)[1].integer().ok());
  CHECK(*(*items)[1].number() == 1000.0);
  CHECK(*(*items)[2].number() == 3.0);
  CHECK_FALSE(document_of("9007199254740993").root().number().ok());
}

TEST_CASE("what is no JSON is refused with line and column", "[io][json]") {
  CHECK(refusal("{\"a\": NaN}").starts_with("in.json:1:7: "));
  CHECK(refusal("{\n  \"a\": 1,\n}").starts_with("in.json:3:1: "));
  CHECK(refusal("").starts_with("in.json:1:1: "));
  for (const char* text : {"Infinity",
                           "-Infinity",
                           "nan",
                           "[1,]",
                           "{\"a\":1,}",
                           "01",
                           "+1",
                           "1.",
                           ".5",
                           "1e",
                           "1e999",
                           "'a'",
                           "{a:1}",
                           "[1 2]",
                           "[1]x",
                           "[1][2]",
                           "// x\n1",
                           "/* x */ 1",
                           "\"\x01\"",
                           "\"\\x41\"",
                           "\"\xff\"",
                           "\"\xc0\x80\"",
                           "\"\xed\xa0\x80\"",
                           "\"\\ud800\"",
                           "tru",
                           "[",
                           "{\"a\"",
                           "{1:2}"}) {
    CHECK(refusal(text).starts_with("in.json"));
  }
}

TEST_CASE("a key that stands twice is refused at its object", "[io][json]") {
  CHECK(refusal(R"({"a":{"b":1,"c":2,"b":3}})") ==
        "in.json: /a: key \"b\" stands twice; an object names each key once");
  CHECK(refusal(R"({"a":1,"\u0061":1})") ==
        "in.json: /: key \"a\" stands twice; an object names each key once");
  CHECK(parsed(R"({"a":{"a":1},"b":{"a":2}})").find("b")->find("a")->if_integer() != nullptr);
}

TEST_CASE("JSON is read 64 levels deep and no deeper", "[io][json]") {
  CHECK(parsed(nested(64)).if_array() != nullptr);
  CHECK(refusal(nested(65)).find("nested deeper than 64 levels") != std::string::npos);
  CHECK(refusal(std::string(1'000'000, '[')).find("nested deeper") != std::string::npos);
  std::string objects;
  for (int i = 0; i < 1'000'000; ++i) objects += "{\"a\":";
  CHECK(refusal(objects).find("nested deeper") != std::string::npos);
}

TEST_CASE("a text beyond the limit is refused before it is read", "[io][json]") {
  CHECK(refusal("[1,2,3]", {.bytes = 6}) == "in.json: 7 bytes of JSON; at most 6 are read");
}

TEST_CASE("a list longer than its reader takes is refused with both numbers", "[io][json]") {
  std::string ones = R"({"shape":[1)";
  for (int i = 1; i < 70'000; ++i) ones += ",1";
  ones += "]}";
  const JsonDocument document = document_of(ones);
  const JsonView shape = *document.root().at("shape");
  CHECK(message_of(shape.integers(kJsonDims).status()) ==
        "in.json: /shape: holds 70000 dims; at most 64 are allowed");
  CHECK(message_of(shape.items().status()) ==
        "in.json: /shape: holds 70000 items; at most 65536 are allowed");
  CHECK(shape.items({.most = 70'000, .what = "sizes"})->size() == 70'000);
  CHECK(*shape.size() == 70'000);
  std::int64_t walked = 0;
  CHECK(shape
            .for_each_item([&](const JsonView& item) {
              walked += *item.integer();
              return absl::OkStatus();
            })
            .ok());
  CHECK(walked == 70'000);
}

TEST_CASE("a path is found among lists and members before it", "[io][json]") {
  const JsonDocument document =
      document_of(R"({"a":[[],{},[1,[2]]],"\u0062":{"c":{"d":[{"e":{}},{"e":[0,[7]]}]}}})");
  const JsonView seven =
      document.root().at("b")->at("c")->at("d")->items()->at(1).at("e")->items()->at(1).items()->at(
          0);
  CHECK(*seven.integer() == 7);
  CHECK(seven.path() == "/b/c/d/1/e/1/0");
  CHECK(document.root().at("a")->items()->at(2).items()->at(1).path() == "/a/2/1");
  CHECK(document.root().path().empty());
}

TEST_CASE("keys are told apart by what they say, however many there are", "[io][json]") {
  std::string object = "{";
  for (int i = 0; i < 1000; ++i) object += absl::StrFormat("\"k%d\":%d,", i, i);
  const std::string last = object + R"("end":1})";
  CHECK(*document_of(last).root().at("k999")->integer() == 999);
  CHECK(refusal(object + R"("k\u0030":1})") ==
        "in.json: /: key \"k0\" stands twice; an object names each key once");
}

TEST_CASE("strings and numbers are what they say", "[io][json]") {
  CHECK(*parsed(R"("\b\f\n\r\t\/\"\\\u00e9\u20ac\ud83d\ude00\u0000x")").if_string() ==
        std::string("\b\f\n\r\t/\"\\\u00e9\u20ac\U0001f600\0x", 19));
  CHECK(*parsed("-0").if_integer() == 0);
  CHECK(*parsed("1e-999").if_number() == 0.0);
  CHECK(*parsed("-12.5E+1").if_number() == -125.0);
  CHECK(refusal("[1e999]") == "in.json: /0: number 1e999 is beyond the largest double");
  CHECK(*parsed("\xef\xbb\xbf 3 ").if_integer() == 3);
}

TEST_CASE("unknown and missing keys are errors that name the allowed", "[io][json]") {
  const JsonDocument document = document_of(R"({"mesh":{"shape":[2],"axis":["tp"]}})");
  const JsonView root = document.root();
  CHECK(message_of(root.at("mesh")->check_keys({"shape"}, {"axes"})) ==
        "in.json: /mesh: unknown key \"axis\"; allowed: shape, axes");
  CHECK(message_of(root.check_keys({"mesh", "tensor"})) ==
        "in.json: /: key \"tensor\" is missing; allowed: mesh, tensor");
  CHECK(root.check_keys({"mesh"}).ok());
  CHECK(message_of(root.at("mesh")->at("shape")->check_keys({})) ==
        "in.json: /mesh/shape: expected an object, not an array");
}

TEST_CASE("errors say the path, what was seen and what is allowed", "[io][json]") {
  const JsonDocument document =
      document_of(R"({"args":[{"shape":[8,"6",true]}],"k":-1,"a/b~c":{"x":null}})");
  const JsonView root = document.root();
  const auto shape = root.at("args")->items()->at(0).at("shape");
  REQUIRE(shape.ok());
  CHECK(message_of(shape->integers().status()) ==
        "in.json: /args/0/shape/1: expected an integer, not the string \"6\"");
  CHECK(message_of(root.at("k")->integer_in(1, 64).status()) ==
        "in.json: /k: expected an integer from 1 to 64, not -1");
  CHECK(message_of(root.at("k")->integer_in(0, INT64_MAX).status()) ==
        "in.json: /k: expected an integer of at least 0, not -1");
  CHECK(message_of(root.at("a/b~c")->at("x")->text().status()) ==
        "in.json: /a~1b~0c/x: expected a string, not null");
  CHECK(message_of(root.at("nope").status()) == "in.json: /: key \"nope\" is missing");
}

TEST_CASE("names from a file cannot drive a terminal or break a line", "[io][json]") {
  CHECK(in_quotes("a\x1b[31m\n\xe2\x80\xae"
                  "b\"\\") == "\"a\\u001b[31m\\n\\u202eb\\\"\\\\\"");
  CHECK(in_quotes("\xff\xc3") == "\"\\xff\\xc3\"");
  CHECK(in_quotes("\xf0\x9f\x98\x80") == "\"\\ud83d\\ude00\"");
  CHECK(in_quotes(std::string(100, 'x')) == '"' + std::string(80, 'x') + "…\"");
}

TEST_CASE("JSON is written as it reads back", "[io][json]") {
  for (const char* text :
       {"null", "true", "-0.5", "[]", "{}", R"({"b":[1,2.5,"x"],"a":{"c":null}})", "1e+300", "3.0",
        R"("\u001b\n\"\\\u00e9\ud83d\ude00")", "[[[1]]]", "0.1"}) {
    CHECK(parsed(text).to_string() == text);
  }
  CHECK(Json(std::numeric_limits<double>::quiet_NaN()).to_string() == "null");
  CHECK(Json(std::string("\xff")).to_string() == "\"\\ufffd\"");
}

TEST_CASE("doubles survive writing and reading bit for bit", "[io][json]") {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    const double value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    const Json back = parsed(Json(value).to_string());
    REQUIRE(back.if_number() != nullptr);
    REQUIRE(std::bit_cast<std::uint64_t>(*back.if_number()) == std::bit_cast<std::uint64_t>(value));
  }
}

TEST_CASE("mutated JSON never does worse than an error", "[io][json]") {
  const std::string seed =
      R"({"mesh":{"shape":[2,2],"axes":["dp","tp"]},"x":[1,-2.5e3,"a\u00e9\n",null,true,{"k":[[]]}]})";
  std::mt19937 random(11);
  const std::string alphabet = "{}[]\",:0123456789eE+-.ntf\\u\xff\xc3\x01 ";
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = seed;
    for (int edits = 1 + random() % 4; edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = alphabet[random() % alphabet.size()];
          break;
        case 1:
          text.erase(at, 1 + random() % 5);
          break;
        default:
          text.insert(at, 1, alphabet[random() % alphabet.size()]);
      }
      if (text.empty()) text = " ";
    }
    const StatusOr<Json> json = parse_json(text, "in.json");
    if (json.ok()) {
      ++accepted;
      REQUIRE(*parse_json(json->to_string(), "again") == *json);
    } else {
      REQUIRE(message_of(json.status()).starts_with("in.json:"));
    }
  }
  CHECK(accepted > 100);  // the edits are small enough that both ways are walked
}

}  // namespace
}  // namespace tessera
