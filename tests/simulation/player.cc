#include "tests/simulation/player.h"

#include <bit>

#include "checkpoint/load.h"
#include "checkpoint/save.h"
#include "dtensor/runtime.h"
#include "runtime/plan/execute.h"
#include "tests/checkpoint/state.h"

namespace tessera::seeded {
namespace {

using Kind = Action::Kind;

Array array_of(World& world, const Shape& shape, DType dtype, const Values& values) {
  const Array made = Array::empty(shape, dtype, world.allocator());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::kF32) {
      made.data<float>()[i] = static_cast<float>(values[i]);
    } else if (dtype == DType::kF64) {
      made.data<double>()[i] = values[i];
    } else {
      made.data<std::int64_t>()[i] = static_cast<std::int64_t>(values[i]);
    }
  }
  return made;
}

class Player {
 public:
  Player(World& world, Job& job)
      : world_(world),
        job_(job),
        report_(job.reports[static_cast<std::size_t>(world.rank())]),
        order_(job.plan.schedule + static_cast<std::uint64_t>(world.rank())) {}

  void play() {
    const std::vector<Action>& actions = job_.plan.program.actions;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (job_.plan.rank == world_.rank() && job_.plan.action == i && !go_wrong(actions[i])) return;
      take(actions[i]);
    }
    wait_for_all();
  }

 private:
  struct Pending {
    std::shared_ptr<Work> work;
    Array result;
    Values expected;
    std::string what;
  };

  /// False where the rank returns.
  bool go_wrong(const Action& action) {
    switch (job_.plan.fault) {
      case Fault::kThrow:
        throw Error(not_found("no shard of it"));
      case Fault::kReturn:
        return false;
      case Fault::kOtherCall: {
        if (!action.is_call() || !action.has(world_.rank())) return true;
        const Array other = Array::zeros({7919}, DType::kF64, world_.allocator());
        group_of(action).all_reduce(other, other, ReduceOp::kMax);
        return true;
      }
      case Fault::kLate:
        Simulation::current().pause(kLate);
        return true;
      case Fault::kAway:
        Simulation::current().pause(kAway);
        return true;
      default:
        return true;
    }
  }

  void take(const Action& action) {
    if (action.kind == Kind::kPause) {
      const auto most = static_cast<std::uint64_t>(action.pause.count()) + 1;
      Simulation::current().pause(Duration(order_.below(most)));
    } else if (action.kind == Kind::kRedistribute) {
      redistribute(job_.plan.program.redistributions[action.redistribution]);
    } else if (action.kind == Kind::kSave) {
      guarded([&] { save(action); });
    } else if (action.kind == Kind::kLoad) {
      guarded([&] { load(); });
    } else if (action.has(world_.rank())) {
      begin(action);
      if (!action.later) wait_for(pending_.size() - 1);
    }
  }

  Communicator& group_of(const Action& action) {
    return *value_or_throw(world_.group(action.group));
  }

  void begin(const Action& action) {
    Communicator& group = group_of(action);
    const int own = group.rank();
    const auto at = static_cast<std::size_t>(own);
    const Values operand = operand_of(action, own);
    const Values expected = result_of(action, own);
    const auto shape_of = [&](std::size_t elements) {
      return Shape{static_cast<std::int64_t>(elements) / action.width, action.width};
    };
    const Array in = array_of(world_, shape_of(operand.size()), action.dtype, operand);
    const Array out = Array::empty(shape_of(expected.size()), action.dtype, world_.allocator());
    Pending pending{.result = out, .expected = expected, .what = "an action"};
    switch (action.kind) {
      case Kind::kAllReduce:
        pending.work = group.all_reduce_async(in, out, action.op);
        break;
      case Kind::kAllGather:
        pending.work = group.all_gather_async(in, out, action.rows[0]);
        break;
      case Kind::kReduceScatter:
        pending.work = group.reduce_scatter_async(in, out, action.op, action.rows[0]);
        break;
      case Kind::kAllToAll: {
        Ranks from;
        for (const Ranks& rows : action.rows) from.push_back(rows[at]);
        pending.work = group.all_to_all_async(in, out, action.rows[at], from);
        break;
      }
      case Kind::kBroadcast:
        pending.result = in;
        pending.work = group.broadcast_async(in, action.root);
        break;
      case Kind::kPair:
        pending.work = own == 0 ? group.send_async(in, 1) : group.recv_async(out, 0);
        break;
      default:
        pending.work = group.start(CollectiveCall{}, {});
        break;
    }
    pending.what = "call " + std::to_string(num_calls_++) + " of kind " +
                   std::to_string(static_cast<int>(action.kind));
    pending_.push_back(std::move(pending));
  }

  void wait_for(std::size_t index) {
    Pending pending = std::move(pending_[index]);
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(index));
    pending.work->wait();
    check(pending.what, pending.result.to_vector(), pending.expected);
  }
  /// In an order of this rank's own.
  void wait_for_all() {
    while (!pending_.empty()) wait_for(order_.below(pending_.size()));
  }

  void check(const std::string& what, const Values& seen, const Values& expected) {
    std::uint64_t hash = std::hash<std::string>()(what);
    for (const double value : seen) {
      hash = (hash ^ std::bit_cast<std::uint64_t>(value)) * 1099511628211U;
    }
    report_.hash += hash;  // calls end in another order under another schedule
    if (seen != expected) report_.wrong.push_back(what + " gave other values");
  }

  void redistribute(const judge::Expected& expected) {
    const Array before = judge::array_before(expected, world_.rank());
    Array local;
    if (!before.is_null()) {
      local = array_of(world_, before.shape(), before.dtype(), before.to_vector());
    }
    const Array result = execute(world_, expected.plan, local);
    const std::string flaw = judge::flaw_of(expected, world_.rank(), result);
    if (!flaw.empty()) report_.wrong.push_back("a redistribution: " + flaw);
    if (!result.is_null()) {
      const Values values = result.to_vector();
      check("a redistribution", values, values);
    }
  }

  // ---- checkpoints

  /// What the disk refuses is no end of the program.
  template <class F>
  void guarded(const F& part) {
    wait_for_all();
    try {
      part();
    } catch (const Error& error) {
      if (error.status().code() != absl::StatusCode::kDataLoss || !job_.disk_failed) throw;
      report_.failures.push_back(std::string(message_of(error.status())));
    }
  }
  Runtime& runtime() {
    if (runtime_ == nullptr) runtime_ = std::make_unique<Runtime>(world_);
    return *runtime_;
  }
  testing::Placed placed() const { return {{world_.size()}, {"S(0)"}}; }

  void save(const Action& action) {
    const std::size_t index = num_saves_++;
    const int version = job_.save(index).version;
    const auto state = testing::make_state(runtime(), placed(), version);
    const Json values = Json::object({{"version", version}});
    const SaveOptions options{.chunk_bytes = 64};
    if (action.later) {
      AsyncSave saving(world_, job_.files, state, values, options);
      saving.finish();
    } else {
      save_checkpoint(world_, job_.files, state, values, options);
    }
    Save& save = job_.save(index);
    if (!save.end) save.end = job_.files.num_ops();
  }

  void load() {
    const auto state = testing::make_state(runtime(), placed(), -1);
    const Loaded loaded = load_checkpoint(world_, job_.files, state);
    const auto version = static_cast<int>(*loaded.values.find("version")->if_integer());
    const auto expected = testing::make_state(runtime(), placed(), version);
    for (std::size_t i = 0; i < state.size(); ++i) {
      check("a load", state[i].tensor.local().to_vector(), expected[i].tensor.local().to_vector());
    }
    const bool is_newest = job_.disk_failed || version + 1 == static_cast<int>(num_saves_);
    if (!is_newest) report_.wrong.push_back("a load gave version " + std::to_string(version));
  }

  World& world_;
  Job& job_;
  Report& report_;
  Draw order_;
  std::unique_ptr<Runtime> runtime_;
  std::vector<Pending> pending_;
  std::size_t num_saves_ = 0;
  int num_calls_ = 0;
};

}  // namespace

void play(World& world, Job& job) {
  try {
    Player(world, job).play();
    job.reports[static_cast<std::size_t>(world.rank())].has_returned = true;
  } catch (const Error& error) {
    job.reports[static_cast<std::size_t>(world.rank())].status = error.status();
    throw;
  }
}

}  // namespace tessera::seeded
