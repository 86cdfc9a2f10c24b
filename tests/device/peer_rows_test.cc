// Rows to and from the memory of several peers, and how they are laid out there, on the device
// against the processor.
#include "kernels/peer_rows.h"

#include <algorithm>
#include <numeric>

#include "kernels/row_sums.h"
#include "tests/device/device_arrays.h"

namespace tessera::testing {
namespace {

using namespace kernels;
using tessera::Stream;  // not the emulation's

constexpr int kPeerRowsCases = 200;

/// Rows that packs of 16 bytes make up, and rows that they do not.
std::int64_t row_size(TwinMaker& make) {
  const std::int64_t packed = 16 * make.number(1, 12);
  return make.number(0, 2) == 0 ? packed : make.number(make.number(0, 9) == 0 ? 0 : 1, 40);
}
DType sums_of(DType rows) { return rows == DType::kF64 ? DType::kF64 : DType::kF32; }

Twins list_of(TwinMaker& make, const Shape& shape, const std::vector<std::int64_t>& values) {
  return make.of(
      Array::from_values(shape, DType::kI64, std::vector<double>(values.begin(), values.end())));
}
Twins unset_list(TwinMaker& make, std::int64_t size) {
  return list_of(make, {size}, std::vector<std::int64_t>(static_cast<std::size_t>(size), -9));
}

/// Numbers below `size`, each once.
std::vector<std::int64_t> mixed(TwinMaker& make, std::int64_t size) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(size));
  std::iota(numbers.begin(), numbers.end(), 0);
  for (auto at = numbers.begin(); at != numbers.end(); ++at) {
    std::iter_swap(at, at + make.number(0, numbers.end() - at - 1));
  }
  return numbers;
}

/// The same arrays' rows on both sides.
struct Peers {
  std::vector<Twins> rows;
  DType dtype = DType::kF32;
  std::int64_t copies = 1;

  /// Some begin where no pack does.
  Peers(TwinMaker& make, std::int64_t dim, DType of) : dtype(of) {
    copies = make.number(1, 2);
    const std::int64_t count = copies * make.number(1, 8 / copies);
    const bool is_odd = make.number(0, 4) == 0;
    for (std::int64_t peer = 0; peer < count; ++peer) {
      const std::int64_t held = make.number(0, 12), before = is_odd ? make.number(0, 3) : 0;
      const Twins whole = make.squares({before + held * dim}, dtype);
      const auto part = [&](const Array& array) {
        return array.as_strided({held, dim}, {dim, 1}, before);
      };
      rows.push_back({part(whole.host), part(whole.device)});
    }
  }
  std::int64_t count() const { return std::ssize(rows); }
  std::int64_t rows_of(std::int64_t peer) const {
    return rows[static_cast<std::size_t>(peer)].host.size(0);
  }
  /// Rows that the peer and those behind it that have copies share.
  std::int64_t rows_from(std::int64_t peer) const {
    std::int64_t least = rows_of(peer);
    for (std::int64_t copy = 1; copy < copies; ++copy) {
      least = std::min(least, rows_of(peer + copy));
    }
    return least;
  }
  /// f(buffers of one side).
  template <class F>
  void with(bool device, F&& f) const {
    std::vector<PeerBuffer> all;
    for (const Twins& each : rows) {
      all.push_back({side(each, device).bytes(), each.host.size(0)});
    }
    f(PeerBuffers{.peers = all, .dtype = dtype, .copies = copies});
  }
  std::string differences(OnDevice& on) const {
    for (const Twins& each : rows) {
      const std::string found = difference(fetch(on, each.device), each.host, 0.0);
      if (!found.empty()) return found;
    }
    return "";
  }
};

