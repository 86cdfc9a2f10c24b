// parallel/parameter.h: a model's parameters: how each is stored (FSDP shards it), and how it is
// used. FSDP is a placement: a used parameter is replicated on the fsdp axis, and the backward of
// its gather is the reduce-scatter. Parameters of one unit travel together, see parallel/fsdp.h.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "dtensor/ops.h"
#include "parallel/mesh_views.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// How a parameter gets its first values; random ones depend on (seed, name, global index) only.
struct Init {
  enum class Kind : std::uint8_t { kOnes, kZeros, kNormal, kTruncatedNormal };
  Kind kind = Kind::kOnes;
  double std = 1.0;
  double bound = 2.0;  ///< kTruncatedNormal: values stay in [−bound, bound]
};

/// Writes first values into a tensor, by the global index of each element: the same whatever its
/// placement. No communication.
void initialize(DTensor& values, const Init& init, const RandomArgs& random);

struct ParameterDecl {
  std::string name;
  Shape shape;
  Mesh mesh;
  Placements used;             ///< one per axis of `mesh`; R on `fsdp_axes`
  std::vector<int> fsdp_axes;  ///< that cut it in storage, the first one coarsest; may be none
  int fsdp_dim = 0;            ///< the tensor dim that they cut, after every other axis
  Init init = {};
  std::optional<DType> used_dtype = {};  ///< default: the set's type of computation
  bool frozen = false;                   ///< has no gradient, and is not updated
};

class FsdpUnit;

/// One parameter. Its address is stable in its ParameterSet.
class Parameter {
 public:
  Parameter(DTensor stored, Spec used, Init init)
      : stored_(std::move(stored)), used_(std::move(used)), init_(init) {}

  const std::string& name() const { return stored_.name(); }
  DTensor& stored() noexcept { return stored_; }
  const DTensor& stored() const noexcept { return stored_; }
  const Spec& used_spec() const noexcept { return used_; }
  const Init& init() const noexcept { return init_; }
  /// The parameter as the forward pass needs it, in `compute` type. Inside an FsdpUse of its unit
  /// it is there; else it is gathered alone. Collective: all-gather along the fsdp axis; backward:
  /// reduce-scatter.
  DTensor use(DType compute, const Site& site = Site::current()) const;
  /// What use() returns while its unit is gathered; undefined: nothing.
  void set_gathered(DTensor gathered) { gathered_ = std::move(gathered); }

 private:
  DTensor stored_;
  DTensor gathered_;
  Spec used_;
  Init init_;
};

class ParameterSet {
 public:
  /// Parameters are stored in `dtype` and used in `compute`, unless they say otherwise.
  ParameterSet(Runtime& runtime, DType dtype, const FsdpPolicy& policy = {},
               std::optional<DType> compute = {});
  ~ParameterSet();
  ParameterSet(const ParameterSet&) = delete;
  ParameterSet& operator=(const ParameterSet&) = delete;
  /// Throws Error for a name in use or placements that do not fit.
  Parameter& add(const ParameterDecl& decl);
  /// Parameters added from now on belong to this unit, until another one begins. Units are declared
  /// in the order of their use. Its address is stable.
  FsdpUnit& begin_unit(const std::string& name);
  std::span<const std::unique_ptr<FsdpUnit>> units() const { return units_; }
  Runtime& runtime() noexcept { return runtime_; }
  Parameter* find(std::string_view name);
  std::deque<Parameter>& all() noexcept { return parameters_; }
  /// Elements of all parameters, global.
  std::int64_t num_elements() const;
  /// Fills every parameter by its Init. No communication.
  void initialize(std::uint64_t seed);
  void clear_grads();
  /// After the last micro-batch of a step: brings home the gradients that the policy has kept, and
  /// gives back what was gathered for later micro-batches. Collective: yes, in units' order.
  void finish_gradients(const Site& site = Site::current());

 private:
  Runtime& runtime_;
  DType dtype_;
  DType compute_;
  FsdpPolicy policy_;
  std::vector<std::unique_ptr<FsdpUnit>> units_;
  std::deque<Parameter> parameters_;
  absl::flat_hash_map<std::string, Parameter*> by_name_;
};

/// The storage spec of a tensor used as `used`: `axes` (replicated there) cut `dim`, one after the
/// other, after all axes that cut it already. Works on any mesh, named or not, with any placements
/// before. Errors: InvalidArgument where an axis is taken.
StatusOr<Spec> fsdp_storage(const Spec& used, std::span<const int> axes, int dim);
/// The dim that FSDP cuts of expert weights (E, …): 1 where shards of dim 0 would be fewer than the
/// ranks that cut it (efsdp·ep > E), else 0. Source: torchtitan #1561.
constexpr int expert_fsdp_dim(std::int64_t efsdp, std::int64_t ep, std::int64_t num_experts) {
  return efsdp * ep > num_experts ? 1 : 0;
}
static_assert(expert_fsdp_dim(2, 4, 8) == 0);
static_assert(expert_fsdp_dim(2, 4, 4) == 1);

}  // namespace tessera
