// moe/layer/exchange_route.h: rows taken from tokens, sent in one or more hops, put in expert
// order, and back. For the dispatchers' sources.
#pragma once

#include <optional>
#include <vector>

#include "dtensor/pending_rows.h"
#include "moe/layer/dispatcher.h"
#include "moe/layer/expert_blocks.h"
#include "moe/layer/routed_slots.h"

namespace tessera {

/// What a route is made of.
struct ExchangeSteps {
  RowPlaces places;  ///< of the rows that are sent
  std::vector<RowMove> hops;
  ExpertOrder order;  ///< of what arrives; without source_R where it stands in it
};

class ExchangeRoute final : public Route {
 public:
  explicit ExchangeRoute(ExchangeSteps steps) : steps_(std::move(steps)) {}
  void begin(const DTensor& x_TD) override;
  ExpertRows arrive() override;
  void begin_return(const DTensor& y_RD, const DTensor& weights_TK) override;
  DTensor finish_return() override;

 private:
  ExchangeSteps steps_;
  PendingRows pending_;
  DTensor rows_;  ///< where no hop is taken
  DTensor weights_TK_;
};

}  // namespace tessera
