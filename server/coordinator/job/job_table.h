#ifndef MUSTER_SERVER_COORDINATOR_JOB_JOB_TABLE_H_
#define MUSTER_SERVER_COORDINATOR_JOB_JOB_TABLE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/clock.h"
#include "proto/job_record.pb.h"
#include "server/coordinator/job/job.h"
#include "server/coordinator/job/job_alert.h"
#include "server/coordinator/store/job_store.h"

namespace muster {

struct JobTableOptions {
  // Bytes of log text kept per job.
  uint64_t max_log_bytes = 4 << 20;
  // A number drawn by this process. It distinguishes the job ids that the process gives from those
  // of any other store, and of processes that went on from a state of this store that was lost
  // later.
  uint32_t identity = 0;
  // Receives a line about each damaged record that the table can do without; may be empty.
  std::function<void(absl::string_view)> log;
  // Receives what users may want to hear of at once; may be empty. Does not block.
  std::function<void(JobAlert)> alert;
};

// Maps job ids, or server ids, to the last generation of tables that is to be dropped. 0: any, for
// forgotten jobs and in records of earlier releases.
using Drops = std::map<std::string, uint64_t>;

// An event to add to a job.
struct NewEvent {
  // Implicit, since most events are a text.
  NewEvent(std::string text, v1::JobEvent::Kind kind = v1::JobEvent::KIND_UNSPECIFIED)
      : text(std::move(text)), kind(kind) {}
  NewEvent(const char* text) : NewEvent(std::string(text)) {}

  std::string text;
  v1::JobEvent::Kind kind;
};

// A change of a job's record, and what is stored with it.
struct JobChange {
  v1::JobRecord record;
  // Events to add to the job's history.
  std::vector<NewEvent> events;
  // Servers that are to drop the job's tables, up to which generation; added to earlier drops.
  Drops drops;
  // New value of Job::data_preparation; empty: unchanged.
  std::string data_preparation;
};

// All jobs, and all else that must survive a restart. A change is stored before it is visible here,
// so a restart forgets nothing that was acted on; one that cannot be stored does not happen. But
// log text, progress and history show at once, and they and AddEvent's events are not synced:
// losing the last seconds of them costs nothing. Errors are the store's. Logic thread only.
class JobTable {
 public:
  // Reads the store. Store and clock outlive the table. DATA_LOSS: a record is unreadable; a
  // damaged history is salvaged instead. FAILED_PRECONDITION: a newer release wrote one.
  static absl::StatusOr<std::unique_ptr<JobTable>> Load(JobStore& store, const Clock& clock,
                                                        JobTableOptions options);

  // Adds a job and gives it its id and number.
  absl::StatusOr<Job*> Create(v1::JobRecord record, const std::string& event,
                              std::string data_preparation = "");
  // Stores and applies a change. A new generation takes progress back to its start and cuts the
  // history there, or if it takes over tables takes progress to where it goes on, once it has met;
  // the history of a job that ends leaves the memory. FAILED_PRECONDITION: the state machine
  // forbids the step.
  absl::Status Commit(Job& job, JobChange change);
  // Removes a job with its events, log and history; `job` is destroyed.
  absl::Status Remove(Job& job);

  // Appends text that a task of this slot wrote.
  absl::Status AppendLog(Job& job, uint32_t slot, absl::string_view text);
  absl::Status AddEvent(Job& job, const std::string& text);
  // Tells an alert about a job; Commit tells those of its end. Evaluations have none.
  void Alert(const Job& job, JobAlert::Kind kind, absl::string_view text) const;
  // Stores the job's progress, and what changed in its history.
  absl::Status SaveProgress(Job& job);
  // Returns whether changes of the history have waited for some seconds.
  bool HistoryIsDue(const Job& job) const;
  // Reads the history of a job that has ended.
  absl::StatusOr<std::unique_ptr<StoredHistory>> ReadHistory(const Job& job) const {
    return StoredHistory::Read(store_, job.id(), HistoryOptionsOf(job.record));
  }

  // Returns the job, or null.
  Job* Find(absl::string_view job_id) const;
  Job* FindRequest(absl::string_view request_id) const;
  // Returns whether this store once gave the id to a job that it has since removed.
  bool IsForgotten(absl::string_view job_id) const;
  // Jobs in order of submission.
  const std::map<uint64_t, std::unique_ptr<Job>>& jobs() const { return jobs_; }

  // Daemons that had a lease before the restart.
  const std::vector<v1::DaemonRecord>& stored_daemons() const { return stored_daemons_; }
  uint64_t next_incarnation() const { return store_record_.next_daemon_incarnation(); }
  // Store, or remove, all of these daemons or none, with one sync. Those that are stored were given
  // incarnations from `next_incarnation` on, or registered again.
  absl::Status PutDaemons(const std::vector<v1::DaemonRecord>& daemons);
  absl::Status RemoveDaemons(const std::vector<std::string>& ids);

  // Returns the jobs whose tables a server is still to drop.
  const Drops& DropsOf(absl::string_view server_id) const;
  // Drops by server.
  const std::map<std::string, Drops, std::less<>>& drops() const { return drops_; }
  // Orders a server to drop what it holds of a job that has ended or was removed.
  absl::Status NoteDrop(const std::string& server_id, const std::string& job_id,
                        uint64_t generation);
  // Removes drops that the server has carried out; a later generation's drop stays.
  absl::Status ClearDrops(absl::string_view server_id, const Drops& jobs);

  // Servers that are given nothing new and move away what they have.
  const std::set<std::string, std::less<>>& draining() const { return draining_; }
  absl::Status Drain(const std::string& server_id);
  absl::Status EndDrain(const std::string& server_id);

  // Grows with every change that orders may depend on.
  uint64_t version() const { return version_; }

  int64_t NowUnixMs() const;

 private:
  JobTable(JobStore& store, const Clock& clock, JobTableOptions options);

  // Returns the id that the store with this record gave, or gives, to the job of this number.
  static std::string IdOf(uint64_t number, const v1::StoreRecord& store);
  absl::Status LoadAll();
  absl::Status LoadJobs();
  absl::Status LoadHistory(Job& job);
  absl::Status LoadLogs();
  std::vector<v1::JobEvent> AddEvents(const Job& job, const std::vector<NewEvent>& added,
                                      JobStoreBatch& batch) const;
  // Adds to a batch what is to be stored of the history with the record `next`, and takes note that
  // it was stored.
  StoredHistory::Part AddHistory(Job& job, const v1::JobRecord& next, JobStoreBatch& batch) const;
  void HistoryStored(Job& job, const StoredHistory::Part& part) const;
  void ShowEvents(Job& job, const std::vector<v1::JobEvent>& events);
  void Insert(std::unique_ptr<Job> job);

  JobStore& store_;
  const Clock& clock_;
  const JobTableOptions options_;
  v1::StoreRecord store_record_;
  std::map<uint64_t, std::unique_ptr<Job>> jobs_;
  absl::flat_hash_map<std::string, Job*> by_id_;
  absl::flat_hash_map<std::string, Job*> by_request_;
  std::vector<v1::DaemonRecord> stored_daemons_;
  std::map<std::string, Drops, std::less<>> drops_;
  std::set<std::string, std::less<>> draining_;
  uint64_t version_ = 1;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_JOB_TABLE_H_
