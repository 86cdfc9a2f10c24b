#include "runtime/call/signature.h"

#include <string_view>

#include "absl/strings/str_format.h"

namespace tessera {
namespace {

using Kind = CollectiveCall::Kind;

// Null where the two calls agree.
const char* differing_field(const Signature& a, const Signature& b) {
  const bool pair = is_message(a.kind) && is_message(b.kind);
  if (a.kind != b.kind && !pair) return "kind";
  if (a.kind == Kind::kBarrier) return nullptr;
  if (a.device.kind != b.device.kind) return "device";
  if (a.dtype != b.dtype) return "dtype";
  if (a.kind != Kind::kExchange && a.shape != b.shape) return "shape";
  if (a.fold != b.fold || a.reduce != b.reduce) return "reduce op";
  if (!pair && a.root != b.root) return "root";
  if (a.kind == Kind::kAllGather && a.recv_splits != b.recv_splits) return "rows";
  if (a.kind == Kind::kReduceScatter && a.send_splits != b.send_splits) return "rows";
  if (a.extra != b.extra) return "plan";
  if (!a.tensor.empty() && !b.tensor.empty() && a.tensor != b.tensor) return "tensor";
  if (!a.axes.empty() && !b.axes.empty() && a.axes != b.axes) return "axes";
  return nullptr;
}

// What the parts after the first have to agree in.
std::uint64_t hash_of(std::span<const ExchangePart> parts) {
  std::uint64_t hash = 0;
  for (const ExchangePart& part : parts) {
    const auto reduce =
        static_cast<std::uint64_t>(part.boxes->fold ? part.boxes->reduce : ReduceOp{});
    const auto dtype = static_cast<std::uint64_t>(dtype_of(part));
    hash = hash * 0x9e3779b97f4a7c15U + 1 +
           (reduce << 8 | dtype << 1 | std::uint64_t{part.boxes->fold});
  }
  return hash;
}

// What ranks' lists have to agree in.
std::uint64_t hash_of(const PeerRows& rows, DType tokens) {
  std::uint64_t hash = static_cast<std::uint64_t>(rows.way);
  for (const std::int64_t each :
       {rows.place_TK.size(1), rows.copies, std::int64_t{rows.weights_TK.is_null()},
        static_cast<std::int64_t>(tokens)}) {
    hash = hash * 0x9e3779b97f4a7c15U + 1 + static_cast<std::uint64_t>(each);
  }
  for (const std::int64_t each : rows.buffer_rows) {
    hash = hash * 0x9e3779b97f4a7c15U + 1 + static_cast<std::uint64_t>(each);
  }
  return hash;
}

}  // namespace

Signature make_signature(CollectiveCall& call, const CallInfo& info, std::uint64_t sequence) {
  Signature signature;
  signature.kind = call.kind();
  signature.sequence = sequence;
  signature.site = info.site;
  signature.tensor = info.tensor;
  signature.axes = info.axes;
  if (call.kind() == Kind::kBarrier) return signature;
  signature.device = device_of(call).id();
  signature.root = call.root();
  signature.extra = call.signature_extra;
  if (call.kind() == Kind::kExchange) {
    const ExchangePart& first = call.parts().front();
    const Array& array = first.in.is_null() ? first.out : first.in;
    signature.dtype = array.dtype();
    signature.shape = array.shape();
    signature.fold = first.boxes->fold;
    signature.reduce = first.boxes->fold ? first.boxes->reduce : ReduceOp::kSum;
    signature.extra += hash_of(call.parts().subspan(1));
    return signature;
  }
  if (call.kind() == Kind::kPeerRows) {
    const Array& buffer = peer_buffer(call);
    signature.dtype = buffer.dtype();
    signature.shape = row_shape(buffer);
    signature.extra += hash_of(*call.as<PeerRowsCall>().rows, peer_tokens(call).dtype());
    return signature;
  }
  const Array& array =
      call.kind() == Kind::kRecv || call.kind() == Kind::kBroadcast ? call.out() : call.in();
  signature.dtype = array.dtype();
  signature.shape = call.kind() == Kind::kAllGather || call.kind() == Kind::kAllToAll
                        ? row_shape(array)
                        : array.shape();
  const bool reduces = call.kind() == Kind::kAllReduce || call.kind() == Kind::kReduceScatter;
  signature.reduce = reduces ? call.reduce() : ReduceOp::kSum;
  signature.fold = reduces;
  if (auto* gather = std::get_if<AllGatherCall>(&call.of)) {
    signature.recv_splits = std::move(gather->rows);
  } else if (auto* scatter = std::get_if<ReduceScatterCall>(&call.of)) {
    signature.send_splits = std::move(scatter->rows);
  } else if (auto* exchange = std::get_if<AllToAllCall>(&call.of)) {
    signature.send_splits = std::move(exchange->send_splits);
    signature.recv_splits = std::move(exchange->recv_splits);
  }
  return signature;
}

std::string to_string(const CallSite& site) {
  std::string_view path = site.file;
  std::size_t cut = path.rfind('/');
  if (cut != std::string_view::npos && cut > 0) cut = path.rfind('/', cut - 1);
  if (cut != std::string_view::npos) path.remove_prefix(cut + 1);
  return std::string(path) + ":" + std::to_string(site.line);
}

std::string to_string(const Signature& call) {
  return call_text(call) + " (" + to_string(call.site) + ")";
}

std::string call_text(const Signature& call) {
  std::string text = std::string(name_of(call.kind)) + " #" + std::to_string(call.sequence);
  if (call.kind == Kind::kSend) text += " to group rank " + std::to_string(call.root);
  if (call.kind == Kind::kRecv) text += " from group rank " + std::to_string(call.root);
  if (call.kind != Kind::kBarrier) {
    const bool rows = call.kind == Kind::kAllGather || call.kind == Kind::kAllToAll ||
                      call.kind == Kind::kPeerRows;
    text +=
        " of " + std::string(name_of(call.dtype)) + (rows ? " rows " : " ") + to_string(call.shape);
  }
  if (call.device.kind != DeviceId::Kind::kCpu) text += " on " + to_string(call.device);
  if (call.fold) text += " by " + std::string(name_of(call.reduce));
  if (call.kind == Kind::kBroadcast) text += " from group rank " + std::to_string(call.root);
  // A record may have had no room for splits.
  if (call.kind == Kind::kReduceScatter && !call.send_splits.empty()) {
    text += ", rows kept " + to_string(ShapeView(call.send_splits));
  }
  if (call.kind == Kind::kAllGather && !call.recv_splits.empty()) {
    text += ", row counts " + to_string(ShapeView(call.recv_splits));
  }
  if (call.kind == Kind::kAllToAll && !call.send_splits.empty()) {
    text += ", send_splits " + to_string(ShapeView(call.send_splits)) + ", recv_splits " +
            to_string(ShapeView(call.recv_splits));
  }
  if (!call.tensor.empty()) text += ", tensor " + call.tensor;
  if (!call.axes.empty()) text += ", axes " + call.axes;
  return text;
}

std::optional<Mismatch> find_mismatch(std::span<const Signature* const> calls) {
  const int size = static_cast<int>(calls.size());
  const auto at = [&](int i) { return calls[static_cast<std::size_t>(i)]; };
  int first = 0;
  while (first < size && at(first) == nullptr) ++first;
  for (int i = first + 1; i < size; ++i) {
    if (at(i) == nullptr) continue;
    const char* field = differing_field(*at(first), *at(i));
    if (field != nullptr) return Mismatch{first, i, field};
  }
  if (first == size || at(first)->kind != Kind::kAllToAll) return std::nullopt;
  for (int i = 0; i < size; ++i) {
    if (at(i) == nullptr || std::ssize(at(i)->send_splits) != size) continue;
    for (int j = 0; j < size; ++j) {
      if (at(j) == nullptr || std::ssize(at(j)->recv_splits) != size) continue;
      const std::int64_t sent = at(i)->send_splits[static_cast<std::size_t>(j)];
      const std::int64_t expected = at(j)->recv_splits[static_cast<std::size_t>(i)];
      if (sent == expected) continue;
      return Mismatch{i, j,
                      absl::StrFormat("splits: group rank %d sends %d rows to group rank %d, which "
                                      "expects %d",
                                      i, sent, j, expected)};
    }
  }
  return std::nullopt;
}

Status compare_calls(std::span<const Signature* const> calls, std::span<const std::int64_t> ranks) {
  const std::optional<Mismatch> mismatch = find_mismatch(calls);
  if (!mismatch) return absl::OkStatus();
  const auto call_of = [&](int party) {
    return "rank " + std::to_string(ranks[static_cast<std::size_t>(party)]) + " calls " +
           to_string(*calls[static_cast<std::size_t>(party)]);
  };
  return failed_precondition("collective mismatch (" + mismatch->field +
                             "): " + call_of(mismatch->first) + ", " + call_of(mismatch->second) +
                             " [group of ranks " + to_string(ranks) + "]");
}

std::string list_ranks(std::span<const std::int64_t> ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  }
  return ranks.empty() ? "none" : text;
}

}  // namespace tessera
