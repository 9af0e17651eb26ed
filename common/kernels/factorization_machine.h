#ifndef MUSTER_COMMON_KERNELS_FACTORIZATION_MACHINE_H_
#define MUSTER_COMMON_KERNELS_FACTORIZATION_MACHINE_H_

#include <cstdint>

namespace muster {

// B examples of F vectors of D floats each, example i at vectors + i * stride; stride is at least F
// * D. Row-major f32 of any alignment; extents may be 0. Single-threaded, stateless, thread-safe;
// the results are the same bits on every instruction set.
struct FactorShape {
  int64_t B = 0;
  int64_t F = 0;
  int64_t D = 0;
  int64_t stride = 0;
};

// out[i] = Σ_{f<g} ⟨v_f, v_g⟩, as ½ Σ_d ((Σ_f v_fd)² − Σ_f v_fd²): O(F · D) an example.
void FactorizationMachine(const FactorShape& shape, const float* vectors, float* out);

// gradient of v_f += out_gradient[i] · (Σ_g v_g − v_f), at vector_gradients + i * stride.
void FactorizationMachineBackward(const FactorShape& shape, const float* vectors,
                                  const float* out_gradient, float* vector_gradients);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_FACTORIZATION_MACHINE_H_