/// Places, and the same with none for those that lie outside.
struct Places {
  Twins given, right;
};
/// Each at most once, or any.
enum class Repeat : std::uint8_t { kNo, kYes };
Places places_in(TwinMaker& make, const Peers& peers, const Shape& shape, Repeat repeat) {
  std::vector<std::int64_t> all;
  const std::int64_t step = repeat == Repeat::kNo ? peers.copies : 1;
  for (std::int64_t peer = 0; peer + peers.copies <= peers.count(); peer += step) {
    for (std::int64_t row = 0; row < peers.rows_from(peer); ++row) {
      all.push_back(peer_place(peer, row));
    }
  }
  std::vector<std::int64_t> right(static_cast<std::size_t>(num_elements(shape)), -1);
  for (std::int64_t& place : right) {
    if (all.empty() || make.number(0, 4) == 0) continue;
    const auto at = all.begin() + make.number(0, std::ssize(all) - 1);
    place = *at;
    if (repeat == Repeat::kYes) continue;
    *at = all.back();
    all.pop_back();
  }
  std::vector<std::int64_t> given = right;
  for (int wrong = make.number(0, 5) == 0 ? 2 : 0; wrong > 0 && !given.empty(); --wrong) {
    const std::int64_t last = peers.count() - 1, peer = make.number(0, last);
    const std::int64_t outside[] = {
        -2, peer_place(peer, peers.rows_of(peer)), peer_place(peers.count(), 0),
        peer_place(last, peers.copies == 1 ? peers.rows_of(last) : 0), std::int64_t{1} << 62};
    const auto at = static_cast<std::size_t>(make.number(0, std::ssize(given) - 1));
    given[at] = outside[make.number(0, std::ssize(outside) - 1)];
    right[at] = -1;
  }
  return {list_of(make, shape, given), list_of(make, shape, right)};
}

/// run(stream): on the compute stream, or beside it, but in its order.
template <class F>
void in_order(KernelContext& ctx, bool beside, F&& run) {
  Device& device = *ctx.device;
  Stream& stream = beside ? device.comm() : device.compute();
  device.wait(stream, device.record(device.compute()));
  run(stream);
  device.wait(device.compute(), device.record(stream));
}

/// run(context, device, places) says the same of the given places on both sides; with the right
/// ones the processor's `out` is then what the device's is.
template <class F>
std::string compare_places(OnDevice& on, const Twins& out, double tolerance, const Places& places,
                           F&& run) {
  std::string errors = compare(on, out, tolerance, [&](KernelContext& ctx, bool device) {
    run(ctx, device, side(places.given, device));
  });
  if (!errors.empty()) return errors;
  KernelContext cpu;
  run(cpu, false, places.right.host);
  return difference(fetch(on, out.device), out.host, tolerance);
}

struct Sizes {
  std::int64_t tokens, top_k, dim;
  explicit Sizes(TwinMaker& make)
      : tokens(make.number(0, 12)), top_k(make.number(0, 9)), dim(row_size(make)) {}
};

}  // namespace

TEST_CASE("rows go to their peers' places as on the processor", "[device][peer_rows]") {
  OnDevice on;
  TwinMaker make(on, 121);
  for (int i = 0; i < kPeerRowsCases; ++i) {
    const auto [tokens, top_k, dim] = Sizes(make);
    const DType dtype = any_of(make, kFloating), of_sums = sums_of(dtype);
    const DType from = make.number(0, 2) == 0 ? of_sums : dtype;
    const Peers peers(make, dim, dtype);
    const Places places = places_in(make, peers, {tokens, top_k}, Repeat::kNo);
    const Twins x = make.values({tokens, dim}, from),
                weights = make.number(0, 2) == 0 ? Twins{} : make.values({tokens, top_k}, of_sums);
    CAPTURE(i, tokens, top_k, dim, name_of(dtype), name_of(from), peers.count(), peers.copies);
    const auto put = [&](KernelContext& ctx, bool device, const Array& place_TK) {
      in_order(ctx, i % 2 == 1, [&](Stream& stream) {
        peers.with(device, [&](const PeerBuffers& buffers) {
          put_peer_rows(ctx, side(x, device), side(weights, device), place_TK, buffers, stream);
        });
      });
    };
    CHECK(compare_places(on, peers.rows.front(), 0.0, places, put) == "");
    CHECK(peers.differences(on) == "");
  }
}

