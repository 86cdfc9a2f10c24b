// runtime/call/communicator.h: collectives among the ranks of one group, on one small interface.
// Each call carries a signature that ranks compare first, so a mismatch is an error on every rank,
// never a hang.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/array.h"
#include "placement/api.h"
#include "placement/plan.h"
#include "runtime/call/event.h"

namespace tessera TSR_API {

/// An asynchronous collective. It owns what it needs; the source must not be written before wait().
/// A Work that is dropped unfinished is finished by its rank's later waits, at the latest when the
/// rank's body returns.
class Work : public Ready {
 public:
  /// Finishes the call (on threads and MPI progress happens here). Throws Error: FailedPrecondition
  /// for a mismatched signature (naming both sides), for a rank that returned without joining, or
  /// where no rank can go on; Unavailable where a rank failed; DeadlineExceeded past the timeout,
  /// naming who arrived and who did not.
  void wait() override = 0;
  /// Bytes that this rank receives from others.
  virtual std::int64_t bytes_received() const = 0;
};

/// Whether a call that moves bytes leaves an event.
enum class CallLog : std::uint8_t { kYes, kNo };

/// What a call says about itself. Tensor name and axes are compared between ranks where both state
/// them; the texts are copied, so they need not outlive the call.
struct CallInfo {
  std::string_view tensor = {};
  std::string_view axes = {};  ///< labels of the mesh axes, for events and errors: "tp", "dp,tp"
  /// Zero: the World's default. Negative: for ever.
  std::chrono::milliseconds timeout{0};
  std::source_location site = std::source_location::current();
  std::string_view event = {};  ///< name of the event; empty: that of the kind ("all_to_all_v")
  Origin origin = Origin::kExplicit;
  std::string_view why = {};    ///< of an implicit call: op, operand and row
  CallLog log = CallLog::kYes;  ///< kNo: a report about the run, no part of it
};

/// Most bytes of a rank's buffers for packed messages, those received included, where a call states
/// no other; the same on all ranks. At least least_pack_bytes(size()).
inline constexpr std::int64_t kPackBytes = std::int64_t{64} << 20;

class Landing;

/// The boxes of one tensor in an exchange, as one rank sees them; peers are group ranks. Made once
/// and shared by all calls that move alike.
struct ExchangeBoxes {
  std::vector<Transfer> into;   ///< read, own included, ascending by contributor
  std::vector<Transfer> from;   ///< sent, own included; those for one peer in its order of `into`
  std::vector<Shape> cut_from;  ///< shape of the array that each box of `into` is cut from
  bool fold = false;            ///< boxes are summands to be folded by `reduce`, in order
  ReduceOp reduce = ReduceOp::kSum;
  std::int64_t divisor = 1;  ///< what kAvg divides by
  /// The boxes prepared for a backend that reads its peers' arrays; null: it prepares them itself.
  std::shared_ptr<const Landing> landing = {};
};
/// One tensor of an exchange. Every rank of the group has the parts in the same order.
struct ExchangePart {
  Array in;   ///< null where this rank gives nothing
  Array out;  ///< null where it takes nothing. May be `in`: then no box lands where another is cut
  std::shared_ptr<const ExchangeBoxes> boxes;
};

/// Rows that go one by one between this rank's memory and that of the group's other ranks, as its
/// list says; nothing is packed, and no rank waits for counts. kernels/peer_rows.h has the
/// arithmetic. Each rank has a buffer [R, D], R its own, of one dtype and D on all.
struct PeerRows {
  enum class Way : std::uint8_t {
    kPut,  ///< this rank's tokens go into others' buffers: `in` [T, D], `out` its own buffer. Rows
           ///< that nobody puts keep what they hold. No two ranks put one row
    kSum,  ///< each of its tokens gets a sum of rows of others' buffers: `in` its own, `out` [T, D]
    kDot   ///< products of its tokens with such rows: `in` its buffer, `out` [T, K]
  };
  Way way = Way::kPut;
  Array place_TK;         ///< I64, kernels::peer_place() of group rank and row; −1: none
  Array weights_TK = {};  ///< of kPut and kSum; null: all 1
  Array tokens_TD = {};   ///< of kDot
  /// So many group ranks, from the one that a place names on, have the row alike; of what is read
  /// their rows are summands.
  std::int64_t copies = 1;
  /// Rows of each rank's buffer, by group rank, where the caller knows them: the same list on all
  /// ranks. Empty: a backend that has to know asks the ranks.
  std::vector<std::int64_t> buffer_rows = {};
  /// By group rank, for events and traces: rows of this rank's tokens that lie in each buffer, and
  /// rows of its own buffer that belong to each rank's tokens. Empty where that is not known on the
  /// host: then events count as many as there can be, spread evenly.
  std::vector<std::int64_t> rows_of_tokens = {}, rows_of_buffer = {};
};
std::string_view name_of(PeerRows::Way way) noexcept;

// One struct for each kind of call. Rows and splits that are left out are even ones; prepare()
// fills them in.

struct BarrierCall {};
struct AllReduceCall {
  Array in, out;
  ReduceOp reduce = ReduceOp::kSum;
  std::int64_t divisor = 0;  ///< what kAvg divides by; 0: the group's size
  std::int64_t pack_bytes = kPackBytes;
};
struct AllGatherCall {
  Array in, out;
  std::vector<std::int64_t> rows = {};  ///< from each rank
};
struct ReduceScatterCall {
  Array in, out;
  ReduceOp reduce = ReduceOp::kSum;
  std::vector<std::int64_t> rows = {};  ///< that each rank keeps
  std::int64_t divisor = 0;
  std::int64_t pack_bytes = kPackBytes;
};
struct AllToAllCall {
  Array in, out;
  std::vector<std::int64_t> send_splits = {};  ///< rows of dim 0 to each rank
  std::vector<std::int64_t> recv_splits = {};  ///< and from each
};
struct BroadcastCall {
  Array in_out;
  int root = 0;
};
struct SendCall {
  Array in;
  int to = 0;
};
struct RecvCall {
  Array out;
  int from = 0;
};
struct ExchangeCall {
  std::vector<ExchangePart> parts;  ///< one for each tensor
  std::int64_t pack_bytes = kPackBytes;
};
struct PeerRowsCall {
  Array in, out;
  /// Apart: every pending call is as large as the largest kind, and blocks beyond 1 KiB are slow to
  /// come by.
  std::shared_ptr<const PeerRows> rows;
};

/// Any of them.
struct CollectiveCall {
  enum class Kind : std::uint8_t {
    kBarrier,
    kAllReduce,
    kAllGather,
    kReduceScatter,
    kAllToAll,
    kBroadcast,
    kSend,
    kRecv,
    kExchange,
    kPeerRows
  };
  static constexpr Kind kLastKind = Kind::kPeerRows;
  /// In the order of Kind.
  std::variant<BarrierCall, AllReduceCall, AllGatherCall, ReduceScatterCall, AllToAllCall,
               BroadcastCall, SendCall, RecvCall, ExchangeCall, PeerRowsCall>
      of = {};
  std::uint64_t signature_extra = 0;  ///< further fields that must agree (a plan's hash)
  bool ragged = false;                ///< prepare() notes that rows or splits were given

