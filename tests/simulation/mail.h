// tests/simulation/mail.h: messages between the ranks of a simulation, as MPI promises them: those
// of one sender with one tag come in order, short ones free their sender early, and what a dead
// rank was to send or take stays away without a word.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/mpi/mpi.h"
#include "tests/simulation/simulation.h"

/// A message under way, or a place for one.
struct TsrMailRequest {
  bool over = false;
  int code = MPI_SUCCESS;
  MPI_Status status = {};
};

namespace tessera::seeded {

/// Thread-safety: threads of the simulation.
class Mail {
 public:
  explicit Mail(Simulation& simulation);
  struct Address {
    int rank = 0;  ///< the other one
    int tag = 0;
    MPI_Comm comm = MPI_COMM_WORLD;
    bool operator==(const Address&) const = default;
  };
  MPI_Comm duplicate();
  MPI_Request send(const std::byte* data, std::size_t bytes, const Address& to);
  MPI_Request receive(std::byte* data, std::size_t capacity, const Address& from);
  /// Takes in what has come. Whether the request is over.
  bool test(const TsrMailRequest* request);
  void give_up(MPI_Request request);
  /// Every rank's text on every rank, in order.
  std::vector<std::string> gather(MPI_Comm comm, const std::string& own);

 private:
  struct Letter {
    Address from;
    Environment::Time at;
    const std::byte* data = nullptr;  ///< the sender's own bytes; null: a copy
    std::string copy;
    std::size_t bytes = 0;
    MPI_Request sender = nullptr;  ///< waits until this is taken; null: does not, or no more
  };
  struct Place {
    Address from;
    std::byte* data = nullptr;
    std::size_t capacity = 0;
    MPI_Request request = nullptr;
  };
  struct Box {
    std::deque<Letter> letters;
    std::deque<Place> places;
    std::map<int, Environment::Time>
        last;  ///< by sender: nothing comes before what was sent earlier
    int num_comms = 0;
    std::map<MPI_Comm, std::uint64_t> num_gathered;
  };
  struct Gathering {
    std::vector<std::string> texts;
    int num_here = 0;
  };
  Box& box(int rank);
  void take_in(Box& box);
  static void fill(const Letter& letter, const Place& place);

  Simulation& simulation_;
  std::size_t copied_up_to_;  ///< longer messages wait for their taker
  std::map<int, Box> boxes_;
  std::map<std::pair<MPI_Comm, std::uint64_t>, Gathering> gatherings_;
};

}  // namespace tessera::seeded
