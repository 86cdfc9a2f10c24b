// Folders that are not what was saved: flipped bits, files missing or too many, holes, overlaps,
// mixed generations, links. Every one is noticed, with the tensors as they were.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>

#include "checkpoint/chunk_hash.h"
#include "checkpoint/stored_tensors.h"
#include "io/safetensors.h"
#include "tests/checkpoint/fault_fs.h"
#include "tests/checkpoint/state.h"
#include "tests/checkpoint/watched_folder.h"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;

const Placed kOne = {{}, {}};
const Placed kTwo = {{2}, {"S(0)"}};
const Placed kThree = {{3}, {"S(0)"}};

std::string flipped(std::string bytes, std::size_t bit) {
  bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
  return bytes;
}

/// The text of a failed load that left the tensors alone; "loaded" or "changed" else.
std::string refusal(FaultFs& files, const Placed& placed = kTwo) {
  std::string error;
  const int version = loaded_version(files, placed, &error);
  if (version == -1) return error;
  return version >= 0 ? "loaded" : "changed";
}

/// Loads with the manifest changed, its hash made right again.
std::string refusal_of_manifest(FaultFs& files, const std::function<void(Manifest&)>& change) {
  const std::string text = files.file("manifest.json");
  Manifest manifest = value_or_throw(parse_manifest(text, "manifest"));
  change(manifest);
  files.put_file("manifest.json", to_text(manifest));
  const std::string error = refusal(files);
  files.put_file("manifest.json", text);
  return error;
}

ManifestTensor& tensor_of(Manifest& manifest, std::string_view name) {
  for (ManifestTensor& tensor : manifest.tensors) {
    if (tensor.name == name) return tensor;
  }
  throw Error(not_found(name));
}

/// A document with the hash that it should have; `text` ends before it.
std::string hashed(const std::string& text) {
  return text + ",\"xxh3\":\"" + hash_to_text(hash_of(text)) + "\"}\n";
}

class DiskScratch {
 public:
  DiskScratch() {
    char pattern[] = "/tmp/tessera_ckpt_XXXXXX";
    path_ = ::mkdtemp(pattern);
  }
  DiskScratch(const DiskScratch&) = delete;
  DiskScratch& operator=(const DiskScratch&) = delete;
  ~DiskScratch() { fs::remove_all(path_); }
  std::unique_ptr<FileSystem> open() const {
    return value_or_throw(open_folder(path_ + "/ckpt", MissingFolder::kMake));
  }
  std::string operator/(const std::string& name) const { return path_ + "/ckpt/" + name; }

 private:
  std::string path_;
};

}  // namespace

