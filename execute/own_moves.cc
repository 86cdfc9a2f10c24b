#include "execute/own_moves.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "execute/program_run.h"
#include "execute/traffic.h"
#include "kernels/shapes_device.h"
#include "runtime/sim/sim_world.h"

namespace tessera {
namespace {

/// Regions give what they are to give, and do nothing.
RegionTable empty_regions(const std::vector<AnyStep>& steps) {
  RegionTable table;
  for (const AnyStep& step : steps) {
    if (const auto* repeat = std::get_if<RepeatStep>(&step.what)) {
      table.merge(empty_regions(repeat->steps));
    } else if (const auto* region = std::get_if<RegionStep>(&step.what)) {
      table[region->name] = [](const RegionWork& work) {
        std::vector<DTensor> results;
        for (const Spec& spec : work.results) results.push_back(empty(work.runtime, spec));
        return results;
      };
    }
  }
  return table;
}

std::int64_t ranks_along(const Mesh& mesh, const std::vector<std::string>& axes) {
  std::int64_t ranks = 1;
  for (const std::string& label : axes) {
    const StatusOr<int> axis = mesh.find_axis(label);
    if (axis.ok()) ranks *= mesh.size(*axis);
  }
  return ranks;
}

/// The moves of each call, by rank.
class OwnMoves {
 public:
  explicit OwnMoves(Program& program) : program_(program) {}

  Status simulate(std::int64_t rank, const std::function<Status(OpTable&)>& add_ops) {
    SimOptions options;
    options.value_bytes = std::numeric_limits<std::int64_t>::max();
    options.device = &shapes_device();
    TSR_ASSIGN_OR_RETURN(const std::unique_ptr<World> world,
                         make_sim_world(rank, program_.ranks, options));
    try {
      Runtime runtime(*world);
      if (add_ops) TSR_RETURN_IF_ERROR(add_ops(runtime.ops()));
      // The step that a listener is given is the run's own: its place is the program's.
      TSR_ASSIGN_OR_RETURN(const std::unique_ptr<ProgramRun> run,
                           ProgramRun::make(runtime, program_, empty_regions(program_.steps)));
      places_.clear();
      met_.clear();
      find_places(run->program().steps, program_.steps);
      ProgramTensors given;
      for (const WantedValue& wanted : run->wanted()) {
        given[wanted.name] = empty(runtime, wanted.spec);
      }
      TrafficLog log(runtime);
      const AfterStep note = log.listener();
      std::size_t seen = 0;
      run->run(std::move(given), [&](const AnyStep& step) {
        note(step);
        const std::span<const RankMove> moves(log.moves());
        take(step, moves.subspan(seen));
        seen = moves.size();
      });
      return absl::OkStatus();
    } catch (const Error& error) {
      return error.status();
    }
  }

  void write(std::int64_t ranks_simulated) {
    for (auto& [call, moves] : found_) {
      if (!call->moves.empty()) continue;
      for (ProgramMove& move : moves) {
        if (ranks_simulated < program_.ranks) move.bytes.total = move.bytes.max * program_.ranks;
      }
      call->moves = moves;
    }
  }

 private:
  void find_places(const std::vector<AnyStep>& copied, std::vector<AnyStep>& own) {
    for (std::size_t i = 0; i < copied.size(); ++i) {
      places_[&copied[i]] = &own[i];
      if (const auto* repeat = std::get_if<RepeatStep>(&copied[i].what)) {
        find_places(repeat->steps, std::get<RepeatStep>(own[i].what).steps);
      }
    }
  }
  /// Of a repeat's rounds, which are alike, the first one counts.
  void take(const AnyStep& step, std::span<const RankMove> moves) {
    auto* call = std::get_if<CallStep>(&places_[&step]->what);
    if (call == nullptr || moves.empty() || !met_.insert(call).second) return;
    std::vector<ProgramMove>& all = found_[call];
    for (std::size_t i = 0; i < moves.size(); ++i) {
      if (i == all.size()) {
        std::vector<std::string> axes = absl::StrSplit(moves[i].axes, ',', absl::SkipEmpty());
        const Mesh& mesh = program_.meshes[static_cast<std::size_t>(*call->out[0].mesh)].mesh;
        const std::int64_t ranks = ranks_along(mesh, axes);
        all.push_back({.collective = moves[i].collective,
                       .axes = std::move(axes),
                       .ranks = ranks,
                       .bytes = {}});
      }
      all[i].bytes.max = std::max(all[i].bytes.max, moves[i].bytes);
      all[i].bytes.total += moves[i].bytes;
    }
  }

  Program& program_;
  std::map<const AnyStep*, AnyStep*> places_;
  std::set<CallStep*> met_;  ///< calls that this rank has made
  std::map<CallStep*, std::vector<ProgramMove>> found_;
};

}  // namespace

StatusOr<Program> with_own_moves(Program program, const std::function<Status(OpTable&)>& add_ops) {
  OwnMoves moves(program);
  const std::int64_t ranks = program.ranks <= kMostSimulatedRanks ? program.ranks : 1;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    TSR_RETURN_IF_ERROR(moves.simulate(rank, add_ops));
  }
  moves.write(ranks);
  return program;
}

}  // namespace tessera
