#include "server/coordinator/job/share_comparison.h"

#include <cstddef>
#include <utility>

namespace muster {
namespace {

// The fingerprints by slot, of one share and part.
using Claims = std::map<uint32_t, std::set<uint64_t>>;

// Returns the fingerprint on which more than half of the slots agree, at least three of which there
// must be; null: there is none.
const uint64_t* Majority(const Claims& claims) {
  if (claims.size() < 3) return nullptr;
  std::map<uint64_t, size_t> votes;
  for (const auto& [slot, gradients] : claims) {
    const uint64_t* const claimed = &*gradients.begin();
    if (++votes[*claimed] * 2 > claims.size()) return claimed;
  }
  return nullptr;
}

}  // namespace

StepVerdict CompareShares(absl::Span<const ShareOpinion> opinions) {
  std::map<std::pair<uint32_t, int>, Claims> by_share;
  for (const ShareOpinion& opinion : opinions) {
    by_share[{opinion.share, opinion.part}][opinion.slot].insert(opinion.gradients);
  }
  StepVerdict verdict;
  for (const auto& [share, claims] : by_share) {
    for (const auto& [slot, gradients] : claims) {
      if (gradients.size() > 1) verdict.wrong.emplace(slot, share.first);
    }
  }
  for (auto& [share, claims] : by_share) {
    for (const auto& [slot, why] : verdict.wrong) claims.erase(slot);
    const uint64_t* const majority = Majority(claims);
    if (majority == nullptr) continue;
    for (const auto& [slot, gradients] : claims) {
      if (*gradients.begin() != *majority) verdict.wrong.emplace(slot, share.first);
    }
  }
  for (auto& [share, claims] : by_share) {
    for (const auto& [slot, why] : verdict.wrong) claims.erase(slot);
    std::set<uint64_t> different;
    for (const auto& [slot, gradients] : claims) different.insert(*gradients.begin());
    if (different.size() < 2) continue;
    for (const auto& [slot, gradients] : claims) verdict.unsettled.insert(slot);
  }
  return verdict;
}

}  // namespace muster
