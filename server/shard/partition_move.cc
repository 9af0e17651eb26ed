#include "server/shard/partition_move.h"

#include <algorithm>
#include <deque>
#include <optional>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"
#include "proto/parameter_service.pb.h"
#include "proto/partition_state.pb.h"
#include "server/shard/partition_journal.h"
#include "server/shard/storage/mutation_log.h"
#include "server/shard/storage/parameter_store.h"

namespace muster {
namespace {

// Of a message; one value or record may be larger.
constexpr size_t kChunkBytes = 1 << 20;
// Of the log, read while the partition waits, and the most that is left for when it stands still.
constexpr size_t kTurnBytes = 16 << 20;
constexpr size_t kRestBytes = 1 << 20;
// So that a partition whose log grows as fast as it is sent moves at last.
constexpr int kMaxTurns = 200;
// Values written to the store at once.
constexpr size_t kBatchBytes = 8 << 20;

absl::Span<const std::byte> Bytes(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::string Text(absl::Span<const std::byte> bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::string Name(const PartitionMove& move) {
  return absl::StrCat("partition ", move.partition, " of job ", move.job_id);
}

absl::Status Crashed() { return absl::UnavailableError("crashed"); }

// All that may hold values of a partition.
std::vector<uint32_t> StoredTables(uint32_t sparse_tables) {
  std::vector<uint32_t> stored;
  for (uint32_t table = 0; table <= sparse_tables; ++table) stored.push_back(table);
  stored.push_back(kTierTable);
  return stored;
}

// What stands in place of the state of a partition that is not here.
v1::PartitionState NotHere(const PartitionMove& move, uint32_t sparse_tables) {
  v1::PartitionState state;
  state.set_format_version(1);
  state.set_generation(move.generation);
  state.set_left(true);
  state.set_sparse_tables(sparse_tables);
  return state;
}

// What all chunks so far hold.
class Contents {
 public:
  void Clear() {
    values_ = 0;
    records_ = 0;
    fingerprint_ = std::make_unique<FingerprintStream>();
  }
  void AddValue(uint32_t table, uint64_t key, absl::Span<const std::byte> value) {
    ++values_;
    fingerprint_->Add(&table, sizeof(table));
    fingerprint_->Add(&key, sizeof(key));
    fingerprint_->Add(value.data(), value.size());
  }
  void AddRecord(uint64_t lsn, absl::Span<const std::byte> header,
                 absl::Span<const std::byte> payload) {
    ++records_;
    fingerprint_->Add(&lsn, sizeof(lsn));
    fingerprint_->Add(header.data(), header.size());
    fingerprint_->Add(payload.data(), payload.size());
  }
  void Save(v1::HandOverEnd& end) const {
    end.set_values(values_);
    end.set_records(records_);
    end.set_fingerprint(fingerprint_->Finish());
  }
  bool Equals(const v1::HandOverEnd& end) const {
    return end.values() == values_ && end.records() == records_ &&
           end.fingerprint() == fingerprint_->Finish();
  }

 private:
  uint64_t values_ = 0;
  uint64_t records_ = 0;
  std::unique_ptr<FingerprintStream> fingerprint_ = std::make_unique<FingerprintStream>();
};

}  // namespace

class PartitionMoves::Busy {
 public:
  Busy(PartitionMoves& moves, Key key) : moves_(moves), key_(std::move(key)) {}
  ~Busy() {
    if (!held_) return;
    absl::MutexLock lock(&moves_.mutex_);
    moves_.busy_.erase(key_);
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

  bool Try() {
    absl::MutexLock lock(&moves_.mutex_);
    return held_ = moves_.busy_.insert(key_).second;
  }
  void Wait() {
    absl::MutexLock lock(&moves_.mutex_);
    const auto free = [this]()
                          ABSL_NO_THREAD_SAFETY_ANALYSIS { return moves_.busy_.count(key_) == 0; };
    moves_.mutex_.Await(absl::Condition(&free));
    held_ = moves_.busy_.insert(key_).second;
  }

 private:
  PartitionMoves& moves_;
  const Key key_;
  bool held_ = false;
};

// Gathers values and records into chunks, and remembers what has been sent.
class PartitionMoves::Sender {
 public:
  Sender(const PartitionMoves& moves, const PartitionMove& move, ChunkSink send)
      : moves_(moves), move_(move), send_(send) {}

  // Begins, again if need be, with the values of this state, whose log follows.
  absl::Status Begin(const v1::PartitionState& state, uint32_t sparse_tables) {
    chunk_.Clear();
    bytes_ = 0;
    contents_.Clear();
    begun_ = true;
    state_ = state;
    next_lsn_ = state.lsn() + 1;
    v1::HandOverChunk restart;
    restart.set_restart(true);
    restart.set_table(sparse_tables);
    return send_(restart);
  }
  bool begun() const { return begun_; }
  // Of the log.
  uint64_t next_lsn() const { return next_lsn_; }

  absl::Status Value(uint32_t table, uint64_t key, absl::Span<const std::byte> value) {
    if (chunk_.records_size() > 0 || (chunk_.keys_size() > 0 && chunk_.table() != table)) {
      MUSTER_RETURN_IF_ERROR(Flush());
    }
    contents_.AddValue(table, key, value);
    chunk_.set_table(table);
    chunk_.add_keys(key);
    chunk_.add_values(Text(value));
    bytes_ += value.size();
    return bytes_ < kChunkBytes ? absl::OkStatus() : Flush();
  }

  // REQUIRES: lsn is next_lsn().
  absl::Status Record(uint64_t lsn, absl::Span<const std::byte> header,
                      absl::Span<const std::byte> payload) {
    if (chunk_.keys_size() > 0) MUSTER_RETURN_IF_ERROR(Flush());
    contents_.AddRecord(lsn, header, payload);
    if (chunk_.records_size() == 0) chunk_.set_first_lsn(lsn);
    v1::LoggedRecord& record = *chunk_.add_records();
    record.set_header(Text(header));
    record.set_payload(Text(payload));
    next_lsn_ = lsn + 1;
    bytes_ += header.size() + payload.size();
    return bytes_ < kChunkBytes ? absl::OkStatus() : Flush();
  }

  absl::Status End(const std::string& tables) {
    MUSTER_RETURN_IF_ERROR(Flush());
    v1::HandOverEnd& end = *chunk_.mutable_end();
    end.set_state(state_.SerializeAsString());
    end.set_last_lsn(next_lsn_ - 1);
    contents_.Save(end);
    if (!end.mutable_tables()->ParseFromString(tables)) end.clear_tables();
    return send_(chunk_);
  }

 private:
  absl::Status Flush() {
    if (bytes_ == 0 && chunk_.keys_size() == 0 && chunk_.records_size() == 0) {
      return absl::OkStatus();
    }
    if (!moves_.IsPermitted(move_)) {
      return absl::UnavailableError(absl::StrCat("the move of ", Name(move_), " was given up"));
    }
    const absl::Status status = send_(chunk_);
    chunk_.Clear();
    bytes_ = 0;
    return status;
  }

  const PartitionMoves& moves_;
  const PartitionMove& move_;
  const ChunkSink send_;
  v1::HandOverChunk chunk_;
  size_t bytes_ = 0;
  Contents contents_;
  bool begun_ = false;
  v1::PartitionState state_;
  uint64_t next_lsn_ = 0;
};

// Writes what comes.
class PartitionMoves::Receiver {
 public:
  Receiver(PartitionMoves& moves, const PartitionMove& move) : moves_(moves), move_(move) {}

  absl::Status Add(const v1::HandOverChunk& chunk) {
    if (chunk.restart()) {
      log_.reset();
      contents_.Clear();
      v1::PartitionState partial = NotHere(move_, chunk.table());
      partial.set_adopted_term(move_.term);
      MUSTER_RETURN_IF_ERROR(moves_.Replace(move_, partial));
      sparse_tables_ = chunk.table();
      return absl::OkStatus();
    }
    if (chunk.keys_size() != chunk.values_size()) {
      return absl::DataLossError(absl::StrCat("a part of ", Name(move_), " has ", chunk.keys_size(),
                                              " keys for ", chunk.values_size(), " values"));
    }
    MUSTER_RETURN_IF_ERROR(AddValues(chunk));
    for (int i = 0; i < chunk.records_size(); ++i) {
      MUSTER_RETURN_IF_ERROR(AddRecord(chunk.first_lsn() + i, chunk.records(i)));
    }
    if (chunk.has_end()) end_ = chunk.end();
    return absl::OkStatus();
  }

  // Makes all durable but the state, which is returned. UNAVAILABLE: not all has come.
  absl::StatusOr<v1::PartitionState> Finish() {
    if (!end_.has_value()) {
      return absl::UnavailableError(absl::StrCat(Name(move_), " did not come to its end"));
    }
    v1::PartitionState state;
    if (!contents_.Equals(*end_) || !state.ParseFromString(end_->state())) {
      return absl::UnavailableError(absl::StrCat(Name(move_), " was damaged on its way"));
    }
    if (log_ == nullptr) MUSTER_RETURN_IF_ERROR(OpenLog(state.lsn() + 1));
    if (log_->first_lsn() != state.lsn() + 1 || log_->next_lsn() != end_->last_lsn() + 1) {
      return absl::UnavailableError(absl::StrCat(
          Name(move_), " came with records ", log_->first_lsn(), " to ", log_->next_lsn() - 1,
          " of its log, expected ", state.lsn() + 1, " to ", end_->last_lsn()));
    }
    MUSTER_RETURN_IF_ERROR(log_->Sync());
    log_.reset();
    state.set_adopted_term(move_.term);
    state.set_sparse_tables(sparse_tables_);
    return state;
  }

  const v1::OpenTablesRequest* tables() const {
    return end_.has_value() && end_->has_tables() ? &end_->tables() : nullptr;
  }

 private:
  absl::Status AddValues(const v1::HandOverChunk& chunk) {
    StoreBatch batch(move_.job_id);
    size_t bytes = 0;
    for (int i = 0; i < chunk.keys_size(); ++i) {
      const absl::Span<const std::byte> value = Bytes(chunk.values(i));
      contents_.AddValue(chunk.table(), chunk.keys(i), value);
      batch.Put(chunk.table(), move_.partition, chunk.keys(i), value);
      bytes += value.size();
      if (bytes < kBatchBytes && i + 1 < chunk.keys_size()) continue;
      MUSTER_RETURN_IF_ERROR(
          moves_.resources_.store->Write(batch, ParameterStore::Durability::kBuffered));
      batch = StoreBatch(move_.job_id);
      bytes = 0;
    }
    return absl::OkStatus();
  }

  absl::Status AddRecord(uint64_t lsn, const v1::LoggedRecord& record) {
    if (log_ == nullptr) MUSTER_RETURN_IF_ERROR(OpenLog(lsn));
    if (log_->next_lsn() != lsn) {
      return absl::UnavailableError(absl::StrCat("record ", lsn, " of the log of ", Name(move_),
                                                 " came in place of ", log_->next_lsn()));
    }
    contents_.AddRecord(lsn, Bytes(record.header()), Bytes(record.payload()));
    return log_->Append(Bytes(record.header()), Payload({Bytes(record.payload())}, nullptr))
        .status();
  }

  absl::Status OpenLog(uint64_t first_lsn) {
    MutationLog::Options options = moves_.resources_.log;
    options.first_lsn = first_lsn;
    MUSTER_ASSIGN_OR_RETURN(
        log_,
        MutationLog::Open(LogDirectory(moves_.resources_, move_.job_id, move_.partition), options));
    return absl::OkStatus();
  }

  PartitionMoves& moves_;
  const PartitionMove& move_;
  Contents contents_;
  uint32_t sparse_tables_ = 0;
  std::unique_ptr<MutationLog> log_;
  std::optional<v1::HandOverEnd> end_;
};

PartitionMoves::PartitionMoves(const ShardResources& resources, OpenJobs& jobs)
    : resources_(resources), jobs_(jobs) {}

bool PartitionMoves::IsPermitted(const PartitionMove& move) const {
  absl::MutexLock lock(&mutex_);
  return leaving_.count(move) > 0;
}

bool PartitionMoves::IsOrdered(const PartitionMove& move) const {
  absl::MutexLock lock(&mutex_);
  return leaving_.count(move) > 0 || released_.count(move) > 0;
}

absl::StatusOr<std::unique_ptr<v1::PartitionState>> PartitionMoves::ReadState(
    const PartitionMove& move) const {
  return ReadPartitionState(*resources_.store, move.job_id, move.partition);
}

absl::Status PartitionMoves::PutState(const PartitionMove& move, const v1::PartitionState& state) {
  const std::string meta = state.SerializeAsString();
  StoreBatch batch(move.job_id);
  batch.PutMeta(move.partition, Bytes(meta));
  return resources_.store->Write(batch, ParameterStore::Durability::kSync);
}

absl::Status PartitionMoves::Replace(const PartitionMove& move, const v1::PartitionState& state) {
  const std::string meta = state.SerializeAsString();
  StoreBatch batch(move.job_id);
  batch.PutMeta(move.partition, Bytes(meta));
  for (uint32_t table : StoredTables(state.sparse_tables())) {
    batch.DeletePartition(table, move.partition);
  }
  MUSTER_RETURN_IF_ERROR(resources_.store->Write(batch, ParameterStore::Durability::kSync));
  if (resources_.crash_point->Pass("move_deleted")) return Crashed();
  return MutationLog::Destroy(LogDirectory(resources_, move.job_id, move.partition),
                              resources_.log.file_system);
}

absl::Status PartitionMoves::Permit(const std::vector<PartitionMove>& leaving,
                                    const std::vector<PartitionMove>& released) {
  uint64_t changes = 0;
  std::vector<PartitionMove> standing;
  {
    absl::MutexLock lock(&mutex_);
    std::set<PartitionMove> next(leaving.begin(), leaving.end());
    // Whatever goes from these orders may have been waited for.
    if (!std::includes(next.begin(), next.end(), leaving_.begin(), leaving_.end())) ++changes_;
    leaving_ = std::move(next);
    released_ = {released.begin(), released.end()};
    // Without a store nothing is durable, and nothing stands still.
    if (resources_.store == nullptr || (settled_ == changes_ && unmarked_.empty())) {
      return absl::OkStatus();
    }
    changes = changes_;
    for (const auto& [key, move] : unmarked_) standing.push_back(move);
  }
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> jobs, resources_.store->Jobs());
  for (const std::string& job : jobs) {
    MUSTER_ASSIGN_OR_RETURN(const std::vector<uint32_t> partitions,
                            resources_.store->Partitions(job));
    for (uint32_t partition : partitions) {
      MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<v1::PartitionState> state,
                              ReadPartitionState(*resources_.store, job, partition));
      if (state == nullptr || state->leaving_term() == 0) continue;
      standing.push_back({job, state->generation(), partition, state->leaving_term()});
    }
  }
  absl::Status result;
  for (const PartitionMove& move : standing) result.Update(Resume(move));
  absl::MutexLock lock(&mutex_);
  if (result.ok()) settled_ = changes;
  return result;
}

absl::Status PartitionMoves::Resume(const PartitionMove& move) {
  // Not to wait for a move that goes on.
  if (IsOrdered(move)) return absl::OkStatus();
  Busy busy(*this, KeyOf(move));
  busy.Wait();
  if (IsOrdered(move)) return absl::OkStatus();
  OpenJobs::Turn turn = jobs_.Take(move.job_id);
  const auto give_back = absl::MakeCleanup([&] { jobs_.GiveBack(move.job_id, turn); });
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<v1::PartitionState> state, ReadState(move));
  const bool marked = state != nullptr && state->leaving_term() == move.term;
  {
    absl::MutexLock lock(&mutex_);
    if (marked) unmarked_[KeyOf(move)] = move;
    const auto found = unmarked_.find(KeyOf(move));
    // It stands still for another move, or not at all.
    if (found == unmarked_.end() || found->second.term != move.term) return absl::OkStatus();
  }
  if (marked) {
    state->clear_leaving_term();
    state->clear_leaving_tables();
    MUSTER_RETURN_IF_ERROR(PutState(move, *state));
  }
  return OpenAgain(move, turn);
}

absl::Status PartitionMoves::OpenAgain(const PartitionMove& move, const OpenJobs::Turn& turn) {
  // A job that is not open, or was opened anew, finds it in the store.
  if (turn.job != nullptr && turn.generation == move.generation &&
      turn.job->StandsStill(move.partition)) {
    MUSTER_RETURN_IF_ERROR(turn.job->AddPartition(move.partition));
  }
  absl::MutexLock lock(&mutex_);
  unmarked_.erase(KeyOf(move));
  return absl::OkStatus();
}

absl::Status PartitionMoves::HandOver(const PartitionMove& move, ChunkSink send) {
  if (resources_.store == nullptr) {
    return absl::NotFoundError(
        absl::StrCat(Name(move), " is not here: this server runs without --data-dir"));
  }
  if (!IsPermitted(move)) {
    return absl::UnavailableError(absl::StrCat("the coordinator has not ordered the move of ",
                                               Name(move), " under term ", move.term,
                                               " here; try again"));
  }
  absl::Status status = Send(move, send);
  // The orders may have changed while nobody could see that it stands still.
  if (!IsPermitted(move) && !resources_.crash_point->crashed()) status.Update(Resume(move));
  return status;
}

absl::Status PartitionMoves::Send(const PartitionMove& move, ChunkSink send) {
  Busy busy(*this, KeyOf(move));
  if (!busy.Try()) {
    return absl::UnavailableError(
        absl::StrCat(Name(move), " is being handed over already; try again"));
  }
  OpenJobs::Turn turn = jobs_.Take(move.job_id);
  jobs_.GiveBack(move.job_id, turn);
  Sender sender(*this, move, send);
  if (turn.job != nullptr && turn.generation == move.generation) {
    if (const auto partition = turn.job->partition(move.partition); partition != nullptr) {
      MUSTER_RETURN_IF_ERROR(SendWorking(move, *partition, sender));
    }
  }
  turn.job.reset();
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<v1::PartitionState> state, StandStill(move));
  return SendRest(move, *state, sender);
}

