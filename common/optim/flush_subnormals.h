#ifndef MUSTER_COMMON_OPTIM_FLUSH_SUBNORMALS_H_
#define MUSTER_COMMON_OPTIM_FLUSH_SUBNORMALS_H_

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace muster {

// While it lives, this thread's arithmetic takes and makes 0 for subnormal numbers. Slots that
// decay towards 0 would otherwise end in them, and each step on them be tens of times slower.
// Nested ones cost nothing, the outermost about 20 ns: who applies many small rows holds one around
// them all. On processors other than x86-64 it does nothing.
class FlushSubnormals {
 public:
#if defined(__SSE2__)
  FlushSubnormals() : saved_(_mm_getcsr()) {
    if ((saved_ & kFlags) != kFlags) _mm_setcsr(saved_ | kFlags);
  }
  ~FlushSubnormals() {
    if ((saved_ & kFlags) != kFlags) _mm_setcsr(saved_);
  }
#else
  FlushSubnormals() {}
#endif
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

#if defined(__SSE2__)
 private:
  // Flush to zero; subnormals are zero.
  static constexpr unsigned kFlags = 0x8000 | 0x0040;
  const unsigned saved_;
#endif
};

}  // namespace muster

#endif  // MUSTER_COMMON_OPTIM_FLUSH_SUBNORMALS_H_
