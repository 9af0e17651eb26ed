#include "common/kernels/transformer/convert.h"

#include <algorithm>
#include <cstring>

#include "common/kernels/parallel_for.h"
#include "common/kernels/transformer/vector_kernels.h"

namespace muster {
namespace {

// Elements that are worth a thread's while.
constexpr int64_t kConvertGrain = 1 << 15;

template <typename T>
void Loop(int64_t n, const float* x, T* y) {
  ActiveKernelsOf<T>().narrow(n, x, y);
}
template <typename T>
void Loop(int64_t n, const T* x, float* y) {
  ActiveKernelsOf<T>().widen(n, x, y);
}

template <typename From, typename To>
void Run(int64_t n, const From* x, To* y) {
  ParallelFor(n, kConvertGrain,
              [&](int64_t begin, int64_t end) { Loop(end - begin, x + begin, y + begin); });
}

// Calls f(r) for each row, of `cols` elements.
template <typename F>
void ForRows(int64_t rows, int64_t cols, const F& f) {
  if (cols == 0) return;
  ParallelFor(rows, std::max<int64_t>(1, kConvertGrain / cols), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) f(r);
  });
}

template <typename From, typename To>
void RunRows(int64_t rows, int64_t cols, const From* x, int64_t x_stride, To* y, int64_t y_stride) {
  if (x_stride == cols && y_stride == cols) return Run(rows * cols, x, y);
  ForRows(rows, cols, [&](int64_t r) { Loop(cols, x + r * x_stride, y + r * y_stride); });
}

}  // namespace

void Convert(int64_t n, const float* x, BFloat16* y) { Run(n, x, y); }
void Convert(int64_t n, const BFloat16* x, float* y) { Run(n, x, y); }
void Convert(int64_t n, const float* x, Float16* y) { Run(n, x, y); }
void Convert(int64_t n, const Float16* x, float* y) { Run(n, x, y); }

void ConvertRows(int64_t rows, int64_t cols, const float* x, int64_t x_stride, BFloat16* y,
                 int64_t y_stride) {
  RunRows(rows, cols, x, x_stride, y, y_stride);
}
void ConvertRows(int64_t rows, int64_t cols, const BFloat16* x, int64_t x_stride, float* y,
                 int64_t y_stride) {
  RunRows(rows, cols, x, x_stride, y, y_stride);
}
void ConvertRows(int64_t rows, int64_t cols, const float* x, int64_t x_stride, Float16* y,
                 int64_t y_stride) {
  RunRows(rows, cols, x, x_stride, y, y_stride);
}
void ConvertRows(int64_t rows, int64_t cols, const Float16* x, int64_t x_stride, float* y,
                 int64_t y_stride) {
  RunRows(rows, cols, x, x_stride, y, y_stride);
}

void CopyRows(int64_t rows, int64_t bytes, const void* x, int64_t x_stride, void* y,
              int64_t y_stride) {
  ForRows(rows, bytes, [&](int64_t r) {
    std::memcpy(static_cast<char*>(y) + r * y_stride, static_cast<const char*>(x) + r * x_stride,
                bytes);
  });
}

void Add(int64_t n, const float* x, float* y) {
  const VectorKernels& kernels = ActiveVectorKernels();
  ParallelFor(n, kConvertGrain,
              [&](int64_t begin, int64_t end) { kernels.add(end - begin, x + begin, y + begin); });
}

}  // namespace muster
