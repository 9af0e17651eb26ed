#include "tests/model/model_server_task.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/lost_state.h"
#include "common/partition/cut_order.h"
#include "common/partition/layout_from_schema_for_testing.h"
#include "common/partition/schema.h"

namespace muster {
namespace {

constexpr absl::Duration kNoTime = absl::ZeroDuration();

v1::OpenTablesRequest TablesOf(const v1::TaskOrder& order) {
  v1::OpenTablesRequest request = ModelTables();
  request.set_job_id(order.job_id());
  request.set_generation(order.generation());
  *request.mutable_update() = order.spec().update();
  request.set_restore_uri(order.restore_uri());
  request.set_restore_weights_only(order.restore_weights_only());
  request.set_start_clock(order.start_clock());
  request.set_checkpoint_root(order.checkpoint_root());
  request.set_expect_state(order.expect_state());
  request.set_slot(order.slot());
  request.set_incarnation(order.incarnation());
  return request;
}

absl::Status Lost() { return absl::UnavailableError("the connection broke"); }

// A connection to one process of a server; it fails with the process, and with the first message
// that does not get through.
class ModelClient final : public ParameterClient {
 public:
  ModelClient(ModelCluster& cluster, std::string worker, const std::string& address)
      : cluster_(cluster),
        worker_(std::move(worker)),
        server_(address[1] - '0'),
        process_(cluster.process(server_)) {}

  absl::StatusOr<v1::OpenTablesReply> OpenTables(const v1::OpenTablesRequest& request,
                                                 absl::Duration) override {
    // Connections open their servers' tables side by side.
    absl::MutexLock lock(&cluster_.opening());
    const ModelCluster::Fate fate = Send();
    if (fate == ModelCluster::Fate::kRequestLost || !Reaches()) return Lost();
    v1::OpenTablesRequest sent = request;
    if (cluster_.options().tasks == ModelCluster::Options::Tasks::kNaive) {
      sent.clear_process_nonce();
      sent.clear_expect_state();
    }
    absl::StatusOr<v1::OpenTablesReply> reply = cluster_.engine(server_)->OpenTables(sent);
    cluster_.executor().RunAll();
    if (fate == ModelCluster::Fate::kAnswerLost) {
      failed_ = true;
      return Lost();
    }
    return reply;
  }

  absl::StatusOr<v1::EndGenerationReply> EndGeneration(const v1::EndGenerationRequest&,
                                                       absl::Duration) override {
    return v1::EndGenerationReply();
  }
  absl::Status DropTables(const std::string&, absl::Duration) override { return absl::OkStatus(); }
  absl::StatusOr<v1::GetServerStatsReply> Stats(absl::Duration) override {
    return v1::GetServerStatsReply();
  }

  void Call(v1::ExchangeRequest request, Payload payload, Done done) override {
    const ModelCluster::Fate fate = Send();
    if (fate == ModelCluster::Fate::kRequestLost || !Reaches()) return done(Lost());
    const bool answer_lost = fate == ModelCluster::Fate::kAnswerLost;
    ExchangeCall call;
    call.request = std::make_shared<const v1::ExchangeRequest>(std::move(request));
    call.payload = std::move(payload);
    call.done = [answer_lost, done](v1::ExchangeReply reply, Payload bytes) {
      if (answer_lost) return;
      if (reply.code() != 0) {
        return done(absl::Status(static_cast<absl::StatusCode>(reply.code()), reply.message()));
      }
      done(ExchangeResult{std::make_shared<const v1::ExchangeReply>(std::move(reply)),
                          std::move(bytes)});
    };
    cluster_.engine(server_)->Execute(std::move(call));
    cluster_.executor().RunAll();
    if (!answer_lost) return;
    failed_ = true;
    done(Lost());
  }

  void Abort(absl::Status) override { failed_ = true; }

 private:
  ModelCluster::Fate Send() {
    const ModelCluster::Fate fate = cluster_.Send(worker_, server_);
    if (fate == ModelCluster::Fate::kRequestLost) failed_ = true;
    return fate;
  }
  bool Reaches() const {
    return !failed_ && cluster_.engine(server_) != nullptr && cluster_.process(server_) == process_;
  }

