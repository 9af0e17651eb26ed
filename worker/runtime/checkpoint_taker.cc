#include "worker/runtime/checkpoint_taker.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "proto/task_service.pb.h"

namespace muster {
namespace {

v1::CommitCheckpointRequest RequestFor(uint64_t clock, const std::vector<CutPiece>& pieces,
                                       const std::string& schema) {
  v1::CommitCheckpointRequest request;
  request.set_clock(clock);
  for (const CutPiece& piece : pieces) {
    v1::CutFile* file = request.add_files();
    file->set_partition(piece.partition);
    file->set_path(piece.path);
    file->set_bytes(piece.bytes);
    file->set_checksum(piece.checksum);
  }
  request.set_schema(schema);
  return request;
}

}  // namespace

CheckpointTaker::CheckpointTaker(Options options, ParameterKeeper& keeper,
                                 CoordinatorClient& coordinator)
    : options_(std::move(options)),
      keeper_(keeper),
      cuts_(keeper.background_cuts()),
      coordinator_(coordinator) {}

absl::Status CheckpointTaker::Take(uint64_t clock, Place place) {
  MUSTER_RETURN_IF_ERROR(Finish());
  if (cuts_ == nullptr || place == Place::kLast) return TakeWhole(clock);
  MUSTER_RETURN_IF_ERROR(cuts_->Take(clock));
  if (!options_.commits) return absl::OkStatus();
  under_way_ = clock;
  under_way_base_ = BaseOfNext();
  cuts_->Write(clock, under_way_base_);
  return absl::OkStatus();
}

absl::Status CheckpointTaker::TakeWhole(uint64_t clock) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<CutPiece> pieces, keeper_.Cut(clock));
  // One speaks for all: each got the same answers.
  if (options_.commits) {
    coordinator_status_ =
        coordinator_.CommitCheckpoint(RequestFor(clock, pieces, options_.schema), {});
    MUSTER_RETURN_IF_ERROR(coordinator_status_);
    last_ = clock;
    deltas_ = 0;
  }
  return keeper_.CutCommitted();
}

absl::optional<uint64_t> CheckpointTaker::BaseOfNext() const {
  return deltas_ + 1 < options_.full_every ? last_ : absl::nullopt;
}

absl::Status CheckpointTaker::GoOn() {
  if (!under_way_.has_value()) return absl::OkStatus();
  if (commit_ == nullptr) return cuts_->Written() ? FilesWritten() : absl::OkStatus();
  const absl::optional<absl::Status> status = commit_->Poll();
  return status.has_value() ? Committed(*status) : absl::OkStatus();
}

absl::Status CheckpointTaker::Finish() {
  if (under_way_.has_value() && commit_ == nullptr) MUSTER_RETURN_IF_ERROR(FilesWritten());
  // Given up, perhaps.
  if (!under_way_.has_value()) return absl::OkStatus();
  return Committed(commit_->Await());
}

absl::Status CheckpointTaker::FilesWritten() {
  MUSTER_ASSIGN_OR_RETURN(const BackgroundCuts::Files files, cuts_->AwaitFiles());
  if (!files.given_up.empty()) {
    GiveUp(files.given_up);
    return absl::OkStatus();
  }
  commit_ = std::make_unique<BackgroundCommit>(
      coordinator_, RequestFor(*under_way_, files.pieces, options_.schema));
  return absl::OkStatus();
}

absl::Status CheckpointTaker::Committed(const absl::Status& status) {
  if (absl::IsFailedPrecondition(status)) {
    GiveUp(status.message());
    return absl::OkStatus();
  }
  commit_.reset();
  coordinator_status_ = status;
  MUSTER_RETURN_IF_ERROR(status);
  last_ = std::exchange(under_way_, absl::nullopt);
  deltas_ = under_way_base_.has_value() ? deltas_ + 1 : 0;
  return absl::OkStatus();
}

void CheckpointTaker::GiveUp(absl::string_view why) {
  options_.log(absl::StrCat("the checkpoint at step ", *under_way_, " is given up: ", why,
                            "; training goes on, and the next checkpoint is full"));
  commit_.reset();
  under_way_.reset();
  last_.reset();
  deltas_ = 0;
}

}  // namespace muster
