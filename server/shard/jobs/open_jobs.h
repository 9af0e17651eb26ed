#ifndef MUSTER_SERVER_SHARD_JOBS_OPEN_JOBS_H_
#define MUSTER_SERVER_SHARD_JOBS_OPEN_JOBS_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/shard/jobs/open_job.h"
#include "server/shard/tables/job_tables.h"

namespace muster {

namespace v1 {
class DropTablesRequest;
class EndGenerationReply;
class EndGenerationRequest;
class ExchangeRequest;
class OpenTablesReply;
class OpenTablesRequest;
class ReplayStatus;
}  // namespace v1

// The jobs of a server: which generation of each is open, and whose turn it is to open, drop or
// change a job. A later generation replaces an earlier one. Thread-safe.
class OpenJobs {
 public:
  // The right to open a job, to drop it, and to change its set of partitions.
  struct Turn {
    // The highest that was opened here; 0: none.
    uint64_t generation = 0;
    // All generations before this one have ended, whether it is open yet or not.
    uint64_t ended_by = 0;
    // Null: not open.
    std::shared_ptr<OpenJob> job;

    // Returns the first generation that is served, or is going to be.
    uint64_t first() const { return std::max(generation, ended_by); }
  };

  // See ShardEngine::Options.
  struct Options {
    uint64_t process_nonce = 0;
    std::function<void(const v1::ReplayStatus&)> replayed;
  };

  // The resources must outlive it; their `unwanted` asks IsUnwanted.
  OpenJobs(const ShardResources& resources, Options options);

  // Opens a generation of a job, or joins it where it is open. Blocks while it reads. Errors as the
  // rpc OpenTables.
  absl::StatusOr<v1::OpenTablesReply> Open(const v1::OpenTablesRequest& request);
  // Ends the generations that the request names, in its partitions. Errors as the rpc
  // EndGeneration.
  absl::StatusOr<v1::EndGenerationReply> End(const v1::EndGenerationRequest& request);
  // Drops the generations that the request names. Errors as the rpc DropTables.
  absl::Status Drop(const v1::DropTablesRequest& request);
  // Ends all open jobs; what they hold and get is answered with `status`.
  void CloseAll(const absl::Status& status);

  // Returns the open job that an operation is for. Errors as the rpc Exchange.
  absl::StatusOr<std::shared_ptr<OpenJob>> Find(const v1::ExchangeRequest& request) const;
  std::vector<std::shared_ptr<OpenJob>> All() const;
  // See ShardEngine::HeldJobs.
  absl::StatusOr<std::vector<std::string>> Held() const;

  // Waits for the right to change a job, which lasts until GiveBack. Operations on open partitions
  // go on.
  Turn Take(const std::string& job_id);
  void GiveBack(const std::string& job_id, Turn turn);

  // Returns whether somebody waits to drop this generation, or to open a later one.
  bool IsUnwanted(const std::string& job_id, uint64_t generation) const;

 private:
  // A job that is open, about to be opened or dropped, or neither after that failed.
  struct Entry {
    // Highest generation that was opened, or that somebody tried to open.
    uint64_t generation = 0;
    // See Turn.
    uint64_t ended_by = 0;
    // One caller opens or drops; others wait.
    bool busy = false;
    std::shared_ptr<OpenJob> job;

    uint64_t first() const { return std::max(generation, ended_by); }
  };
  class Unwanted;

  // Opens those of the partitions asked for that are stored here, but are not open: they have come
  // from other servers and have not been asked for before, or have failed.
  absl::Status OpenMissing(const OpenJob& job, const JobTables& tables);
  void TellReplayed(const JobTables& tables) const;

  // Drops a job's generations up to `last`, also (kClose) if they are open.
  enum class InUse { kClose, kLeave };
  absl::Status DropUpTo(const std::string& job_id, uint64_t last, InUse in_use);
  // Tries again to drop what could not be dropped.
  void DropLeft();
  void NoteLeftLocked(const std::string& job_id, uint64_t last)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  bool IsUnwantedLocked(const std::string& job_id, uint64_t generation) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // Waits for the right to open or drop the job. The mutex is released while waiting.
  Entry& AwaitEntryLocked(const std::string& job_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether a generation after this one is open, or being opened, or goes on with what is
  // open.
  bool IsPastLocked(const std::string& job_id, uint64_t generation) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ShardResources& resources_;
  const Options options_;

  // Held for look-ups alone: shared by all operations, exclusively when a job is opened or dropped.
  mutable absl::Mutex mutex_;
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  // Jobs that may have left something on the disk that was to be dropped: of generations up to this
  // one.
  std::map<std::string, uint64_t> left_ ABSL_GUARDED_BY(mutex_);
  // By job: generations up to which nobody is to go on opening.
  std::multimap<std::string, uint64_t> unwanted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_JOBS_OPEN_JOBS_H_