TEST_CASE("every flipped bit of a manifest or a header is noticed, and of data wherever tried",
          "[checkpoint][hostile][R28]") {
  FaultFs files;
  REQUIRE(save_version(files, kTwo, 0).ok());
  std::size_t num_bits = 0;
  for (const auto& [name, bytes] : files.files()) {
    std::uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
    const bool is_shard = name != "manifest.json";
    const std::size_t all_below =
        8 * (is_shard ? sizeof header_bytes + header_bytes : bytes.size());
    REQUIRE(all_below <= 8 * bytes.size());
    for (std::size_t bit = 0; bit < 8 * bytes.size(); bit += bit < all_below ? 1 : 11) {
      ++num_bits;
      files.put_file(name, flipped(bytes, bit));
      const auto problems = verify_checkpoint(files);
      CAPTURE(name, bit);
      if (problems.ok() && problems->empty()) FAIL("not noticed by verify_checkpoint()");
      if (problems.ok() != is_shard) FAIL("the file is not the one at fault");
      if (bit % 97 != 0) continue;
      const std::string error = refusal(files, kOne);
      CAPTURE(error);
      if (error == "loaded" || error == "changed") FAIL("not noticed by load_checkpoint()");
    }
    files.put_file(name, bytes);
  }
  CHECK(num_bits > 15'000);
  CHECK(value_or_throw(verify_checkpoint(files)).empty());
  CHECK(refusal(files, kOne) == "loaded");
}

TEST_CASE("parts cover every tensor exactly once, or the load says which range they do not",
          "[checkpoint][hostile][R27]") {
  FaultFs files;
  REQUIRE(save_version(files, kTwo, 0).ok());
  const auto changed = [&](const std::string& name, const auto& change) {
    return refusal_of_manifest(files, [&](Manifest& m) { change(tensor_of(m, name)); });
  };
  using Tensor = ManifestTensor&;
  using Parts = std::vector<ManifestPart>&;
  const auto with_parts = [&](const std::string& name, const auto& change) {
    return changed(name, [&](Tensor t) {
      std::vector<ManifestPart> parts(t.parts.begin(), t.parts.end());
      change(parts);
      t.parts = PartList(view_of(t.shape));
      for (const ManifestPart& part : parts) t.parts.push_back(part);
    });
  };
  CHECK_THAT(with_parts("a.weight", [](Parts parts) { parts.pop_back(); }),
             Catch::Contains("tensor \"a.weight\": [4:8, 0:6] is covered by nothing"));
  CHECK_THAT(with_parts("a.weight", [](Parts parts) { parts.erase(parts.begin()); }),
             Catch::Contains("tensor \"a.weight\": [0:4, 0:6] is covered by nothing"));
  CHECK_THAT(with_parts("a.weight", [](Parts parts) { parts.clear(); }),
             Catch::Contains("tensor \"a.weight\": [0:8, 0:6] is covered by nothing"));
  CHECK_THAT(with_parts("a.weight", [](Parts parts) { parts[1].region.offset[0] = 3; }),
             Catch::Contains("tensor \"a.weight\": [3:4, 0:6] is covered twice"));
  CHECK_THAT(with_parts("a.weight", [](Parts parts) { parts.push_back(parts[0]); }),
             Catch::Contains("tensor \"a.weight\": [0:4, 0:6] is covered twice"));
  CHECK_THAT(with_parts("a.weight", [](Parts parts) { parts[1].region.size[1] = 5; }),
             Catch::Contains("tensor \"a.weight\": [4:8, 5:6] is covered by nothing"));
  CHECK_THAT(changed("a.weight",
                     [](Tensor t) {
                       t.shape = {9, 6};
                     }),
             Catch::Contains("tensor \"a.weight\": [8:9, 0:6] is covered by nothing"));
  CHECK_THAT(changed("a.weight",
                     [](Tensor t) {
                       t.shape = {8, 3};
                     }),
             Catch::Contains("is empty or lies outside of its tensor of shape [8, 3]"));
  CHECK_THAT(with_parts("e.scalar", [](Parts parts) { parts.push_back(parts[0]); }),
             Catch::Contains("holds 2 parts; a tensor of 1 elements has at most as many"));
  CHECK_THAT(changed("c", [](Tensor t) { t.dtype = DType::kF16; }),
             Catch::Contains("tensor \"c\" is F16[7]; BF16[7] is needed"));
  // What the manifest says of a part must be what the file says of it.
  CHECK_THAT(with_parts("a.weight", [](Parts parts) { std::swap(parts[0].file, parts[1].file); }),
             Catch::Contains("[4:8, 0:6] of tensor \"a.weight\" is missing; the manifest says"));
  CHECK_THAT(refusal_of_manifest(files, [](Manifest& m) { m.tensors.erase(m.tensors.begin()); }),
             Catch::Contains("tensor \"a.weight\" is missing; F32[8, 6] is needed"));
  CHECK_THAT(refusal_of_manifest(files,
                                 [](Manifest& m) {
                                   m.tensors.push_back({"h", DType::kF32, {0}, {}});
                                 }),
             Catch::Contains("tensor \"h\" is nothing that is asked for"));
  CHECK(refusal(files) == "loaded");
}

TEST_CASE("missing, strange, exchanged and older files are refused", "[checkpoint][hostile][R27]") {
  FaultFs files;
  REQUIRE(save_version(files, kTwo, 0).ok());
  const std::string zero = "gen-1/shard-0.safetensors", one = "gen-1/shard-1.safetensors";
  const std::string first = files.file(zero), second = files.file(one);
  const auto with = [&](const std::string& name, const std::string& bytes) {
    const std::string before = files.file(name);
    files.put_file(name, bytes);
    const std::string error = refusal(files);
    files.put_file(name, before);
    return error;
  };
  files.remove_file(one);
  CHECK_THAT(refusal(files), Catch::Contains("gen-1/shard-1.safetensors: is missing; it holds ["));
  CHECK(value_or_throw(verify_checkpoint(files)).size() == 2);
  files.put_file(one, second);
  files.put_file("gen-1/shard-2.safetensors", second);
  CHECK_THAT(refusal(files), Catch::Contains("\"shard-2.safetensors\": is not in the manifest"));
  files.remove_file("gen-1/shard-2.safetensors");
  CHECK_THAT(with(one, second.substr(0, second.size() - 1)), Catch::Contains("the manifest says"));
  CHECK_THAT(with(one, second + "x"), Catch::Contains("the manifest says"));
  CHECK_THAT(with(one, ""), Catch::Contains("has 0 bytes; the manifest says"));
  std::string twin = first;
  twin.resize(second.size(), ' ');
  CHECK_THAT(with(one, twin), Catch::Contains("do not have the hash"));

  // A shard of the generation after, and a manifest that would have it.
  const std::string manifest = files.file("manifest.json");
  REQUIRE(save_version(files, kTwo, 1).ok());
  const std::string newer = files.file("gen-2/shard-1.safetensors");
  files.put_file("gen-2/shard-1.safetensors", second);
  CHECK_THAT(refusal(files), Catch::Contains("is of another generation"));
  const ManifestFile old_entry = value_or_throw(parse_manifest(manifest, "m")).files[1];
  CHECK_THAT(refusal_of_manifest(files, [&](Manifest& m) { m.files[1] = old_entry; }),
             Catch::Contains("is of generation \"1\"; the manifest says 2: generations are mixed"));
  files.put_file("gen-2/shard-1.safetensors", newer);
  CHECK(refusal(files) == "loaded");
}

TEST_CASE("hostile manifests are refused, each with its reason",
          "[checkpoint][hostile][R31][R34]") {
  FaultFs files;
  REQUIRE(save_version(files, kTwo, 0).ok());
  const std::string text = files.file("manifest.json");
  const std::string body = text.substr(0, text.rfind(",\"xxh3\""));
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string out = body;
    const std::size_t at = out.find(from);
    REQUIRE(at != std::string::npos);
    return hashed(out.replace(at, from.size(), to));
  };
  const std::string deep(100, '[');
  struct Case {
    std::string text, reason;
  };
  const std::vector<Case> cases = {
      {"", "does not end with its own hash"},
      {"{}", "does not end with its own hash"},
      {body + "}\n", "does not end with its own hash"},
      {text + " ", "does not end with its own hash"},
      {replaced("\"version\":1", "\"version\":2"), "/version: "},
      {replaced("tessera checkpoint", "other"), "/format: is no checkpoint of this kind"},
      {replaced("\"generation\":1", "\"generation\":1,\"generation\":2"), "stands twice"},
      {replaced("\"generation\":1", "\"generation\":1.5"), "/generation: expected an integer"},
      {replaced("\"generation\":1", "\"generation\":18446744073709551617"), "/generation: integer"},
      {replaced("\"generation\":1", "\"generation\":-1"), "/generation: "},
      {replaced("\"world_size\":2", "\"world_size\":3"), "has 2 files; 3 ranks wrote one each"},
      {replaced("\"world_size\":2", "\"world_size\":100000000"), "/world_size: "},
      {replaced("\"chunk_bytes\":64", "\"chunk_bytes\":0"), "/chunk_bytes: "},
      {replaced("\"values\":{", "\"values\":{\"x\":" + deep + std::string(100, ']') + ","),
       "nested deeper than 64"},
      {replaced("\"values\":{\"version\":0}", "\"values\":[]"), "/values: expected an object"},
      {replaced("shard-1.safetensors", "../../passwd"),
       "/files/1/name: is \"../../passwd\"; file 1 is shard-1.safetensors"},
      {replaced("shard-1.safetensors", "shard-0.safetensors"), "/files/1/name: "},
      {replaced("\"xxh3\":[\"", "\"xxh3\":[\"0000000000000000\",\""), "hashes; "},
      {replaced("\"xxh3\":[\"", "\"xxh3\":[\"X"), "expected 16 hexadecimal digits"},
      {replaced("\"name\":\"c\"", "\"name\":\"b.weight\""), "tensor \"b.weight\" stands twice"},
      {replaced("\"name\":\"c\"", "\"name\":\"a\""), "tensors must be sorted by name"},
      {replaced("\"dtype\":\"F64\"", "\"dtype\":\"F65\""), "/dtype: "},
      {replaced("\"shape\":[8,6]", "\"shape\":[8,-6]"), "/shape: "},
      {replaced("\"shape\":[8,6]", "\"shape\":[4294967296,4294967296]"), "/shape: "},
      {replaced("\"file\":0", "\"file\":2"), "/file: "},
      {replaced("\"file\":0", "\"file\":-1"), "/file: "},
      {replaced("\"parts\":[{", "\"parts\":[{\"extra\":1,"), "unknown key \"extra\""},
      {replaced("\"offset\":[0,0]", "\"offset\":[0]"), "lies outside of its tensor"},
      {replaced("\"tensors\":[", "\"tensors\":[7,"), "expected an object"},
      {hashed("{\"format\":\"\xff\""), ":1:"},
  };
  for (const Case& each : cases) {
    files.put_file("manifest.json", each.text);
    CAPTURE(each.reason);
    CHECK_THAT(refusal(files), Catch::Contains(each.reason));
    // A folder whose manifest cannot be read is not saved over.
    CHECK_FALSE(save_version(files, kTwo, 1).ok());
    CHECK(files.folders() == std::vector<std::string>{"gen-1"});
  }
  files.put_file("manifest.json", text);
  CHECK(refusal(files) == "loaded");
  CHECK(to_text(value_or_throw(parse_manifest(text, "m"))) == text);
}

