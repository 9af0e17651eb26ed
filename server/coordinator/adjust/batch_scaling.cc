#include "server/coordinator/adjust/batch_scaling.h"

#include "absl/strings/str_cat.h"
#include "common/job/adjustments.h"
#include "common/mesh/job_mesh.h"
#include "proto/job.pb.h"
#include "proto/job_record.pb.h"

namespace muster {

std::optional<v1::Adjustment> DecideScaledBatch(const v1::JobRecord& record, uint64_t clock,
                                                uint32_t data_ranks, uint64_t training_examples) {
  const v1::JobSpec& spec = record.spec();
  if (!spec.scale_batch()) return std::nullopt;
  v1::Adjustment next = Adjustments(record.adjustments()).At(clock);
  const uint64_t present = next.batch_size() > 0 ? next.batch_size() : spec.batch_size();
  const uint64_t batch = ScaledBatch(spec, data_ranks, training_examples);
  if (batch == present) return std::nullopt;
  next.set_clock(clock);
  next.set_batch_size(static_cast<uint32_t>(batch));
  // Examples are passed over once, and each decision has reasons of its own.
  next.clear_skipped_examples();
  next.clear_returned();
  next.set_reason(absl::StrCat("the round has ", data_ranks, " data ranks, and batch_size ",
                               spec.batch_size(), " is for ", SizeAlong(kDataAxes, spec)));
  return next;
}

}  // namespace muster
