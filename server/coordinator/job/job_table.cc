#include "server/coordinator/job/job_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "common/text/utf8.h"
#include "server/coordinator/job/goodput.h"
#include "server/coordinator/job/job_state_machine.h"
#include "server/coordinator/job/request_limits.h"

namespace muster {
namespace {

constexpr uint32_t kFormatVersion = 1;
// Events that are kept of a job.
constexpr size_t kMaxEvents = 1000;
// Identities that are kept. Forgotten jobs of earlier ones are unknown (IsForgotten).
constexpr int kMostIdentities = 1000;
// History that a crash may lose.
constexpr absl::Duration kHistoryInterval = absl::Seconds(5);

// Returns the clocks that a job may go back to.
Boundaries BoundariesOf(const v1::JobRecord& record) {
  Boundaries boundaries{.every = record.spec().checkpoint().every_steps()};
  for (const v1::CheckpointRecord& checkpoint : record.checkpoints()) {
    boundaries.clocks.push_back(checkpoint.clock());
  }
  // The checkpoint that the last evaluation asked for may be under way.
  if (const auto& evaluations = record.evaluations(); !evaluations.empty()) {
    const uint64_t last = evaluations.rbegin()->clock();
    if (boundaries.clocks.empty() || boundaries.clocks.back() < last) {
      boundaries.clocks.push_back(last);
    }
  }
  return boundaries;
}

// Has the jobs from `number` on get ids with this identity.
void SetIdentity(uint32_t identity, uint64_t number, v1::StoreRecord& store) {
  auto& identities = *store.mutable_job_identities();
  if (identity == (identities.empty() ? store.identity() : identities.rbegin()->identity())) return;
  if (identities.size() == kMostIdentities) identities.erase(identities.begin());
  v1::StoreRecord::JobIdentity& added = *identities.Add();
  added.set_first_number(number);
  added.set_identity(identity);
}

// REQUIRES: a final state.
JobAlert::Kind EndOf(v1::JobState state) {
  if (state == v1::SUCCEEDED) return JobAlert::Kind::kSucceeded;
  return state == v1::CANCELLED ? JobAlert::Kind::kCancelled : JobAlert::Kind::kFailed;
}

template <typename Record>
absl::Status Parse(absl::string_view bytes, absl::string_view what, Record& record) {
  if (!record.ParseFromArray(bytes.data(), bytes.size())) {
    return absl::DataLossError(absl::StrCat("the stored record of ", what, " is unreadable"));
  }
  if (record.format_version() > kFormatVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the stored record of ", what, " has format version ", record.format_version(),
        ", written by a later release of Muster; this one reads formats up to ", kFormatVersion));
  }
  return absl::OkStatus();
}

absl::StatusOr<JobLog::Origin> ParseOrigin(absl::string_view key, absl::string_view value) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(value, ' ');
  JobLog::Origin origin;
  if (!absl::SimpleAtoi(parts.first, &origin.slot.emplace()) ||
      !absl::SimpleAtoi(parts.second, &origin.unix_ms)) {
    return absl::DataLossError(absl::StrCat("the stored origin of log text of job ",
                                            SplitStoreKey(key).first, " is unreadable"));
  }
  return origin;
}

// Returns whether `next` takes progress back to its start: a generation that starts from a
// checkpoint does, and one that takes over tables once it knows the clock at which it goes on.
bool GoesBack(const v1::JobRecord& before, const v1::JobRecord& next) {
  if (next.takes_over_generation() == 0) return next.generation() > before.generation();
  return next.has_met() && !before.has_met();
}

}  // namespace

JobTable::JobTable(JobStore& store, const Clock& clock, JobTableOptions options)
    : store_(store), clock_(clock), options_(options) {}

absl::StatusOr<std::unique_ptr<JobTable>> JobTable::Load(JobStore& store, const Clock& clock,
                                                         JobTableOptions options) {
  std::unique_ptr<JobTable> table(new JobTable(store, clock, options));
  MUSTER_RETURN_IF_ERROR(table->LoadAll());
  return table;
}

