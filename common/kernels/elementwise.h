#ifndef MUSTER_COMMON_KERNELS_ELEMENTWISE_H_
#define MUSTER_COMMON_KERNELS_ELEMENTWISE_H_

#include <cstdint>

namespace muster {

// All arrays are row-major f32 of any alignment and, unless said otherwise, do not overlap. Extents
// may be 0. NaN in an input reaches the output. Single-threaded, stateless, thread-safe; results
// are the same bits on every instruction set.

// y[r, c] += bias[c]. y is [rows, cols], bias [cols].
void AddBias(int64_t rows, int64_t cols, const float* bias, float* y);

// bias_gradient[c] += sum over r of dy[r, c], in order of r. dy is [rows, cols], bias_gradient
// [cols].
void AddBiasGradient(int64_t rows, int64_t cols, const float* dy, float* bias_gradient);

// y[i] = max(x[i], 0) for i < n. y may be x.
void Relu(int64_t n, const float* x, float* y);

// dx[i] = dy[i] where y[i] > 0, else 0. `y` is what Relu wrote. dx may be dy.
void ReluBackward(int64_t n, const float* y, const float* dy, float* dx);

// rows[i, :] = table[index[i], :] for i < count. table is [any, dim], rows [count, dim].
void GatherRows(int64_t count, int64_t dim, const int32_t* index, const float* table, float* rows);

// table[index[i], :] += rows[i, :] for i < count, in order of i, so that repeated indices sum in a
// fixed order.
void ScatterAddRows(int64_t count, int64_t dim, const int32_t* index, const float* rows,
                    float* table);

// y[i] += alpha · x[i] for i < n.
void AddScaled(int64_t n, float alpha, const float* x, float* y);

// sum[i] = x[i] + y[i] for i < n.
void AddArrays(int64_t n, const float* x, const float* y, float* sum);

constexpr int64_t kSquaredSumLanes = 8;

// Sum of x[i]² in f64, in one fixed order: kSquaredSumLanes running sums (elements l, l + lanes,
// …), then these from first to last. For gradient norms.
double SquaredSum(int64_t n, const float* x);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_ELEMENTWISE_H_
