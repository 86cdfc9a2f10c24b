#include "strategies/rules/binding.h"

#include <algorithm>

namespace tessera {
namespace {

using Positions = absl::InlinedVector<int, 4>;

/// The dims that one `@attr` names, normalised for the first operand that has it.
struct Listed {
  char letter = 0;
  std::string_view attr;
  Positions positions;
};

/// One dim before its factor is known.
struct Slot {
  const RuleDim* dim = nullptr;  // null: nothing stands here (a kept dim of size 1)
  int position = 0;
};
using Slots = absl::InlinedVector<Slot, 6>;

bool is_rest(const RuleDim& dim) {
  return dim.kind == RuleDim::Kind::kStar || dim.kind == RuleDim::Kind::kEllipsis;
}
bool has_rest(const RuleOperand& operand) {
  return std::any_of(operand.dims.begin(), operand.dims.end(), is_rest);
}
/// "; allowed are -2 to 1" of two dims; nothing where there is no dim to name.
std::string allowed_dims(int ndim) {
  if (ndim == 0) return "";
  return "; allowed are " + std::to_string(-ndim) + " to " + std::to_string(ndim - 1);
}
bool carries(const RuleOperand& operand, char letter) {
  return std::any_of(operand.dims.begin(), operand.dims.end(), [&](const RuleDim& dim) {
    return dim.kind == RuleDim::Kind::kGroup ? dim.group.find(letter) != std::string::npos
                                             : dim.letter == letter;
  });
}

class Binder {
 public:
  Binder(const Op& op, std::span<const TensorMeta> inputs, const Attrs& attrs)
      : op_(op), inputs_(inputs), attrs_(attrs) {
    binding_.inputs.resize(inputs.size());
    for (const RuleMark& mark : op.rule.marks) indexed_ = indexed_ || mark.indexed;
  }

  Status bind_inputs();
  Status bind_outputs(std::span<const TensorMeta> outputs);
  void check_sizes();
  void find_group_sizes();
  Status letters_agree() const;
  StatusOr<std::vector<Shape>> output_shapes();
  Binding take() { return std::move(binding_); }

 private:
  struct Occurrence {
    int factor;
    DimRef at;
    std::int64_t size;
  };

  StatusOr<Positions> listed_dims(std::string_view attr, int operand, int ndim) const;
  /// The `@attr` of a dim: its own, or for an output the one that its letter has in an input.
  const Listed* listed_of(const RuleOperand& operand, const RuleDim& dim) const;
  bool keeps_dims() const { return attrs_.get_bool_or("keepdim", false); }
  StatusOr<Slots> place(const RuleOperand& operand, int index, int ndim);
  Positions kept_positions(const RuleOperand& operand) const;
  int output_ndim(const RuleOperand& operand) const;
  void note(const Slots& slots, const Shape& shape, DimRef at, BoundOperand& bound);
  int factor_of(char letter, int position);
  StatusOr<Shape> shape_of(const RuleOperand& operand);
  StatusOr<std::int64_t> size_of_slot(const Slot& slot, const RuleOperand& operand);
  std::int64_t size_in_main_carrier(int factor, const RuleOperand& operand) const;
  Status wrong_ndim(const RuleOperand& operand, int index, int ndim) const;
  Status sizes_differ(const Factor& factor) const;

