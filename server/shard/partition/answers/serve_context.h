#ifndef MUSTER_SERVER_SHARD_PARTITION_ANSWERS_SERVE_CONTEXT_H_
#define MUSTER_SERVER_SHARD_PARTITION_ANSWERS_SERVE_CONTEXT_H_

#include "common/base/buffer_pool.h"
#include "server/shard/partition/admission/ledger.h"
#include "server/shard/partition/answers/call_answers.h"
#include "server/shard/partition/apply/clock_entries.h"
#include "server/shard/partition/apply/clocks.h"
#include "server/shard/partition/apply/group_loss_scale.h"
#include "server/shard/partition/journal/partition_health.h"
#include "server/shard/tables/partition_tables.h"

namespace muster {

// The collaborators that the parts which answer a partition's calls have in common. They outlive
// those parts.
struct ServeContext {
  const JobTables& job() const { return *tables.job; }

  PartitionTables& tables;
  BufferPool& pool;
  const Clocks& clocks;
  const ClockEntries& entries;
  const GroupLossScale& loss_scale;
  const Ledger& ledger;
  const CallAnswers& answers;
  PartitionHealth& health;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_ANSWERS_SERVE_CONTEXT_H_
