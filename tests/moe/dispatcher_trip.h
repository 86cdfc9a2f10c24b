// tests/moe/dispatcher_trip.h: tokens of known values that travel to experts and back under one
// dispatcher, and what was seen on the way.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "moe/layer/dispatcher.h"
#include "testing/results.h"

namespace tessera::testing {

using Ints = std::vector<std::int64_t>;
constexpr std::int64_t kK = 2, kD = 4;

/// A group of ep x etp ranks with tokens of their own.
struct Trip {
  DispatchConfig config = {};
  std::int64_t ep = 2, etp = 1, experts = 5;
  DType dtype = DType::kF64;  ///< of tokens; weights are F32 beside BF16
  /// Tokens of a rank; uneven, with an empty one.
  std::function<std::int64_t(std::int64_t)> tokens = [](std::int64_t rank) {
    return rank == 1 ? std::int64_t{0} : 9 + rank * 2;
  };
  /// Expert of a rank's slot; `experts` goes nowhere.
  std::function<std::int64_t(std::int64_t, std::int64_t)> choose =
      [](std::int64_t rank, std::int64_t slot) { return (rank * 5 + slot * 7 + slot / 3) % 6; };
  std::optional<ExpertRoom> room = {};
  int num_ranks() const { return static_cast<int>(ep * etp); }
};

struct Seen {
  std::vector<double> out, grad_x, grad_weights;
  Ints counts_e;                        ///< of all chunks, pad rows included
  std::int64_t rows = 0, pad_rows = 0;  ///< given to the experts
  double largest_pad = 0;               ///< |value| in a row that belongs to no token
  std::int64_t needed = -1;
  std::vector<Event> events;  ///< forward and backward
  std::int64_t forward_events = 0;
  std::vector<double> computed_us;  ///< when each chunk's experts began
};

double x_value(std::int64_t rank, std::int64_t i);
double weight_value(std::int64_t slot);

/// Forward and backward on every rank. Expert e multiplies by e + 1; an etp rank adds its share of
/// that.
std::vector<Seen> travel_all(const Trip& trip);

/// Values and gradients as plain loops over the slots give them. Sums of integers and halves: exact
/// in any order.
void check_values(const Trip& trip, const std::vector<Seen>& ranks);

}  // namespace tessera::testing
