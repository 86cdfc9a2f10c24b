// tests/solver/small_program.h: programs of a few calls on one mesh, written call by call.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "program/program.h"
#include "program/program_json.h"
#include "tests/support/builtin_ops.h"

namespace tessera::testing {

class SmallProgram {
 public:
  SmallProgram(Shape mesh, std::vector<std::string> axes) {
    program_.name = "small";
    program_.source.kind = "program";
    const Mesh made = value_or_throw(Mesh::make(view_of(mesh), std::move(axes)));
    program_.ranks = made.num_ranks();
    program_.meshes = {{.name = "m", .mesh = made, .stage = {}}};
  }

  /// `placements` as "S(0), R"; empty: free.
  std::string value(const std::string& name, Shape shape, ValueRole role = ValueRole::kInput,
                    const std::string& placements = {}, DType dtype = DType::kF32) {
    ProgramValue made{.name = name, .global_shape = std::move(shape), .dtype = dtype, .mesh = 0};
    made.role = role;
    if (!placements.empty()) {
      made.layout = value_or_throw(decode(program_.meshes[0].mesh, view_of(made.global_shape),
                                          value_or_throw(parse_placements(placements))));
    }
    metas_.emplace_back(name, TensorMeta{made.global_shape, made.dtype});
    program_.values.push_back(std::move(made));
    return name;
  }

  /// The results' names: `name`, or `name`.0 … where there are several.
  std::vector<std::string> call_all(const std::string& op, const std::vector<std::string>& operands,
                                    const std::string& name, const Attrs& attrs = {}) {
    const Op& known = *value_or_throw(builtin_ops().find(op));
    CallStep call{.op = op};
    std::vector<TensorMeta> metas;
    for (const std::string& each : operands) {
      call.args.push_back(each.empty() ? Json() : Json(each));
      metas.push_back(each.empty() ? TensorMeta{.shape = {}, .absent = true} : meta(each));
    }
    for (const auto& [key, value] : attrs) call.attrs.push_back({std::string(key), json_of(value)});
    const Attrs complete = value_or_throw(complete_attrs(known, attrs));
    std::vector<std::string> names;
    for (const TensorMeta& made : value_or_throw(infer(known, metas, complete))) {
      names.push_back(name + (names.empty() ? "" : '.' + std::to_string(names.size())));
      ProgramValue out{
          .name = names.back(), .global_shape = made.shape, .dtype = made.dtype, .mesh = 0};
      metas_.emplace_back(out.name, made);
      call.out.push_back(std::move(out));
    }
    AnyStep step{std::move(call)};
    step.origin.phase = phase;
    step.origin.module = module;
    step.origin.micro_batch = micro_batch;
    program_.steps.push_back(std::move(step));
    return names;
  }
  std::string call(const std::string& op, const std::vector<std::string>& operands,
                   const std::string& name, const Attrs& attrs = {}) {
    return call_all(op, operands, name, attrs)[0];
  }

  const TensorMeta& meta(const std::string& name) const {
    for (const auto& [known, meta] : metas_) {
      if (known == name) return meta;
    }
    throw Error(not_found(name));
  }
  const Program& program() const noexcept { return program_; }

  std::optional<StepPhase> phase;
  std::string module;
  std::optional<std::int64_t> micro_batch;

 private:
  static Json json_of(const AttrValue& value) {
    if (const auto* flag = std::get_if<bool>(&value)) return Json(*flag);
    if (const auto* number = std::get_if<std::int64_t>(&value)) return Json(*number);
    if (const auto* number = std::get_if<double>(&value)) return Json(*number);
    if (const auto* text = std::get_if<std::string>(&value)) return Json(*text);
    if (const auto* dtype = std::get_if<DType>(&value)) return Json(name_of(*dtype));
    const auto& sizes = std::get<Shape>(value);
    return Json(Json::Array(sizes.begin(), sizes.end()));
  }

  Program program_;
  std::vector<std::pair<std::string, TensorMeta>> metas_;
};

}  // namespace tessera::testing
