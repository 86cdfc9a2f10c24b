#include "strategies/rules/host_reads.h"

#include <algorithm>

namespace tessera {

std::span<const HostReadingOp> host_reads() {
  constexpr std::string_view kCut = "rows or weights are cut";
  static constexpr HostReadingOp kReads[] = {{"embedding_bag", "offsets"},
                                             {"grouped_mm", "counts", kCut},
                                             {"grouped_mm_input_grad", "counts", kCut},
                                             {"grouped_mm_slots", "counts"},
                                             {"grouped_mm_slots_weight_grad", "counts"},
                                             {"grouped_mm_weight_grad", "counts", "rows are cut"},
                                             {"masked_scatter", "mask"},
                                             {"masked_scatter_", "mask"},
                                             {"masked_scatter_backward", "mask"},
                                             {"multinomial", "self"},
                                             {"offset2bag", "offsets"},
                                             {"repeat_interleave_tensor", "repeats"}};
  return kReads;
}

const HostReadingOp* host_read_of(std::string_view op) {
  const std::span<const HostReadingOp> reads = host_reads();
  const auto found = std::ranges::find(reads, op, &HostReadingOp::op);
  return found == reads.end() ? nullptr : &*found;
}

std::string devices_text(std::string_view op) {
  constexpr char kEverywhere[] = "cpu, cuda, emulated";
  const HostReadingOp* read = host_read_of(op);
  if (read == nullptr) return kEverywhere;
  const std::string only = "cpu only: reads " + std::string(read->operands);
  if (read->where.empty()) return only;
  return std::string(kEverywhere) + "; where " + std::string(read->where) + ' ' + only;
}

}  // namespace tessera
