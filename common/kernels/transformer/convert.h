#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_CONVERT_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_CONVERT_H_

#include <cstdint>

#include "common/tensor/bfloat16.h"

namespace muster {

// y[i] = x[i] for i < n, rounded to nearest even, or widened. No overlap. On ComputeThreads()
// threads; thread-safe.
void Convert(int64_t n, const float* x, BFloat16* y);
void Convert(int64_t n, const BFloat16* x, float* y);
void Convert(int64_t n, const float* x, Float16* y);
void Convert(int64_t n, const Float16* x, float* y);

// The same of rows × cols with so many elements from row to row.
void ConvertRows(int64_t rows, int64_t cols, const float* x, int64_t x_stride, BFloat16* y,
                 int64_t y_stride);
void ConvertRows(int64_t rows, int64_t cols, const BFloat16* x, int64_t x_stride, float* y,
                 int64_t y_stride);
void ConvertRows(int64_t rows, int64_t cols, const float* x, int64_t x_stride, Float16* y,
                 int64_t y_stride);
void ConvertRows(int64_t rows, int64_t cols, const Float16* x, int64_t x_stride, float* y,
                 int64_t y_stride);

// The same within one type: rows of so many bytes, with so many bytes from row to row.
void CopyRows(int64_t rows, int64_t bytes, const void* x, int64_t x_stride, void* y,
              int64_t y_stride);

// y[i] += x[i] for i < n. No overlap. On ComputeThreads() threads; thread-safe.
void Add(int64_t n, const float* x, float* y);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_CONVERT_H_
