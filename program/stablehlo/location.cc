#include "program/stablehlo/location.h"

#include <algorithm>
#include <array>
#include <vector>

#include "io/json.h"

namespace tessera::stablehlo {
namespace {

constexpr std::size_t kMaxSiteBytes = 500;
constexpr std::size_t kMaxModuleBytes = 1000;  // as the reader of programs allows

/// The parts between slashes that stand in no brackets.
std::vector<std::string_view> parts_of(std::string_view name) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= name.size(); ++i) {
    if (i == name.size() || (name[i] == '/' && depth == 0)) {
      if (i > begin) parts.push_back(name.substr(begin, i - begin));
      begin = i + 1;
    } else if (name[i] == '(') {
      ++depth;
    } else if (name[i] == ')') {
      depth = std::max(0, depth - 1);
    }
  }
  return parts;
}

/// "jvp" of "jvp(loss)", whose inside is left in `part`; "" where it is no transform.
std::string_view take_transform(std::string_view& part) {
  const std::size_t open = part.find('(');
  if (open == std::string_view::npos || open == 0 || part.back() != ')') return {};
  const std::string_view name = part.substr(0, open);
  part = part.substr(open + 1, part.size() - open - 2);
  return name;
}

class ScopeReader {
 public:
  void add(std::string_view part, bool is_last) {
    bool is_call = false;
    for (std::string_view transform = take_transform(part); !transform.empty();
         transform = take_transform(part)) {
      if (transform == "transpose") scope_.phase = StepPhase::kBackward;
      if (transform == "jvp" && !scope_.phase) scope_.phase = StepPhase::kForward;
      is_call = is_call || transform == "jit" || transform == "pjit";
    }
    if (part == "rematted_computation") scope_.phase = StepPhase::kRecompute;
    constexpr std::array kOfJax = {"rematted_computation",
                                   "checkpoint",
                                   "remat",
                                   "pjit",
                                   "while",
                                   "body",
                                   "cond",
                                   "closed_call",
                                   "shard_map",
                                   "custom_jvp_call",
                                   "custom_vjp_call",
                                   "core_call",
                                   ""};
    const bool is_equation = part.find("->") != std::string_view::npos;  // jnp.einsum's own
    if (is_last || is_call || is_equation || std::ranges::find(kOfJax, part) != kOfJax.end())
      return;
    if (scope_.module.size() + part.size() + 1 > kMaxModuleBytes) return;
    if (!scope_.module.empty()) scope_.module += '.';
    for (const char c : part) scope_.module += c == '.' ? '_' : c;
  }
  Scope take() { return std::move(scope_); }

 private:
  Scope scope_;
};

}  // namespace

Scope parse_scope(std::string_view name) {
  ScopeReader reader;
  const std::vector<std::string_view> parts = parts_of(name);
  for (std::size_t i = 0; i < parts.size(); ++i) reader.add(parts[i], i + 1 == parts.size());
  return reader.take();
}

Status Locations::define(std::string_view alias, Lexer& lexer) {
  TSR_RETURN_IF_ERROR(lexer.expect(Token::Kind::kWord, "loc").status());
  TSR_ASSIGN_OR_RETURN(const Token open, lexer.peek());
  TSR_RETURN_IF_ERROR(read_node(lexer).status());
  places_[std::string(alias)] = open.offset;
  return absl::OkStatus();
}

Location Locations::of_alias(std::string_view alias, int depth) const {
  const std::string key(alias);
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  const auto place = places_.find(key);
  if (place == places_.end()) return {};
  known_.emplace(key, Location());  // one that refers to itself ends here
  Lexer lexer(*text_, place->second);
  const StatusOr<Node> brackets = read_node(lexer);  // was read by define()
  if (!brackets.ok()) return {};
  Location location = of(Nodes(brackets->inside), depth - 1);
  known_[key] = location;
  return location;
}

Location Locations::of(Nodes nodes, int depth) const {
  if (nodes.empty() || depth <= 0) return {};
  const Node& first = nodes[0];
  if (first.kind == Node::Kind::kToken && first.token.kind == Token::Kind::kAlias) {
    return of_alias(first.token.text, depth);
  }
  if (first.is_string() && nodes.size() >= 3 && nodes[1].is(':')) {
    std::string site = std::string(first.token.text) + ':' + std::string(nodes[2].token.text);
    if (site.size() > kMaxSiteBytes) return {};
    return {.name = {}, .site = std::move(site)};
  }
  if (first.is_string()) {
    Location inside;
    if (nodes.size() > 1 && nodes[1].is_group('(')) inside = of(nodes[1].inside, depth - 1);
    inside.name = std::string(first.token.text);
    return inside;
  }
  // The callee stands first: the innermost line of the user's.
  const bool calls = first.is_word("callsite"), fuses = first.is_word("fused");
  if (calls || fuses) {
    for (const Node& node : nodes.subspan(1)) {
      if (!node.is_group('(') && !node.is_group('[')) continue;
      return of(node.inside, depth - 1);
    }
  }
  return {};
}

}  // namespace tessera::stablehlo
