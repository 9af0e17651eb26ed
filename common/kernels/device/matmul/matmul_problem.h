#ifndef MUSTER_COMMON_KERNELS_DEVICE_MATMUL_MATMUL_PROBLEM_H_
#define MUSTER_COMMON_KERNELS_DEVICE_MATMUL_MATMUL_PROBLEM_H_

#include <cstdint>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "common/kernels/accumulation.h"
#include "common/kernels/matmul.h"
#include "common/tensor/dtype.h"

namespace muster {

// What happens to a product before it is stored.
enum class MatmulEpilogue {
  kNone,
  // c = product + bias, of every row.
  kBias,
  // aux = product + bias (or the product alone), c = gelu(aux), in the tanh form; the GELU of the
  // sum in f32, before aux is rounded.
  kGelu,
  // c = product · gelu'(aux): backward of kGelu, aux being what it left.
  kGeluGradient,
};

// c = epilogue(op(a) · op(b)), or c += op(a) · op(b). Row-major: op(a) is [m, k], op(b) [k, n],
// c and aux [m, n]. Stored, a is [m, k], or [k, m] when transposed, and b [k, n] or [n, k]. Sums
// are f32, rounded once.
struct MatmulProblem {
  // Of a and b: kF32, kBf16 or kF16.
  DType in = DType::kF32;
  // Of c, bias and aux: kF32 or `in`.
  DType out = DType::kF32;
  Transpose transpose_a = Transpose::kNo;
  Transpose transpose_b = Transpose::kNo;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  // Elements from one stored row to the next; 0 for dense.
  int64_t a_stride = 0;
  int64_t b_stride = 0;
  int64_t c_stride = 0;
  MatmulEpilogue epilogue = MatmulEpilogue::kNone;
  // Of kGelu; kBias always has one.
  bool has_bias = false;
  // kAdd only with kNone.
  Accumulation accumulation = Accumulation::kWrite;

  friend bool operator==(const MatmulProblem& x, const MatmulProblem& y) {
    return x.Key() == y.Key();
  }
  template <typename H>
  friend H AbslHashValue(H h, const MatmulProblem& p) {
    return H::combine(std::move(h), p.Key());
  }

 private:
  std::tuple<DType, DType, Transpose, Transpose, int64_t, int64_t, int64_t, int64_t, int64_t,
             int64_t, MatmulEpilogue, bool, Accumulation>
  Key() const {
    return {in,       out,      transpose_a, transpose_b, m,        n,           k,
            a_stride, b_stride, c_stride,    epilogue,    has_bias, accumulation};
  }
};

// Device memory of one product; no overlap, but that aux of kGeluGradient may be c.
struct MatmulOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  // [n].
  const void* bias = nullptr;
  // Dense.
  void* aux = nullptr;
};

// Such as "bf16 [4096, 768] x [768, 3072] transposed + bias + gelu".
std::string Describe(const MatmulProblem& problem);

// With all strides filled in.
MatmulProblem Dense(MatmulProblem problem);

// InvalidArgument, naming the product: extents below 1, strides shorter than a row, types or an
// epilogue that do not go together, operands that are missing.
absl::Status CheckMatmul(const MatmulProblem& problem, const MatmulOperands& operands);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_MATMUL_MATMUL_PROBLEM_H_
