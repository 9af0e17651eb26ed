#include "client/chaos/faults/chaos_plan.h"

#include <utility>

#include "common/base/philox.h"

namespace muster {

std::string ChaosName(ChaosKind kind) {
  switch (kind) {
    case ChaosKind::kKilledServer:
      return "killed-server";
    case ChaosKind::kDamagedFile:
      return "damaged-file";
    case ChaosKind::kKilledCluster:
      return "killed-cluster";
    case ChaosKind::kLostVolume:
      return "lost-volume";
    case ChaosKind::kDamagedCheckpoint:
      return "damaged-checkpoint";
    case ChaosKind::kCutLink:
      return "cut-link";
    case ChaosKind::kHalfOpenLink:
      return "half-open-link";
    case ChaosKind::kSlowLink:
      return "slow-link";
    case ChaosKind::kLinksAndKills:
      return "links-and-kills";
    case ChaosKind::kLinksAndMoves:
      return "links-and-moves";
    case ChaosKind::kCutLinkRewritesCheckpoints:
      return "cut-link-rewrites-checkpoints";
    case ChaosKind::kF16RewritesCheckpoint:
      return "f16-rewrites-checkpoint";
    case ChaosKind::kFrozenWorker:
      return "frozen-worker";
    case ChaosKind::kComingWorkers:
      return "coming-workers";
    case ChaosKind::kSlowWorker:
      return "slow-workers";
  }
  return "unknown";
}

const std::vector<ChaosKind>& AllChaosKinds() {
  static const auto& kinds = *new std::vector<ChaosKind>{ChaosKind::kKilledServer,
                                                         ChaosKind::kDamagedFile,
                                                         ChaosKind::kKilledCluster,
                                                         ChaosKind::kLostVolume,
                                                         ChaosKind::kDamagedCheckpoint,
                                                         ChaosKind::kCutLink,
                                                         ChaosKind::kHalfOpenLink,
                                                         ChaosKind::kSlowLink,
                                                         ChaosKind::kLinksAndKills,
                                                         ChaosKind::kLinksAndMoves,
                                                         ChaosKind::kCutLinkRewritesCheckpoints,
                                                         ChaosKind::kF16RewritesCheckpoint,
                                                         ChaosKind::kFrozenWorker,
                                                         ChaosKind::kComingWorkers,
                                                         ChaosKind::kSlowWorker};
  return kinds;
}

std::vector<ChaosRound> PlanChaos(int rounds, uint64_t seed, std::vector<ChaosKind> kinds) {
  const Philox random(seed, "chaos", "rounds");
  std::vector<ChaosRound> plan;
  for (int i = 0; i < rounds; ++i) {
    const size_t place = static_cast<size_t>(i) % kinds.size();
    if (place == 0) {
      for (size_t last = kinds.size() - 1; last > 0; --last) {
        std::swap(kinds[last], kinds[random.Below(last + 1, i, last)]);
      }
    }
    plan.push_back({.number = i + 1, .kind = kinds[place], .seed = random.Uint64(i, 1 << 20)});
  }
  return plan;
}

}  // namespace muster