absl::Status PartitionMoves::SendWorking(const PartitionMove& move, PartitionExecutor& partition,
                                         Sender& sender) {
  // State and values as they were between two batches; what has happened since the state is in the
  // log.
  std::unique_ptr<v1::PartitionState> state;
  uint32_t sparse_tables = 0;
  std::vector<std::pair<uint32_t, std::unique_ptr<StoreSnapshot>>> snapshots;
  MUSTER_RETURN_IF_ERROR(partition.Visit([&](Partition& visited) -> absl::Status {
    MUSTER_ASSIGN_OR_RETURN(state, ReadState(move));
    if (state == nullptr || visited.journal() == nullptr) {
      return absl::NotFoundError(absl::StrCat(Name(move), " is not stored on this server"));
    }
    sparse_tables = visited.tables().job->tables().sparse.size();
    for (uint32_t table : StoredTables(sparse_tables)) {
      MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<StoreSnapshot> snapshot,
                              resources_.store->Snapshot(move.job_id, table, move.partition));
      snapshots.emplace_back(table, std::move(snapshot));
    }
    return absl::OkStatus();
  }));
  MUSTER_RETURN_IF_ERROR(sender.Begin(*state, sparse_tables));
  for (const auto& [table, snapshot] : snapshots) {
    const uint32_t number = table;
    MUSTER_RETURN_IF_ERROR(snapshot->Scan(0, [&](uint64_t key, absl::Span<const std::byte> value) {
      return sender.Value(number, key, value);
    }));
  }
  snapshots.clear();

  for (int turn = 0; turn < kMaxTurns; ++turn) {
    std::vector<v1::LoggedRecord> records;
    size_t bytes = 0;
    const absl::Status read = partition.Visit([&](Partition& visited) -> absl::Status {
      return visited.journal()->log().Replay(
          sender.next_lsn(),
          [&](uint64_t, absl::Span<const std::byte> header, absl::Span<const std::byte> payload) {
            if (bytes >= kTurnBytes) return absl::CancelledError("enough for one turn");
            records.emplace_back().set_header(Text(header));
            records.back().set_payload(Text(payload));
            bytes += header.size() + payload.size();
            return absl::OkStatus();
          });
    });
    // A base was written since, and the log before it forgotten: it all begins anew.
    if (absl::IsOutOfRange(read)) return absl::OkStatus();
    if (!read.ok() && !absl::IsCancelled(read)) return read;
    for (const v1::LoggedRecord& record : records) {
      MUSTER_RETURN_IF_ERROR(
          sender.Record(sender.next_lsn(), Bytes(record.header()), Bytes(record.payload())));
    }
    if (bytes <= kRestBytes) break;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<v1::PartitionState>> PartitionMoves::StandStill(
    const PartitionMove& move) {
  OpenJobs::Turn turn = jobs_.Take(move.job_id);
  const auto give_back = absl::MakeCleanup([&] { jobs_.GiveBack(move.job_id, turn); });
  const bool open = turn.job != nullptr && turn.generation == move.generation;
  // What cannot leave does not stop for it.
  MUSTER_RETURN_IF_ERROR(ReadLeaving(move, open).status());
  {
    absl::MutexLock lock(&mutex_);
    if (leaving_.count(move) == 0) {
      return absl::UnavailableError(absl::StrCat("the move of ", Name(move), " was given up"));
    }
    // From here on, whoever takes this move from the orders sees that it has to go on.
    unmarked_[KeyOf(move)] = move;
  }
  if (open && turn.job->tables().durable()) {
    turn.job->TakeOut(move.partition, OpenJob::Absence::kStandsStill);
  }
  if (resources_.crash_point->Pass("move_standing")) return Crashed();
  absl::StatusOr<std::unique_ptr<v1::PartitionState>> state =
      Mark(move, open ? turn.job.get() : nullptr);
  if (!state.ok()) {
    absl::Status status = state.status();
    status.Update(OpenAgain(move, turn));
    return status;
  }
  {
    absl::MutexLock lock(&mutex_);
    unmarked_.erase(KeyOf(move));
  }
  if (resources_.crash_point->Pass("move_marked")) return Crashed();
  return state;
}

absl::StatusOr<std::unique_ptr<v1::PartitionState>> PartitionMoves::ReadLeaving(
    const PartitionMove& move, bool open) const {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<v1::PartitionState> state, ReadState(move));
  if (state == nullptr || state->left() || state->generation() != move.generation) {
    return absl::NotFoundError(
        absl::StrCat(Name(move), " of generation ", move.generation, " is not on this server"));
  }
  if (!open && state->leaving_term() == 0) {
    return absl::UnavailableError(
        absl::StrCat("job ", move.job_id, " is not open on this server; try again once it is"));
  }
  return state;
}

