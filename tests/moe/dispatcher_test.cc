// Every dispatcher brings the same tokens to the same experts and back: uneven ranks, dropped
// slots, padding, chunks, fixed buffers; and what each of them moves and reads.
#include "moe/layer/dispatcher.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "dtensor/ops.h"
#include "tests/moe/dispatcher_trip.h"

namespace tessera::testing {
namespace {

/// Rows of the group's tokens for each expert.
Ints kept_rows(const Trip& trip) {
  Ints rows(static_cast<std::size_t>(trip.experts), 0);
  for (std::int64_t rank = 0; rank < trip.num_ranks(); ++rank) {
    for (std::int64_t slot = 0; slot < trip.tokens(rank) * kK; ++slot) {
      const std::int64_t expert = trip.choose(rank, slot);
      if (expert < trip.experts) ++rows[static_cast<std::size_t>(expert)];
    }
  }
  return rows;
}

std::int64_t count_forward(const Seen& seen, Event::Kind kind, const std::string& axes = "") {
  return std::count_if(seen.events.begin(), seen.events.begin() + seen.forward_events,
                       [&](const Event& event) {
                         return event.kind == kind && (axes.empty() || event.axes == axes);
                       });
}

const std::vector<DispatchConfig>& every_config() {
  static const std::vector<DispatchConfig> configs = {
      {},
      {.chunks = 3},
      {.expert_alignment = 4},
      {.rows_bound = 96},
      {.rows_bound = 192, .expert_alignment = 4, .chunks = 2},
      {.dispatcher = "all_gather"},
      {.dispatcher = "all_gather", .expert_alignment = 4, .chunks = 3},
      {.dispatcher = "all_gather", .rows_bound = 96},
      {.dispatcher = "hierarchical", .ranks_per_node = 2},
      {.dispatcher = "hierarchical", .ranks_per_node = 2, .expert_alignment = 4, .chunks = 2},
      {.dispatcher = "hierarchical", .ranks_per_node = 2, .rows_bound = 96},
      {.dispatcher = "hierarchical",
       .ranks_per_node = 2,
       .rows_bound = 192,
       .expert_alignment = 4,
       .chunks = 2},
      {.dispatcher = "peer"},
      {.dispatcher = "peer", .expert_alignment = 4, .chunks = 3},
      {.dispatcher = "peer", .rows_bound = 96},
      {.dispatcher = "peer", .rows_bound = 192, .expert_alignment = 4, .chunks = 2},
      {.dispatcher = "peer", .ranks_per_node = 2},
      {.dispatcher = "peer", .ranks_per_node = 2, .expert_alignment = 4, .chunks = 2},
      {.dispatcher = "peer", .ranks_per_node = 2, .rows_bound = 96},
      {.dispatcher = "peer",
       .ranks_per_node = 2,
       .rows_bound = 192,
       .expert_alignment = 4,
       .chunks = 2}};
  return configs;
}

}  // namespace

TEST_CASE("every dispatcher gives each kept token to its experts exactly once",
          "[moe][dispatch][C28][C29][C30][C32][R20]") {
  Trip trip;
  trip.config = every_config()[static_cast<std::size_t>(GENERATE(range(0, 20)))];
  std::tie(trip.ep, trip.etp, trip.experts) =
      GENERATE(std::tuple{1, 1, 5}, std::tuple{2, 1, 5}, std::tuple{4, 1, 5}, std::tuple{2, 2, 5},
               std::tuple{1, 2, 5}, std::tuple{4, 1, 3});
  if (trip.experts == 3) {
    trip.choose = [](std::int64_t rank, std::int64_t slot) { return (rank + slot * 3) % 4; };
  }
  CAPTURE(trip.config.dispatcher, trip.config.rows_bound, trip.config.expert_alignment,
          trip.config.chunks, trip.ep, trip.etp, trip.experts);
  const std::vector<Seen> ranks = travel_all(trip);
  check_values(trip, ranks);

  // Conservation: without padding the experts' counts are those of the kept slots.
  const Ints rows = kept_rows(trip);
  const Ints held = experts_by_rank(trip.experts, trip.ep);
  std::int64_t expert = 0;
  for (std::int64_t ep_rank = 0; ep_rank < trip.ep; ++ep_rank) {
    for (std::int64_t etp_rank = 0; etp_rank < trip.etp; ++etp_rank) {
      const Seen& seen = ranks[static_cast<std::size_t>(ep_rank * trip.etp + etp_rank)];
      const auto e = static_cast<std::size_t>(held[static_cast<std::size_t>(ep_rank)]);
      Ints counts(e, 0);
      for (std::size_t i = 0; i < seen.counts_e.size(); ++i) {
        CHECK(seen.counts_e[i] % trip.config.expert_alignment == 0);
        counts[i % e] += seen.counts_e[i];
      }
      if (trip.config.expert_alignment == 1) {
        CHECK(counts ==
              Ints(rows.begin() + expert, rows.begin() + expert + static_cast<std::int64_t>(e)));
      }
      CHECK(seen.rows - seen.pad_rows ==
            std::accumulate(rows.begin() + expert,
                            rows.begin() + expert + static_cast<std::int64_t>(e), std::int64_t{0}));
    }
    expert += held[static_cast<std::size_t>(ep_rank)];
  }
}

TEST_CASE("with room for them experts get as many rows under any routing, read by no host",
          "[moe][dispatch][capacity][C24][C30]") {
  Trip trip;
  trip.config =
      every_config()[static_cast<std::size_t>(GENERATE(0, 1, 2, 5, 6, 8, 9, 12, 13, 16, 17))];
  std::tie(trip.ep, trip.etp, trip.experts) =
      GENERATE(std::tuple{1, 1, 5}, std::tuple{2, 1, 5}, std::tuple{2, 2, 5}, std::tuple{4, 1, 3});
  const bool crowded = GENERATE(false, true);
  trip.choose = [&](std::int64_t rank, std::int64_t slot) {
    return crowded ? std::min(slot % kK, trip.experts) : (rank + slot) % trip.experts;
  };
  std::int64_t tokens = 0;
  for (std::int64_t rank = 0; rank < trip.num_ranks(); ++rank) tokens += trip.tokens(rank);
  trip.room = ExpertRoom{tokens, tokens - (crowded ? 0 : 1)};
  CAPTURE(trip.config.dispatcher, trip.config.expert_alignment, trip.config.chunks, trip.ep,
          trip.etp, crowded);
  const std::vector<Seen> ranks = travel_all(trip);
  check_values(trip, ranks);
  for (const Seen& seen : ranks) {
    CHECK(count_forward(seen, Event::Kind::kHostRead) == 0);
    Ints wanted;
    for (std::int64_t c = 0; c < trip.config.chunks; ++c) {
      std::int64_t in_chunk = 0;
      for (std::int64_t rank = 0; rank < trip.num_ranks(); ++rank) {
        in_chunk += chunk_of(trip.tokens(rank), trip.config.chunks, c).size();
      }
      const std::int64_t rows = std::min(in_chunk, trip.room->of_group);
      const std::int64_t a = trip.config.expert_alignment;
      wanted.resize(seen.counts_e.size() / static_cast<std::size_t>(trip.config.chunks) *
                        static_cast<std::size_t>(c + 1),
                    (rows + a - 1) / a * a);
    }
    CHECK(seen.counts_e == wanted);
    CHECK(seen.rows == std::accumulate(wanted.begin(), wanted.end(), std::int64_t{0}));
  }
}

TEST_CASE("one rank may get every row, or none", "[moe][dispatch][C29]") {
  Trip trip;
  trip.ep = 4;
  trip.config = every_config()[static_cast<std::size_t>(GENERATE(0, 1, 5, 8, 10, 12, 14, 16, 18))];
  const std::int64_t chosen = GENERATE(0, 4, 5);
  trip.choose = [chosen](std::int64_t, std::int64_t) { return chosen; };
  check_values(trip, travel_all(trip));
}

TEST_CASE("exact sizes cost one host read a pass, fixed ones none", "[moe][dispatch][C24][C27]") {
  struct Case {
    DispatchConfig config;
    std::int64_t ep, etp, reads;
  };
  const Case each = GENERATE(
      Case{{}, 2, 1, 1}, Case{{}, 2, 2, 1}, Case{{.chunks = 3}, 2, 1, 1},
      Case{{.dispatcher = "all_gather"}, 2, 2, 1},
      Case{{.dispatcher = "hierarchical", .ranks_per_node = 2}, 4, 1, 1},
      Case{{.dispatcher = "hierarchical", .ranks_per_node = 2}, 2, 2, 1},
      Case{{.dispatcher = "hierarchical", .ranks_per_node = 2, .rows_bound = 96}, 4, 1, 0},
      Case{{.dispatcher = "hierarchical", .ranks_per_node = 2, .rows_bound = 96}, 2, 2, 0},
      Case{{.dispatcher = "peer"}, 2, 2, 1}, Case{{.dispatcher = "peer", .chunks = 3}, 4, 1, 1},
      Case{{.dispatcher = "peer", .rows_bound = 96}, 2, 2, 0},
      Case{{.dispatcher = "peer", .ranks_per_node = 2}, 4, 1, 1},
      Case{{.dispatcher = "peer", .ranks_per_node = 2, .rows_bound = 96}, 2, 2, 0},
      Case{{.rows_bound = 96}, 2, 1, 0}, Case{{.rows_bound = 96}, 2, 2, 0},
      Case{{.rows_bound = 96, .chunks = 2}, 2, 1, 0},
      Case{{.dispatcher = "all_gather", .rows_bound = 96}, 2, 1, 0}, Case{{}, 1, 1, 0});
  Trip trip{.config = each.config, .ep = each.ep, .etp = each.etp};
  for (const Seen& seen : travel_all(trip)) {
    CHECK(count_forward(seen, Event::Kind::kHostRead) == each.reads);
    const auto backward_reads =
        std::count_if(seen.events.begin() + seen.forward_events, seen.events.end(),
                      [](const Event& event) { return event.kind == Event::Kind::kHostRead; });
    CHECK(backward_reads == 0);  // splits are kept, never counted again
  }
}

TEST_CASE("buffers of fixed size do not depend on the routing", "[moe][dispatch][R20][C36]") {
  Trip trip{
      .config = {.dispatcher = GENERATE(as<std::string>{}, "all_to_all", "hierarchical", "peer"),
                 .ranks_per_node = 2,
                 .rows_bound = 96},
      .ep = 4};
  const auto sizes_of = [&] {
    Ints sizes;
    for (const Seen& seen : travel_all(trip)) {
      sizes.push_back(seen.rows);
      std::vector<Event> events = seen.events;  // of two calls under way either ends first
      std::ranges::stable_sort(events, {}, &Event::start_us);
      for (const Event& event : events) sizes.push_back(event.bytes_received);
    }
    return sizes;
  };
  const Ints mixed = sizes_of();
  trip.choose = [](std::int64_t, std::int64_t) { return std::int64_t{1}; };
  const Ints alike = sizes_of();
  CHECK(alike == mixed);
  CHECK(mixed[0] == 96);
}

TEST_CASE("rows_needed is the least bound that loses nothing", "[moe][dispatch][C36][R20]") {
  Trip trip;
  trip.config.dispatcher =
      GENERATE(as<std::string>{}, "all_to_all", "all_gather", "hierarchical", "peer");
  const bool nodes = trip.config.dispatcher == "hierarchical" ||
                     (trip.config.dispatcher == "peer" && GENERATE(false, true));
  if (nodes) {
    trip.ep = 4;
    trip.config.ranks_per_node = GENERATE(1, 2);
  }
  trip.config.chunks = GENERATE(1, 2);
  trip.config.rows_bound = 8;  // too few
  CAPTURE(trip.config.dispatcher, trip.config.chunks);
  const std::vector<Seen> cut = travel_all(trip);
  std::int64_t needed = 0;
  for (const Seen& seen : cut) needed = std::max(needed, seen.needed);
  CHECK(needed > 8);
  CHECK(cut[0].out !=
        travel_all({.ep = trip.ep})[0].out);  // rows were left out, and rows_needed says so
  trip.config.rows_bound = needed;
  check_values(trip, travel_all(trip));
  trip.config.rows_bound = needed - 1;
  std::int64_t still = 0;
  for (const Seen& seen : travel_all(trip)) still = std::max(still, seen.needed);
  CHECK(still == needed);
}

TEST_CASE("a chunk is on its way while the one before it is computed", "[moe][dispatch]") {
  Trip trip{.config = {.chunks = 3}};
  trip.tokens = [](std::int64_t) { return std::int64_t{9}; };
  for (const Seen& seen : travel_all(trip)) {
    std::vector<double> starts;  // counts, there 0, there 1, back 0, there 2, back 1, back 2
    for (std::int64_t i = 0; i < seen.forward_events; ++i) {
      const Event& event = seen.events[static_cast<std::size_t>(i)];
      if (event.kind == Event::Kind::kCollective) starts.push_back(event.start_us);
    }
    std::sort(starts.begin(), starts.end());
    REQUIRE(starts.size() == 7);
    CHECK(starts[2] < seen.computed_us[0]);
    CHECK(starts[3] > seen.computed_us[0]);
    CHECK(starts[4] < seen.computed_us[1]);
    CHECK(starts[5] > seen.computed_us[1]);
  }
}

TEST_CASE("tokens split over tp move 1/tp of the bytes of whole ones", "[moe][dispatch][C38]") {
  // Balanced choices over 4 ranks; the two ranks of a tp pair hold the same 16 tokens, or half
  // each.
  Trip trip{.ep = 4, .experts = 4};
  trip.choose = [](std::int64_t, std::int64_t slot) { return slot % 4; };
  const auto row_bytes = [&](std::int64_t tokens) {
    trip.tokens = [tokens](std::int64_t) { return tokens; };
    std::int64_t bytes = 0;
    for (const Seen& seen : travel_all(trip)) {
      bool counts = true;
      for (const Event& event : seen.events) {
        if (event.kind != Event::Kind::kCollective) continue;
        if (!counts) bytes += event.bytes_received;
        counts = false;  // the first exchange is that of the counts
      }
    }
    return bytes;
  };
  const std::int64_t whole = row_bytes(16);
  CHECK(whole == 4 * 4 * (16 * kK * 3 / 4) * kD * 8);  // there and back, twice; 3 of 4 rows leave
  CHECK(row_bytes(8) * 2 == whole);
}

TEST_CASE("a dispatcher that crosses nodes is right on nodes of any size", "[moe][dispatch][C29]") {
  struct Nodes {
    std::int64_t ep, etp, ranks, experts;
  };
  const Nodes each = GENERATE(Nodes{4, 1, 1, 8}, Nodes{6, 1, 2, 13}, Nodes{6, 1, 3, 5},
                              Nodes{4, 2, 4, 9}, Nodes{4, 2, 2, 9}, Nodes{8, 1, 4, 5});
  CAPTURE(each.ep, each.etp, each.ranks, each.experts);
  Trip trip{.config = {.dispatcher = GENERATE(as<std::string>{}, "hierarchical", "peer"),
                       .ranks_per_node = each.ranks},
            .ep = each.ep,
            .etp = each.etp,
            .experts = each.experts};
  trip.choose = [&each](std::int64_t rank, std::int64_t slot) {
    return (rank * 5 + slot * 7 + slot / 3) % (each.experts + 1);
  };
  trip.config.chunks = GENERATE(1, 2);
  trip.config.rows_bound = GENERATE(0, 512);
  check_values(trip, travel_all(trip));
}

TEST_CASE("a token crosses to another node once, however many of its experts are there",
          "[moe][dispatch]") {
  Trip trip{.config = {.dispatcher = "hierarchical", .ranks_per_node = 2},
            .ep = GENERATE(4, 6),
            .experts = 12};
  CAPTURE(trip.ep);
  // A token's second expert is often its first one's neighbour.
  trip.choose = [](std::int64_t rank, std::int64_t slot) {
    const std::int64_t token = slot / kK;
    return (rank * 5 + token * 7 + slot % kK * (1 + token % 3)) % 13;
  };
  const std::int64_t per_rank = experts_by_rank(trip.experts, trip.ep)[0];
  std::int64_t rows = 0, crossing = 0, ids = 0;
  for (std::int64_t rank = 0; rank < trip.ep; ++rank) {
    ids += trip.tokens(rank) * (trip.ep / 2 - 1) * kK;
    for (std::int64_t token = 0; token < trip.tokens(rank); ++token) {
      std::set<std::int64_t> nodes;
      for (std::int64_t slot = token * kK; slot < (token + 1) * kK; ++slot) {
        const std::int64_t node = trip.choose(rank, slot) / per_rank / 2;
        if (trip.choose(rank, slot) == trip.experts || node == rank / 2) continue;
        nodes.insert(node);
        ++rows;
      }
      crossing += static_cast<std::int64_t>(nodes.size());
    }
  }
  REQUIRE(crossing > 0);
  REQUIRE(crossing < rows);  // or nothing would be saved
  const std::vector<Seen> ranks = travel_all(trip);
  check_values(trip, ranks);
  // In order: ids, rows, weights, sums of rows; then the cotangents of the last three, from the
  // last.
  Ints bytes(7, 0);
  for (const Seen& seen : ranks) {
    std::size_t call = 0;
    for (const Event& event : seen.events) {
      if (event.axes == "ep_node") bytes.at(call++) += event.bytes_received;
    }
    CHECK(call == bytes.size());
  }
  const std::int64_t row = kD * 8, weights = kK * 8;
  CHECK(bytes == Ints{ids * 8, crossing * row, crossing * weights, crossing * row, crossing * row,
                      crossing * weights, crossing * row});
}

TEST_CASE("rows written to their peers are those of an all-to-all, bit by bit",
          "[moe][dispatch][R20]") {
  Trip trip{.dtype = GENERATE(DType::kF64, DType::kF32, DType::kBF16)};
  std::tie(trip.ep, trip.etp) = GENERATE(std::tuple{4, 1}, std::tuple{2, 2});
  trip.config.chunks = GENERATE(1, 2);
  const std::vector<Seen> packed = travel_all(trip);
  trip.config.dispatcher = "peer";
  const std::vector<Seen> written = travel_all(trip);
  for (std::size_t rank = 0; rank < packed.size(); ++rank) {
    CAPTURE(rank, name_of(trip.dtype));
    CHECK(written[rank].out == packed[rank].out);
    CHECK(written[rank].grad_x == packed[rank].grad_x);
    CHECK(written[rank].grad_weights == packed[rank].grad_weights);
    CHECK(written[rank].counts_e == packed[rank].counts_e);
  }
}

TEST_CASE("written rows are counted as an all-to-all's, and nothing else moves",
          "[moe][dispatch]") {
  Trip trip{.ep = 4};
  const auto row_bytes = [&](const char* dispatcher) {
    trip.config.dispatcher = dispatcher;
    Ints bytes;
    for (const Seen& seen : travel_all(trip)) {
      std::int64_t received = 0;
      bool counts = true;
      for (const Event& event : seen.events) {
        if (event.kind != Event::Kind::kCollective) continue;
        const bool reads_again = event.name == "dot_peer_rows";  // of an all-to-all's rows kept
        if (!counts && !reads_again) received += event.bytes_received;
        counts = false;
      }
      bytes.push_back(received);
    }
    return bytes;
  };
  const Ints written = row_bytes("peer"), packed = row_bytes("all_to_all");
  CHECK(written == packed);
}

TEST_CASE("BF16 rows that are summed on two nodes are rounded once", "[moe][dispatch][C33]") {
  Trip trip{.ep = 4, .dtype = DType::kBF16};
  const std::vector<Seen> direct = travel_all(trip);
  trip.config = {.dispatcher = "hierarchical", .ranks_per_node = 2};
  const std::vector<Seen> by_node = travel_all(trip);
  for (std::size_t rank = 0; rank < direct.size(); ++rank) {
    CAPTURE(rank);
    CHECK(by_node[rank].out == direct[rank].out);
    CHECK(by_node[rank].grad_weights == direct[rank].grad_weights);
  }
}

TEST_CASE("a dispatcher refuses what it cannot do, naming the layer", "[moe][dispatch]") {
  const auto error_of = [](DispatchConfig config, std::int64_t ep) {
    const Shape shape = {ep};
    const ExpertGroup group = {value_or_throw(Mesh::make(view_of(shape), {"ep"})), {0}};
    return std::string(Dispatcher::make({"layers.1.moe", group, 8, config}).status().message());
  };
  CHECK(error_of({.dispatcher = "hierarchical", .ranks_per_node = 3}, 4) ==
        "layers.1.moe: ranks_per_node 3; the hierarchical dispatcher needs a multiple of etp 1 "
        "that divides ep x etp = 4");
  CHECK(error_of({.dispatcher = "hierarchical", .ranks_per_node = 2, .rows_bound = 7, .chunks = 2},
                 8) ==
        "layers.1.moe: rows_bound 7 leaves no row for each of 4 senders in each of 2 chunks; at "
        "least 8 is allowed");
  CHECK(error_of({.rows_bound = 7, .chunks = 2}, 4) ==
        "layers.1.moe: rows_bound 7 leaves no row for each of 4 senders in each of 2 chunks; at "
        "least 8 is allowed");
  CHECK(error_of({.expert_alignment = 0}, 1) ==
        "layers.1.moe: expert_alignment is 0; at least 1 is allowed");
  CHECK(error_of({.chunks = 0}, 1) == "layers.1.moe: dispatch_chunks is 0; at least 1 is allowed");
}

}  // namespace tessera::testing
