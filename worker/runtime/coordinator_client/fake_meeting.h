#ifndef MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_FAKE_MEETING_H_
#define MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_FAKE_MEETING_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "proto/job.pb.h"
#include "proto/status.pb.h"
#include "proto/task_service.pb.h"
#include "worker/runtime/coordinator_client/coordinator_client.h"

namespace muster {

// A coordinator of one all-reduce job, in memory: rounds, evaluations and fences. Thread-safe.
class FakeMeeting {
 public:
  // Expects all slots of the job.
  explicit FakeMeeting(const v1::JobSpec& spec);

  // Starts the slot's next incarnation and expects it to meet. Returns the task's client.
  std::unique_ptr<CoordinatorClient> StartTask(uint32_t slot);

  // Fences the slot's task, and waits for a new one.
  void Lose(uint32_t slot);
  // Does not wait for the slot until a task is started in it.
  void GoOnWithout(uint32_t slot);
  // Loses the slot when it reports its next evaluation.
  void LoseInEvaluation(uint32_t slot);
  // Decides something. Tasks learn it when they meet, or when they ask at its clock or later.
  void Decide(const v1::Adjustment& adjustment);
  // Asks all tasks of the present round to meet again.
  void AskToMeet();
  void WantCollectives(bool wanted);

  struct Round {
    uint64_t number = 0;
    std::vector<uint32_t> slots;
    absl::optional<uint32_t> source_slot;
    // The source's clock.
    uint64_t clock = 0;
    // Why the round before ended, by slot that reported it.
    std::map<uint32_t, std::string> failures;
  };
  std::vector<Round> rounds() const;
  // Returns results by clock.
  std::map<uint64_t, v1::EvaluationResult> evaluations() const;
  // Returns commits in order of arrival, each with the slot that sent it.
  std::vector<v1::CommitCheckpointRequest> checkpoints() const;
  // Returns what the slot told of steps that are compared, which are all found right.
  std::vector<v1::VerifyStepRequest> verified(uint32_t slot) const;
  std::vector<v1::ReportProgressRequest> progress(uint32_t slot) const;
  std::vector<v1::ReportCollectivesRequest> collectives(uint32_t slot) const;

  // Blocks until the slot has reported its collective calls.
  void AwaitCollectives(uint32_t slot) const;
  // Blocks until the slot has had an answer sent after this call, so it knows what was set before.
  void AwaitAnsweredReport(uint32_t slot) const;

 private:
  class Task;

  absl::StatusOr<v1::RendezvousReply> Rendezvous(uint32_t slot, uint64_t incarnation,
                                                 v1::RendezvousRequest request);
  absl::StatusOr<v1::ReportEvaluationReply> ReportEvaluation(uint32_t slot, uint64_t incarnation,
                                                             v1::ReportEvaluationRequest request);
  absl::StatusOr<v1::AdjustReply> Adjust(uint32_t slot, uint64_t incarnation,
                                         const v1::AdjustRequest& request);
  absl::Status CheckFenceLocked(uint32_t slot, uint64_t incarnation) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OpenRoundIfAllAreThereLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LoseLocked(uint32_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends parked evaluations, which are repeated after the next meeting.
  void CancelEvaluationLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const v1::JobSpec spec_;

  mutable absl::Mutex mutex_;
  std::set<uint32_t> expected_ ABSL_GUARDED_BY(mutex_);
  // Incarnations and requests by slot.
  std::map<uint32_t, uint64_t> incarnations_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, v1::RendezvousRequest> arrived_ ABSL_GUARDED_BY(mutex_);
  // The reply of the last round.
  v1::RendezvousReply reply_ ABSL_GUARDED_BY(mutex_);
  // The reason why the job failed.
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  uint64_t meet_after_round_ ABSL_GUARDED_BY(mutex_) = 0;
  bool collectives_wanted_ ABSL_GUARDED_BY(mutex_) = false;
  absl::optional<uint32_t> lose_in_evaluation_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, v1::ReportEvaluationRequest> shares_ ABSL_GUARDED_BY(mutex_);
  v1::AdjustReply decided_ ABSL_GUARDED_BY(mutex_);
  uint64_t cancelled_evaluations_ ABSL_GUARDED_BY(mutex_) = 0;

  std::vector<Round> rounds_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, v1::EvaluationResult> evaluations_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::CommitCheckpointRequest> checkpoints_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, std::vector<v1::VerifyStepRequest>> verified_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, std::vector<v1::ReportProgressRequest>> progress_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, std::vector<v1::ReportCollectivesRequest>> collectives_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_FAKE_MEETING_H_
