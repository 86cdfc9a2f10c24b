// benchmarks/mpi_redistribute.cc: redistributions among 4 processes, beside what MPI offers for the
// same blocks, in the same rounds: pack + Alltoallv, Alltoallw with subarrays, a shared window with
// direct copies, and the native collective. Start it with `mpirun -n 4`. Times are of the slowest
// process, medians over rounds; ratios are medians of a round's ratios.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "benchmarks/redistribute_floor.h"
#include "runtime/mpi_world.h"

namespace {

using namespace tessera;
using namespace tessera::bench;
using Clock = std::chrono::steady_clock;

constexpr int kRanks = 4;

struct Move {
  const char* name;
  Shape mesh;
  std::vector<const char*> from, to;
};
const std::vector<Move>& moves() {
  static const std::vector<Move> kMoves = {
      {"S0 -> S1", {4}, {"S(0)"}, {"S(1)"}},
      {"2x2 (S0,S1) -> (S1,S0)", {2, 2}, {"S(0)", "S(1)"}, {"S(1)", "S(0)"}},
      {"SS -> S (2x2)", {2, 2}, {"SS(0,2)", "S(0)"}, {"S(0)", "S(0)"}},
      {"S0 -> R", {4}, {"S(0)"}, {"R"}},
      {"P -> S0", {4}, {"P(sum)"}, {"S(0)"}},
      {"P -> R", {4}, {"P(sum)"}, {"R"}},
  };
  return kMoves;
}

Spec spec_of(const Mesh& mesh, const Shape& shape, const std::vector<const char*>& texts) {
  Placements placements;
  for (const char* text : texts) placements.push_back(value_or_throw(parse_placement(text)));
  return value_or_throw(Spec::make(mesh, shape, DType::kF32, placements));
}

/// One move on one rank: specs, its boxes as a single exchange, and its part of the source.
struct Case {
  Spec src, dst;
  int self = 0;
  std::vector<Transfer> into, from;
  Array in;
  Shape out_shape;

  Case(const Move& move, const Shape& shape, World& world)
      : src(spec_of(mesh_of(move), shape, move.from)),
        dst(spec_of(mesh_of(move), shape, move.to)),
        self(static_cast<int>(world.rank())),
        in(Array::empty(local_shape(src, self), DType::kF32, world.allocator())),
        out_shape(local_shape(dst, self)) {
    const PlanStep direct{.kind = PlanStep::Kind::kExchange, .src = src, .dst = dst};
    into = transfers_into(direct, self);
    from = transfers_from(direct, self);
    for (std::int64_t i = 0; i < in.num_elements(); ++i) {
      in.data<float>()[i] = static_cast<float>((i * 7 + self * 3) % 1024);
    }
  }
  static Mesh mesh_of(const Move& move) { return value_or_throw(Mesh::make(view_of(move.mesh))); }
  static Shape local_shape(const Spec& spec, std::int64_t rank) {
    return spec.local_shape(*spec.mesh().coord_of(rank));
  }
  bool folds() const { return src.has_partial(); }
};

/// A way to do it.
class Contender {
 public:
  virtual ~Contender() = default;
  virtual const char* name() const = 0;
  virtual void run() = 0;
  virtual const float* result() const = 0;
};

// ---- Pack + Alltoallv; summands are added up from what came

class PackedContender final : public Contender {
 public:
  explicit PackedContender(const Case& each)
      : case_(each), out_(Array::empty(each.out_shape, DType::kF32)) {
    for (const Transfer& box : each.from) count(box, to_, sent_);
    for (const Transfer& box : each.into) count(box, of_, received_);
    pack_ = Array::empty({std::max<std::int64_t>(1, sent_)}, DType::kF32);
    unpack_ = Array::empty({std::max<std::int64_t>(1, received_)}, DType::kF32);
    place_blocks();
  }
  const char* name() const override { return "alltoallv"; }
  const float* result() const override { return out_.data<float>(); }

