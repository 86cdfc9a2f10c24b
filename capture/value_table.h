// capture/value_table.h: which value of the program a tensor is. Tensors are known by their memory:
// handles that show the same elements under the same spec are one value.
// Internal to capture/.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "dtensor/tensor_impl.h"
#include "program/program.h"

namespace tessera {

class ValueTable {
 public:
  /// What is known of a tensor.
  struct Found {
    const std::string* name = nullptr;   ///< the value; null: none is this tensor
    const std::string* alias = nullptr;  ///< the latest value in the same memory; null: new memory
  };
  Found find(const DTensor& tensor) const;
  /// The latest value that shows these elements, whatever its spec; null: none.
  const std::string* find(const Array& array) const;
  /// From now on `tensor` is the value `name`.
  void add(const DTensor& tensor, const std::string& name);
  /// A name like `wish` that no value has yet.
  std::string unused_name(const std::string& wish);
  /// Values whose memory has gone since the last call, in the order of their making.
  std::vector<std::string> take_ended();

 private:
  struct View {
    std::string name;
    const Spec* spec = nullptr;
    Shape shape, strides;
    std::int64_t offset = 0;
  };
  /// A Storage, or a tensor without one on this rank.
  struct Owner {
    std::weak_ptr<const void> alive;
    const void* key = nullptr;
  };
  static std::shared_ptr<const void> owner_of(const DTensor& tensor);
  static bool shows(const View& view, const Array& array);

  std::vector<Owner> owners_;  ///< in the order of their first values
  /// By owner; in the order of their making.
  absl::flat_hash_map<const void*, std::vector<View>> views_;
  absl::flat_hash_set<std::string> names_;
  absl::flat_hash_map<std::string, std::int64_t> numbers_;  ///< given to each wish so far
};

}  // namespace tessera
