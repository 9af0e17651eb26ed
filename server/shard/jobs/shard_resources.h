#ifndef MUSTER_SERVER_SHARD_JOBS_SHARD_RESOURCES_H_
#define MUSTER_SERVER_SHARD_JOBS_SHARD_RESOURCES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/base/buffer_pool.h"
#include "common/checkpoint/root_mark.h"
#include "common/checkpoint/storage.h"
#include "common/trace/trace_recorder.h"
#include "server/shard/resources/crash_point.h"
#include "server/shard/resources/ended_slots.h"
#include "server/shard/resources/executor.h"
#include "server/shard/resources/memory_budget.h"
#include "server/shard/resources/replay_meter.h"
#include "server/shard/resources/served_bytes.h"
#include "server/shard/storage/mutation_log.h"
#include "server/shard/storage/parameter_store.h"

namespace muster {

// Resources that the partitions of all jobs on a server share. The members outlive every job.
struct ShardResources {
  std::shared_ptr<BufferPool> pool;
  MemoryBudget* budget = nullptr;
  Executor* executor = nullptr;
  // Runs tasks that block on checkpoint files.
  std::shared_ptr<Executor> files;
  // Carries out syncs of logs.
  std::shared_ptr<Executor> syncs;
  CheckpointStorage* checkpoint_storage = nullptr;
  RootCheck root_check = RootCheck::kWritable;
  // Name of the server in errors that others read.
  std::string server_name;
  CrashPoint* crash_point = nullptr;
  // Null: nothing is stored.
  ParameterStore* store = nullptr;
  std::string log_dir;
  MutationLog::Options log;
  size_t queue_bytes = 0;
  uint64_t log_bytes = 0;
  // Returns whether somebody waits to drop this generation of a job, or to open a later one; who
  // opens its partitions then stops. Thread-safe.
  std::function<bool(const std::string& job_id, uint64_t generation)> unwanted;
  // Number of threads that bring partitions of one job back from their logs.
  int open_threads = 1;
  ReplayMeter* replays = nullptr;
  ServedBytes* served = nullptr;
  const EndedSlots* ended_slots = nullptr;
  TraceRecorder* trace = nullptr;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_JOBS_SHARD_RESOURCES_H_