  void run() override {
    for (const Block& block : packing_) run_block(block, Stores::kPlain);
    MPI_Alltoallv(pack_.bytes(), to_.counts, to_.offsets, MPI_FLOAT, unpack_.bytes(), of_.counts,
                  of_.offsets, MPI_FLOAT, MPI_COMM_WORLD);
    for (const Block& block : unpacking_) run_block(block, Stores::kPlain);
  }

 private:
  struct Counts {
    int counts[kRanks] = {}, offsets[kRanks] = {};
  };
  void count(const Transfer& box, Counts& counts, std::int64_t& total) const {
    if (box.peer == case_.self) return;
    counts.counts[box.peer] += static_cast<int>(box.num_elements());
    total += box.num_elements();
    for (int rank = 1; rank < kRanks; ++rank) {
      counts.offsets[rank] = counts.offsets[rank - 1] + counts.counts[rank - 1];
    }
  }
  static std::vector<Block> blocks_of(const Transfer& box, const Array& src, const Array& dst) {
    std::vector<Block> blocks;
    add_blocks(box, src, dst, blocks);
    return blocks;
  }

  void place_blocks() {
    std::int64_t at[kRanks];
    std::copy_n(to_.offsets, kRanks, at);
    for (const Transfer& box : case_.from) {
      if (box.peer == case_.self) continue;
      for (Block block : blocks_of(box, case_.in, case_.in)) {
        block.targets[0] = pack_.data<float>() + at[box.peer];
        block.target_stride = block.row_floats;
        at[box.peer] += block.rows * block.row_floats;
        packing_.push_back(std::move(block));
      }
    }
    std::copy_n(of_.offsets, kRanks, at);
    Block sum{.row_floats = out_.num_elements()};
    for (const Transfer& box : case_.into) {
      const bool own = box.peer == case_.self;
      for (Block block : blocks_of(box, own ? case_.in : out_, out_)) {
        if (!own) {
          block.sources[0] = unpack_.data<float>() + at[box.peer];
          block.source_stride = block.row_floats;
          at[box.peer] += block.rows * block.row_floats;
        }
        sum.sources.push_back(block.sources[0]);
        if (!case_.folds()) unpacking_.push_back(std::move(block));
      }
    }
    sum.targets.push_back(out_.data<float>());
    if (case_.folds()) unpacking_.push_back(std::move(sum));
  }

  const Case& case_;
  Array out_, pack_, unpack_;
  Counts to_, of_;
  std::int64_t sent_ = 0, received_ = 0;
  std::vector<Block> packing_, unpacking_;
};

// ---- Alltoallw with a subarray (or several) for every peer

class SubarrayContender final : public Contender {
 public:
  explicit SubarrayContender(const Case& each)
      : case_(each), out_(Array::empty(each.out_shape, DType::kF32)) {
    for (int rank = 0; rank < kRanks; ++rank) {
      send_[rank] = type_of(each.from, rank, each.in.shape(), &Run::src, to_[rank]);
      recv_[rank] = type_of(each.into, rank, each.out_shape, &Run::dst, of_[rank]);
    }
  }
  ~SubarrayContender() override {
    for (int rank = 0; rank < kRanks; ++rank) {
      if (to_[rank] > 0) MPI_Type_free(&send_[rank]);
      if (of_[rank] > 0) MPI_Type_free(&recv_[rank]);
    }
  }
  const char* name() const override { return "alltoallw"; }
  const float* result() const override { return out_.data<float>(); }
  void run() override {
    const int offsets[kRanks] = {};
    MPI_Alltoallw(case_.in.bytes(), to_, offsets, send_, out_.bytes(), of_, offsets, recv_,
                  MPI_COMM_WORLD);
  }

