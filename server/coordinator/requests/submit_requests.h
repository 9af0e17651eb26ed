#ifndef MUSTER_SERVER_COORDINATOR_REQUESTS_SUBMIT_REQUESTS_H_
#define MUSTER_SERVER_COORDINATOR_REQUESTS_SUBMIT_REQUESTS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/job_service.pb.h"
#include "server/coordinator/calls/call.h"
#include "server/coordinator/calls/serial_executor.h"
#include "server/coordinator/checkpoints/checkpoint_archive.h"
#include "server/coordinator/cluster/membership.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/metrics/coordinator_metrics.h"
#include "server/coordinator/requests/coordinator_options.h"
#include "server/coordinator/requests/plan_job.h"
#include "server/coordinator/requests/ship_requests.h"

namespace muster {

// JobService.SubmitJob without gRPC: makes new jobs, also those that begin with the checkpoint of
// another one. Logic thread only.
class SubmitRequests {
 public:
  // All references outlive it.
  SubmitRequests(JobTable& jobs, const Membership& members, const CheckpointArchive& archive,
                 ShipRequests& shipped, SerialExecutor& logic, SerialExecutor& planning,
                 CoordinatorMetrics& metrics, const CoordinatorOptions& options);

  // Checks and plans a job on the executor `planning`, then stores it and answers.
  void Submit(const v1::SubmitJobRequest& request, Call<v1::SubmitJobReply> call);

 private:
  struct Source {
    const Job* job = nullptr;
    const v1::CheckpointRecord* checkpoint = nullptr;
    // Canonical name of the source, by job id: later jobs may take the job's name.
    std::string by_id;
  };
  // Finds what a field of a specification names as JOB, JOB@CLOCK or JOB@best, where JOB is an id
  // or a name (FindJobCalled). InvalidArgument: it has none of these forms. NotFound: there is no
  // such job or checkpoint. FailedPrecondition: the job has no checkpoint.
  absl::StatusOr<Source> FindSource(absl::string_view field, const std::string& text) const;
  struct NewJob {
    v1::JobRecord record;
    // Job::data_preparation.
    std::string data_preparation;
  };
  // Makes a new job begin with the weights that its `initial_weights` names: a job as for
  // FindSource, or a folder by its absolute path or URI.
  absl::Status TakeInitialWeights(NewJob& job) const;
  // Makes a new job go on from what its `resume_from` names. InvalidArgument: its optimizer is
  // another one, nothing is left to train, or its seed would hold out other examples.
  absl::Status Resume(NewJob& job) const;
  // Returns the job of an earlier call with this request_id; null: there is none. InvalidArgument:
  // that call had another specification.
  absl::StatusOr<const Job*> FindRequest(const std::string& request_id, uint64_t fingerprint) const;
  // Checks that whoever submits the job may have it run a program, if it does. PermissionDenied.
  absl::Status CheckMayRun(const v1::SubmitJobRequest& request) const;
  // Stores a job that was planned, or returns why not.
  absl::StatusOr<v1::SubmitJobReply> Accept(const std::string& request_id, uint64_t fingerprint,
                                            const absl::StatusOr<PlannedJob>& planned);
  absl::StatusOr<NewJob> MakeJob(const PlannedJob& planned) const;

  JobTable& jobs_;
  const Membership& members_;
  // Used on the executor `planning`.
  const CheckpointArchive& archive_;
  ShipRequests& shipped_;
  SerialExecutor& logic_;
  SerialExecutor& planning_;
  CoordinatorMetrics& metrics_;
  const CoordinatorOptions& options_;
  // Number of jobs being planned.
  size_t in_planning_ = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_REQUESTS_SUBMIT_REQUESTS_H_
