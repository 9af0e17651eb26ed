#include "server/coordinator/adjust/describe.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace muster {
namespace {

// Lists this many data ranks at most.
constexpr int kMostListed = 8;

std::string DescribeShares(const v1::Adjustment& next) {
  if (next.shares().empty()) return "data ranks take equal shares";
  const double equal = std::accumulate(next.shares().begin(), next.shares().end(), 0.0) /
                       static_cast<double>(next.shares_size());
  std::vector<std::string> shares;
  for (const uint32_t each : next.shares()) shares.push_back(absl::StrFormat("%.2f", each / equal));
  if (next.shares_size() <= kMostListed) {
    return absl::StrCat("data ranks take ", absl::StrJoin(shares, ", "), " of an equal share");
  }
  const auto [least, most] = std::minmax_element(next.shares().begin(), next.shares().end());
  return absl::StrFormat(
      "data ranks take %.2f (data rank %d) to %.2f (data rank %d) of an equal share",
      *least / equal, least - next.shares().begin(), *most / equal, most - next.shares().begin());
}

}  // namespace

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
  if (!std::equal(next.shares().begin(), next.shares().end(), before.shares().begin(),
                  before.shares().end())) {
    changes.push_back(DescribeShares(next));
  }
  return absl::StrCat("from step ", next.clock(), " on ", absl::StrJoin(changes, ", "), ": ",
                      next.reason());
}

}  // namespace muster
