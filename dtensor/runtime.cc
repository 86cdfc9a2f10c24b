#include "dtensor/runtime.h"

#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "dtensor/dispatch_cache.h"

namespace tessera {

namespace {
struct SpecHash {
  std::size_t operator()(const Spec& spec) const noexcept { return spec.hash(); }
};
}  // namespace

struct Runtime::SpecTable {
  // Nodes keep their address; a coord stands beside the spec that it belongs to.
  absl::node_hash_map<Spec, std::optional<Coord>, SpecHash> specs;
  absl::flat_hash_map<const Spec*, const Coord*> coords;
};

Runtime::Runtime(World& world)
    : world_(&world),
      specs_(std::make_unique<SpecTable>()),
      cache_(std::make_unique<DispatchCache>()) {
  add_builtin_ops(ops_);
  kernels_.threads = host_kernels_.threads = world.threads_per_rank();
  kernels_.allocator = world.allocator();
  kernels_.device = &world.device();
  host_kernels_.allocator = world.host_allocator();
}

Runtime::~Runtime() = default;

const Spec* Runtime::intern(Spec spec) {
  const auto found = specs_->specs.find(spec);
  if (found != specs_->specs.end()) return &found->first;
  std::optional<Coord> coord = spec.mesh().coord_of(rank());
  if (spec.mesh().ndim() == 0) coord = Coord{};  // a plain tensor lies on whichever rank made it
  const auto added = specs_->specs.emplace(std::move(spec), std::move(coord)).first;
  specs_->coords.emplace(&added->first, added->second ? &*added->second : nullptr);
  return &added->first;
}

const Coord* Runtime::coord_on(const Spec* spec) {
  const auto found = specs_->coords.find(spec);
  TSR_CHECK(found != specs_->coords.end(), "a spec that was not interned: " + spec->to_string());
  return found->second;
}

ModuleScope::ModuleScope(Runtime& runtime, std::string_view name) : runtime_(runtime) {
  std::string path = runtime.events().module();
  if (!path.empty() && !name.empty()) path += '.';
  path += name;
  runtime.cache().module = &*runtime.cache().modules.insert(path).first;
  before_ = runtime.events().set_module(std::move(path));
}

ModuleScope::~ModuleScope() {
  runtime_.cache().module =
      before_.empty() ? nullptr : &*runtime_.cache().modules.insert(before_).first;
  runtime_.events().set_module(std::move(before_));
}

}  // namespace tessera
