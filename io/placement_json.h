// io/placement_json.h: the JSON forms of mesh, tensor, placements and layout, both ways.
// A view knows its place in the document, so every error says where, what was seen and what is
// allowed.
#pragma once

#include <span>

#include "io/json.h"
#include "placement/api.h"
#include "placement/spec.h"

namespace tessera TSR_API {

/// {"shape":[2,2],"axes":["dp","tp"],"first_rank":4}; "axes" may be left out, and so may
/// "first_rank" (0). Errors: InvalidArgument, OutOfRange.
StatusOr<Mesh> read_mesh(const JsonView& view);
/// The same where the object's keys were checked before: it may have others.
StatusOr<Mesh> read_mesh_members(const JsonView& view);
Json to_json(const Mesh& mesh);

/// A tensor's shape and dtype: {"shape":[8,6],"dtype":"F32"}; "dtype" may be left out (F32).
struct TensorType {
  Shape global_shape;
  DType dtype = DType::kF32;
  bool operator==(const TensorType&) const = default;
};
StatusOr<TensorType> read_tensor_type(const JsonView& view);
Json to_json(const TensorType& tensor);

/// ["SS(0,2)","S(0)"]: one text per mesh axis.
StatusOr<Placements> read_placements(const JsonView& view);
Json to_json(std::span<const Placement> placements);

/// {"dims":[["tp","dp"],[]],"partial":{"cp":"sum"}}: per dim its levels, major first; an axis
/// without a name is an integer, or with a grain "0%3". "partial" may be left out.
StatusOr<Layout> read_layout(const JsonView& view, const Mesh& mesh, ShapeView global_shape);
Json to_json(const Mesh& mesh, const Layout& layout);

/// Either form of how a tensor lies on a mesh: an array is a placement list, an object a layout.
StatusOr<Layout> read_placements_or_layout(const JsonView& view, const Mesh& mesh,
                                           ShapeView global_shape);

/// Adds to `object` the member "placements", or "layout" where the spec has no placement list.
void add_placements(Json& object, const Spec& spec);

}  // namespace tessera
