// program/stablehlo/conversion.h: one operation of the module on its way to steps of ours. Each
// form has a function; what none of ours says exactly is left to a region. Internal to
// program/stablehlo/.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "program/stablehlo/builder.h"
#include "program/stablehlo/op_map.h"

namespace tessera::stablehlo {

class Conversion {
 public:
  Conversion(Builder& builder, const Statement& statement, std::vector<BoundId> operands,
             StepOrigin origin, std::string prefix)
      : builder_(builder),
        statement_(statement),
        operands_(std::move(operands)),
        origin_(std::move(origin)),
        prefix_(std::move(prefix)) {}

  /// The values that the operation's results are. Errors: InvalidArgument for a text that does not
  /// say what its operation needs.
  StatusOr<std::vector<BoundId>> run();
  /// The results as the text declares them, without a step.
  StatusOr<std::vector<BoundId>> declare_results();

 private:
  using Ids = std::vector<BoundId>;
  /// The result; none: `why_` says why no op of ours says it.
  using Made = StatusOr<std::optional<BoundId>>;

  StatusOr<std::optional<Ids>> convert(const OpRow& row);
  Made convert_one(const OpRow& row);
  StatusOr<Ids> make_region();

  // Pointwise.
  Made pair(const OpRow& row);
  Made pair_with_number(const OpRow& row);
  Made logical();
  Made compare();
  Made select();
  Made clamp();
  Made convert_type();
  Made fold(const OpRow& row);
  // Views.
  Made broadcast();
  Made reshape();
  Made transpose();
  Made reverse();
  Made concatenate();
  Made slice();
  Made slice_to(const Shape& start, const Shape& limit, const Shape& stride);
  Made pad();
  Made dynamic_slice();
  Made one_of(std::size_t dim, const std::vector<std::int64_t>& sizes);
  Made dynamic_update_slice();
  // Products, sums, rows.
  Made dot();
  Made reduce();
  Made reduce_window();
  Made gather();
  Made scatter();
  StatusOr<std::optional<Ids>> top_k();
  StatusOr<Ids> constant();
  StatusOr<Ids> iota();
  StatusOr<Ids> pass();
  StatusOr<Ids> move(bool implicit);
  /// What a collective sums was made as summands, whatever its sharding says.
  Status mark_summands();

  /// Calls of ours. `gives`: whether it gives the operation's own result, else one on the way to
  /// it.
  enum class Gives : std::uint8_t { kOnTheWay, kLast };
  using AttrList = std::initializer_list<std::pair<std::string_view, AttrValue>>;
  Made call(std::string_view op, const Ids& operands, const AttrList& attrs,
            Gives gives = Gives::kLast);
  Made no(std::string why) {
    why_ = std::move(why);
    return std::optional<BoundId>();
  }

  const TensorType& type(std::size_t operand) const { return builder_.at(operands_[operand]).type; }
  std::optional<double> splat(std::size_t operand) const {
    return builder_.at(operands_[operand]).splat;
  }
  const TensorType& result_type() const { return statement_.result_types.back(); }
  Status error(const std::string& what) const;
  Status need_operands(std::size_t least) const;
  /// The attribute as the pretty form or as the generic one calls it. None: empty.
  StatusOr<std::vector<std::int64_t>> ints(std::string_view pretty,
                                           std::string_view generic = {}) const;
  /// A value that is one number everywhere, in the result's type.
  StatusOr<BoundId> make_splat(double number);
  /// The op that folds the region or the name behind `applies`: "stablehlo.add"; empty: another.
  StatusOr<std::string> folded_by() const;
  std::vector<TensorMeta> metas(const Ids& operands) const;
  bool has_stand_in() const;

  Builder& builder_;
  const Statement& statement_;
  Ids operands_;
  StepOrigin origin_;
  std::string prefix_;  ///< of names in a function that is called
  std::string why_;
  Ids results_;
};

}  // namespace tessera::stablehlo
