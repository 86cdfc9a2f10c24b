// program/call_arguments.h: the arguments of a call step as its op reads them. Internal to
// program/.
#pragma once

#include <vector>

#include "io/json.h"
#include "strategies/rules/op.h"

namespace tessera {

/// Complete attributes; what is null or no attribute of the op is left out. Errors: InvalidArgument
/// naming the attribute; those of complete_attrs().
StatusOr<Attrs> attrs_of_call(const Op& op, const Json::Object& given);
/// The names among a call's arguments, in order, and nulls for absent ones; false for numbers,
/// which are no tensors.
bool collect_names(Json::Array& args, std::vector<Json*>& names);
/// Those alone, whatever else there is.
void collect_strings(Json::Array& args, std::vector<Json*>& names);

}  // namespace tessera
