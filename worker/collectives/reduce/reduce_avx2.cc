#if defined(__AVX2__) && defined(__F16C__)

#include "worker/collectives/reduce/reduce_loops.h"

namespace muster {

const ReduceTable* Avx2ReduceTable() {
  static constexpr ReduceTable kTable = MakeReduceTable("avx2");
  return &kTable;
}

}  // namespace muster

#else

#include "worker/collectives/reduce/reduce_table.h"

namespace muster {

const ReduceTable* Avx2ReduceTable() { return nullptr; }

}  // namespace muster

#endif