TEST_CASE("links in a checkpoint's folder are not followed", "[checkpoint][hostile][R34][R35]") {
  const DiskScratch scratch;
  const auto files = scratch.open();
  REQUIRE(save_version(*files, kTwo, 0).ok());
  REQUIRE(loaded_version(*files, kTwo) == 0);
  std::string error;
  const std::string shard = scratch / "gen-1/shard-0.safetensors";
  fs::rename(shard, scratch / "elsewhere");
  fs::create_symlink(scratch / "elsewhere", shard);
  CHECK(loaded_version(*files, kTwo, &error) == -1);
  CHECK_THAT(error,
             Catch::Contains("shard-0.safetensors: a symbolic link; those are not followed"));
  fs::remove(shard);
  fs::rename(scratch / "elsewhere", shard);

  fs::rename(scratch / "gen-1", scratch / "moved");
  fs::create_directory_symlink(scratch / "moved", scratch / "gen-1");
  CHECK(loaded_version(*files, kTwo, &error) == -1);
  fs::remove(scratch / "gen-1");
  fs::rename(scratch / "moved", scratch / "gen-1");
  CHECK(loaded_version(*files, kTwo) == 0);

  // What lies beside the checkpoint stays.
  fs::create_directory(scratch / "gen-notes");
  fs::create_directory_symlink("/", scratch / "gen-7");
  REQUIRE(save_version(*files, kTwo, 1).ok());
  CHECK(loaded_version(*files, kTwo) == 1);
  CHECK(fs::exists(scratch / "gen-notes"));
  CHECK(fs::exists(scratch / "gen-8"));
}