TEST_CASE("sums of peers' rows are the same on the device", "[device][peer_rows]") {
  OnDevice on;
  TwinMaker make(on, 122);
  for (int i = 0; i < kPeerRowsCases; ++i) {
    const auto [tokens, top_k, dim] = Sizes(make);
    const DType dtype = any_of(make, kFloating), of_sums = sums_of(dtype);
    const DType to = make.number(0, 2) == 0 ? of_sums : dtype;
    const Peers peers(make, dim, dtype);
    const Places places = places_in(make, peers, {tokens, top_k}, Repeat::kYes);
    const Twins out = make.values({tokens, dim}, to),
                weights = make.number(0, 2) == 0 ? Twins{} : make.squares({tokens, top_k}, of_sums);
    const double tolerance = 20 * std::max(tolerance_of(to), tolerance_of(of_sums));
    CAPTURE(i, tokens, top_k, dim, name_of(dtype), name_of(to), peers.count(), peers.copies);
    const auto sum = [&](KernelContext& ctx, bool device, const Array& place_TK) {
      in_order(ctx, i % 2 == 1, [&](Stream& stream) {
        peers.with(device, [&](const PeerBuffers& buffers) {
          sum_peer_rows(ctx, buffers, side(weights, device), place_TK, side(out, device), stream);
        });
      });
    };
    CHECK(compare_places(on, out, tolerance, places, sum) == "");
  }
}

TEST_CASE("products of tokens and peers' rows are the same on the device", "[device][peer_rows]") {
  OnDevice on;
  TwinMaker make(on, 123);
  for (int i = 0; i < kPeerRowsCases; ++i) {
    const auto [tokens, top_k, dim] = Sizes(make);
    const DType dtype = any_of(make, kFloating), of_sums = sums_of(dtype);
    const DType from = make.number(0, 2) == 0 ? of_sums : dtype;
    const Peers peers(make, dim, dtype);
    const Places places = places_in(make, peers, {tokens, top_k}, Repeat::kYes);
    const Twins x = make.squares({tokens, dim}, from), out = make.values({tokens, top_k}, of_sums);
    CAPTURE(i, tokens, top_k, dim, name_of(dtype), name_of(from), peers.count(), peers.copies);
    const auto dot = [&](KernelContext& ctx, bool device, const Array& place_TK) {
      in_order(ctx, i % 2 == 1, [&](Stream& stream) {
        peers.with(device, [&](const PeerBuffers& buffers) {
          dot_peer_rows(ctx, buffers, side(x, device), place_TK, side(out, device), stream);
        });
      });
    };
    CHECK(compare_places(on, out, 300 * tolerance_of(of_sums), places, dot) == "");
  }
}

TEST_CASE("sums and products of several peers' rows are those of one array, bit by bit",
          "[device][peer_rows]") {
  OnDevice on;
  TwinMaker make(on, 124);
  for (int i = 0; i < kPeerRowsCases; ++i) {
    const std::int64_t tokens = make.number(1, 9), top_k = make.number(1, 9),
                       slots = tokens * top_k, dim = row_size(make);
    const DType dtype = any_of(make, kFloating), of_sums = sums_of(dtype);
    const DType to = make.number(0, 2) == 0 ? of_sums : dtype;
    // Of one array, its rows fall to three peers.
    const Array rows = make.squares({slots, dim}, dtype).device;
    const std::int64_t cuts[] = {0, slots / 3, slots / 2, slots};
    std::vector<PeerBuffer> buffers;
    std::vector<std::int64_t> row_places, places, slot_of(static_cast<std::size_t>(slots), -1);
    for (std::int64_t peer = 0; peer < 3; ++peer) {
      const std::int64_t first = cuts[peer], held = cuts[peer + 1] - first;
      buffers.push_back({rows.bytes() + first * dim * size_of(dtype), held});
      for (std::int64_t row = 0; row < held; ++row) row_places.push_back(peer_place(peer, row));
    }
    const std::vector<std::int64_t> row_of_slot = mixed(make, slots);
    for (std::int64_t slot = 0; slot < slots; ++slot) {
      const auto row = static_cast<std::size_t>(row_of_slot[static_cast<std::size_t>(slot)]);
      slot_of[row] = slot;
      places.push_back(row_places[row]);
    }
    const Array place_TK = list_of(make, {tokens, top_k}, places).device,
                row_TK = list_of(make, {tokens, top_k}, row_of_slot).device,
                slot_N = list_of(make, {slots}, slot_of).device,
                weights = make.squares({tokens, top_k}, of_sums).device,
                x = make.squares({tokens, dim}, to).device;
    const Array sums = make.values({tokens, dim}, to).device,
                sums_of_one = make.values({tokens, dim}, to).device,
                dots = make.values({tokens, top_k}, of_sums).device,
                dots_of_one = make.values({tokens, top_k}, of_sums).device,
                grad_rows = make.values({slots, dim}, dtype).device;
    const PeerBuffers peers{.peers = buffers, .dtype = dtype};
    CAPTURE(i, tokens, top_k, dim, name_of(dtype), name_of(to));
    sum_peer_rows(on.ctx, peers, weights, place_TK, sums, on.device->compute());
    weighted_row_sum(on.ctx, rows, weights, row_TK, sums_of_one);
    CHECK(difference(fetch(on, sums), fetch(on, sums_of_one), 0.0) == "");
    dot_peer_rows(on.ctx, peers, x, place_TK, dots, on.device->compute());
    weighted_row_sum_grad(on.ctx, rows, weights, slot_N, x, {grad_rows, dots_of_one});
    CHECK(difference(fetch(on, dots), fetch(on, dots_of_one), 0.0) == "");
  }
  on.device->raise_faults();
}

