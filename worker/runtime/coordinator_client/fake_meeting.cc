#include "worker/runtime/coordinator_client/fake_meeting.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/mesh/holding_message.h"
#include "common/mesh/job_mesh.h"
#include "common/mesh/recovery_plan.h"

namespace muster {

// The client of one incarnation of a slot.
class FakeMeeting::Task final : public CoordinatorClient {
 public:
  Task(FakeMeeting& meeting, uint32_t slot, uint64_t incarnation)
      : meeting_(meeting), slot_(slot), incarnation_(incarnation) {}

  absl::StatusOr<v1::RendezvousReply> Rendezvous(v1::RendezvousRequest request) override {
    return meeting_.Rendezvous(slot_, incarnation_, std::move(request));
  }

  absl::StatusOr<v1::ReportProgressReply> ReportProgress(
      v1::ReportProgressRequest request) override {
    absl::MutexLock lock(&meeting_.mutex_);
    absl::Status fence = meeting_.CheckFenceLocked(slot_, incarnation_);
    if (!fence.ok()) return fence;
    meeting_.progress_[slot_].push_back(std::move(request));
    v1::ReportProgressReply reply;
    reply.set_collectives_wanted(meeting_.collectives_wanted_);
    reply.set_meet_after_round(meeting_.meet_after_round_);
    return reply;
  }

  absl::Status ReportCollectives(v1::ReportCollectivesRequest request) override {
    absl::MutexLock lock(&meeting_.mutex_);
    absl::Status fence = meeting_.CheckFenceLocked(slot_, incarnation_);
    if (fence.ok()) meeting_.collectives_[slot_].push_back(std::move(request));
    return fence;
  }

  absl::StatusOr<v1::ReportEvaluationReply> ReportEvaluation(
      v1::ReportEvaluationRequest request) override {
    return meeting_.ReportEvaluation(slot_, incarnation_, std::move(request));
  }

  absl::StatusOr<v1::AdjustReply> Adjust(v1::AdjustRequest request) override {
    return meeting_.Adjust(slot_, incarnation_, request);
  }

  absl::StatusOr<v1::VerifyStepReply> VerifyStep(v1::VerifyStepRequest request) override {
    absl::MutexLock lock(&meeting_.mutex_);
    const absl::Status fence = meeting_.CheckFenceLocked(slot_, incarnation_);
    if (!fence.ok()) return fence;
    meeting_.verified_[slot_].push_back(std::move(request));
    return v1::VerifyStepReply();
  }

  absl::Status CommitCheckpoint(v1::CommitCheckpointRequest request, std::stop_token) override {
    absl::MutexLock lock(&meeting_.mutex_);
    absl::Status fence = meeting_.CheckFenceLocked(slot_, incarnation_);
    if (!fence.ok()) return fence;
    request.mutable_task()->set_slot(slot_);
    meeting_.checkpoints_.push_back(std::move(request));
    return absl::OkStatus();
  }

  absl::StatusOr<v1::ShardMap> GetShardMap(uint64_t min_version, absl::Duration wait) override {
    return v1::ShardMap();
  }

 private:
  FakeMeeting& meeting_;
  const uint32_t slot_;
  const uint64_t incarnation_;
};

FakeMeeting::FakeMeeting(const v1::JobSpec& spec) : spec_(spec) {
  for (uint32_t slot = 0; slot < spec.workers(); ++slot) expected_.insert(slot);
}

std::unique_ptr<CoordinatorClient> FakeMeeting::StartTask(uint32_t slot) {
  absl::MutexLock lock(&mutex_);
  expected_.insert(slot);
  return std::make_unique<Task>(*this, slot, ++incarnations_[slot]);
}

void FakeMeeting::Lose(uint32_t slot) {
  absl::MutexLock lock(&mutex_);
  LoseLocked(slot);
}

void FakeMeeting::LoseLocked(uint32_t slot) {
  ++incarnations_[slot];
  arrived_.erase(slot);
  CancelEvaluationLocked();
}

void FakeMeeting::LoseInEvaluation(uint32_t slot) {
  absl::MutexLock lock(&mutex_);
  lose_in_evaluation_ = slot;
}

void FakeMeeting::GoOnWithout(uint32_t slot) {
  absl::MutexLock lock(&mutex_);
  expected_.erase(slot);
  OpenRoundIfAllAreThereLocked();
}

void FakeMeeting::Decide(const v1::Adjustment& adjustment) {
  absl::MutexLock lock(&mutex_);
  *decided_.add_adjustments() = adjustment;
}

void FakeMeeting::AskToMeet() {
  absl::MutexLock lock(&mutex_);
  meet_after_round_ = reply_.round();
  CancelEvaluationLocked();
}

void FakeMeeting::WantCollectives(bool wanted) {
  absl::MutexLock lock(&mutex_);
  collectives_wanted_ = wanted;
}

absl::Status FakeMeeting::CheckFenceLocked(uint32_t slot, uint64_t incarnation) const {
  if (!failure_.ok()) return absl::NotFoundError("the job has ended as FAILED");
  if (incarnations_.at(slot) == incarnation) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat("slot ", slot, " has incarnation ", incarnation,
                                         ", current is ", incarnations_.at(slot)));
}

