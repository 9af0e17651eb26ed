#ifndef MUSTER_SERVER_SHARD_CHECKPOINT_PARTITION_CHECKPOINT_H_
#define MUSTER_SERVER_SHARD_CHECKPOINT_PARTITION_CHECKPOINT_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/tables/table_checkpoint.h"
#include "server/shard/resources/memory_budget.h"
#include "server/shard/tables/partition_tables.h"

namespace muster {

// Fills a partition's tables, which have their initial values, from a checkpoint of any number of
// partitions. Calls `go_on` now and then, and returns its error. NOT_FOUND: the checkpoint lacks a
// tensor or table of the job. INVALID_ARGUMENT: a table's rows have another length, or its
// tokenizer is another. DATA_LOSS: the checkpoint is damaged.
absl::Status RestorePartition(const CheckpointReader& checkpoint, RestoreExtent extent,
                              MemoryShare& memory, absl::FunctionRef<absl::Status()> go_on,
                              PartitionTables& tables);

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_CHECKPOINT_PARTITION_CHECKPOINT_H_
