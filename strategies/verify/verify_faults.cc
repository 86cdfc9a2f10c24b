#include "strategies/verify/verify_faults.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "kernels/elementwise.h"
#include "strategies/verify/verify_cotangent.h"
#include "strategies/verify/verify_derived.h"
#include "strategies/verify/verify_soundness.h"
#include "strategies/verify/verify_storage.h"

namespace tessera {
namespace {

/// Counts the calls that ran into a fault.
using Hits = std::shared_ptr<int>;

struct Fault {
  std::string what;
  OpDef def;
  Hits hits = std::make_shared<int>(0);
};

bool is_empty(const Array& array) { return !array.is_null() && array.num_elements() == 0; }

/// Counts a hit where `change` alters what `output` holds.
template <class Change>
void alter(const Array& output, const Hits& hits, const Change& change) {
  const std::vector<double> before = output.to_vector();
  change();
  const std::vector<double> after = output.to_vector();
  for (std::size_t i = 0; i < before.size(); ++i) {
    const bool alike = before[i] == after[i] && std::signbit(before[i]) == std::signbit(after[i]);
    if (!alike) ++*hits;
  }
}

/// A reduction of nothing gives `value`, whatever its kind.
Kernel with_wrong_identity(const Kernel& kernel, double value, const Hits& hits) {
  return [kernel, value, hits](KernelCall& call) {
    kernel(call);
    // What one rank computes stays right: it is what the others are measured by.
    const bool nothing =
        !call.output_views.empty() && std::any_of(call.inputs.begin(), call.inputs.end(), is_empty);
    for (const Array& output : call.outputs) {
      if (!nothing || output.is_null() || output.num_elements() == 0) continue;
      alter(output, hits, [&] { kernels::fill(call.ctx, value, output); });
    }
  };
}

/// What is written, or given as a view, is a copy.
Kernel with_lost_write(const Kernel& kernel, const Hits& hits) {
  return [kernel, hits](KernelCall& call) {
    kernel(call);
    for (Array& output : call.outputs) {
      if (output.is_null() || output.num_elements() == 0) continue;
      ++*hits;
      const Array copy = Array::empty(output.shape(), output.dtype());
      kernels::copy(call.ctx, output, copy);
      output = copy;
    }
  };
}

/// Operand `operand` is read from its first element on as if it were contiguous.
Kernel with_dense_operand(const Kernel& kernel, std::size_t operand, const Hits& hits) {
  return [kernel, operand, hits](KernelCall& call) {
    std::vector<Array> inputs(call.inputs.begin(), call.inputs.end());
    Array& read = inputs[operand];
    if (!read.is_null() && !read.is_contiguous()) {
      ++*hits;
      read = read.as_strided(read.shape(), contiguous_strides(read.shape()), read.offset());
    }
    call.inputs = inputs;
    kernel(call);
  };
}

/// What another rank holds is read as +0.
Kernel with_unsigned_zeros(const Kernel& kernel, const Hits& hits) {
  return [kernel, hits](KernelCall& call) {
    kernel(call);
    if (call.absent != kernels::Absent::kSkip) return;
    for (const Array& output : call.outputs) {
      if (!is_floating(output.dtype())) continue;
      alter(output, hits,
            [&] { kernels::binary_scalar(call.ctx, kernels::Binary::kAdd, output, 0.0, output); });
    }
  };
}

/// A rank's share without elements is refused.
Kernel with_refused_emptiness(const Kernel& kernel, const Hits& hits) {
  return [kernel, hits](KernelCall& call) {
    if (std::any_of(call.inputs.begin(), call.inputs.end(), is_empty)) {
      ++*hits;
      throw Error(invalid_argument("no elements"));
    }
    kernel(call);
  };
}

/// A gradient's calls, of which those that select multiply by what is 0 or 1 instead.
class MaskProducts final : public GradContext {
 public:
  MaskProducts(GradContext& inner, Hits hits) : inner_(inner), hits_(std::move(hits)) {}
  Var input(int i) override { return inner_.input(i); }
  Var output(int i) override { return inner_.output(i); }
  Var cotangent(int i) override { return inner_.cotangent(i); }
  const Attrs& attrs() const override { return inner_.attrs(); }
  int num_inputs() const override { return inner_.num_inputs(); }
  bool needs(int i) const override { return inner_.needs(i); }
  const Shape& input_shape(int i) const override { return inner_.input_shape(i); }
  DType input_dtype(int i) const override { return inner_.input_dtype(i); }
  const Shape& output_shape(int i) const override { return inner_.output_shape(i); }
  const Shape& shape(Var value) const override { return inner_.shape(value); }
  DType dtype(Var value) const override { return inner_.dtype(value); }
  std::vector<Var> call_all(std::string_view op, std::span<const Var> operands,
                            const Attrs& attrs) override {
    if (op == "where") {
      return {sum(kept(operands[1], operands[0]), kept(operands[2], inverse(operands[0])))};
    }
    const bool drops = (op == "where_scalar" && attrs.get_double("other") == 0.0) ||
                       (op == "masked_fill" && attrs.get_double("value") == 0.0);
    if (!drops) return inner_.call_all(op, operands, attrs);
    if (op == "where_scalar") return {kept(operands[1], operands[0])};
    return {kept(operands[0], inverse(operands[1]))};
  }

