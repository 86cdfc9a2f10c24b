#include "io/safetensors.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "io/corpus.h"
#include "io/exit_code.h"
#include "io/json.h"
#include "tests/support/paths.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// A folder that goes with the test.
class Folder {
 public:
  Folder() {
    char pattern[] = "/tmp/tessera_io_XXXXXX";
    path_ = ::mkdtemp(pattern);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

 private:
  std::string path_;
};

void write_bytes(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string with_length(std::uint64_t length, std::string_view rest) {
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + std::string(rest);
}

std::string file_of(std::string_view header, std::size_t data_bytes) {
  return with_length(header.size(), std::string(header) + std::string(data_bytes, '\0'));
}

// The refusal of a file with these bytes, without its path.
std::string refusal(const Folder& folder, std::string_view bytes) {
  const std::string path = folder / "bad.safetensors";
  write_bytes(path, bytes);
  const StatusOr<SafetensorsFile> file = SafetensorsFile::open(path);
  if (file.ok()) return "accepted";
  CHECK(exit_code_for(file.status()) == ExitCode::kInvalidInput);
  const std::string text(message_of(file.status()));
  CHECK(text.starts_with(path));
  CHECK(text.find('\n') == std::string::npos);
  return text.substr(path.size());
}

constexpr std::string_view kOne = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";

TEST_CASE("hostile safetensors files are refused, each with its reason", "[io][safetensors]") {
  const Folder folder;
  REQUIRE(refusal(folder, file_of(kOne, 8)) == "accepted");
  struct Case {
    std::string bytes;
    std::string reason;
  };
  const auto entry = [](std::string_view dtype, std::string_view shape, std::string_view offsets) {
    return "{\"a\":{\"dtype\":" + std::string(dtype) + ",\"shape\":" + std::string(shape) +
           ",\"data_offsets\":" + std::string(offsets) + "}}";
  };
  const auto two = [](std::string_view first, std::string_view second) {
    return R"({"a":{"dtype":"F32","shape":[2],"data_offsets":)" + std::string(first) +
           R"(},"b":{"dtype":"F32","shape":[2],"data_offsets":)" + std::string(second) + "}}";
  };
  const std::vector<Case> cases = {
      {"", ": 0 bytes; a safetensors file has at least the 8 of its header's length"},
      {"1234567", ": 7 bytes; a safetensors file has at least the 8 of its header's length"},
      {with_length(100'000'001, "{}"),
       ": the first 8 bytes give a header of 100000001 bytes; at most 100000000 are read (is it "
       "safetensors?)"},
      {with_length(UINT64_MAX, "{}"),
       ": the first 8 bytes give a header of 18446744073709551615 bytes; at most 100000000 are "
       "read (is it safetensors?)"},
      {with_length(std::uint64_t{1} << 63, "{}"), "the first 8 bytes give a header of"},
      {with_length(50, "{}"), ": a header of 50 bytes in a file of 10: it is cut short"},
      {with_length(0, ""), ": the header must begin with '{'"},
      {file_of("[]", 0), ": the header must begin with '{'"},
      {file_of(" {}", 0), ": the header must begin with '{'"},
      {file_of("\xef\xbb\xbf{}", 0), ": the header must begin with '{'"},
      {file_of("{}\n", 0), ": the header must end with '}'"},
      {file_of("{}x", 0), ": the header must end with '}'"},
      {file_of("{}{}", 0), ":1:3: "},
      {file_of(std::string("{}\0", 3), 0), ": the header must end with '}'"},
      {file_of("{\"a\":\"\xff\"}", 0), ":1:"},
      {file_of("{\"a\":}", 0), ":1:6: "},
      {file_of("{}", 1),
       ": 1 bytes of data, of which the tensors cover 0; nothing may follow them"},
      {file_of(kOne, 9),
       ": 9 bytes of data, of which the tensors cover 8; nothing may follow them"},
      {file_of(kOne, 7),
       ": tensor \"a\" ends at byte 8 of the data, but the file has only 7: it is cut short"},
      {file_of(two("[0,8]", "[4,12]"), 12),
       ": tensor \"b\" begins at byte 4, but it overlaps what came before, which ends at byte 8"},
      {file_of(two("[0,8]", "[0,8]"), 8), "it overlaps what came before"},
      {file_of(two("[0,8]", "[12,20]"), 20),
       ": tensor \"b\" begins at byte 12, but that leaves a hole: the next must begin at byte 8"},
      {file_of(two("[4,12]", "[12,20]"), 20), "that leaves a hole: the next must begin at byte 0"},
      {file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
               R"("a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
               16),
       ": /: key \"a\" stands twice"},
      {file_of(R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8),
       ": /a: key \"dtype\" stands twice"},
      {file_of(entry("\"F33\"", "[2]", "[0,8]"), 8),
       ": /a/dtype: unknown dtype \"F33\"; allowed: F64 I64 U64 C64 F32 I32 U32 BF16 F16"},
      {file_of(entry("\"f32\"", "[2]", "[0,8]"), 8), "unknown dtype \"f32\""},
      {file_of(entry("7", "[2]", "[0,8]"), 8), ": /a/dtype: expected a string, not 7"},
      {file_of(entry("\"F32\"", "[3]", "[0,8]"), 8),
       ": /a/data_offsets: spans 8 bytes, but F32 of shape [3] has 12"},
      {file_of(entry("\"F32\"", "[-2]", "[0,8]"), 8), ": /a/shape: "},
      {file_of(entry("\"F32\"", "[2.0]", "[0,8]"), 8),
       ": /a/shape/0: expected an integer, not 2.0"},
      {file_of(entry("\"F32\"", "[18446744073709551618]", "[0,8]"), 8), ": /a/shape/0: integer"},
      {file_of(entry("\"F32\"", "[4294967296,4294967296]", "[0,0]"), 0), ": /a/shape: "},
      {file_of(entry("\"F64\"", "[2305843009213693952]", "[0,0]"), 0),
       ": /a/shape: 2305843009213693952 elements of F64 are more than 2^63 bits"},
      {file_of(entry("\"F32\"", "[" + std::string(200, '[') + std::string(200, ']') + "]", "[0,8]"),
               8),
       "nested deeper than 64 levels"},
      {file_of(entry("\"F32\"", "2", "[0,8]"), 8), ": /a/shape: expected an array, not 2"},
      {file_of(entry("\"F32\"", "[2]", "[0]"), 8),
       ": /a/data_offsets: expected [begin, end] with 0 <= begin <= end"},
      {file_of(entry("\"F32\"", "[2]", "[8,0]"), 8), "expected [begin, end]"},
      {file_of(entry("\"F32\"", "[2]", "[-8,0]"), 8), "expected [begin, end]"},
      {file_of(entry("\"F32\"", "[2]", "[0,8,16]"), 8), "expected [begin, end]"},
      {file_of(entry("\"F4\"", "[3]", "[0,1]"), 1),
       ": /a/shape: 3 elements of F4 (4 bits each) fill no whole bytes"},
      {file_of(R"({"a":{"dtype":"F32","shape":[2]}})", 8),
       ": /a: key \"data_offsets\" is missing; allowed: dtype, shape, data_offsets"},
      {file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", 8),
       ": /a: unknown key \"x\"; allowed: dtype, shape, data_offsets"},
      {file_of(R"({"a":[]})", 0), ": /a: expected an object, not an array"},
      {file_of(R"({"__metadata__":{"a":1}})", 0), ": /__metadata__/a: expected a string, not 1"},
      {file_of(R"({"__metadata__":[]})", 0), ": /__metadata__: expected an object"},
  };
  for (const Case& bad : cases) {
    const std::string text = refusal(folder, bad.bytes);
    INFO(bad.reason);
    CHECK_THAT(text, Catch::Contains(bad.reason));
    if (bad.reason.starts_with(':')) CHECK_THAT(text, Catch::StartsWith(bad.reason));
  }
}

TEST_CASE("what the format allows is accepted", "[io][safetensors]") {
  const Folder folder;
  for (const std::string& bytes :
       {file_of("{}", 0), file_of("{}      ", 0), file_of(R"({"__metadata__":{"format":"pt"}})", 0),
        file_of(R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},)"
                R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})",
                8),
        file_of(R"({"e":{"dtype":"F64","shape":[3,0],"data_offsets":[0,0]},)"
                R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                R"("z":{"dtype":"I64","shape":[0],"data_offsets":[4,4]}})",
                4),
        file_of(R"({"h":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}})", 4),
        file_of(R"({"h":{"dtype":"F4","shape":[2,3],"data_offsets":[0,3]}})", 3)}) {
    CHECK(refusal(folder, bytes) == "accepted");
  }
}

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

