#ifndef MUSTER_COMMON_KERNELS_DEVICE_DEVICE_ARRAYS_H_
#define MUSTER_COMMON_KERNELS_DEVICE_DEVICE_ARRAYS_H_

#include <cstdint>

#include "common/tensor/dtype.h"

namespace muster {

class DeviceStream;

// Sums and conversions of arrays. Types: f32, bf16, f16. The same bits every time: no atomics.

// sums[c] += sum over r of x[r, c], in f32: the gradient of a bias. x is [rows, cols] with `stride`
// elements from row to row.
// Floats of scratch; never falls as rows grow, so that the scratch of the most rows serves all.
int64_t DeviceRowSumsScratch(int64_t rows, int64_t cols);
void DeviceAddRowSums(DeviceStream& stream, DType type, int64_t rows, int64_t cols, int64_t stride,
                      const void* x, float* sums, float* scratch);

// y += x, for i < n.
void DeviceAddTo(DeviceStream& stream, DType type, int64_t n, const void* x, void* y);

// y = x, rounded to nearest even or widened. Between f32 and any type, or within one.
void DeviceConvert(DeviceStream& stream, int64_t n, DType from, const void* x, DType to, void* y);

// y = *factor · x, f32; *factor is in device memory. y may be x.
void DeviceScale(DeviceStream& stream, int64_t n, const float* factor, const float* x, float* y);

// *sum = (accumulate ? *sum : 0) + sum of x[i]² in f64, runs of 65,536 elements each by itself,
// then the runs in order. Not finite exactly if an element is not, so it is the check for overflow
// too.
enum class SumMode { kWrite, kAdd };
int64_t DeviceSquaresScratch(int64_t n);  // Doubles.
void DeviceSumOfSquares(DeviceStream& stream, int64_t n, const float* x, SumMode mode, double* sum,
                        double* scratch);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_DEVICE_ARRAYS_H_
