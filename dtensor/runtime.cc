#include "dtensor/runtime.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/strings/str_format.h"
#include "dtensor/dispatch_cache.h"
#include "runtime/gather_texts.h"

namespace tessera {

namespace {
struct SpecHash {
  std::size_t operator()(const Spec& spec) const noexcept { return spec.hash(); }
};
/// A number for what plans follow from, the same in every process; names do not count.
std::int64_t prices_of(Topology topology) {
  topology.name.clear();
  for (LinkClass& link : topology.links) link.name.clear();
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char letter : to_string(topology)) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
  }
  return static_cast<std::int64_t>(hash);
}

/// "1, 2 and 5".
std::string list_of(const std::vector<std::int64_t>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ") + std::to_string(ranks[i]);
  }
  return text;
}

/// `prices` of every rank. Where ranks are simulated all have this one's.
std::vector<std::int64_t> prices_of_all(World& world, std::int64_t prices) {
  const Array own = Array::empty({1}, DType::kI64, world.host_allocator());
  const Array all = Array::empty({world.size()}, DType::kI64, world.host_allocator());
  *own.data<std::int64_t>() = prices;
  std::fill_n(all.data<std::int64_t>(), world.size(), prices);
  everyone(world).all_gather(own, all, {}, {.tensor = "topology", .log = CallLog::kNo});
  return {all.data<std::int64_t>(), all.data<std::int64_t>() + world.size()};
}

/// `topology`, which all ranks have. Collective: yes.
const Topology& agreed_on(World& world, const Topology& topology) {
  throw_if_error(validate(topology));
  if (world.size() == 1) return topology;
  const std::vector<std::int64_t> prices = prices_of_all(world, prices_of(topology));
  std::vector<std::int64_t> others;
  for (std::int64_t rank = 1; rank < world.size(); ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    if (prices[at] != prices[0]) others.push_back(rank);
  }
  if (others.empty()) return topology;
  const std::vector<std::string> texts = gather_texts(world, to_string(topology));
  throw Error(invalid_argument(absl::StrFormat(
      "topology: %s %s another one than rank 0, and plans would differ; give all ranks the same. "
      "[rank 0: %s. rank %d: %s]",
      (others.size() == 1 ? "rank " : "ranks ") + list_of(others),
      others.size() == 1 ? "has" : "have", texts[0], others[0],
      texts[static_cast<std::size_t>(others[0])])));
}

}  // namespace

struct Runtime::SpecTable {
  // Nodes keep their address; a coord stands beside the spec that it belongs to.
  absl::node_hash_map<Spec, std::optional<Coord>, SpecHash> specs;
  absl::flat_hash_map<const Spec*, const Coord*> coords;
};

Runtime::Runtime(World& world, const std::optional<Topology>& topology)
    : world_(&world),
      topology_(topology ? agreed_on(world, *topology) : value_or_throw(topology_preset("host"))),
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
