#include "tools/placement_audit/executed/verify_document.h"

#include <cmath>
#include <limits>

#include "io/placement_json.h"

namespace tessera::audit {
namespace {

/// JSON has no word for what is not finite.
Json number(double value, DType dtype) {
  if (std::isnan(value)) return Json("nan");
  if (std::isinf(value)) return Json(value > 0 ? "inf" : "-inf");
  if (is_floating(dtype)) return Json(value);
  constexpr double kPastLargest = 0x1p63;  // what the largest integer is as a double
  if (value >= kPastLargest) return Json(std::numeric_limits<std::int64_t>::max());
  return Json(static_cast<std::int64_t>(value));
}

Json numbers(std::span<const double> values, DType dtype) {
  Json::Array items;
  for (const double value : values) items.push_back(number(value, dtype));
  return Json(std::move(items));
}

Json integers(const Shape& shape) {
  Json::Array items;
  for (const std::int64_t size : shape) items.push_back(Json(size));
  return Json(std::move(items));
}

Json attr_json(const AttrValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return Json(*flag);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return Json(*integer);
  if (const auto* real = std::get_if<double>(&value)) return number(*real, DType::kF64);
  if (const auto* dtype = std::get_if<DType>(&value)) return Json(name_of(*dtype));
  if (const auto* list = std::get_if<Shape>(&value)) return integers(*list);
  if (const auto* text = std::get_if<std::string>(&value)) return Json(*text);
  return Json();
}

Json input_json(const VerifyRepro::Input& input) {
  const DType dtype = input.spec.dtype();
  Json json = Json::object(
      {{"shape", integers(input.spec.global_shape())}, {"dtype", std::string(name_of(dtype))}});
  add_placements(json, input.spec);
  Json::Array ranks;
  for (const std::vector<double>& values : input.local) ranks.push_back(numbers(values, dtype));
  json.set("local", Json(std::move(ranks)));
  return json;
}

/// Arguments in the order of the schema; a list is one of them.
Json arguments(const VerifyRepro& repro) {
  Json::Array items;
  for (const VerifyRepro::Input& input : repro.inputs) {
    if (!input.list) {
      while (items.size() < input.argument) items.push_back(Json());  // absent
      items.push_back(Json(input.name));
      continue;
    }
    if (items.size() == input.argument) items.push_back(Json(Json::Array{}));
    items.back().push(Json(input.name));
  }
  return Json(std::move(items));
}

}  // namespace

Json run_document(const VerifyFailure& failure) {
  const VerifyRepro& repro = *failure.repro;
  Json inputs = Json::object({}), attrs = Json::object({}), expect = Json::object({});
  for (const VerifyRepro::Input& input : repro.inputs) inputs.set(input.name, input_json(input));
  for (const auto& [name, value] : repro.attrs) attrs.set(std::string(name), attr_json(value));
  Json::Array out;
  for (const VerifyRepro::Result& result : repro.results) {
    out.push_back(Json(result.name));
    expect.set(result.name, Json::object({{"shape", integers(result.meta.shape)},
                                          {"dtype", std::string(name_of(result.meta.dtype))},
                                          {"values", numbers(result.values, result.meta.dtype)}}));
  }
  Json call = Json::object({{"op", failure.op},
                            {"args", arguments(repro)},
                            {"attrs", std::move(attrs)},
                            {"out", Json(std::move(out))}});
  return Json::object({{"mesh", Json::object({{"shape", integers(repro.mesh)}})},
                       {"inputs", std::move(inputs)},
                       {"program", Json::array({std::move(call)})},
                       {"expect", std::move(expect)}});
}

}  // namespace tessera::audit
