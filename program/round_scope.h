// program/round_scope.h: the names that values have where every round of a repeat is written out,
// while someone goes through a program's steps in order. For unfold() and what executes programs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "placement/api.h"
#include "placement/status.h"
#include "program/program.h"

namespace tessera TSR_API {

/// Names are as unfold() has them: the numbers of the rounds around a name take the places of its
/// "*"s, those left over follow it after "#".
class RoundScope {
 public:
  /// The own names of a value that is there before the first step: one for each of its count.
  /// Errors: InvalidArgument where another value has one of them.
  StatusOr<std::vector<std::string>> declare(const ProgramValue& value);
  /// The value that a written name stands for here. Errors: InvalidArgument for a value with a
  /// count outside of a repeat of that count.
  StatusOr<std::string> use(const std::string& name) const;
  /// A step has made a value. Errors: InvalidArgument where another one has its name.
  StatusOr<std::string> make(const std::string& name);
  /// The module of a step here.
  std::string module(const std::string& written) const;

  void begin(const RepeatStep& repeat);
  void begin_round(const RepeatStep& repeat, std::int64_t round);
  /// What the round leaves is what the next one begins with. Errors: those of use();
  /// InvalidArgument where a value with a count is carried into.
  Status end_round(const RepeatStep& repeat);
  void end();

 private:
  Status take(const std::string& name);
  std::optional<std::string> own_name(const std::string& name) const;

  absl::flat_hash_map<std::string, std::int64_t> counts_;  ///< of values that have one
  absl::flat_hash_map<std::string, std::string> now_;      ///< what a written name stands for
  absl::flat_hash_set<std::string> taken_;
  /// Of the repeats around, outermost first: the present round's number, how many there were before
  /// it, how many there are, and which repeat it is.
  std::vector<std::int64_t> rounds_, indices_, totals_, open_;
  absl::flat_hash_map<std::string, std::int64_t> made_in_;  ///< which repeat gave a name last
  std::int64_t num_repeats_ = 0;
};

}  // namespace tessera
