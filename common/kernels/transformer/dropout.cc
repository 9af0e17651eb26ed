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
  const int64_t first = shape.first_element;
  const int64_t end = first + shape.elements;
  const int64_t run_size = shape.share.Run(shape.size);
  const VectorKernels& kernels = ActiveVectorKernels();
  ParallelFor((end + kPiece - 1) / kPiece - first / kPiece, 1, [&](int64_t piece, int64_t) {
    float factors[kPiece];
    const int64_t piece_begin = (first / kPiece + piece) * kPiece;
    const int64_t piece_end = std::min(end, piece_begin + kPiece);
    // Elements are counted from the arrays' first example's begin on.
    for (int64_t at = std::max(first, piece_begin); at < piece_end;) {
      const int64_t run = at / run_size;
      const int64_t count = std::min(piece_end, (run + 1) * run_size) - at;
      const ExampleElement place =
          PlaceInExample(shape.share, shape.size, run, at - run * run_size);
      kernels.dropout_factors(mask, shape.first_example + place.example, place.element, count,
                              factors);
      kernels.scale(count, factors, x + (at - first), y + (at - first));
      at += count;
    }
  });
}

}  // namespace muster
