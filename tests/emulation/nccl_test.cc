// The emulated NCCL among threads, each with a device and a stream of its own.
#include "emulation/nccl.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <numeric>
#include <thread>

#include "emulation/nccl_device.h"

namespace tessera::emulation {
namespace {

using Values = std::vector<float>;

/// A rank's communicator, and memory of its device.
class Rank {
 public:
  Rank(ncclUniqueId id, int rank, int size) : rank_(rank), size_(size) {
    cudaSetDevice(rank);
    cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclCommInitRankConfig(&comm_, size, id, rank, &config);
  }
  ~Rank() {
    if (comm_ != nullptr) ncclCommDestroy(comm_);
    cudaStreamDestroy(stream_);
    for (float* memory : memory_) cudaFree(memory);
  }
  int rank() const { return rank_; }
  int size() const { return size_; }
  ncclComm_t comm() const { return comm_; }
  cudaStream_t stream() const { return stream_; }
  float* memory(const Values& values) {
    float* made = nullptr;
    cudaMalloc(&made, values.size() * sizeof(float));
    cudaMemcpy(made, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice);
    memory_.push_back(made);
    return made;
  }
  Values read(const float* memory, std::size_t count) const {
    Values values(count);
    cudaStreamSynchronize(stream_);
    cudaMemcpy(values.data(), memory, count * sizeof(float), cudaMemcpyDeviceToHost);
    return values;
  }
  void abort() { ncclCommAbort(std::exchange(comm_, nullptr)); }

 private:
  int rank_, size_;
  cudaStream_t stream_ = nullptr;
  ncclComm_t comm_ = nullptr;
  std::vector<float*> memory_;
};

/// What each rank's body returns, by rank.
template <class Result>
std::vector<Result> on_ranks(int size, const std::function<Result(Rank&)>& body) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  std::vector<Result> results(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      Rank own(id, rank, size);
      results[static_cast<std::size_t>(rank)] = body(own);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

Values counted_from(float first, int count) {
  Values values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), first);
  return values;
}

bool comes_within(std::chrono::milliseconds limit, const std::function<bool()>& has_come) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (!has_come() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return has_come();
}

}  // namespace

TEST_CASE("collectives have their values, in place too", "[emulation][nccl]") {
  const int size = GENERATE(1, 2, 4, 8);
  const bool in_place = GENERATE(false, true);
  CAPTURE(size, in_place);
  const auto n = static_cast<float>(size);
  const auto results = on_ranks<std::vector<Values>>(size, [&](Rank& rank) {
    const auto own = static_cast<float>(rank.rank());
    std::vector<Values> got;
    float* const sum = rank.memory({own, 10 * own});
    float* const sum_to = in_place ? sum : rank.memory({-1, -1});
    ncclAllReduce(sum, sum_to, 2, ncclFloat32, ncclSum, rank.comm(), rank.stream());
    got.push_back(rank.read(sum_to, 2));

    float* const all = rank.memory(Values(2 * static_cast<std::size_t>(size), -1));
    float* const part = in_place ? all + 2 * rank.rank() : rank.memory({own, own + 0.5F});
    if (in_place) {
      const Values mine{own, own + 0.5F};
      cudaMemcpy(part, mine.data(), 2 * sizeof(float), cudaMemcpyHostToDevice);
    }
    ncclAllGather(part, all, 2, ncclFloat32, rank.comm(), rank.stream());
    got.push_back(rank.read(all, 2 * static_cast<std::size_t>(size)));

    float* const rows = rank.memory(counted_from(own, size));
    float* const row = in_place ? rows + rank.rank() : rank.memory({-1});
    ncclReduceScatter(rows, row, 1, ncclFloat32, ncclMax, rank.comm(), rank.stream());
    got.push_back(rank.read(row, 1));

    float* const told = rank.memory({own == 0 ? 7.0F : -1.0F});
    ncclBroadcast(told, told, 1, ncclFloat32, 0, rank.comm(), rank.stream());
    got.push_back(rank.read(told, 1));
    return got;
  });
  Values gathered;
  for (int rank = 0; rank < size; ++rank) {
    gathered.push_back(static_cast<float>(rank));
    gathered.push_back(static_cast<float>(rank) + 0.5F);
  }
  for (int rank = 0; rank < size; ++rank) {
    const auto& got = results[static_cast<std::size_t>(rank)];
    const float sum = n * (n - 1) / 2;
    CHECK(got[0] == Values{sum, 10 * sum});
    CHECK(got[1] == gathered);
    CHECK(got[2] == Values{n - 1 + static_cast<float>(rank)});
    CHECK(got[3] == Values{7});
  }
}

