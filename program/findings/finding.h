// program/findings/finding.h: what is dear, doubtful or wrong in a program, each place with its
// cause and, where one is known, what would mend it. Equal places of equal layers are one finding.
// docs/findings.md says of each rule why it matters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "placement/api.h"
#include "program/program.h"
#include "strategies/rules/op.h"

namespace tessera TSR_API {

enum class Severity : std::uint8_t { kNote, kWarn, kFail };
std::string_view name_of(Severity severity) noexcept;  ///< note, warn, fail

struct Finding {
  std::string rule;  ///< the name of one of finding_rules()
  /// 16 hexadecimal digits that stay while the place does: of rule, module, site, phase, op, axes
  /// and collective, not of counts and bytes.
  std::string id;
  Severity severity = Severity::kWarn;
  std::string module;      ///< a path in which numbers are "*": "layers.*.wo"; "" for none
  std::int64_t count = 1;  ///< places that are equal: layers, rounds of repeats
  std::string site;        ///< "model/attn.py:118"; "" where it is not known
  std::optional<StepPhase> phase;
  std::optional<int> stage;
  std::string op;          ///< op, region or collective's asker that it is about; may be ""
  std::string value;       ///< one of the values that it is about, for `explain`; may be ""
  std::string collective;  ///< one of move_names(), or several with ", "; may be ""
  std::vector<std::string> axes;
  Volume bytes;         ///< received in a step by all of the places: the rank with most, all ranks
  std::string measure;  ///< what the first line says of its size: "3.2 GiB a step", "20 % idle"
  std::string cause;    ///< a sentence without a point
  std::string fix;      ///< the same; "" where none is known
  std::optional<std::int64_t> saved_bytes;  ///< by the fix, a step, for the rank with most
  bool known = false;                       ///< a baseline has it
};

/// What moves of one kind in one module; without those of modules inside of it.
struct MoveSum {
  std::string module;  ///< as steps have it
  std::string collective;
  std::vector<std::string> axes;
  bool implicit = false;
  std::int64_t calls = 0;
  Volume bytes;  ///< received in a step
};

/// Findings, those that fail first, then by bytes, then by name and place.
struct Findings {
  std::vector<Finding> all;
  Volume bytes, implicit_bytes;     ///< received in a step
  Volume bound;                     ///< of redistributions whose lower bound is known
  Volume bounded_bytes;             ///< what these move
  std::int64_t host_reads = 0;      ///< in a step
  std::int64_t unplaced_moves = 0;  ///< redistributions of what has no placements: not counted
  std::vector<MoveSum> sums;        ///< by module, collective and axes

  /// bounded_bytes.total / bound.total; 1 where nothing moves.
  double ratio() const noexcept;
};

class FindingContext;

/// A kind of finding. To add one write a function in a file of its own and a line in rules.cc.
struct FindingRule {
  std::string_view name;
  std::string_view meaning;  ///< one line
  Severity severity;         ///< of most of its findings
  Status (*find)(FindingContext& context);
};
/// In the order in which docs/findings.md has them.
const std::vector<FindingRule>& finding_rules();
const FindingRule* find_rule(std::string_view name) noexcept;

/// Everything that the rules find. Bodies of repeats are looked at once and count as often as they
/// run. `ops` is the table with which the program was read. Errors: those of moves_of(); OutOfRange
/// for sums beyond 2^63. Cost: O(steps as written), and a plan for each pair of placements.
StatusOr<Findings> find_all(const Program& program, const OpTable& ops);

/// "layers.*.wo" of "layers.3.wo".
std::string group_of_layers(std::string_view module);

}  // namespace tessera
