// A program of somebody else: a product whose contracted dim is cut over four ranks (threads of
// this process), what it gives, what it moved, and an error that comes out of the library.
#include <cstdio>
#include <vector>

#include "dtensor/ops.h"
#include "placement/version.h"
#include "runtime/world.h"

namespace {

using namespace tessera;

constexpr int kRanks = 4;

/// x[m][k] = m + k and w[k][n] = k − n, whole on every rank before they are cut.
Array values(std::int64_t rows, std::int64_t columns, double sign) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      out.push_back(static_cast<double>(i) + sign * static_cast<double>(j));
    }
  }
  return Array::from_values({rows, columns}, DType::kF32, out);
}

void print_rows(const Array& array) {
  const std::vector<double> flat = array.to_vector();
  for (std::int64_t i = 0; i < array.size(0); ++i) {
    for (std::int64_t j = 0; j < array.size(1); ++j) {
      std::printf("%s%g", j == 0 ? "" : " ", flat[static_cast<std::size_t>(i * array.size(1) + j)]);
    }
    std::printf("\n");
  }
}

void on_rank(World& world) {
  Runtime runtime(world);
  const Mesh mesh = value_or_throw(Mesh::make(ShapeView(Shape{kRanks}), {"tp"}));
  const Placements columns = {Shard{1}}, rows = {Shard{0}};
  const DTensor x = distribute(runtime, values(2, 10, 1.0), mesh, columns);
  const DTensor w = distribute(runtime, values(10, 3, -1.0), mesh, rows);
  const DTensor y = matmul(x, w);
  const DTensor whole = redistribute(y, {Replicate{}});
  if (world.rank() != 0) return;

  std::printf("x %s\nw %s\ny %s\n", x.spec().to_string().c_str(), w.spec().to_string().c_str(),
              y.spec().to_string().c_str());
  print_rows(whole.local());
  for (const Event& event : runtime.events().events()) {
    if (event.kind != Event::Kind::kCollective) continue;
    std::printf("%s over %s: %lld bytes received\n", event.name.c_str(), event.axes.c_str(),
                static_cast<long long>(event.bytes_received));
  }
  try {
    matmul(x, x);
  } catch (const Error& error) {
    const bool refused = error.status().code() == absl::StatusCode::kInvalidArgument;
    std::printf("x times x: %s\n", refused ? "refused" : error.what());
  }
}

}  // namespace

int main() {
  std::printf("tessera %s\n", std::string(version()).c_str());
  if (library_version() != kHeaderVersion) return 1;
  const Status status = run_ranks(kRanks, {.threads_per_rank = 1}, on_rank);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(message_of(status)).c_str());
  return 1;
}