TEST_CASE("grouped messages go all at once, in order of their calls", "[emulation][nccl]") {
  const auto results = on_ranks<Values>(4, [](Rank& rank) {
    float* const from = rank.memory(counted_from(10 * static_cast<float>(rank.rank()), 4));
    float* const to = rank.memory(Values(4, -1));
    ncclGroupStart();
    for (int peer = 0; peer < rank.size(); ++peer) {
      ncclSend(from + peer, 1, ncclFloat32, peer, rank.comm(), rank.stream());
      ncclRecv(to + peer, 1, ncclFloat32, peer, rank.comm(), rank.stream());
    }
    ncclGroupEnd();
    return rank.read(to, 4);
  });
  for (int rank = 0; rank < 4; ++rank) {
    const auto own = static_cast<float>(rank);
    CHECK(results[static_cast<std::size_t>(rank)] == Values{own, 10 + own, 20 + own, 30 + own});
  }
}

TEST_CASE("a communicator splits by color, in order of keys", "[emulation][nccl]") {
  const auto results = on_ranks<Values>(4, [](Rank& rank) {
    ncclComm_t half = nullptr;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    const int color = rank.rank() == 3 ? NCCL_SPLIT_NOCOLOR : 0;
    ncclCommSplit(rank.comm(), color, -rank.rank(), &half, &config);
    if (half == nullptr) return Values{};
    int own = -1, size = -1;
    ncclCommUserRank(half, &own);
    ncclCommCount(half, &size);
    float* const value = rank.memory({static_cast<float>(rank.rank())});
    float* const all = rank.memory(Values(3, -1));
    ncclAllGather(value, all, 1, ncclFloat32, half, rank.stream());
    Values got = rank.read(all, 3);
    ncclCommDestroy(half);
    got.push_back(static_cast<float>(own));
    got.push_back(static_cast<float>(size));
    return got;
  });
  CHECK(results[0] == Values{2, 1, 0, 2, 3});
  CHECK(results[2] == Values{2, 1, 0, 0, 3});
  CHECK(results[3].empty());
}

TEST_CASE("work of other streams goes on while a call waits for its peers", "[emulation][nccl]") {
  std::atomic<bool> may_come{false};
  const auto results = on_ranks<int>(2, [&](Rank& rank) {
    float* const value = rank.memory({1});
    if (rank.rank() == 1) {
      const bool came = comes_within(std::chrono::seconds(60), [&] { return may_come.load(); });
      ncclAllReduce(value, value, 1, ncclFloat32, ncclSum, rank.comm(), rank.stream());
      return came && rank.read(value, 1) == Values{2};
    }
    ncclAllReduce(value, value, 1, ncclFloat32, ncclSum, rank.comm(), rank.stream());
    const bool waits = cudaStreamQuery(rank.stream()) == cudaErrorNotReady;
    may_come = true;
    return waits && rank.read(value, 1) == Values{2};
  });
  CHECK(results == std::vector<int>{1, 1});
}

TEST_CASE("a captured call is done with each launch of its graph", "[emulation][nccl]") {
  const auto results = on_ranks<Values>(2, [](Rank& rank) {
    float* const value = rank.memory({1});
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    cudaStreamBeginCapture(rank.stream(), cudaStreamCaptureModeThreadLocal);
    ncclAllReduce(value, value, 1, ncclFloat32, ncclSum, rank.comm(), rank.stream());
    cudaStreamEndCapture(rank.stream(), &graph);
    cudaGraphInstantiate(&exec, graph);
    for (int launch = 0; launch < 3; ++launch) cudaGraphLaunch(exec, rank.stream());
    Values got = rank.read(value, 1);
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    return got;
  });
  CHECK(results == std::vector<Values>{{8}, {8}});
}

TEST_CASE("what NCCL refuses is refused with its words", "[emulation][nccl]") {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t first = nullptr, second = nullptr;
  cudaSetDevice(0);
  CHECK(ncclCommInitRankConfig(&first, 2, id, 0, &config) == ncclInProgress);
  ncclResult_t state{};
  CHECK(ncclCommGetAsyncError(first, &state) == ncclSuccess);
  CHECK(state == ncclInProgress);
  CHECK(ncclCommInitRankConfig(&second, 2, id, 1, &config) == ncclInvalidUsage);
  CHECK(std::string(ncclGetLastError(nullptr)) ==
        "Duplicate GPU detected : rank 1 and rank 0 both on device 0");
  CHECK(ncclCommInitRankConfig(&second, 3, id, 1, &config) == ncclInvalidArgument);
  CHECK(ncclCommInitRankConfig(&second, 2, id, 2, &config) == ncclInvalidArgument);
  cudaSetDevice(1);
  CHECK(ncclCommInitRankConfig(&second, 2, id, 1, &config) == ncclInProgress);
  CHECK(ncclCommGetAsyncError(first, &state) == ncclSuccess);
  CHECK(state == ncclSuccess);
  CHECK(ncclCommDestroy(first) == ncclSuccess);
  CHECK(ncclCommDestroy(second) == ncclSuccess);
  cudaSetDevice(0);
}