 private:
  static MPI_Datatype type_of(const std::vector<Transfer>& boxes, int rank, const Shape& shape,
                              std::int64_t Run::*side, int& count) {
    std::vector<MPI_Datatype> types;
    const int sizes[2] = {static_cast<int>(shape[0]), static_cast<int>(shape[1])};
    for (const Transfer& box : boxes) {
      if (box.peer != rank) continue;
      for (const Run& rows : box.dims[0]) {
        for (const Run& cols : box.dims[1]) {
          const int part[2] = {static_cast<int>(rows.size), static_cast<int>(cols.size)};
          const int start[2] = {static_cast<int>(rows.*side), static_cast<int>(cols.*side)};
          MPI_Type_create_subarray(2, sizes, part, start, MPI_ORDER_C, MPI_FLOAT,
                                   &types.emplace_back());
        }
      }
    }
    count = types.empty() ? 0 : 1;
    if (types.empty()) return MPI_FLOAT;
    const std::vector<int> ones(types.size(), 1);
    const std::vector<MPI_Aint> offsets(types.size(), 0);
    MPI_Datatype all = MPI_DATATYPE_NULL;
    MPI_Type_create_struct(static_cast<int>(types.size()), ones.data(), offsets.data(),
                           types.data(), &all);
    MPI_Type_commit(&all);
    for (MPI_Datatype& type : types) MPI_Type_free(&type);
    return all;
  }

  const Case& case_;
  Array out_;
  int to_[kRanks] = {}, of_[kRanks] = {};
  MPI_Datatype send_[kRanks], recv_[kRanks];
};

// ---- A shared window that holds the sources, and the results where others read them

class WindowContender final : public Contender {
 public:
  WindowContender(const Case& each, Stores stores) : case_(each), stores_(stores) {
    const bool shares_result = each.folds() && each.dst.is_replicated();
    out_elements_ = num_elements(each.out_shape);
    const std::int64_t shared =
        each.in.num_elements() + (shares_result ? out_elements_ + kLineFloats : 0);
    float* own = nullptr;
    MPI_Win_allocate_shared(shared * 4, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &own, &window_);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window_);
    std::memcpy(own, each.in.bytes(), static_cast<std::size_t>(each.in.num_bytes()));
    if (!shares_result) private_out_ = Array::empty(each.out_shape, DType::kF32);
    out_ = shares_result ? result_in(own) : private_out_.data<float>();
    for (int rank = 0; rank < kRanks; ++rank) {
      MPI_Aint bytes = 0;
      int unit = 0;
      MPI_Win_shared_query(window_, rank, &bytes, &unit, &sources_[rank]);
    }
    if (each.folds()) {
      add_sums(shares_result);
    } else {
      add_copies();
    }
  }
  ~WindowContender() override {
    MPI_Win_unlock_all(window_);
    MPI_Win_free(&window_);
  }
  const char* name() const override {
    return stores_ == Stores::kPlain ? "window" : "window, streamed";
  }
  const float* result() const override { return out_; }

  void run() override {
    meet();
    for (const Block& block : first_) run_block(block, stores_);
    meet();
    if (second_.empty()) return;
    for (const Block& block : second_) run_block(block, stores_);
    meet();
  }

 private:
  void meet() {
    MPI_Win_sync(window_);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(window_);
  }
  // Behind the source, on a cache line.
  float* result_in(float* window) const {
    float* out = window + case_.in.num_elements();
    while (reinterpret_cast<std::uintptr_t>(out) % (4 * kLineFloats) != 0) ++out;
    return out;
  }
  void add_copies() {
    for (const Transfer& box : case_.into) {
      const Array like = Array::empty(Case::local_shape(case_.src, box.peer), DType::kF32);
      const std::size_t first = first_.size();
      add_blocks(box, like, private_out_, first_);
      for (std::size_t i = first; i < first_.size(); ++i) {
        first_[i].sources[0] = sources_[box.peer] + (first_[i].sources[0] - like.data<float>());
      }
    }
  }
  // Each rank adds up a quarter; where all want the whole they then copy the others' quarters.
  void add_sums(bool shares_result) {
    const std::int64_t quarter = case_.in.num_elements() / kRanks;
    Block sum{.row_floats = quarter};
    for (const float* source : sources_) sum.sources.push_back(source + case_.self * quarter);
    sum.targets.push_back(out_ + (shares_result ? case_.self * quarter : 0));
    first_.push_back(std::move(sum));
    for (int step = 1; step < kRanks && shares_result; ++step) {
      const int rank = (case_.self + step) % kRanks;
      const float* from = result_in(sources_[rank]) + rank * quarter;
      second_.push_back({{from}, {out_ + rank * quarter}, 1, quarter});
    }
  }

