#include "dtensor/local_map.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "dtensor/autograd.h"
#include "dtensor/observer.h"
#include "dtensor/redistribute.h"

namespace tessera {

namespace {

std::string placed(const Spec& spec) {
  const StatusOr<Placements> placements = spec.placements();
  return placements.ok() ? to_string(*placements) : spec.to_string();
}

/// Axes of size 1 hold the same whatever is said about them.
bool equal_where_it_matters(const Spec& got, const Spec& expected) {
  for (int axis = 0; axis < got.mesh().ndim(); ++axis) {
    if (got.mesh().size(axis) > 1 && got.layout().partial[axis] != expected.layout().partial[axis])
      return false;
  }
  for (int dim = 0; dim < got.ndim(); ++dim) {
    if (!same_index_sets(got.mesh(), got.global_shape()[dim], got.layout().dims[dim],
                         expected.layout().dims[dim])) {
      return false;
    }
  }
  return true;
}

/// The declared spec of an argument. Throws where the tensor stands otherwise and may not be moved.
Spec declared(const std::string& region, const LocalArg& arg) {
  const Spec& got = arg.tensor.spec();
  if (static_cast<int>(arg.placements.size()) != got.mesh().ndim()) {
    throw Error(invalid_argument(absl::StrFormat(
        "local_map %s: argument %s: %d placements are declared for a mesh of %d axes. [%s]", region,
        arg.name, arg.placements.size(), got.mesh().ndim(), got.to_string())));
  }
  StatusOr<Spec> expected = Spec::make(got.mesh(), got.global_shape(), got.dtype(), arg.placements);
  if (!expected.ok()) {
    throw Error(
        invalid_argument(absl::StrFormat("local_map %s: argument %s: %s. [%s]", region, arg.name,
                                         message_of(expected.status()), got.to_string())));
  }
  if (arg.on_mismatch == OnMismatch::kError && !equal_where_it_matters(got, *expected)) {
    throw Error(failed_precondition(absl::StrFormat(
        "local_map %s: argument %s: got %s, expected %s; redistribute it, or declare the argument "
        "with "
        "OnMismatch::kRedistribute. [%s]",
        region, arg.name, placed(got), to_string(arg.placements), got.to_string())));
  }
  return *std::move(expected);
}

void check_names(const std::string& region, std::span<const LocalArg> args) {
  absl::flat_hash_set<std::string> seen;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (args[i].name.empty()) {
      throw Error(
          invalid_argument(absl::StrFormat("local_map %s: argument %d has no name", region, i)));
    }
    if (!seen.insert(args[i].name).second) {
      throw Error(invalid_argument(
          absl::StrFormat("local_map %s: argument %s is declared twice", region, args[i].name)));
    }
    if (!args[i].tensor.defined()) {
      throw Error(invalid_argument(
          absl::StrFormat("local_map %s: argument %s is undefined", region, args[i].name)));
    }
  }
}

DTensor enter(Runtime& runtime, const std::string& region, const LocalArg& arg,
              const Spec& expected, const Site& site) {
  if (arg.tensor.mesh().ndim() == 0) return arg.tensor;
  DTensor moved = arg.tensor;
  if (arg.on_mismatch == OnMismatch::kRedistribute &&
      !equal_where_it_matters(moved.spec(), expected)) {
    moved = move(moved, runtime.intern(expected), {Origin::kExplicit, arg.name, region}, site);
  }
  try {
    return to_local(moved, arg.grad, site);
  } catch (const Error& error) {
    throw Error(Status(error.status().code(),
                       to_absl(absl::StrFormat("local_map %s: argument %s: %s", region, arg.name,
                                               message_of(error.status())))));
  }
}

DTensor leave(const std::string& region, const LocalResult& result, const DTensor& local,
              const Site& site) {
  if (result.mesh.ndim() == 0) return local;
  try {
    return from_local(local, result.mesh, result.placements, result.global_shape, result.grad,
                      site);
  } catch (const Error& error) {
    throw Error(Status(error.status().code(),
                       to_absl(absl::StrFormat("local_map %s: result %s: %s", region, result.name,
                                               message_of(error.status())))));
  }
}

/// A rank outside the mesh takes no part: its results hold nothing.
bool takes_part(Runtime& runtime, std::span<const LocalArg> args,
                std::span<const LocalResult> results) {
  for (const LocalArg& arg : args) {
    if (runtime.coord_on(arg.tensor.impl()->spec) == nullptr) return false;
  }
  for (const LocalResult& result : results) {
    if (result.mesh.ndim() > 0 && !result.mesh.coord_of(runtime.rank())) return false;
  }
  return true;
}

}  // namespace

LocalInputs::LocalInputs(std::string region, std::span<const LocalArg> args,
                         std::vector<DTensor> locals)
    : region_(std::move(region)),
      args_(args),
      locals_(std::move(locals)),
      read_(args.size(), false) {}

const DTensor& LocalInputs::operator[](std::string_view name) const {
  for (std::size_t i = 0; i < args_.size(); ++i) {
    if (args_[i].name != name) continue;
    read_[i] = true;
    return locals_[i];
  }
  std::string declared;
  for (const LocalArg& arg : args_) declared += (declared.empty() ? "" : ", ") + arg.name;
  throw Error(invalid_argument(absl::StrFormat(
      "local_map %s: the region reads the argument %s, which is not declared; declared are %s",
      region_, name, declared)));
}

Status LocalInputs::check_all_read() const {
  const auto unread = std::find(read_.begin(), read_.end(), false);
  if (unread == read_.end()) return absl::OkStatus();
  return invalid_argument(absl::StrFormat(
      "local_map %s: argument %s is declared, but the region does not read it; leave it out",
      region_, args_[static_cast<std::size_t>(unread - read_.begin())].name));
}

std::vector<DTensor> local_map(Runtime& runtime, const std::string& region,
                               std::span<const LocalArg> args, std::span<const LocalResult> results,
                               const LocalFn& fn, const Site& site) {
  check_names(region, args);
  std::vector<Spec> expected;
  for (const LocalArg& arg : args) expected.push_back(declared(region, arg));
  const bool inside = takes_part(runtime, args, results);
  const MarkScope marks(runtime, {.region = region});
  std::vector<DTensor> locals;
  for (std::size_t i = 0; i < args.size(); ++i) {
    locals.push_back(enter(runtime, region, args[i], expected[i], site));
  }
  std::vector<DTensor> outputs;
  if (!inside) {
    const DType dtype = args.empty() ? DType::kF32 : args[0].tensor.dtype();
    for (const LocalResult& each : results) {
      const Spec spec =
          value_or_throw(Spec::make(each.mesh, each.global_shape, dtype, each.placements));
      outputs.push_back(empty(runtime, spec));
    }
    return outputs;
  }
  const LocalInputs inputs(region, args, std::move(locals));
  const std::vector<DTensor> made = fn(inputs);
  throw_if_error(inputs.check_all_read());
  if (made.size() != results.size()) {
    throw Error(invalid_argument(
        absl::StrFormat("local_map %s: the region returned %d results, %d are declared", region,
                        made.size(), results.size())));
  }
  for (std::size_t i = 0; i < results.size(); ++i)
    outputs.push_back(leave(region, results[i], made[i], site));
  return outputs;
}

}  // namespace tessera
