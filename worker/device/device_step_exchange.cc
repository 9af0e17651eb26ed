#include "worker/device/device_step_exchange.h"

#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/mesh/mesh.h"

namespace muster {

DeviceStepExchange::DeviceStepExchange(Communicator& host, const MeshPosition& shard,
                                       absl::Duration timeout)
    : host_(host),
      counts_examples_(shard.at(kModelAxes) == 0),
      timeout_(timeout),
      squares_by_rank_(host.size()) {
  const Mesh mesh = shard.mesh.WithReplicas(host.size() / shard.mesh.world_size());
  for (int rank = 0; rank < host.size(); ++rank) {
    squares_by_rank_[rank] = mesh.Position(rank, kStateAxes.Others()) == 0 ? 1 : 0;
  }
}

absl::StatusOr<DeviceUpdateStep> DeviceStepExchange::Run(uint64_t examples, double squares) {
  const CollectiveTraffic before = host_.traffic();
  StepShare mine = {.examples = counts_examples_ ? examples : 0};
  if (squares_by_rank_[host_.rank()] > 0) mine.cells = absl::MakeConstSpan(&squares, 1);
  MUSTER_ASSIGN_OR_RETURN(const StepTotal total,
                          exchange_.Run(host_, timeout_, mine, squares_by_rank_));
  const CollectiveTraffic now = host_.traffic();
  traffic_.sent += now.sent - before.sent;
  traffic_.received += now.received - before.received;
  DeviceUpdateStep step;
  step.examples = total.examples;
  step.squares = 0;
  for (const double of_shard : total.cells) *step.squares += of_shard;
  return step;
}

}  // namespace muster
