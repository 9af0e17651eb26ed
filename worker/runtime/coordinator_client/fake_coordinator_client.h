#ifndef MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_FAKE_COORDINATOR_CLIENT_H_
#define MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_FAKE_COORDINATOR_CLIENT_H_

#include <deque>
#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "proto/status.pb.h"
#include "proto/task_service.pb.h"
#include "worker/runtime/coordinator_client/coordinator_client.h"

namespace muster {

// A coordinator of one task, in memory. Answers every call at once and keeps it. Thread-safe.
class FakeCoordinatorClient final : public CoordinatorClient {
 public:
  absl::StatusOr<v1::RendezvousReply> Rendezvous(v1::RendezvousRequest request) override;
  absl::StatusOr<v1::ReportProgressReply> ReportProgress(
      v1::ReportProgressRequest request) override;
  absl::Status ReportCollectives(v1::ReportCollectivesRequest request) override;
  absl::StatusOr<v1::ReportEvaluationReply> ReportEvaluation(
      v1::ReportEvaluationRequest request) override;
  absl::StatusOr<v1::AdjustReply> Adjust(v1::AdjustRequest request) override;
  absl::StatusOr<v1::VerifyStepReply> VerifyStep(v1::VerifyStepRequest request) override;
  absl::Status CommitCheckpoint(v1::CommitCheckpointRequest request, std::stop_token stop) override;
  absl::StatusOr<v1::ShardMap> GetShardMap(uint64_t min_version, absl::Duration wait) override;

  // Sets the answers to the next reports of progress, one each. Later reports are answered OK.
  void FailProgress(std::vector<absl::Status> answers);
  // Sets the reply to every report of progress that is answered OK.
  void SetProgressReply(v1::ReportProgressReply reply);
  // Sets what answers evaluations. The default is an empty result that does not stop the job.
  void OnEvaluation(
      std::function<absl::StatusOr<v1::ReportEvaluationReply>(const v1::ReportEvaluationRequest&)>
          answer);
  // Sets what answers requests for adjustments. The default is that nothing was decided.
  void OnAdjust(std::function<absl::StatusOr<v1::AdjustReply>(const v1::AdjustRequest&)> answer);
  // Sets what answers comparisons of steps. The default is that the step is right.
  void OnVerifyStep(
      std::function<absl::StatusOr<v1::VerifyStepReply>(const v1::VerifyStepRequest&)> answer);
  void SetShardMap(v1::ShardMap map);

  std::vector<v1::RendezvousRequest> rendezvous() const;
  std::vector<v1::ReportProgressRequest> progress() const;
  std::vector<v1::ReportCollectivesRequest> collectives() const;
  std::vector<v1::ReportEvaluationRequest> evaluations() const;
  std::vector<v1::AdjustRequest> adjusts() const;
  std::vector<v1::VerifyStepRequest> verified() const;
  std::vector<v1::CommitCheckpointRequest> checkpoints() const;

  // Blocks until so many reports of progress, or of collective calls, have come.
  void AwaitProgress(size_t reports) const;
  void AwaitCollectives(size_t reports) const;

 private:
  mutable absl::Mutex mutex_;
  std::deque<absl::Status> progress_answers_ ABSL_GUARDED_BY(mutex_);
  v1::ReportProgressReply progress_reply_ ABSL_GUARDED_BY(mutex_);
  std::function<absl::StatusOr<v1::ReportEvaluationReply>(const v1::ReportEvaluationRequest&)>
      evaluation_answer_ ABSL_GUARDED_BY(mutex_);
  std::function<absl::StatusOr<v1::AdjustReply>(const v1::AdjustRequest&)> adjust_answer_
      ABSL_GUARDED_BY(mutex_);
  std::function<absl::StatusOr<v1::VerifyStepReply>(const v1::VerifyStepRequest&)> verify_answer_
      ABSL_GUARDED_BY(mutex_);
  v1::ShardMap map_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::RendezvousRequest> rendezvous_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::ReportProgressRequest> progress_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::ReportCollectivesRequest> collectives_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::ReportEvaluationRequest> evaluations_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::AdjustRequest> adjusts_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::VerifyStepRequest> verified_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::CommitCheckpointRequest> checkpoints_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_FAKE_COORDINATOR_CLIENT_H_
