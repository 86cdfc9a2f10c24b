// How the verdict is found. All calls of all records are sorted into lanes: a group's collectives,
// or the messages from one of its ranks to another. In a lane the n-th calls of its ranks belong
// together and are a meeting. A lane's first meeting with something wrong is its finding, since
// what follows it follows from it: calls that differ, a rank that never came, or one that all came
// to but did not finish. A rank without the call is excused where its record cannot tell: none is
// there, it is torn at that place, its ring has gone on, or the job had already failed elsewhere.
// Findings of lanes are then ordered: a call that a rank never made because it waits in another
// finding's call follows from that one. Ranks whose record just stops and of which nothing else is
// said come last.
#include "runtime/recorder/verdict.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

namespace tessera {
namespace {

using Kind = CollectiveCall::Kind;
using State = RecordedCall::State;
using Finding = RecordsFinding;
using Ranks = std::vector<std::int64_t>;

/// A group's collectives (from = to = -1), or its messages from one group rank to another.
struct LaneKey {
  Ranks group;
  std::int64_t from = -1, to = -1;
  auto operator<=>(const LaneKey&) const = default;
};

// Whether the rank only heard of another's failure: "rank 3: …", "rank 3 died in …".
bool failed_with_another(const RankRecords& records) {
  std::string_view text = records.failure;
  if (records.end != flight::End::kFailed || !text.starts_with("rank ")) return false;
  text.remove_prefix(5);
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view rest = text.substr(digits);
  return text.substr(0, digits) != std::to_string(records.rank) &&
         (rest.starts_with(": ") || rest.starts_with(" died"));
}

/// One rank's calls in a lane, by sequence.
struct Party {
  std::int64_t rank = 0;
  const RankRecords* records = nullptr;
  std::map<std::uint64_t, const RecordedCall*> calls;

  enum class Absence : std::uint8_t {
    kNeverCalled,
    kJobFailedBefore,
    kTorn,
    kForgotten,
    kNoRecord
  };
  /// Why there is no call of this sequence.
  Absence absence(std::uint64_t sequence) const {
    if (records == nullptr) return Absence::kNoRecord;
    const bool known = !records->wrapped || (!calls.empty() && sequence > calls.begin()->first);
    if (!known) return Absence::kForgotten;
    const std::uint64_t next = calls.empty() ? 0 : calls.rbegin()->first + 1;
    if (records->lacks_last_call() && sequence == next) return Absence::kTorn;
    const RecordedCall* last = last_call(*records);
    const bool stuck = last != nullptr && last->state != State::kFinished;
    return failed_with_another(*records) && !stuck ? Absence::kJobFailedBefore
                                                   : Absence::kNeverCalled;
  }
};

struct Lane {
  std::vector<Party> parties;
};

/// What all ranks recorded of one call of a lane.
struct Meeting {
  const LaneKey* key = nullptr;
  std::uint64_t sequence = 0;
  std::vector<const Party*> parties;
  std::vector<const RecordedCall*> calls;  ///< by party; null where there is none
};

std::string group_text(const Ranks& group) { return "group " + to_string(ShapeView(group)); }

std::int64_t place_in(const Ranks& group, std::int64_t rank) {
  return std::find(group.begin(), group.end(), rank) - group.begin();
}

// ---- lanes

class Lanes {
 public:
  explicit Lanes(std::span<const RankRecords> records) {
    for (const RankRecords& each : records) by_rank_[each.rank] = &each;
    for (const RankRecords& each : records) {
      for (const RecordedCall& call : each.calls) add(each, call);
    }
  }
  const std::map<LaneKey, Lane>& all() const { return lanes_; }

 private:
  void add(const RankRecords& records, const RecordedCall& call) {
    if (call.group == flight::kNoGroup) return;
    const Ranks& group = records.groups[call.group];
    const std::int64_t own = place_in(group, records.rank);
    const std::int64_t peer = call.signature.root;
    LaneKey key{group};
    std::size_t party = static_cast<std::size_t>(own);
    if (call.signature.kind == Kind::kSend || call.signature.kind == Kind::kRecv) {
      const bool sends = call.signature.kind == Kind::kSend;
      key.from = sends ? own : peer;
      key.to = sends ? peer : own;
      party = sends ? 0 : 1;
    }
    Lane& lane = lanes_[key];
    if (lane.parties.empty()) lane = make_lane(key);
    lane.parties[party].calls[call.signature.sequence] = &call;
  }

  Lane make_lane(const LaneKey& key) const {
    Ranks ranks = key.group;
    if (key.from >= 0) {
      ranks = {key.group[static_cast<std::size_t>(key.from)],
               key.group[static_cast<std::size_t>(key.to)]};
    }
    Lane lane;
    for (const std::int64_t rank : ranks) {
      const auto found = by_rank_.find(rank);
      lane.parties.push_back({rank, found == by_rank_.end() ? nullptr : found->second, {}});
    }
    return lane;
  }

