#include "common/base/machine/multiplies_bfloat16.h"

#include <atomic>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace muster {
namespace {

std::atomic<bool> hidden = false;

}  // namespace

void HideBFloat16ProductsForTesting() { hidden.store(true, std::memory_order_relaxed); }

bool MultipliesBFloat16() {
  if (hidden.load(std::memory_order_relaxed)) return false;
#if defined(__x86_64__)
  static const bool multiplies = [] {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    if (!__builtin_cpu_supports("avx512f") || __get_cpuid_max(0, nullptr) < 7) return false;
    __cpuid_count(7, 0, eax, ebx, ecx, edx);
    const bool amx_bf16 = (edx >> 22 & 1) != 0, avx512_fp16 = (edx >> 23 & 1) != 0;
    __cpuid_count(7, 1, eax, ebx, ecx, edx);
    const bool avx512_bf16 = (eax >> 5 & 1) != 0;
    __cpuid(0, eax, ebx, ecx, edx);
    const bool intel = ebx == signature_INTEL_ebx;
    return avx512_bf16 && (amx_bf16 || !(intel && avx512_fp16));
  }();
  return multiplies;
#else
  return true;
#endif
}

}  // namespace muster
