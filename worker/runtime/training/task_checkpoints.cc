#include "worker/runtime/training/task_checkpoints.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/philox.h"
#include "common/base/status_macros.h"
#include "common/rpc/retry.h"
#include "proto/task_service.pb.h"

namespace muster {
namespace {

v1::CommitCheckpointRequest RequestFor(uint64_t clock, const std::vector<PartitionFile>& files) {
  v1::CommitCheckpointRequest request;
  request.set_clock(clock);
  for (const PartitionFile& written : files) {
    v1::CutFile* file = request.add_files();
    file->set_partition(written.partition);
    file->set_path(written.path);
    file->set_bytes(written.bytes);
    file->set_checksum(written.checksum);
  }
  return request;
}

// Reports that an attempt failed or that the checkpoint is given up.
v1::CommitCheckpointRequest FailureOf(uint64_t clock, const std::vector<PartitionFile>& written,
                                      absl::string_view why) {
  v1::CommitCheckpointRequest request = RequestFor(clock, written);
  request.set_failure(std::string(why));
  return request;
}

// Waits between attempts at the last checkpoint.
constexpr BackoffOptions kAttempts = {.first = absl::Seconds(1), .longest = absl::Seconds(15)};

}  // namespace

TaskCheckpoints::TaskCheckpoints(Options options, TrainingState& state,
                                 CoordinatorClient& coordinator, const Clock& clock)
    : options_(std::move(options)),
      state_(state),
      cuts_(state.background_cuts()),
      coordinator_(coordinator),
      clock_(clock) {}

absl::Status TaskCheckpoints::Take(uint64_t clock, SeriesPosition position) {
  MUSTER_RETURN_IF_ERROR(Finish());
  began_ = clock_.Monotonic();
  if (position == SeriesPosition::kLast) return TakeLast(clock);
  MUSTER_RETURN_IF_ERROR(cuts_.Take(clock));
  if (!options_.commits) return absl::OkStatus();
  under_way_ = clock;
  under_way_base_ = BaseOfNext();
  cuts_.Write(clock, under_way_base_);
  return absl::OkStatus();
}

v1::CommitCheckpointRequest TaskCheckpoints::CommitOf(
    uint64_t clock, const std::vector<PartitionFile>& files) const {
  v1::CommitCheckpointRequest request = RequestFor(clock, files);
  request.set_schema(options_.schema);
  request.set_data_preparation(options_.data_preparation);
  request.set_rank_files(options_.rank_files);
  request.set_seconds(absl::ToDoubleSeconds(clock_.Monotonic() - began_));
  return request;
}

absl::Status TaskCheckpoints::TakeLast(uint64_t clock) {
  Backoff attempts(kAttempts, Philox(0, "checkpoint", ""));
  bool waited = false;
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const std::string failure, TryLast(clock));
    MUSTER_ASSIGN_OR_RETURN(
        const CutEnd end, state_.EndCut(failure.empty() ? CutEnd::kCommitted : CutEnd::kTryAgain));
    if (end == CutEnd::kCommitted) {
      if (waited) options_.log(absl::StrCat("the checkpoint at step ", clock, " is written now"));
      return absl::OkStatus();
    }
    if (options_.commits && !std::exchange(waited, true)) {
      options_.log(absl::StrCat("the last checkpoint, at step ", clock,
                                ", is tried again until it can be written: ", failure));
    }
    if (!options_.wait(attempts.Next())) {
      return absl::CancelledError(
          absl::StrCat("the task was stopped while its last checkpoint, at step ", clock,
                       ", waited: ", failure));
    }
  }
}

absl::StatusOr<std::string> TaskCheckpoints::TryLast(uint64_t clock) {
  MUSTER_ASSIGN_OR_RETURN(const CutFiles files, state_.Cut(clock));
  // Rank 0 reports for all: every slot got the same answers.
  if (!options_.commits) return files.failure;
  std::string failure = files.failure;
  if (failure.empty()) {
    const absl::Status status =
        coordinator_.CommitCheckpoint(CommitOf(clock, files.by_partition), {});
    if (status.ok()) return "";
    if (!absl::IsFailedPrecondition(status)) {
      coordinator_status_ = status;
      return status;
    }
    failure = std::string(status.message());
  }
  v1::CommitCheckpointRequest failed = FailureOf(clock, files.by_partition, failure);
  failed.set_tried_again(true);
  coordinator_status_ = coordinator_.CommitCheckpoint(std::move(failed), {});
  MUSTER_RETURN_IF_ERROR(coordinator_status_);
  return failure;
}

absl::optional<uint64_t> TaskCheckpoints::BaseOfNext() const {
  return deltas_ + 1 < options_.full_every ? last_ : absl::nullopt;
}

absl::Status TaskCheckpoints::GoOn() {
  if (!under_way_.has_value()) return absl::OkStatus();
  if (commit_ == nullptr) return cuts_.Written() ? FilesWritten() : absl::OkStatus();
  const absl::optional<absl::Status> status = commit_->Poll();
  return status.has_value() ? Answered(*status) : absl::OkStatus();
}

absl::Status TaskCheckpoints::Finish() {
  while (under_way_.has_value()) {
    MUSTER_RETURN_IF_ERROR(commit_ == nullptr ? FilesWritten() : Answered(commit_->Await()));
  }
  return absl::OkStatus();
}

absl::Status TaskCheckpoints::FilesWritten() {
  MUSTER_ASSIGN_OR_RETURN(CutFiles files, cuts_.AwaitFiles());
  files_ = std::move(files.by_partition);
  if (!files.failure.empty()) {
    GiveUp(files.failure);
    return absl::OkStatus();
  }
  commit_ = std::make_unique<BackgroundCommit>(coordinator_, CommitOf(*under_way_, files_));
  return absl::OkStatus();
}

absl::Status TaskCheckpoints::Answered(const absl::Status& status) {
  if (absl::IsFailedPrecondition(status) && !given_up_) {
    GiveUp(status.message());
    return absl::OkStatus();
  }
  commit_.reset();
  coordinator_status_ = status;
  MUSTER_RETURN_IF_ERROR(status);
  const uint64_t clock = *std::exchange(under_way_, absl::nullopt);
  if (std::exchange(given_up_, false)) return absl::OkStatus();
  last_ = clock;
  deltas_ = under_way_base_.has_value() ? deltas_ + 1 : 0;
  return absl::OkStatus();
}

void TaskCheckpoints::GiveUp(absl::string_view why) {
  options_.log(absl::StrCat("the checkpoint at step ", *under_way_, " is given up: ", why,
                            "; training goes on, and the next checkpoint is full"));
  last_.reset();
  deltas_ = 0;
  given_up_ = true;
  // The written files take room that the next checkpoint may need.
  commit_ = std::make_unique<BackgroundCommit>(coordinator_, FailureOf(*under_way_, files_, why));
}

}  // namespace muster
