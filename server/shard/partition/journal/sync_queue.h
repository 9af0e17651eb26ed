#ifndef MUSTER_SERVER_SHARD_PARTITION_JOURNAL_SYNC_QUEUE_H_
#define MUSTER_SERVER_SHARD_PARTITION_JOURNAL_SYNC_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "absl/functional/function_ref.h"
#include "server/shard/calls/admitted_call.h"
#include "server/shard/partition/journal/journal_writer.h"
#include "server/shard/partition/journal/partition_health.h"
#include "server/shard/resources/executor.h"
#include "server/shard/tables/partition_tables.h"

namespace muster {

// The calls of a partition that wait for the disk, in order, and the syncs that they wait for. A
// call without a record waits for those before it, so that the order stays.
//
// One sync serves all that was appended. While several pushes are under way at a time, another
// thread carries the sync out: the next batch is admitted and logged, and the one before applied,
// while the disk is busy. The queue is empty between batches unless such a sync is under way. Not
// thread-safe.
class SyncQueue {
 public:
  struct Options {
    // `strand` runs tasks of the partition between its batches, and `syncs` carries syncs out. If
    // one is null, the queue waits for all syncs.
    std::shared_ptr<Executor> strand;
    std::shared_ptr<Executor> syncs;
    // Shared by all partitions; outlives the tasks of `syncs`.
    CrashPoint* crash_point = nullptr;
    // Called on the strand once a sync that covers this record is over, for EndSync.
    std::function<void(uint64_t lsn)> synced;
  };

  // All must outlive it.
  SyncQueue(const PartitionTables& tables, JournalWriter& log, PartitionHealth& health,
            Options options);

  // Waits until there is room for another batch: a disk that is slower than what comes makes the
  // calls wait here. False: the engine has crashed.
  bool AwaitRoom();
  // Adds a call at the end, where it is then admitted. Takes the call once there is memory for it.
  AdmittedCall& Add(ExchangeCall&& call);
  // Counts the memory of the call at the end. REQUIRES: it has been admitted.
  void CountLast() { bytes_ += calls_.back().bytes(); }

  // Makes a batch durable that has appended so many records, or has another thread begin to. False:
  // the engine has crashed.
  bool Sync(uint64_t records);
  // Makes all calls durable. False: the engine has crashed.
  bool SyncNow() { return log_.Sync(); }
  // Ends the sync that `synced` told of, and starts the next one. False: the engine has crashed.
  bool EndSync(uint64_t lsn);

  // Runs the calls that are durable, or all once the partition is closed, and takes them out. Stops
  // when the engine crashes.
  void RunDurable(absl::FunctionRef<void(AdmittedCall& call)> run);

  bool empty() const { return calls_.empty(); }
  // Returns the bytes that rows of waiting pushes may take.
  uint64_t RowBytes() const;

 private:
  // Returns whether the next sync is worth a thread of its own, after a batch with so many records.
  bool SyncsBeside(uint64_t records);
  void StartSync();

  const PartitionTables& tables_;
  JournalWriter& log_;
  PartitionHealth& health_;
  const Options options_;
  std::deque<AdmittedCall> calls_;
  // Memory of the calls.
  size_t bytes_ = 0;
  // True if operations came while the last sync ran.
  bool overlapped_ = false;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_JOURNAL_SYNC_QUEUE_H_
