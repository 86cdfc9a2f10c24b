// tests/checkpoint/state.h: small states on meshes of threads, for claims about what a folder holds
// after a save.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/load.h"
#include "checkpoint/save.h"

namespace tessera::testing {

/// A tensor on a mesh of the first ranks, as text: "S(0), R".
struct Placed {
  Shape mesh;
  std::vector<std::string> placements;
  int num_ranks() const { return static_cast<int>(num_elements(mesh)); }
};
struct TensorCase {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
};
/// A few tensors: even, uneven, 0-d, empty, of every width.
std::vector<TensorCase> sample_tensors();

/// Global values of tensor `name` in version `version`: the row-major index and these two.
std::vector<double> values_of(const TensorCase& tensor, int version);
/// The state of version `version` on this rank; version −1 is zeros.
std::vector<StateTensor> make_state(Runtime& runtime, const Placed& placed, int version);

/// Saves version `version` from threads. The Status that all ranks agree on.
Status save_version(FileSystem& files, const Placed& placed, int version,
                    const SaveOptions& options = {.chunk_bytes = 64});
/// Loads on threads, and says which version every tensor of every rank has: the version, or −1
/// where the load failed and every tensor is untouched, or −2 for anything else. `error` takes the
/// text of a failure. A load that reads no byte for a rank that holds elements is −2, too.
int loaded_version(FileSystem& files, const Placed& placed, std::string* error = nullptr,
                   const LoadOptions& options = {});

}  // namespace tessera::testing
