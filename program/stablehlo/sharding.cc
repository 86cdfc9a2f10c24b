#include "program/stablehlo/sharding.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "io/json.h"

namespace tessera::stablehlo {
namespace {

/// "dp", "tp":(1)2
class AxisReader {
 public:
  explicit AxisReader(const MlirText& text) : text_(text) {}

  StatusOr<std::vector<AxisRef>> read(const Node& set) {
    std::vector<AxisRef> axes;
    for (std::size_t i = 0; i < set.inside.size(); ++i) {
      const Node& node = set.inside[i];
      if (node.is(',') || node.is('?')) continue;
      if (!node.is_string()) {
        return text_.error(node.token.offset,
                           describe(node.token) + ": expected an axis such as \"x\" or \"x\":(1)2");
      }
      AxisRef& axis = axes.emplace_back();
      axis.name = std::string(node.token.text);
      axis.offset = node.token.offset;
      if (i + 3 >= set.inside.size() || !set.inside[i + 1].is(':')) continue;
      if (!set.inside[i + 2].is_group('(')) {
        return text_.error(node.token.offset, "expected a part of an axis as \"x\":(1)2");
      }
      TSR_ASSIGN_OR_RETURN(axis.before, integer_of(text_, set.inside[i + 2].inside));
      TSR_ASSIGN_OR_RETURN(axis.size, integer_of(text_, Nodes(&set.inside[i + 3], 1)));
      if (axis.before < 1 || axis.size < 2) {
        return text_.error(node.token.offset,
                           absl::StrFormat("a part (%d)%d of an axis; allowed are (1 or more) and "
                                           "2 or more",
                                           axis.before, axis.size));
      }
      i += 3;
    }
    return axes;
  }

 private:
  const MlirText& text_;
};

/// Behind the alias, inside of the angles.
const Node* angles_of(Nodes nodes) {
  for (const Node& node : nodes.subspan(0, std::min<std::size_t>(2, nodes.size()))) {
    if (node.is_group('<')) return &node;
  }
  return nullptr;
}

Status read_dims(const MlirText& text, const Node& list, Sharding& sharding) {
  for (const Node& node : list.inside) {
    // A priority, p0, only orders propagation.
    const bool priority = node.kind == Node::Kind::kToken &&
                          node.token.kind == Token::Kind::kWord && node.token.text[0] == 'p';
    if (node.is(',') || priority) continue;
    if (!node.is_group('{')) {
      return text.error(node.token.offset,
                        describe(node.token) + ": expected a dim's axes, such as {\"x\"} or {?}");
    }
    DimSharding& dim = sharding.dims.emplace_back();
    TSR_ASSIGN_OR_RETURN(dim.axes, AxisReader(text).read(node));
    dim.open = std::ranges::any_of(node.inside, [](const Node& each) { return each.is('?'); });
  }
  return absl::OkStatus();
}

}  // namespace

bool Sharding::is_free() const {
  return !dims.empty() && replicated.empty() && unreduced.empty() &&
         std::ranges::all_of(dims, [](const DimSharding& d) { return d.open && d.axes.empty(); });
}

StatusOr<std::vector<AxisRef>> parse_axes(const MlirText& text, const Node& group) {
  if (group.is_group('{')) return AxisReader(text).read(group);
  std::vector<AxisRef> axes;
  for (const Node& node : group.inside) {
    if (!node.is_group('{')) continue;
    TSR_ASSIGN_OR_RETURN(const std::vector<AxisRef> of_dim, AxisReader(text).read(node));
    axes.insert(axes.end(), of_dim.begin(), of_dim.end());
  }
  return axes;
}

StatusOr<Sharding> parse_sharding(const MlirText& text, Nodes nodes) {
  const Node* const angles = angles_of(nodes);
  const std::size_t offset = nodes.empty() ? 0 : nodes[0].token.offset;
  const char* const kForm = "expected a sharding such as <@mesh, [{\"x\"}, {}]>";
  if (angles == nullptr || angles->inside.size() < 3) return text.error(offset, kForm);
  const Nodes inside = angles->inside;
  Sharding sharding;
  sharding.offset = angles->token.offset;
  if (inside[0].token.kind != Token::Kind::kSymbol) {
    return text.error(inside[0].token.offset,
                      describe(inside[0].token) + ": expected a mesh's name, such as @mesh");
  }
  sharding.mesh = std::string(inside[0].token.text);
  if (!inside[2].is_group('[')) return text.error(inside[2].token.offset, kForm);
  TSR_RETURN_IF_ERROR(read_dims(text, inside[2], sharding));
  for (const auto& [key, axes] :
       {std::pair{"replicated", &sharding.replicated}, {"unreduced", &sharding.unreduced}}) {
    const Nodes found = find_attribute(inside, key);
    if (found.empty()) continue;
    if (!found[0].is_group('{')) {
      return text.error(found[0].token.offset, "expected axes in braces, such as {\"x\"}");
    }
    TSR_ASSIGN_OR_RETURN(*axes, AxisReader(text).read(found[0]));
  }
  return sharding;
}

StatusOr<std::vector<Sharding>> parse_shardings(const MlirText& text, Nodes nodes) {
  std::vector<Sharding> shardings;
  const Node* list = nullptr;
  for (const Node& node : nodes) {
    if (node.is_group('[')) list = &node;
    if (node.is_group('<') && !node.inside.empty()) list = &node.inside[0];
    if (list != nullptr) break;
  }
  if (list == nullptr || !list->is_group('[')) {
    return text.error(nodes.empty() ? 0 : nodes[0].token.offset,
                      "expected a list of shardings, such as [<@mesh, [{\"x\"}]>]");
  }
  for (const Node& node : list->inside) {
    if (node.is(',')) continue;
    TSR_ASSIGN_OR_RETURN(Sharding sharding, parse_sharding(text, Nodes(&node, 1)));
    shardings.push_back(std::move(sharding));
  }
  return shardings;
}

}  // namespace tessera::stablehlo
