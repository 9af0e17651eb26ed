#include "common/kernels/transformer/rotary.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/kernels/parallel_for.h"
#include "common/kernels/transformer/vector_kernels.h"

namespace muster {
namespace {

template <typename T>
void Turn(const RotaryShape& shape, const float* table, float direction, T* x) {
  constexpr int64_t kGrain = 1 << 14;
  const int64_t row = std::max<int64_t>(1, shape.heads * shape.head_dim);
  const TypedVectorKernels<T>& kernels = ActiveKernelsOf<T>();
  ParallelFor(shape.rows, std::max<int64_t>(1, kGrain / row), [&](int64_t begin, int64_t end) {
    kernels.rotary(shape, table, direction, begin, end, x);
  });
}

}  // namespace

void FillRotaryTable(int64_t positions, int64_t head_dim, const RotaryAngles& angles,
                     float* table) {
  const int64_t half = head_dim / 2;
  const std::vector<double> frequencies = RotaryFrequencies(angles, head_dim);
  for (int64_t p = 0; p < positions; ++p) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) * frequencies[i];
      table[p * head_dim + i] = static_cast<float>(angles.amplitude * std::cos(angle));
      table[p * head_dim + half + i] = static_cast<float>(angles.amplitude * std::sin(angle));
    }
  }
}

template <typename T>
void Rotary(const RotaryShape& shape, const float* table, T* x) {
  Turn(shape, table, 1, x);
}

template <typename T>
void RotaryBackward(const RotaryShape& shape, const float* table, T* dx) {
  Turn(shape, table, -1, dx);
}

template void Rotary(const RotaryShape&, const float*, float*);
template void Rotary(const RotaryShape&, const float*, BFloat16*);
template void Rotary(const RotaryShape&, const float*, Float16*);
template void RotaryBackward(const RotaryShape&, const float*, float*);
template void RotaryBackward(const RotaryShape&, const float*, BFloat16*);
template void RotaryBackward(const RotaryShape&, const float*, Float16*);

}  // namespace muster