absl::StatusOr<std::unique_ptr<v1::PartitionState>> PartitionMoves::Mark(const PartitionMove& move,
                                                                         const OpenJob* job) {
  // Read again: it worked until it stood still.
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<v1::PartitionState> state,
                          ReadLeaving(move, job != nullptr));
  if (state->leaving_term() == move.term) return state;
  if (job != nullptr) {
    v1::OpenTablesRequest tables = job->tables().request();
    tables.clear_partitions();
    tables.clear_slot();
    tables.clear_incarnation();
    tables.set_expect_state(true);
    state->set_leaving_tables(tables.SerializeAsString());
    state->set_sparse_tables(job->tables().tables().sparse.size());
  }
  state->set_leaving_term(move.term);
  MUSTER_RETURN_IF_ERROR(PutState(move, *state));
  return state;
}

absl::Status PartitionMoves::SendLog(const PartitionMove& move, Sender& sender) {
  MUSTER_ASSIGN_OR_RETURN(
      const std::unique_ptr<MutationLog> log,
      MutationLog::Open(LogDirectory(resources_, move.job_id, move.partition), resources_.log));
  if (log->next_lsn() < sender.next_lsn()) {
    return absl::DataLossError(absl::StrCat("the log of ", Name(move), " ends at record ",
                                            log->next_lsn() - 1, ", expected ",
                                            sender.next_lsn() - 1, " at least"));
  }
  return log->Replay(sender.next_lsn(), [&](uint64_t lsn, absl::Span<const std::byte> header,
                                            absl::Span<const std::byte> payload) {
    return sender.Record(lsn, header, payload);
  });
}