TEST_CASE("what peers get is laid out on the device as on the processor", "[device][peer_rows]") {
  OnDevice on;
  TwinMaker make(on, 125);
  int refused = 0;
  for (int i = 0; i < kPeerRowsCases; ++i) {
    const std::int64_t p = make.number(1, 3), s = make.number(1, 12), experts = make.number(0, 40);
    const std::int64_t most = make.number(0, 2) > 0 ? 3 : 20;
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(s * p * 2 * experts));
    for (std::int64_t& each : numbers) each = make.number(0, most);
    const Twins table = list_of(make, {s, p, 2, experts}, numbers);
    const auto view = [&](const Array& all) {  // as ranks of two axes tell it of two chunks
      return all.as_strided({p, s, experts}, {2 * experts, 2 * experts * p, 1},
                            all.offset() + experts);
    };
    const Twins counts = {view(table.host), view(table.device)};
    PeerLayout layout{
        .sender = make.number(0, p * s - 1),
        .experts_per_peer = make.number(1, 8),
        .copies = make.number(1, 2),
        .size = {.rows = make.number(0, 2) == 0 ? make.number(0, most * p * s + 5) : kAnyNumber,
                 .alignment = make.number(1, 4)},
        .room = make.number(0, 1) == 0 ? make.number(0, 200) : kAnyNumber};
    layout.own = make.number(0, experts / layout.experts_per_peer);
    const std::int64_t own = std::clamp<std::int64_t>(
        experts - layout.own * layout.experts_per_peer, 0, layout.experts_per_peer);
    const std::vector<double> sent = counts.host.slice(0, layout.sender / s, layout.sender / s + 1)
                                         .slice(1, layout.sender % s, layout.sender % s + 1)
                                         .to_vector();
    const auto sends = static_cast<std::int64_t>(std::accumulate(sent.begin(), sent.end(), 0.0));
    // The list may end before all slots are named, or go on behind those that are sent.
    const std::int64_t all_slots = sends + make.number(0, 9);
    std::vector<std::int64_t> slots = mixed(make, all_slots);
    slots.resize(static_cast<std::size_t>(make.number(sends, all_slots)));
    const Twins slots_N = list_of(make, {std::ssize(slots)}, slots),
                place = unset_list(make, all_slots), counts_e = unset_list(make, own),
                filled_e = unset_list(make, own), came = unset_list(make, 1);
    CAPTURE(i, p, s, experts, layout.sender, layout.experts_per_peer, layout.copies, layout.own,
            layout.size.rows, layout.size.alignment, layout.room);
    const auto run = [&](KernelContext& ctx, bool device) {
      layout.counts_PSE = side(counts, device);
      lay_out_peers(ctx, layout, side(slots_N, device),
                    {side(place, device), side(counts_e, device), side(filled_e, device),
                     side(came, device)});
    };
    KernelContext cpu;
    bool fails = false;
    try {
      run(cpu, false);
    } catch (const Error&) {
      fails = true;
      ++refused;
    }
    CHECK(compare(on, place, 0.0, run) == "");
    if (fails) continue;
    CHECK(difference(fetch(on, counts_e.device), counts_e.host, 0.0) == "");
    CHECK(difference(fetch(on, filled_e.device), filled_e.host, 0.0) == "");
    CHECK(difference(fetch(on, came.device), came.host, 0.0) == "");
  }
  CHECK(refused > 10);
  CHECK(refused < kPeerRowsCases / 2);
}

