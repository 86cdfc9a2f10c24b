#include "kernels/peer_rows.h"

#include <algorithm>

#include "tests/kernels/sample_arrays.h"

namespace tessera {
namespace {

using namespace kernels;  // the functions under test
using testing::context_of;
using testing::error_of;
using Numbers = std::vector<std::int64_t>;

Array list_of(const Numbers& values) {
  return Array::from_values({static_cast<std::int64_t>(values.size())}, DType::kI64,
                            std::vector<double>(values.begin(), values.end()));
}
Numbers numbers_of(const Array& list) {
  const std::vector<double> values = list.to_vector();
  return Numbers(values.begin(), values.end());
}

/// 2 senders, 3 experts, of which two lie with peer 0 and one with peer 1.
constexpr std::int64_t kSenders = 2, kExperts = 3;
const Numbers kCounts = {2, 0, 1, 1, 3, 2};

struct Lists {
  Numbers places, counts, filled, came;
};
Lists lay_out(std::int64_t sender, std::int64_t own, const KeySize& size, std::int64_t room,
              std::int64_t copies = 1) {
  KernelContext ctx = context_of(1);
  const Array counts = list_of(kCounts).try_view({1, kSenders, kExperts});
  std::int64_t slots = 0;
  for (std::int64_t e = 0; e < kExperts; ++e) {
    slots += kCounts[static_cast<std::size_t>(sender * kExperts + e)];
  }
  // Slots are numbered from the last one down; one more goes nowhere, and one is never named.
  Numbers order;
  for (std::int64_t i = slots; i >= 0; --i) order.push_back(i);
  const std::int64_t own_experts = own == 0 ? 2 : 1;
  const PeerLists out = {.place_S = list_of(Numbers(static_cast<std::size_t>(slots + 2), 7)),
                         .counts_e = list_of(Numbers(static_cast<std::size_t>(own_experts))),
                         .filled_e = list_of(Numbers(static_cast<std::size_t>(own_experts))),
                         .came_1 = list_of(Numbers(1))};
  lay_out_peers(ctx,
                {.counts_PSE = counts,
                 .sender = sender,
                 .experts_per_peer = 2,
                 .copies = copies,
                 .own = own,
                 .size = size,
                 .room = room},
                list_of(order), out);
  return {numbers_of(out.place_S), numbers_of(out.counts_e), numbers_of(out.filled_e),
          numbers_of(out.came_1)};
}

}  // namespace

TEST_CASE("rows lie by expert, within an expert by sender", "[kernels][peer_rows]") {
  const Lists first = lay_out(0, 0, {}, kAnyNumber);
  // Slots 3, 2 of expert 0, slot 1 of expert 2; slots 0 and 4 have no place.
  CHECK(first.places == Numbers{-1, peer_place(1, 0), peer_place(0, 1), peer_place(0, 0), -1});
  CHECK(first.counts == Numbers{3, 3});
  CHECK(first.filled == Numbers{3, 3});
  CHECK(first.came == Numbers{6});
  const Lists second = lay_out(1, 1, {}, kAnyNumber);
  CHECK(second.places == Numbers{-1, peer_place(1, 2), peer_place(1, 1), peer_place(0, 5),
                                 peer_place(0, 4), peer_place(0, 3), peer_place(0, 2), -1});
  CHECK(second.counts == Numbers{3});
  CHECK(second.came == Numbers{3});
}

TEST_CASE("rows are padded to an alignment, or to a number for each expert",
          "[kernels][peer_rows]") {
  const Lists aligned = lay_out(1, 0, {.alignment = 4}, kAnyNumber);
  CHECK(aligned.counts == Numbers{4, 4});
  CHECK(aligned.filled == Numbers{3, 3});
  CHECK(aligned.came == Numbers{6});
  CHECK(aligned.places[5] == peer_place(0, 4));  // the first of expert 1
  const Lists fixed = lay_out(0, 1, {.rows = 5, .alignment = 2}, kAnyNumber, 2);
  CHECK(fixed.counts == Numbers{6});
  CHECK(fixed.filled == Numbers{3});
  CHECK(fixed.places[1] == peer_place(2, 0));  // of two copies each
  CHECK(error_of([] { lay_out(0, 0, {.rows = 2}, kAnyNumber); }) ==
        "lay_out_peers: expert 0 has 3 rows, but room for 2");
}

TEST_CASE("rows without room have no place, and are counted", "[kernels][peer_rows]") {
  const Lists cut = lay_out(1, 0, {}, 4);
  CHECK(cut.places == Numbers{-1, peer_place(1, 2), peer_place(1, 1), -1, -1, peer_place(0, 3),
                              peer_place(0, 2), -1});
  CHECK(cut.counts == Numbers{3, 1});
  CHECK(cut.filled == Numbers{3, 1});
  CHECK(cut.came == Numbers{6});
}

TEST_CASE("what nobody fills is cleared, and nothing else", "[kernels][peer_rows]") {
  KernelContext ctx = context_of(1);
  const Array rows = Array::empty({7, 2}, DType::kBF16);
  fill(ctx, 3, rows);
  clear_unfilled_rows(ctx, list_of({3, 2}), list_of({1, 2}), rows);
  CHECK(rows.to_vector() == std::vector<double>{3, 3, 0, 0, 0, 0, 3, 3, 3, 3, 0, 0, 0, 0});
}

TEST_CASE("who takes what others put finds it in their lists", "[kernels][peer_rows]") {
  KernelContext ctx = context_of(1);
  const Array tokens = Array::from_values({2, 1}, DType::kF32, std::vector<double>{5, 6}),
              weights = Array::from_values({2, 2}, DType::kF32, std::vector<double>{1, 2, 3, 4}),
              places = list_of({peer_place(0, 1), peer_place(1, 0), -1, peer_place(1, 2)}),
              out = Array::zeros({3, 1}, DType::kF32);
  const PutSource sources[] = {{tokens.bytes(), weights.bytes(), places.data<std::int64_t>(), 2},
                               {}};
  take_put_rows(ctx, {.sources = sources, .top_k = 2, .own = 1}, out);
  CHECK(out.to_vector() == std::vector<double>{10, 0, 24});
  places.data<std::int64_t>()[1] = peer_place(1, 3);
  CHECK(error_of([&] { take_put_rows(ctx, {.sources = sources, .top_k = 2, .own = 1}, out); }) ==
        "put_peer_rows: row 3 of peer 1 at position [1] lies outside of the peers' buffers");
}

}  // namespace tessera
