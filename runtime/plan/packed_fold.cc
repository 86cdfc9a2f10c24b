#include "runtime/plan/packed_fold.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace tessera {

std::vector<Slice> slices_to_fold(const CollectiveCall& call, const Signature& signature,
                                  int num_ranks) {
  std::vector<Slice> slices;
  if (call.kind() == CollectiveCall::Kind::kAllReduce) {
    for (int i = 0; i < num_ranks; ++i) {
      slices.push_back(slice_of(call.in().num_elements(), {i, num_ranks}));
    }
    return slices;
  }
  const std::int64_t row = row_bytes(call.in()) / size_of(call.in().dtype());
  std::int64_t begin = 0;
  for (const std::int64_t rows : signature.send_splits) {
    slices.push_back({begin, begin + rows * row});
    begin += rows * row;
  }
  return slices;
}

bool folds_in_pieces(const CollectiveCall& call, std::span<const Slice> slices) {
  std::int64_t largest = 0;
  for (const Slice& slice : slices) largest = std::max(largest, slice.end - slice.begin);
  const auto others = std::ssize(slices) - 1;
  return others > 0 && largest > call.pack_bytes() / others / size_of(call.in().dtype());
}

CollectiveCall fold_as_exchange(const CollectiveCall& call, std::span<const Slice> slices,
                                const Array& out, int self) {
  const std::int64_t count = call.in().num_elements();
  const auto box_of = [&](std::size_t peer, const Slice& slice) {
    const std::int64_t size = slice.end - slice.begin;
    return Transfer{static_cast<std::int64_t>(peer),
                    static_cast<std::int64_t>(peer),
                    {{Run{slice.begin, 0, size}}}};
  };
  ExchangeBoxes boxes{.fold = true, .reduce = call.reduce(), .divisor = call.divisor()};
  for (std::size_t rank = 0; rank < slices.size(); ++rank) {
    const Slice& own = slices[static_cast<std::size_t>(self)];
    if (own.end > own.begin) {
      boxes.into.push_back(box_of(rank, own));
      boxes.cut_from.push_back({count});
    }
    if (slices[rank].end > slices[rank].begin) boxes.from.push_back(box_of(rank, slices[rank]));
  }
  return {.of = ExchangeCall{.parts = {{call.in().try_view({count}), out,
                                        std::make_shared<const ExchangeBoxes>(std::move(boxes))}},
                             .pack_bytes = call.pack_bytes()}};
}

}  // namespace tessera
