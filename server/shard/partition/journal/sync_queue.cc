#include "server/shard/partition/journal/sync_queue.h"

#include <utility>

#include "common/trace/trace_scope.h"
#include "proto/parameter_service.pb.h"
#include "server/shard/storage/log_sync.h"

namespace muster {
namespace {

// Memory that calls may take which wait for the disk while more are admitted: several syncs' worth
// at any disk's speed.
constexpr size_t kMostUnsyncedBytes = size_t{32} << 20;

}  // namespace

SyncQueue::SyncQueue(const PartitionTables& tables, JournalWriter& log, PartitionHealth& health,
                     Options options)
    : tables_(tables), log_(log), health_(health), options_(std::move(options)) {}

bool SyncQueue::AwaitRoom() { return bytes_ <= kMostUnsyncedBytes || log_.FinishSync(); }

AdmittedCall& SyncQueue::Add(ExchangeCall&& call) {
  AdmittedCall& added = calls_.emplace_back();
  added.call = std::move(call);
  return added;
}

bool SyncQueue::Sync(uint64_t records) {
  if (!log_.logs()) return true;
  if (records > 0 && health_.Pass("appended")) return false;
  if (log_.sync_started()) return true;
  if (!SyncsBeside(records)) return log_.Sync();
  StartSync();
  return true;
}

bool SyncQueue::SyncsBeside(uint64_t records) {
  if (options_.syncs == nullptr || options_.strand == nullptr) return false;
  // One caller that waits for each answer is served sooner without the detour.
  return std::exchange(overlapped_, false) || records > 1;
}

void SyncQueue::StartSync() {
  if (!health_.ok()) return;
  std::shared_ptr<LogSync> sync = log_.StartSync();
  if (sync == nullptr) {
    // The log may have failed since, at the end of a segment: what rests on it is to be told.
    const bool waiting = log_.synced_lsn() < log_.last_lsn();
    if (waiting && !log_.sync_started()) log_.FinishSync();
    return;
  }
  // Whoever needs the sync before its turn carries it out himself. The strand forgets what it is
  // given once the partition is closed.
  options_.syncs->Add([this, sync = std::move(sync), strand = options_.strand,
                       crash_point = options_.crash_point,
                       span = TraceSpan(TracingHere(), TraceTrack::kDisk, ActionKind::kLogSync)] {
    if (crash_point->crashed()) return;
    sync->Run().IgnoreError();  // FinishSync returns it again.
    span.End(0);
    strand->Add([this, lsn = sync->lsn()] { options_.synced(lsn); });
  });
}

bool SyncQueue::EndSync(uint64_t lsn) {
  if (health_.crashed()) return false;
  // Unless somebody could not wait, and has finished it.
  if (log_.synced_lsn() < lsn && !log_.FinishSync()) return false;
  overlapped_ = log_.synced_lsn() < log_.last_lsn();
  // The disk goes on while the tables take what it has.
  StartSync();
  return true;
}

void SyncQueue::RunDurable(absl::FunctionRef<void(AdmittedCall& call)> run) {
  const uint64_t synced = log_.synced_lsn();
  while (!calls_.empty() && (calls_.front().lsn <= synced || !health_.ok())) {
    // The call stays there until it was run: when memory runs out, it is found there, and refused.
    AdmittedCall& call = calls_.front();
    bytes_ -= call.bytes();
    run(call);
    if (health_.crashed()) return;
    calls_.pop_front();
  }
  // A call that was on its way when memory ran out may be counted or not.
  if (calls_.empty()) bytes_ = 0;
}

uint64_t SyncQueue::RowBytes() const {
  uint64_t bytes = 0;
  for (const AdmittedCall& call : calls_) {
    if (!call.call.request->has_sparse_push() || call.lsn == 0) continue;
    const TieredTable& table = tables_.sparse[call.call.request->sparse_push().table() - 1];
    bytes += call.chunk.keys.size() * table.bytes_per_row();
  }
  return bytes;
}

}  // namespace muster
