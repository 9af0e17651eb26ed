#ifndef MUSTER_COMMON_PLAN_CALLS_TRAFFIC_SCHEMA_FOR_TESTING_H_
#define MUSTER_COMMON_PLAN_CALLS_TRAFFIC_SCHEMA_FOR_TESTING_H_

#include <cstdint>
#include <vector>

#include "common/partition/schema.h"
#include "common/plan/calls/step_traffic.h"
#include "proto/schema.pb.h"

namespace muster {

// For tests of predicted traffic.

inline constexpr AllReduceWay kShared = AllReduceWay::kSharedMemory;

// Returns a schema of two units of 10 `rows` and of 10 elements, in blocks of at most 1,600 bytes,
// on 3 partitions.
inline v1::TablesSchema Schema(int64_t rows = 100) {
  v1::TablesSchema schema;
  std::vector<TensorSpec> tensors(2);
  tensors[0].name = "w";
  tensors[0].shape = {rows, 10};
  tensors[1].name = "b";
  tensors[1].shape = {10};
  tensors[1].unit = 1;
  SetTables(tensors, {}, schema);
  schema.set_partitions(3);
  schema.set_block_bytes(1600);
  schema.mutable_optimizer()->set_name("sgd");
  schema.mutable_optimizer()->set_learning_rate(0.1f);
  schema.set_total_steps(10);
  return schema;
}

}  // namespace muster

#endif  // MUSTER_COMMON_PLAN_CALLS_TRAFFIC_SCHEMA_FOR_TESTING_H_
