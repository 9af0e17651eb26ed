#include "client/chaos/chaos_plan.h"

#include <array>
#include <utility>

#include "common/base/philox.h"

namespace muster {

std::string ChaosName(ChaosKind kind) {
  switch (kind) {
    case ChaosKind::kKilledServer:
      return "killed server";
    case ChaosKind::kDamagedFile:
      return "damaged file";
    case ChaosKind::kKilledCluster:
      return "killed cluster";
    case ChaosKind::kLostVolume:
      return "lost volume";
    case ChaosKind::kDamagedCheckpoint:
      return "damaged checkpoint";
  }
  return "unknown";
}

std::vector<ChaosRound> PlanChaos(int rounds, uint64_t seed) {
  const Philox random(seed, "chaos", "rounds");
  std::array<ChaosKind, 5> turn = {ChaosKind::kKilledServer, ChaosKind::kDamagedFile,
                                   ChaosKind::kKilledCluster, ChaosKind::kLostVolume,
                                   ChaosKind::kDamagedCheckpoint};
  std::vector<ChaosRound> plan;
  for (int i = 0; i < rounds; ++i) {
    const size_t place = static_cast<size_t>(i) % turn.size();
    if (place == 0) {
      for (size_t last = turn.size() - 1; last > 0; --last) {
        std::swap(turn[last], turn[random.Below(last + 1, i, last)]);
      }
    }
    plan.push_back({.number = i + 1, .kind = turn[place], .seed = random.Uint64(i, 1 << 20)});
  }
  return plan;
}

}  // namespace muster
