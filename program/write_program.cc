#include "io/placement_json.h"
#include "program/program_json.h"

namespace tessera {
namespace {

Json texts_json(const std::vector<std::string>& texts) {
  return Json(Json::Array(texts.begin(), texts.end()));
}

void set_text(Json& object, const char* key, const std::string& text) {
  if (!text.empty()) object.set(key, text);
}

class Writer {
 public:
  explicit Writer(const Program& program) : program_(program) {}

  Json meshes() const {
    Json all{Json::Object()};
    for (const ProgramMesh& each : program_.meshes) {
      Json mesh = to_json(each.mesh);
      if (each.of) mesh.set("of", program_.meshes[static_cast<std::size_t>(*each.of)].name);
      if (each.stage) mesh.set("stage", *each.stage);
      all.set(each.name, std::move(mesh));
    }
    return all;
  }

  Json value(const ProgramValue& value) const {
    Json::Array sizes(value.global_shape.begin(), value.global_shape.end());
    Json json = Json::object({{"name", value.name},
                              {"shape", Json(std::move(sizes))},
                              {"dtype", name_of(value.dtype)},
                              {"mesh", mesh_name(value)}});
    add_layout(json, value);
    if (!value.varies.empty()) json.set("varies", texts_json(value.varies));
    if (value.role != ValueRole::kTemporary) json.set("role", name_of(value.role));
    set_text(json, "module", value.module);
    if (value.count != 1) json.set("count", value.count);
    return json;
  }

  void add_steps(std::string& text, const std::vector<AnyStep>& steps,
                 const std::string& indent) const {
    for (const AnyStep& step : steps) {
      if (&step != &steps.front()) text += ',';
      text += '\n' + indent;
      if (const auto* repeat = std::get_if<RepeatStep>(&step.what)) {
        add_repeat(text, *repeat, indent);
      } else {
        text += this->step(step).to_string();
      }
    }
  }

 private:
  Json mesh_name(const ProgramValue& value) const {
    if (!value.mesh) return {};
    return Json(program_.meshes[static_cast<std::size_t>(*value.mesh)].name);
  }

  /// "placements", or "layout" where no list of placements says it.
  void add_layout(Json& json, const ProgramValue& value) const {
    if (!value.mesh || !value.layout) {
      json.set("placements", Json());
      return;
    }
    const Json layout = layout_json(value);
    json.set(layout.if_array() != nullptr ? "placements" : "layout", layout);
  }
  Json layout_json(const ProgramValue& value) const {
    const Mesh& mesh = program_.meshes[static_cast<std::size_t>(*value.mesh)].mesh;
    const auto placements = encode(mesh, view_of(value.global_shape), *value.layout);
    return placements.ok() ? to_json(*placements) : to_json(mesh, *value.layout);
  }

  Json values(const std::vector<ProgramValue>& all) const {
    Json::Array list;
    for (const ProgramValue& each : all) list.push_back(value(each));
    return Json(std::move(list));
  }

  static Json moves(const std::vector<ProgramMove>& moves) {
    Json::Array list;
    for (const ProgramMove& move : moves) {
      list.push_back(Json::object(
          {{"collective", move.collective},
           {"axes", texts_json(move.axes)},
           {"ranks", move.ranks},
           {"bytes", Json::object({{"max", move.bytes.max}, {"total", move.bytes.total}})}}));
    }
    return Json(std::move(list));
  }

  Json of(const CallStep& step) const {
    Json json = Json::object({{"op", step.op}, {"args", Json(step.args)}});
    if (!step.attrs.empty()) json.set("attrs", Json(step.attrs));
    json.set("out", values(step.out));
    set_text(json, "row", step.row);
    if (!step.moves.empty()) json.set("moves", moves(step.moves));
    return json;
  }
  Json of(const MoveStep& step) const {
    Json json = Json::object({{"redistribute", step.value}});
    json.set("to", step.out.mesh && step.out.layout ? layout_json(step.out) : Json());
    json.set("mesh", mesh_name(step.out));
    json.set("out", step.out.name);
    if (step.implicit) json.set("implicit", true);
    set_text(json, "for", step.needed_by);
    if (step.moves) json.set("moves", moves(*step.moves));
    return json;
  }
  Json of(const RegionStep& step) const {
    Json json =
        Json::object({{"region", step.name}, {"args", Json(step.args)}, {"out", values(step.out)}});
    if (step.flops) json.set("flops", *step.flops);
    if (step.bytes) json.set("bytes", *step.bytes);
    if (!step.moves.empty()) json.set("moves", moves(step.moves));
    set_text(json, "warning", step.warning);
    return json;
  }
  static Json of(const FreeStep& step) { return Json::object({{"free", texts_json(step.values)}}); }
  static Json of(const HostReadStep& step) {
    Json json = Json::object({{"host_read", step.value}, {"bytes", step.bytes}});
    set_text(json, "why", step.why);
    return json;
  }
  static Json of(const RepeatStep&) { return {}; }  // add_repeat() writes it

  Json step(const AnyStep& step) const {
    Json json = std::visit([this](const auto& what) { return this->of(what); }, step.what);
    const StepOrigin& origin = step.origin;
    set_text(json, "module", origin.module);
    set_text(json, "site", origin.site);
    if (origin.phase) json.set("phase", name_of(*origin.phase));
    if (origin.stage) json.set("stage", *origin.stage);
    if (origin.micro_batch) json.set("micro_batch", *origin.micro_batch);
    set_text(json, "from", origin.from);
    if (origin.time_us) json.set("time_us", *origin.time_us);
    return json;
  }

  void add_repeat(std::string& text, const RepeatStep& repeat, const std::string& indent) const {
    text += "{\"repeat\":" + std::to_string(repeat.count);
    if (repeat.first != 0) text += ",\"first\":" + std::to_string(repeat.first);
    if (repeat.by != 1) text += ",\"by\":" + std::to_string(repeat.by);
    if (!repeat.as.empty()) text += ",\"as\":" + Json(repeat.as).to_string();
    text += ",\"steps\":[";
    add_steps(text, repeat.steps, indent + ' ');
    text += ']';
    if (!repeat.carry.empty()) {
      Json carry{Json::Object()};
      for (const auto& [begin, end] : repeat.carry) carry.set(begin, end);
      text += ",\"carry\":" + carry.to_string();
    }
    text += '}';
  }

  const Program& program_;
};

}  // namespace

std::string write_program(const Program& program) {
  const Writer writer(program);
  Json source = Json::object({{"kind", program.source.kind}});
  set_text(source, "by", program.source.by);
  set_text(source, "command", program.source.command);
  std::string text = "{\"version\":1,\n\"name\":" + Json(program.name).to_string();
  text += ",\n\"source\":" + source.to_string();
  if (!program.routing.empty()) {
    text += ",\n\"scenario\":" + Json::object({{"routing", program.routing}}).to_string();
  }
  text += ",\n\"ranks\":" + std::to_string(program.ranks);
  text += ",\n\"meshes\":" + writer.meshes().to_string();
  if (!program.warnings.empty()) {
    text += ",\n\"warnings\":" + texts_json(program.warnings).to_string();
  }
  text += ",\n\"values\":[";
  for (const ProgramValue& value : program.values) {
    if (&value != &program.values.front()) text += ',';
    text += "\n " + writer.value(value).to_string();
  }
  text += "],\n\"steps\":[";
  writer.add_steps(text, program.steps, " ");
  return text + "]}\n";
}

}  // namespace tessera
