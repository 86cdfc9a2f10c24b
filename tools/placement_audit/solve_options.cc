#include "tools/placement_audit/solve_options.h"

#include <charconv>
#include <cmath>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "io/json.h"

namespace tessera::audit {
namespace {

constexpr std::int64_t kMaxSolvedRanks = std::int64_t{1} << 20;

[[noreturn]] void refuse(const char* flag, const std::string& why) {
  throw CLI::ValidationError(flag, why);
}

double positive(const char* flag, const std::string& text, const char* what) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && at == end && std::isfinite(number) && number > 0) return number;
  refuse(flag, absl::StrFormat("%s: expected %s, a number above 0", in_quotes(text), what));
}

}  // namespace

StatusOr<Mesh> parse_mesh_axes(std::string_view text) {
  const std::string wrong = in_quotes(text) + ": expected axes and their sizes, such as dp=8,tp=8";
  std::vector<std::int64_t> shape;
  std::vector<std::string> names;
  std::int64_t ranks = 1;
  const std::vector<std::string> parts = absl::StrSplit(std::string(text), ',');
  for (const std::string& part : parts) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos || equals == 0) return invalid_argument(wrong);
    const std::string size_text = part.substr(equals + 1);
    std::int64_t size = 0;
    const char* const end = size_text.data() + size_text.size();
    const auto [at, error] = std::from_chars(size_text.data(), end, size);
    if (error != std::errc() || at != end || size < 1) return invalid_argument(wrong);
    if (size > kMaxSolvedRanks / ranks) {
      return invalid_argument(
          absl::StrFormat("%s: more than %d ranks", in_quotes(text), kMaxSolvedRanks));
    }
    ranks *= size;
    shape.push_back(size);
    names.emplace_back(part.substr(0, equals));
  }
  StatusOr<Mesh> mesh = Mesh::make(shape, std::move(names));
  if (mesh.ok()) return mesh;
  return invalid_argument(in_quotes(text) + ": " + std::string(message_of(mesh.status())));
}

CLI::Option* add_pins(CLI::App& command, Request& request) {
  const auto add = [&pins = request.solve.pins](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      StatusOr<PlacementConstraint> pin = parse_constraint(text);
      if (!pin.ok()) refuse("--pin", std::string(message_of(pin.status())));
      pins.push_back(*std::move(pin));
    }
  };
  return command
      .add_option_function<std::vector<std::string>>(
          "--pin", add,
          "placements that values must have or not: w*=S(0),R; layers.*.wq@tp=S(0)|R; x@dp!=P(sum)")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

CLI::Option* add_time_limit(CLI::App& command, Request& request) {
  return command.add_option_function<std::string>(
      "--time-limit",
      [&solve = request.solve](const std::string& text) {
        solve.time_limit_s = positive("--time-limit", text, "seconds");
      },
      "seconds; then the best so far, which may differ from machine to machine");
}

void add_solve_options(CLI::App& command, Request& request) {
  SolveRequest& solve = request.solve;
  const auto set_mesh = [&solve](const std::string& text) {
    StatusOr<Mesh> mesh = parse_mesh_axes(text);
    if (!mesh.ok()) refuse("--mesh", std::string(message_of(mesh.status())));
    solve.mesh = *std::move(mesh);
    solve.free = true;
  };
  command
      .add_option_function<std::string>(
          "--mode", [&solve](const std::string& text) { solve.greedy = text == "greedy"; },
          "solve: the least cost of the whole; greedy: op by op, as dispatch chooses")
      ->check(CLI::IsMember({"solve", "greedy"}));
  command.add_flag("--free", solve.free,
                   "drops the placements that the program has, but for those of regions");
  command.add_option_function<std::string>(
      "--mesh", set_mesh, "the program, free, on this mesh in place of its own: dp=8,tp=8");
  add_pins(command, request);
  CLI::Option* topology = command.add_option(
      "--topology", request.topology,
      "prices moves in time: host, node8, cluster, or a file; left out: in bytes");
  const auto add_rate = [&](const std::string& flag, const char* unit, const char* help,
                            double& rate) {
    command
        .add_option_function<std::string>(
            flag,
            [flag, unit, &rate](const std::string& text) {
              rate = positive(flag.c_str(), text, unit);
            },
            help)
        ->needs(topology);
  };
  add_rate("--tflops", "10^12 operations a second of a rank",
           "what a rank computes in a second: prices work that ranks repeat", solve.tflops);
  add_rate("--gb-per-s", "10^9 bytes a second of a rank",
           "what a rank reads and writes in a second: prices all ops", solve.gb_per_s);
  add_time_limit(command, request);
}

}  // namespace tessera::audit
