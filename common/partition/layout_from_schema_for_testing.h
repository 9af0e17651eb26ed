#ifndef MUSTER_COMMON_PARTITION_LAYOUT_FROM_SCHEMA_FOR_TESTING_H_
#define MUSTER_COMMON_PARTITION_LAYOUT_FROM_SCHEMA_FOR_TESTING_H_

#include "common/partition/dense_layout.h"
#include "common/partition/schema.h"

namespace muster {

// Returns the layout of the whole dense tensors. REQUIRES: ValidateSchema(schema).ok().
inline DenseLayout LayoutFromSchema(const v1::TablesSchema& schema) {
  return *LayoutOfTensors(schema, TablesFromSchema(schema).tensors);
}

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_LAYOUT_FROM_SCHEMA_FOR_TESTING_H_
