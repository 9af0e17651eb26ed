#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)

#include "worker/collectives/reduce/reduce_loops.h"

namespace muster {

const ReduceTable* Avx512ReduceTable() {
  static constexpr ReduceTable kTable = MakeReduceTable("avx512");
  return &kTable;
}

}  // namespace muster

#else

#include "worker/collectives/reduce/reduce_table.h"

namespace muster {

const ReduceTable* Avx512ReduceTable() { return nullptr; }

}  // namespace muster

#endif
