// strategies/rules/op.h: everything about one op: schema, rule, gradient, kernel, samples; and the
// table of ops. An op author writes one OpDef in one file; rows, propagation, verification and docs
// derive from it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/array.h"
#include "kernels/index.h"
#include "placement/api.h"
#include "placement/spec.h"
#include "strategies/rules/arg_def.h"
#include "strategies/rules/attrs.h"
#include "strategies/rules/gradient.h"
#include "strategies/rules/row_pattern.h"
#include "strategies/rules/rule.h"

namespace tessera TSR_API {

/// What shape inference sees and says: a global (or local) shape and a dtype.
struct TensorMeta {
  Shape shape;
  DType dtype = DType::kF32;
  bool absent = false;  ///< an optional operand that was not given
  bool operator==(const TensorMeta&) const = default;
};

/// Where a local array stands in its tensor: for kernels that need global indices.
struct OperandView {
  const Spec* spec = nullptr;
  const Coord* coord = nullptr;
};

/// One local execution. Outputs are preallocated contiguous arrays of the local shapes; for an
/// in-place output
/// (`&A`) it is the input itself; a view op (OpDef::is_view) assigns aliases instead.
struct KernelCall {
  KernelContext& ctx;
  std::span<const Array> inputs;  ///< a null Array where an optional operand is absent
  const Attrs& attrs;             ///< localised by OpDef::localize
  std::span<Array> outputs;
  kernels::Absent absent =
      kernels::Absent::kError;  ///< kSkip: index operands were made local, −1 = elsewhere
  std::span<const OperandView> input_views = {};  ///< empty in plain calls
  std::span<const OperandView> output_views = {};
};
using Kernel = std::function<void(KernelCall&)>;
using Infer =
    std::function<StatusOr<std::vector<TensorMeta>>(std::span<const TensorMeta>, const Attrs&)>;

/// One way to run an op on whole specs, for ops whose rows no rule string expresses (views, slice,
/// cat).
struct Strategy {
  std::vector<Spec> inputs;  ///< what each operand must be redistributed to
  std::vector<Spec> outputs;
  std::string why;                   ///< one line for the audit
  int lowering = -1;                 ///< index in OpDef::lowerings where ranks talk inside the op
  std::vector<int> lowering_axes{};  ///< mesh axes over which they do
};
using StrategyFn = std::function<StatusOr<std::vector<Strategy>>(
    std::span<const Spec* const> inputs, std::span<const TensorMeta> outputs, const Attrs&)>;
/// Attributes for the local call (sizes, offsets); gets global attrs, the chosen specs and this
/// rank's coord.
using Localize = std::function<Attrs(const Attrs&, std::span<const Spec> inputs,
                                     std::span<const Spec> outputs, const Coord&)>;

/// The global intervals of one dim of an operand that a rank needs for its share of the results:
/// global attributes, the operand (spec, coord of that rank) and the first result.
using WindowFn = std::function<std::vector<Interval>(const Attrs&, const OperandView& operand,
                                                     const OperandView& result)>;

/// Steps that run where ranks must talk inside the op. Temporaries are numbered: inputs, outputs,
/// then others.
struct LoweringStep {
  enum class Kind : std::uint8_t { kLocal, kReduce, kGather, kWindow };
  Kind kind = Kind::kLocal;
  std::vector<int> in;
  std::vector<int> out;
  /// kLocal: writes call.outputs (null on entry unless they are op outputs; it allocates the
  /// others).
  Kernel kernel = nullptr;
  ReduceOp reduce =
      ReduceOp::kSum;  ///< kReduce: all-reduce of one temporary over the factor's axes
  int dim =
      0;  ///< kGather: concatenates along it, in coord order; kWindow: the dim that windows cut
  /// kWindow: temporary in[0], which is an operand, becomes on each rank the concatenation of these
  /// global intervals of `dim`, in this order, wherever they lie. Every rank asks for every rank.
  WindowFn windows = nullptr;
};
/// Lifts one `!`, `^` or `~` factor: on the axes that cut it, inputs and outputs that carry it are
/// S, the rest R.
struct Lowering {
  /// How the factor may be cut. kIntervals: by whole axes in mesh order, so that every rank holds
  /// one interval and coords follow it (scans, halos); operands that are cut otherwise are moved.
  enum class Cut : std::uint8_t { kAny, kIntervals };
  std::string factor;  ///< its letter in the rule
  std::string doc;
  std::function<std::vector<LoweringStep>(const Attrs&)> steps;
  Cut cut = Cut::kAny;
};

/// Inputs with which the op is verified. Values are distinct and well away from ties and
/// singularities.
struct Sample {
  std::vector<Shape> shapes;
  Attrs attrs = {};
  std::vector<DType> dtypes = {};  ///< default: F64 for all
  /// Per operand: integer operands hold values in [0, below); default 2.
  std::vector<std::int64_t> below = {};
  /// Per operand: rows along `unique_dim` hold distinct indices (scatter).
  std::vector<int> unique_dim = {};  ///< −1: no; default: all −1
  bool positive = false;             ///< floating operands > 0 (log, sqrt)
  /// Last word on the values of one operand, row-major: a range, an order, counts that add up.
  std::function<void(int operand, const Shape& shape, std::vector<double>& values)> adjust =
      nullptr;
  bool differentiable = true;
};

struct OpDef {
  static constexpr int kAsInferred = -1;
  static constexpr std::int64_t kMostResults = 65536;  ///< of one call, of an op such as split
  std::string name;
  std::string doc;
  std::vector<ArgDef> args;
  std::vector<AttrDef> attrs = {};
  std::string rule;     ///< may be empty where `strategies` is given
  int num_outputs = 1;  ///< kAsInferred: as many as `infer` gives (split); only without a rule
  int auxiliary_outputs = 0;  ///< the last ones: for the gradient, not for callers
  Kernel kernel = nullptr;    ///< CPU
  Infer infer = nullptr;  ///< default: shapes from the rule, dtype promote(inputs), I64 where `int`
  Gradient gradient = nullptr;         ///< none: not differentiable
  std::vector<int> saved_inputs = {};  ///< what `gradient` reads
  std::vector<int> saved_outputs = {};
  StrategyFn strategies = nullptr;
  Localize localize = nullptr;
  std::vector<Lowering> lowerings = {};
  /// Why an element of a cotangent that is not finite may reach gradients that do not depend on it
  /// (it meets a 0 in a product); empty: it must not.
  std::string cotangent_spreads = {};
  bool is_view = false;  ///< the output aliases operand 0
  /// How a view's elements stand in storage: what may be written through it hangs on that.
  enum class ViewOrder : std::uint8_t {
    kOther,           ///< some of the operand's elements, or in another order
    kRowMajor,        ///< all of them in row-major order, as view() gives them
    kRowMajorOrCopy,  ///< the same; a copy where the operand's strides allow no alias
    kOverlapping      ///< several elements of the result may share a place
  };
  ViewOrder view_order = ViewOrder::kOther;
  /// Arguments that rows of P(sum) and P(avg) take to be finite, and not 0 where the op divides by
  /// them: summands times an infinity may be NaN where their sum times it is none. Factors of one
  /// monomial of `lin` are taken so without being listed.
  std::vector<int> finite = {};
  /// Sound rows left out: "ROW; ROW: reason". A ROW is "P(max), R -> P(max)"; an entry is R, S,
  /// S(1), P, P(max) or _ (any); without "->" any result is meant. A reason that concerns no
  /// row that plain local execution could find starts with "lowering": "lowering r: why".
  std::vector<std::string> declined = {};
  std::vector<Sample> samples = {};
  /// Rows beyond those of `rule`: "S(1), S(0) -> P(max)", with R, S(dim) or P(kind) for each
  /// argument and result. All dims that one cuts are those of one factor, in every operand that has
  /// it. Sums, means and products pass only where the dtypes let them.
  std::vector<std::string> added_rows = {};
  /// Rows that the op does not take though its rule has them: as in `declined`.
  std::vector<std::string> left_out = {};
  /// What was changed by OpTable::amend, a line each: the audit says it.
  std::vector<std::string> amendments = {};
};

/// An OpDef with its rule and rows parsed; stable address, so that it can key caches.
struct Op {
  OpDef def;
  Rule rule;
  std::vector<RowPattern> added_rows;
  std::vector<Declined> left_out;
  std::vector<int> in_place;  ///< per output: the input it aliases by `&`, or −1
  bool mutates() const noexcept;
  /// Arguments that rows of P(sum) and P(avg) take to be finite, ascending: those of OpDef::finite,
  /// and the factors of products in `lin`.
  std::vector<int> finite_arguments() const;
  /// The input that result `output` aliases by `&`, or −1.
  int alias_of(std::size_t output) const noexcept {
    return output < in_place.size() ? in_place[output] : -1;
  }
};

/// What an author changes about an op that exists, from outside its file. `by` is always given, and
/// at least one of the others; what is not given stays.
struct OpAmendment {
  std::string by;                              ///< who, and why: the audit says it
  std::vector<std::string> add_rows = {};      ///< as OpDef::added_rows
  std::vector<std::string> decline_rows = {};  ///< as OpDef::left_out, each with its reason
  std::string rule = {};                       ///< in place of the op's own
  StrategyFn strategies = nullptr;             ///< in place of the op's own, or of its rule's rows
  Kernel kernel = nullptr;
  std::vector<Sample> samples = {};  ///< to be verified with, besides the op's own
};

/// Ops by name. Not thread-safe while ops are added; each Runtime holds one. The built-in ops are
/// made once in a process, and all tables point to them.
class OpTable {
 public:
  OpTable() = default;
  /// Errors: InvalidArgument for a name in use, or an op without doc, rule (or strategies), kernel
  /// or sample, or whose rule does not parse (the text points at the character).
  Status add(OpDef def);
  void must_add(OpDef def);
  /// From now on `name` is the amended op in this table; other tables, and what was resolved
  /// before, keep the op as it was. Errors: NotFound as find(); InvalidArgument for an amendment
  /// without author or content, a row or rule that does not parse or fit, or rows to add to an op
  /// whose rows are a function's.
  Status amend(std::string_view name, OpAmendment amendment);
  /// Number of amendments so far: what find() gave before the last one may be out of date.
  int num_amendments() const noexcept { return num_amendments_; }
  /// Errors: NotFound naming the op and the nearest names.
  StatusOr<const Op*> find(std::string_view name) const;
  std::vector<const Op*> ops() const;  ///< by name

  /// Finds the ops of `base` too, as if they had been added: it must outlive this table and
  /// change no more. Requires: no op so far.
  void build_on(const OpTable& base);

 private:
  const Op* look_up(std::string_view name) const noexcept;

  const OpTable* base_ = nullptr;
  std::map<std::string, std::unique_ptr<Op>, std::less<>> ops_;  // before those of base_
  std::vector<std::unique_ptr<Op>> amended_;  // as they were: calls point to them
  int num_amendments_ = 0;
};

/// Every op of strategies/ops/. Requires: no op in the table so far.
void add_builtin_ops(OpTable& table);

/// Fills declared defaults, checks names and types, and orders attrs as declared. Errors:
/// InvalidArgument.
StatusOr<Attrs> complete_attrs(const OpDef& def, const Attrs& given);
inline StatusOr<Attrs> complete_attrs(const Op& op, const Attrs& given) {
  return complete_attrs(op.def, given);
}
/// Shapes and dtypes of the results. Errors: InvalidArgument naming op, operand, sizes seen and
/// allowed.
StatusOr<std::vector<TensorMeta>> infer(const Op& op, std::span<const TensorMeta> inputs,
                                        const Attrs& attrs);

}  // namespace tessera