TEST_CASE("each shard is a safetensors file by itself", "[checkpoint]") {
  const DiskScratch scratch;
  const auto files = scratch.open();
  REQUIRE(save_version(*files, kTwo, 3).ok());
  const auto shard = SafetensorsFile::open(scratch / "gen-1/shard-1.safetensors");
  REQUIRE(shard.ok());
  CHECK(shard->metadata() == Metadata{{"generation", "1"}, {"rank", "1"}});
  const TensorInfo* info = shard->find("a.weight[4:8, 0:6]");
  REQUIRE(info != nullptr);
  CHECK(info->dtype == DType::kF32);
  CHECK(info->shape == Shape{4, 6});
  std::vector<float> values(24);
  REQUIRE(shard->read(info->name, std::as_writable_bytes(std::span(values))).ok());
  const std::vector<double> all = values_of({"a.weight", DType::kF32, {8, 6}}, 3);
  CHECK(std::equal(values.begin(), values.end(), all.begin() + 24));
  for (const TensorInfo& each : shard->tensors()) {
    CHECK((each.size_bytes() == 0 || each.begin % size_of(*each.dtype) == 0));
  }
}

TEST_CASE("two saves do not share a folder", "[checkpoint][R30]") {
  const DiskScratch scratch;
  const auto files = scratch.open();
  REQUIRE(save_version(*files, kTwo, 0).ok());
  const auto other = scratch.open();
  const int held = other->lock();
  REQUIRE(held >= 0);
  const Status status = save_version(*files, kTwo, 1);
  CHECK(status.code() == absl::StatusCode::kDataLoss);
  CHECK_THAT(std::string(message_of(status)), Catch::Contains("another save is under way"));
  CHECK(loaded_version(*files, kTwo) == 0);
  other->close(held);
  CHECK(save_version(*files, kTwo, 1).ok());
}

