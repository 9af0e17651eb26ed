#ifndef MUSTER_COMMON_KERNELS_MOE_EXPERT_ROWS_H_
#define MUSTER_COMMON_KERNELS_MOE_EXPERT_ROWS_H_

#include <cstddef>
#include <cstdint>

#include "common/kernels/moe/expert_arrays.h"

namespace muster {

// The way from tokens to the rows of experts, and back. T is float, BFloat16 or Float16. On
// ComputeThreads() threads, with the same bits on any number of them. Thread-safe.

// Makes the rows of `chosen`.
void OrderRows(const RouterShape& shape, const int32_t* chosen, const ExpertRows& rows);

// offsets [E / W + 1] = where the rows that the rank takes begin for each of its experts, given
// ExpertRows::offsets of all ranks, [W, E + 1]; numbers [rows] = 0, 1, …
void OrderHostedRows(const HostedRowsShape& shape, const int32_t* rank_offsets, int32_t* offsets,
                     int32_t* numbers);

// rows [R, C] = x [N, C]'s row of the assignment's token.
void GatherRows(const TokenRowsShape& shape, const void* x, const int32_t* assignments, void* rows);

// out = bases + the rows of the token's assignments that are kept, in their order, summed in f32,
// rounded once.
template <typename T>
void CombineRows(const TokenRowsShape& shape, const CombineArrays& arrays);

// y = σ(logit of the row) · x, and its gradients.
template <typename T>
void GateRows(const TokenRowsShape& shape, const GateRowsArrays& arrays);
template <typename T>
void GateRowsBackward(const TokenRowsShape& shape, const GateRowsGradientArrays& arrays);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_MOE_EXPERT_ROWS_H_
