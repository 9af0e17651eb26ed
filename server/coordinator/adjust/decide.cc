#include "server/coordinator/adjust/decide.h"

#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "common/job/adjustments.h"
#include "proto/job_record.pb.h"
#include "server/coordinator/adjust/balance_shares.h"
#include "server/coordinator/adjust/batch_growth.h"
#include "server/coordinator/adjust/plateau.h"

namespace muster {

std::optional<v1::Adjustment> DecideAdjustment(const AdjustmentFacts& facts) {
  v1::Adjustment next = Adjustments(facts.record.adjustments()).At(facts.clock);
  next.set_clock(facts.clock);
  // Examples are passed over once, and each decision has reasons of its own.
  next.clear_skipped_examples();
  next.clear_reason();
  std::vector<std::string> reasons;
  for (const auto& decide : {DecidePlateau, DecideBatch, DecideShares}) {
    std::string reason = decide(facts, next);
    if (!reason.empty()) reasons.push_back(std::move(reason));
  }
  if (reasons.empty()) return std::nullopt;
  next.set_reason(absl::StrJoin(reasons, "; "));
  return next;
}

}  // namespace muster