TEST_CASE("at every call of a save another is refused and a reader sees the old state, whole",
          "[checkpoint][R30]") {
  const DiskScratch scratch;
  const auto files = scratch.open(), second = scratch.open(), reader = scratch.open();
  REQUIRE(save_version(*files, kTwo, 0).ok());
  struct Moment {
    Call call;
    int loaded;
    std::string refused;
  };
  std::vector<Moment> moments;
  WatchedFolder watched(*files, [&](Call call) {
    if (call == Call::kLock) return;  // not yet under way
    moments.push_back({call, loaded_version(*reader, kOne),
                       std::string(message_of(save_version(*second, kThree, 7)))});
  });
  REQUIRE(save_version(watched, kOne, 1).ok());
  REQUIRE(moments.size() > 20);
  bool in_place = false;
  for (const Moment& moment : moments) {
    CAPTURE(static_cast<int>(moment.call), in_place, moment.refused);
    CHECK(moment.loaded == (in_place ? 1 : 0));
    CHECK_THAT(moment.refused, Catch::Contains("another save is under way in this folder"));
    in_place = in_place || moment.call == Call::kRename;
  }
  CHECK(in_place);
  CHECK(loaded_version(*reader, kTwo) == 1);
  std::vector<std::string> names;
  REQUIRE(files->list("", names) == 0);
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{".lock", "gen-2", "manifest.json"});
}

TEST_CASE("who reads while others save sees a whole state, never an older one after a newer",
          "[checkpoint][R30]") {
  const DiskScratch scratch;
  const auto files = scratch.open();
  REQUIRE(save_version(*files, kTwo, 0).ok());
  // The saver goes on until the reader has seen enough of it.
  constexpr int kReads = 40;
  std::atomic<int> num_reads{0};
  std::atomic<int> last{0};
  Status saved;
  std::thread saver([&] {
    const auto own = scratch.open();
    while (num_reads < kReads && saved.ok()) {
      saved = save_version(*own, kTwo, last + 1);
      if (saved.ok()) ++last;
    }
    num_reads = kReads;
  });
  std::vector<int> seen;
  std::string error;
  while (num_reads < kReads) {
    seen.push_back(loaded_version(*files, kTwo, &error));
    ++num_reads;
  }
  saver.join();
  CAPTURE(error, seen);
  CHECK(saved.ok());
  REQUIRE(seen.size() >= 2);
  CHECK(std::is_sorted(seen.begin(), seen.end()));
  CHECK(seen.front() >= 0);
  CHECK(loaded_version(*files, kTwo) == last);
}

TEST_CASE("a load that would read nothing is refused", "[checkpoint][R30]") {
  FaultFs files;
  REQUIRE(save_version(files, kTwo, 0).ok());
  const Status status = run_ranks(2, {}, [&](World& world) {
    load_checkpoint(world, files, {}, {.may_ignore = [](const std::string&) { return true; }});
  });
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(message_of(status)),
             Catch::Contains("memory/manifest.json: no tensor is asked for"));
}

}  // namespace tessera::testing
