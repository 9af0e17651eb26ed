#ifndef MUSTER_WORKER_DATA_SAMPLING_JOB_MIXTURE_H_
#define MUSTER_WORKER_DATA_SAMPLING_JOB_MIXTURE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/step/step_batches.h"
#include "worker/data/dataset.h"
#include "worker/data/sampling/mixture.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Makes the mixture of a job whose data are one; null if they are not. `sources` are
// DatasetInfo::sources; `total_steps` is the job's last clock.
//
// Weights that change at step s change where its batch begins, also if that step was one of a job
// that this one goes on from.
//
// InvalidArgument, naming the step: the sources are used up before the job ends. Otherwise errors
// are Mixture's.
absl::StatusOr<std::shared_ptr<const Mixture>> MakeJobMixture(
    const v1::JobSpec& spec, absl::Span<const DatasetSource> sources, const StepBatches& batches,
    int64_t total_steps);

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_SAMPLING_JOB_MIXTURE_H_
