#include "runtime/mpi/signature_exchange.h"

#include <algorithm>
#include <cstring>

#include "runtime/call/signature_wire.h"

namespace tessera {
namespace {

std::uint32_t length_of(const std::string& message) {
  std::uint32_t length = 0;
  std::memcpy(&length, message.data(), sizeof length);
  return length;
}

std::byte* bytes_of(std::string& text) { return reinterpret_cast<std::byte*>(text.data()); }

}  // namespace

SignatureExchange::SignatureExchange(const MpiLink& link, SignatureParties parties,
                                     const Signature& own)
    : parties_(std::move(parties)), own_(sizeof(std::uint32_t), '\0') {
  write_signature(own, own_);
  const auto length = static_cast<std::uint32_t>(own_.size());
  std::memcpy(own_.data(), &length, sizeof length);
  received_.resize(parties_.ranks.size());
  for (std::size_t i = 0; i < received_.size(); ++i) {
    if (i == parties_.self) continue;
    received_[i].resize(kFirstBytes);
    messages_.recv_up_to(link, {parties_.ranks[i], parties_.recv_tag}, bytes_of(received_[i]),
                         static_cast<std::int64_t>(kFirstBytes));
  }
  for (std::size_t i = 0; i < received_.size(); ++i) {
    if (i == parties_.self) continue;
    const Messages::Address to{parties_.ranks[i], parties_.send_tag};
    const auto first = static_cast<std::int64_t>(std::min(own_.size(), kFirstBytes));
    messages_.send(link, to, bytes_of(own_), first, first);
    const auto rest = static_cast<std::int64_t>(own_.size()) - first;
    if (rest > 0) messages_.send(link, to, bytes_of(own_) + first, rest, rest);
  }
}

bool SignatureExchange::advance(const MpiLink& link) {
  if (!messages_.done()) return false;
  if (has_rest_) return true;
  has_rest_ = true;
  for (std::size_t i = 0; i < received_.size(); ++i) {
    if (i == parties_.self) continue;
    const std::size_t length = length_of(received_[i]);
    received_[i].resize(length);
    if (length <= kFirstBytes) continue;
    const auto rest = static_cast<std::int64_t>(length - kFirstBytes);
    messages_.recv(link, {parties_.ranks[i], parties_.recv_tag},
                   bytes_of(received_[i]) + kFirstBytes, rest, rest);
  }
  return messages_.done();
}

Status SignatureExchange::verdict(const Signature& own, std::set<std::string>& files) const {
  std::vector<Signature> peers(received_.size());
  std::vector<const Signature*> calls(received_.size(), &own);
  for (std::size_t i = 0; i < received_.size(); ++i) {
    if (i == parties_.self) continue;
    const auto text = std::span(received_[i]).subspan(sizeof(std::uint32_t));
    TSR_ASSIGN_OR_RETURN(peers[i], read_signature(text, files));
    calls[i] = &peers[i];
  }
  return compare_calls(calls, parties_.ranks);
}

}  // namespace tessera
