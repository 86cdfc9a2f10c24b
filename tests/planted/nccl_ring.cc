// One process of a ring over NCCL emulated, which does all kinds of calls again and again.
//   nccl_ring RANK SIZE FILE ROUNDS DYING_ROUND
// FILE: where rank 0 puts the id. In DYING_ROUND the last rank ends in the middle; -1: never.
// Prints "fine", or "remote error" where NCCL tells of one.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "emulation/cuda_runtime.h"
#include "emulation/nccl.h"

namespace {

constexpr std::size_t kCount = 50'000;

struct Seat {
  int rank = 0, size = 1;
  std::string file;
  int rounds = 1, dying_round = -1;
  bool dies_in(int round) const { return round == dying_round && rank == size - 1; }
};

ncclUniqueId meet(const Seat& seat) {
  ncclUniqueId id;
  if (seat.rank == 0) {
    ncclGetUniqueId(&id);
    const std::string made = seat.file + ".made";
    std::ofstream(made, std::ios::binary).write(id.internal, sizeof id.internal);
    std::rename(made.c_str(), seat.file.c_str());
    return id;
  }
  while (::access(seat.file.c_str(), R_OK) != 0) ::usleep(1000);
  std::ifstream(seat.file, std::ios::binary).read(id.internal, sizeof id.internal);
  return id;
}

struct Card {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  float *own = nullptr, *sum = nullptr, *all = nullptr;
  Card() = default;
  Card(const Card&) = delete;
  Card& operator=(const Card&) = delete;
  ~Card() {
    cudaStreamSynchronize(stream);
    for (float* each : {own, sum, all}) cudaFree(each);
    cudaStreamDestroy(stream);
  }
};

void give_round(const Seat& seat, int round, const Card& card) {
  const int right = (seat.rank + 1) % seat.size, left = (seat.rank + seat.size - 1) % seat.size;
  ncclAllReduce(card.own, card.sum, kCount, ncclFloat32, ncclSum, card.comm, card.stream);
  ncclAllGather(card.sum, card.all, kCount, ncclFloat32, card.comm, card.stream);
  ncclGroupStart();
  ncclSend(card.own, kCount, ncclFloat32, right, card.comm, card.stream);
  ncclRecv(card.sum, kCount, ncclFloat32, left, card.comm, card.stream);
  ncclGroupEnd();
  ncclBroadcast(card.sum, card.sum, kCount, ncclFloat32, round % seat.size, card.comm, card.stream);
  ncclReduceScatter(card.all, card.sum, kCount, ncclFloat32, ncclSum, card.comm, card.stream);
}

/// False where NCCL tells of an error.
bool wait(const Card& card) {
  cudaEvent_t done = nullptr;
  cudaEventCreateWithFlags(&done, cudaEventDisableTiming);
  cudaEventRecord(done, card.stream);
  ncclResult_t state = ncclSuccess;
  while (cudaEventQuery(done) != cudaSuccess && state == ncclSuccess) {
    ncclCommGetAsyncError(card.comm, &state);
    ::usleep(200);
  }
  cudaEventDestroy(done);
  return state == ncclSuccess;
}

int run(const Seat& seat) {
  std::vector<float> values(kCount);  // which the card writes to its end
  Card card;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  cudaSetDevice(seat.rank);
  cudaStreamCreateWithFlags(&card.stream, cudaStreamNonBlocking);
  if (ncclCommInitRankConfig(&card.comm, seat.size, meet(seat), seat.rank, &config) !=
      ncclSuccess) {
    return 1;
  }
  cudaMalloc(reinterpret_cast<void**>(&card.own), kCount * sizeof(float));
  cudaMalloc(reinterpret_cast<void**>(&card.sum), kCount * sizeof(float));
  cudaMalloc(reinterpret_cast<void**>(&card.all), kCount * sizeof(float) * seat.size);
  for (int round = 0; round < seat.rounds; ++round) {
    for (std::size_t i = 0; i < kCount; ++i) values[i] = static_cast<float>(seat.rank + i % 7);
    const std::size_t bytes = kCount * sizeof(float);
    cudaMemcpyAsync(card.own, values.data(), bytes, cudaMemcpyHostToDevice, card.stream);
    give_round(seat, round, card);
    cudaMemcpyAsync(values.data(), card.sum, bytes, cudaMemcpyDeviceToHost, card.stream);
    if (seat.dies_in(round)) ::_exit(9);
    if (!wait(card)) {
      std::puts("remote error");
      ncclCommAbort(card.comm);
      return 0;
    }
    const int ranks = seat.size * (seat.size - 1) / 2;
    for (std::size_t i = 0; i < kCount; ++i) {
      const auto sum = static_cast<float>(ranks + seat.size * (i % 7));
      if (values[i] != sum * static_cast<float>(seat.size)) return 2;
    }
  }
  ncclCommDestroy(card.comm);
  std::puts("fine");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 3;
  return run(
      {std::atoi(argv[1]), std::atoi(argv[2]), argv[3], std::atoi(argv[4]), std::atoi(argv[5])});
}
