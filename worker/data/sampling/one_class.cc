#include "worker/data/sampling/one_class.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

constexpr int64_t kMostLookedAt = 1000;

// Returns the classes of the examples that are looked at among `count` from `begin` on.
absl::StatusOr<absl::flat_hash_set<int32_t>> ClassesOf(const Dataset& data, int64_t begin,
                                                       int64_t count) {
  const int64_t looked_at = std::min(count, kMostLookedAt);
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < looked_at; ++i) indices.push_back(begin + i * count / looked_at);
  Batch batch;
  MUSTER_RETURN_IF_ERROR(data.Read(indices, batch));
  return absl::flat_hash_set<int32_t>(batch.labels.begin(), batch.labels.end());
}

}  // namespace

absl::StatusOr<std::string> WarnOfOneClass(const Dataset& data, const Split& split) {
  // A few examples may be of one class by chance.
  constexpr int64_t kFew = 8;
  if (data.info().labels_per_example != 1 || data.info().classes < 2) return "";
  if (split.training < kFew || split.held_out < kFew) return "";
  MUSTER_ASSIGN_OR_RETURN(const auto training, ClassesOf(data, 0, split.training));
  MUSTER_ASSIGN_OR_RETURN(const auto held_out, ClassesOf(data, split.training, split.held_out));
  if (training == held_out || (training.size() > 1 && held_out.size() > 1)) return "";
  const bool training_has_one = training.size() == 1;
  return absl::StrCat("all ", training_has_one ? "training" : "held-out",
                      " examples seem to be of class ",
                      training_has_one ? *training.begin() : *held_out.begin(), ", the ",
                      training_has_one ? "held-out" : "training",
                      " ones are not: are the data sorted by label? With data.shuffle_holdout a "
                      "random share is held out");
}

}  // namespace muster