TEST_CASE("rows that nobody fills are cleared on the device", "[device][peer_rows]") {
  OnDevice on;
  TwinMaker make(on, 126);
  for (int i = 0; i < kPeerRowsCases; ++i) {
    const DType dtype = any_of(make, kAll);
    const std::int64_t dim = row_size(make);
    std::vector<std::int64_t> counts(static_cast<std::size_t>(make.number(0, 40))), filled;
    for (std::int64_t& count : counts) {
      count = make.number(0, 2) == 0 ? 0 : make.number(0, 5);
      filled.push_back(make.number(0, count));
    }
    const std::int64_t rows = std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) +
                              (make.number(0, 1) == 0 ? 0 : make.number(1, 30));
    const Twins counts_e = list_of(make, {std::ssize(counts)}, counts),
                filled_e = list_of(make, {std::ssize(counts)}, filled);
    const std::int64_t before = make.number(0, 3) == 0 ? make.number(1, 16) : 0;
    const Twins whole = make.values({before + rows * dim + 3}, dtype);
    CAPTURE(i, name_of(dtype), rows, dim, before, counts, filled);
    CHECK(compare(on, whole, 0.0, [&](KernelContext& ctx, bool device) {
            clear_unfilled_rows(ctx, side(counts_e, device), side(filled_e, device),
                                side(whole, device).as_strided({rows, dim}, {dim, 1}, before));
          }) == "");
  }
}

TEST_CASE("rows go to peers and back in captured work", "[device][peer_rows][capture]") {
  OnDevice on;
  TwinMaker make(on, 127);
  // Two peers with two experts each, of which this rank's first one gets three rows in all.
  const Array counts = list_of(make, {1, 1, 4}, {3, 0, 1, 2}).device,
              slots = list_of(make, {6}, {4, 2, 0, 5, 1, 3}).device,
              x = make.squares({3, 8}, DType::kF32).device;
  const Array place_S = unset_list(make, 6).device, counts_e = unset_list(make, 2).device,
              filled_e = unset_list(make, 2).device, came = unset_list(make, 1).device,
              out = make.values({3, 8}, DType::kF32).device;
  const Twins first = make.values({8, 8}, DType::kF32), second = make.values({8, 8}, DType::kF32);
  const PeerBuffer buffers[] = {{first.device.bytes(), 8}, {second.device.bytes(), 8}};
  const PeerBuffers peers{.peers = buffers};
  on.device->begin_capture({});
  lay_out_peers(on.ctx,
                {.counts_PSE = counts, .experts_per_peer = 2, .size = {.alignment = 4}, .room = 8},
                slots, {place_S, counts_e, filled_e, came});
  const Array place_TK = place_S.try_view({3, 2});
  put_peer_rows(on.ctx, x, {}, place_TK, peers, on.device->compute());
  sum_peer_rows(on.ctx, peers, {}, place_TK, out, on.device->compute());
  clear_unfilled_rows(on.ctx, counts_e, filled_e, first.device);
  on.device->close_capture();
  const auto work = on.device->end_capture({});
  for (int repeat = 0; repeat < 2; ++repeat) {
    work->launch();
    const std::vector<double> tokens = fetch(on, x).to_vector(), sums = fetch(on, out).to_vector(),
                              held = fetch(on, first.device).to_vector();
    CHECK(fetch(on, came).to_vector() == std::vector<double>{3});
    for (std::size_t c = 0; c < tokens.size(); ++c) CHECK(sums[c] == 2 * tokens[c]);
    const std::vector<double> token_of_row = {2, 1, 0};
    for (std::size_t at = 0; at < held.size(); ++at) {
      const std::size_t row = at / 8;
      CHECK(held[at] ==
            (row < 3 ? tokens[static_cast<std::size_t>(token_of_row[row]) * 8 + at % 8] : 0.0));
    }
    on.device->raise_faults();
  }
}