  static constexpr std::int64_t kLineFloats = 16;

  const Case& case_;
  Stores stores_;
  MPI_Win window_ = MPI_WIN_NULL;
  std::int64_t out_elements_ = 0;
  Array private_out_;
  float* out_ = nullptr;
  float* sources_[kRanks] = {};
  std::vector<Block> first_, second_;
};

// ---- The collective of this name, where there is one

class NativeContender final : public Contender {
 public:
  explicit NativeContender(const Case& each)
      : case_(each), out_(Array::empty(each.out_shape, DType::kF32)) {}
  const char* name() const override { return "native"; }
  const float* result() const override { return out_.data<float>(); }
  void run() override {
    const int in = static_cast<int>(case_.in.num_elements());
    const int out = static_cast<int>(out_.num_elements());
    if (!case_.folds()) {
      MPI_Allgather(case_.in.bytes(), in, MPI_FLOAT, out_.bytes(), in, MPI_FLOAT, MPI_COMM_WORLD);
    } else if (case_.dst.is_replicated()) {
      MPI_Allreduce(case_.in.bytes(), out_.bytes(), out, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    } else {
      MPI_Reduce_scatter_block(case_.in.bytes(), out_.bytes(), out, MPI_FLOAT, MPI_SUM,
                               MPI_COMM_WORLD);
    }
  }

 private:
  const Case& case_;
  Array out_;
};

std::vector<std::unique_ptr<Contender>> contenders_of(const Case& each) {
  std::vector<std::unique_ptr<Contender>> all;
  const bool to_all = each.dst.is_replicated();
  if (!each.folds() || !to_all) all.push_back(std::make_unique<PackedContender>(each));
  if (!each.folds()) all.push_back(std::make_unique<SubarrayContender>(each));
  all.push_back(std::make_unique<WindowContender>(each, Stores::kPlain));
  all.push_back(std::make_unique<WindowContender>(each, Stores::kStreamed));
  if (each.folds() || to_all) all.push_back(std::make_unique<NativeContender>(each));
  return all;
}

// ---- Measuring

double us_of(int repeats, const std::function<void()>& call) {
  MPI_Barrier(MPI_COMM_WORLD);
  const auto begin = Clock::now();
  for (int i = 0; i < repeats; ++i) call();
  MPI_Barrier(MPI_COMM_WORLD);
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / repeats;
}

/// Both have the same elements, on all ranks; sums of these values are exact in any order.
bool agree(const Array& ours, const Contender& other) {
  int same =
      std::equal(ours.data<float>(), ours.data<float>() + ours.num_elements(), other.result());
  int all = 0;
  MPI_Allreduce(&same, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return all == 1;
}

struct Rounds {
  std::vector<double> ours;
  std::vector<std::vector<double>> others;
  bool right = true;
};

Rounds measure(World& world, const Case& each, std::span<const std::unique_ptr<Contender>> others,
               int rounds, int repeats) {
  const PlanProgram program(world, value_or_throw(plan(each.src, each.dst)));
  Rounds times{{}, std::vector<std::vector<double>>(others.size()), true};
  for (int round = -2; round < rounds; ++round) {  // the first two warm the pools up
    const double ours = us_of(repeats, [&] { execute(world, program, each.in); });
    const Array result = round < 0 ? execute(world, program, each.in) : Array();
    if (round >= 0) times.ours.push_back(ours);
    for (std::size_t i = 0; i < others.size(); ++i) {
      const double us = us_of(repeats, [&] { others[i]->run(); });
      if (round >= 0) times.others[i].push_back(us);
      if (round < 0) times.right = times.right && agree(result, *others[i]);
    }
  }
  return times;
}

void print_case(World& world, const Move& move, const Shape& shape, int rounds, int repeats) {
  const Case each(move, shape, world);
  const auto others = contenders_of(each);
  const Rounds times = measure(world, each, others, rounds, repeats);
  std::size_t best = 0;
  for (std::size_t i = 1; i < others.size(); ++i) {
    if (median_of(times.others[i]) < median_of(times.others[best])) best = i;
  }
  std::vector<double> ratios;
  for (std::size_t i = 0; i < times.ours.size(); ++i) {
    ratios.push_back(times.ours[i] / times.others[best][i]);
  }
  if (world.rank() != 0) return;
  std::printf("%-24s %10.1f %10.1f %6.2f  %-17s", move.name, median_of(times.ours),
              median_of(times.others[best]), median_of(ratios), others[best]->name());
  for (std::size_t i = 0; i < others.size(); ++i) {
    std::printf(" %s %.1f;", others[i]->name(), median_of(times.others[i]));
  }
  std::printf("%s\n", times.right ? "" : "   WRONG RESULT");
  std::fflush(stdout);
}

void print_bucket(World& world, const Move& move, const Shape& shape, int rounds) {
  constexpr std::size_t kTensors = 100;
  const Case each(move, shape, world);
  const PlanProgram program(world, value_or_throw(plan(each.src, each.dst)));
  const std::vector<PlanProgram> programs(kTensors, program);
  std::vector<Array> locals;
  for (std::size_t i = 0; i < kTensors; ++i) locals.push_back(Case(move, shape, world).in);
  std::vector<double> bucket, single, ratio;
  for (int round = -2; round < rounds; ++round) {
    std::vector<Array> results(kTensors);
    const double together = us_of(1, [&] { results = execute_all(world, programs, locals); });
    const double apart = us_of(1, [&] {
      for (std::size_t i = 0; i < kTensors; ++i) results[i] = execute(world, program, locals[i]);
    });
    if (round < 0) continue;
    bucket.push_back(together);
    single.push_back(apart);
    ratio.push_back(apart / together);
  }
  if (world.rank() != 0) return;
  std::printf("%-24s %10.1f %10.1f %6.2f\n", move.name, median_of(bucket), median_of(single),
              median_of(ratio));
  std::fflush(stdout);
}

enum class Which : std::uint8_t { kAll, kSmall };

void run(World& world, int rounds, Which which) {
  world.events().summarize_only();
  const bool speaks = world.rank() == 0;
  struct Size {
    const char* name;
    Shape shape;
    int repeats;
  };
  std::vector<Size> sizes = {{"[8192, 4096], 128 MiB", {8192, 4096}, 1},
                             {"[128, 128], 64 KiB", {128, 128}, 200},
                             {"[16, 16], 1 KiB", {16, 16}, 500}};
  if (which == Which::kSmall) sizes.erase(sizes.begin());
  for (const Size& size : sizes) {
    if (speaks) {
      std::printf("\nfloat32 %s, %d processes, us\n%-24s %10s %10s %6s  %-17s\n", size.name, kRanks,
                  "", "ours", "best MPI", "ratio", "which");
    }
    for (const Move& move : moves()) print_case(world, move, size.shape, rounds, size.repeats);
  }
  for (const std::int64_t side : {128, 16}) {
    if (speaks) {
      std::printf("\n100 tensors of [%lld, %lld] as a bucket and one by one, us\n",
                  static_cast<long long>(side), static_cast<long long>(side));
    }
    for (const Move& move : moves()) print_bucket(world, move, {side, side}, rounds);
  }
}

}  // namespace

/// bench_mpi_redistribute [ROUNDS [small]]
int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 15;
  const auto session = value_or_throw(MpiSession::start());
  const Status status = run_mpi_rank({.world = {.threads_per_rank = 1}}, [&](World& world) {
    if (world.size() != kRanks) throw Error(invalid_argument("start it with mpirun -n 4"));
    run(world, rounds, argc > 2 ? Which::kSmall : Which::kAll);
  });
  if (status.ok()) return 0;
  std::fprintf(stderr, "bench_mpi_redistribute: %s\n", std::string(message_of(status)).c_str());
  session->abort(1);
}