absl::Status JobTable::LoadAll() {
  bool found = false;
  MUSTER_RETURN_IF_ERROR(
      store_.Scan(StoreTable::kStore, "", [&](absl::string_view, absl::string_view value) {
        found = true;
        return Parse(value, "the store", store_record_);
      }));
  if (!found) {
    store_record_.set_format_version(kFormatVersion);
    store_record_.set_identity(options_.identity);
    store_record_.set_next_job_number(1);
    store_record_.set_next_daemon_incarnation(1);
    JobStoreBatch batch;
    batch.Put(StoreTable::kStore, "", store_record_.SerializeAsString());
    MUSTER_RETURN_IF_ERROR(store_.Write(batch, JobStore::Durability::kSynced));
  }
  MUSTER_RETURN_IF_ERROR(
      store_.Scan(StoreTable::kDaemons, "", [&](absl::string_view key, absl::string_view value) {
        v1::DaemonRecord daemon;
        MUSTER_RETURN_IF_ERROR(Parse(value, absl::StrCat("daemon ", key), daemon));
        // A release without limits stored it; today the daemon would be refused, and it is gone.
        if (CheckLimits(daemon).ok()) stored_daemons_.push_back(std::move(daemon));
        return absl::OkStatus();
      }));
  MUSTER_RETURN_IF_ERROR(
      store_.Scan(StoreTable::kDrops, "", [&](absl::string_view key, absl::string_view value) {
        auto [server, job] = SplitStoreKey(key);
        uint64_t generation = 0;
        if (!value.empty() && !absl::SimpleAtoi(value, &generation)) {
          return absl::DataLossError(absl::StrCat("the stored drop of job ", job, " by server ",
                                                  server, " is unreadable"));
        }
        drops_[std::move(server)][std::move(job)] = generation;
        return absl::OkStatus();
      }));
  MUSTER_RETURN_IF_ERROR(
      store_.Scan(StoreTable::kDrains, "", [&](absl::string_view key, absl::string_view) {
        draining_.emplace(key);
        return absl::OkStatus();
      }));
  return LoadJobs();
}

absl::Status JobTable::LoadJobs() {
  MUSTER_RETURN_IF_ERROR(
      store_.Scan(StoreTable::kJobs, "", [&](absl::string_view key, absl::string_view value) {
        v1::JobRecord record;
        MUSTER_RETURN_IF_ERROR(Parse(value, absl::StrCat("job ", key), record));
        ShortenStrings(record);
        ShortenStrings(*record.mutable_spec());
        Insert(std::make_unique<Job>(std::move(record), options_.max_log_bytes));
        return absl::OkStatus();
      }));
  MUSTER_RETURN_IF_ERROR(
      store_.Scan(StoreTable::kEvents, "", [&](absl::string_view key, absl::string_view value) {
        Job* job = Find(SplitStoreKey(key).first);
        if (job == nullptr) return absl::OkStatus();
        if (!job->events.emplace_back().ParseFromArray(value.data(), value.size())) {
          return absl::DataLossError(
              absl::StrCat("a stored event of job ", job->id(), " is unreadable"));
        }
        ShortenStrings(job->events.back());
        job->next_event = StoreKeyNumber(key) + 1;
        return absl::OkStatus();
      }));
  MUSTER_RETURN_IF_ERROR(store_.Scan(StoreTable::kDataPreparations, "",
                                     [&](absl::string_view key, absl::string_view value) {
                                       Job* job = Find(key);
                                       if (job != nullptr)
                                         job->data_preparation.assign(value.data(), value.size());
                                       return absl::OkStatus();
                                     }));
  for (const auto& [number, job] : jobs_) {
    if (job->history != nullptr) MUSTER_RETURN_IF_ERROR(LoadHistory(*job));
  }
  return LoadLogs();
}

