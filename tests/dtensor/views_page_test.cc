// docs/views.md: each line of its tables is a call on cut tensors, made on ranks and on one rank:
// the same elements, the same gradient, the placements and the bytes that stand there.
// TESSERA_ACCEPT=1 writes what is seen now into the page.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <sstream>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "io/file.h"
#include "io/json.h"
#include "tests/dtensor/outcome.h"
#include "tests/support/paths.h"

namespace tessera::testing {
namespace {

using Cells = std::vector<std::string>;
enum Column : std::size_t { kIssue = 1, kCase, kCall, kOperands, kResult, kBytes, kColumns };

std::string trimmed(const std::string& text) {
  return std::string(absl::StripAsciiWhitespace(text));
}
/// "`x`" as x.
std::string code_of(const std::string& cell) {
  std::string text = trimmed(cell);
  if (text.size() > 1 && text.front() == '`') text = text.substr(1, text.size() - 2);
  return text;
}

/// "F32[8, 6] (S(0), R) on {dp: 2, tp: 2}"
struct Operand {
  Shape shape;
  Placements placements;
  Mesh mesh;
};
Operand parse_operand(const std::string& text) {
  Operand operand;
  const std::size_t open = text.find('['), close = text.find(']'), on = text.rfind(" on {");
  for (const std::string& size : std::vector<std::string>(
           absl::StrSplit(text.substr(open + 1, close - open - 1), ", ", absl::SkipEmpty()))) {
    operand.shape.push_back(std::stoll(size));
  }
  operand.placements = value_or_throw(parse_placements(text.substr(close + 2, on - close - 2)));
  MeshAxes axes;
  const std::string inside = text.substr(on + 5, text.size() - on - 6);
  for (const std::string& axis : std::vector<std::string>(absl::StrSplit(inside, ", "))) {
    const std::size_t colon = axis.find(": ");
    axes.emplace_back(axis.substr(0, colon), std::stoll(axis.substr(colon + 2)));
  }
  operand.mesh = make_mesh(axes);
  return operand;
}

AttrValue value_of(const Json& json) {
  if (const auto* number = json.if_integer()) return *number;
  if (const auto* flag = json.if_bool()) return *flag;
  Shape sizes;
  for (const Json& each : *json.if_array()) sizes.push_back(*each.if_integer());
  return sizes;
}

/// view {"size":[8]}
struct OpCall {
  std::string op;
  Json attrs;
};
std::vector<OpCall> parse_calls(const std::string& text) {
  std::vector<OpCall> calls;
  for (const std::string& each : std::vector<std::string>(absl::StrSplit(text, "; "))) {
    const std::size_t blank = std::min(each.find(' '), each.size());
    const std::string attrs = blank < each.size() ? each.substr(blank + 1) : "{}";
    calls.push_back({each.substr(0, blank), value_or_throw(parse_json(attrs, "attributes"))});
  }
  return calls;
}

struct Line {
  Cells cells;
  std::vector<OpCall> calls;
  std::vector<Operand> operands;
};
Line parse_line(const std::string& row) {
  Line line;
  line.cells = absl::StrSplit(row, '|');
  line.calls = parse_calls(code_of(line.cells[kCall]));
  for (const std::string& each :
       std::vector<std::string>(absl::StrSplit(code_of(line.cells[kOperands]), "; "))) {
    line.operands.push_back(parse_operand(each));
  }
  return line;
}

/// Small whole numbers: sums of products of them are exact.
Array counted(const Shape& shape, int first) {
  std::vector<double> values(static_cast<std::size_t>(num_elements(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<double>((static_cast<int>(i) * 7 + first) % 97 - 48);
  }
  return Array::from_values(shape, DType::kF32, values);
}

/// The calls in a row, the first on all operands, each of the others on what the one before gave.
std::vector<DTensor> run_calls(Runtime& runtime, const std::vector<OpCall>& calls,
                               std::vector<DTensor> operands) {
  for (const OpCall& each : calls) {
    Attrs attrs;
    for (const JsonMember& member : *each.attrs.if_object()) {
      attrs.set(member.key, value_of(member.value));
    }
    if (each.op == "linear" && operands.size() == 2) operands.emplace_back();  // no bias
    operands = call(runtime, each.op, operands, attrs);
  }
  return operands;
}

/// All results, and the gradient of the first operand where each result has a cotangent of its own.
Outcome outcome_of_calls(Runtime& runtime, const std::vector<DTensor>& results,
                         const DTensor& leaf) {
  Outcome outcome;
  DTensor sums;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const DTensor& result = results[i];
    outcome[absl::StrFormat("result.%04d", i)] = copy_of(full_tensor(result));
    const Mesh& mesh = result.spec().mesh();
    const Array weights = counted(result.spec().global_shape(), static_cast<int>(i) + 3);
    const DTensor cotangent =
        mesh.ndim() == 0
            ? here(runtime, weights)
            : distribute(runtime, weights, mesh,
                         Placements(static_cast<std::size_t>(mesh.ndim()), Replicate{}));
    const DTensor sum_of_one = sum(mul(result, cotangent));
    sums = i == 0 ? sum_of_one : add(sums, sum_of_one);
  }
  backward(sums);
  outcome["gradient"] = copy_of(full_tensor(leaf.grad()));
  return outcome;
}

struct Seen {
  std::string results;
  std::int64_t bytes = 0;
  Outcome outcome;
};

std::string without_mesh(const std::string& spec) { return spec.substr(0, spec.rfind(" on {")); }

std::vector<Seen> seen_on_ranks(const Line& line) {
  const auto ranks = run_ranks(line.operands[0].mesh, [&](Rank& rank) {
    std::vector<DTensor> operands;
    for (std::size_t i = 0; i < line.operands.size(); ++i) {
      const Operand& operand = line.operands[i];
      operands.push_back(
          rank.distribute(counted(operand.shape, static_cast<int>(i)), operand.placements));
    }
    DTensor leaf = operands[0];
    leaf.set_requires_grad(true);
    rank.runtime.events().clear();
    const std::vector<DTensor> results = run_calls(rank.runtime, line.calls, operands);
    const std::int64_t bytes = rank.bytes_received();
    std::vector<std::string> texts;
    for (const DTensor& result : results) {
      const std::string text = without_mesh(result.spec().to_string());
      if (texts.empty() || texts.back() != text) texts.push_back(text);
    }
    return std::tuple(absl::StrJoin(texts, "; "), bytes,
                      outcome_of_calls(rank.runtime, results, leaf));
  });
  std::vector<Seen> all;
  for (const auto& [results, bytes, outcome] : ranks) all.push_back({results, bytes, outcome});
  return all;
}

Outcome on_one_rank(const Line& line) {
  return run_ranks(make_mesh({{"one", 1}}),
                   [&](Rank& rank) {
                     std::vector<DTensor> operands;
                     for (std::size_t i = 0; i < line.operands.size(); ++i) {
                       operands.push_back(here(
                           rank.runtime, counted(line.operands[i].shape, static_cast<int>(i))));
                     }
                     DTensor leaf = operands[0];
                     leaf.set_requires_grad(true);
                     return outcome_of_calls(rank.runtime,
                                             run_calls(rank.runtime, line.calls, operands), leaf);
                   })
      .at(0);
}

/// The line as it should stand there; what differs from one rank is checked on the way.
std::string line_as_seen(const std::string& row) {
  Line line = parse_line(row);
  const std::vector<Seen> ranks = seen_on_ranks(line);
  const Outcome expected = on_one_rank(line);
  std::int64_t bytes = 0;
  for (const Seen& rank : ranks) {
    CHECK(rank.results == ranks[0].results);
    CHECK(rank.outcome.size() == expected.size());
    for (const auto& [name, array] : expected) {
      CAPTURE(name);
      CHECK(same_bits(rank.outcome.at(name), array));
    }
    bytes += rank.bytes;
  }
  line.cells[kResult] = " `" + ranks[0].results + "` ";
  line.cells[kBytes] = absl::StrFormat(" %d ", bytes);
  return absl::StrJoin(line.cells, "|");
}

TEST_CASE("docs/views.md: each view is exact, and moves what stands there", "[dtensor][views]") {
  if (!runs_here(1) || !runs_here(2) || !runs_here(3) || !runs_here(4) || !runs_here(6)) return;
  const std::string path = test_data("/../../docs/views.md");
  std::istringstream page(value_or_throw(read_file(path, 1 << 20)));
  std::string as_seen;
  int lines = 0;
  for (std::string row; std::getline(page, row);) {
    const bool is_case = row.starts_with("| ") && row.find("` on {") == std::string::npos &&
                         row.find(" on {") != std::string::npos;
    if (!is_case) {
      as_seen += row + "\n";
      continue;
    }
    CAPTURE(row);
    ++lines;
    const std::string seen = line_as_seen(row);
    if (std::getenv("TESSERA_ACCEPT") == nullptr) CHECK(seen == row);
    as_seen += seen + "\n";
  }
  CHECK(lines >= 25);
  if (std::getenv("TESSERA_ACCEPT") != nullptr) throw_if_error(write_file(path, as_seen));
}

}  // namespace
}  // namespace tessera::testing