  const Op& op_;
  std::span<const TensorMeta> inputs_;
  const Attrs& attrs_;
  Binding binding_;
  absl::InlinedVector<Occurrence, 12> occurrences_;
  absl::InlinedVector<std::pair<BoundDim, std::int64_t>, 2> groups_;  // with the dim's size
  absl::InlinedVector<Listed, 2> listed_;
  bool indexed_ = false;  // operands may be smaller than what they address: only rows are lost
  int num_stars_ = 0;
  int num_batch_ = 0;
};

Status Binder::wrong_ndim(const RuleOperand& operand, int index, int ndim) const {
  const std::size_t named = operand.dims.size() - (has_rest(operand) ? 1 : 0);
  return invalid_argument(op_.def.name + ": " + operand_name(op_, index) + " has " +
                          std::to_string(ndim) + (ndim == 1 ? " dim" : " dims") +
                          "; its rule takes " + (has_rest(operand) ? "at least " : "") +
                          std::to_string(named) + ". [rule " + op_.rule.text + "; " +
                          describe_operands(op_, inputs_) + "]");
}

Status Binder::sizes_differ(const Factor& factor) const {
  const bool broadcasts = factor.letter == '*' || factor.letter == '.';
  return invalid_argument(
      op_.def.name + ": " + operand_name(op_, factor.unequal.operand) + " has " +
      std::to_string(factor.unequal_size) + " elements along dim " +
      std::to_string(factor.unequal.dim) + " where " + operand_name(op_, factor.first.operand) +
      " has " + std::to_string(factor.size) + " along dim " + std::to_string(factor.first.dim) +
      "; sizes must be equal" + (broadcasts ? " or 1" : "") + ". [" +
      describe_operands(op_, inputs_) + "]");
}

StatusOr<Positions> Binder::listed_dims(std::string_view attr, int operand, int ndim) const {
  Positions positions;
  const Shape dims = attrs_.get_ints_or(attr, {});  // none: all
  if (dims.empty()) {
    for (int d = 0; d < ndim; ++d) positions.push_back(d);
    return positions;
  }
  for (const std::int64_t dim : dims) {
    if (ndim == 0 && (dim == 0 || dim == -1)) continue;  // a scalar's only dim, as ATen takes it
    const StatusOr<int> at = normalize_dim(dim, ndim);
    const bool again = at.ok() && std::count(positions.begin(), positions.end(), *at) > 0;
    if (!at.ok() || again) {
      const std::string seen = again ? " lists a dim twice: " + to_string(dims)
                                     : " names dim " + std::to_string(dim) + " of " +
                                           operand_name(op_, operand) + ", which has " +
                                           std::to_string(ndim) + " dims" + allowed_dims(ndim);
      return invalid_argument(op_.def.name + ": " + std::string(attr) + seen + ". [" +
                              describe_operands(op_, inputs_) + "]");
    }
    positions.push_back(*at);
  }
  std::sort(positions.begin(), positions.end());
  return positions;
}

const Listed* Binder::listed_of(const RuleOperand& operand, const RuleDim& dim) const {
  if (is_rest(dim) || dim.kind == RuleDim::Kind::kGroup || !has_rest(operand)) return nullptr;
  for (const Listed& listed : listed_) {
    if (dim.kind == RuleDim::Kind::kAttr) {
      // A size letter takes the place of the listed factor that this output lacks.
      if (dim.attr.empty() ? !carries(operand, listed.letter) : dim.attr == listed.attr) {
        return &listed;
      }
    } else if (listed.letter == dim.letter || (!dim.attr.empty() && listed.attr == dim.attr)) {
      return &listed;
    }
  }
  return nullptr;
}

Positions Binder::kept_positions(const RuleOperand& operand) const {
  Positions kept;
  if (!keeps_dims() || !has_rest(operand)) return kept;
  for (const Listed& listed : listed_) {
    const bool replaced =
        std::any_of(operand.dims.begin(), operand.dims.end(),
                    [&](const RuleDim& dim) { return listed_of(operand, dim) == &listed; });
    if (replaced) continue;
    for (const int position : listed.positions) kept.push_back(position);
  }
  return kept;
}

StatusOr<Slots> Binder::place(const RuleOperand& operand, int index, int ndim) {
  Slots slots(static_cast<std::size_t>(ndim));
  absl::InlinedVector<bool, 6> taken(static_cast<std::size_t>(ndim), false);
  const auto take = [&](int position, Slot slot) {
    if (position >= ndim) return;
    slots[static_cast<std::size_t>(position)] = slot;
    taken[static_cast<std::size_t>(position)] = true;
  };
  const bool is_input = index < static_cast<int>(inputs_.size());
  absl::InlinedVector<const RuleDim*, 4> rest;
  for (const RuleDim& dim : operand.dims) {
    if (is_input && !dim.attr.empty()) {
      TSR_ASSIGN_OR_RETURN(Positions positions, listed_dims(dim.attr, index, ndim));
      for (std::size_t i = 0; i < positions.size(); ++i) {
        take(positions[i], {&dim, static_cast<int>(i)});
      }
      const bool known = std::any_of(listed_.begin(), listed_.end(),
                                     [&](const Listed& l) { return l.letter == dim.letter; });
      if (!known) listed_.push_back({dim.letter, dim.attr, std::move(positions)});
    } else if (const Listed* listed = is_input ? nullptr : listed_of(operand, dim)) {
      for (std::size_t i = 0; i < listed->positions.size(); ++i) {
        take(listed->positions[i], {&dim, static_cast<int>(i)});
      }
    } else {
      rest.push_back(&dim);
    }
  }
  if (!is_input) {
    for (const int position : kept_positions(operand)) take(position, {});
  }
  const int free = static_cast<int>(std::count(taken.begin(), taken.end(), false));
  const int named = static_cast<int>(rest.size()) - (has_rest(operand) ? 1 : 0);
  const int spread = free - named;
  if (spread < 0 || (spread > 0 && !has_rest(operand))) return wrong_ndim(operand, index, ndim);
  std::size_t at = 0;
  for (const RuleDim* dim : rest) {
    for (int left = is_rest(*dim) ? spread : 1; left > 0; --left) {
      while (taken[at]) ++at;
      slots[at++] = {dim, is_rest(*dim) ? left - 1 : 0};
    }
  }
  if (is_input && has_rest(operand)) {
    const bool star = std::any_of(operand.dims.begin(), operand.dims.end(),
                                  [](const RuleDim& d) { return d.kind == RuleDim::Kind::kStar; });
    int& count = star ? num_stars_ : num_batch_;
    count = std::max(count, spread);
  }
  return slots;
}

int Binder::factor_of(char letter, int position) {
  for (std::size_t f = 0; f < binding_.factors.size(); ++f) {
    if (binding_.factors[f].letter == letter && binding_.factors[f].position == position) {
      return static_cast<int>(f);
    }
  }
  Factor factor;
  factor.letter = letter;
  factor.position = position;
  for (const RuleMark& mark : op_.rule.marks) {
    if (mark.letter == letter) factor.mark = &mark;
  }
  binding_.factors.push_back(factor);
  return static_cast<int>(binding_.factors.size()) - 1;
}

void Binder::note(const Slots& slots, const Shape& shape, DimRef at, BoundOperand& bound) {
  bound.resize(slots.size());
  for (std::size_t d = 0; d < slots.size(); ++d) {
    const RuleDim* dim = slots[d].dim;
    if (dim == nullptr || dim->kind == RuleDim::Kind::kAttr) continue;
    BoundDim& place = bound[d];
    if (dim->kind == RuleDim::Kind::kGroup) {
      for (const char letter : dim->group) {
        place.factors[static_cast<std::size_t>(place.count++)] =
            static_cast<std::int8_t>(factor_of(letter, 0));
      }
      if (place.count > 1) {
        groups_.emplace_back(place, shape[d]);
        continue;
      }
    } else {
      place.factors[0] = static_cast<std::int8_t>(factor_of(dim->letter, slots[d].position));
      place.count = 1;
    }
    occurrences_.push_back({place.factors[0], {at.operand, static_cast<int>(d)}, shape[d]});
  }
}

Status Binder::bind_inputs() {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].absent) continue;
    const int index = static_cast<int>(i);
    const auto which = static_cast<std::size_t>(rule_operand_of(op_.rule, index));
    if (which >= op_.rule.inputs.size()) {
      return invalid_argument(op_.def.name + ": " + std::to_string(inputs_.size()) +
                              " operands given; it takes " +
                              std::to_string(op_.rule.inputs.size()) + ".");
    }
    TSR_ASSIGN_OR_RETURN(const Slots slots, place(op_.rule.inputs[which], index,
                                                  static_cast<int>(inputs_[i].shape.size())));
    note(slots, inputs_[i].shape, {index, 0}, binding_.inputs[i]);
  }
  return absl::OkStatus();
}

