#include "dtensor/with_row.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "dtensor/dispatch.h"
#include "dtensor/dispatch_cache.h"

namespace tessera {

RowScope::RowScope(Runtime& runtime, std::string_view op, std::string_view row,
                   std::string_view axis, const Site& site)
    : runtime_(runtime) {
  const Op& known = find_op(runtime, op);
  if (row.find("->") != std::string_view::npos) {
    const StatusOr<RowPattern> pattern = parse_row(row, known.def.args.size());
    if (!pattern.ok()) {
      throw Error(invalid_argument(
          absl::StrFormat("with_row of %s: %s", op, message_of(pattern.status()))));
    }
  }
  const std::string by = site.line() == 0
                             ? "the caller"
                             : absl::StrFormat("with_row at %s:%d", site.file_name(), site.line());
  DispatchCache& cache = runtime.cache();
  cache.asked.push_back({std::string(op), {std::string(row), std::string(axis), by}});
  std::string all;
  for (const ForcedRow& each : asked_rows(cache, known)) {
    all += each.row + '\n' + each.axis + '\n' + each.by + '\n';
  }
  cache.asked.back().key = &cache.asked_keys[all];
}

RowScope::~RowScope() { runtime_.cache().asked.pop_back(); }

const Spec* asked_key(const DispatchCache& cache, const Op& op) {
  const auto found =
      std::find_if(cache.asked.rbegin(), cache.asked.rend(),
                   [&](const DispatchCache::AskedRow& each) { return each.op == op.def.name; });
  return found == cache.asked.rend() ? nullptr : found->key;
}

std::vector<ForcedRow> asked_rows(const DispatchCache& cache, const Op& op) {
  std::vector<ForcedRow> rows;
  for (const DispatchCache::AskedRow& each : cache.asked) {
    if (each.op == op.def.name) rows.push_back(each.row);
  }
  return rows;
}

}  // namespace tessera
