#include "tests/benchmarks/parameter_server/sparse_requests.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"
#include "common/base/philox.h"
#include "common/tables/key_index.h"

namespace muster {
namespace {

constexpr double kExponent = 1.2;
constexpr int64_t kKeysDrawn = 2000000;
constexpr int64_t kMostRequests = 400;

// Of the continuous law on [1, rows + 1), whose integral can be inverted.
uint64_t PowerLawRank(double uniform, uint64_t rows) {
  const double power = 1 - kExponent;
  const double end = std::pow(static_cast<double>(rows) + 1, power);
  const double rank = std::pow(1 + uniform * (end - 1), 1 / power);
  return std::min(static_cast<uint64_t>(rank) - 1, rows - 1);
}

}  // namespace

std::string Name(KeyDistribution distribution) {
  return distribution == KeyDistribution::kUniform ? "uniform" : "power-law";
}

absl::StatusOr<KeyDistribution> ParseKeyDistribution(const std::string& name) {
  for (const KeyDistribution distribution :
       {KeyDistribution::kUniform, KeyDistribution::kPowerLaw}) {
    if (Name(distribution) == name) return distribution;
  }
  return absl::InvalidArgumentError(absl::StrCat("no distribution of keys is called ", name));
}

std::vector<uint64_t> DrawRequest(KeyDistribution distribution, uint64_t rows, int64_t keys,
                                  uint64_t number) {
  const Philox random(1, "requests", Name(distribution));
  KeyIndex seen;
  std::vector<uint64_t> drawn;
  for (int64_t i = 0; i < keys; ++i) {
    uint64_t key;
    if (distribution == KeyDistribution::kUniform) {
      key = random.Below(rows, i, number);
    } else {
      const double uniform = static_cast<double>(random.Uint64(i, number) >> 11) * 0x1p-53;
      key = MixBits(PowerLawRank(uniform, rows)) % rows;
    }
    if (seen.FindOrAdd(key) == drawn.size()) drawn.push_back(key);
  }
  return drawn;
}

const std::vector<std::vector<uint64_t>>& RequestSource::Draw(KeyDistribution distribution,
                                                              uint64_t rows, int64_t keys) {
  const std::tuple wanted(distribution, rows, keys);
  if (!requests_.empty() && drawn_for_ == wanted) return requests_;
  drawn_for_ = wanted;
  requests_.clear();
  const int64_t all = std::min(kKeysDrawn, 2 * static_cast<int64_t>(rows));
  const int64_t count = std::clamp<int64_t>(all / keys, 4, kMostRequests);
  for (int64_t i = 0; i < count; ++i) {
    requests_.push_back(DrawRequest(distribution, rows, keys, i));
  }
  return requests_;
}

}  // namespace muster
