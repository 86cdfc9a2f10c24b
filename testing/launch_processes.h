// testing/launch_processes.h: ranks as processes: what each of them says of a launch.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "testing/results.h"

namespace tessera::testing {

struct Account {
  Status first;
  double seconds = 0;
  std::string report;
};
/// Of the next rank. All must agree in what failed first.
inline void add_account(Launched& launched, Account account) {
  const std::size_t rank = launched.reports.size();
  if (rank == 0) launched.first = account.first;
  if (account.first != launched.first) {
    launched.first = internal_error("ranks differ in what failed first: rank 0 says \"" +
                                    launched.first.ToString() + "\", rank " + std::to_string(rank) +
                                    " says \"" + account.first.ToString() + "\"");
  }
  launched.seconds = std::max(launched.seconds, account.seconds);
  launched.reports.push_back(std::move(account.report));
}

/// Ranks as processes of mpirun.
Launched launch_processes(int num_ranks, const WorldOptions& options, const RankBody& body);

}  // namespace tessera::testing
