#include "server/coordinator/adjust/batch_growth.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_format.h"
#include "common/job/adjustments.h"
#include "common/mesh/job_mesh.h"
#include "common/step/step_batches.h"
#include "proto/job.pb.h"
#include "proto/job_record.pb.h"

namespace muster {

std::string DecideBatch(const AdjustmentFacts& facts, v1::Adjustment& next) {
  const v1::JobSpec& spec = facts.record.spec();
  if (!MayGrowBatch(spec, facts.clock) || !facts.noise_scale.has_value()) return "";
  const int64_t present = next.batch_size() > 0
                              ? next.batch_size()
                              : SpecifiedBatchSize(spec, static_cast<int64_t>(facts.clock));
  const int64_t most = std::min<int64_t>(spec.adaptive_batch().max_batch_size(), 2 * present);
  const auto wanted = static_cast<int64_t>(std::min(*facts.noise_scale, static_cast<double>(most)));
  const int64_t parts = int64_t{SizeAlong(kDataAxes, spec)} * std::max(1u, spec.micro_batches());
  const int64_t batch = wanted / parts * parts;
  if (batch <= present) return "";
  next.set_batch_size(static_cast<uint32_t>(batch));
  return absl::StrFormat("the gradient noise scale is %.4g examples", *facts.noise_scale);
}

}  // namespace muster
