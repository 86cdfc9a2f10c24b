// Bad configs, meshes and data end in one clear line, before any rank starts.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "io/file.h"
#include "io/safetensors.h"
#include "moe/train/rope_table.h"
#include "moe/train/stages.h"
#include "tests/moe/training_run.h"

namespace tessera::testing {
namespace {

std::string config_text() { return expected_results("grouped").find("config")->to_string(); }

/// The error for a config in which `from` became `to`.
std::string error_of(const std::string& from, const std::string& to) {
  std::string text = config_text();
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  const auto config = parse_model_config(text, "c.json");
  return config.ok() ? "accepted" : std::string(message_of(config.status()));
}

}  // namespace

TEST_CASE("config errors name the key, what was seen and what is allowed", "[moe][config][C6]") {
  CHECK(error_of("\"dim\":64", "\"dmi\":64") != "accepted");
  CHECK_THAT(error_of("\"dim\":64", "\"dim\":0"), Catch::Contains("/dim"));
  CHECK_THAT(error_of("\"dim\":64", "\"dim\":6.4"), Catch::Contains("/dim"));
  CHECK_THAT(error_of("\"sigmoid\"", "\"relu\""), Catch::Contains("softmax"));
  CHECK_THAT(error_of("\"rope_dim\":8", "\"rope_dim\":7"), Catch::Contains("odd"));
  CHECK_THAT(error_of("\"limited\":2", "\"limited\":null"), Catch::Contains("limited is null"));
  CHECK_THAT(error_of("\"groups\":4", "\"groups\":5"),
             Catch::Contains("must divide num_experts 16"));
  CHECK_THAT(error_of("\"groups\":4", "\"groups\":16"), Catch::Contains("at least 2 experts"));
  CHECK_THAT(error_of("\"limited\":2", "\"limited\":9"), Catch::Contains("more than groups 4"));
  CHECK_THAT(error_of("\"router_top_k\":4", "\"router_top_k\":17"),
             Catch::Contains("more than num_experts 16"));
  CHECK_THAT(error_of("\"router_top_k\":4", "\"router_top_k\":9"),
             Catch::Contains("8 experts of the 2 groups"));
}

TEST_CASE("sizes that nothing could list or number are refused by key", "[moe][config]") {
  CHECK(error_of("\"n_layers\":3", "\"n_layers\":4294967296") ==
        "c.json: /n_layers: expected an integer from 1 to 2048, not 4294967296");
  CHECK_THAT(error_of("\"num_experts\":16", "\"num_experts\":1099511627776"),
             Catch::Contains("/num_experts: expected an integer from 1 to 65536"));
  CHECK_THAT(error_of("\"dim\":64", "\"dim\":9223372036854775807"), Catch::Contains("/dim"));
  CHECK_THAT(error_of("\"accum\":2", "\"accum\":1099511627776"), Catch::Contains("/accum"));
  CHECK_THAT(error_of("\"groups\":4", "\"groups\":1099511627776"), Catch::Contains("/groups"));
  CHECK(error_of("\"n_layers\":3", "\"n_layers\":2048") == "accepted");
  CHECK_THAT(error_of("\"seq\":64,\"batch\":8,\"accum\":2,\"steps\":10",
                      "\"seq\":16777216,\"batch\":1048576,\"accum\":2,\"steps\":1048576"),
             Catch::Contains("more than 2^62 tokens"));
}

TEST_CASE("a schedule is as long as its passes can be listed", "[moe][config]") {
  ModelConfig config = value_or_throw(parse_model_config(config_text(), "c.json"));
  config.accum = 1 << 20;
  config.batch = 1 << 20;
  ParallelConfig parallel;
  parallel.pp = 2;
  parallel.pp_microbatches = 1024;
  CHECK_THAT(std::string(message_of(plan_pipeline(config, parallel).status())),
             Catch::Contains("1073741824 micro-batches a step") &&
                 Catch::Contains("at most 4194304 passes"));
  for (const std::string key : {"pp_microbatches", "dispatch_chunks", "expert_alignment"}) {
    const auto parsed = parse_parallel_config("{\"" + key + "\":1099511627776}", "p");
    CHECK_THAT(std::string(message_of(parsed.status())),
               Catch::Contains("p: /" + key + ": expected an integer from 1 to "));
  }
}

TEST_CASE("routing options name the key, what was seen and what is allowed", "[moe][config]") {
  const auto with = [](const std::string& member) {
    return error_of("\"dim\":64", "\"dim\":64," + member);
  };
  CHECK(with(R"("seq_aux_coeff":0.001,"capacity_factor":1.25,"drop_policy":"position")") ==
        "accepted");
  CHECK(with(R"("capacity_factor":null)") == "accepted");
  CHECK_THAT(with(R"("capacity_factor":0)"),
             Catch::Contains("/capacity_factor") && Catch::Contains("above 0"));
  CHECK_THAT(with(R"("capacity_factor":-1.5)"), Catch::Contains("is -1.5"));
  CHECK(with(R"("capacity_factor":1,"pad_to_capacity":true)") == "accepted");
  CHECK_THAT(with(R"("pad_to_capacity":true)"),
             Catch::Contains("pad_to_capacity is set but capacity_factor is null"));
  CHECK_THAT(with(R"("drop_policy":"random")"),
             Catch::Contains("\"random\" is none of \"probability\", \"position\""));
  CHECK_THAT(with(R"("capacity_scope":"rank")"), Catch::Contains("\"microbatch\""));
  CHECK_THAT(with(R"("z_loss_coeff":-0.1)"), Catch::Contains("0 (off) or more"));
  CHECK_THAT(with(R"("input_jitter":1)"), Catch::Contains("[0, 1)"));
  CHECK_THAT(with(R"("bias_centred":1)"), Catch::Contains("/bias_centred"));
  CHECK_THAT(
      error_of("\"num_shared_experts\":1", "\"num_shared_experts\":0,\"shared_expert_gate\":true"),
      Catch::Contains("num_shared_experts is 0"));
}

TEST_CASE("a parallel plan names unknown degrees", "[moe][config]") {
  CHECK(
      parse_parallel_config(R"({"dp_shard":2,"tp":2,"ep":2,"sequence_parallel":true})", "p").ok());
  const auto unknown = parse_parallel_config(R"({"dp":2})", "--parallel");
  REQUIRE(!unknown.ok());
  CHECK_THAT(std::string(message_of(unknown.status())), Catch::Contains("dp_shard"));
  CHECK(!parse_parallel_config(R"({"tp":1.5})", "p").ok());
  CHECK(!parse_parallel_config("[]", "p").ok());
  const auto layers = value_or_throw(parse_parallel_config(R"({"pp":2,"pp_layers":[3,5]})", "p"));
  CHECK(layers.pp_layers == std::vector<std::int64_t>{3, 5});
  const auto refused = [](const std::string& list) {
    const auto config = parse_parallel_config("{\"pp_layers\":" + list + "}", "--parallel");
    return config.ok() ? "accepted" : std::string(message_of(config.status()));
  };
  CHECK_THAT(refused("[3,0]"), Catch::Contains("/pp_layers/1") && Catch::Contains("0"));
  CHECK_THAT(refused("[]"), Catch::Contains("is empty"));
  CHECK_THAT(refused("3"), Catch::Contains("/pp_layers"));
}

TEST_CASE("YaRN frequencies and the attention scale have their closed forms", "[moe][rope]") {
  const ModelConfig config = value_or_throw(parse_model_config(config_text(), "c"));
  const std::vector<double> frequencies = rope_frequencies(config);
  const std::vector<double> wanted = {1.0, 0.1, 0.005125, 2.5e-5};
  REQUIRE(frequencies.size() == wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    CHECK(frequencies[i] == Approx(wanted[i]).epsilon(1e-12));
  }
  const double m = 0.1 * std::log(40.0) + 1.0;
  CHECK(attention_scale(config) == Approx(m * m / std::sqrt(24.0)).epsilon(1e-14));
}

TEST_CASE("the learning rate warms up, stays and decays to zero", "[parallel][schedule]") {
  const LearningRate rate = {.base = 8e-4, .steps = 10, .warmup = 2, .decay_ratio = 0.8};
  const std::vector<double> factors = {.5, 1, 1, .875, .75, .625, .5, .375, .25, .125};
  for (std::size_t step = 0; step < factors.size(); ++step) {
    CHECK(rate.at(static_cast<std::int64_t>(step)) == Approx(8e-4 * factors[step]));
  }
}

TEST_CASE("data errors say what one batch needs", "[moe][data]") {
  ModelConfig config = value_or_throw(parse_model_config(config_text(), "c"));
  const auto error_of_data = [&](const std::string& path) {
    const std::vector<std::string> paths(1, path);
    const auto data = TokenData::read(paths, config);
    return data.ok() ? std::string("accepted") : std::string(message_of(data.status()));
  };
  CHECK_THAT(error_of_data("/nowhere/text"), Catch::Contains("/nowhere/text"));
  CHECK_THAT(error_of_data(parity_path("softmax", "tokens.safetensors")),
             Catch::Contains("[10, 1, 8, 65]"));
  const std::string short_text = test_file("parity/README.md");
  config.batch = 1000;
  CHECK_THAT(error_of_data(short_text),
             Catch::Contains("one batch of 1000 x (64 + 1) tokens needs 65000"));
  config.vocab = 255;
  CHECK_THAT(error_of_data(short_text), Catch::Contains("at least 256"));
}

TEST_CASE("with a pad_id a text gives its tail as short sequences", "[moe][data][padding]") {
  ModelConfig config = value_or_throw(parse_model_config(config_text(), "c"));
  const std::vector<std::string> paths(1, test_file("parity/README.md"));
  const std::string text = value_or_throw(read_file(paths[0], 1 << 20));
  config.batch = 1000;  // more than the text holds without overlap
  config.vocab = 257;
  config.pad_id = 256;
  const TokenData data = value_or_throw(TokenData::read(paths, config));
  const TokenBatch batch = data.batch(0, 0);
  const std::vector<double> ids = batch.ids_BL.to_vector();
  const std::vector<double> targets = batch.targets_BL.to_vector();
  const std::vector<double> padding = batch.padding_BL.to_vector();
  const std::vector<double> ignored = batch.ignored_BL.to_vector();
  const auto seq = static_cast<std::size_t>(config.seq);
  std::size_t num_short = 0;
  for (std::size_t row = 0; row < ids.size(); row += seq) {
    std::string held(1, static_cast<char>(ids[row]));
    for (std::size_t i = 0; i < seq && targets[row + i] != 256; ++i) {
      held += static_cast<char>(targets[row + i]);
    }
    REQUIRE(held.size() >= 2);
    const bool is_tail = text.ends_with(held);
    CHECK(text.find(held) != std::string::npos);
    CHECK((held.size() == seq + 1 || is_tail));
    num_short += held.size() <= seq;
    for (std::size_t i = 0; i < seq; ++i) {
      CHECK(padding[row + i] == (i >= held.size() ? 1 : 0));
      CHECK(ignored[row + i] == (i + 1 >= held.size() ? 1 : 0));
      if (i + 1 < seq) CHECK(targets[row + i] == ids[row + i + 1]);
    }
  }
  CHECK(num_short > 0);
  CHECK(num_short < 500);
}

TEST_CASE("a pad_id that text or vocabulary cannot have is an error", "[moe][data][padding]") {
  CHECK_THAT(error_of("\"dim\":64", "\"dim\":64,\"pad_id\":256"), Catch::Contains("/pad_id"));
  CHECK_THAT(error_of("\"dim\":64", "\"dim\":64,\"pad_id\":-1"), Catch::Contains("/pad_id"));
  CHECK(error_of("\"dim\":64", "\"dim\":64,\"pad_id\":null") == "accepted");
  ModelConfig config = value_or_throw(parse_model_config(config_text(), "c"));
  config.pad_id = 'e';
  const std::vector<std::string> paths(1, test_file("../../LICENSE"));
  const auto data = TokenData::read(paths, config);
  REQUIRE(!data.ok());
  CHECK_THAT(std::string(message_of(data.status())),
             Catch::Contains("of the corpus is 101, which is the pad_id"));
}

TEST_CASE("recorded labels are read with the tokens, and checked like them", "[moe][data]") {
  ModelConfig config = value_or_throw(parse_model_config(config_text(), "c"));
  config.seq = 2;
  config.batch = config.steps = 1;
  config.accum = 2;
  config.pad_id = 9;
  const auto error_of_data = [&](const RecordedTokens& recorded) {
    const auto data = TokenData::of(recorded, config);
    return data.ok() ? std::string("accepted") : std::string(message_of(data.status()));
  };
  CHECK_THAT(error_of_data({{1, 2, 3}}),
             Catch::Contains("data: 3 tokens; the config needs 1 steps of 2 x 1 x (seq + 1 = 3)"));
  CHECK_THAT(error_of_data({{1, 2, 3, 4, 5, -100}}), Catch::Contains("tokens[5] is -100"));
  CHECK_THAT(error_of_data({{1, 2, 3, 4, 5, 6}, {1, 2, 3}}), Catch::Contains("data: 3 labels"));
  CHECK_THAT(error_of_data({{1, 2, 3, 4, 5, 6}, {1, -1, 3, 4}}),
             Catch::Contains("labels[1] is -1; the vocabulary allows 0 to 255, and -100 for"));

  const RecordedTokens recorded = {{1, 2, 3, 4, 9, 9}, {7, kIgnoredLabel, 9, 8}};
  const std::string path =
      (std::filesystem::temp_directory_path() / ("labels" + std::to_string(getpid()))).string() +
      ".safetensors";
  const auto bytes = [](const std::vector<std::int32_t>& ids) {
    return std::as_bytes(std::span(ids));
  };
  const TensorBytes tensors[] = {{"tokens", DType::kI32, {1, 2, 1, 3}, bytes(recorded.tokens)},
                                 {"labels", DType::kI32, {1, 2, 1, 2}, bytes(recorded.labels)}};
  throw_if_error(write_safetensors(path, tensors));
  const TokenData data = value_or_throw(TokenData::read(std::vector{path}, config));
  std::filesystem::remove(path);
  const TokenBatch first = data.batch(0, 0), second = data.batch(0, 1);
  using Values = std::vector<double>;
  CHECK(first.ids_BL.to_vector() == Values{1, 2});
  CHECK(first.targets_BL.to_vector()[0] == 7);
  CHECK(first.ignored_BL.to_vector() == Values{0, 1});
  CHECK(first.padding_BL.to_vector() == Values{0, 0});
  CHECK(second.ids_BL.to_vector() == Values{4, 9});
  CHECK(second.ignored_BL.to_vector() == Values{1, 0});  // the pad_id, and a label that counts
  CHECK(second.targets_BL.to_vector()[1] == 8);
  CHECK(second.padding_BL.to_vector() == Values{0, 1});
}

TEST_CASE("text batches repeat and shift targets by one", "[moe][data]") {
  ModelConfig config = value_or_throw(parse_model_config(config_text(), "c"));
  const std::vector<std::string> paths(1, test_file("../../LICENSE"));
  const TokenData data = value_or_throw(TokenData::read(paths, config));
  const TokenBatch a = data.batch(3, 1);
  const std::vector<double> ids = a.ids_BL.to_vector();
  const std::vector<double> targets = a.targets_BL.to_vector();
  CHECK(ids == data.batch(3, 1).ids_BL.to_vector());
  CHECK(ids != data.batch(3, 0).ids_BL.to_vector());
  for (std::size_t i = 0; i + 1 < static_cast<std::size_t>(config.seq); ++i) {
    CHECK(targets[i] == ids[i + 1]);
  }
}

}  // namespace tessera::testing
