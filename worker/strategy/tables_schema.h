#ifndef MUSTER_WORKER_STRATEGY_TABLES_SCHEMA_H_
#define MUSTER_WORKER_STRATEGY_TABLES_SCHEMA_H_

#include <cstdint>

#include "worker/nn/model.h"

namespace muster {

namespace v1 {
class JobSpec;
class TablesSchema;
}  // namespace v1

// What servers must know of a job's tables: the model's, and the job's choices with their defaults
// (8 partitions, blocks of 1 MiB). Its learning rate is that for the job's batch size, scaled as
// the schedule says. Pure: every slot makes the same. REQUIRES: a valid schedule.
v1::TablesSchema MakeTablesSchema(const ModelDescription& model, const v1::JobSpec& spec,
                                  uint64_t total_steps);

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_TABLES_SCHEMA_H_
