#ifndef MUSTER_COMMON_KERNELS_ACCUMULATION_H_
#define MUSTER_COMMON_KERNELS_ACCUMULATION_H_

namespace muster {

// Says if a result replaces the values in its place or is added to them. With kWrite the place may
// hold anything before.
enum class Accumulation { kWrite, kAdd };

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_ACCUMULATION_H_
