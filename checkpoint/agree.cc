#include "checkpoint/agree.h"

#include "runtime/gather_texts.h"

namespace tessera {

std::vector<std::string> agree(World& world, const Status& own, const std::string& text) {
  // A byte of code, then the text of the error or of the rank.
  std::string report(1, static_cast<char>(own.code()));
  report += own.ok() ? text : std::string(message_of(own));
  std::vector<std::string> reports = gather_texts(world, report);
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    const auto code = static_cast<absl::StatusCode>(reports[rank].front());
    reports[rank].erase(0, 1);
    if (code == absl::StatusCode::kOk) continue;
    const std::string who = reports.size() == 1 ? "" : "rank " + std::to_string(rank) + ": ";
    throw Error(Status(code, to_absl(who + reports[rank])));
  }
  return reports;
}

}  // namespace tessera
