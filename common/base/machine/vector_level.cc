#include "common/base/machine/vector_level.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace muster {

VectorLevel ProcessorVectorLevel() {
#if defined(__x86_64__)
  // Not every compiler's __builtin_cpu_supports knows F16C.
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  if (!f16c || !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    return VectorLevel::kBaseline;
  }
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return avx512 ? VectorLevel::kAvx512 : VectorLevel::kAvx2;
#else
  return VectorLevel::kBaseline;
#endif
}

}  // namespace muster
