#include "server/shard/partition/apply/row_eviction.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

// After all records of the log.
constexpr uint64_t kEveryLsn = std::numeric_limits<uint64_t>::max();

}  // namespace

RowEviction::RowEviction(PartitionTables& tables, const TableUpdater& updater, const Clocks& clocks,
                         PartitionHealth& health)
    : tables_(tables), updater_(updater), clocks_(clocks), health_(health) {}

absl::Status RowEviction::Trim() {
  if (dropped_at_ < clocks_.completed()) {
    dropped_at_ = clocks_.completed();
    MUSTER_RETURN_IF_ERROR(tables_.DropExpired(clocks_.completed()));
  }
  if (!tables_.OverCache()) return absl::OkStatus();
  const uint64_t before_lsn = updater_.replays_previous() ? updater_.last_lsn() : kEveryLsn;
  MUSTER_RETURN_IF_ERROR(tables_.TrimCache(before_lsn, clocks_.completed()));
  health_.Pass("evicted");
  return absl::OkStatus();
}

void RowEviction::Note(const absl::Status& status) {
  if (status.ok() || absl::IsResourceExhausted(status)) {
    disk_full_ = status;
    return;
  }
  health_.Close(
      absl::Status(absl::IsDataLoss(status) ? status.code() : absl::StatusCode::kUnavailable,
                   absl::StrCat("partition ", tables_.partition, " of job ", tables_.job->job_id(),
                                " has lost touch with its rows on disk: ", status.message())));
}

void RowEviction::TryAgain() {
  if (!disk_full_.ok()) Note(Trim());
}

absl::Status RowEviction::CheckRoom() const {
  if (disk_full_.ok() || !tables_.OverCache()) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the rows of partition ", tables_.partition, " of job ", tables_.job->job_id(),
                   " use ", tables_.used_row_bytes(), " bytes of memory, at most ",
                   tables_.job->cache_bytes(), " may, and there is no room to evict them to (",
                   disk_full_.message(), "); the push is taken once there is"));
}

}  // namespace muster
