#ifndef MUSTER_COMMON_KERNELS_ACCUMULATION_H_
#define MUSTER_COMMON_KERNELS_ACCUMULATION_H_

namespace muster {

// Whether a result replaces what is in its place or is added to it. With kWrite the place may hold
// anything before.
enum class Accumulation { kWrite, kAdd };

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_ACCUMULATION_H_
