// runtime/call/signature_wire.h: signatures as bytes, for ranks that share no memory.
#pragma once

#include <set>
#include <span>
#include <string>

#include "placement/api.h"
#include "runtime/call/signature.h"

namespace tessera TSR_API {

/// Appends the signature to `bytes`.
void write_signature(const Signature& signature, std::string& bytes);

/// `files` keeps the names of source files, which signatures point to. Errors: DataLoss for bytes
/// that are no signature.
StatusOr<Signature> read_signature(std::span<const char> bytes, std::set<std::string>& files);

}  // namespace tessera
