#include "common/kernels/transformer/dropout.h"

#include <algorithm>
#include <cmath>

#include "common/base/fingerprint.h"
#include "common/kernels/parallel_for.h"
#include "common/kernels/transformer/vector_kernels.h"

namespace muster {
namespace {

constexpr uint32_t kUnit = 65536;

}  // namespace

DropoutMask::DropoutMask(uint64_t seed, absl::string_view name, uint64_t clock, float probability)
    : key(Fingerprint(name, Fingerprint("dropout", seed))),
      clock(clock),
      threshold(std::min(kUnit - 1, static_cast<uint32_t>(std::lround(probability * kUnit)))),
      scale(static_cast<float>(static_cast<double>(kUnit) / (kUnit - threshold))) {}

void Dropout(const DropoutMask& mask, const DropoutShape& shape, const float* x, float* y) {
  // Elements whose factors lie on the stack at a time.
  constexpr int64_t kPiece = 4096;
  const int64_t pieces = (shape.size + kPiece - 1) / kPiece;
  const VectorKernels& kernels = ActiveVectorKernels();
  ParallelFor(shape.examples * pieces, 1, [&](int64_t piece, int64_t) {
    const int64_t example = piece / pieces;
    const int64_t begin = piece % pieces * kPiece;
    const int64_t count = std::min(kPiece, shape.size - begin);
    float factors[kPiece];
    kernels.dropout_factors(mask, shape.first_example + example, begin, count, factors);
    const int64_t place = example * shape.size + begin;
    kernels.scale(count, factors, x + place, y + place);
  });
}

}  // namespace muster
