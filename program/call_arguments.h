// program/call_arguments.h: the arguments of a call step as its op reads them. Internal to
// program/.
#pragma once

#include <optional>
#include <vector>

#include "io/json.h"
#include "placement/dtype.h"
#include "placement/spec.h"
#include "strategies/rules/op.h"

namespace tessera {

/// Complete attributes; what is null or no attribute of the op is left out. Errors: InvalidArgument
/// naming the attribute; those of complete_attrs().
StatusOr<Attrs> attrs_of_call(const Op& op, const Json::Object& given);
/// A call's operands in order: names, numbers, and nulls for absent ones.
void collect_operands(Json::Array& args, std::vector<Json*>& operands);
bool is_number(const Json& operand);

/// What the numbers among a call's operands are: plain 0-d tensors of the dtype of the first
/// floating tensor beside them, else of the first tensor, for BOOL I64. None where one that is no
/// integer has no floating tensor beside it: what the call makes of it is not known here.
class NumberDType {
 public:
  void see_tensor(DType dtype);
  void see_number(const Json& number) { has_fraction_ |= number.if_integer() == nullptr; }
  std::optional<DType> dtype() const;

 private:
  std::optional<DType> first_, first_floating_;
  bool has_fraction_ = false;
};
/// `dtype_of(name)` gives an optional DType, none for what is not known.
template <class DTypeOf>
std::optional<DType> number_dtype(const std::vector<Json*>& operands, const DTypeOf& dtype_of) {
  NumberDType found;
  for (const Json* each : operands) {
    if (each->if_string() != nullptr) {
      if (const std::optional<DType> dtype = dtype_of(*each->if_string())) found.see_tensor(*dtype);
    } else if (is_number(*each)) {
      found.see_number(*each);
    }
  }
  return found.dtype();
}
/// Those alone, whatever else there is.
void collect_strings(Json::Array& args, std::vector<Json*>& names);

}  // namespace tessera