absl::StatusOr<v1::RendezvousReply> FakeMeeting::Rendezvous(uint32_t slot, uint64_t incarnation,
                                                            v1::RendezvousRequest request) {
  absl::MutexLock lock(&mutex_);
  absl::Status fence = CheckFenceLocked(slot, incarnation);
  if (!fence.ok()) return fence;
  for (const auto& [other, brought] : arrived_) {
    if (brought.schema_fingerprint() == request.schema_fingerprint() &&
        brought.bucket_plan_fingerprint() == request.bucket_plan_fingerprint() &&
        brought.data_fingerprint() == request.data_fingerprint()) {
      continue;
    }
    failure_ = absl::FailedPreconditionError(
        absl::StrCat("slots ", other, " and ", slot, " have different data or models"));
    return failure_;
  }
  const uint64_t last = reply_.round();
  meet_after_round_ = last;
  arrived_[slot] = std::move(request);
  CancelEvaluationLocked();
  OpenRoundIfAllAreThereLocked();
  const auto answered = [this, slot, incarnation, last]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return reply_.round() > last || !CheckFenceLocked(slot, incarnation).ok();
  };
  mutex_.Await(absl::Condition(&answered));
  if (!failure_.ok()) return failure_;
  fence = CheckFenceLocked(slot, incarnation);
  if (!fence.ok()) return fence;
  return reply_;
}

void FakeMeeting::OpenRoundIfAllAreThereLocked() {
  for (const uint32_t slot : expected_) {
    if (arrived_.count(slot) == 0) return;
  }
  if (arrived_.empty()) return;
  Round round;
  std::vector<RankHolding> holdings;
  round.number = reply_.round() + 1;
  reply_.Clear();
  reply_.set_round(round.number);
  reply_.set_secret(absl::StrCat("secret of round ", round.number));
  if (!checkpoints_.empty()) reply_.set_checkpoint_clock(checkpoints_.back().clock());
  for (const auto& [slot, request] : arrived_) {
    round.slots.push_back(slot);
    v1::CollectivePeer* peer = reply_.add_peers();
    peer->set_slot(slot);
    peer->set_endpoint(request.endpoint());
    if (!request.failure().empty()) round.failures[slot] = request.failure();
    holdings.push_back(HoldingOf(request));
  }
  const auto ranks = static_cast<uint32_t>(holdings.size());
  if (const absl::StatusOr<RecoveryPlan> plan = PlanRecovery(holdings, MeshOf(spec_, ranks));
      plan.ok()) {
    round.source_slot = round.slots[plan->leader];
    round.clock = plan->clock;
  }
  if (round.source_slot.has_value()) reply_.set_source_slot(*round.source_slot);
  for (const v1::Adjustment& each : decided_.adjustments()) {
    if (each.clock() <= round.clock) *reply_.add_adjustments() = each;
  }
  arrived_.clear();
  rounds_.push_back(std::move(round));
}

