#ifndef MUSTER_COMMON_BASE_MACHINE_PREFETCH_H_
#define MUSTER_COMMON_BASE_MACHINE_PREFETCH_H_

namespace muster {

// Starts to load the cache line at any address.
//
// The empty statement is necessary: GCC treats a function of nothing but __builtin_prefetch as one
// without effect, and drops calls of it and of inline functions that only call it.
inline void Prefetch(const void* address) {
  __builtin_prefetch(address);
  asm volatile("");
}

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_MACHINE_PREFETCH_H_
