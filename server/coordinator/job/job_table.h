#ifndef MUSTER_SERVER_COORDINATOR_JOB_JOB_TABLE_H_
#define MUSTER_SERVER_COORDINATOR_JOB_JOB_TABLE_H_

#include <cstdint>
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
#include "server/coordinator/store/job_store.h"

namespace muster {

struct JobTableOptions {
  // Of log text kept per job.
  uint64_t max_log_bytes = 4 << 20;
  // Events kept per job.
  size_t max_events = 1000;
  // Of a new store: tells its jobs' ids from those of any other.
  uint32_t identity = 0;
};

// Generations by id: those up to this one are to be dropped. 0 stands for whichever is there: of
// jobs that are forgotten, and in what earlier releases stored.
using Drops = std::map<std::string, uint64_t>;

// What is to become of a job's record, and what goes with it.
struct JobChange {
  v1::JobRecord record;
  // For the job's history.
  std::vector<std::string> events;
  // Servers that are to drop the job's tables, and up to which generation; taken together with
  // those noted before.
  Drops drops;
  // Job::data_preparation from here on; empty: as it is.
  std::string data_preparation;
};

// All jobs, and all else that must survive a restart. Every change is in the store before it can be
// seen here, so nothing is ever acted on that a restart would forget; a change that cannot be
// stored does not happen. Logic thread only.
class JobTable {
 public:
  // Reads the store. The store and clock outlive the table.
  static absl::StatusOr<std::unique_ptr<JobTable>> Load(JobStore& store, const Clock& clock,
                                                        JobTableOptions options);

  // Adds a job; its id and number are given here.
  absl::StatusOr<Job*> Create(v1::JobRecord record, const std::string& event,
                              std::string data_preparation = "");
  // FAILED_PRECONDITION: the state machine does not allow the step. Otherwise the store's errors.
  absl::Status Commit(Job& job, JobChange change);
  // Forgets a job with its events and log. The reference is dangling afterwards.
  absl::Status Remove(Job& job);

  // Text that a task of this slot wrote.
  absl::Status AppendLog(Job& job, uint32_t slot, absl::string_view text);
  absl::Status AddEvent(Job& job, const std::string& text);
  // Progress, not synced: losing the last seconds of it costs nothing.
  absl::Status SaveProgress(Job& job);

  // Null: no such job.
  Job* Find(absl::string_view job_id) const;
  Job* FindRequest(absl::string_view request_id) const;
  // Whether this store has given the id to a job and forgotten it since.
  bool IsForgotten(absl::string_view job_id) const;
  // In order of submission.
  const std::map<uint64_t, std::unique_ptr<Job>>& jobs() const { return jobs_; }

  // Daemons that held a lease when the store was written last.
  const std::vector<v1::DaemonRecord>& stored_daemons() const { return stored_daemons_; }
  uint64_t next_incarnation() const { return store_record_.next_daemon_incarnation(); }
  // A daemon got `next_incarnation`, or registered again.
  absl::Status PutDaemon(const v1::DaemonRecord& daemon);
  absl::Status RemoveDaemon(absl::string_view id);

  // By job: whose tables a server is still to drop.
  const Drops& DropsOf(absl::string_view server_id) const;
  // By server.
  const std::map<std::string, Drops, std::less<>>& drops() const { return drops_; }
  // The server holds something of the job, which has ended or is forgotten, and is to drop it.
  absl::Status NoteDrop(const std::string& server_id, const std::string& job_id,
                        uint64_t generation);
  // The server has dropped these. What was added since, of a later generation, stays.
  absl::Status ClearDrops(absl::string_view server_id, const Drops& jobs);

  // Servers that get nothing new, and are to give away what they have.
  const std::set<std::string, std::less<>>& draining() const { return draining_; }
  absl::Status Drain(const std::string& server_id);
  absl::Status EndDrain(const std::string& server_id);

  // Grows with every change that orders may depend on.
  uint64_t version() const { return version_; }

  int64_t NowUnixMs() const;

 private:
  JobTable(JobStore& store, const Clock& clock, JobTableOptions options);

  std::string IdOf(uint64_t number) const;
  absl::Status LoadAll();
  absl::Status LoadJobs();
  absl::Status LoadLogs();
  std::vector<v1::JobEvent> AddEvents(const Job& job, const std::vector<std::string>& texts,
                                      JobStoreBatch& batch) const;
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
