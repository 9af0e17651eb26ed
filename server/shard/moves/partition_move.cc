#include "server/shard/moves/partition_move.h"

#include <algorithm>
#include <optional>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/byte_text.h"
#include "common/base/catch_out_of_memory.h"
#include "common/base/status_macros.h"
#include "proto/parameter_service.pb.h"
#include "proto/partition_state.pb.h"
#include "server/shard/jobs/stored_job.h"
#include "server/shard/moves/hand_over_chunks.h"
#include "server/shard/moves/moved_partition.h"
#include "server/shard/partition/journal/partition_journal.h"
#include "server/shard/storage/mutation_log.h"
#include "server/shard/storage/parameter_store.h"

namespace muster {
namespace {

// Bytes of the log that are read while the partition waits, and the most that are left for when it
// stands still.
constexpr size_t kTurnBytes = 16 << 20;
constexpr size_t kRestBytes = 1 << 20;
// Bound that makes a partition move at last whose log grows as fast as it is sent.
constexpr int kMaxTurns = 200;

absl::Status LaterIsHere(const PartitionMove& move, uint64_t generation) {
  return absl::AbortedError(absl::StrCat("job ", move.job_id, " has generation ", generation,
                                         " here, the move has ", move.generation));
}

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

MovedPartition PartitionMoves::Stored(const PartitionMove& move) const {
  return MovedPartition(resources_, move);
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
  for (const PartitionMove& move : standing) {
    result.Update(CatchOutOfMemory("going on with a partition", [&] { return Resume(move); }));
  }
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
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<v1::PartitionState> state,
                          Stored(move).ReadState());
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
    MUSTER_RETURN_IF_ERROR(Stored(move).PutState(*state));
  }
  return OpenAgain(move, turn);
}

absl::Status PartitionMoves::OpenAgain(const PartitionMove& move, const OpenJobs::Turn& turn) {
  // A job that is not open, or was opened anew, finds it in the store.
  if (turn.job != nullptr && turn.generation == move.generation &&
      turn.job->Find(move.partition).absence == OpenJob::Absence::kStandsStill) {
    MUSTER_RETURN_IF_ERROR(turn.job->AddPartition(move.partition));
  }
  absl::MutexLock lock(&mutex_);
  unmarked_.erase(KeyOf(move));
  return absl::OkStatus();
}

absl::Status PartitionMoves::HandOver(const PartitionMove& move, ChunkSink send) {
  return CatchOutOfMemory("handing a partition over",
                          [&] { return HandOverIfPermitted(move, send); });
}

absl::Status PartitionMoves::HandOverIfPermitted(const PartitionMove& move, ChunkSink send) {
  if (resources_.store == nullptr) {
    return absl::NotFoundError(
        absl::StrCat(NameOf(move), " is not here: this server runs without --data-dir"));
  }
  if (!IsPermitted(move)) {
    return absl::UnavailableError(absl::StrCat("the coordinator has not ordered the move of ",
                                               NameOf(move), " under term ", move.term,
                                               " here; try again"));
  }
  absl::Status status =
      CatchOutOfMemory("handing a partition over", [&] { return Send(move, send); });
  // The orders may have changed while nobody could see that it stands still.
  if (!IsPermitted(move) && !resources_.crash_point->crashed()) status.Update(Resume(move));
  return status;
}