 private:
  Var sum(Var a, Var b) { return inner_.call("add", {a, b}); }
  Var inverse(Var mask) { return inner_.call("logical_not", {mask}); }
  Var kept(Var value, Var mask) {
    ++*hits_;
    return inner_.call("mul", {value, inner_.call("to", {mask}, {{"dtype", dtype(value)}})});
  }

  GradContext& inner_;
  Hits hits_;
};

Gradient with_mask_products(const Gradient& gradient, const Hits& hits) {
  return [gradient, hits](GradContext& c) {
    MaskProducts products(c, hits);
    return gradient(products);
  };
}

std::vector<Fault> faults_of(const Op& op) {
  std::vector<Fault> faults;
  const auto plant = [&](std::string what, const std::function<void(Fault&)>& change) {
    Fault& fault = faults.emplace_back(Fault{std::move(what), op.def});
    change(fault);
  };
  const Kernel& kernel = op.def.kernel;
  for (const double value : {0.0, 1.0}) {
    plant("a reduction of nothing gives " + std::to_string(int(value)),
          [&](Fault& fault) { fault.def.kernel = with_wrong_identity(kernel, value, fault.hits); });
  }
  if (op.mutates() || op.def.is_view) {
    plant("a write or a view is a copy",
          [&](Fault& fault) { fault.def.kernel = with_lost_write(kernel, fault.hits); });
  }
  plant("what another rank holds is read as +0",
        [&](Fault& fault) { fault.def.kernel = with_unsigned_zeros(kernel, fault.hits); });
  for (std::size_t i = 0; i < std::min<std::size_t>(op.def.args.size(), 4); ++i) {
    if (std::count(op.in_place.begin(), op.in_place.end(), static_cast<int>(i)) > 0) continue;
    plant("operand " + std::to_string(i) + " is read as if contiguous",
          [&](Fault& fault) { fault.def.kernel = with_dense_operand(kernel, i, fault.hits); });
  }
  plant("a share without elements is refused",
        [&](Fault& fault) { fault.def.kernel = with_refused_emptiness(kernel, fault.hits); });
  if (op.def.gradient != nullptr && op.def.cotangent_spreads.empty()) {
    plant("a gradient multiplies by a mask", [&](Fault& fault) {
      fault.def.gradient = with_mask_products(op.def.gradient, fault.hits);
    });
  }
  return faults;
}

/// The checks of verify() on one sample and on those made of it.
class Noticing {
 public:
  Noticing(const OpTable& table, const Op& op, VerifyRandom& random)
      : table_(table), op_(op), random_(random) {
    options_.meshes = {{2}, {3}};
  }

  bool fails(const Sample& sample) {
    try {
      CaseSource source(op_, sample, random_);
      if (!storage_error(op_, source.as_given(), nullptr).empty()) return true;
      if (cotangent_spreads(source.as_given())) return true;
      SoundnessJudge(op_, options_, random_, findings_).judge_derived(source);
    } catch (const std::exception&) {
      return true;
    }
    if (any_failed()) return true;
    const std::vector<Sample> derived = derived_samples(op_, sample);
    return std::any_of(derived.begin(), derived.end(),
                       [&](const Sample& other) { return derived_fails(other); });
  }

 private:
  bool cotangent_spreads(const VerifyCase& test) const {
    return op_.def.gradient != nullptr && test.sample->differentiable &&
           op_.def.cotangent_spreads.empty() &&
           !cotangent_error(table_, op_, test.attrs, test.operands, options_.seed).empty();
  }
  bool derived_fails(const Sample& sample) {
    try {
      CaseSource source(op_, sample, random_);
      SoundnessJudge(op_, options_, random_, findings_).judge_derived(source);
    } catch (const Error& error) {
      return error.status().code() != absl::StatusCode::kOutOfRange;
    } catch (const std::exception&) {
      return true;
    }
    return any_failed();
  }
  bool any_failed() const { return findings_.any_failed(); }

  const OpTable& table_;
  const Op& op_;
  VerifyRandom& random_;
  VerifyOptions options_;
  Findings findings_;
};

bool is_noticed(const OpTable& table, const Op& op, VerifyRandom& random) {
  Noticing noticing(table, op, random);
  return std::any_of(op.def.samples.begin(), op.def.samples.end(),
                     [&](const Sample& sample) { return noticing.fails(sample); });
}

}  // namespace

MutantReport judge_faults(const OpTable& table, const Op& op, const VerifyOptions& options) {
  VerifyRandom random(options.seed);
  MutantReport report;
  for (Fault& fault : faults_of(op)) {
    OpTable faulty;
    fault.def.name = op.def.name;
    if (!faulty.add(std::move(fault.def)).ok()) continue;
    const bool noticed = is_noticed(table, *faulty.ops()[0], random);
    if (noticed) {
      ++report.refuted;
    } else if (*fault.hits == 0) {
      ++report.equivalent;
    } else {
      report.survivors.push_back({fault.what, op.def.rule, "every check passes with it"});
    }
  }
  return report;
}

}  // namespace tessera
