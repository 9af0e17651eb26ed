#include "common/base/machine/processor_model.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstring>

namespace muster {

std::string ProcessorModel() {
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(0, &eax, &ebx, &ecx, &edx) == 0) return "unknown";
  std::string maker(12, ' ');
  std::memcpy(maker.data(), &ebx, 4);
  std::memcpy(maker.data() + 4, &edx, 4);
  std::memcpy(maker.data() + 8, &ecx, 4);
  __get_cpuid(1, &eax, &ebx, &ecx, &edx);
  // Families and models that do not fit into 4 bits go on in extensions.
  const unsigned family = (eax >> 8 & 0xf) == 0xf ? 0xf + (eax >> 20 & 0xff) : eax >> 8 & 0xf;
  const unsigned model = (eax >> 4 & 0xf) | (family >= 6 ? eax >> 12 & 0xf0 : 0);
  return maker + " " + std::to_string(family) + "-" + std::to_string(model);
#else
  return "unknown";
#endif
}

}  // namespace muster
