// Pairs of ranks play ping-pong while the others wait; each gives the other what it got, so that a
// round trip is two messages. Every rank gets all times and draws the same conclusions from them.
#include "runtime/measure_links.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <set>

#include "absl/strings/str_format.h"
#include "placement/plan_links.h"
#include "runtime/control/host_identity.h"
#include "runtime/gather_texts.h"

namespace tessera {
namespace {

// The smallest tells of latency, the largest of bandwidth.
constexpr std::int64_t kMessageBytes[] = {8, 4096, std::int64_t{64} << 10, std::int64_t{1} << 20,
                                          std::int64_t{8} << 20};
constexpr std::size_t kNumSizes = std::size(kMessageBytes);
constexpr std::int64_t kAllPairsOf = 16;
constexpr std::int64_t kPairsOfDistance = 8;
constexpr int kLeastTrips = 3, kMostTrips = 400;
constexpr int kCollectives = 100;
/// Links are of two classes where one takes so many times what the other does.
constexpr double kApart = 1.5;

/// The element of rank ⌊share · count⌋; 0 of none.
double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto at = std::min(values.size() - 1,
                           static_cast<std::size_t>(share * static_cast<double>(values.size())));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}
double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

class Watch {
 public:
  double us() const {
    return std::chrono::duration<double, std::micro>(Clock::now() - begin_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now();
};

std::vector<PairTimes> pairs_of(std::int64_t num_ranks) {
  std::vector<PairTimes> pairs;
  if (num_ranks <= kAllPairsOf) {
    for (std::int64_t a = 0; a < num_ranks; ++a) {
      for (std::int64_t b = a + 1; b < num_ranks; ++b) pairs.push_back({.a = a, .b = b});
    }
    return pairs;
  }
  for (std::int64_t distance = 1; distance < num_ranks; distance *= 2) {
    std::set<std::int64_t> firsts;
    for (std::int64_t i = 0; i < kPairsOfDistance; ++i) {
      firsts.insert(i * (num_ranks - distance - 1) / (kPairsOfDistance - 1));
    }
    for (const std::int64_t a : firsts) pairs.push_back({.a = a, .b = a + distance});
  }
  return pairs;
}

/// One rank's part in measuring.
class Player {
 public:
  explicit Player(World& world) : world_(world), group_(everyone(world)) {
    const Allocator_& allocator = world.allocator();
    for (const std::int64_t bytes : kMessageBytes) {
      balls_.push_back(Array::empty({bytes}, DType::kBool, allocator));
    }
    trips_ = Array::empty({1}, DType::kI64, world.host_allocator());
  }

  /// Times of one way, of each size; those of the pair's lower rank count, others are 0.
  std::vector<double> play(const PairTimes& pair, double us_of_size) {
    std::vector<double> times(kNumSizes, 0);
    for (std::size_t i = 0; i < kNumSizes; ++i) {
      if (world_.rank() == pair.a)
        times[i] = serve(static_cast<int>(pair.b), balls_[i], us_of_size);
      if (world_.rank() == pair.b) answer(static_cast<int>(pair.a), balls_[i]);
    }
    group_.barrier(kQuiet);
    return times;
  }

  /// A small all-gather of a group that this rank belongs to.
  double gather(Communicator& group) {
    const Array own = Array::empty({1}, DType::kI64, world_.allocator());
    const Array all = Array::empty({group.size()}, DType::kI64, world_.allocator());
    std::vector<double> times;
    for (int i = 0; i < kCollectives; ++i) {
      group.barrier(kQuiet);
      const Watch watch;
      group.all_gather(own, all, {}, kQuiet);
      finish();
      times.push_back(watch.us());
    }
    return median(std::move(times));
  }

 private:
  using Allocator_ = std::shared_ptr<Allocator>;

  double round_trip(int peer, const Array& ball) {
    const Watch watch;
    group_.send(ball, peer, kQuiet);
    group_.recv(ball, peer, kQuiet);
    finish();
    return watch.us();
  }
  double serve(int peer, const Array& ball, double budget_us) {
    double first = INFINITY;  // the quickest of a few says how many there is time for
    for (int i = 0; i < kLeastTrips; ++i) first = std::min(first, round_trip(peer, ball));
    const int trips = std::clamp(static_cast<int>(std::min(1e6, budget_us / (first + 0.01))),
                                 kLeastTrips, kMostTrips);
    *trips_.data<std::int64_t>() = trips;
    group_.send(trips_, peer, kQuiet);
    std::vector<double> times;
    for (int i = 0; i < trips; ++i) times.push_back(round_trip(peer, ball) / 2);
    return median(std::move(times));
  }
  void answer(int peer, const Array& ball) {
    const auto turn = [&] {
      group_.recv(ball, peer, kQuiet);
      group_.send(ball, peer, kQuiet);
    };
    for (int i = 0; i < kLeastTrips; ++i) turn();
    group_.recv(trips_, peer, kQuiet);
    const std::int64_t trips = *trips_.data<std::int64_t>();
    for (std::int64_t i = 0; i < trips; ++i) turn();
    finish();
  }
  /// What a device was given is done.
  void finish() {
    Device& device = world_.device();
    if (device.id().kind != DeviceId::Kind::kCpu) {
      device.synchronize(device.record(device.compute()));
    }
  }

  static constexpr CallInfo kQuiet = {.tensor = "measurement", .log = CallLog::kNo};
  World& world_;
  Communicator& group_;
  std::vector<Array> balls_;
  Array trips_;
};

/// Every rank's numbers, as many on each, one rank's after the other's.
std::vector<double> share(World& world, const std::vector<double>& own) {
  const auto count = static_cast<std::int64_t>(own.size());
  const Array mine = Array::empty({count}, DType::kF64, world.host_allocator());
  const Array all = Array::empty({world.size() * count}, DType::kF64, world.host_allocator());
  std::copy(own.begin(), own.end(), mine.data<double>());
  everyone(world).all_gather(mine, all, {}, {.tensor = "times", .log = CallLog::kNo});
  return {all.data<double>(), all.data<double>() + all.num_elements()};
}

/// Latency of a pair's messages, and their bandwidth beyond it in GB/s.
double latency_of(const PairTimes& pair) { return pair.messages.front().us; }
double bandwidth_of(const PairTimes& pair) {
  const MessageTime& large = pair.messages.back();
  const double beyond = large.us - latency_of(pair);
  return static_cast<double>(large.bytes) / 1e3 / std::max(beyond, large.us * 0.01);
}

/// Consecutive ranks of each host, where hosts have as many; else 0.
std::int64_t ranks_of_host(const std::vector<std::string>& hosts) {
  const auto size = static_cast<std::int64_t>(hosts.size());
  const auto other = std::find_if(hosts.begin(), hosts.end(),
                                  [&](const std::string& host) { return host != hosts[0]; });
  const std::int64_t block = other - hosts.begin();
  if (block == size || size % block != 0) return 0;
  for (std::int64_t rank = 0; rank < size; ++rank) {
    const auto at = [&](std::int64_t r) { return hosts[static_cast<std::size_t>(r)]; };
    if (at(rank) != at(rank - rank % block)) return 0;
    if (rank % block == 0 && rank > 0 && at(rank) == at(rank - 1)) return 0;
  }
  return block;
}

/// What a message of some size takes on pairs inside blocks, and between them.
struct Sides {
  std::vector<double> inside, between;
};
Sides sides_of(const std::vector<PairTimes>& pairs, std::int64_t block, std::int64_t outer,
               std::size_t size) {
  Sides sides;
  for (const PairTimes& pair : pairs) {
    if (pair.a / outer != pair.b / outer) continue;
    const bool same = pair.a / block == pair.b / block;
    (same ? sides.inside : sides.between).push_back(pair.messages[size].us);
  }
  return sides;
}

/// Whether blocks tell, in messages of the smallest size or of the largest.
bool part(const std::vector<PairTimes>& pairs, std::int64_t block, std::int64_t outer) {
  for (const std::size_t size : {std::size_t{0}, pairs[0].messages.size() - 1}) {
    const Sides sides = sides_of(pairs, block, outer, size);
    if (sides.inside.empty() || sides.between.empty()) return false;
    if (quantile(sides.inside, 0.75) * kApart <= quantile(sides.between, 0.25)) return true;
  }
  return false;
}

/// The largest block that parts the ranks of blocks of `outer`; 0 where none does.
std::int64_t largest_block(const std::vector<PairTimes>& pairs, std::int64_t outer) {
  for (std::int64_t block = outer / 2; block > 1; --block) {
    if (outer % block == 0 && part(pairs, block, outer)) return block;
  }
  return 0;
}

LinkClass link_of(const std::vector<PairTimes>& pairs, std::int64_t block, std::int64_t outer) {
  std::vector<double> latencies, bandwidths;
  for (const PairTimes& pair : pairs) {
    if (pair.a / outer != pair.b / outer || pair.a / block == pair.b / block) continue;
    latencies.push_back(latency_of(pair));
    bandwidths.push_back(bandwidth_of(pair));
  }
  return {.latency_us = median(std::move(latencies)), .gb_per_s = median(std::move(bandwidths))};
}

std::string name_of_link(std::int64_t outer, std::int64_t size, std::int64_t host) {
  if (host > 0 && outer == size) return "network";
  if (outer == size || outer == host) return "host";
  return absl::StrFormat("block%d", outer);
}

}  // namespace

Topology classes_of(const std::vector<PairTimes>& pairs, const std::vector<std::string>& hosts) {
  const auto size = static_cast<std::int64_t>(hosts.size());
  const std::int64_t host = ranks_of_host(hosts);
  Topology topology{.name = "measured", .step_us = 0, .links = {}};
  std::int64_t outer = size;
  while (outer > 1) {
    std::int64_t block = outer == size && host > 0 ? host : largest_block(pairs, outer);
    if (block == 0) block = 1;
    LinkClass link = link_of(pairs, block, outer);
    link.name = name_of_link(outer, size, host);
    link.ranks = outer == size ? 0 : outer;
    topology.links.insert(topology.links.begin(), std::move(link));
    outer = block;
  }
  return topology;
}

MeasuredLinks measure_links(World& world, double seconds) {
  if (world.size() < 2) {
    throw Error(invalid_argument("measure: one rank has no links; let there be two at least"));
  }
  MeasuredLinks measured{.topology = {},
                         .pairs = pairs_of(world.size()),
                         .collectives = {},
                         .hosts = gather_texts(world, network_id() + "@" + host_name())};
  Player player(world);
  const double us_of_size = seconds * 1e6 / static_cast<double>(measured.pairs.size() * kNumSizes);
  std::vector<double> own;
  for (const PairTimes& pair : measured.pairs) {
    const std::vector<double> times = player.play(pair, us_of_size);
    own.insert(own.end(), times.begin(), times.end());
  }
  const std::vector<double> all = share(world, own);
  for (std::size_t i = 0; i < measured.pairs.size(); ++i) {
    PairTimes& pair = measured.pairs[i];
    for (std::size_t k = 0; k < kNumSizes; ++k) {
      const std::size_t at = static_cast<std::size_t>(pair.a) * own.size() + i * kNumSizes + k;
      pair.messages.push_back({kMessageBytes[k], all[at]});
    }
  }
  measured.topology = classes_of(measured.pairs, measured.hosts);
  std::vector<double> beyond;
  for (const LinkClass& link : measured.topology.links) {
    const std::int64_t ranks = link.ranks == 0 ? world.size() : link.ranks;
    std::vector<std::int64_t> members(static_cast<std::size_t>(ranks));
    std::iota(members.begin(), members.end(), world.rank() / ranks * ranks);
    const double us = player.gather(*value_or_throw(world.group(members)));
    measured.collectives.push_back({ranks, median(share(world, {us}))});
    // The first rank's block of so many ranks, without a step of its own.
    const Mesh block = value_or_throw(Mesh::make(Shape{ranks}));
    const int axis = 0;
    beyond.push_back(
        measured.collectives.back().us -
        LinkShares(block, {&axis, 1}, measured.topology).us(ranks - 1, 8 * (ranks - 1)));
  }
  measured.topology.step_us = std::max(0.0, median(std::move(beyond)));
  return measured;
}

}  // namespace tessera
