#include "worker/runtime/coordinator_client/fake_coordinator_client.h"

#include <utility>

namespace muster {

absl::StatusOr<v1::RendezvousReply> FakeCoordinatorClient::Rendezvous(
    v1::RendezvousRequest request) {
  absl::MutexLock lock(&mutex_);
  rendezvous_.push_back(std::move(request));
  return v1::RendezvousReply();
}

absl::StatusOr<v1::ReportProgressReply> FakeCoordinatorClient::ReportProgress(
    v1::ReportProgressRequest request) {
  absl::MutexLock lock(&mutex_);
  absl::Status answer;
  if (!progress_answers_.empty()) {
    answer = progress_answers_.front();
    progress_answers_.pop_front();
  }
  if (!answer.ok()) return answer;
  progress_.push_back(std::move(request));
  return progress_reply_;
}

absl::Status FakeCoordinatorClient::ReportCollectives(v1::ReportCollectivesRequest request) {
  absl::MutexLock lock(&mutex_);
  collectives_.push_back(std::move(request));
  return absl::OkStatus();
}

absl::StatusOr<v1::ReportEvaluationReply> FakeCoordinatorClient::ReportEvaluation(
    v1::ReportEvaluationRequest request) {
  absl::MutexLock lock(&mutex_);
  evaluations_.push_back(std::move(request));
  if (evaluation_answer_ == nullptr) return v1::ReportEvaluationReply();
  return evaluation_answer_(evaluations_.back());
}

absl::StatusOr<v1::AdjustReply> FakeCoordinatorClient::Adjust(v1::AdjustRequest request) {
  absl::MutexLock lock(&mutex_);
  adjusts_.push_back(std::move(request));
  if (adjust_answer_ == nullptr) return v1::AdjustReply();
  return adjust_answer_(adjusts_.back());
}

absl::StatusOr<v1::VerifyStepReply> FakeCoordinatorClient::VerifyStep(
    v1::VerifyStepRequest request) {
  absl::MutexLock lock(&mutex_);
  verified_.push_back(std::move(request));
  if (verify_answer_ == nullptr) return v1::VerifyStepReply();
  return verify_answer_(verified_.back());
}

absl::Status FakeCoordinatorClient::CommitCheckpoint(v1::CommitCheckpointRequest request,
                                                     std::stop_token) {
  absl::MutexLock lock(&mutex_);
  checkpoints_.push_back(std::move(request));
  return absl::OkStatus();
}

absl::StatusOr<v1::ShardMap> FakeCoordinatorClient::GetShardMap(uint64_t min_version,
                                                                absl::Duration wait) {
  absl::MutexLock lock(&mutex_);
  return map_;
}

void FakeCoordinatorClient::FailProgress(std::vector<absl::Status> answers) {
  absl::MutexLock lock(&mutex_);
  progress_answers_.assign(answers.begin(), answers.end());
}

void FakeCoordinatorClient::SetProgressReply(v1::ReportProgressReply reply) {
  absl::MutexLock lock(&mutex_);
  progress_reply_ = std::move(reply);
}

void FakeCoordinatorClient::OnEvaluation(
    std::function<absl::StatusOr<v1::ReportEvaluationReply>(const v1::ReportEvaluationRequest&)>
        answer) {
  absl::MutexLock lock(&mutex_);
  evaluation_answer_ = std::move(answer);
}

void FakeCoordinatorClient::OnAdjust(
    std::function<absl::StatusOr<v1::AdjustReply>(const v1::AdjustRequest&)> answer) {
  absl::MutexLock lock(&mutex_);
  adjust_answer_ = std::move(answer);
}

void FakeCoordinatorClient::OnVerifyStep(
    std::function<absl::StatusOr<v1::VerifyStepReply>(const v1::VerifyStepRequest&)> answer) {
  absl::MutexLock lock(&mutex_);
  verify_answer_ = std::move(answer);
}

void FakeCoordinatorClient::SetShardMap(v1::ShardMap map) {
  absl::MutexLock lock(&mutex_);
  map_ = std::move(map);
}

std::vector<v1::RendezvousRequest> FakeCoordinatorClient::rendezvous() const {
  absl::MutexLock lock(&mutex_);
  return rendezvous_;
}

std::vector<v1::ReportProgressRequest> FakeCoordinatorClient::progress() const {
  absl::MutexLock lock(&mutex_);
  return progress_;
}

std::vector<v1::ReportCollectivesRequest> FakeCoordinatorClient::collectives() const {
  absl::MutexLock lock(&mutex_);
  return collectives_;
}

std::vector<v1::ReportEvaluationRequest> FakeCoordinatorClient::evaluations() const {
  absl::MutexLock lock(&mutex_);
  return evaluations_;
}

std::vector<v1::AdjustRequest> FakeCoordinatorClient::adjusts() const {
  absl::MutexLock lock(&mutex_);
  return adjusts_;
}

std::vector<v1::VerifyStepRequest> FakeCoordinatorClient::verified() const {
  absl::MutexLock lock(&mutex_);
  return verified_;
}

std::vector<v1::CommitCheckpointRequest> FakeCoordinatorClient::checkpoints() const {
  absl::MutexLock lock(&mutex_);
  return checkpoints_;
}

void FakeCoordinatorClient::AwaitProgress(size_t reports) const {
  absl::MutexLock lock(&mutex_);
  const auto there = [this, reports]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return progress_.size() >= reports;
  };
  mutex_.Await(absl::Condition(&there));
}

void FakeCoordinatorClient::AwaitCollectives(size_t reports) const {
  absl::MutexLock lock(&mutex_);
  const auto there = [this, reports]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return collectives_.size() >= reports;
  };
  mutex_.Await(absl::Condition(&there));
}

}  // namespace muster