absl::Status PartitionMoves::SendRest(const PartitionMove& move, v1::PartitionState state,
                                      Sender& sender) {
  const std::string tables = state.leaving_tables();
  absl::Status sent = absl::OutOfRangeError("nothing was sent");
  if (sender.begun()) sent = SendLog(move, sender);
  if (absl::IsOutOfRange(sent)) {
    const uint32_t sparse_tables = state.sparse_tables();
    state.clear_leaving_term();
    state.clear_leaving_tables();
    MUSTER_RETURN_IF_ERROR(sender.Begin(state, sparse_tables));
    for (uint32_t table : StoredTables(sparse_tables)) {
      MUSTER_RETURN_IF_ERROR(resources_.store->Scan(
          move.job_id, table, move.partition, [&](uint64_t key, absl::Span<const std::byte> value) {
            return sender.Value(table, key, value);
          }));
    }
    sent = SendLog(move, sender);
  }
  MUSTER_RETURN_IF_ERROR(sent);
  return sender.End(tables);
}

absl::StatusOr<bool> PartitionMoves::Prepare(const PartitionMove& move) {
  OpenJobs::Turn turn = jobs_.Take(move.job_id);
  const auto give_back = absl::MakeCleanup([&] { jobs_.GiveBack(move.job_id, turn); });
  if (turn.generation > move.generation) {
    return absl::AbortedError(absl::StrCat("job ", move.job_id, " has generation ", turn.generation,
                                           " here, the move has ", move.generation));
  }
  if (turn.job != nullptr && turn.generation < move.generation) {
    return absl::UnavailableError(absl::StrCat("generation ", turn.generation, " of job ",
                                               move.job_id, " is still open here; try again"));
  }
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<v1::PartitionState> state, ReadState(move));
  if (state != nullptr && state->generation() == move.generation && !state->left() &&
      state->leaving_term() == 0 && state->adopted_term() == move.term) {
    return true;
  }
  if (turn.job != nullptr && turn.job->partition(move.partition) != nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(Name(move), " is open on this server"));
  }
  return false;
}

