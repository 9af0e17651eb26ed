#ifndef MUSTER_SERVER_COORDINATOR_HISTORY_STORED_HISTORY_H_
#define MUSTER_SERVER_COORDINATOR_HISTORY_STORED_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/coordinator/history/job_history.h"
#include "server/coordinator/store/job_store.h"

namespace muster {

struct HistoryRecords;

// A job's history, and how the store keeps it.
//
// Each write appends one record with what changed since the last write (v1::HistoryChangeRecord):
// of every series that changed, how many of its leading points stay, and those that follow. Once
// these changes take more room than the series, each write also stores some series anew
// (v1::SeriesRecord), in turn; a change goes when every series has a record that includes it. So a
// byte of changes costs at most two more, and changes take at most about as much room as series. A
// roll-back is a change, too, in the same batch as the job's record: whatever was not written
// before it, the store never holds steps from both sides of it.
//
// What a crash loses is what came after the last write. Not thread-safe.
class StoredHistory {
 public:
  StoredHistory(std::string job_id, const HistoryOptions& options);

  // Reads a job's history; empty if none was stored. DATA_LOSS: a record is unreadable.
  // FAILED_PRECONDITION: a newer release wrote it.
  static absl::StatusOr<std::unique_ptr<StoredHistory>> Read(const JobStore& store,
                                                             const std::string& job_id,
                                                             const HistoryOptions& options);
  // Loads the trustworthy part of a damaged history (SalvageHistory), and adds the writes that
  // replace the damaged one to a batch. FAILED_PRECONDITION as above; other errors are the store's.
  static absl::StatusOr<std::unique_ptr<StoredHistory>> Salvage(const JobStore& store,
                                                                const std::string& job_id,
                                                                const HistoryOptions& options,
                                                                JobStoreBatch& batch);
  // Adds the removal of a job's history to a batch.
  static void Remove(const std::string& job_id, JobStoreBatch& batch);

  JobHistory& history() { return history_; }
  const JobHistory& history() const { return history_; }

  // The part of the history that a write stores.
  struct Part {
    // All that changed since the last write.
    bool changes = false;
    // A roll-back, after those changes.
    std::optional<JobHistory::Mark> cut;
    // The job has ended at this time: all that is left, in fewer points.
    struct End {
      // Monotonic.
      absl::Duration now;
      int64_t unix_ms = 0;
    };
    std::optional<End> end;
  };
  // Adds the writes for a part to a batch. Nothing changes here before Written.
  void AddTo(JobStoreBatch& batch, const Part& part);
  // The batch of the last AddTo is stored. REQUIRES: the history has not changed since.
  void Written();

 private:
  // The place of a series in the store.
  struct SeriesState {
    // Bytes of its record; 0: it has none yet.
    size_t bytes = 0;
    // The last change that the record includes, or before the series began.
    uint64_t change = 0;
  };
  struct State {
    std::vector<SeriesState> series;
    size_t series_bytes = 0;
    // Bytes of the changes that are stored, numbered from `first_change`.
    std::deque<size_t> changes;
    uint64_t first_change = 1;
    size_t change_bytes = 0;
    // The series to store anew next.
    size_t next_series = 0;
  };

  void AddChanges(State& state, JobStoreBatch& batch) const;
  void AddCut(const JobHistory::Mark& mark, State& state, JobStoreBatch& batch) const;
  void AddMarks(const std::deque<JobHistory::Mark>& marks, JobStoreBatch& batch) const;
  void AddEnd(const Part::End& end, JobStoreBatch& batch) const;
  // Stores all series of a history whole, and returns the state after that.
  State AddWhole(const JobHistory& history, JobStoreBatch& batch) const;
  void AddSeries(size_t index, const JobHistory::Named& named, uint64_t change, State& state,
                 JobStoreBatch& batch) const;
  // Stores series anew until some bytes are written, and removes the changes that all include.
  void Rewrite(size_t bytes, State& state, JobStoreBatch& batch) const;
  absl::Status Restore(const HistoryRecords& records);

  const std::string job_id_;
  JobHistory history_;
  State state_;
  // The part and the state after Written.
  Part part_;
  State next_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_HISTORY_STORED_HISTORY_H_
