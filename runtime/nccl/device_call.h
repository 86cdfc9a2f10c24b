// runtime/nccl/device_call.h: what a device gets of one call: packing, NCCL's calls, folds and
// landing, one after another on the stream of a communicator.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "kernels/fold.h"
#include "runtime/call/prepared_call.h"
#include "runtime/call/signature.h"
#include "runtime/device/box_rounds.h"
#include "runtime/device/device_boxes.h"
#include "runtime/device/device_side.h"
#include "runtime/nccl/link.h"
#include "runtime/nccl/windows.h"
#include "runtime/world.h"

namespace tessera::nccl::TSR_CUDA {

/// What NCCL calls a reduction that it forms by itself; its NaN may lose a max or min.
struct NativeReduction {
  ncclDataType_t type;
  ncclRedOp_t op;
};

/// Told in place of bytes where boxes take several rounds: all ranks' go as messages.
inline constexpr std::int64_t kNoRoom = -1;

/// What a device gets of one call. Peers are ranks of the link, which are those of the group.
class DeviceCall {
 public:
  /// What it is given comes after what the compute stream holds now, and after nothing later: calls
  /// of other groups may get their turns in another order on another rank.
  DeviceCall(const CollectiveCall& call, const Signature& signature, const GroupPlace& group,
             Link& link, ReduceBy reduce);

  /// What a peer has to be told before this call goes through windows: of kPeerRows, the rows of
  /// this rank's buffer; of kExchange, the bytes that come for this rank, and where among them
  /// those of the peer begin.
  std::vector<std::int64_t> told_to(int peer) const;
  /// Before give(), where windows have room. `told`: by rank, what each peer has told of windows:
  /// the rows of its buffer, or where this rank's boxes begin.
  void reach(PeerWindow& window, std::vector<std::int64_t> told) {
    window_ = &window;
    told_ = std::move(told);
  }
  /// Gives the device all of it.
  void give();
  /// NCCL forms the sum: see ReduceBy.
  bool reduces_natively() const noexcept { return native_.has_value(); }
  /// Whether the device has done it.
  bool is_done() { return side_->is_done(); }
  /// What the compute stream is given from now on comes after it.
  void finish() { side_->finish(); }

 private:
  std::int64_t buffer_bytes() const;
  void all_reduce();
  void all_gather();
  void reduce_scatter();
  void all_to_all();
  void broadcast();
  void pair();
  void exchange();
  void put_boxes();
  void reduce_natively();
  /// Folds this rank's slice of all ranks' `in` to `out`, in rounds that the buffer holds.
  void fold_slices(std::byte* out);
  std::int64_t element() const { return size_of(signature_.dtype); }
  Fold how() const { return fold_by(call_.reduce(), call_.divisor()); }

  const CollectiveCall& call_;
  const Signature& signature_;
  GroupPlace group_;
  Link& link_;
  std::optional<NativeReduction> native_;
  // Of a reduction that is folded by slices.
  std::vector<Slice> slices_;        ///< by rank
  std::int64_t longest_ = 0;         ///< of them; units: elements, as below
  std::int64_t round_elements_ = 0;  ///< of each summand at a time, as what a call may have holds
  std::optional<DeviceBoxes> boxes_;
  std::optional<BoxRounds> rounds_;  ///< of an exchange that takes several
  PeerWindow* window_ = nullptr;     ///< null: messages
  std::vector<std::int64_t> told_;   ///< by rank
  std::unique_ptr<DeviceSide> side_;
};

}  // namespace tessera::nccl::TSR_CUDA
