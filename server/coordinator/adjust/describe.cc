#include "server/coordinator/adjust/describe.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace muster {

std::string DescribeAdjustment(const v1::Adjustment& before, const v1::Adjustment& next) {
  std::vector<std::string> changes;
  if (next.rate_factor() != before.rate_factor()) {
    changes.push_back(
        absl::StrCat("the learning rate is ", next.rate_factor(), " times the scheduled one"));
  }
  if (next.batch_size() != before.batch_size()) {
    changes.push_back(absl::StrCat("a step has ", next.batch_size(), " examples"));
  }
  if (next.skipped_examples() > 0) {
    changes.push_back(absl::StrCat(next.skipped_examples(), " examples are passed over"));
  }
  return absl::StrCat("from step ", next.clock(), " on ", absl::StrJoin(changes, ", "), ": ",
                      next.reason());
}

}  // namespace muster