  Kind kind() const noexcept { return static_cast<Kind>(of.index()); }
  template <class Call>
  Call& as() {
    return std::get<Call>(of);
  }
  template <class Call>
  const Call& as() const {
    return std::get<Call>(of);
  }

  // What several kinds have, for code that is the same for them.

  /// The array that is read, and the one that is written: null where the kind has none; of a
  /// broadcast only the latter.
  const Array& in() const noexcept;
  const Array& out() const noexcept;
  /// Of a reduction; else a sum.
  ReduceOp reduce() const noexcept;
  std::int64_t divisor() const noexcept;
  /// Root of a broadcast, or the peer of a message.
  int root() const noexcept;
  /// Of an exchange; none of others.
  std::span<const ExchangePart> parts() const noexcept;
  /// Of a reduction or an exchange.
  std::int64_t pack_bytes() const noexcept;
};
// Here, for a call asks a dozen times.
namespace internal {
const Array& null_array() noexcept;
}
inline const Array& CollectiveCall::in() const noexcept {
  switch (kind()) {
    case Kind::kAllReduce:
      return std::get_if<AllReduceCall>(&of)->in;
    case Kind::kAllGather:
      return std::get_if<AllGatherCall>(&of)->in;
    case Kind::kReduceScatter:
      return std::get_if<ReduceScatterCall>(&of)->in;
    case Kind::kAllToAll:
      return std::get_if<AllToAllCall>(&of)->in;
    case Kind::kSend:
      return std::get_if<SendCall>(&of)->in;
    case Kind::kPeerRows:
      return std::get_if<PeerRowsCall>(&of)->in;
    case Kind::kBarrier:
    case Kind::kBroadcast:
    case Kind::kRecv:
    case Kind::kExchange:
      break;
  }
  return internal::null_array();
}
inline const Array& CollectiveCall::out() const noexcept {
  switch (kind()) {
    case Kind::kAllReduce:
      return std::get_if<AllReduceCall>(&of)->out;
    case Kind::kAllGather:
      return std::get_if<AllGatherCall>(&of)->out;
    case Kind::kReduceScatter:
      return std::get_if<ReduceScatterCall>(&of)->out;
    case Kind::kAllToAll:
      return std::get_if<AllToAllCall>(&of)->out;
    case Kind::kBroadcast:
      return std::get_if<BroadcastCall>(&of)->in_out;
    case Kind::kRecv:
      return std::get_if<RecvCall>(&of)->out;
    case Kind::kPeerRows:
      return std::get_if<PeerRowsCall>(&of)->out;
    case Kind::kBarrier:
    case Kind::kSend:
    case Kind::kExchange:
      break;
  }
  return internal::null_array();
}
std::string_view name_of(CollectiveCall::Kind kind) noexcept;
/// Whether the call is between two ranks.
constexpr bool is_message(CollectiveCall::Kind kind) noexcept {
  return kind == CollectiveCall::Kind::kSend || kind == CollectiveCall::Kind::kRecv;
}

/// One rank's end of a group. Calls of one group come in the same order on all its ranks; send and
/// recv are ordered per pair and direction, apart from the rest. A call that moves bytes to or from
/// another rank adds one kCollective event to its World's log by itself. Thread-safety: used by its
/// own rank thread only.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const noexcept = 0;  ///< position in the group
  virtual int size() const noexcept = 0;
  virtual std::int64_t world_rank(int group_rank) const = 0;
  /// Whether all its ranks read or write each other's memory, as peer_rows_async() needs: the same
  /// on all of them.
  virtual bool reaches_peers() const noexcept { return false; }
  /// Why it does not, where the backend can say: "NCCL 2.27.3 is there, …". The same on all.
  virtual std::string why_unreached() const { return {}; }
  /// Begins a call; arrays are contiguous. Sums of BF16 accumulate in F32; folds go in order of
  /// group rank, so results repeat bit for bit and are equal on all ranks. NaN wins max and min;
  /// BOOL sums are "or"; avg needs a floating type. Errors: throws InvalidArgument where the arrays
  /// do not fit the call, Unavailable after a failure.
  virtual std::shared_ptr<Work> start(CollectiveCall call, const CallInfo& info) = 0;