  std::map<std::int64_t, const RankRecords*> by_rank_;
  std::map<LaneKey, Lane> lanes_;
};

// ---- do calls agree

bool is_cut(const RecordedCall& call) { return (call.cut & flight::kCutSplits) != 0; }

// What a record keeps in place of what it has no room for. Empty where two calls agree.
std::string differing_rest(const RecordedCall& a, const RecordedCall& b) {
  const Kind kind = a.signature.kind;
  if (kind == Kind::kBarrier || kind == Kind::kExchange) return "";
  if (a.ndim != b.ndim) return "shape";
  if (a.ndim > std::ssize(a.signature.shape) && a.num_elements != b.num_elements) return "shape";
  const bool rows = kind == Kind::kAllGather || kind == Kind::kReduceScatter;
  if (!rows || (!is_cut(a) && !is_cut(b))) return "";
  const bool same =
      is_cut(a) == is_cut(b) && a.send_hash == b.send_hash && a.recv_hash == b.recv_hash;
  return same ? "" : "rows";
}

// Row counts of an all_to_all that had no room: what all ranks send against what all expect.
bool splits_differ(const std::vector<const RecordedCall*>& calls) {
  std::uint64_t sent = 0, expected = 0;
  for (const RecordedCall* call : calls) {
    if (call == nullptr || call->signature.kind != Kind::kAllToAll || !is_cut(*call)) return false;
    sent += call->send_hash;
    expected += call->recv_hash;
  }
  return sent != expected;
}

std::optional<Mismatch> mismatch_of(const std::vector<const RecordedCall*>& calls) {
  std::vector<const Signature*> signatures;
  for (const RecordedCall* call : calls) {
    signatures.push_back(call == nullptr ? nullptr : &call->signature);
  }
  if (auto mismatch = find_mismatch(signatures)) return mismatch;
  std::optional<int> first;
  for (int i = 0; i < std::ssize(calls); ++i) {
    const RecordedCall* call = calls[static_cast<std::size_t>(i)];
    if (call == nullptr) continue;
    if (!first) first = i;
    const std::string field = differing_rest(*calls[static_cast<std::size_t>(*first)], *call);
    if (!field.empty()) return Mismatch{*first, i, field};
  }
  if (!calls.empty() && splits_differ(calls))
    return Mismatch{0, static_cast<int>(calls.size()) - 1, "splits"};
  return std::nullopt;
}

// The one party without which all agree, where there is just one such.
std::optional<std::int64_t> odd_one_of(const Meeting& meeting) {
  constexpr std::size_t kMost = 64;  // each try looks at all calls
  const auto present = static_cast<std::size_t>(
      std::ranges::count_if(meeting.calls, [](const auto* call) { return call != nullptr; }));
  if (present < 3 || present > kMost) return std::nullopt;
  std::optional<std::int64_t> odd;
  std::vector<const RecordedCall*> calls = meeting.calls;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (calls[i] == nullptr) continue;
    const RecordedCall* const left_out = std::exchange(calls[i], nullptr);
    if (!mismatch_of(calls)) {
      if (odd) return std::nullopt;
      odd = meeting.parties[i]->rank;
    }
    calls[i] = left_out;
  }
  return odd;
}

// ---- texts

std::string call_of(const RankRecords& records, const RecordedCall& call) {
  std::string text = to_string(call);
  if (call.group != flight::kNoGroup) text += " of " + group_text(records.groups[call.group]);
  return text;
}

// "it was last in …"; where a rank stood that never came.
std::string whereabouts(const RankRecords& records) {
  const RecordedCall* last = last_call(records);
  const bool stuck = last != nullptr && last->state != State::kFinished;
  if (records.end == flight::End::kFailed) {
    const std::string where = stuck ? " in " + call_of(records, *last) : "";
    return "it failed" + where + ": " + records.failure;
  }
  if (stuck) return "it was last in " + call_of(records, *last);
  const std::string after =
      last == nullptr ? " before any call" : " after " + call_of(records, *last);
  if (records.lacks_last_call()) return "the record of its next call is torn," + after;
  return (records.end == flight::End::kClean ? "it ended cleanly" : "its record stops") + after;
}

// The parties that have no call in a meeting, for this reason.
Ranks absent_of(const Meeting& meeting, Party::Absence why) {
  Ranks ranks;
  for (std::size_t i = 0; i < meeting.parties.size(); ++i) {
    const Party& party = *meeting.parties[i];
    if (meeting.calls[i] == nullptr && party.absence(meeting.sequence) == why) {
      ranks.push_back(party.rank);
    }
  }
  return ranks;
}

std::string unknown_text(const Meeting& meeting) {
  const Ranks late = absent_of(meeting, Party::Absence::kJobFailedBefore);
  const Ranks torn = absent_of(meeting, Party::Absence::kTorn);
  const Ranks absent = absent_of(meeting, Party::Absence::kNoRecord);
  const Ranks forgotten = absent_of(meeting, Party::Absence::kForgotten);
  std::string text;
  if (!late.empty()) text += "; the job had failed before " + list_ranks(late) + " came to it";
  if (!torn.empty()) text += "; torn in the record of " + list_ranks(torn) + ": cannot tell";
  if (!absent.empty()) text += "; no record of " + list_ranks(absent) + ": cannot tell";
  if (!forgotten.empty()) {
    text += "; the record of " + list_ranks(forgotten) + " does not go back so far: cannot tell";
  }
  return text;
}

std::string mismatch_text(const Meeting& meeting, const Mismatch& mismatch,
                          const std::optional<std::int64_t>& odd) {
  const auto call = [&](int party) {
    const auto at = static_cast<std::size_t>(party);
    return "rank " + std::to_string(meeting.parties[at]->rank) + " calls " +
           to_string(*meeting.calls[at]);
  };
  std::string text = "collective mismatch (" + mismatch.field + "): " + call(mismatch.first) +
                     ", " + call(mismatch.second) + ", in " + group_text(meeting.key->group);
  if (odd) text += "; all but rank " + std::to_string(*odd) + " agree";
  return text + unknown_text(meeting);
}

std::string never_text(const Meeting& meeting, const Finding& finding) {
  const Finding::Call& made = finding.calls.front();
  const bool pair = meeting.key->from >= 0;
  std::string text = list_ranks(finding.missing) + (pair ? " never joined " : " never called ") +
                     made.text + ", of " + group_text(meeting.key->group);
  Ranks callers;
  for (const Finding::Call& call : finding.calls) callers.push_back(call.rank);
  text += ", which " + list_ranks(callers) + " called";
  for (const Party* party : meeting.parties) {
    if (std::ranges::count(finding.missing, party->rank) == 0) continue;
    text += finding.missing.size() > 1 ? "; rank " + std::to_string(party->rank) + ": " : "; ";
    text += whereabouts(*party->records);
  }
  return text + unknown_text(meeting);
}

std::string unfinished_text(const Meeting& meeting, const Finding& finding) {
  Ranks open;
  for (const Finding::Call& call : finding.calls) {
    if (call.state != State::kFinished) open.push_back(call.rank);
  }
  const std::string rest = unknown_text(meeting);
  return finding.calls.front().text + ", of " + group_text(meeting.key->group) +
         ", did not finish on " + list_ranks(open) +
         (rest.empty() ? "; all of its ranks called it" : rest);
}

// ---- one call of a lane

std::optional<Finding> judge_meeting(const Meeting& meeting) {
  Finding finding{.group = meeting.key->group, .sequence = meeting.sequence};
  bool open = false;
  for (std::size_t i = 0; i < meeting.parties.size(); ++i) {
    const Party& party = *meeting.parties[i];
    if (const RecordedCall* call = meeting.calls[i]) {
      const std::int64_t since = finding.calls.empty() ? call->start_ns : finding.time_ns;
      finding.time_ns = std::min(since, call->start_ns);
      finding.calls.push_back({party.rank, to_string(*call), call->state});
      open = open || call->state != State::kFinished;
    } else {
      const bool never = party.absence(meeting.sequence) == Party::Absence::kNeverCalled;
      (never ? finding.missing : finding.unknown).push_back(party.rank);
    }
  }
  if (const auto mismatch = mismatch_of(meeting.calls)) {
    finding.kind = Finding::Kind::kMismatch;
    finding.field = mismatch->field.substr(0, mismatch->field.find(':'));
    finding.odd = odd_one_of(meeting);
    finding.text = mismatch_text(meeting, *mismatch, finding.odd);
    return finding;
  }
  if (!finding.missing.empty()) {
    finding.kind = Finding::Kind::kNeverCalled;
    finding.text = never_text(meeting, finding);
    return finding;
  }
  if (!open) return std::nullopt;
  finding.kind = Finding::Kind::kUnfinished;
  finding.text = unfinished_text(meeting, finding);
  return finding;
}

// The first call with which something is wrong: what comes after it follows from it.
std::optional<Finding> judge_lane(const LaneKey& key, const Lane& lane) {
  Meeting meeting{.key = &key};
  std::vector<std::uint64_t> sequences;
  for (const Party& party : lane.parties) {
    meeting.parties.push_back(&party);
    for (const auto& [sequence, call] : party.calls) sequences.push_back(sequence);
  }
  std::sort(sequences.begin(), sequences.end());
  sequences.erase(std::unique(sequences.begin(), sequences.end()), sequences.end());
  for (const std::uint64_t sequence : sequences) {
    meeting.sequence = sequence;
    meeting.calls.clear();
    for (const Party& party : lane.parties) {
      const auto found = party.calls.find(sequence);
      meeting.calls.push_back(found == party.calls.end() ? nullptr : found->second);
    }
    if (auto finding = judge_meeting(meeting)) return finding;
  }
  return std::nullopt;
}

// ---- causes before what follows from them

bool waits_elsewhere(std::int64_t rank, const Finding& but, std::span<const Finding> findings) {
  return std::ranges::any_of(findings, [&](const Finding& other) {
    return &other != &but && std::ranges::any_of(other.calls, [&](const Finding::Call& call) {
      return call.rank == rank && call.state != State::kFinished;
    });
  });
}

int distance_from_cause(const Finding& finding, std::span<const Finding> findings) {
  switch (finding.kind) {
    case Finding::Kind::kMismatch:
      return 0;
    case Finding::Kind::kNeverCalled: {
      const bool follows = std::ranges::all_of(finding.missing, [&](std::int64_t rank) {
        return waits_elsewhere(rank, finding, findings);
      });
      return follows ? 1 : 0;
    }
    case Finding::Kind::kUnfinished:
      return finding.unknown.empty() ? 2 : 1;
    case Finding::Kind::kNotEnded:
      return 3;
  }
  return 3;
}

void sort_by_cause(std::vector<Finding>& findings) {
  std::vector<std::tuple<int, std::int64_t, std::size_t>> order;
  for (std::size_t i = 0; i < findings.size(); ++i) {
    order.emplace_back(distance_from_cause(findings[i], findings), findings[i].time_ns, i);
  }
  std::sort(order.begin(), order.end());
  std::vector<Finding> sorted;
  for (const auto& [distance, time, i] : order) sorted.push_back(std::move(findings[i]));
  findings = std::move(sorted);
}

// Ranks whose records just stop, and of which nothing has been said so far.
std::optional<Finding> find_not_ended(std::span<const RankRecords> records,
                                      std::span<const Finding> findings) {
  Finding finding{.kind = Finding::Kind::kNotEnded};
  for (const RankRecords& each : records) {
    if (each.end != flight::End::kOpen) continue;
    const bool named = std::ranges::any_of(findings, [&](const Finding& other) {
      return std::ranges::count(other.missing, each.rank) > 0 ||
             waits_elsewhere(each.rank, finding, {&other, 1});
    });
    if (named) continue;
    finding.missing.push_back(each.rank);
    finding.text += finding.text.empty() ? "" : "; ";
    finding.text +=
        "rank " + std::to_string(each.rank) + " was killed, or still runs: " + whereabouts(each);
  }
  if (finding.missing.empty()) return std::nullopt;
  return finding;
}

}  // namespace

