#include "common/search/trial_job.h"

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job_text/fill_message.h"
#include "common/search/rungs.h"

namespace muster {
namespace {

// Returns whether a schedule's rate depends on the job's last step.
bool FallsTowardsTheEnd(const v1::ScheduleSpec& schedule) {
  return schedule.name() == "linear" || schedule.name() == "cosine" ||
         schedule.name() == "warmup_stable_decay";
}

}  // namespace

absl::Status ApplyDraw(const v1::Draw& draw, const std::string& origin, v1::JobSpec& job) {
  return AssignField(absl::StrCat(draw.field(), "=", draw.value()), origin, job);
}

absl::StatusOr<v1::JobSpec> SpecOfTrial(const v1::SearchSpec& spec,
                                        const google::protobuf::RepeatedPtrField<v1::Draw>& draws,
                                        const TrialJob& of) {
  v1::JobSpec job = spec.job();
  for (const v1::Draw& draw : draws) {
    MUSTER_RETURN_IF_ERROR(ApplyDraw(draw, absl::StrCat("trial ", of.trial), job));
  }
  job.set_name(absl::StrCat(spec.name(), "-", of.trial));
  (*job.mutable_labels())["search"] = of.search_id;
  if (!HasRungs(spec)) return job;
  const std::vector<uint64_t> steps = TrialRungSteps(spec, of.trial);
  if (FallsTowardsTheEnd(job.schedule()) && job.schedule().total_steps() == 0) {
    job.mutable_schedule()->set_total_steps(steps.back());
  }
  job.mutable_stop()->set_steps(steps[of.rung]);
  if (of.rung > 0) {
    job.clear_initial_weights();
    job.clear_averaged_weights();
    job.set_resume_from(of.previous_job);
  }
  return job;
}

}  // namespace muster
