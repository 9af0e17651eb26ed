#ifndef MUSTER_COMMON_BASE_MACHINE_PREFETCH_H_
#define MUSTER_COMMON_BASE_MACHINE_PREFETCH_H_

namespace muster {

// Starts to load the processor's line at an address, which may be any.
//
// The empty statement is what makes it work: GCC takes a function of nothing but __builtin_prefetch
// for one without effect, and drops the calls of it, and of inline functions that only call it.
inline void Prefetch(const void* address) {
  __builtin_prefetch(address);
  asm volatile("");
}

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_MACHINE_PREFETCH_H_