TEST_CASE("what kernels of peers' rows cannot take is the same error on the device",
          "[device][peer_rows][errors]") {
  OnDevice on;
  TwinMaker make(on, 128);
  const Twins rows = make.values({4, 8}, DType::kF32), x = make.values({3, 8}, DType::kF32),
              narrow = make.values({2, 8}, DType::kF32), halves = make.values({3, 8}, DType::kBF16),
              weights = make.values({3, 2}, DType::kF64), dots = make.values({3, 3}, DType::kF32),
              empty = make.values({3, 0}, DType::kF32);
  const Twins place = list_of(make, {3, 2}, {-1, -1, -1, -1, -1, -1}),
              bad = list_of(make, {3, 2}, {-1, 3, 4, -1, -2, -1});
  const auto errors = [&](std::int64_t copies, auto&& run) {
    CHECK(compare(on, rows, 0.0, [&](KernelContext& ctx, bool device) {
            const PeerBuffer buffer[] = {{side(rows, device).bytes(), 4}};
            run(ctx, device, PeerBuffers{.peers = buffer, .copies = copies}, ctx.device->compute());
          }) == "");
  };
  errors(1, [&](KernelContext& ctx, bool device, const PeerBuffers& peers, Stream& stream) {
    put_peer_rows(ctx, side(narrow, device), {}, side(place, device), peers, stream);
  });
  errors(2, [&](KernelContext& ctx, bool device, const PeerBuffers& peers, Stream& stream) {
    put_peer_rows(ctx, side(x, device), {}, side(place, device), peers, stream);
  });
  errors(1, [&](KernelContext& ctx, bool device, const PeerBuffers& peers, Stream& stream) {
    put_peer_rows(ctx, side(halves, device), {}, side(place, device), peers, stream);
  });
  errors(1, [&](KernelContext& ctx, bool device, const PeerBuffers& peers, Stream& stream) {
    sum_peer_rows(ctx, peers, side(weights, device), side(place, device), side(x, device), stream);
  });
  errors(1, [&](KernelContext& ctx, bool device, const PeerBuffers& peers, Stream& stream) {
    dot_peer_rows(ctx, peers, side(x, device), side(place, device), side(dots, device), stream);
  });
  // Rows without elements do not hide a bad place.
  errors(1, [&](KernelContext& ctx, bool device, const PeerBuffers& peers, Stream& stream) {
    put_peer_rows(ctx, side(empty, device), {}, side(bad, device), peers, stream);
  });
  errors(1, [&](KernelContext& ctx, bool device, const PeerBuffers& peers, Stream& stream) {
    sum_peer_rows(ctx, peers, {}, side(bad, device), side(empty, device), stream);
  });

  const std::vector<PeerBuffer> many(kMostPeers + 1, {rows.device.bytes(), 4});
  CHECK_THROWS_WITH(
      put_peer_rows(on.ctx, x.device, {}, place.device, {.peers = many}, on.device->compute()),
      "put_peer_rows: 65 peers; a device's kernel is told of 64 at most");

  const Twins came = unset_list(make, 1), counts = list_of(make, {1, 1, 2}, {1, 2}),
              none = unset_list(make, 0), slots = list_of(make, {3}, {0, 1, 2}),
              places = unset_list(make, 3);
  const auto lays = [&](PeerLayout layout) {
    CHECK(compare(on, places, 0.0, [&](KernelContext& ctx, bool device) {
            layout.counts_PSE = side(counts, device);
            lay_out_peers(
                ctx, layout, side(slots, device),
                {side(places, device), side(none, device), side(none, device), side(came, device)});
          }) == "");
  };
  lays({});
  lays({.sender = 1});
  lays({.size = {.rows = 1}});
  lays({.size = {.alignment = 0}});
}

}  // namespace tessera::testing
