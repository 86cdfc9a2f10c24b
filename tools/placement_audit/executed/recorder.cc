#include <dirent.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "io/json.h"
#include "runtime/recorder/verdict.h"
#include "tools/placement_audit/command.h"

namespace tessera::audit {
namespace {

using Finding = RecordsFinding;
using State = RecordedCall::State;

// ---- reading

// The rank that a record's name says; nullopt for any other file.
std::optional<std::int64_t> rank_in_name(std::string_view name) {
  constexpr std::string_view kPrefix = "rank_", kSuffix = ".tsrrec";
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  std::int64_t rank = 0;
  for (const char c : name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size())) {
    if (c < '0' || c > '9' || rank > 1'000'000) return std::nullopt;
    rank = 10 * rank + (c - '0');
  }
  if (flight::file_name_of(rank) != name) return std::nullopt;
  return rank;
}

StatusOr<std::vector<std::int64_t>> ranks_in(const std::string& folder) {
  struct Close {
    void operator()(DIR* dir) const { ::closedir(dir); }
  };
  const std::unique_ptr<DIR, Close> dir(::opendir(folder.c_str()));
  if (dir == nullptr) {
    return io_error(folder + ": cannot read the folder: " + std::strerror(errno));
  }
  std::vector<std::int64_t> ranks;
  while (const dirent* entry = ::readdir(dir.get())) {
    if (const auto rank = rank_in_name(entry->d_name)) ranks.push_back(*rank);
  }
  if (ranks.empty()) {
    return not_found(folder + ": holds no flight record (files such as " + flight::file_name_of(0) +
                     ")");
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

StatusOr<RankRecords> read_rank(const std::string& folder, std::int64_t rank) {
  const std::string path = folder + "/" + flight::file_name_of(rank);
  TSR_ASSIGN_OR_RETURN(RankRecords records, read_records(path));
  if (records.rank == rank) return records;
  return invalid_argument(path + ": is the record of rank " + std::to_string(records.rank));
}

/// The records of the latest job in the folder, and what was left out.
struct Read {
  std::vector<RankRecords> records;
  std::vector<std::string> warnings;
};

StatusOr<Read> read_folder(const std::string& folder) {
  TSR_ASSIGN_OR_RETURN(const std::vector<std::int64_t> ranks, ranks_in(folder));
  Read read;
  Status first_problem;
  for (const std::int64_t rank : ranks) {
    StatusOr<RankRecords> records = read_rank(folder, rank);
    if (records.ok()) {
      read.records.push_back(*std::move(records));
      continue;
    }
    first_problem.Update(records.status());
    read.warnings.emplace_back(message_of(records.status()));
  }
  if (read.records.empty()) return first_problem;
  const RankRecords& latest = *std::ranges::max_element(read.records, {}, &RankRecords::start_ns);
  const auto job = std::pair(latest.job, latest.world_size);
  std::erase_if(read.records, [&](const RankRecords& each) {
    if (std::pair(each.job, each.world_size) == job) return false;
    read.warnings.push_back(folder + "/" + flight::file_name_of(each.rank) +
                            ": left out: of an earlier job than the others");
    return true;
  });
  return read;
}

// ---- as JSON

Json integers(const std::vector<std::int64_t>& values) {
  return Json(Json::Array(values.begin(), values.end()));
}

std::string_view name_of(flight::End end) {
  constexpr std::string_view kNames[] = {"none", "clean", "failed"};
  return kNames[static_cast<int>(end)];
}

Json to_json(const Finding& finding) {
  const bool of_call = finding.kind != Finding::Kind::kNotEnded;
  Json::Array calls;
  for (const Finding::Call& call : finding.calls) {
    calls.push_back(Json::object(
        {{"rank", call.rank}, {"call", call.text}, {"state", tessera::name_of(call.state)}}));
  }
  return Json::object(
      {{"kind", tessera::name_of(finding.kind)},
       {"field", finding.field.empty() ? Json() : Json(finding.field)},
       {"odd", finding.odd ? Json(*finding.odd) : Json()},
       {"group", of_call ? integers(finding.group) : Json()},
       {"sequence", of_call ? Json(static_cast<std::int64_t>(finding.sequence)) : Json()},
       {"calls", Json(std::move(calls))},
       {"missing", integers(finding.missing)},
       {"unknown", integers(finding.unknown)},
       {"text", finding.text}});
}

Json to_json(const RecordsVerdict& verdict) {
  Json::Array failures, findings, last_calls;
  for (const auto& [rank, text, time_ns] : verdict.failures) {
    failures.push_back(Json::object({{"rank", rank}, {"text", text}}));
  }
  for (const Finding& finding : verdict.findings) findings.push_back(to_json(finding));
  for (const RecordsVerdict::Last& last : verdict.last_calls) {
    const bool any = !last.call.empty();
    last_calls.push_back(Json::object({{"rank", last.rank},
                                       {"call", any ? Json(last.call) : Json()},
                                       {"state", any ? Json(tessera::name_of(last.state)) : Json()},
                                       {"end", name_of(last.end)},
                                       {"torn", last.torn}}));
  }
  return Json::object({{"world_size", verdict.world_size},
                       {"ranks_present", integers(verdict.present)},
                       {"ranks_missing", integers(verdict.missing)},
                       {"clean", verdict.clean()},
                       {"failures", Json(std::move(failures))},
                       {"findings", Json(std::move(findings))},
                       {"last_calls", Json(std::move(last_calls))}});
}

// ---- for people

std::string to_text(const RecordsVerdict& verdict) {
  std::string text = "records of " + list_ranks(verdict.present) + " of a job of " +
                     std::to_string(verdict.world_size) +
                     (verdict.world_size == 1 ? " rank" : " ranks");
  if (!verdict.missing.empty()) text += "; none of " + list_ranks(verdict.missing);
  text += '\n';
  if (verdict.clean()) text += "nothing wrong\n";
  if (!verdict.failures.empty()) text += "\nfailures, first to last:\n";
  for (const auto& [rank, failure, time_ns] : verdict.failures) {
    text += "  rank " + std::to_string(rank) + ": " + failure + '\n';
  }
  if (!verdict.findings.empty()) text += "\nfindings, causes before what follows from them:\n";
  for (std::size_t i = 0; i < verdict.findings.size(); ++i) {
    text += "  " + std::to_string(i + 1) + ". " + verdict.findings[i].text + '\n';
  }
  text += "\nlast calls:\n";
  for (const RecordsVerdict::Last& last : verdict.last_calls) {
    text += "  rank " + std::to_string(last.rank) + ": ";
    text +=
        last.call.empty() ? "none" : last.call + ", " + std::string(tessera::name_of(last.state));
    if (last.end == flight::End::kOpen) text += "; no end";
    if (last.end == flight::End::kClean) text += "; ended cleanly";
    if (last.end == flight::End::kFailed) text += "; failed";
    if (last.torn) text += "; killed while it wrote its record";
    text += '\n';
  }
  return text;
}

}  // namespace

StatusOr<Answer> judge_records(const Request& request) {
  TSR_ASSIGN_OR_RETURN(Read read, read_folder(request.folder));
  const RecordsVerdict verdict = judge(read.records);
  return Answer{
      .text = request.format == Format::kText ? to_text(verdict) : json_line(to_json(verdict)),
      .checks_passed = verdict.clean(),
      .warnings = std::move(read.warnings)};
}

}  // namespace tessera::audit
