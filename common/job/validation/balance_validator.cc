#include "common/job/validation/balance_validator.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "common/job/validation/invalid.h"
#include "common/mesh/job_mesh.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

constexpr int kMostShareChanges = 1000;
// No data rank takes more than so many times the share of another.
constexpr uint32_t kMostRatio = 100;

// Checks that the job's steps can have shares that are not equal, as `field` asks.
absl::Status ValidateUnequalShares(const v1::JobSpec& spec, absl::string_view field) {
  const auto refuse = [&](absl::string_view remedy) { return Invalid(field, "set", remedy); };
  if (SizeAlong(kDataAxes, spec) < 2) {
    return refuse("but the job has one data rank, which computes all of each step; leave it out");
  }
  if (!IsBsp(spec.update())) {
    return refuse(
        "but staleness_bound is not 0, where no worker waits for a slower one's share of a step; "
        "leave it out, or use BSP");
  }
  if (spec.parallelism().pipeline() > 1) {
    return refuse(
        "but parallelism.pipeline is above 1: a larger share has more micro-batches, and stages "
        "keep memory for those that the plan knows; leave one of the two out");
  }
  if (spec.parallelism().expert() > 1) {
    return refuse(
        "but parallelism.expert is above 1, where workers compute one another's tokens; leave one "
        "of the two out");
  }
  if (!TrainsByAllReduce(spec) && spec.parallelism().zero().stage() > 0) {
    return refuse(
        "but parallelism.zero is set on parameter servers, which take the same micro-batches from "
        "every worker; leave one of the two out");
  }
  return absl::OkStatus();
}

absl::Status ValidateShareChanges(const v1::JobSpec& spec) {
  MUSTER_RETURN_IF_ERROR(ValidateUnequalShares(spec, "share_changes"));
  if (spec.share_changes_size() > kMostShareChanges) {
    return Invalid("share_changes", absl::StrCat("a list of ", spec.share_changes_size()),
                   absl::StrCat("there may be at most ", kMostShareChanges));
  }
  const uint32_t data_ranks = SizeAlong(kDataAxes, spec);
  for (int i = 0; i < spec.share_changes_size(); ++i) {
    const v1::ShareChange& change = spec.share_changes(i);
    const std::string field = absl::StrCat("share_changes[", i, "]");
    if (i > 0 && change.step() <= spec.share_changes(i - 1).step()) {
      return Invalid(absl::StrCat(field, ".step"), change.step(),
                     absl::StrCat("steps have to be in order, each above the one before, which is ",
                                  spec.share_changes(i - 1).step()));
    }
    const auto& shares = change.shares();
    if (static_cast<uint32_t>(shares.size()) != data_ranks) {
      return Invalid(absl::StrCat(field, ".shares"), absl::StrCat("a list of ", shares.size()),
                     absl::StrCat("give one for each of the ", data_ranks, " data ranks"));
    }
    const auto [least, most] = std::minmax_element(shares.begin(), shares.end());
    if (*least == 0 || *most / *least > kMostRatio) {
      return Invalid(absl::StrCat(field, ".shares"), absl::StrCat(*least, " to ", *most),
                     absl::StrCat("each must be at least 1, and the largest at most ", kMostRatio,
                                  " times the smallest"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateBalance(const v1::JobSpec& spec) {
  if (!spec.share_changes().empty()) MUSTER_RETURN_IF_ERROR(ValidateShareChanges(spec));
  if (!spec.has_balance()) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(ValidateUnequalShares(spec, "balance"));
  if (!spec.share_changes().empty()) {
    return Invalid("balance", "set",
                   "but share_changes says what the shares are; leave one of the two out");
  }
  if (spec.update().deterministic()) {
    return Invalid("balance", "set",
                   "but update.deterministic is true, and measured speeds are never the same; "
                   "leave one of the two out, or give shares by share_changes");
  }
  if (spec.update().backup_workers() > 0) {
    return Invalid(
        "balance", "set",
        "but update.backup_workers drops what slow workers compute; leave one of the two "
        "out");
  }
  if (const float most = spec.balance().most(); most != 0 && !(most > 1 && most <= 10)) {
    return Invalid("balance.most", most,
                   "it is a multiple of an equal share, above 1 and at most 10; 0 stands for 4");
  }
  return absl::OkStatus();
}

}  // namespace muster