  ModelCluster& cluster_;
  const std::string worker_;
  const int server_;
  const uint64_t process_;
  bool failed_ = false;
};

}  // namespace

ModelServerTask::ModelServerTask(ModelCluster& cluster, std::string worker, v1::TaskOrder order)
    : cluster_(cluster),
      worker_(std::move(worker)),
      order_(std::move(order)),
      connections_(TablesOf(order_), order_.slot(), [this](const std::string& address) {
        return std::make_unique<ModelClient>(cluster_, worker_, address);
      }) {}

bool ModelServerTask::Advance() {
  switch (state_) {
    case State::kMeet:
      return Meet();
    case State::kConnect:
      return Connect();
    case State::kCommit:
      return Commit();
    case State::kCut:
    case State::kPull:
    case State::kPush:
      return Exchange();
    case State::kEnded:
      return false;
  }
  return false;
}

bool ModelServerTask::Meet() {
  if (!meeting_.has_value()) {
    if (cluster_.Send(worker_, -1) == ModelCluster::Fate::kRequestLost) return false;
    meeting_ = cluster_.cluster().Rendezvous(order_, kModelSteps);
    return true;
  }
  if (!meeting_->came()) return false;
  const absl::Status status = meeting_->status();
  if (status.ok()) {
    checkpoint_clock_ = std::max(order_.start_clock(), meeting_->get()->checkpoint_clock());
    state_ = State::kConnect;
  } else if (!IsConnectionTrouble(status)) {
    End(status);
  }
  meeting_.reset();
  return true;
}

bool ModelServerTask::Connect() {
  operations_.clear();
  if (std::exchange(first_map_, false)) {
    if (absl::Status status = connections_.TakeMap(order_.shard_map()); !status.ok()) End(status);
  } else if (cluster_.Send(worker_, -1) != ModelCluster::Fate::kRequestLost) {
    const auto map = cluster_.cluster().GetShardMap(order_, 0, kNoTime);
    if (map.came() && map.get().ok()) {
      if (absl::Status status = connections_.TakeMap(*map.get()); !status.ok()) End(status);
    } else if (absl::IsAborted(map.status()) || absl::IsNotFound(map.status())) {
      End(map.status());
    }
  }
  if (state_ == State::kEnded) return true;
  std::vector<uint32_t> opened;
  const absl::Status status = connections_.Connect(clock_, opened);
  if (IsConnectionTrouble(status)) return false;
  if (absl::IsFailedPrecondition(status) && LostStateOf(status) == LostState::kNone) {
    // Does as the router does: a newer map may say where to go.
    const auto map = cluster_.cluster().GetShardMap(order_, 0, kNoTime);
    if (map.came() && map.get().ok() && map.get()->version() > connections_.map_version()) {
      return false;
    }
  }
  if (!status.ok()) {
    End(status);
    return true;
  }
  if (!std::exchange(opened_, true)) clock_ = connections_.contributions().closed;
  state_ = CutIsDue() ? State::kCut : clock_ == kModelSteps ? State::kEnded : State::kPull;
  if (state_ == State::kEnded) End(absl::OkStatus());
  return true;
}

bool ModelServerTask::CutIsDue() const {
  if (cut_done_ || clock_ <= checkpoint_clock_) return false;
  return clock_ % kModelCheckpointEvery == 0 || clock_ == kModelSteps;
}

v1::ExchangeRequest ModelServerTask::Request(uint32_t partition) const {
  v1::ExchangeRequest request;
  request.set_job_id(order_.job_id());
  request.set_generation(order_.generation());
  request.set_partition(partition);
  request.set_slot(order_.slot());
  request.set_incarnation(order_.incarnation());
  request.set_clock(clock_);
  return request;
}

void ModelServerTask::StartOperations() {
  const DenseLayout layout = LayoutFromSchema(ModelTables().schema());
  const std::vector<float> gradient = state_ == State::kPush
                                          ? ModelGradient(order_.slot(), clock_, weights_)
                                          : std::vector<float>();
  for (uint32_t p = 0; p < connections_.partitions(); ++p) {
    const auto blocks = layout.partition_blocks(p);
    v1::ExchangeRequest request = Request(p);
    if (state_ == State::kCut) {
      request.mutable_cut();
      operations_.push_back({.request = request, .payload = EncodeCutOrder({})});
    } else if (state_ == State::kPull) {
      request.mutable_dense_pull()->set_blocks(blocks.size());
      operations_.push_back({.request = request});
    } else {
      std::vector<float> part;
      for (const uint32_t id : blocks) {
        const auto& block = layout.blocks()[id];
        part.insert(part.end(), gradient.begin() + block.begin, gradient.begin() + block.end);
      }
      request.mutable_dense_push()->set_blocks(blocks.size());
      request.mutable_dense_push()->set_examples(1);
      operations_.push_back({.request = request, .payload = Payload::Of(std::move(part))});
      v1::ExchangeRequest close = Request(p);
      close.mutable_close()->set_examples(1);
      operations_.push_back({.request = close});
    }
  }
}

bool ModelServerTask::Exchange() {
  if (operations_.empty()) StartOperations();
  bool all = true;
  for (Operation& operation : operations_) {
    if (operation.connection == 0) {
      // One message a turn.
      operation.connection = connections_.Call(
          operation.request, operation.payload, {},
          [answer = operation.answer](uint64_t, absl::StatusOr<ExchangeResult> result) {
            *answer = std::move(result);
          });
      return true;
    }
    if (!operation.answer->has_value()) {
      all = false;
      // Its server may be gone with the question.
      continue;
    }
    const absl::StatusOr<ExchangeResult>& result = **operation.answer;
    if (!result.ok()) {
      if (IsConnectionTrouble(result.status())) {
        connections_.MarkBroken(operation.request.partition(), operation.connection);
        state_ = State::kConnect;
      } else {
        Judge(result.status());
      }
      return true;
    }
  }
  if (all) Finished();
  return all;
}

void ModelServerTask::Finished() {
  if (state_ == State::kCut) {
    commit_.Clear();
    *commit_.mutable_task() = SimulatedCluster::Identity(order_);
    commit_.set_clock(clock_);
    commit_.set_schema(ModelTables().schema().SerializeAsString());
    for (const Operation& operation : operations_) {
      const v1::ExchangeReply& reply = *(**operation.answer)->reply;
      v1::CutFile& file = *commit_.add_files();
      file.set_partition(operation.request.partition());
      file.set_path(reply.checkpoint_path());
      file.set_bytes(reply.checkpoint_bytes());
      file.set_checksum(reply.checkpoint_checksum());
    }
    state_ = State::kCommit;
  } else if (state_ == State::kPull) {
    const DenseLayout layout = LayoutFromSchema(ModelTables().schema());
    weights_.assign(ModelWeights()[0].size(), 0);
    for (const Operation& operation : operations_) {
      const Payload& values = (**operation.answer)->payload;
      Payload::Position position;
      for (const uint32_t id : layout.partition_blocks(operation.request.partition())) {
        const auto& block = layout.blocks()[id];
        values.Read(position, block.elements() * sizeof(float), &weights_[block.begin]);
      }
    }
    state_ = State::kPush;
  } else {
    StepClosed();
  }
  operations_.clear();
}

void ModelServerTask::StepClosed() {
  ++clock_;
  cut_done_ = false;
  state_ = CutIsDue() ? State::kCut : State::kPull;
  if (cluster_.Send(worker_, -1) == ModelCluster::Fate::kRequestLost) return;
  const absl::Status status = cluster_.cluster().Progress(order_, clock_);
  if (absl::IsAborted(status) || absl::IsNotFound(status)) End(status);
}

bool ModelServerTask::Commit() {
  if (order_.slot() == 0 && !committing_.has_value()) {
    if (cluster_.Send(worker_, -1) == ModelCluster::Fate::kRequestLost) return false;
    committing_.emplace();
    cluster_.cluster().coordinator().tasks().CommitCheckpoint(commit_, committing_->call());
    cluster_.cluster().Run();
    return true;
  }
  if (order_.slot() == 0) {
    if (!committing_->came()) return false;
    const absl::Status status = committing_->status();
    committing_.reset();
    if (IsConnectionTrouble(status)) return false;
    // A checkpoint that is given up.
    if (!status.ok() && !absl::IsFailedPrecondition(status)) {
      End(status);
      return true;
    }
  }
  cut_done_ = true;
  if (clock_ == kModelSteps) {
    End(absl::OkStatus());
  } else {
    state_ = State::kPull;
  }
  return true;
}

void ModelServerTask::Judge(const absl::Status& status) {
  if (absl::IsResourceExhausted(status)) {
    operations_.clear();
  } else if (absl::IsNotFound(status)) {
    End(absl::AbortedError(status.message()));
  } else {
    End(DataLossIs(status, LostState::kServerState));
  }
}

void ModelServerTask::End(const absl::Status& status) {
  state_ = State::kEnded;
  operations_.clear();
  const bool naive = cluster_.options().tasks == ModelCluster::Options::Tasks::kNaive;
  const LostState lost = naive ? LostState::kNone : LostStateOf(status);
  cluster_.cluster().End(order_, static_cast<int>(status.code()), std::string(status.message()),
                         static_cast<v1::TaskReport::Loss>(lost));
}

}  // namespace muster
