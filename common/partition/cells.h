#ifndef MUSTER_COMMON_PARTITION_CELLS_H_
#define MUSTER_COMMON_PARTITION_CELLS_H_

#include <cstdint>

namespace muster {

// The division of a stretch of elements into cells, over which norms are summed. A cell has `step`
// elements, except that the first has `first` and the last ends with the stretch.
struct Cells {
  uint64_t first = 0;
  uint64_t step = 0;

  // Returns the number of cells of a stretch of so many elements.
  uint64_t Count(uint64_t elements) const {
    if (elements == 0) return 0;
    return elements <= first ? 1 : 1 + (elements - first + step - 1) / step;
  }
};

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_CELLS_H_
