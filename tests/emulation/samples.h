// tests/emulation/samples.h: small kernels whose results are known, one for each thing that device
// threads do together. The same source is compiled by nvcc and by the host's compiler.
#pragma once

#include <cuda_runtime.h>

namespace tessera::testing {

/// out[i] = in[i] * factor + 1, for n elements; blocks of 128.
cudaError_t scale(const float* in, float* out, int n, float factor, cudaStream_t stream);
/// Each block of 128 elements reversed, through shared memory. n: a multiple of 128.
cudaError_t reverse_blocks(const int* in, int* out, int n, cudaStream_t stream);
/// The same through dynamic shared memory.
cudaError_t reverse_blocks_dynamic(const int* in, int* out, int n, cudaStream_t stream);
/// out[0] = the sum: within warps by exchange, within blocks by shared memory, across them by the
/// block that comes last. scratch: a float a block of 256 and one counter, which is 0 before and
/// after.
cudaError_t sum(const float* in, int n, float* scratch, unsigned* counter, float* out,
                cudaStream_t stream);
/// counts[key] grows by one for each of n keys.
cudaError_t histogram(const int* keys, int n, int* counts, cudaStream_t stream);
/// Inclusive sums within segments of `width` lanes, for one warp.
cudaError_t scan_segments(const int* in, int* out, int width, cudaStream_t stream);
/// For each warp of 32 the bits of positive elements, and how many blocks' threads of 64 have one.
cudaError_t votes(const int* in, int n, unsigned* ballots, int* counts, cudaStream_t stream);
/// For 32 lanes: out[lane] = in[lane ^ 5], in[lane + 3], in[lane - 3], in[7], four rows; beyond the
/// warp: itself.
cudaError_t exchanges(const double* in, double* out, cudaStream_t stream);
/// Even lanes and odd lanes of a warp sum among themselves, at different times.
cudaError_t sum_by_parity(const int* in, int* out, cudaStream_t stream);
/// A block of 96 of which threads from 40 end at once; the others meet at barriers thereafter.
cudaError_t early_ends(int* out, cudaStream_t stream);
/// The greatest, the least, the bits of all, the last to exchange, and a counter that goes round
/// after 9.
cudaError_t atomics(const int* in, int n, int* greatest, int* least, unsigned* bits,
                    unsigned* round, unsigned long long* total, cudaStream_t stream);
/// The position of each thread of a grid of 2 x 3 x 2 blocks of 4 x 2 x 2, in the order of blocks,
/// then threads.
cudaError_t positions(unsigned* out, cudaStream_t stream);

// Kernels that end by a fault.

/// Half of the block does not come to the barrier, and does not end.
cudaError_t stuck_at_barrier(int* out, cudaStream_t stream);
/// A lane gives a mask that it is not in.
cudaError_t wrong_mask(int* out, cudaStream_t stream);
/// __trap() by thread 5 of block 1.
cudaError_t trap(int* out, cudaStream_t stream);

}  // namespace tessera::testing
