#include "tools/tessera_train/placements.h"

#include <cstdio>

#include "absl/strings/str_format.h"
#include "moe/placement_table.h"

namespace tessera {

void print_placements(const TrainFlags& flags) {
  const std::int64_t ranks = flags.ranks.value_or(1);
  if (ranks < 1) {
    throw Error(invalid_argument(absl::StrFormat("--ranks %d: at least 1 is allowed", ranks)));
  }
  const DType dtype = value_or_throw(parse_dtype(flags.dtype));
  const ModelConfig config = value_or_throw(read_model_config(flags.config));
  const ParallelConfig parallel =
      value_or_throw(parse_parallel_config(flags.parallel, "--parallel"));
  const std::vector<PlacedParameter> placed =
      value_or_throw(placed_parameters(config, parallel, ranks, dtype));
  const std::string text = flags.format == "json" ? placements_json(placed).to_string() + "\n"
                                                  : describe_placements(placed);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace tessera
