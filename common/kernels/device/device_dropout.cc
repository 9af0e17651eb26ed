#include "common/kernels/device/device_dropout.h"

#include "common/kernels/device/dropout_factors.h"
#include "common/kernels/device/simt/elements.h"

namespace muster {
namespace {

struct DropoutOp {
  static constexpr const char* kName = "dropout";

  OpDropout dropout;
  int64_t size;
  const float* x;
  float* y;

  template <int N>
  MUSTER_DEVICE void Do(int64_t i) const {
    float values[N], factors[N];
    DropoutFactorsAt<N>(dropout, size, i, factors);
    LoadFloats<N>(x + i, values);
#pragma unroll
    for (int j = 0; j < N; ++j) values[j] *= factors[j];
    StoreFloats<N>(values, y + i);
  }
};

}  // namespace

void DeviceDropoutForward(DeviceStream& stream, const OpDropout& dropout, int64_t elements,
                          int64_t size, const float* x, float* y) {
  const bool packed = dropout.share.Run(size) % 8 == 0 && size % 8 == 0 &&
                      dropout.first_element % 8 == 0 && elements % 8 == 0 && IsAligned16(x) &&
                      IsAligned16(y);
  ForElements(stream, elements, packed, DropoutOp{dropout, size, x, y});
}

}  // namespace muster
