#include "worker/collectives/reduce_kernels.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "common/base/vector_level.h"
#include "worker/collectives/reduce_table.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace muster {
namespace {

const ReduceTable& BestTable() {
  const VectorLevel level = ProcessorVectorLevel();
  if (level >= VectorLevel::kAvx512 && Avx512ReduceTable() != nullptr) return *Avx512ReduceTable();
  if (level >= VectorLevel::kAvx2 && Avx2ReduceTable() != nullptr) return *Avx2ReduceTable();
  return *BaselineReduceTable();
}

const ReduceTable& Table() {
  static const ReduceTable& table = BestTable();
  return table;
}

ReduceFunction FunctionFor(const ReduceOp& op) {
  return Table().functions[static_cast<int>(op.dtype)][static_cast<int>(op.reduction)];
}

// What is computed before it goes to several places, or past the caches: stays in the first-level
// cache.
constexpr size_t kStageBytes = 8192;
constexpr size_t kLine = 64;

// Copies by non-temporal stores of whole lines; the ends, which share lines with others, as usual.
void StreamCopy(std::byte* out, const std::byte* in, size_t bytes) {
#if defined(__x86_64__)
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

}  // namespace

void ReduceInto(const ReduceOp& op, absl::Span<const void* const> inputs, size_t count, void* out) {
  if (op.streaming) {
    void* const outs[] = {out};
    ReduceIntoAll(op, inputs, count, outs);
    return;
  }
  FunctionFor(op)(inputs.data(), inputs.size(), 0, count, op.divisor, out);
}

void ReduceIntoAll(const ReduceOp& op, absl::Span<const void* const> inputs, size_t count,
                   absl::Span<void* const> outs) {
  const ReduceFunction reduce = FunctionFor(op);
  const size_t element = SizeOf(op.dtype);
  alignas(kLine) std::byte stage[kStageBytes];
  for (size_t begin = 0; begin < count; begin += kStageBytes / element) {
    const size_t length = std::min(kStageBytes / element, count - begin);
    reduce(inputs.data(), inputs.size(), begin, length, op.divisor, stage);
    for (void* out : outs) {
      std::byte* const to = static_cast<std::byte*>(out) + begin * element;
      if (op.streaming) {
        StreamCopy(to, stage, length * element);
      } else {
        std::memcpy(to, stage, length * element);
      }
    }
  }
#if defined(__x86_64__)
  // Others may be told of the outputs by ordinary stores, which must not overtake these.
  if (op.streaming) _mm_sfence();
#endif
}

const char* ReduceInstructionSet() { return Table().name; }

}  // namespace muster
