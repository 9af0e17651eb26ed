#include "common/base/machine/stream_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace muster {

void StreamCopy(std::byte* out, const std::byte* in, size_t bytes) {
#if defined(__x86_64__)
  constexpr size_t kLine = 64;
  // Whole lines; the ends, which share lines with others, as usual.
  const size_t head = std::min(bytes, -reinterpret_cast<uintptr_t>(out) % kLine);
  std::memcpy(out, in, head);
  size_t i = head;
  for (; i + kLine <= bytes; i += kLine) {
    const auto* from = reinterpret_cast<const __m128i*>(in + i);
    auto* to = reinterpret_cast<__m128i*>(out + i);
    const __m128i a = _mm_loadu_si128(from);
    const __m128i b = _mm_loadu_si128(from + 1);
    const __m128i c = _mm_loadu_si128(from + 2);
    const __m128i d = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
  }
  std::memcpy(out + i, in + i, bytes - i);
#else
  std::memcpy(out, in, bytes);
#endif
}

void StreamFence() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace muster