TEST_CASE("a call that differs, or whose peer hangs or fails, ends only by an abort",
          "[emulation][nccl][faults]") {
  const auto fault = GENERATE(NcclFault::kHangs, NcclFault::kFails, NcclFault::kOtherCount);
  plant_nccl_fault(1, fault, 2);
  const auto results = on_ranks<std::vector<bool>>(2, [&](Rank& rank) {
    float* const value = rank.memory({1, 1});
    const auto reduce = [&] {
      ncclAllReduce(value, value, 2, ncclFloat32, ncclSum, rank.comm(), rank.stream());
    };
    reduce();
    std::vector<bool> facts{rank.read(value, 2) == Values{2, 2}};
    reduce();
    const auto is_done = [&] { return cudaStreamQuery(rank.stream()) == cudaSuccess; };
    facts.push_back(comes_within(std::chrono::milliseconds(50), is_done));
    ncclResult_t state{};
    ncclCommGetAsyncError(rank.comm(), &state);
    facts.push_back(state == ncclRemoteError);
    rank.abort();
    facts.push_back(comes_within(std::chrono::seconds(60), is_done));
    return facts;
  });
  nccl_heals();
  CHECK(results[0] == std::vector<bool>{true, false, false, true});
  CHECK(results[1] == std::vector<bool>{true, false, fault == NcclFault::kFails, true});
}

namespace {

constexpr std::size_t kWindowBytes = 8192;

/// Of ncclMemAlloc(), of the current device.
struct WindowMemory {
  WindowMemory() { ncclMemAlloc(&at, kWindowBytes); }
  WindowMemory(const WindowMemory&) = delete;
  WindowMemory& operator=(const WindowMemory&) = delete;
  ~WindowMemory() { ncclMemFree(at); }
  void* at = nullptr;
};
std::string text_of(ncclResult_t result) {
  return result == ncclSuccess ? "" : std::to_string(result) + " " + ncclGetLastError(nullptr);
}
/// What a registration comes to.
std::string register_here(Rank& rank, void* memory, std::size_t bytes = kWindowBytes,
                          int flags = NCCL_WIN_COLL_SYMMETRIC) {
  ncclWindow_t window = nullptr;
  return text_of(ncclCommWindowRegister(rank.comm(), memory, bytes, &window, flags));
}

}  // namespace

TEST_CASE("ranks write to one another's windows, and memory lasts as long as a peer's window",
          "[emulation][nccl][windows]") {
  const auto results = on_ranks<Values>(4, [](Rank& rank) {
    float* const met = rank.memory({0, 0, 0, 0});
    const auto meet = [&] {
      ncclAllGather(met + rank.rank(), met, 1, ncclFloat32, rank.comm(), rank.stream());
    };
    void* own = nullptr;
    ncclMemAlloc(&own, kWindowBytes);
    ncclWindow_t window = nullptr;
    const bool is_there = ncclCommWindowRegister(rank.comm(), own, kWindowBytes, &window,
                                                 NCCL_WIN_COLL_SYMMETRIC) == ncclSuccess;
    const ncclTeam_t team = ncclTeamLsa(rank.comm());
    const std::size_t offset = static_cast<std::size_t>(rank.rank()) * sizeof(float);
    launch_on(rank.stream(), {.grid = 1, .block = 1}, "put", [=] {
      for (int peer = 0; peer < team.nRanks; ++peer) {
        *static_cast<float*>(ncclGetLsaPointer(window, offset, peer)) =
            static_cast<float>(10 * team.rank + peer);
      }
    });
    meet();
    Values got = rank.read(static_cast<float*>(own), 4);
    got.push_back(is_there ? 1 : 0);
    cudaPointerAttributes attributes{};
    cudaPointerGetAttributes(&attributes, ncclGetLsaPointer(window, 0, (rank.rank() + 1) % 4));
    got.push_back(static_cast<float>(attributes.device));
    // Rank 3 frees its memory; the others' windows keep it until they are gone.
    if (rank.rank() == 3) {
      ncclCommWindowDeregister(rank.comm(), window);
      ncclMemFree(own);
    }
    meet();
    cudaStreamSynchronize(rank.stream());
    if (rank.rank() < 3) {
      got.push_back(*static_cast<float*>(ncclGetLsaPointer(window, 0, 3)));
      ncclCommWindowDeregister(rank.comm(), window);
      ncclMemFree(own);
    }
    return got;
  });
  for (int rank = 0; rank < 4; ++rank) {
    const auto own = static_cast<float>(rank);
    Values expected{own, 10 + own, 20 + own, 30 + own, 1, static_cast<float>((rank + 1) % 4)};
    if (rank < 3) expected.push_back(3);
    CHECK(results[static_cast<std::size_t>(rank)] == expected);
  }
}

