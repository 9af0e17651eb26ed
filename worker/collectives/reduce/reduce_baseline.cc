#include "worker/collectives/reduce/reduce_loops.h"

namespace muster {

const ReduceTable* BaselineReduceTable() {
  static constexpr ReduceTable kTable = MakeReduceTable("baseline");
  return &kTable;
}

}  // namespace muster
