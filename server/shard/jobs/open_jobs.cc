#include "server/shard/jobs/open_jobs.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/catch_out_of_memory.h"
#include "common/base/status_macros.h"
#include "proto/parameter_service.pb.h"
#include "proto/status.pb.h"
#include "server/shard/jobs/generation_end.h"
#include "server/shard/jobs/join_tables.h"
#include "server/shard/jobs/shard_map_checks.h"
#include "server/shard/jobs/stored_job.h"
#include "server/shard/resources/replay_meter.h"

namespace muster {
// An order that stands as long as the object lives: openings of a job's generations up to `last`
// end soon, and nobody waits for their turn to begin one.
class OpenJobs::Unwanted {
 public:
  Unwanted(OpenJobs& jobs, const std::string& job_id, uint64_t last) : jobs_(jobs) {
    absl::MutexLock lock(&jobs_.mutex_);
    place_ = jobs_.unwanted_.emplace(job_id, last);
  }
  ~Unwanted() {
    absl::MutexLock lock(&jobs_.mutex_);
    jobs_.unwanted_.erase(place_);
  }
  Unwanted(const Unwanted&) = delete;
  Unwanted& operator=(const Unwanted&) = delete;

 private:
  OpenJobs& jobs_;
  std::multimap<std::string, uint64_t>::iterator place_;
};

OpenJobs::OpenJobs(const ShardResources& resources, Options options)
    : resources_(resources), options_(std::move(options)) {}

void OpenJobs::CloseAll(const absl::Status& status) {
  std::vector<std::shared_ptr<OpenJob>> jobs;
  {
    absl::MutexLock lock(&mutex_);
    for (auto& [job_id, entry] : entries_) {
      if (entry.job != nullptr) jobs.push_back(std::move(entry.job));
    }
  }
  for (const std::shared_ptr<OpenJob>& job : jobs) job->Close(status);
}

bool OpenJobs::IsUnwanted(const std::string& job_id, uint64_t generation) const {
  absl::ReaderMutexLock lock(&mutex_);
  return IsUnwantedLocked(job_id, generation);
}

bool OpenJobs::IsUnwantedLocked(const std::string& job_id, uint64_t generation) const {
  const auto [begin, end] = unwanted_.equal_range(job_id);
  return std::any_of(begin, end, [&](const auto& each) { return each.second >= generation; });
}

OpenJobs::Entry& OpenJobs::AwaitEntryLocked(const std::string& job_id) {
  for (;;) {
    Entry& entry = entries_[job_id];
    if (!entry.busy) return entry;
    // The entry may be gone after the wait, so it is looked up again, then and while waiting.
    const auto not_busy = [this, &job_id]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      const auto found = entries_.find(job_id);
      return found == entries_.end() || !found->second.busy;
    };
    mutex_.Await(absl::Condition(&not_busy));
  }
}

absl::StatusOr<v1::OpenTablesReply> OpenJobs::Open(const v1::OpenTablesRequest& request) {
  MUSTER_RETURN_IF_ERROR(CheckProcess(request, options_.process_nonce, resources_.server_name));
  MUSTER_ASSIGN_OR_RETURN(const std::shared_ptr<const JobTables> tables,
                          JobTables::Create(request));
  const std::string& job_id = tables->job_id();
  if (tables->generation() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("generation of job ", job_id, " is 0; the coordinator counts them from 1 on"));
  }
  DropLeft();
  const Unwanted earlier(*this, job_id, tables->generation() - 1);
  std::shared_ptr<OpenJob> open;
  // With the job that is replaced, until it is closed.
  Turn turn;
  {
    absl::MutexLock lock(&mutex_);
    const auto may_go = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      const auto found = entries_.find(job_id);
      return found == entries_.end() || !found->second.busy ||
             IsUnwantedLocked(job_id, tables->generation());
    };
    mutex_.Await(absl::Condition(&may_go));
    if (IsUnwantedLocked(job_id, tables->generation())) {
      return UnwantedError(job_id, tables->generation());
    }
    Entry& entry = AwaitEntryLocked(job_id);
    if (tables->generation() < entry.first()) {
      return GenerationFenced(job_id, tables->generation(), entry.first());
    }
    if (entry.job != nullptr && entry.generation == tables->generation()) {
      open = entry.job;
    } else {
      turn = {
          .generation = entry.generation, .ended_by = entry.ended_by, .job = std::move(entry.job)};
      entry.busy = true;
      entry.generation = tables->generation();
    }
  }
  if (open != nullptr) {
    MUSTER_RETURN_IF_ERROR(OpenMissing(*open, *tables));
    return JoinTables(*open, *tables);
  }

  absl::StatusOr<std::shared_ptr<OpenJob>> opened;
  {
    const auto give_back = absl::MakeCleanup([&] { GiveBack(job_id, std::move(turn)); });
    const uint64_t next = tables->generation();
    const absl::Status fenced = GenerationFenced(job_id, turn.generation, next);
    opened = CatchOutOfMemory(absl::StrCat("opening the tables of job ", job_id), [&] {
      const bool takes_over =
          request.takes_over_generation() > 0 && turn.generation >= request.takes_over_generation();
      if (turn.job != nullptr && !takes_over) {
        turn.job->Close(fenced);
        turn.job.reset();
      }
      resources_.replays->Forget(job_id, next - 1);
      return OpenJob::Open(tables, resources_, turn.job.get());
    });
    turn.ended_by = std::max(turn.ended_by, next);
    // An ended generation that is whole still is left to another attempt.
    const bool kept = !opened.ok() && turn.job != nullptr && !turn.job->gave_away();
    if (!kept) {
      if (turn.job != nullptr) turn.job->Close(fenced);
      turn.generation = next;
      turn.job = opened.ok() ? *opened : nullptr;
    }
    if (!opened.ok() && request.takes_over_generation() == 0) {
      // It may have failed at dropping them.
      absl::MutexLock lock(&mutex_);
      NoteLeftLocked(job_id, next - 1);
    }
  }
  if (!opened.ok()) return opened.status();
  TellReplayed(*tables);
  return JoinTables(**opened, *tables);
}

