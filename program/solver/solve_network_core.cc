#include "program/solver/solve_network_core.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace tessera::network {
namespace {

/// Parallel links are joined where their one table has no more entries.
constexpr std::size_t kMaxJoined = 4096;

void transpose(Link& link) {
  std::vector<double> turned(link.costs.size());
  for (int r = 0; r < link.rows; ++r) {
    for (int c = 0; c < link.columns; ++c) {
      turned[static_cast<std::size_t>(c) * link.rows + r] = link.row(r)[c];
    }
  }
  std::swap(link.a, link.b);
  std::swap(link.port_a, link.port_b);
  std::swap(link.rows, link.columns);
  link.costs = std::move(turned);
}

/// Of terms that do not wait for each other: tables are hashed often.
std::uint64_t hash_of(const double* row, int size) {
  std::uint64_t sum = 0, factor = 0x9e3779b97f4a7c15ULL;
  for (int i = 0; i < size; ++i, factor += 0xbf58476d1ce4e5baULL) {
    const std::uint64_t bits = std::bit_cast<std::uint64_t>(row[i]);
    sum += (bits ^ (bits >> 29)) * factor;
  }
  return sum;
}

/// Rows that states use, each of equal ones once.
void compress_rows(Link& link) {
  constexpr std::uint16_t kNone = 0xffff;
  std::vector<std::uint16_t> to(static_cast<std::size_t>(link.rows), kNone);
  std::vector<char> used(static_cast<std::size_t>(link.rows));
  for (const std::uint16_t port : link.port_a) used[port] = 1;
  absl::flat_hash_map<std::uint64_t, std::uint16_t> seen;
  std::vector<double> costs;
  int rows = 0;
  for (int r = 0; r < link.rows; ++r) {
    if (used[r] == 0) continue;
    const double* row = link.row(r);
    const auto [found, is_new] =
        seen.try_emplace(hash_of(row, link.columns), static_cast<std::uint16_t>(rows));
    to[r] = found->second;
    const double* like = costs.data() + static_cast<std::size_t>(to[r]) * link.columns;
    if (!is_new && std::equal(row, row + link.columns, like)) continue;
    to[r] = static_cast<std::uint16_t>(rows);
    costs.insert(costs.end(), row, row + link.columns);
    ++rows;
  }
  if (rows == link.rows) return;
  for (std::uint16_t& port : link.port_a) port = to[port];
  link.rows = rows;
  link.costs = std::move(costs);
}

/// A link of one row or column is a cost of the other variable's states.
bool fold(Core& core, Link& link) {
  if (link.rows != 1 && link.columns != 1) return false;
  const bool is_of_b = link.rows == 1;
  std::vector<double>& unary = core.unary[is_of_b ? link.b : link.a];
  const std::vector<std::uint16_t>& ports = is_of_b ? link.port_b : link.port_a;
  for (std::size_t s = 0; s < unary.size(); ++s) unary[s] += link.costs[ports[s]];
  return true;
}

/// Ports that tell what both tell, numbered as they occur.
struct JoinedPorts {
  std::vector<std::uint16_t> ports;
  std::vector<std::pair<std::uint16_t, std::uint16_t>> parts;
};
JoinedPorts join_ports(const std::vector<std::uint16_t>& first,
                       const std::vector<std::uint16_t>& second) {
  JoinedPorts joined;
  absl::flat_hash_map<std::pair<std::uint16_t, std::uint16_t>, std::uint16_t> numbers;
  for (std::size_t s = 0; s < first.size(); ++s) {
    const std::pair<std::uint16_t, std::uint16_t> pair(first[s], second[s]);
    const auto [found, is_new] =
        numbers.try_emplace(pair, static_cast<std::uint16_t>(joined.parts.size()));
    if (is_new) joined.parts.push_back(pair);
    joined.ports.push_back(found->second);
  }
  return joined;
}

/// Adds `more`, which links the same variables in the same order, unless the table grows too large.
bool join_into(Link& link, const Link& more) {
  const JoinedPorts rows = join_ports(link.port_a, more.port_a);
  const JoinedPorts columns = join_ports(link.port_b, more.port_b);
  const std::size_t size = rows.parts.size() * columns.parts.size();
  if (size > kMaxJoined && size > link.costs.size() + more.costs.size()) return false;
  std::vector<double> costs;
  costs.reserve(size);
  for (const auto& [row, more_row] : rows.parts) {
    for (const auto& [column, more_column] : columns.parts) {
      costs.push_back(link.row(row)[column] + more.row(more_row)[more_column]);
    }
  }
  link.port_a = rows.ports;
  link.port_b = columns.ports;
  link.rows = static_cast<int>(rows.parts.size());
  link.columns = static_cast<int>(columns.parts.size());
  link.costs = std::move(costs);
  return true;
}

void join_parallel(Core& core) {
  std::map<std::pair<int, int>, std::vector<std::size_t>> between;
  std::vector<Link> links;
  for (Link& link : core.links) {
    if (link.a > link.b) transpose(link);
    std::vector<std::size_t>& others = between[{link.a, link.b}];
    const bool is_joined = std::any_of(others.begin(), others.end(), [&](std::size_t other) {
      return join_into(links[other], link);
    });
    if (is_joined) continue;
    others.push_back(links.size());
    links.push_back(std::move(link));
  }
  core.links = std::move(links);
}

/// The ports that occur, in order; `ports` become numbers of these.
std::vector<std::uint16_t> number_ports(std::vector<std::uint16_t>& ports, int num_ports) {
  std::vector<std::uint16_t> to(static_cast<std::size_t>(num_ports)), used;
  std::vector<char> occurs(static_cast<std::size_t>(num_ports));
  for (const std::uint16_t port : ports) occurs[port] = 1;
  for (int port = 0; port < num_ports; ++port) {
    if (occurs[port] == 0) continue;
    to[port] = static_cast<std::uint16_t>(used.size());
    used.push_back(static_cast<std::uint16_t>(port));
  }
  for (std::uint16_t& port : ports) port = to[port];
  return used;
}

Link link_of(const CostEdge& edge) {
  Link link{.a = edge.a, .b = edge.b, .port_a = edge.port_a, .port_b = edge.port_b};
  const std::vector<std::uint16_t> rows = number_ports(link.port_a, edge.table->rows);
  const std::vector<std::uint16_t> columns = number_ports(link.port_b, edge.table->columns);
  link.rows = static_cast<int>(rows.size());
  link.columns = static_cast<int>(columns.size());
  link.costs.reserve(rows.size() * columns.size());
  for (const std::uint16_t row : rows) {
    for (const std::uint16_t column : columns) {
      const double cost = edge.table->at(row, column);
      link.costs.push_back(cost == kForbidden ? cost : edge.weight * cost);
    }
  }
  return link;
}

template <class T>
void keep_some(std::vector<T>& list, const std::vector<char>& keep) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (keep[i] != 0) list[next++] = list[i];
  }
  list.resize(next);
}

}  // namespace

