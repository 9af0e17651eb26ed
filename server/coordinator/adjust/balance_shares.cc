#include "server/coordinator/adjust/balance_shares.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/job/adjustments.h"
#include "proto/job.pb.h"
#include "proto/job_record.pb.h"

namespace muster {
namespace {

// An equal share in parts.
constexpr double kEqualParts = 1000;
constexpr float kDefaultMost = 4;
// The least difference from where a rank should be that counts, in equal shares, and the number of
// changes after which it has doubled.
constexpr double kLeastDifference = 0.05;
constexpr double kChangesThatDouble = 200;

// Returns the multiples of an equal share that data ranks take now.
std::vector<double> PresentShares(const v1::Adjustment& present, size_t data_ranks) {
  std::vector<double> shares(data_ranks, 1);
  if (present.shares_size() != static_cast<int>(data_ranks)) return shares;
  const double all = std::accumulate(present.shares().begin(), present.shares().end(), 0.0);
  for (size_t i = 0; i < data_ranks; ++i) {
    shares[i] = present.shares(static_cast<int>(i)) * static_cast<double>(data_ranks) / all;
  }
  return shares;
}

// Returns the multiples of an equal share, each in [1 / most, most], that ranks of these speeds
// should take of `divided` equal shares together. As far as the bounds allow, they are proportional
// to speeds. Ranks without a speed get none. REQUIRES: some rank has a speed.
std::vector<double> SharesBySpeed(const std::vector<double>& speeds, double divided, double most) {
  const auto shares_at = [&](double factor) {
    std::vector<double> shares;
    for (const double speed : speeds) {
      shares.push_back(speed > 0 ? std::clamp(factor * speed, 1 / most, most) : 0);
    }
    return shares;
  };
  const auto sum_at = [&](double factor) {
    const std::vector<double> shares = shares_at(factor);
    return std::accumulate(shares.begin(), shares.end(), 0.0);
  };
  // The sum grows with the factor. All ranks have their most at this one.
  double low = 0, high = 0;
  for (const double speed : speeds) {
    if (speed > 0) high = std::max(high, most / speed);
  }
  constexpr int kBisections = 60;
  for (int i = 0; i < kBisections; ++i) {
    const double middle = (low + high) / 2;
    (sum_at(middle) < divided ? low : high) = middle;
  }
  return shares_at(high);
}

// Returns how often the job's shares have changed.
int ChangesOfShares(const v1::JobRecord& record) {
  int changes = 0;
  std::vector<uint32_t> last;
  for (const v1::Adjustment& adjustment : record.adjustments()) {
    std::vector<uint32_t> shares(adjustment.shares().begin(), adjustment.shares().end());
    if (shares == last) continue;
    ++changes;
    last = std::move(shares);
  }
  return changes;
}

}  // namespace

std::string DecideShares(const AdjustmentFacts& facts, v1::Adjustment& next) {
  const v1::JobSpec& spec = facts.record.spec();
  std::vector<double> speeds;
  for (const DataRankSpeed& each : facts.speeds) speeds.push_back(each.examples_per_second);
  if (!MayBalance(spec, facts.clock)) return "";
  const std::vector<double> present = PresentShares(next, speeds.size());
  // Ranks with a speed divide what they have together.
  double divided = 0;
  for (size_t i = 0; i < speeds.size(); ++i) {
    if (speeds[i] > 0) divided += present[i];
  }
  if (divided == 0) return "";
  const double most = spec.balance().most() > 0 ? spec.balance().most() : kDefaultMost;
  const std::vector<double> wanted = SharesBySpeed(speeds, divided, most);
  std::vector<uint32_t> parts;
  double difference = 0;
  for (size_t i = 0; i < speeds.size(); ++i) {
    const double goal = speeds[i] > 0 ? wanted[i] : present[i];
    difference = std::max(difference, std::abs(goal - present[i]));
    parts.push_back(static_cast<uint32_t>(std::lround(kEqualParts * (present[i] + goal) / 2)));
  }
  const double changes = ChangesOfShares(facts.record);
  if (difference < kLeastDifference * (1 + changes / kChangesThatDouble)) return "";
  next.mutable_shares()->Assign(parts.begin(), parts.end());
  const auto slowest = std::min_element(
      speeds.begin(), speeds.end(), [](double a, double b) { return a > 0 && (b <= 0 || a < b); });
  return absl::StrFormat("slot %d computes %.3g examples a second, the fastest %.3g",
                         facts.speeds[slowest - speeds.begin()].slot, *slowest,
                         *std::max_element(speeds.begin(), speeds.end()));
}

}  // namespace muster
