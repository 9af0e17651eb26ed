#include "worker/collectives/reduce/reduce_kernels.h"

#include <algorithm>
#include <cstring>

#include "common/base/machine/stream_copy.h"
#include "common/base/machine/vector_level.h"
#include "worker/collectives/reduce/reduce_table.h"

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

// Bytes computed before they go to several places, or past the caches: they stay in the first-level
// cache.
constexpr size_t kStageBytes = 8192;
constexpr size_t kLine = 64;

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
  // Others may be told of the outputs by ordinary stores, which must not overtake these stores.
  if (op.streaming) StreamFence();
}

const char* ReduceInstructionSet() { return Table().name; }

}  // namespace muster
