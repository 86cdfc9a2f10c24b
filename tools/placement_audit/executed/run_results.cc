#include "tools/placement_audit/executed/run_results.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

namespace tessera::audit {
namespace {

std::optional<Failure> check(const RunResult& result, const ExpectedTensor& expected,
                             ExpectedPlacements placed) {
  Failure failure{.tensor = result.name};
  const auto differs = [&](std::string_view what, const std::string& got,
                           const std::string& wanted) {
    failure.got = Json(got);
    failure.expected = Json(wanted);
    failure.text = absl::StrFormat("%s: %s is %s, expected %s", result.name, what, got, wanted);
    return failure;
  };
  const Array &got = result.whole, &wanted = expected.values;
  if (got.shape() != wanted.shape()) {
    return differs("shape", to_string(got.shape()), to_string(wanted.shape()));
  }
  if (got.dtype() != wanted.dtype()) {
    return differs("dtype", std::string(name_of(got.dtype())),
                   std::string(name_of(wanted.dtype())));
  }
  if (expected.placements && placed == ExpectedPlacements::kChecked) {
    const StatusOr<Placements> placements = result.spec.placements();
    const std::string lies = placements.ok() ? to_string(*placements) : result.spec.to_string();
    if (lies != to_string(*expected.placements)) {
      return differs("placements", lies, to_string(*expected.placements));
    }
  }
  const std::optional<std::int64_t> at = first_difference(got, wanted, expected.tolerance);
  if (!at) return std::nullopt;
  failure.index = index_of(got.shape(), *at);
  differs(absl::StrFormat("element %s", to_string(*failure.index)), element_to_text(got, *at),
          element_to_text(wanted, *at));
  failure.got = element_to_json(got, *at);
  failure.expected = element_to_json(wanted, *at);
  return failure;
}

Json failure_json(const Failure& failure) {
  Json json = Json::object({{"tensor", failure.tensor}});
  if (failure.index) {
    json.set("index", Json(Json::Array(failure.index->begin(), failure.index->end())));
  }
  json.set("got", failure.got);
  json.set("expected", failure.expected);
  json.set("text", failure.text);
  return json;
}

}  // namespace

std::vector<Failure> check_all(const Program& program, const std::vector<RunResult>& results,
                               ExpectedPlacements placed) {
  std::vector<Failure> failures;
  for (const ExpectedTensor& expected : program.expected) {
    const std::string& slot_name = program.tensors[static_cast<std::size_t>(expected.slot)].name;
    const std::string name = expected.gradient ? gradient_name(slot_name) : slot_name;
    const auto result = std::ranges::find(results, name, &RunResult::name);
    if (result == results.end()) {
      failures.push_back({.tensor = name, .text = name + ": it is not there at the end"});
    } else if (std::optional<Failure> failure = check(*result, expected, placed)) {
      failures.push_back(*std::move(failure));
    }
  }
  return failures;
}

Json json_of(const std::vector<Failure>& failures) {
  Json::Array all;
  for (const Failure& failure : failures) all.push_back(failure_json(failure));
  return Json(std::move(all));
}

std::string failures_text(const Program& program, const std::vector<Failure>& failures) {
  if (program.expected.empty()) return "";
  std::string text;
  for (const Failure& failure : failures) text += "FAILED " + failure.text + '\n';
  return text + absl::StrFormat("%d as expected, %d not\n",
                                program.expected.size() - failures.size(), failures.size());
}

Status save_results(const std::string& path, const std::vector<RunResult>& results) {
  std::vector<TensorBytes> tensors;
  for (const RunResult& result : results) {
    const auto size = static_cast<std::size_t>(result.whole.num_bytes());
    tensors.push_back({.name = result.name,
                       .dtype = result.whole.dtype(),
                       .shape = result.whole.shape(),
                       .bytes = {result.whole.bytes(), size}});
  }
  return write_safetensors(path, tensors);
}

}  // namespace tessera::audit