std::string_view name_of(Finding::Kind kind) noexcept {
  constexpr std::string_view kNames[] = {"mismatch", "never_called", "unfinished", "not_ended"};
  return kNames[static_cast<int>(kind)];
}

std::string_view name_of(State state) noexcept {
  constexpr std::string_view kNames[] = {"started", "matched", "finished", "failed"};
  return kNames[static_cast<int>(state)];
}

const RecordedCall* last_call(const RankRecords& records) {
  if (records.calls.empty()) return nullptr;
  const auto open = std::find_if(records.calls.rbegin(), records.calls.rend(),
                                 [](const auto& call) { return call.state != State::kFinished; });
  return open == records.calls.rend() ? &records.calls.back() : &*open;
}

RecordsVerdict judge(std::span<const RankRecords> records) {
  RecordsVerdict verdict{.world_size = records.front().world_size};
  for (const RankRecords& each : records) {
    verdict.present.push_back(each.rank);
    if (each.end == flight::End::kFailed) {
      verdict.failures.push_back({each.rank, each.failure, each.end_ns});
    }
    const RecordedCall* last = last_call(each);
    verdict.last_calls.push_back({.rank = each.rank,
                                  .call = last == nullptr ? "" : to_string(*last),
                                  .state = last == nullptr ? State::kStarted : last->state,
                                  .end = each.end,
                                  .torn = each.torn_ticket.has_value()});
  }
  for (std::int64_t rank = 0; rank < verdict.world_size; ++rank) {
    if (!std::ranges::binary_search(verdict.present, rank)) verdict.missing.push_back(rank);
  }
  std::ranges::stable_sort(verdict.failures, {}, &RecordsVerdict::Failure::time_ns);
  const Lanes lanes(records);
  for (const auto& [key, lane] : lanes.all()) {
    if (auto finding = judge_lane(key, lane)) verdict.findings.push_back(*std::move(finding));
  }
  if (auto finding = find_not_ended(records, verdict.findings)) {
    verdict.findings.push_back(*std::move(finding));
  }
  sort_by_cause(verdict.findings);
  return verdict;
}

}  // namespace tessera
