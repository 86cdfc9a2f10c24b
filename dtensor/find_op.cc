// An op by its name or number, looked up once for each Runtime.
#include "dtensor/dispatch.h"
#include "dtensor/dispatch_cache.h"
#include "dtensor/known_op.h"

namespace tessera {
namespace {

/// What was found before an op was amended is found again.
void forget_amended(Runtime& runtime) {
  DispatchCache& cache = runtime.cache();
  if (cache.num_amendments == runtime.ops().num_amendments()) [[likely]]
    return;
  cache.known.fill(nullptr);
  cache.by_name.clear();
  cache.num_amendments = runtime.ops().num_amendments();
}

}  // namespace

const Op& find_op(Runtime& runtime, std::string_view name) {
  forget_amended(runtime);
  auto& by_name = runtime.cache().by_name;
  const auto found = by_name.find(to_absl(name));
  if (found != by_name.end()) return *found->second;
  const Op* op = value_or_throw(runtime.ops().find(name));
  by_name.emplace(std::string(name), op);
  return *op;
}

const Op& find_op(Runtime& runtime, KnownOp op) {
  forget_amended(runtime);
  const Op*& known = runtime.cache().known[static_cast<std::size_t>(op)];
  if (known == nullptr) known = &find_op(runtime, name_of(op));
  return *known;
}

}  // namespace tessera