Status Binder::bind_outputs(std::span<const TensorMeta> outputs) {
  binding_.outputs.resize(outputs.size());
  for (std::size_t o = 0; o < outputs.size() && o < op_.rule.outputs.size(); ++o) {
    const int index = static_cast<int>(inputs_.size() + o);
    TSR_ASSIGN_OR_RETURN(const Slots slots, place(op_.rule.outputs[o], index,
                                                  static_cast<int>(outputs[o].shape.size())));
    note(slots, outputs[o].shape, {index, 0}, binding_.outputs[o]);
  }
  return absl::OkStatus();
}

void Binder::check_sizes() {
  for (std::size_t f = 0; f < binding_.factors.size(); ++f) {
    Factor& factor = binding_.factors[f];
    // An index operand with fewer elements is smaller, not broadcast.
    const bool broadcasts = (factor.letter == '*' || factor.letter == '.') && !indexed_;
    for (const Occurrence& seen : occurrences_) {
      if (seen.factor != static_cast<int>(f)) continue;
      if (factor.size < 0 || (broadcasts && factor.size == 1)) {
        factor.size = seen.size;
        factor.first = seen.at;
      }
    }
    for (const Occurrence& seen : occurrences_) {
      if (seen.factor != static_cast<int>(f) || seen.size == factor.size) continue;
      const bool is_input = seen.at.operand < static_cast<int>(inputs_.size());
      if (broadcasts && seen.size == 1 && is_input) {
        // The dim broadcasts: it does not carry the factor.
        binding_
            .inputs[static_cast<std::size_t>(seen.at.operand)]
                   [static_cast<std::size_t>(seen.at.dim)]
            .count = 0;
        continue;
      }
      // A window's result has its own size; both are cut by the same axes.
      if (factor.mark != nullptr && factor.mark->window) continue;
      if (!factor.cuttable) continue;
      factor.cuttable = false;
      factor.unequal = seen.at;
      factor.unequal_size = seen.size;
    }
  }
  find_group_sizes();
}

