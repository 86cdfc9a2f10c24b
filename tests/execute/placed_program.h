// tests/execute/placed_program.h: small programs as text, and whole values for what they begin
// with.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "execute/program_run.h"
#include "execute/traffic.h"
#include "program/program_json.h"
#include "testing/arrays.h"
#include "testing/ranks.h"
#include "tests/support/builtin_ops.h"

namespace tessera::testing {

/// A value on mesh "m", F64: {"name":"x",…}.
inline std::string value_text(const std::string& name, const std::string& shape,
                              const std::string& placements, const std::string& role = "") {
  std::string text =
      absl::StrFormat(R"j({"name":"%s","shape":[%s],"dtype":"F64","mesh":"m","placements":%s)j",
                      name, shape, placements);
  if (!role.empty()) text += R"j(,"role":")j" + role + "\"";
  return text + "}";
}
inline std::string op_text(const std::string& op, const std::string& args, const std::string& out,
                           const std::string& more = "") {
  return R"j({"op":")j" + op + R"j(","args":[)j" + args + R"j(],"out":[)j" + out + "]" + more + "}";
}
inline std::string move_text(const std::string& from, const std::string& to,
                             const std::string& out) {
  return R"j({"redistribute":")j" + from + R"j(","to":)j" + to + R"j(,"out":")j" + out + R"j("})j";
}

/// `mesh`: "[4],\"axes\":[\"tp\"]".
inline Program program_of(int ranks, const std::string& mesh, const std::string& values,
                          const std::string& steps) {
  const std::string text = absl::StrFormat(
      R"j({"version":1,"name":"p","source":{"kind":"program"},"ranks":%d,"meshes":{"m":{"shape":%s}},"values":[%s],"steps":[%s]})j",
      ranks, mesh, values, steps);
  return value_or_throw(read_program(text, "p", builtin_ops()));
}
inline Program on_four(const std::string& values, const std::string& steps) {
  return program_of(4, R"j([4],"axes":["tp"])j", values, steps);
}

/// Values in (-1, 1), or small integers, of what a program begins with: alike on every rank.
inline ProgramTensors random_given(Runtime& runtime, const ProgramRun& run) {
  ProgramTensors given;
  std::uint64_t seed = 11;
  for (const WantedValue& wanted : run.wanted()) {
    const Shape& shape = wanted.spec.global_shape();
    const Array whole = is_floating(wanted.spec.dtype())
                            ? random_values(shape, wanted.spec.dtype(), ++seed)
                            : random_integers(shape, 4, ++seed);
    given[wanted.name] = distribute(runtime, to_device(runtime.kernels(), whole), wanted.spec);
  }
  return given;
}

/// What a rank saw of a run.
struct RunSeen {
  std::vector<std::string> names;           ///< of what is left
  std::vector<std::vector<double>> values;  ///< whole
  std::vector<RankMove> moves;
};

inline RunSeen run_on(Rank& rank, const Program& program,
                      const RegionTable& regions = own_regions()) {
  const auto run = value_or_throw(ProgramRun::make(rank.runtime, program, regions));
  ProgramTensors given = random_given(rank.runtime, *run);
  TrafficLog log(rank.runtime);
  const ProgramTensors left = run->run(std::move(given), log.listener());
  RunSeen seen{.moves = log.moves()};
  for (const auto& [name, tensor] : left) {
    seen.names.push_back(name);
    seen.values.push_back(to_host(full_tensor(tensor)).to_vector());
  }
  return seen;
}

/// The first step that moved something else than was predicted; empty where there is none.
inline std::string first_misprediction(const Program& program, const std::vector<RunSeen>& ranks) {
  std::vector<std::vector<RankMove>> moves;
  for (const RunSeen& seen : ranks) moves.push_back(seen.moves);
  const auto text = [](const std::vector<MovedBytes>& all) {
    std::string list;
    for (const MovedBytes& each : all) {
      list += absl::StrFormat(" %s@%s %d of %d", each.collective, each.axes, each.bytes.max,
                              each.bytes.total);
    }
    return list.empty() ? std::string(" nothing") : list;
  };
  for (const StepTraffic& step : value_or_throw(traffic_of(program, moves))) {
    if (step.as_predicted()) continue;
    return step.place + " " + step.what + ": predicted" + text(step.predicted) + ", executed" +
           text(step.executed);
  }
  return "";
}

}  // namespace tessera::testing