absl::Status JobTable::LoadHistory(Job& job) {
  absl::StatusOr<std::unique_ptr<StoredHistory>> read = ReadHistory(job);
  if (absl::IsDataLoss(read.status())) {
    JobStoreBatch batch;
    const std::string damage(read.status().message());
    read = StoredHistory::Salvage(store_, job.id(), HistoryOptionsOf(job.record), batch);
    MUSTER_RETURN_IF_ERROR(read.status());
    const std::string event = absl::StrCat(
        damage,
        "; the job goes on, and its history with what can be read: some steps up to now "
        "may be missing");
    const std::vector<v1::JobEvent> events = AddEvents(job, {event}, batch);
    MUSTER_RETURN_IF_ERROR(store_.Write(batch, JobStore::Durability::kSynced));
    ShowEvents(job, events);
    if (options_.log != nullptr) options_.log(event);
  }
  MUSTER_RETURN_IF_ERROR(read.status());
  job.history = *std::move(read);
  JobHistory& history = job.history->history();
  history.SetBoundaries(BoundariesOf(job.record));
  for (int slot = 0; slot < job.record.slots_size(); ++slot) {
    if (job.record.slots(slot).done()) history.RestoreDone(slot, job.progress.clock(slot));
  }
  // The record may be newer than the history. The evaluation's time is not known.
  for (const v1::EvaluationResult& result : job.record.evaluations()) {
    history.AddEvaluation(result, /*unix_ms=*/0);
  }
  return absl::OkStatus();
}

absl::Status JobTable::LoadLogs() {
  std::map<std::string, JobLog::Origin> origins;
  MUSTER_RETURN_IF_ERROR(
      store_.Scan(StoreTable::kLogOrigins, "", [&](absl::string_view key, absl::string_view value) {
        MUSTER_ASSIGN_OR_RETURN(origins[std::string(key)], ParseOrigin(key, value));
        return absl::OkStatus();
      }));
  return store_.Scan(StoreTable::kLogs, "", [&](absl::string_view key, absl::string_view value) {
    Job* job = Find(SplitStoreKey(key).first);
    if (job == nullptr) return absl::OkStatus();
    const auto origin = origins.find(std::string(key));
    job->log.Restore({.offset = StoreKeyNumber(key),
                      .text = std::string(value),
                      .origin = origin == origins.end() ? JobLog::Origin() : origin->second});
    return absl::OkStatus();
  });
}

void JobTable::Insert(std::unique_ptr<Job> job) {
  by_id_[job->id()] = job.get();
  by_request_[job->record.request_id()] = job.get();
  jobs_[job->record.number()] = std::move(job);
}

int64_t JobTable::NowUnixMs() const { return absl::ToUnixMillis(clock_.Wall()); }

std::vector<v1::JobEvent> JobTable::AddEvents(const Job& job, const std::vector<NewEvent>& added,
                                              JobStoreBatch& batch) const {
  std::vector<v1::JobEvent> events;
  for (const auto& [text, kind] : added) {
    v1::JobEvent& event = events.emplace_back();
    event.set_unix_ms(NowUnixMs());
    event.set_text(ToUtf8(text));
    event.set_kind(kind);
    event.set_step(job.progress.step());
    ShortenStrings(event);
    const uint64_t number = job.next_event + events.size() - 1;
    batch.Put(StoreTable::kEvents, StoreKey(job.id(), number), event.SerializeAsString());
    if (number >= kMaxEvents) {
      batch.Delete(StoreTable::kEvents, StoreKey(job.id(), number - kMaxEvents));
    }
  }
  return events;
}

void JobTable::ShowEvents(Job& job, const std::vector<v1::JobEvent>& events) {
  job.events.insert(job.events.end(), events.begin(), events.end());
  job.next_event += events.size();
  while (job.events.size() > kMaxEvents) job.events.pop_front();
}

std::string JobTable::IdOf(uint64_t number, const v1::StoreRecord& store) {
  uint32_t identity = store.identity();
  for (const v1::StoreRecord::JobIdentity& from : store.job_identities()) {
    if (from.first_number() <= number) identity = from.identity();
  }
  return absl::StrCat("j", number, "-", absl::Hex(identity & 0xffff, absl::kZeroPad4));
}

