// program/program_names.h: which values a step may name: those made before it and not yet freed.
// Internal to program/.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "program/program.h"
#include "program/round_name.h"

namespace tessera {

class ProgramNames {
 public:
  struct Known {
    Shape global_shape;
    DType dtype = DType::kF32;
    std::optional<int> mesh;
    std::optional<Layout> layout;
    std::vector<std::string> varies = {};
    std::int64_t serial = 0;  ///< in order of definition
    bool freed = false;
  };

  /// Errors (all): InvalidArgument naming the value.
  Status define(const ProgramValue& value);
  StatusOr<const Known*> use(const std::string& name);
  Status end(const std::string& name);

  void begin_body(const RoundNumbers& numbers);
  /// The next round's `begin` is this round's `end`, and so is what `begin` names after the repeat.
  Status carry(const std::string& begin, const std::string& end);
  /// What a round freed of what stood before it must be carried, or the next one has none.
  Status end_body();

 private:
  /// A name that each round reads as another value: which there are is known after the body.
  struct Pending {
    RoundName name;
    Known first;  ///< as the first round reads it
  };
  struct Body {
    RoundNumbers numbers;
    std::int64_t first_serial = 0;
    std::vector<std::string> freed_outside = {};
    std::vector<std::string> made = {};
    absl::flat_hash_map<std::string, Pending> pending = {};
  };
  /// The value that a name without "*" stands for, which a round of a repeat may have made; null:
  /// none.
  const Known* find(const std::string& name) const;
  const Known* find_of_round(const std::string& name) const;
  const Known* find_for(const Body& body, const RoundName& name, std::int64_t round) const;
  Status check_rounds(const Body& body, const Pending& pending);
  absl::flat_hash_map<std::string, Known> known_;
  std::vector<Body> bodies_;
  /// Names with a "*" that outermost repeats gave, and the numbers of their rounds.
  absl::flat_hash_map<std::string, RoundNumbers> of_rounds_;
  std::int64_t num_lookups_ = 0;
};

}  // namespace tessera