absl::Status PartitionMoves::Send(const PartitionMove& move, ChunkSink send) {
  Busy busy(*this, KeyOf(move));
  if (!busy.Try()) {
    return absl::UnavailableError(
        absl::StrCat(NameOf(move), " is being handed over already; try again"));
  }
  OpenJobs::Turn turn = jobs_.Take(move.job_id);
  jobs_.GiveBack(move.job_id, turn);
  const MovedPartition stored = Stored(move);
  HandOverSender sender(
      stored, [this, &move] { return IsPermitted(move); }, send);
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
                                         HandOverSender& sender) {
  // State and values as they were between two batches; what has happened since the state is in the
  // log.
  std::unique_ptr<v1::PartitionState> state;
  uint32_t sparse_tables = 0;
  std::vector<std::pair<uint32_t, std::unique_ptr<StoreSnapshot>>> snapshots;
  MUSTER_RETURN_IF_ERROR(partition.Visit([&](Partition& visited) -> absl::Status {
    MUSTER_ASSIGN_OR_RETURN(state, Stored(move).ReadState());
    if (state == nullptr || visited.journal() == nullptr) {
      return absl::NotFoundError(absl::StrCat(NameOf(move), " is not stored on this server"));
    }
    sparse_tables = visited.tables().job->tables().sparse.size();
    for (uint32_t table : MovedPartition::Tables(sparse_tables)) {
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
            records.emplace_back().set_header(std::string(AsText(header)));
            records.back().set_payload(std::string(AsText(payload)));
            bytes += header.size() + payload.size();
            return absl::OkStatus();
          });
    });
    // An image was written since, and the log before it forgotten: everything is sent anew.
    if (absl::IsOutOfRange(read)) return absl::OkStatus();
    if (!read.ok() && !absl::IsCancelled(read)) return read;
    for (const v1::LoggedRecord& record : records) {
      MUSTER_RETURN_IF_ERROR(
          sender.Record(sender.next_lsn(), AsBytes(record.header()), AsBytes(record.payload())));
    }
    if (bytes <= kRestBytes) break;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<v1::PartitionState>> PartitionMoves::StandStill(
    const PartitionMove& move) {
  OpenJobs::Turn turn = jobs_.Take(move.job_id);
  const auto give_back = absl::MakeCleanup([&] { jobs_.GiveBack(move.job_id, turn); });
  if (turn.first() > move.generation) return LaterIsHere(move, turn.first());
  const bool open = turn.job != nullptr && turn.generation == move.generation;
  // What cannot leave does not stop for it.
  MUSTER_RETURN_IF_ERROR(ReadLeaving(move, open).status());
  {
    absl::MutexLock lock(&mutex_);
    if (leaving_.count(move) == 0) {
      return absl::UnavailableError(absl::StrCat("the move of ", NameOf(move), " was given up"));
    }
    // From here on, whoever takes this move from the orders sees that it has to go on.
    unmarked_[KeyOf(move)] = move;
  }
  if (open && turn.job->tables().durable()) {
    turn.job->TakeOut(move.partition, OpenJob::Absence::kStandsStill);
  }
  if (resources_.crash_point->Pass("move_standing")) return CrashedHere();
  absl::StatusOr<std::unique_ptr<v1::PartitionState>> state = CatchOutOfMemory(
      "a moving partition's mark", [&] { return Mark(move, open ? turn.job.get() : nullptr); });
  if (!state.ok()) {
    absl::Status status = state.status();
    status.Update(OpenAgain(move, turn));
    return status;
  }
  {
    absl::MutexLock lock(&mutex_);
    unmarked_.erase(KeyOf(move));
  }
  if (resources_.crash_point->Pass("move_marked")) return CrashedHere();
  return state;
}

absl::StatusOr<std::unique_ptr<v1::PartitionState>> PartitionMoves::ReadLeaving(
    const PartitionMove& move, bool open) const {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<v1::PartitionState> state, Stored(move).ReadState());
  if (state == nullptr || state->left() || state->generation() != move.generation) {
    return absl::NotFoundError(
        absl::StrCat(NameOf(move), " of generation ", move.generation, " is not on this server"));
  }
  if (state->ended_by() > move.generation) return LaterIsHere(move, state->ended_by());
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
    tables.clear_process_nonce();
    tables.set_expect_state(true);
    state->set_leaving_tables(tables.SerializeAsString());
    state->set_sparse_tables(job->tables().tables().sparse.size());
  }
  state->set_leaving_term(move.term);
  MUSTER_RETURN_IF_ERROR(Stored(move).PutState(*state));
  return state;
}

absl::Status PartitionMoves::SendLog(const PartitionMove& move, HandOverSender& sender) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<MutationLog> log, Stored(move).OpenLog());
  if (log->next_lsn() < sender.next_lsn()) {
    return absl::DataLossError(absl::StrCat("the log of ", NameOf(move), " ends at record ",
                                            log->next_lsn() - 1, ", expected ",
                                            sender.next_lsn() - 1, " at least"));
  }
  return log->Replay(sender.next_lsn(), [&](uint64_t lsn, absl::Span<const std::byte> header,
                                            absl::Span<const std::byte> payload) {
    return sender.Record(lsn, header, payload);
  });
}