TEST_CASE("tensors of every dtype come back bit for bit", "[io][safetensors]") {
  const Folder folder;
  const std::vector<double> f64 = {0.1, -0.0, 1e-320};
  const std::vector<float> f32 = {1.5f, -2.0f, std::numeric_limits<float>::infinity(), 0, 0, 1};
  const std::vector<std::uint16_t> bf16 = {0x3F80, 0x7FC0};
  const std::vector<std::int64_t> i64 = {INT64_MIN, INT64_MAX};
  const std::vector<std::int32_t> i32 = {-1};
  const std::vector<std::uint8_t> flags = {0, 1, 1};
  const std::string path = folder / "all.safetensors";
  const std::vector<TensorBytes> tensors = {{"flags", DType::kBool, {3}, bytes_of(flags)},
                                            {"bf16", DType::kBF16, {2, 1}, bytes_of(bf16)},
                                            {"f64", DType::kF64, {3}, bytes_of(f64)},
                                            {"f32", DType::kF32, {2, 3}, bytes_of(f32)},
                                            {"i64", DType::kI64, {2}, bytes_of(i64)},
                                            {"i32", DType::kI32, {}, bytes_of(i32)},
                                            {"empty", DType::kF32, {4, 0}, {}}};
  REQUIRE(write_safetensors(path, tensors, {{"made_by", "a \"test\""}}).ok());
  CHECK(folder.entries() == 1);
  const auto file = SafetensorsFile::open(path);
  REQUIRE(file.ok());
  CHECK(file->tensors().size() == tensors.size());
  CHECK(file->metadata() == Metadata{{"made_by", "a \"test\""}});
  for (const TensorBytes& tensor : tensors) {
    CAPTURE(tensor.name);
    const TensorInfo* info = file->find(tensor.name);
    REQUIRE(info != nullptr);
    CHECK(info->dtype == tensor.dtype);
    CHECK(info->shape == tensor.shape);
    CHECK(info->begin % size_of(tensor.dtype) == 0);
    const auto bytes = file->read(tensor.name);
    REQUIRE(bytes.ok());
    CHECK(std::equal(bytes->begin(), bytes->end(), tensor.bytes.begin(), tensor.bytes.end()));
  }
  // Equal tensors in another order make an equal file.
  const std::string again = folder / "again.safetensors";
  const std::vector<TensorBytes> reversed(tensors.rbegin(), tensors.rend());
  REQUIRE(write_safetensors(again, reversed, {{"made_by", "a \"test\""}}).ok());
  CHECK(*read_file(path, 1 << 20) == *read_file(again, 1 << 20));
}

