#ifndef MUSTER_COMMON_KERNELS_DEVICE_DEVICE_ARRAYS_H_
#define MUSTER_COMMON_KERNELS_DEVICE_DEVICE_ARRAYS_H_

#include <cstdint>

#include "common/kernels/accumulation.h"
#include "common/kernels/device/device_sizes.h"
#include "common/kernels/transformer/op_arrays.h"
#include "common/tensor/dtype.h"

namespace muster {

class DeviceStream;

// Sums and conversions of arrays. Types: f32, bf16, f16. The same bits every time: no atomics.

// sums[c] += sum over r of x[r, c], in f32: the gradient of a bias. x is [rows, cols] with `stride`
// elements from row to row. `scratch` has DeviceRowSumsScratch(rows, cols) floats.
void DeviceAddRowSums(DeviceStream& stream, DType type, int64_t rows, int64_t cols, int64_t stride,
                      const void* x, float* sums, float* scratch);

// y = x for i < n, rounded to nearest even or widened. Between f32 and any type, or within one.
void DeviceConvert(DeviceStream& stream, int64_t n, DType from, const void* x, DType to, void* y);

// The same of rows with gaps between them.
void DeviceConvertRows(DeviceStream& stream, const StridedRows& rows, DType from, const void* x,
                       DType to, void* y);

// y += x for i < n, in f32.
void DeviceAdd(DeviceStream& stream, int64_t n, const float* x, float* y);

// x *= factor for i < n, in f32.
void DeviceScale(DeviceStream& stream, int64_t n, float factor, float* x);

// *sum = (kAdd: *sum, kWrite: 0) + sum of x[i]² in f64, runs of 65,536 elements each by itself,
// then the runs in order. Not finite exactly if an element is not, so it is the check for overflow
// too. `scratch` has DeviceSquaresScratch(n) doubles.
void DeviceSumOfSquares(DeviceStream& stream, int64_t n, const float* x, Accumulation accumulation,
                        double* sum, double* scratch);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_DEVICE_ARRAYS_H_
