#include "moe/exchange_route.h"

#include <utility>

namespace tessera {

void ExchangeRoute::begin(const DTensor& x_TD) {
  const DTensor rows = take_rows(x_TD, steps_.places);
  if (steps_.hops.empty()) {
    rows_ = rows;
  } else {
    pending_ = begin_move(rows, steps_.hops.front().move);
  }
}

ExpertRows ExchangeRoute::arrive() {
  DTensor rows = steps_.hops.empty() ? std::exchange(rows_, {}) : pending_.finish();
  for (std::size_t i = 1; i < steps_.hops.size(); ++i) {
    const Hop& hop = steps_.hops[i];
    if (hop.source.defined()) rows = reorder_rows(rows, hop.source, hop.restore);
    rows = move_rows(rows, hop.move);
  }
  if (steps_.source_R.defined()) rows = reorder_rows(rows, steps_.source_R, steps_.restore_N);
  return {rows, steps_.counts_e};
}

void ExchangeRoute::begin_return(const DTensor& y_RD, const DTensor& weights_TK) {
  weights_TK_ = weights_TK;
  DTensor rows = y_RD;
  if (steps_.source_R.defined()) rows = reorder_rows(rows, steps_.restore_N, steps_.source_R);
  for (std::size_t i = steps_.hops.size(); i-- > 1;) {
    const Hop& hop = steps_.hops[i];
    rows = move_rows(rows, hop.move.reversed());
    if (hop.source.defined()) rows = reorder_rows(rows, hop.restore, hop.source);
  }
  if (steps_.hops.empty()) {
    rows_ = rows;
  } else {
    pending_ = begin_move(rows, steps_.hops.front().move.reversed());
  }
}

DTensor ExchangeRoute::finish_return() {
  const DTensor rows = steps_.hops.empty() ? std::exchange(rows_, {}) : pending_.finish();
  return sum_rows(rows, std::exchange(weights_TK_, {}), steps_.places, rows.dtype());
}

}  // namespace tessera
