#ifndef MUSTER_SERVER_COORDINATOR_HISTORY_HISTORY_RECORDS_H_
#define MUSTER_SERVER_COORDINATOR_HISTORY_HISTORY_RECORDS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/history/series.h"
#include "proto/job_record.pb.h"
#include "server/coordinator/history/job_history.h"
#include "server/coordinator/store/job_store.h"

namespace muster {

inline constexpr uint32_t kHistoryFormatVersion = 1;

// The stored records of a job's history; a record is absent if its bytes are unreadable.
struct HistoryRecords {
  template <typename Record>
  struct Stored {
    std::optional<Record> record;
    size_t bytes = 0;
  };
  // Absent if there are no marks.
  std::optional<Stored<v1::HistoryRecord>> marks;
  // Series by their number, and changes by theirs.
  std::map<uint64_t, Stored<v1::SeriesRecord>> series;
  std::map<uint64_t, Stored<v1::HistoryChangeRecord>> changes;
};

// Reads a job's records. FAILED_PRECONDITION: a newer release wrote one. Other errors are the
// store's.
absl::StatusOr<HistoryRecords> ReadHistoryRecords(const JobStore& store, const std::string& job_id);

std::deque<JobHistory::Mark> MarksOf(const v1::HistoryRecord& record);

// Sets a series to its first `kept` points and stored ones. Returns false and changes nothing if
// the series has fewer points or the stored ones are not in order.
bool TakePoints(const google::protobuf::RepeatedPtrField<v1::SeriesPoint>& messages, size_t kept,
                uint32_t level, Series& series);

// Fills an empty history with the trustworthy part of damaged records. A series keeps the points of
// its record and of the changes before the first lost one; a later change that has all of its
// points replaces these. A lost change may have been a roll-back, so a series with older points
// keeps only those up to the lowest clock to which the job is known to have gone back.
void SalvageHistory(const HistoryRecords& records, JobHistory& history);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_HISTORY_HISTORY_RECORDS_H_
