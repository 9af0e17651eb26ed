#include "common/kernels/factorization_machine.h"

#include <algorithm>

#include "common/base/machine/simd_clones.h"

namespace muster {
namespace {

// Floats of one vector that are summed at a time, so that the sums stay in a small array whatever D
// is.
constexpr int64_t kPiece = 64;

}  // namespace

MUSTER_SIMD_CLONES
void FactorizationMachine(const FactorShape& shape, const float* vectors, float* out) {
  for (int64_t i = 0; i < shape.B; ++i, vectors += shape.stride) {
    float twice = 0;
    for (int64_t begin = 0; begin < shape.D; begin += kPiece) {
      const int64_t n = std::min(kPiece, shape.D - begin);
      float sum[kPiece] = {};
      float squares[kPiece] = {};
      for (int64_t f = 0; f < shape.F; ++f) {
        const float* v = vectors + f * shape.D + begin;
        for (int64_t d = 0; d < n; ++d) {
          sum[d] += v[d];
          squares[d] += v[d] * v[d];
        }
      }
      for (int64_t d = 0; d < n; ++d) twice += sum[d] * sum[d] - squares[d];
    }
    out[i] = 0.5f * twice;
  }
}

MUSTER_SIMD_CLONES
void FactorizationMachineBackward(const FactorShape& shape, const float* vectors,
                                  const float* out_gradient, float* vector_gradients) {
  for (int64_t i = 0; i < shape.B; ++i) {
    const float* example = vectors + i * shape.stride;
    float* gradients = vector_gradients + i * shape.stride;
    for (int64_t begin = 0; begin < shape.D; begin += kPiece) {
      const int64_t n = std::min(kPiece, shape.D - begin);
      float sum[kPiece] = {};
      for (int64_t f = 0; f < shape.F; ++f) {
        const float* v = example + f * shape.D + begin;
        for (int64_t d = 0; d < n; ++d) sum[d] += v[d];
      }
      for (int64_t f = 0; f < shape.F; ++f) {
        const float* v = example + f * shape.D + begin;
        float* g = gradients + f * shape.D + begin;
        MUSTER_INDEPENDENT_ITERATIONS
        for (int64_t d = 0; d < n; ++d) g[d] += out_gradient[i] * (sum[d] - v[d]);
      }
    }
  }
}

}  // namespace muster
