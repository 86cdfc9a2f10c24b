// capture/capture.h: what DTensor code does on one rank, as a Program: its ops, moves, regions,
// host reads and the ends of its values, in order, autograd's included. The code runs; on a
// simulated world with shapes_device() it runs on shapes alone.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "dtensor/runtime.h"
#include "placement/api.h"
#include "program/program.h"

namespace tessera TSR_API {

class DTensor;
class ProgramRecorder;

/// Observes a Runtime from its making to finish(). Collectives and host reads that its log tells of
/// are in the program, in order: those of a step as its moves, others as regions of their own. So
/// the log must keep its events, and not be cleared. `total` of moves that no plan tells of counts
/// every rank of the mesh as receiving what this one does.
class Capture {
 public:
  /// Throws Error(FailedPrecondition) where the Runtime is observed already.
  Capture(Runtime& runtime, std::string name);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  /// A tensor that is there before the first step. What no one declares is an input where it holds
  /// integers, a parameter where it is a leaf that needs a gradient, else a buffer.
  void declare(const DTensor& tensor, ValueRole role, const std::string& name,
               const std::string& module = {});
  /// What the program calls a tensor that it has met, or meets hereby.
  std::string name_of(const DTensor& tensor);
  /// The program so far; its source is {"program"}. Once.
  Program finish();

 private:
  std::unique_ptr<ProgramRecorder> recorder_;
};

/// The program of what `body` does. Errors: those that it throws.
StatusOr<Program> capture(Runtime& runtime, const std::string& name,
                          const std::function<void()>& body);

}  // namespace tessera