/// A letter that stands only inside groups is what the group's dim leaves over; of a dim without
/// elements, where that is open, whatever makes it one.
void Binder::find_group_sizes() {
  bool found = true;
  for (bool guess = false; found || !guess;) {
    guess = !found;
    found = false;
    for (const auto& [dim, size] : groups_) {
      std::int64_t known = 1;
      Factor* open = nullptr;
      int num_open = 0;
      for (int i = 0; i < dim.count; ++i) {
        Factor& factor =
            binding_.factors[static_cast<std::size_t>(dim.factors[static_cast<std::size_t>(i)])];
        if (factor.size >= 0) {
          known *= factor.size;
        } else {
          open = &factor;
          ++num_open;
        }
      }
      if (num_open == 1 && known > 0 && size % known == 0) {
        open->size = size / known;
        found = true;
      } else if (guess && !found && num_open > 0 && size == 0) {
        open->size = known == 0 ? 1 : 0;
        found = true;
      }
    }
  }
}

std::int64_t Binder::size_in_main_carrier(int factor, const RuleOperand& operand) const {
  for (const Occurrence& seen : occurrences_) {
    if (seen.factor != factor) continue;
    const auto which = static_cast<std::size_t>(rule_operand_of(op_.rule, seen.at.operand));
    const RuleOperand& carrier = op_.rule.inputs[which];
    const bool has_all =
        std::all_of(operand.dims.begin(), operand.dims.end(), [&](const RuleDim& d) {
          return d.kind != RuleDim::Kind::kFactor || carries(carrier, d.letter);
        });
    if (has_all) return seen.size;
  }
  return binding_.factors[static_cast<std::size_t>(factor)].size;
}

StatusOr<std::int64_t> Binder::size_of_slot(const Slot& slot, const RuleOperand& operand) {
  if (slot.dim == nullptr) return 1;
  if (slot.dim->kind == RuleDim::Kind::kGroup) {
    std::int64_t size = 1;
    for (const char letter : slot.dim->group) {
      size *= binding_.factors[static_cast<std::size_t>(factor_of(letter, 0))].size;
    }
    return size;
  }
  if (slot.dim->kind == RuleDim::Kind::kAttr) {
    const char lower[] = {static_cast<char>(slot.dim->letter - 'A' + 'a'), '\0'};
    if (!attrs_.has(lower)) {
      return invalid_argument(op_.def.name + ": size " + slot.dim->letter +
                              " of its rule needs an attribute '" + lower +
                              "' or an infer function");
    }
    return attrs_.get_int(lower);
  }
  const int f = factor_of(slot.dim->letter, slot.position);
  const Factor& factor = binding_.factors[static_cast<std::size_t>(f)];
  if (factor.size < 0) {
    return invalid_argument(op_.def.name + ": the size of factor " + name_of(op_.rule, factor) +
                            " follows from no operand; the op needs an infer function");
  }
  if (factor.cuttable) return factor.size;
  if (!indexed_) return sizes_differ(factor);
  return size_in_main_carrier(f, operand);
}