absl::StatusOr<v1::ReportEvaluationReply> FakeMeeting::ReportEvaluation(
    uint32_t slot, uint64_t incarnation, v1::ReportEvaluationRequest request) {
  absl::MutexLock lock(&mutex_);
  absl::Status fence = CheckFenceLocked(slot, incarnation);
  if (!fence.ok()) return fence;
  if (lose_in_evaluation_ == slot) {
    lose_in_evaluation_.reset();
    LoseLocked(slot);
    return CheckFenceLocked(slot, incarnation);
  }
  const uint64_t clock = request.clock();
  const uint64_t cancelled = cancelled_evaluations_;
  if (evaluations_.count(clock) == 0) {
    // Other tasks wait to meet this one.
    if (!arrived_.empty()) return absl::CancelledError("meet again");
    shares_[slot] = std::move(request);
    if (shares_.size() == static_cast<size_t>(reply_.peers_size())) {
      v1::EvaluationResult& result = evaluations_[clock];
      result.set_clock(clock);
      double loss = 0;
      for (const auto& [other, share] : shares_) {
        loss += share.loss_sum();
        result.set_examples(result.examples() + share.examples());
      }
      result.set_loss(loss / result.examples());
      shares_.clear();
    }
  }
  const auto answered = [this, clock, cancelled]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return evaluations_.count(clock) > 0 || cancelled_evaluations_ > cancelled;
  };
  mutex_.Await(absl::Condition(&answered));
  if (evaluations_.count(clock) == 0) return absl::CancelledError("meet again");
  v1::ReportEvaluationReply reply;
  *reply.mutable_result() = evaluations_.at(clock);
  return reply;
}

absl::StatusOr<v1::AdjustReply> FakeMeeting::Adjust(uint32_t slot, uint64_t incarnation,
                                                    const v1::AdjustRequest& request) {
  absl::MutexLock lock(&mutex_);
  absl::Status fence = CheckFenceLocked(slot, incarnation);
  if (!fence.ok()) return fence;
  v1::AdjustReply reply;
  for (const v1::Adjustment& each : decided_.adjustments()) {
    if (each.clock() <= request.clock()) *reply.add_adjustments() = each;
  }
  return reply;
}

void FakeMeeting::CancelEvaluationLocked() {
  ++cancelled_evaluations_;
  shares_.clear();
}

std::vector<FakeMeeting::Round> FakeMeeting::rounds() const {
  absl::MutexLock lock(&mutex_);
  return rounds_;
}

std::map<uint64_t, v1::EvaluationResult> FakeMeeting::evaluations() const {
  absl::MutexLock lock(&mutex_);
  return evaluations_;
}

std::vector<v1::CommitCheckpointRequest> FakeMeeting::checkpoints() const {
  absl::MutexLock lock(&mutex_);
  return checkpoints_;
}

std::vector<v1::VerifyStepRequest> FakeMeeting::verified(uint32_t slot) const {
  absl::MutexLock lock(&mutex_);
  const auto it = verified_.find(slot);
  return it == verified_.end() ? std::vector<v1::VerifyStepRequest>() : it->second;
}

std::vector<v1::ReportProgressRequest> FakeMeeting::progress(uint32_t slot) const {
  absl::MutexLock lock(&mutex_);
  const auto it = progress_.find(slot);
  return it == progress_.end() ? std::vector<v1::ReportProgressRequest>() : it->second;
}

std::vector<v1::ReportCollectivesRequest> FakeMeeting::collectives(uint32_t slot) const {
  absl::MutexLock lock(&mutex_);
  const auto it = collectives_.find(slot);
  return it == collectives_.end() ? std::vector<v1::ReportCollectivesRequest>() : it->second;
}

void FakeMeeting::AwaitCollectives(uint32_t slot) const {
  absl::MutexLock lock(&mutex_);
  const auto told = [this, slot]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return collectives_.count(slot) > 0;
  };
  mutex_.Await(absl::Condition(&told));
}

void FakeMeeting::AwaitAnsweredReport(uint32_t slot) const {
  absl::MutexLock lock(&mutex_);
  const auto reports = [this, slot]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto it = progress_.find(slot);
    return it == progress_.end() ? size_t{0} : it->second.size();
  };
  // The next report may have been on its way; the one after it is sent once that is answered.
  const size_t enough = reports() + 2;
  const auto answered = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return reports() >= enough; };
  mutex_.Await(absl::Condition(&answered));
}

}  // namespace muster