TEST_CASE("a window that NCCL would not take is refused by name", "[emulation][nccl][windows]") {
  const auto results = on_ranks<std::vector<std::string>>(2, [](Rank& rank) {
    const WindowMemory memory;
    auto* const begin = static_cast<std::byte*>(memory.at);
    std::vector<std::string> said;
    said.push_back(register_here(rank, rank.memory(Values(2048))));
    said.push_back(register_here(rank, begin, kWindowBytes + 1));
    said.push_back(register_here(rank, begin + 256, 256));
    said.push_back(register_here(rank, begin, kWindowBytes, NCCL_WIN_DEFAULT));
    said.push_back(text_of(ncclCommWindowRegister(nullptr, begin, 1, nullptr, 1)));
    cudaSetDevice(1 - rank.rank());
    {
      const WindowMemory elsewhere;
      said.push_back(register_here(rank, elsewhere.at));
    }
    cudaSetDevice(rank.rank());
    said.push_back(text_of(ncclMemFree(begin + 1)));
    said.push_back(text_of(ncclCommWindowDeregister(rank.comm(), nullptr)));
    int no_window = 0;
    said.push_back(
        text_of(ncclCommWindowDeregister(rank.comm(), reinterpret_cast<ncclWindow_t>(&no_window))));
    // The n-th of one rank meets the other's n-th, which has another size; the next ones agree.
    said.push_back(register_here(rank, begin, rank.rank() == 0 ? 4096 : 8192));
    said.push_back(register_here(rank, begin));
    said.emplace_back(cudaFree(begin) == cudaErrorInvalidValue ? "" : "cudaFree() took it");
    ncclCommRevoke(rank.comm(), NCCL_REVOKE_DEFAULT);
    said.push_back(register_here(rank, begin));
    return said;
  });
  const std::string foreign = "4 a window's memory must come from ncclMemAlloc()";
  for (int rank = 0; rank < 2; ++rank) {
    CAPTURE(rank);
    const std::string own = std::to_string(rank), other = std::to_string(1 - rank);
    CHECK(results[static_cast<std::size_t>(rank)] ==
          std::vector<std::string>{
              foreign, foreign, "4 a window must begin at a multiple of 4096",
              "4 flags of a window", "4 no communicator",
              "4 a window's memory lies on device " + other + ", the communicator on " + own,
              "4 memory that ncclMemAlloc() did not give", "",
              "4 a window of another communicator, or of none",
              "5 a window of 8192 bytes on rank 1, of 4096 on rank 0", "", "",
              "5 the communicator was revoked"});
  }
}

TEST_CASE("a communicator that does not block has its window once all have asked",
          "[emulation][nccl][windows]") {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  std::atomic<bool> may_come{false};
  std::vector<std::thread> threads;
  std::vector<int> right(2, 0);
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      cudaSetDevice(rank);
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      ncclComm_t comm = nullptr;
      ncclCommInitRankConfig(&comm, 2, id, rank, &config);
      const auto is = [&](ncclResult_t wanted) {
        ncclResult_t state = ncclSuccess;
        ncclCommGetAsyncError(comm, &state);
        return state == wanted;
      };
      bool good = comes_within(std::chrono::seconds(60), [&] { return is(ncclSuccess); });
      if (rank == 1) comes_within(std::chrono::seconds(60), [&] { return may_come.load(); });
      const WindowMemory memory;
      ncclWindow_t window = nullptr;
      good = good && ncclCommWindowRegister(comm, memory.at, kWindowBytes, &window,
                                            NCCL_WIN_COLL_SYMMETRIC) == ncclInProgress;
      if (rank == 0) {
        // No call comes before the window is there.
        good = good && is(ncclInProgress) && window == nullptr &&
               ncclAllGather(memory.at, memory.at, 1, ncclUint8, comm, nullptr) == ncclInvalidUsage;
        may_come = true;
      }
      good = good && comes_within(std::chrono::seconds(60), [&] { return is(ncclSuccess); });
      right[static_cast<std::size_t>(rank)] = good && window != nullptr;
      ncclCommDestroy(comm);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(right == std::vector<int>{1, 1});
}

TEST_CASE("a revoke ends the wait for a window's other ranks", "[emulation][nccl][windows]") {
  const auto results = on_ranks<std::string>(2, [](Rank& rank) {
    if (rank.rank() == 1) return std::string();
    const WindowMemory memory;
    std::thread revokes([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ncclCommRevoke(rank.comm(), NCCL_REVOKE_DEFAULT);
    });
    std::string said = register_here(rank, memory.at);
    revokes.join();
    return said;
  });
  CHECK(results[0] == "3 aborted");
}

}  // namespace tessera::emulation