absl::StatusOr<v1::EndGenerationReply> OpenJobs::End(const v1::EndGenerationRequest& request) {
  MUSTER_RETURN_IF_ERROR(CheckProcess(request, options_.process_nonce, resources_.server_name));
  const std::string& job_id = request.job_id();
  if (job_id.empty()) return absl::InvalidArgumentError("job_id is empty");
  const uint64_t next = request.next_generation();
  if (request.oldest_generation() == 0 || request.oldest_generation() >= next) {
    return absl::InvalidArgumentError(
        absl::StrCat("oldest_generation is ", request.oldest_generation(), ", next_generation ",
                     next, "; expected generations from 1 on, the oldest before the next"));
  }
  const Unwanted earlier(*this, job_id, next - 1);
  Turn turn;
  {
    absl::MutexLock lock(&mutex_);
    Entry& entry = AwaitEntryLocked(job_id);
    if (next < entry.first()) return GenerationFenced(job_id, next, entry.first());
    entry.busy = true;
    // Before the clocks are read.
    entry.ended_by = next;
    turn = {.generation = entry.generation, .ended_by = next, .job = entry.job};
  }
  const auto give_back = absl::MakeCleanup([&] { GiveBack(job_id, std::move(turn)); });
  return CatchOutOfMemory(absl::StrCat("ending a generation of job ", job_id),
                          [&] { return EndPartitions(request, turn.job.get(), resources_); });
}

void OpenJobs::TellReplayed(const JobTables& tables) const {
  if (options_.replayed == nullptr) return;
  for (const v1::ReplayStatus& replay : resources_.replays->Replays()) {
    if (replay.job_id() == tables.job_id() && replay.generation() == tables.generation() &&
        replay.records() > 0) {
      options_.replayed(replay);
    }
  }
}

OpenJobs::Turn OpenJobs::Take(const std::string& job_id) {
  absl::MutexLock lock(&mutex_);
  Entry& entry = AwaitEntryLocked(job_id);
  entry.busy = true;
  return {.generation = entry.generation, .ended_by = entry.ended_by, .job = entry.job};
}

void OpenJobs::GiveBack(const std::string& job_id, Turn turn) {
  absl::MutexLock lock(&mutex_);
  if (turn.first() == 0) {
    entries_.erase(job_id);
    return;
  }
  Entry& entry = entries_[job_id];
  entry.busy = false;
  entry.generation = turn.generation;
  entry.ended_by = turn.ended_by;
  entry.job = std::move(turn.job);
}

absl::Status OpenJobs::OpenMissing(const OpenJob& job, const JobTables& tables) {
  if (!tables.durable() || job.tables().fingerprint() != tables.fingerprint()) {
    return absl::OkStatus();
  }
  const auto is_missing = [&](const v1::PartitionTerm& term) {
    const OpenJob::Found found = job.Find(term.partition());
    const bool not_here = found.partition == nullptr && found.absence == OpenJob::Absence::kNotHere;
    return not_here || found.failed();
  };
  const auto& wanted = tables.request().partitions();
  if (std::none_of(wanted.begin(), wanted.end(), is_missing)) return absl::OkStatus();
  Turn turn = Take(tables.job_id());
  const auto give_back = absl::MakeCleanup([&] { GiveBack(tables.job_id(), std::move(turn)); });
  absl::Status status;
  if (turn.first() > tables.generation()) {
    status = GenerationFenced(tables.job_id(), tables.generation(), turn.first());
  } else if (turn.job.get() != &job) {
    status = absl::UnavailableError(
        absl::StrCat("the tables of job ", tables.job_id(), " are being opened; try again"));
  }
  for (const v1::PartitionTerm& term : wanted) {
    if (!status.ok() || !is_missing(term)) continue;
    const bool failed = turn.job->Find(term.partition()).failed();
    status = failed ? turn.job->Reopen(term.partition()) : turn.job->AddPartition(term.partition());
    if (status.ok() && failed) TellReplayed(turn.job->tables());
  }
  return status;
}

