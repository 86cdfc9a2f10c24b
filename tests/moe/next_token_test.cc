// Targets some tokens on, within documents and over the borders of shards.
#include "moe/train/next_token.h"

#include "dtensor/ops.h"
#include "testing/results.h"

namespace tessera::testing {
namespace {

struct Rolled {
  std::vector<double> tokens;
  std::string placements;
  std::int64_t bytes = 0;
};

/// Two rows of five tokens on `num_ranks` ranks that cut L: documents of 3 and 2, and of 1 and 4.
Rolled roll_on(int num_ranks, std::int64_t shift) {
  return results_of(num_ranks, {},
                    [&](World& world) {
                      Runtime runtime(world);
                      const Mesh mesh = value_or_throw(Mesh::make(Shape{num_ranks}, {"cp"}));
                      const auto place = [&](const std::vector<double>& values) {
                        return distribute(runtime, Array::from_values({2, 5}, DType::kI64, values),
                                          mesh, Placements{Shard{1}});
                      };
                      const DTensor tokens = place({10, 11, 12, 20, 21, 30, 40, 41, 42, 43});
                      const DTensor positions = place({0, 1, 2, 0, 1, 0, 0, 1, 2, 3});
                      const std::int64_t before = runtime.events().bytes_received();
                      const DTensor out = next_in_document(tokens, positions, shift, -1.0);
                      Rolled rolled;
                      rolled.bytes = runtime.events().bytes_received() - before;
                      rolled.placements = to_string(value_or_throw(out.spec().placements()));
                      rolled.tokens = full_tensor(out).to_vector();
                      return rolled;
                    })
      .value()[0];
}

}  // namespace

TEST_CASE("the next token of a document comes from the neighbour's shard", "[moe][mtp][C72]") {
  const int num_ranks = GENERATE(1, 2, 3, 4);
  CAPTURE(num_ranks);
  const Rolled one = roll_on(num_ranks, 1);
  CHECK(one.tokens == std::vector<double>{11, 12, -1, 21, -1, -1, 41, 42, 43, -1});
  CHECK(one.placements == (num_ranks > 1 ? "(S(1))" : "(R)"));
  // One place of each row, of tokens and of positions.
  if (num_ranks > 1) CHECK(one.bytes == 2 * 2 * 8);
  const Rolled two = roll_on(num_ranks, 2);
  CHECK(two.tokens == std::vector<double>{12, -1, -1, -1, -1, -1, 42, 43, -1, -1});
}

}  // namespace tessera::testing
