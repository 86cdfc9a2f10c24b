#include "dtensor/with_row.h"

#include "absl/strings/str_format.h"
#include "dtensor/dispatch.h"

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
  runtime.cache().forced.push_back({std::string(op), {std::string(row), std::string(axis), by}});
}

RowScope::~RowScope() { runtime_.cache().forced.pop_back(); }

ForcedCall forced_rows(Runtime& runtime, const Op& op) {
  DispatchCache& cache = runtime.cache();
  ForcedCall call;
  std::string text;
  for (const auto& [name, forced] : cache.forced) {
    if (name != op.def.name) continue;
    call.rows.push_back(forced);
    text += forced.row + '\n' + forced.axis + '\n' + forced.by + '\n';
  }
  if (!call.rows.empty()) call.key = &cache.forced_keys[text];
  return call;
}

}  // namespace tessera