absl::StatusOr<Job*> JobTable::Create(v1::JobRecord record, const std::string& event,
                                      std::string data_preparation) {
  v1::StoreRecord next = store_record_;
  const uint64_t number = next.next_job_number();
  next.set_next_job_number(number + 1);
  SetIdentity(options_.identity, number, next);
  record.set_format_version(kFormatVersion);
  record.set_number(number);
  record.set_job_id(IdOf(number, next));
  auto job = std::make_unique<Job>(std::move(record), options_.max_log_bytes);
  JobStoreBatch batch;
  batch.Put(StoreTable::kStore, "", next.SerializeAsString());
  batch.Put(StoreTable::kJobs, job->id(), job->record.SerializeAsString());
  if (!data_preparation.empty()) {
    batch.Put(StoreTable::kDataPreparations, job->id(), data_preparation);
  }
  job->data_preparation = std::move(data_preparation);
  job->history->history().SetBoundaries(BoundariesOf(job->record));
  const std::vector<v1::JobEvent> events = AddEvents(*job, {event}, batch);
  MUSTER_RETURN_IF_ERROR(store_.Write(batch, JobStore::Durability::kSynced));
  store_record_ = next;
  ShowEvents(*job, events);
  Job* created = job.get();
  Insert(std::move(job));
  created->record_version = ++version_;
  return created;
}

absl::Status JobTable::Commit(Job& job, JobChange change) {
  if (change.record.state() != job.record.state()) {
    MUSTER_RETURN_IF_ERROR(CheckTransition(job.id(), job.record.state(), change.record.state()));
  }
  AddStoppedTime(job.record, NowUnixMs(), change.record);
  const bool goes_back = GoesBack(job.record, change.record);
  *change.record.mutable_progress() = job.progress.record();
  if (goes_back) {
    ProgressTracker after = job.progress;
    after.RollBack(change.record.start_clock());
    *change.record.mutable_progress() = after.record();
  }
  JobStoreBatch batch;
  batch.Put(StoreTable::kJobs, job.id(), change.record.SerializeAsString());
  for (const auto& [server, generation] : change.drops) {
    batch.Put(StoreTable::kDrops, StoreKey(server, job.id()), absl::StrCat(generation));
  }
  const bool prepared_otherwise =
      !change.data_preparation.empty() && change.data_preparation != job.data_preparation;
  if (prepared_otherwise) {
    batch.Put(StoreTable::kDataPreparations, job.id(), change.data_preparation);
  }
  const std::vector<v1::JobEvent> events = AddEvents(job, change.events, batch);
  const StoredHistory::Part history = AddHistory(job, change.record, batch);
  MUSTER_RETURN_IF_ERROR(store_.Write(batch, JobStore::Durability::kSynced));
  const bool ends = IsFinal(change.record.state()) && !IsFinal(job.record.state());
  job.record = std::move(change.record);
  if (goes_back) job.progress.RollBack(job.record.start_clock());
  if (prepared_otherwise) job.data_preparation = std::move(change.data_preparation);
  // Overwriting is right: a job's later drops are of later generations.
  for (const auto& [server, generation] : change.drops) drops_[server][job.id()] = generation;
  ShowEvents(job, events);
  HistoryStored(job, history);
  job.progress_unsaved = false;
  job.progress_stored = clock_.Monotonic();
  ++job.status_version;
  job.record_version = ++version_;
  if (ends) Alert(job, EndOf(job.record.state()), job.record.message());
  return absl::OkStatus();
}

void JobTable::Alert(const Job& job, JobAlert::Kind kind, absl::string_view text) const {
  const v1::JobSpec& spec = job.record.spec();
  if (options_.alert == nullptr || spec.stop().evaluate_only()) return;
  options_.alert({.kind = kind,
                  .job_id = job.id(),
                  .name = spec.name(),
                  .owner = spec.owner(),
                  .step = job.progress.step(),
                  .text = std::string(text)});
}