std::vector<std::vector<int>> Core::links_of() const {
  std::vector<std::vector<int>> of(unary.size());
  for (std::size_t i = 0; i < links.size(); ++i) {
    of[links[i].a].push_back(static_cast<int>(i));
    of[links[i].b].push_back(static_cast<int>(i));
  }
  return of;
}

std::vector<int> Core::network_states(const std::vector<int>& states) const {
  std::vector<int> result(states.size());
  for (std::size_t v = 0; v < states.size(); ++v) result[v] = state_of[v][states[v]];
  return result;
}

Core make_core(const CostNetwork& network) {
  Core core;
  for (int v = 0; v < network.num_variables(); ++v) {
    core.unary.push_back(network.costs_of(v));
    std::vector<int>& states = core.state_of.emplace_back();
    for (int s = 0; s < network.num_states(v); ++s) states.push_back(s);
  }
  for (const CostEdge& edge : network.edges()) {
    if (edge.a != edge.b) {
      core.links.push_back(link_of(edge));
      continue;
    }
    for (int s = 0; s < network.num_states(edge.a); ++s) core.unary[edge.a][s] += edge.at(s, s);
  }
  for (const CostCap& cap : network.caps()) {
    core.limits.push_back(cap.limit);
    core.amounts.emplace_back(static_cast<std::size_t>(network.num_variables()));
    for (const CostCap::Amounts& each : cap.amounts) {
      core.amounts.back()[each.variable] = each.of_state;
    }
  }
  return core;
}

void keep_states(Core& core, const std::vector<std::vector<int>>& links_of, int v,
                 const std::vector<char>& keep) {
  keep_some(core.unary[v], keep);
  keep_some(core.state_of[v], keep);
  for (std::vector<std::vector<double>>& of : core.amounts) {
    if (!of[v].empty()) keep_some(of[v], keep);
  }
  for (const int i : links_of[v]) {
    keep_some(core.links[i].a == v ? core.links[i].port_a : core.links[i].port_b, keep);
  }
}

void compress(Core& core) {
  join_parallel(core);
  std::vector<Link> links;
  for (Link& link : core.links) {
    compress_rows(link);
    transpose(link);
    compress_rows(link);
    transpose(link);
    if (!fold(core, link)) links.push_back(std::move(link));
  }
  core.links = std::move(links);
}

Core with_fixed(const Core& core, const std::vector<int>& fixed) {
  Core result = core;
  const std::vector<std::vector<int>> links_of = core.links_of();
  for (int v = 0; v < core.num_variables(); ++v) {
    if (fixed[v] < 0 || core.num_states(v) == 1) continue;
    std::vector<char> keep(core.unary[v].size());
    keep[fixed[v]] = 1;
    keep_states(result, links_of, v, keep);
  }
  compress(result);
  return result;
}

}  // namespace tessera::network
