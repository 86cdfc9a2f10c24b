// runtime/call/signature.h: what a prepared call says about itself, in texts and events, and
// against what the other ranks' say. All backends use these.
#pragma once

#include <cstdint>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "placement/api.h"
#include "runtime/call/communicator.h"
#include "runtime/call/prepared_call.h"

namespace tessera TSR_API {

/// Where a call stands in the source. The file's name outlives every signature.
struct CallSite {
  CallSite() = default;
  CallSite(const std::source_location& at) : file(at.file_name()), line(at.line()) {}
  CallSite(const char* file_name, std::uint32_t line_number) : file(file_name), line(line_number) {}
  const char* file = "";
  std::uint32_t line = 0;
};

/// Everything of a call that ranks compare, without its data.
struct Signature {
  CollectiveCall::Kind kind = CollectiveCall::Kind::kBarrier;
  std::uint64_t sequence = 0;
  DType dtype = DType::kF32;
  Shape shape;  ///< of `in`; rows apart where ranks may differ in them; of `out` for kRecv; of an
                ///< exchange's first part, not compared
  ReduceOp reduce = ReduceOp::kSum;
  int root = 0;
  bool fold = false;
  std::vector<std::int64_t> send_splits;
  std::vector<std::int64_t> recv_splits;
  std::uint64_t extra = 0;
  std::string tensor;
  std::string axes;
  CallSite site;
  DeviceId device;  ///< where the arrays lie: one kind on all ranks
};
/// Takes the call's splits along. Requires a prepared call.
Signature make_signature(CollectiveCall& call, const CallInfo& info, std::uint64_t sequence);

/// "all_reduce #3 of F32 [8] by sum, tensor w, axes tp (tests/x.cc:10)"
std::string to_string(const Signature& signature);
/// The same without its place in the source.
std::string call_text(const Signature& signature);
/// "runtime/world.cc:12": the last two parts of the path, and the line.
std::string to_string(const CallSite& site);

/// "collective mismatch (dtype): rank 0 calls …, rank 2 calls … [group of ranks [0, 2]]", or OK.
/// `ranks`: world ranks of the calls.
Status compare_calls(std::span<const Signature* const> calls, std::span<const std::int64_t> ranks);

/// Two ranks' calls that cannot be the same collective, and in what.
struct Mismatch {
  int first = 0;
  int second = 0;
  std::string field;
};
/// The first mismatch among the calls of a group's ranks, by group rank; null where a call is not
/// known. Send and recv stand as the pair (sender, receiver).
std::optional<Mismatch> find_mismatch(std::span<const Signature* const> calls);

/// A prepared call's event: that of the kind, with "_v" where splits were given.
std::string_view event_name(const CollectiveCall& call) noexcept;

/// What a prepared call logs when it is over; nullopt where nothing goes to or comes from another
/// rank.
std::optional<Event> make_event(const CollectiveCall& call, const CallInfo& info,
                                const Traffic& traffic);

/// "ranks 0, 1", "rank 2", "none"
std::string list_ranks(std::span<const std::int64_t> ranks);

}  // namespace tessera