StoredHistory::Part JobTable::AddHistory(Job& job, const v1::JobRecord& next,
                                         JobStoreBatch& batch) const {
  StoredHistory::Part part;
  if (job.history == nullptr) return part;
  part.changes = HistoryIsDue(job);
  if (GoesBack(job.record, next) && next.takes_over_generation() == 0) {
    part.cut = {
        .clock = next.start_clock(), .reached = job.progress.step(), .unix_ms = NowUnixMs()};
  }
  if (IsFinal(next.state())) part.end = {.now = clock_.Monotonic(), .unix_ms = NowUnixMs()};
  job.history->AddTo(batch, part);
  return part;
}

void JobTable::HistoryStored(Job& job, const StoredHistory::Part& part) const {
  if (job.history == nullptr) return;
  job.history->Written();
  if (part.changes) job.history_stored = clock_.Monotonic();
  if (part.end.has_value()) {
    job.history.reset();
  } else {
    job.history->history().SetBoundaries(BoundariesOf(job.record));
  }
}

bool JobTable::HistoryIsDue(const Job& job) const {
  return job.history != nullptr && job.history->history().changed() &&
         clock_.Monotonic() - job.history_stored >= kHistoryInterval;
}

absl::Status JobTable::Remove(Job& job) {
  const std::string id = job.id();
  JobStoreBatch batch;
  batch.Delete(StoreTable::kJobs, id);
  batch.DeletePrefix(StoreTable::kEvents, StoreKeyPrefix(id));
  batch.DeletePrefix(StoreTable::kLogs, StoreKeyPrefix(id));
  batch.Delete(StoreTable::kDataPreparations, id);
  batch.DeletePrefix(StoreTable::kLogOrigins, StoreKeyPrefix(id));
  StoredHistory::Remove(id, batch);
  MUSTER_RETURN_IF_ERROR(store_.Write(batch, JobStore::Durability::kSynced));
  by_id_.erase(id);
  by_request_.erase(job.record.request_id());
  jobs_.erase(job.record.number());
  ++version_;
  return absl::OkStatus();
}

absl::Status JobTable::AppendLog(Job& job, uint32_t slot, absl::string_view text) {
  if (text.empty()) return absl::OkStatus();
  const int64_t now = NowUnixMs();
  const JobLog::Change change = job.log.Append(text, {.slot = slot, .unix_ms = now});
  JobStoreBatch batch;
  for (uint64_t offset : change.dropped) {
    batch.Delete(StoreTable::kLogs, StoreKey(job.id(), offset));
    batch.Delete(StoreTable::kLogOrigins, StoreKey(job.id(), offset));
  }
  const std::string key = StoreKey(job.id(), change.last.offset);
  batch.Put(StoreTable::kLogs, key, change.last.text);
  batch.Put(StoreTable::kLogOrigins, key, absl::StrCat(slot, " ", change.last.origin.unix_ms));
  return store_.Write(batch, JobStore::Durability::kBuffered);
}

absl::Status JobTable::AddEvent(Job& job, const std::string& text) {
  JobStoreBatch batch;
  const std::vector<v1::JobEvent> events = AddEvents(job, {text}, batch);
  MUSTER_RETURN_IF_ERROR(store_.Write(batch, JobStore::Durability::kBuffered));
  ShowEvents(job, events);
  return absl::OkStatus();
}

absl::Status JobTable::SaveProgress(Job& job) {
  *job.record.mutable_progress() = job.progress.record();
  JobStoreBatch batch;
  batch.Put(StoreTable::kJobs, job.id(), job.record.SerializeAsString());
  const StoredHistory::Part history{.changes = true};
  if (job.history != nullptr) job.history->AddTo(batch, history);
  MUSTER_RETURN_IF_ERROR(store_.Write(batch, JobStore::Durability::kBuffered));
  HistoryStored(job, history);
  job.progress_unsaved = false;
  job.progress_stored = clock_.Monotonic();
  return absl::OkStatus();
}

