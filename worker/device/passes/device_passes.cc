#include "worker/device/passes/device_passes.h"

#include <algorithm>
#include <new>
#include <vector>

#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/kernels/transformer/head_sums.h"
#include "common/kernels/transformer/rotary.h"
#include "common/tensor/dtype.h"
#include "worker/device/memory/await_device_memory.h"
#include "worker/nn/transformer/transformer_backend.h"

namespace muster {
namespace {}  // namespace

DevicePasses::DevicePasses(const DeviceComputeOptions& options)
    : most_(options.rows()),
      most_length_(options.length),
      splits_backward_(options.split_backward),
      units_(options.array_units()) {}

absl::optional<size_t> DevicePasses::ArraysOf(const UnitRange& units) const {
  const auto found = std::find(units_.begin(), units_.end(), units);
  if (found == units_.end()) return absl::nullopt;
  return found - units_.begin();
}

struct DevicePasses::Pinned {
  HeadSums training;
  HeadSums evaluation;
  // The loads of experts lie behind, and then what expert ranks tell one another.
  RouterSums routers;
  HeadSums& Of(Pass pass) { return pass == Pass::kTraining ? training : evaluation; }
};

DevicePasses::Pinned& DevicePasses::pinned() const {
  return *reinterpret_cast<Pinned*>(pinned_.data());
}

absl::StatusOr<std::unique_ptr<DevicePasses>> DevicePasses::Create(
    const TransformerShape& shape, const DeviceComputeOptions& options,
    const DeviceExtents& extents) {
  std::unique_ptr<DevicePasses> passes(new DevicePasses(options));
  const size_t bytes = PlanDevicePasses(extents, nullptr).bytes.total;
  MUSTER_ASSIGN_OR_RETURN(passes->buffer_, AllocateDeviceMemory(bytes));
  const DevicePassMemory& memory = passes->memory_ =
      PlanDevicePasses(extents, passes->buffer_.data());
  passes->loads_ = memory.expert_blocks * extents.activations.experts.loads_of_block();
  const uint64_t expert_ranks = extents.activations.expert_ranks;
  if (expert_ranks > 1) {
    passes->rank_offsets_ = shape.layers * expert_ranks * (shape.experts.experts + 1);
  }
  MUSTER_ASSIGN_OR_RETURN(
      passes->pinned_,
      DeviceBuffer::Allocate(MemoryPlace::kPinnedHost,
                             sizeof(Pinned) + passes->loads_ * sizeof(uint64_t) +
                                 memory.sets.size() * passes->rank_offsets_ * sizeof(int32_t)));
  new (passes->pinned_.data()) Pinned();
  MUSTER_ASSIGN_OR_RETURN(passes->stream_, DeviceStream::Create());
  passes->stream_->Fill(passes->buffer_.data(), 0, bytes);
  MUSTER_ASSIGN_OR_RETURN(passes->batches_,
                          DeviceBatches::Create(shape, options.rows(), memory.sets[0].batch));
  DeviceMatmulOptions matmul;
  matmul.workspace = memory.scratch.workspace;
  matmul.workspace_bytes = kDeviceWorkspaceBytes;
  MUSTER_ASSIGN_OR_RETURN(passes->matmul_, MakeDeviceMatmul(matmul));
  passes->ops_ = std::make_unique<DeviceOps>(
      DeviceOpsOptions{.scratch = memory.scratch.ops, .scratch_bytes = memory.scratch.ops_bytes},
      *passes->stream_, *passes->matmul_);
  passes->recorder_ = std::make_unique<DeviceRecorder>(*passes->stream_, *passes->ops_);
  MUSTER_RETURN_IF_ERROR(passes->UploadRotaryTable(shape));
  return passes;
}

void DevicePasses::Stop() {
  // Where Create failed, there is less.
  if (recorder_ != nullptr) recorder_->GiveUp();
  if (stream_ != nullptr) stream_->Synchronize().IgnoreError();
}

absl::Status DevicePasses::UploadRotaryTable(const TransformerShape& shape) {
  if (memory_.rotary == nullptr) return stream_->Synchronize();
  std::vector<float> table(shape.context * shape.head_dim());
  FillRotaryTable(shape.context, shape.head_dim(), shape.rotary, table.data());
  stream_->CopyToDevice(memory_.rotary, table.data(), table.size() * sizeof(float));
  return stream_->Synchronize();
}

int DevicePasses::NextSet() {
  const int set = next_set_;
  next_set_ = (next_set_ + 1) % static_cast<int>(memory_.sets.size());
  return set;
}

void DevicePasses::Begin(const TokenRows& rows, const DeviceBatchRecord& record, Pass kind,
                         DeviceRecorder::Pass& pass) {
  DeviceStream& after = stream();
  if (rows.sequences > 0) batches_->Copy(after, record, set(pass).batch);
  if (kind == Pass::kEvaluation) {
    after.Fill(sums(kind), 0, sizeof(HeadSums));
  } else if (std::exchange(sums_taken_, false)) {
    ClearSums(after);
  }
  if (rows.sequences > 0 && kind == Pass::kTraining) {
    recorder_->Begin(rows, pass);
  } else {
    recorder_->BeginUnrecorded(pass);
  }
}

void DevicePasses::ClearSums(DeviceStream& stream) {
  stream.Fill(memory_.sums, 0, sizeof(HeadSums));
  if (loads_ == 0) return;
  stream.Fill(memory_.router_sums, 0, sizeof(RouterSums));
  stream.Fill(memory_.expert_loads, 0, loads_ * sizeof(uint64_t));
}

void DevicePasses::MakeCalls(Communicator& communicator, absl::Span<const CollectiveCall> calls) {
  recorder_->DoBetween([this, &communicator, made = std::vector(calls.begin(), calls.end())] {
    idle_ = false;
    const bool waits = stream_->native() == nullptr;
    if (waits) stream_->Fail(stream_->Synchronize());
    if (!stream_->status().ok()) return;
    std::vector<CollectiveCall> on_stream = made;
    for (CollectiveCall& call : on_stream) call.stream = stream_->native();
    for (std::shared_ptr<Work>& work : communicator.StartMessages(on_stream)) {
      if (waits) {
        stream_->Fail(work->Wait(absl::InfiniteDuration()));
      } else {
        calls_.push_back(std::move(work));
      }
    }
  });
}

void DevicePasses::Exchange(std::function<void()> exchange) {
  recorder_->DoBetween([this, exchange = std::move(exchange)] {
    idle_ = false;
    if (stream_->status().ok()) exchange();
  });
}

absl::Status DevicePasses::Read(const void* from, size_t bytes, void* to) {
  MUSTER_RETURN_IF_ERROR(AwaitMade());
  stream_->CopyToHost(to, from, bytes);
  stream_->Fail(stream_->Synchronize());
  return stream_->status();
}

int32_t* DevicePasses::rank_offsets(const DeviceRecorder::Pass& pass) const {
  if (rank_offsets_ == 0) return nullptr;
  std::byte* const begin = pinned_.data() + sizeof(Pinned) + loads_ * sizeof(uint64_t);
  return reinterpret_cast<int32_t*>(begin) + pass.set() * rank_offsets_;
}

absl::Status DevicePasses::AwaitCalls() {
  recorder_->Queue();
  return AwaitMade();
}

absl::Status DevicePasses::AwaitMade() {
  for (const std::shared_ptr<Work>& call : std::exchange(calls_, {})) {
    stream_->Fail(call->Wait(absl::InfiniteDuration()));
  }
  return stream_->status();
}

absl::Status DevicePasses::Wait() {
  MUSTER_RETURN_IF_ERROR(AwaitCalls());
  if (std::exchange(idle_, true)) return stream_->status();
  return stream_->Synchronize();
}

void DevicePasses::QueueSums(Pass pass, ContextGroup* group) {
  HeadSums* of_ranks = sums(pass);
  if (group != nullptr) {
    // Passes to come add to this rank's own.
    of_ranks = memory_.sums_of_ranks;
    stream_->CopyOnDevice(of_ranks, sums(pass), sizeof(HeadSums));
    group->Sum(DType::kF64, kHeadSums, of_ranks);
  }
  stream_->CopyToHost(&pinned().Of(pass), of_ranks, sizeof(HeadSums));
}

absl::StatusOr<HeadSums> DevicePasses::TakeSums(Pass pass) {
  MUSTER_RETURN_IF_ERROR(Wait());
  if (pass == Pass::kTraining) sums_taken_ = true;
  return pinned().Of(pass);
}

absl::Status DevicePasses::AddRouters(RouterSums& sums, absl::Span<uint64_t> loads) {
  if (loads_ == 0) return absl::OkStatus();
  RouterSums& routers = pinned().routers;
  auto* const pinned_loads = reinterpret_cast<uint64_t*>(pinned_.data() + sizeof(Pinned));
  DeviceStream& after = stream();
  after.CopyToHost(&routers, memory_.router_sums, sizeof(RouterSums));
  after.CopyToHost(pinned_loads, memory_.expert_loads, loads_ * sizeof(uint64_t));
  MUSTER_RETURN_IF_ERROR(Wait());
  sums.auxiliary += routers.auxiliary;
  sums.z += routers.z;
  sums.entropy += routers.entropy;
  sums.tokens += routers.tokens;
  for (size_t i = 0; i < loads_; ++i) loads[i] += pinned_loads[i];
  return absl::OkStatus();
}

absl::Status DevicePasses::WarmUp(absl::FunctionRef<absl::Status(const Batch&)> run) {
  Batch batch;
  batch.examples = most_.sequences;
  batch.tokens.assign(most_.sequences * most_length_, 0);
  batch.labels = batch.tokens;
  bool fused = false;
  do {
    // Where a fused product proves impossible, what takes its place is measured, too.
    fused = ops_->fuses_gelu();
    // Graphs of steps before keep the algorithms of then, and calls that have run would be captured
    // while they are measured.
    MUSTER_RETURN_IF_ERROR(stream().Synchronize());
    recorder_->Forget();
    matmul_->StartMeasuring();
    const absl::Status status = run(batch);
    recorder_->Queue();
    matmul_->StopMeasuring();
    MUSTER_RETURN_IF_ERROR(status);
  } while (ops_->fuses_gelu() != fused);
  sums_taken_ = true;
  return stream().Synchronize();
}

}  // namespace muster