TEST_CASE("a part of a tensor is read without the rest", "[io][safetensors]") {
  const Folder folder;
  const std::vector<std::int32_t> values = {10, 11, 12, 13};
  const std::string path = folder / "part.safetensors";
  REQUIRE(
      write_safetensors(path, std::vector<TensorBytes>{{"x", DType::kI32, {4}, bytes_of(values)}})
          .ok());
  const auto file = SafetensorsFile::open(path);
  REQUIRE(file.ok());
  std::vector<std::int32_t> part(2);
  REQUIRE(file->read_range("x", 4, std::as_writable_bytes(std::span(part))).ok());
  CHECK(part == std::vector<std::int32_t>{11, 12});
  CHECK(file->read_range("x", 12, std::as_writable_bytes(std::span(part))).code() ==
        absl::StatusCode::kOutOfRange);
  CHECK_THAT(std::string(message_of(file->read("x", std::as_writable_bytes(std::span(part))))),
             Catch::EndsWith(": tensor \"x\" has 16 bytes, room was given for 8"));
  CHECK_THAT(std::string(message_of(file->read("y").status())),
             Catch::EndsWith(": no tensor \"y\"; it has \"x\""));
}

TEST_CASE("a dtype that the engine has not is listed, and refused where it is read",
          "[io][safetensors]") {
  const Folder folder;
  const std::string path = folder / "i16.safetensors";
  write_bytes(path, file_of(R"({"h":{"dtype":"I16","shape":[2],"data_offsets":[0,4]}})", 4));
  const auto file = SafetensorsFile::open(path);
  REQUIRE(file.ok());
  CHECK(file->tensors().at(0).dtype_name() == "I16");
  CHECK_FALSE(file->tensors().at(0).dtype.has_value());
  CHECK_THAT(
      std::string(message_of(file->read("h").status())),
      Catch::EndsWith(": tensor \"h\" has dtype I16, which cannot be read; readable: F64 F32 "
                      "BF16 F16 I64 I32 U8 BOOL"));
}

