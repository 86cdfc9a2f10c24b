// The processor's table. It enters the program with the symbol at the end, for which the library of
// these kernels has every program that links it look; no other source names it.
#include "kernels/kernel_table.h"

namespace tessera::kernels {
namespace {

constexpr KernelTable kTable = {
#define TSR_KERNEL_OF_CPU(name) .name = cpu::name,
    TSR_KERNELS(TSR_KERNEL_OF_CPU)
#undef TSR_KERNEL_OF_CPU
};

}  // namespace
}  // namespace tessera::kernels

extern "C" const bool tessera_has_host_kernels;
const bool tessera_has_host_kernels =
    (tessera::kernels::set_cpu_kernels(tessera::kernels::kTable), true);