  /// Shapes: `in` and `out` equal; may be the same array. Cost: 2(p−1)/p of the bytes.
  std::shared_ptr<Work> all_reduce_async(const Array& in, const Array& out, ReduceOp op,
                                         const CallInfo& info = {});
  /// Rows (dim 0) of every rank one after another; `rows` per rank, or equal ones where empty. `in`
  /// may be this rank's own rows of `out`.
  std::shared_ptr<Work> all_gather_async(const Array& in, const Array& out,
                                         std::span<const std::int64_t> rows = {},
                                         const CallInfo& info = {});
  /// Reduces `in` and keeps this rank's `rows[rank()]` rows. `out` may be these rows of `in`.
  std::shared_ptr<Work> reduce_scatter_async(const Array& in, const Array& out, ReduceOp op,
                                             std::span<const std::int64_t> rows = {},
                                             const CallInfo& info = {});
  /// Sends consecutive rows of `in` by send_splits; rows from rank 0, 1, … land in `out` by
  /// recv_splits.
  std::shared_ptr<Work> all_to_all_async(const Array& in, const Array& out,
                                         std::span<const std::int64_t> send_splits,
                                         std::span<const std::int64_t> recv_splits,
                                         const CallInfo& info = {});
  /// Errors: Unimplemented where the ranks do not reach each other's memory.
  std::shared_ptr<Work> peer_rows_async(PeerRows rows, const Array& in, const Array& out,
                                        const CallInfo& info = {});
  std::shared_ptr<Work> broadcast_async(const Array& in_out, int root, const CallInfo& info = {});
  /// The n-th send to a rank meets its n-th recv from this one, whatever else goes on.
  std::shared_ptr<Work> send_async(const Array& in, int to, const CallInfo& info = {});
  std::shared_ptr<Work> recv_async(const Array& out, int from, const CallInfo& info = {});

  // The same, finished on return.
  void all_reduce(const Array& in, const Array& out, ReduceOp op, const CallInfo& info = {});
  void all_gather(const Array& in, const Array& out, std::span<const std::int64_t> rows = {},
                  const CallInfo& info = {});
  void reduce_scatter(const Array& in, const Array& out, ReduceOp op,
                      std::span<const std::int64_t> rows = {}, const CallInfo& info = {});
  void all_to_all(const Array& in, const Array& out, std::span<const std::int64_t> send_splits,
                  std::span<const std::int64_t> recv_splits, const CallInfo& info = {});
  void broadcast(const Array& in_out, int root, const CallInfo& info = {});
  void send(const Array& in, int to, const CallInfo& info = {});
  void recv(const Array& out, int from, const CallInfo& info = {});
  void barrier(const CallInfo& info = {});
};

}  // namespace tessera
