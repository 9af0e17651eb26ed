#include "worker/strategy/group/group_cuts.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/strategy/group/exchange/array_calls.h"
#include "worker/strategy/group/exchange/cut_exchange.h"

namespace muster {

GroupCuts::GroupCuts(const Parts& parts)
    : parts_(parts), cut_(parts.kept.storage(), parts.kept.offload_folder()) {}

void GroupCuts::Leave() {
  if (cut_.under_way() && world_->rank() == 0) {
    parts_.log(absl::StrCat("the checkpoint at step ", cut_clock_,
                            " is given up: the workers meet again before all have written it; "
                            "training goes on, and the next checkpoint is taken when it is due"));
  }
  cut_.GiveUp();
  files_.reset();
  world_ = nullptr;
}

absl::Status GroupCuts::Take(uint64_t clock) {
  if (world_ == nullptr || parts_.kept.clock() != clock) {
    return absl::FailedPreconditionError(absl::StrCat("a cut at clock ", clock,
                                                      " was asked for, but the parameters are at ",
                                                      parts_.kept.clock().value_or(0)));
  }
  MUSTER_RETURN_IF_ERROR(Settle());
  return parts_.uncounted([&] { return Copy(clock); });
}

absl::Status GroupCuts::Copy(uint64_t clock) {
  if (parts_.servers != nullptr) MUSTER_RETURN_IF_ERROR(parts_.servers->Take(clock));
  MUSTER_RETURN_IF_ERROR(parts_.place.TakeBack());
  cut_clock_ = clock;
  const uint32_t first = parts_.servers == nullptr ? 0 : parts_.kept.state().layout().partitions();
  cut_.Begin(parts_.kept.checkpoint_root(), parts_.kept.ContentsOfCut(*world_, first));
  parts_.place.HandOver();
  return world_->Run(Barrier(kStorageTimeout, "copies of the cut"));
}

void GroupCuts::Write(uint64_t clock, absl::optional<uint64_t> base) {
  if (parts_.servers != nullptr) parts_.servers->Write(clock, absl::nullopt);
}

bool GroupCuts::Written() const {
  return files_.has_value() && (parts_.servers == nullptr || parts_.servers->Written());
}

absl::StatusOr<CutFiles> GroupCuts::AwaitFiles() {
  MUSTER_RETURN_IF_ERROR(Settle());
  CutFiles files = *std::exchange(files_, absl::nullopt);
  if (parts_.servers == nullptr) return files;
  MUSTER_ASSIGN_OR_RETURN(CutFiles served, parts_.servers->AwaitFiles());
  if (!served.failure.empty()) files.failure = served.failure;
  files.by_partition.insert(files.by_partition.begin(), served.by_partition.begin(),
                            served.by_partition.end());
  return files;
}

absl::Status GroupCuts::Exchange() {
  // From here on rank 0 may have the files committed.
  const absl::StatusOr<std::vector<PartitionFile>> mine = cut_.Await();
  MUSTER_ASSIGN_OR_RETURN(CutFiles files, ExchangeCut(*world_, kStorageTimeout, mine));
  if (!files.failure.empty() && mine.ok()) {
    cut_.Delete(*mine);
  }
  if (world_->rank() == 0) files_ = std::move(files);
  return absl::OkStatus();
}

absl::Status GroupCuts::Settle() {
  if (!cut_.under_way()) return absl::OkStatus();
  return parts_.uncounted([this] { return Exchange(); });
}

}  // namespace muster
