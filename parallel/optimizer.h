// parallel/optimizer.h: AdamW, Adam, SGD and Muon over parameters on several meshes; state is
// placed like the parameters, but for Muon's, which is with the owners of the matrices.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/optimizer.h"
#include "parallel/param_groups.h"
#include "parallel/parameter.h"
#include "placement/api.h"

namespace tessera TSR_API {

enum class OptimizerKind : std::uint8_t {
  kAdamW,  ///< weight decay on the parameter itself. Source: Loshchilov and Hutter, 2019
  kAdam,   ///< weight decay is part of the gradient
  kSgd,    ///< the same, with momentum where it is not 0
  kMuon    ///< of hidden matrices (parallel/muon.h); AdamW of all others
};
enum class Momentum : std::uint8_t { kPlain, kNesterov };

struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;  ///< AdamW and Adam
  double weight_decay = 0.1;
  double momentum = 0.0;  ///< SGD and Muon
  Momentum momentum_form = Momentum::kPlain;
  std::optional<DType> state_dtype = {};  ///< the parameter's unless given; BF16 halves the state
  std::vector<ParamGroup> groups = {};    ///< none: all parameters share the settings above
  /// Names of trainable parameters of all pipeline stages, for the patterns of groups; those of the
  /// set itself may be among them.
  std::vector<std::string> names_elsewhere = {};
};

/// A part of an optimizer's state as checkpoints know it.
struct NamedTensor {
  std::string name;
  DTensor tensor;
};

/// Updates the parameters of a set that are trainable when it is made; frozen ones (no gradient
/// required) have no state and are passed over. No communication, but for Muon's.
class Optimizer {
 public:
  /// `parameters` must outlive it. Throws Error: those of assign_groups(); InvalidArgument for a
  /// state_dtype that is neither BF16 nor the parameters'.
  Optimizer(ParameterSet& parameters, OptimizerConfig config);

  /// One update with the gradients that the parameters hold; a missing one counts as zero.
  /// `grad_scale` multiplies every gradient on the way in (clipping). Collective: with Muon, see
  /// muon_step().
  void step(double lr, double grad_scale);
  /// The same, steered by values of the device (plain; kernels::Steering): nothing waits for them.
  /// They give the number of the step; num_steps() counts on by one.
  void step(const DTensor& steering);
  /// The same by an op of the table for each parameter, for programs of ops: `steering` lies on the
  /// parameters' mesh. Throws Error(Unimplemented) for SGD.
  void step_openly(const DTensor& steering);

  /// Makes the state, as zeros, where the first step has not.
  void materialize();
  /// "optimizer.<parameter>.first" (the mean of gradients, or the momentum of SGD and Muon) and
  /// ".second" (the mean of their squares), in the order of the parameters; SGD without momentum
  /// has none.
  std::vector<NamedTensor> state_tensors();
  std::int64_t num_steps() const noexcept { return num_steps_; }
  void set_num_steps(std::int64_t num_steps) noexcept { num_steps_ = num_steps; }
  const OptimizerConfig& config() const noexcept { return config_; }

 private:
  struct Slot {
    Parameter* parameter = nullptr;
    std::size_t group = 0;
    DTensor first, second;
    std::optional<Spec> owned = {};  ///< where Muon works on it; nullopt: another optimizer does
  };
  void choose_owners();
  int num_states(const Slot& slot) const;
  void update_matrices(std::size_t group, const DTensor& steering);
  void update(std::size_t group, const DTensor& steering);
  kernels::AdamWOptions adam_options(const ParamGroup& group) const;
  kernels::SgdOptions sgd_options(const ParamGroup& group) const;

  OptimizerConfig config_;
  std::vector<Slot> slots_;
  std::int64_t num_steps_ = 0;
};

}  // namespace tessera