TEST_CASE("a BOOL byte other than 0 and 1 is refused", "[io][safetensors]") {
  const Folder folder;
  const std::string path = folder / "bool.safetensors";
  std::string bytes = file_of(R"({"m":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", 2);
  bytes.back() = 2;
  write_bytes(path, bytes);
  const auto file = SafetensorsFile::open(path);
  REQUIRE(file.ok());
  CHECK_THAT(std::string(message_of(file->read("m").status())),
             Catch::EndsWith(": tensor \"m\": a BOOL byte is 2; allowed: 0, 1"));
}

TEST_CASE("a file that is cut while it is open gives an error, no signal", "[io][safetensors]") {
  const Folder folder;
  const std::string path = folder / "cut.safetensors";
  write_bytes(path, file_of(kOne, 8));
  const auto file = SafetensorsFile::open(path);
  REQUIRE(file.ok());
  REQUIRE(::truncate(path.c_str(), 12) == 0);
  const auto bytes = file->read("a");
  REQUIRE_FALSE(bytes.ok());
  CHECK(exit_code_for(bytes.status()) == ExitCode::kInputOutput);
}

TEST_CASE("what cannot be a file is an input error that names it", "[io]") {
  const Folder folder;
  const auto text_of = [](const Status& status) { return std::string(message_of(status)); };
  const auto missing = SafetensorsFile::open(folder / "no.safetensors");
  CHECK(text_of(missing.status()) ==
        folder / "no.safetensors" + ": cannot open: No such file or directory");
  CHECK(exit_code_for(missing.status()) == ExitCode::kInputOutput);
  CHECK(text_of(SafetensorsFile::open(folder.path()).status()) ==
        folder.path() + ": a folder, not a file");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(text_of(SafetensorsFile::open(folder / "pipe").status()) ==
        folder / "pipe" + ": not a regular file");
}

TEST_CASE("a failed write leaves the old file and nothing else", "[io][safetensors]") {
  const Folder folder;
  const std::string path = folder / "kept.safetensors";
  write_bytes(path, "old");
  const std::vector<float> values = {1, 2};
  const TensorBytes good = {"a", DType::kF32, {2}, bytes_of(values)};
  const TensorBytes short_of_bytes = {"b", DType::kF32, {3}, bytes_of(values)};
  const TensorBytes reserved = {"__metadata__", DType::kF32, {2}, bytes_of(values)};
  for (const auto& tensors :
       std::vector<std::vector<TensorBytes>>{{good, good}, {good, short_of_bytes}, {reserved}}) {
    CHECK(write_safetensors(path, tensors).code() == absl::StatusCode::kInvalidArgument);
  }
  {
    auto unfinished = AtomicFile::create(path);
    REQUIRE(unfinished.ok());
    REQUIRE(unfinished->append(bytes_of(values)).ok());
    CHECK(folder.entries() == 2);
  }
  CHECK(*read_file(path, 100) == "old");
  CHECK(folder.entries() == 1);
  CHECK(exit_code_for(write_file(folder / "no/such/folder", "x")) == ExitCode::kInputOutput);
  CHECK(exit_code_for(write_file("/dev/null", "x")) == ExitCode::kInputOutput);
  CHECK(exit_code_for(write_file(folder.path(), "x")) == ExitCode::kInputOutput);
}

