#include "worker/strategy/group/recovery/rank_cut.h"

#include <utility>

#include "common/checkpoint/manifest.h"

namespace muster {

RankCut::RankCut(CheckpointStorage& storage, std::string offload_folder)
    : storage_(storage), copy_(std::move(offload_folder)) {}

RankCut::~RankCut() { GiveUp(); }

void RankCut::Begin(absl::string_view root, std::vector<PartitionContent> contents) {
  if (thread_.joinable()) thread_.join();
  under_way_ = true;
  {
    absl::MutexLock lock(&mutex_);
    written_ = given_up_ = false;
  }
  // A rank may have no file in a cut.
  if (contents.empty()) return End(absl::OkStatus(), {});
  root_ = std::string(root);
  folder_ = CheckpointFolder(root, contents[0].job_id, contents[0].clock);
  if (absl::Status status = copy_.Take(std::move(contents)); !status.ok()) {
    return End(std::move(status), {});
  }
  thread_ = std::jthread([this] { Write(); });
}

void RankCut::Write() {
  std::vector<PartitionFile> files;
  for (const PartitionContent& content : copy_.contents()) {
    if (given_up()) break;
    absl::StatusOr<PartitionFileInfo> info = WritePartition(storage_, root_, content);
    if (!info.ok()) {
      Delete(files);
      return End(info.status(), {});
    }
    files.push_back({content.partition, info->path, info->bytes, info->checksum});
  }
  End(absl::OkStatus(), std::move(files));
}

void RankCut::End(absl::Status status, std::vector<PartitionFile> files) {
  {
    absl::MutexLock lock(&mutex_);
    if (!given_up_) {
      status_ = std::move(status);
      files_ = std::move(files);
      written_ = true;
      return;
    }
  }
  Delete(files);
}

void RankCut::Delete(absl::Span<const PartitionFile> files) {
  for (const PartitionFile& file : files) {
    storage_.DeleteRecursively(JoinUri(folder_, file.path)).IgnoreError();
  }
}

bool RankCut::given_up() const {
  absl::MutexLock lock(&mutex_);
  return given_up_;
}

bool RankCut::Written() const {
  absl::MutexLock lock(&mutex_);
  return written_;
}

absl::StatusOr<std::vector<PartitionFile>> RankCut::Await() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&written_));
  under_way_ = false;
  if (!status_.ok()) return status_;
  return std::move(files_);
}

void RankCut::GiveUp() {
  if (!std::exchange(under_way_, false)) return;
  std::vector<PartitionFile> written;
  {
    absl::MutexLock lock(&mutex_);
    given_up_ = true;
    if (written_) written = std::move(files_);
  }
  Delete(written);
}

}  // namespace muster
