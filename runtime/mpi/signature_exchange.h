// runtime/mpi/signature_exchange.h: in checked mode every party of a call sends its signature to
// all others before data move: one round, after which all know the same and judge alike.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/call/signature.h"
#include "runtime/mpi/link.h"

namespace tessera {

/// Where one rank sends its signature, and where it gets the others' from.
struct SignatureParties {
  std::vector<std::int64_t> ranks;  ///< of the link's communicator, in the order of the comparison
  std::size_t self = 0;
  int send_tag = 0;
  int recv_tag = 0;
};

class SignatureExchange {
 public:
  SignatureExchange(const MpiLink& link, SignatureParties parties, const Signature& own);

  /// True once all signatures are here; never blocks. Throws Error.
  bool advance(const MpiLink& link);
  /// Requires advance() to have been true. Not OK where two calls differ.
  Status verdict(const Signature& own, std::set<std::string>& files) const;
  void abandon() noexcept { messages_.abandon(); }

 private:
  // Most signatures fit one message of this size; the rest of longer ones follows.
  static constexpr std::size_t kFirstBytes = 1024;

  SignatureParties parties_;
  std::string own_;                    ///< 4 bytes of length, then the signature
  std::vector<std::string> received_;  ///< by party; the same form
  Messages messages_;
  bool has_rest_ = false;
};

}  // namespace tessera
