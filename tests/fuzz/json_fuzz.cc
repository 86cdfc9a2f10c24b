// Bytes as a JSON document: what is accepted says the same after it was written and read again.
#include <algorithm>

#include "io/json.h"
#include "tests/fuzz/fuzz.h"

namespace tessera {
namespace {

int depth_of(const Json& value) {
  int inside = 0;
  if (const Json::Array* items = value.if_array()) {
    for (const Json& item : *items) inside = std::max(inside, depth_of(item));
    return inside + 1;
  }
  if (const Json::Object* members = value.if_object()) {
    for (const JsonMember& member : *members) inside = std::max(inside, depth_of(member.value));
    return inside + 1;
  }
  return 0;
}

/// Every question that a view answers, at every place of the document.
void visit(const JsonView& view) {
  for (const Status& status :
       {view.boolean().status(), view.integer_in(-4, 4).status(), view.number().status(),
        view.text().status(), view.integers().status(), view.texts().status(),
        view.check_keys({"shape"}, {"axes"})}) {
    testing::check_text(status, "doc: " + view.path());
  }
  if (const auto items = view.items(); items.ok()) {
    for (const JsonView& item : *items) visit(item);
  }
  if (const auto members = view.members(); members.ok()) {
    for (const auto& [key, member] : *members) {
      const std::optional<JsonView> found = view.find(key);
      TSR_CHECK(found == member, in_quotes(key));
      visit(member);
    }
  }
}

void try_json(std::string_view text) {
  constexpr int kDepth = 12;
  const auto document = JsonDocument::parse(text, "doc", {.bytes = 1 << 16, .depth = kDepth});
  if (!document.ok()) return testing::check_text(document.status(), "doc:");
  visit(document->root());
  const Json json = document->root().to_json();
  const std::string written = json.to_string();
  TSR_CHECK(depth_of(json) <= kDepth, written);
  const StatusOr<Json> again = parse_json(written, "again");
  TSR_CHECK(again.ok(), written + ": " + std::string(message_of(again.status())));
  TSR_CHECK(*again == json, written);
  TSR_CHECK(again->to_string() == written, written);
}

}  // namespace
}  // namespace tessera

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera::try_json({reinterpret_cast<const char*>(data), size});
  return 0;
}