bool OpenJobs::IsPastLocked(const std::string& job_id, uint64_t generation) const {
  const auto found = entries_.find(job_id);
  return found != entries_.end() && found->second.first() > generation &&
         (found->second.busy || found->second.job != nullptr);
}

absl::Status OpenJobs::Drop(const v1::DropTablesRequest& request) {
  const std::string& job_id = request.job_id();
  if (job_id.empty()) return absl::InvalidArgumentError("job_id is empty");
  DropLeft();
  return DropUpTo(job_id, request.generation() == 0 ? kEveryGeneration : request.generation(),
                  InUse::kClose);
}

absl::StatusOr<std::vector<std::string>> OpenJobs::Held() const {
  std::set<std::string> held;
  if (resources_.store != nullptr) {
    MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> stored, resources_.store->Jobs());
    held.insert(stored.begin(), stored.end());
  }
  absl::ReaderMutexLock lock(&mutex_);
  for (const auto& [job_id, entry] : entries_) {
    if (entry.job != nullptr) held.insert(job_id);
  }
  return std::vector<std::string>(held.begin(), held.end());
}

std::vector<std::shared_ptr<OpenJob>> OpenJobs::All() const {
  absl::ReaderMutexLock lock(&mutex_);
  std::vector<std::shared_ptr<OpenJob>> jobs;
  for (const auto& [job_id, entry] : entries_) {
    if (entry.job != nullptr) jobs.push_back(entry.job);
  }
  return jobs;
}

void OpenJobs::DropLeft() {
  std::map<std::string, uint64_t> left;
  {
    absl::ReaderMutexLock lock(&mutex_);
    left = left_;
  }
  // A drop that fails again is left again.
  for (const auto& [job_id, last] : left) DropUpTo(job_id, last, InUse::kLeave).IgnoreError();
}

void OpenJobs::NoteLeftLocked(const std::string& job_id, uint64_t last) {
  // A caller that drops generations yet to come gets the error, and may drop them again.
  if (resources_.store == nullptr || last == kEveryGeneration) return;
  uint64_t& left = left_[job_id];
  left = std::max(left, last);
}

absl::Status OpenJobs::DropUpTo(const std::string& job_id, uint64_t last, InUse in_use) {
  std::optional<Unwanted> unwanted;
  if (in_use == InUse::kClose) unwanted.emplace(*this, job_id, last);
  // With the job that is dropped, until it is closed.
  Turn turn;
  {
    absl::MutexLock lock(&mutex_);
    // Whoever opens a later generation drops earlier ones, and need not be waited for.
    if (IsPastLocked(job_id, last)) return absl::OkStatus();
    if (in_use == InUse::kLeave) {
      const auto found = entries_.find(job_id);
      const bool used = found != entries_.end() && (found->second.busy || found->second.job);
      if (used) return absl::OkStatus();
    }
    Entry& entry = AwaitEntryLocked(job_id);
    if (IsPastLocked(job_id, last)) return absl::OkStatus();
    entry.busy = true;
    turn = {
        .generation = entry.generation, .ended_by = entry.ended_by, .job = std::move(entry.job)};
  }
  const auto give_back = absl::MakeCleanup([&] { GiveBack(job_id, std::move(turn)); });
  const absl::Status status =
      CatchOutOfMemory(absl::StrCat("dropping the tables of job ", job_id), [&] {
        if (turn.job != nullptr) {
          turn.job->Close(
              absl::NotFoundError(absl::StrCat("the tables of job ", job_id, " were dropped")));
          turn.job.reset();
        }
        // A generation that could not be opened fences those before it.
        if (turn.generation <= last) turn.generation = 0;
        if (turn.ended_by <= last) turn.ended_by = 0;
        resources_.replays->Forget(job_id, last);
        return DeleteStoredGenerations(job_id, last, resources_);
      });
  absl::MutexLock lock(&mutex_);
  if (!status.ok()) {
    NoteLeftLocked(job_id, last);
  } else if (const auto left = left_.find(job_id); left != left_.end() && left->second <= last) {
    left_.erase(left);
  }
  return status;
}

absl::StatusOr<std::shared_ptr<OpenJob>> OpenJobs::Find(const v1::ExchangeRequest& request) const {
  std::shared_ptr<OpenJob> job;
  uint64_t generation = 0;
  uint64_t first = 0;
  bool busy = false;
  {
    absl::ReaderMutexLock lock(&mutex_);
    const auto found = entries_.find(request.job_id());
    if (found != entries_.end()) {
      generation = found->second.generation;
      first = found->second.first();
      busy = found->second.busy;
      job = found->second.job;
    }
  }
  if (job == nullptr && !busy) {
    return absl::NotFoundError(absl::StrCat("job ", request.job_id(),
                                            " is not open on this server; open its tables first"));
  }
  if (request.generation() < first) {
    return GenerationFenced(request.job_id(), request.generation(), first);
  }
  if (request.generation() > generation) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", request.job_id(), " is open under generation ", generation,
                     ", the request has ", request.generation(), "; open tables first"));
  }
  if (job == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("the tables of job ", request.job_id(), " are being opened; try again"));
  }
  return job;
}

}  // namespace muster
