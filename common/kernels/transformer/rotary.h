#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_ROTARY_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_ROTARY_H_

#include <cstdint>

#include "common/kernels/transformer/rotary_angles.h"
#include "common/tensor/bfloat16.h"

namespace muster {

// Rotary positions (Su et al., "RoFormer", 2021) in the half-split convention of Llama's Hugging
// Face weights: element i < D / 2 of a head's vector pairs with element i + D / 2, and the pair is
// turned by the angle position · frequency of pair i (RotaryAngles), base^(-2i / D) unless scaled:
//   y[i]         = x[i] cos - x[i + D/2] sin
//   y[i + D/2]   = x[i + D/2] cos + x[i] sin
// (The original paper's convention pairs neighbours 2i and 2i + 1; weights differ by a permutation
// of the rows of the query and key matrices.)

// table[p, 0 … D/2) = amplitude · cos, table[p, D/2 … D) = amplitude · sin of position p <
// positions; [positions, head_dim]. Angles are computed in f64. REQUIRES: head_dim even.
void FillRotaryTable(int64_t positions, int64_t head_dim, const RotaryAngles& angles, float* table);

// Vectors to turn: the first `heads` of every row of x. In packed [query heads | key heads | value
// heads] rows, heads = H + KV turns queries and keys and leaves values alone.
struct RotaryShape {
  // B · T, of which row r is at position first_position + r % context, or token_positions[r].
  int64_t rows = 0;
  int64_t context = 0;
  int64_t first_position = 0;
  int64_t heads = 0;
  // D, even.
  int64_t head_dim = 0;
  // Elements from one row to the next, at least heads · head_dim.
  int64_t stride = 0;
  // AttentionShape::token_positions, [rows]; null: positions follow from the rows.
  const int32_t* token_positions = nullptr;
};

// In place, in f32 rounded once to T (float, BFloat16 or Float16). `table` of FillRotaryTable
// covers all positions. On ComputeThreads() threads; the same bits on any number. Thread-safe.
template <typename T>
void Rotary(const RotaryShape& shape, const float* table, T* x);

// Gradient of x from that of y, in place: turns back, by the same amplitude.
template <typename T>
void RotaryBackward(const RotaryShape& shape, const float* table, T* dx);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_ROTARY_H_
