#include "worker/strategy/servers/served_cuts.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/lost_state.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "proto/cluster_service.pb.h"
#include "proto/parameter_service.pb.h"
#include "worker/strategy/servers/dense_residual.h"

namespace muster {

absl::Status ServedCuts::RestoreSlotState(uint64_t closed) {
  const v1::TaskOrder& order = parts_.order;
  DenseResidual* const residual = parts_.pushes.residual();
  const bool scales = parts_.loss_scale.scaling().searches();
  if (residual == nullptr && !scales) return absl::OkStatus();
  // At any other clock, or with another job's weights, it belongs to something else.
  if (parts_.checkpoints == nullptr || order.restore_uri().empty() ||
      order.restore_weights_only() || closed != order.start_clock()) {
    return absl::OkStatus();
  }
  const absl::StatusOr<std::unique_ptr<CheckpointReader>> checkpoint =
      CheckpointReader::Open(*parts_.checkpoints, order.restore_uri());
  // Only servers need to reach checkpoints on this road; for one rounding step, or a loss scale
  // that is found anew, it is not worth ending the job.
  if (absl::IsNotFound(checkpoint.status())) {
    parts_.log(absl::StrCat("slot ", order.slot(), " cannot read ", order.restore_uri(), " here: ",
                            residual == nullptr
                                ? "its loss scale begins anew"
                                : "what its pushes had rounded away before is dropped"));
    return absl::OkStatus();
  }
  MUSTER_RETURN_IF_ERROR(DataLossIs(checkpoint.status(), LostState::kCheckpoint));
  if (scales) {
    const auto scale = (*checkpoint)->ReadLossScale(parts_.loss_scale.shared() ? 0 : order.slot());
    MUSTER_RETURN_IF_ERROR(DataLossIs(scale.status(), LostState::kCheckpoint));
    if (scale->has_value()) parts_.loss_scale.GoOnWith(**scale);
  }
  if (residual == nullptr) return absl::OkStatus();
  return DataLossIs(
      residual->Restore(**checkpoint, parts_.tensors, order.slot(), order.spec().workers()),
      LostState::kCheckpoint);
}

Payload ServedCuts::PayloadOf(CutOrder order, uint32_t partition) const {
  // One slot alone has the file written, from what all had sent when it was taken.
  const bool writes = order.step == CutOrder::Step::kWrite;
  if (partition == 0 && !writes) order.loss_scale = parts_.loss_scale.of_slot();
  Payload head = EncodeCutOrder(order);
  const DenseResidual* const residual = parts_.pushes.residual();
  if (residual == nullptr || writes) return head;
  std::string bytes(head.size(), '\0');
  head.CopyTo(bytes.data());
  residual->Append(partition, bytes);
  return Payload::Copy({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
}

std::vector<ShardRouter::Handle> ServedCuts::Send(uint64_t clock, const CutOrder& order) {
  std::vector<ShardRouter::Handle> operations;
  for (uint32_t partition = 0; partition < parts_.partitions; ++partition) {
    v1::ExchangeRequest request;
    request.set_clock(clock);
    request.mutable_cut();
    operations.push_back(parts_.router.Send(
        partition, std::move(request), PayloadOf(order, partition), ShardRouter::Order::kFree));
  }
  return operations;
}

absl::StatusOr<CutFiles> ServedCuts::Await(const std::vector<ShardRouter::Handle>& operations) {
  CutFiles files;
  for (const ShardRouter::Handle& operation : operations) {
    MUSTER_RETURN_IF_ERROR(parts_.router.Wait(operation));
    const v1::ExchangeReply& reply = *operation->result().reply;
    const auto partition = static_cast<uint32_t>(files.by_partition.size());
    if (reply.checkpoint_path().empty() && files.failure.empty()) {
      files.failure = absl::StrCat("partition ", partition, " has no file: ", reply.message());
    }
    files.by_partition.push_back({.partition = partition,
                                  .path = reply.checkpoint_path(),
                                  .bytes = reply.checkpoint_bytes(),
                                  .checksum = reply.checkpoint_checksum()});
  }
  return files;
}

absl::StatusOr<CutFiles> ServedCuts::Cut(uint64_t clock) { return Await(Send(clock, CutOrder())); }

absl::Status ServedCuts::Take(uint64_t clock) {
  // Whoever writes the files finds out if there is no view.
  for (const ShardRouter::Handle& take : Send(clock, {.step = CutOrder::Step::kTake, .base = {}})) {
    MUSTER_RETURN_IF_ERROR(parts_.router.Wait(take));
  }
  return absl::OkStatus();
}

void ServedCuts::Write(uint64_t clock, absl::optional<uint64_t> base) {
  writes_ = Send(clock, {.step = CutOrder::Step::kWrite, .base = base});
}

bool ServedCuts::Written() const {
  return std::all_of(writes_.begin(), writes_.end(),
                     [](const ShardRouter::Handle& write) { return write->done(); });
}

absl::StatusOr<CutFiles> ServedCuts::AwaitFiles() { return Await(std::exchange(writes_, {})); }

}  // namespace muster
