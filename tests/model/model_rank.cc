#include "tests/model/model_rank.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/lost_state.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/manifest.h"
#include "worker/strategy/servers/shard_connections.h"

namespace muster {
namespace {

// How long a rank waits for the others in a call: as long as real ones do to be connected.
constexpr absl::Duration kCallTimeout = absl::Seconds(10);

constexpr char kCommitted[] = "committed";
constexpr char kGivenUp[] = "given up";

template <typename T>
void Append(absl::Span<const T> values, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

template <typename T>
void Take(absl::string_view& bytes, absl::Span<T> values) {
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  bytes.remove_prefix(values.size() * sizeof(T));
}

std::string ContentOf(ShardState& replica) {
  const ShardState::State state = replica.state();
  const uint64_t clock = replica.clock();
  std::string bytes;
  Append<uint64_t>({&clock, 1}, bytes);
  Append<float>(state.weights, bytes);
  Append<float>(state.optimizer_state, bytes);
  Append<uint64_t>(state.steps, bytes);
  return bytes;
}

void TakeOver(absl::string_view bytes, ShardState& replica) {
  const ShardState::State state = replica.state();
  uint64_t clock = 0;
  Take<uint64_t>(bytes, {&clock, 1});
  Take(bytes, state.weights);
  Take(bytes, state.optimizer_state);
  Take(bytes, state.steps);
  replica.set_clock(clock);
}

}  // namespace

ModelRank::ModelRank(ModelCluster& cluster, std::string worker, v1::TaskOrder order)
    : cluster_(cluster),
      worker_(std::move(worker)),
      order_(std::move(order)),
      replica_(*ShardState::Create(ModelTables().schema())) {}

ModelRank::~ModelRank() {
  if (group_ != nullptr) group_->broken = true;
}

bool ModelRank::Advance() {
  switch (state_) {
    case State::kMeet:
      return Meet();
    case State::kJoin:
      return Join();
    case State::kTrain:
      return Train();
    case State::kWrite:
      return Write();
    case State::kCommit:
      return Commit();
    case State::kEndCut:
      return EndCut();
    case State::kEnded:
      return false;
  }
  return false;
}

bool ModelRank::Meet() {
  SimulatedCluster& cluster = cluster_.cluster();
  if (!meeting_.has_value()) {
    const ModelCluster::Fate fate = cluster_.Send(worker_, -1);
    if (fate == ModelCluster::Fate::kRequestLost) return false;
    SimulatedCluster::Rank& known = cluster.rank(order_);
    known = {.round = round_};
    if (has_replica_) known.clock = replica_->clock();
    meeting_ = cluster.Rendezvous(order_, kModelSteps);
    if (fate == ModelCluster::Fate::kAnswerLost) {
      meeting_->Cancel();
      meeting_.reset();
    }
    return true;
  }
  if (!meeting_->came()) return false;
  const absl::StatusOr<v1::RendezvousReply> round = meeting_->get();
  meeting_.reset();
  if (round.ok()) {
    Enter(*round);
  } else if (!IsConnectionTrouble(round.status())) {
    End(round.status());
  }
  return true;
}

void ModelRank::Enter(const v1::RendezvousReply& round) {
  round_ = round.round();
  size_ = round.peers_size();
  source_.reset();
  for (int rank = 0; rank < size_; ++rank) {
    const uint32_t slot = round.peers(rank).slot();
    if (slot == order_.slot()) rank_ = rank;
    if (round.has_source_slot() && slot == round.source_slot()) source_ = rank;
  }
  checkpoint_clock_ = order_.start_clock();
  if (!naive()) checkpoint_clock_ = std::max(checkpoint_clock_, round.checkpoint_clock());
  group_ = cluster_.GroupOf(absl::StrCat(order_.generation(), "/", round_));
  call_ = 0;
  since_ = cluster_.cluster().clock.Monotonic();
  state_ = State::kJoin;
  if (source_.has_value()) return;
  if (const absl::Status restored = Restore(); !restored.ok()) End(restored);
}

absl::Status ModelRank::Restore() {
  has_replica_ = false;
  replica_->Reset();
  if (!order_.restore_uri().empty()) {
    const auto checkpoint = CheckpointReader::Open(cluster_.storage(), order_.restore_uri());
    MUSTER_RETURN_IF_ERROR(DataLossIs(checkpoint.status(), LostState::kCheckpoint));
    MUSTER_RETURN_IF_ERROR(
        DataLossIs(replica_->Restore(**checkpoint, RestoreExtent::kAll, order_.start_clock()),
                   LostState::kCheckpoint));
  }
  has_replica_ = true;
  return absl::OkStatus();
}

ModelRank::Came ModelRank::Call(const std::string& mine) {
  auto& calls = group_->calls;
  if (calls.size() <= call_) calls.resize(call_ + 1);
  if (calls[call_].count(rank_) == 0) {
    if (group_->broken) return Came::kBroken;
    if (cluster_.SendToRanks(worker_) != ModelCluster::Fate::kArrives) return Came::kBroken;
    calls[call_][rank_] = mine;
  }
  const absl::Duration now = cluster_.cluster().clock.Monotonic();
  if (static_cast<int>(calls[call_].size()) == size_) {
    gave_ = calls[call_++];
    since_ = now;
    return Came::kAll;
  }
  return group_->broken || now - since_ > kCallTimeout ? Came::kBroken : Came::kNotYet;
}

bool ModelRank::LeaveIf(Came came) {
  if (came == Came::kNotYet) return false;
  Leave();
  return true;
}

void ModelRank::Leave() {
  group_->broken = true;
  group_.reset();
  state_ = State::kMeet;
}

bool ModelRank::Join() {
  const Came came = Call(has_replica_ ? ContentOf(*replica_) : "");
  if (came != Came::kAll) return LeaveIf(came);
  if (source_.has_value()) TakeOver(gave_[*source_], *replica_);
  has_replica_ = true;
  cut_done_ = false;
  GoOn();
  return true;
}

void ModelRank::GoOn() {
  const uint64_t clock = replica_->clock();
  const bool due = clock % kModelCheckpointEvery == 0 || clock == kModelSteps;
  if (due && !cut_done_ && clock > checkpoint_clock_) {
    BeginCut();
  } else if (clock == kModelSteps) {
    End(absl::OkStatus());
  } else {
    state_ = State::kTrain;
  }
}

bool ModelRank::Train() {
  const std::vector<float> weights(replica_->weights().begin(), replica_->weights().end());
  std::string mine;
  Append<float>(ModelGradient(order_.slot(), replica_->clock(), weights), mine);
  const Came came = Call(mine);
  if (came != Came::kAll) return LeaveIf(came);
  std::vector<float> sum(weights.size());
  for (const auto& [rank, bytes] : gave_) {
    std::vector<float> gradient(weights.size());
    absl::string_view left = bytes;
    Take(left, absl::MakeSpan(gradient));
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
  }
  const std::vector<absl::Span<float>> slices = replica_->PartSlices(absl::MakeSpan(sum));
  replica_->Apply({.examples = static_cast<uint64_t>(size_), .dense = slices, .rows = {}}, 1);
  ++own_steps_;
  cut_done_ = false;
  GoOn();
  if (state_ == State::kEnded) return true;
  if (cluster_.Send(worker_, -1) == ModelCluster::Fate::kRequestLost) return true;
  const absl::Status status = cluster_.cluster().Progress(order_, replica_->clock());
  if (absl::IsAborted(status) || absl::IsNotFound(status)) {
    End(status);
  } else if (status.ok() && cluster_.cluster().progress_reply.meet_after_round() >= round_) {
    Leave();
  }
  return true;
}

void ModelRank::BeginCut() {
  state_ = State::kWrite;
  if (const absl::Status status = WriteOwnFiles(); !status.ok()) End(status);
}

absl::Status ModelRank::WriteOwnFiles() {
  MemoryStorage& storage = cluster_.storage();
  const std::string folder =
      CheckpointFolder(order_.checkpoint_root(), order_.job_id(), replica_->clock());
  written_.Clear();
  for (uint32_t p = rank_; p < replica_->layout().partitions(); p += size_) {
    ShardFile file;
    file.checkpoint_root = order_.checkpoint_root();
    file.job_id = order_.job_id();
    file.generation = order_.generation();
    file.number = p;
    const absl::Span<const uint32_t> blocks = replica_->layout().partition_blocks(p);
    file.blocks.assign(blocks.begin(), blocks.end());
    file.partitions = {p};
    file.loss_scales = {{order_.slot(), {.scale = 1, .steps = own_steps_}}};
    MUSTER_ASSIGN_OR_RETURN(PartitionFileInfo info, replica_->Save(file, storage));
    if (naive()) {
      const std::string name = absl::StrCat("partition-", p);
      MUSTER_ASSIGN_OR_RETURN(const std::string bytes,
                              ReadFile(storage, JoinUri(folder, info.path)));
      MUSTER_RETURN_IF_ERROR(storage.DeleteRecursively(JoinUri(folder, info.path)));
      MUSTER_RETURN_IF_ERROR(storage.DeleteRecursively(JoinUri(folder, name)));
      MUSTER_RETURN_IF_ERROR(WriteFile(storage, JoinUri(folder, name), bytes));
      info.path = name;
    }
    v1::CutFile& piece = *written_.add_files();
    piece.set_partition(p);
    piece.set_path(info.path);
    piece.set_bytes(info.bytes);
    piece.set_checksum(info.checksum);
  }
  return absl::OkStatus();
}

bool ModelRank::Write() {
  const Came came = Call(written_.SerializeAsString());
  if (came != Came::kAll) return LeaveIf(came);
  commit_.Clear();
  for (const auto& [rank, bytes] : gave_) commit_.MergeFromString(bytes);
  *commit_.mutable_task() = SimulatedCluster::Identity(order_);
  commit_.set_clock(replica_->clock());
  commit_.set_schema(ModelTables().schema().SerializeAsString());
  committing_.reset();
  given_up_ = false;
  state_ = rank_ == 0 ? State::kCommit : State::kEndCut;
  return true;
}

bool ModelRank::Commit() {
  if (!committing_.has_value()) {
    const ModelCluster::Fate fate = cluster_.Send(worker_, -1);
    if (fate == ModelCluster::Fate::kRequestLost) return false;
    committing_.emplace();
    cluster_.cluster().coordinator().tasks().CommitCheckpoint(commit_, committing_->call());
    cluster_.cluster().Run();
    if (fate == ModelCluster::Fate::kAnswerLost) committing_.reset();
    return true;
  }
  if (!committing_->came()) return false;
  const absl::Status status = committing_->status();
  committing_.reset();
  if (IsConnectionTrouble(status)) return false;
  if (!status.ok() && !absl::IsFailedPrecondition(status)) {
    End(status);
    return true;
  }
  given_up_ = !status.ok();
  state_ = State::kEndCut;
  return true;
}

bool ModelRank::EndCut() {
  const Came came = Call(given_up_ ? kGivenUp : kCommitted);
  if (came != Came::kAll) return LeaveIf(came);
  // What rank 0 says.
  if (gave_[0] == kGivenUp) DeleteWritten();
  cut_done_ = true;
  GoOn();
  return true;
}

void ModelRank::DeleteWritten() {
  const std::string folder =
      CheckpointFolder(order_.checkpoint_root(), order_.job_id(), replica_->clock());
  for (const v1::CutFile& piece : written_.files()) {
    cluster_.storage().DeleteRecursively(JoinUri(folder, piece.path())).IgnoreError();
  }
}

void ModelRank::End(const absl::Status& status) {
  // What all have given is there for those who come later.
  if (!status.ok() && group_ != nullptr) group_->broken = true;
  group_.reset();
  state_ = State::kEnded;
  cluster_.cluster().End(order_, static_cast<int>(status.code()), std::string(status.message()),
                         static_cast<v1::TaskReport::Loss>(LostStateOf(status)));
}

}  // namespace muster