absl::Status PartitionMoves::OpenAdopted(const PartitionMove& move,
                                         const v1::OpenTablesRequest* tables) {
  OpenJobs::Turn turn = jobs_.Take(move.job_id);
  const auto give_back = absl::MakeCleanup([&] { jobs_.GiveBack(move.job_id, turn); });
  if (turn.generation > move.generation) {
    return absl::AbortedError(
        absl::StrCat("job ", move.job_id, " went on to generation ", turn.generation));
  }
  if (turn.job != nullptr) {
    if (turn.job->partition(move.partition) != nullptr) return absl::OkStatus();
    return turn.job->AddPartition(move.partition);
  }
  // The first task that comes opens it.
  if (tables == nullptr) return absl::OkStatus();
  v1::OpenTablesRequest request = *tables;
  v1::PartitionTerm& term = *request.add_partitions();
  term.set_partition(move.partition);
  term.set_term(move.term);
  MUSTER_ASSIGN_OR_RETURN(std::shared_ptr<const JobTables> job_tables, JobTables::Create(request));
  MUSTER_ASSIGN_OR_RETURN(turn.job, OpenJob::Open(std::move(job_tables), resources_));
  turn.generation = move.generation;
  return absl::OkStatus();
}

absl::Status PartitionMoves::Adopt(const PartitionMove& move,
                                   absl::FunctionRef<absl::Status(ChunkSink)> fetch) {
  if (resources_.store == nullptr) {
    return absl::FailedPreconditionError("this server stores nothing; start it with a data folder");
  }
  Busy busy(*this, KeyOf(move));
  if (!busy.Try()) {
    return absl::UnavailableError(absl::StrCat(Name(move), " is on another move here"));
  }
  MUSTER_ASSIGN_OR_RETURN(const bool whole, Prepare(move));
  if (whole) return OpenAdopted(move, nullptr);
  Receiver receiver(*this, move);
  MUSTER_RETURN_IF_ERROR(
      fetch([&](const v1::HandOverChunk& chunk) { return receiver.Add(chunk); }));
  MUSTER_ASSIGN_OR_RETURN(const v1::PartitionState state, receiver.Finish());
  if (resources_.crash_point->Pass("move_copied")) return Crashed();
  MUSTER_RETURN_IF_ERROR(PutState(move, state));
  if (resources_.crash_point->Pass("move_adopted")) return Crashed();
  return OpenAdopted(move, receiver.tables());
}

absl::Status PartitionMoves::Release(const PartitionMove& move) {
  if (resources_.store == nullptr) return absl::OkStatus();
  Busy busy(*this, KeyOf(move));
  busy.Wait();
  OpenJobs::Turn turn = jobs_.Take(move.job_id);
  const auto give_back = absl::MakeCleanup([&] { jobs_.GiveBack(move.job_id, turn); });
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<v1::PartitionState> state, ReadState(move));
  if (state == nullptr || state->generation() != move.generation) return absl::OkStatus();
  const bool leaves = state->leaving_term() == move.term;
  const bool came = state->leaving_term() == 0 && state->adopted_term() == move.term;
  if (!leaves && !came) return absl::OkStatus();
  if (turn.job != nullptr && turn.generation == move.generation) {
    turn.job->TakeOut(move.partition, OpenJob::Absence::kNotHere);
  }
  return Replace(move, NotHere(move, state->sparse_tables()));
}

}  // namespace muster