absl::Status PartitionMoves::SendRest(const PartitionMove& move, v1::PartitionState state,
                                      HandOverSender& sender) {
  const std::string tables = state.leaving_tables();
  absl::Status sent = absl::OutOfRangeError("nothing was sent");
  if (sender.begun()) sent = SendLog(move, sender);
  if (absl::IsOutOfRange(sent)) {
    const uint32_t sparse_tables = state.sparse_tables();
    state.clear_leaving_term();
    state.clear_leaving_tables();
    MUSTER_RETURN_IF_ERROR(sender.Begin(state, sparse_tables));
    for (uint32_t table : MovedPartition::Tables(sparse_tables)) {
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

absl::StatusOr<std::unique_ptr<v1::PartitionState>> PartitionMoves::Claim(
    const PartitionMove& move) {
  MUSTER_ASSIGN_OR_RETURN(const std::optional<uint64_t> generation,
                          StoredGeneration(move.job_id, *resources_.store));
  if (generation.value_or(0) > move.generation) return LaterIsHere(move, *generation);
  if (generation.value_or(0) < move.generation) {
    MUSTER_RETURN_IF_ERROR(DeleteStoredGenerations(move.job_id, move.generation - 1, resources_));
  }
  const MovedPartition stored = Stored(move);
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<v1::PartitionState> state, stored.ReadState());
  if (state != nullptr && state->generation() == move.generation) return state;
  // How many tables there are comes with the copy.
  state = std::make_unique<v1::PartitionState>(stored.NotHere(0));
  state->set_adopted_term(move.term);
  MUSTER_RETURN_IF_ERROR(stored.PutState(*state));
  return state;
}

absl::StatusOr<bool> PartitionMoves::Prepare(const PartitionMove& move) {
  OpenJobs::Turn turn = jobs_.Take(move.job_id);
  const auto give_back = absl::MakeCleanup([&] { jobs_.GiveBack(move.job_id, turn); });
  if (turn.first() > move.generation) return LaterIsHere(move, turn.first());
  if (turn.job != nullptr && turn.generation < move.generation) {
    return absl::UnavailableError(absl::StrCat("generation ", turn.generation, " of job ",
                                               move.job_id, " is still open here; try again"));
  }
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<v1::PartitionState> state, Claim(move));
  if (!state->left() && state->leaving_term() == 0 && state->adopted_term() == move.term) {
    return true;
  }
  const OpenJob::Found found =
      turn.job == nullptr ? OpenJob::Found() : turn.job->Find(move.partition);
  if (found.partition != nullptr || found.failed()) {
    return absl::FailedPreconditionError(absl::StrCat(NameOf(move), " is open on this server"));
  }
  return false;
}

absl::Status PartitionMoves::WhileClaimed(const PartitionMove& move,
                                          absl::FunctionRef<absl::Status()> write) {
  OpenJobs::Turn turn = jobs_.Take(move.job_id);
  const auto give_back = absl::MakeCleanup([&] { jobs_.GiveBack(move.job_id, turn); });
  if (turn.first() > move.generation) return LaterIsHere(move, turn.first());
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<v1::PartitionState> state,
                          Stored(move).ReadState());
  if (state == nullptr || state->generation() != move.generation) {
    return absl::UnavailableError(absl::StrCat("the copied part of ", NameOf(move),
                                               " was dropped with generation ", move.generation,
                                               " of its job; try again"));
  }
  return write();
}

absl::Status PartitionMoves::OpenAdopted(const PartitionMove& move,
                                         const v1::OpenTablesRequest* tables) {
  OpenJobs::Turn turn = jobs_.Take(move.job_id);
  const auto give_back = absl::MakeCleanup([&] { jobs_.GiveBack(move.job_id, turn); });
  if (turn.first() > move.generation) {
    return absl::AbortedError(
        absl::StrCat("job ", move.job_id, " went on to generation ", turn.first()));
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
  return CatchOutOfMemory("taking a partition over", [&] { return TakeOver(move, fetch); });
}

absl::Status PartitionMoves::TakeOver(const PartitionMove& move,
                                      absl::FunctionRef<absl::Status(ChunkSink)> fetch) {
  if (resources_.store == nullptr) {
    return absl::FailedPreconditionError("this server stores nothing; start it with a data folder");
  }
  Busy busy(*this, KeyOf(move));
  if (!busy.Try()) {
    return absl::UnavailableError(absl::StrCat(NameOf(move), " takes part in another move here"));
  }
  MUSTER_ASSIGN_OR_RETURN(const bool whole, Prepare(move));
  if (whole) return OpenAdopted(move, nullptr);
  const MovedPartition stored = Stored(move);
  HandOverReceiver receiver(stored, move, *resources_.store);
  MUSTER_RETURN_IF_ERROR(fetch([&](const v1::HandOverChunk& chunk) {
    return WhileClaimed(move, [&] { return receiver.Add(chunk); });
  }));
  MUSTER_ASSIGN_OR_RETURN(const v1::PartitionState state, receiver.Finish());
  if (resources_.crash_point->Pass("move_copied")) return CrashedHere();
  MUSTER_RETURN_IF_ERROR(WhileClaimed(move, [&] { return stored.PutState(state); }));
  if (resources_.crash_point->Pass("move_adopted")) return CrashedHere();
  return OpenAdopted(move, receiver.tables());
}

absl::Status PartitionMoves::Release(const PartitionMove& move) {
  return CatchOutOfMemory("the release of a partition", [&] { return DeleteReleased(move); });
}

absl::Status PartitionMoves::DeleteReleased(const PartitionMove& move) {
  if (resources_.store == nullptr) return absl::OkStatus();
  Busy busy(*this, KeyOf(move));
  busy.Wait();
  OpenJobs::Turn turn = jobs_.Take(move.job_id);
  const auto give_back = absl::MakeCleanup([&] { jobs_.GiveBack(move.job_id, turn); });
  const MovedPartition stored = Stored(move);
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<v1::PartitionState> state, stored.ReadState());
  if (state == nullptr || state->generation() != move.generation) return absl::OkStatus();
  const bool leaves = state->leaving_term() == move.term;
  const bool came = state->leaving_term() == 0 && state->adopted_term() == move.term;
  if (!leaves && !came) return absl::OkStatus();
  if (turn.job != nullptr && turn.generation == move.generation) {
    turn.job->TakeOut(move.partition, OpenJob::Absence::kNotHere);
  }
  return stored.Replace(stored.NotHere(state->sparse_tables()));
}

}  // namespace muster