TEST_CASE("a link planted where the unfinished file goes is not followed", "[io]") {
  const Folder folder;
  write_bytes(folder / "victim", "untouched");
  const std::string planted = folder / (".out." + std::to_string(::getpid()) + ".0.tmp");
  fs::create_symlink(folder / "victim", planted);
  REQUIRE(write_file(folder / "out", "new").ok());
  CHECK(*read_file(folder / "victim", 100) == "untouched");
  CHECK(*read_file(folder / "out", 100) == "new");
}

TEST_CASE("the parity files hold what their description says", "[io][safetensors]") {
  const std::string folder = testing::test_data() + "/parity/";
  for (const std::string name : {"softmax", "grouped"}) {
    CAPTURE(name);
    const std::string text = *read_file(folder + name + "/expected.json", 1 << 20);
    const auto expected = JsonDocument::parse(text, name);
    REQUIRE(expected.ok());
    const JsonView config = *expected->root().at("config");
    const auto setting = [&](std::string_view key) { return *config.at(key)->integer(); };

    const auto tokens = SafetensorsFile::open(folder + name + "/tokens.safetensors");
    REQUIRE(tokens.ok());
    const TensorInfo* ids = tokens->find("tokens");
    REQUIRE(ids != nullptr);
    CHECK(ids->dtype == DType::kI32);
    CHECK(ids->shape ==
          Shape{setting("steps"), setting("accum"), setting("batch"), setting("seq") + 1});
    const std::vector<std::byte> bytes = *tokens->read("tokens");
    std::vector<std::int32_t> values(bytes.size() / 4);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    CHECK(*std::min_element(values.begin(), values.end()) >= 0);
    CHECK(*std::max_element(values.begin(), values.end()) < setting("vocab"));

    const auto init = SafetensorsFile::open(folder + name + "/init.safetensors");
    REQUIRE(init.ok());
    const auto norms = expected->root().at("final_param_l2")->members();
    REQUIRE(norms.ok());
    CHECK(init->tensors().size() == norms->size());
    for (const auto& [parameter, norm] : *norms) CHECK(init->find(parameter) != nullptr);
  }
}

TEST_CASE("a flipped header byte is noticed or leaves the file well formed", "[io][safetensors]") {
  const Folder folder;
  const std::string whole = file_of(R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                                    R"("b":{"dtype":"I64","shape":[1],"data_offsets":[24,32]}})",
                                    32);
  const std::string path = folder / "flip.safetensors";
  int refused = 0;
  const std::size_t bits = (whole.size() - 32) * 8;
  for (std::size_t bit = 0; bit < bits; ++bit) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    write_bytes(path, bytes);
    const auto file = SafetensorsFile::open(path);
    if (!file.ok()) {
      ++refused;
      continue;
    }
    // What may change in silence is a name, or a shape or dtype of as many bytes.
    REQUIRE(file->tensors().size() == 2);
    REQUIRE(file->tensors()[1].end == 32);
  }
  CHECK(refused > static_cast<int>(bits) * 9 / 10);
}

TEST_CASE("a corpus is the bytes of its files, one after the other", "[io]") {
  const Folder folder;
  write_bytes(folder / "a", "one\n");
  write_bytes(folder / "b", std::string("t\0w\xff", 4));
  write_bytes(folder / "empty", "");
  const std::string a = folder / "a", b = folder / "b";
  CHECK(*read_corpus(std::vector{a, b}) == std::string("one\nt\0w\xff", 8));
  CHECK(message_of(read_corpus(std::vector<std::string>{}).status()) ==
        "a corpus of no files; name at least one");
  CHECK(message_of(read_corpus(std::vector{a, folder / "empty"}).status()) ==
        folder / "empty" + ": an empty file");
  CHECK(message_of(read_corpus(std::vector{a, b}, 7).status()) ==
        b + ": 4 bytes; at most 3 are read");
  CHECK(exit_code_for(read_corpus(std::vector{folder / "no"}).status()) == ExitCode::kInputOutput);
  CHECK(exit_code_for(read_corpus(std::vector{folder.path()}).status()) == ExitCode::kInputOutput);
}

}  // namespace
}  // namespace tessera
