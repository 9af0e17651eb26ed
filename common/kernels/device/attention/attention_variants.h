#ifndef MUSTER_COMMON_KERNELS_DEVICE_ATTENTION_ATTENTION_VARIANTS_H_
#define MUSTER_COMMON_KERNELS_DEVICE_ATTENTION_ATTENTION_VARIANTS_H_

#include <cstdint>
#include <type_traits>

#include "common/kernels/transformer/op_arrays.h"

namespace muster {

// Kernels are compiled for heads of some widths, and take narrower ones too, each with dropout and
// without. These call f with the least width that takes heads of D, and with whether something is
// dropped, as a std::integral_constant. Of the host.

template <int kD>
using HeadWidth = std::integral_constant<int, kD>;

template <typename F>
auto WithTensorWidth(int64_t D, const F& f) {
  if (D <= 32) return f(HeadWidth<32>());
  if (D <= 64) return f(HeadWidth<64>());
  if (D <= 96) return f(HeadWidth<96>());
  if (D <= 128) return f(HeadWidth<128>());
  return f(HeadWidth<256>());
}

template <typename F>
auto WithFmaWidth(int64_t D, const F& f) {
  if (D <= 64) return f(HeadWidth<64>());
  if (D <= 128) return f(HeadWidth<128>());
  return f(HeadWidth<256>());
}

template <typename F>
void WithDropout(const OpDropout& dropout, const F& f) {
  if (dropout.clock != nullptr) return f(std::true_type());
  f(std::false_type());
}

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_DEVICE_ATTENTION_ATTENTION_VARIANTS_H_