Job* JobTable::Find(absl::string_view job_id) const {
  const auto it = by_id_.find(job_id);
  return it == by_id_.end() ? nullptr : it->second;
}

bool JobTable::IsForgotten(absl::string_view job_id) const {
  // Ids of another store, or of a later state of this one, are unknown here.
  uint64_t number = 0;
  return absl::StartsWith(job_id, "j") &&
         absl::SimpleAtoi(job_id.substr(1, job_id.find('-') - 1), &number) &&
         number < store_record_.next_job_number() && job_id == IdOf(number, store_record_) &&
         Find(job_id) == nullptr;
}

Job* JobTable::FindRequest(absl::string_view request_id) const {
  const auto it = by_request_.find(request_id);
  return it == by_request_.end() ? nullptr : it->second;
}

absl::Status JobTable::PutDaemons(const std::vector<v1::DaemonRecord>& daemons) {
  v1::StoreRecord next = store_record_;
  JobStoreBatch batch;
  for (const v1::DaemonRecord& daemon : daemons) {
    next.set_next_daemon_incarnation(
        std::max<uint64_t>(next.next_daemon_incarnation(), daemon.incarnation() + 1));
    batch.Put(StoreTable::kDaemons, daemon.id(), daemon.SerializeAsString());
  }
  batch.Put(StoreTable::kStore, "", next.SerializeAsString());
  MUSTER_RETURN_IF_ERROR(store_.Write(batch, JobStore::Durability::kSynced));
  store_record_ = next;
  ++version_;
  return absl::OkStatus();
}

absl::Status JobTable::RemoveDaemons(const std::vector<std::string>& ids) {
  JobStoreBatch batch;
  for (const std::string& id : ids) batch.Delete(StoreTable::kDaemons, id);
  ++version_;
  return store_.Write(batch, JobStore::Durability::kSynced);
}

absl::Status JobTable::Drain(const std::string& server_id) {
  JobStoreBatch batch;
  batch.Put(StoreTable::kDrains, server_id, "");
  MUSTER_RETURN_IF_ERROR(store_.Write(batch, JobStore::Durability::kSynced));
  draining_.insert(server_id);
  ++version_;
  return absl::OkStatus();
}

absl::Status JobTable::EndDrain(const std::string& server_id) {
  JobStoreBatch batch;
  batch.Delete(StoreTable::kDrains, server_id);
  MUSTER_RETURN_IF_ERROR(store_.Write(batch, JobStore::Durability::kSynced));
  draining_.erase(server_id);
  ++version_;
  return absl::OkStatus();
}

const Drops& JobTable::DropsOf(absl::string_view server_id) const {
  static const Drops& none = *new Drops();
  const auto it = drops_.find(server_id);
  return it == drops_.end() ? none : it->second;
}

absl::Status JobTable::NoteDrop(const std::string& server_id, const std::string& job_id,
                                uint64_t generation) {
  JobStoreBatch batch;
  batch.Put(StoreTable::kDrops, StoreKey(server_id, job_id), absl::StrCat(generation));
  MUSTER_RETURN_IF_ERROR(store_.Write(batch, JobStore::Durability::kSynced));
  drops_[server_id][job_id] = generation;
  ++version_;
  return absl::OkStatus();
}

absl::Status JobTable::ClearDrops(absl::string_view server_id, const Drops& jobs) {
  const auto it = drops_.find(server_id);
  if (it == drops_.end()) return absl::OkStatus();
  JobStoreBatch batch;
  std::vector<std::string> cleared;
  for (const auto& [job, generation] : jobs) {
    const auto noted = it->second.find(job);
    if (noted == it->second.end() || noted->second > generation) continue;
    cleared.push_back(job);
    batch.Delete(StoreTable::kDrops, StoreKey(server_id, job));
  }
  if (cleared.empty()) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(store_.Write(batch, JobStore::Durability::kSynced));
  for (const std::string& job : cleared) it->second.erase(job);
  if (it->second.empty()) drops_.erase(it);
  ++version_;
  return absl::OkStatus();
}

}  // namespace muster
