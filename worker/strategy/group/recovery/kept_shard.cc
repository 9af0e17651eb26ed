#include "worker/strategy/group/recovery/kept_shard.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"
#include "common/base/lost_state.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/manifest.h"
#include "common/mesh/job_mesh.h"
#include "common/mesh/mesh.h"
#include "common/partition/schema.h"
#include "proto/cluster_service.pb.h"
#include "proto/schema.pb.h"
#include "worker/nn/loss_scaler.h"
#include "worker/strategy/group/exchange/array_calls.h"
#include "worker/strategy/group/exchange/cut_exchange.h"
#include "worker/strategy/offloaded_floats.h"

namespace muster {
namespace {

RestoreExtent RestoreExtentOf(const v1::TaskOrder& order) {
  if (!order.restore_weights_only()) return RestoreExtent::kAll;
  return order.spec().averaged_weights() ? RestoreExtent::kAverages : RestoreExtent::kWeights;
}

}  // namespace

MeshPosition ShardOf(const v1::TaskOrder& order) {
  // Slots beyond the job's workers (JobSpec.max_workers) get their shards when they join a round.
  const Mesh mesh = MeshOf(order.spec());
  return {mesh, static_cast<int>(order.slot()) % mesh.world_size(), kStateAxes};
}

uint64_t ShardFingerprint(uint32_t stage, uint64_t kept_bytes, const ShardLayout& layout) {
  std::string text = absl::StrCat("stage ", stage, " of ", layout.holders().shards, ":");
  if (kept_bytes > 0) absl::StrAppend(&text, "keeps ", kept_bytes, ";");
  for (const ShardLayout::Part& part : layout.parts()) {
    absl::StrAppend(&text, part.begin, "-", part.end, "/", part.slice, "@", part.unit, ";");
  }
  return Fingerprint(text);
}

absl::StatusOr<std::unique_ptr<KeptShard>> KeptShard::Create(const v1::TaskOrder& order,
                                                             const v1::TablesSchema& schema,
                                                             const Options& options) {
  std::unique_ptr<KeptShard> kept(new KeptShard(order, schema, options));
  MUSTER_RETURN_IF_ERROR(kept->Divide(options.shard));
  MUSTER_RETURN_IF_ERROR(kept->CheckRoom());
  return kept;
}

absl::Status KeptShard::CheckRoom() const {
  const v1::JobSpec& spec = order_->spec();
  if (!DividesAnew(spec) || !OffloadsOptimizerState(spec)) return absl::OkStatus();
  // A rank's former file and its new one are the largest for the fewest ranks, and one more
  // (common/plan/memory/memory_plan.cc counts them).
  const int fewest = static_cast<int>(SmallestShardGroup(spec));
  const size_t most = OffloadedBytes(state_->state_floats(fewest)) +
                      OffloadedBytes(state_->state_floats(fewest + 1));
  return CheckRoomForNewFiles(
      options_.offload_folder,
      most - OffloadedBytes(state_->state_floats(Holders(state_->shard().mesh))));
}

KeptShard::KeptShard(const v1::TaskOrder& order, const v1::TablesSchema& schema,
                     const Options& options)
    : order_(std::make_unique<const v1::TaskOrder>(order)),
      schema_(std::make_unique<const v1::TablesSchema>(schema)),
      options_(options),
      loss_scaling_(order.spec().compute(), {.slot = order.slot(), .log = options.log}) {}

KeptShard::~KeptShard() = default;

absl::optional<uint64_t> KeptShard::clock() const {
  if (content_ == StateContent::kNothing) return absl::nullopt;
  return state_->clock();
}

void KeptShard::Forget() {
  content_ = StateContent::kNothing;
  state_->ReleaseValues();
}

void KeptShard::HandOver() {
  content_ = StateContent::kHandedOver;
  state_->ReleaseValues();
}

absl::Status KeptShard::TakeBack(absl::FunctionRef<absl::Status(ShardState& state)> copy) {
  state_->AllocateValues();
  const absl::Status status = copy(*state_);
  if (!status.ok()) {
    Forget();
    return status;
  }
  content_ = StateContent::kWhole;
  return absl::OkStatus();
}

absl::Status KeptShard::Fill(Communicator& communicator, absl::optional<int> source,
                             Communicator* replicas, Communicator* expert_replicas) {
  state_->AllocateValues();
  if (source.has_value()) {
    MUSTER_RETURN_IF_ERROR(
        BroadcastState(communicator, *source, kStorageTimeout, *state_, content_));
    state_->UnmapState();
    return BroadcastLossScale(communicator, *source);
  }
  MUSTER_RETURN_IF_ERROR(Restore());
  // No rank may begin a step, whose calls have short timeouts, while others still read.
  MUSTER_RETURN_IF_ERROR(communicator.Run(Barrier(kStorageTimeout, "all have their parameters")));
  if (!order_->restore_uri().empty() || replicas == nullptr) return absl::OkStatus();
  // Initial values come from functions of the C library, whose last bit depends on the machine.
  content_ = StateContent::kNothing;
  MUSTER_RETURN_IF_ERROR(
      BroadcastWeights(*replicas, 0, kStorageTimeout, /*of_experts=*/false, *state_));
  if (expert_replicas != nullptr) {
    MUSTER_RETURN_IF_ERROR(
        BroadcastWeights(*expert_replicas, 0, kStorageTimeout, /*of_experts=*/true, *state_));
  }
  content_ = StateContent::kWhole;
  return absl::OkStatus();
}

int KeptShard::context_copies() const { return MeshOf(order_->spec()).size(Axis::kContextCopy); }

MeshPosition KeptShard::ShardOfRank(int rank, int ranks) const {
  return {MeshOf(order_->spec(), ranks), rank, kStateAxes};
}

absl::StatusOr<DenseLayout> KeptShard::LayoutOf(const MeshPosition& shard) const {
  MUSTER_ASSIGN_OR_RETURN(const Tables tables, LocalTables(*schema_, shard));
  return LayoutOfTensors(*schema_, tables.tensors);
}

absl::StatusOr<std::unique_ptr<ShardState>> KeptShard::MakeState(const MeshPosition& shard) const {
  absl::optional<std::string> offload_folder;
  if (OffloadsOptimizerState(order_->spec())) offload_folder = options_.offload_folder;
  return ShardState::Create(*schema_, shard, offload_folder);
}

std::string KeptShard::offload_folder() const {
  return OffloadsOptimizerState(order_->spec()) ? options_.offload_folder : "";
}

const std::string& KeptShard::checkpoint_root() const { return order_->checkpoint_root(); }

void KeptShard::Take(std::unique_ptr<ShardState> state) {
  state_ = std::move(state);
  content_ = StateContent::kWhole;
}

absl::Status KeptShard::Divide(const MeshPosition& shard) {
  content_ = StateContent::kNothing;
  if (state_ != nullptr) state_->ReleaseValues();
  MUSTER_ASSIGN_OR_RETURN(state_, MakeState(shard));
  return absl::OkStatus();
}

absl::Status KeptShard::Receive(Communicator& communicator, int from) {
  content_ = StateContent::kNothing;
  state_->AllocateValues();
  MUSTER_RETURN_IF_ERROR(ReceiveState(communicator, from, kStorageTimeout, *state_));
  content_ = StateContent::kWhole;
  return absl::OkStatus();
}

absl::Status KeptShard::Restore() {
  content_ = StateContent::kNothing;
  state_->Reset();
  loss_scaling_.Restart();
  if (!order_->restore_uri().empty()) {
    const absl::StatusOr<std::unique_ptr<CheckpointReader>> checkpoint =
        CheckpointReader::Open(*options_.storage, order_->restore_uri());
    // A checkpoint that this worker cannot see may still be sound: its folder may not be mounted.
    MUSTER_RETURN_IF_ERROR(DataLossIs(checkpoint.status(), LostState::kCheckpoint));
    MUSTER_RETURN_IF_ERROR(
        DataLossIs(state_->Restore(**checkpoint, RestoreExtentOf(*order_), order_->start_clock()),
                   LostState::kCheckpoint));
    if (!order_->restore_weights_only() && LossScaler::IsFound(order_->spec().compute())) {
      const auto scale = (*checkpoint)->ReadLossScale(/*slot=*/0);
      MUSTER_RETURN_IF_ERROR(DataLossIs(scale.status(), LostState::kCheckpoint));
      if (scale->has_value()) loss_scaling_.GoOnWith(**scale);
    }
  }
  content_ = StateContent::kWhole;
  return absl::OkStatus();
}

absl::Status KeptShard::BroadcastLossScale(Communicator& communicator, int source) {
  if (!loss_scaling_.searches()) return absl::OkStatus();
  // All ranks run the same version of the program.
  LossScale scale = loss_scaling_.state();
  MUSTER_RETURN_IF_ERROR(communicator.Run(
      Broadcast(source, absl::MakeSpan(&scale, 1), kStorageTimeout, "loss scale")));
  loss_scaling_.GoOnWith(scale);
  return absl::OkStatus();
}

std::vector<SlotLossScale> KeptShard::LossScalesOfSlots() const {
  std::vector<SlotLossScale> scales;
  if (!loss_scaling_.searches()) return scales;
  for (uint32_t slot = 0; slot < order_->spec().workers(); ++slot) {
    scales.push_back({slot, loss_scaling_.state()});
  }
  return scales;
}

std::vector<ShardFile> KeptShard::OwnFiles(const Communicator& communicator,
                                           uint32_t first_number) const {
  const uint32_t rank = communicator.rank();
  const uint32_t ranks = communicator.size();
  const uint32_t partitions = state_->layout().partitions();
  std::vector<ShardFile> files;
  const auto add = [&](uint32_t number) -> ShardFile& {
    ShardFile& file = files.emplace_back();
    file.checkpoint_root = order_->checkpoint_root();
    file.job_id = order_->job_id();
    file.generation = order_->generation();
    file.number = first_number + number;
    if (number == 0) file.loss_scales = LossScalesOfSlots();
    return file;
  };
  const auto shards = static_cast<uint32_t>(state_->shard().mesh.world_size());
  if (shards == 1) {
    for (uint32_t p = rank; p < partitions; p += ranks) {
      ShardFile& file = add(p);
      const absl::Span<const uint32_t> blocks = state_->layout().partition_blocks(p);
      file.blocks.assign(blocks.begin(), blocks.end());
      file.partitions = {p};
    }
    return files;
  }
  ShardFile& file = add(rank);
  const uint32_t blocks = state_->owned_blocks().size();
  const Mesh mesh = state_->shard().mesh.WithCopies(static_cast<int>(ranks / shards));
  for (uint32_t i = mesh.Position(communicator.rank(), kExpertCopyAxes); i < blocks;
       i += mesh.size(kExpertCopyAxes)) {
    if (!state_->owned_blocks()[i].block.repeated) file.blocks.push_back(i);
  }
  for (uint32_t p = rank; p < partitions; p += ranks) file.partitions.push_back(p);
  return files;
}

std::vector<PartitionContent> KeptShard::ContentsOfCut(const Communicator& communicator,
                                                       uint32_t first_number) const {
  std::vector<PartitionContent> contents;
  for (const ShardFile& file : OwnFiles(communicator, first_number)) {
    contents.push_back(state_->Content(file));
  }
  return contents;
}

absl::Status KeptShard::WriteOwnFiles(const Communicator& communicator, uint32_t first_number) {
  for (const PartitionContent& content : ContentsOfCut(communicator, first_number)) {
    MUSTER_ASSIGN_OR_RETURN(const PartitionFileInfo info,
                            WritePartition(*options_.storage, order_->checkpoint_root(), content));
    written_.push_back({content.partition, info.path, info.bytes, info.checksum});
  }
  return absl::OkStatus();
}

void KeptShard::DeleteWritten() {
  const std::string folder =
      CheckpointFolder(order_->checkpoint_root(), order_->job_id(), state_->clock());
  for (const PartitionFile& file : std::exchange(written_, {})) {
    // A file that stays is a leftover, which the coordinator finds later.
    options_.storage->DeleteRecursively(JoinUri(folder, file.path)).IgnoreError();
  }
}

absl::StatusOr<CutFiles> KeptShard::Cut(Communicator& communicator, uint32_t first_number,
                                        absl::string_view failure) {
  written_.clear();
  const absl::Status status =
      failure.empty() ? WriteOwnFiles(communicator, first_number) : absl::UnavailableError(failure);
  if (!status.ok()) return ExchangeCut(communicator, kStorageTimeout, status);
  return ExchangeCut(communicator, kStorageTimeout, written_);
}

absl::StatusOr<CutEnd> KeptShard::EndCut(Communicator& communicator, CutEnd mine) {
  double committed = communicator.rank() > 0 || mine == CutEnd::kCommitted ? 1 : 0;
  CollectiveCall least;
  least.kind = Collective::kAllReduce;
  least.reduction = Reduction::kMin;
  least.dtype = DType::kF64;
  least.in = least.out = &committed;
  least.count = 1;
  least.timeout = kStorageTimeout;
  least.label = "commit of the cut";
  // After an error of the communicator no rank knows whether rank 0 will commit the cut.
  MUSTER_RETURN_IF_ERROR(communicator.Run(least));
  if (committed > 0) return CutEnd::kCommitted;
  DeleteWritten();
  return CutEnd::kTryAgain;
}

}  // namespace muster