int Binder::output_ndim(const RuleOperand& operand) const {
  int ndim = static_cast<int>(kept_positions(operand).size());
  for (const RuleDim& dim : operand.dims) {
    if (dim.kind == RuleDim::Kind::kStar) {
      ndim += num_stars_;
    } else if (dim.kind == RuleDim::Kind::kEllipsis) {
      ndim += num_batch_;
    } else if (const Listed* listed = listed_of(operand, dim)) {
      ndim += static_cast<int>(listed->positions.size());
    } else {
      ++ndim;
    }
  }
  return ndim;
}

StatusOr<Shape> Binder::shape_of(const RuleOperand& operand) {
  const int ndim = output_ndim(operand);
  TSR_ASSIGN_OR_RETURN(const Slots slots, place(operand, static_cast<int>(inputs_.size()), ndim));
  Shape shape;
  for (const Slot& slot : slots) {
    TSR_ASSIGN_OR_RETURN(const std::int64_t size, size_of_slot(slot, operand));
    shape.push_back(size);
  }
  return shape;
}

Status Binder::letters_agree() const {
  for (const Factor& factor : binding_.factors) {
    const bool is_letter = factor.letter != '*' && factor.letter != '.';
    if (!factor.cuttable && is_letter && !indexed_) return sizes_differ(factor);
  }
  return absl::OkStatus();
}

StatusOr<std::vector<Shape>> Binder::output_shapes() {
  std::vector<Shape> shapes;
  TSR_RETURN_IF_ERROR(letters_agree());
  for (const Factor& factor : binding_.factors) {
    if (!factor.cuttable && !factor.plain() && !indexed_) return sizes_differ(factor);
  }
  for (const RuleOperand& operand : op_.rule.outputs) {
    TSR_ASSIGN_OR_RETURN(Shape shape, shape_of(operand));
    if (operand.alias >= 0) {
      const Shape& held = inputs_[static_cast<std::size_t>(operand.alias)].shape;
      if (shape != held && !indexed_) {
        return invalid_argument(op_.def.name + ": the result of shape " + to_string(shape) +
                                " does not fit " + operand_name(op_, operand.alias) + " of shape " +
                                to_string(held) + ", which it is written to. [" +
                                describe_operands(op_, inputs_) + "]");
      }
      shape = held;
    }
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

}  // namespace

StatusOr<Binding> bind_rule(const Op& op, std::span<const TensorMeta> inputs,
                            std::span<const TensorMeta> outputs, const Attrs& attrs) {
  Binder binder(op, inputs, attrs);
  TSR_RETURN_IF_ERROR(binder.bind_inputs());
  TSR_RETURN_IF_ERROR(binder.bind_outputs(outputs));
  binder.check_sizes();
  return binder.take();
}

Status check_dims(const Op& op, std::span<const TensorMeta> inputs, const Attrs& attrs) {
  return Binder(op, inputs, attrs).bind_inputs();
}

Status check_letters(const Op& op, std::span<const TensorMeta> inputs, const Attrs& attrs) {
  Binder binder(op, inputs, attrs);
  TSR_RETURN_IF_ERROR(binder.bind_inputs());
  binder.check_sizes();
  return binder.letters_agree();
}

StatusOr<std::vector<Shape>> shapes_from_rule(const Op& op, std::span<const TensorMeta> inputs,
                                              const Attrs& attrs) {
  Binder binder(op, inputs, attrs);
  TSR_RETURN_IF_ERROR(binder.bind_inputs());
  binder.check_sizes();
  return binder.output_shapes();
}

}  // namespace tessera
