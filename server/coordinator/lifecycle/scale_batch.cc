#include "server/coordinator/lifecycle/scale_batch.h"

#include <optional>

#include "common/job/adjustments.h"
#include "common/mesh/job_mesh.h"
#include "server/coordinator/adjust/batch_scaling.h"
#include "server/coordinator/adjust/describe.h"

namespace muster {

void ScaleBatch(uint32_t workers, const v1::RendezvousRecord& met, uint64_t clock,
                JobChange& change) {
  const v1::JobSpec& spec = change.record.spec();
  if (!spec.scale_batch()) return;
  auto& decided = *change.record.mutable_adjustments();
  while (!decided.empty() && decided.rbegin()->clock() > clock) decided.RemoveLast();
  const auto data_ranks = static_cast<uint32_t>(MeshOf(spec, workers).size(kDataAxes));
  const std::optional<v1::Adjustment> next =
      DecideScaledBatch(change.record, clock, data_ranks, met.training_examples());
  if (!next.has_value()) return;
  change.events.emplace_back(DescribeAdjustment(Adjustments(decided).At(clock), *next),
                             v1::JobEvent::ADJUSTMENT);
  *decided.Add() = *next;
}

}  // namespace muster
