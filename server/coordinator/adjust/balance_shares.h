#ifndef MUSTER_SERVER_COORDINATOR_ADJUST_BALANCE_SHARES_H_
#define MUSTER_SERVER_COORDINATOR_ADJUST_BALANCE_SHARES_H_

#include <string>

#include "server/coordinator/adjust/decide.h"

namespace muster {

// Gives data ranks shares of each step by their measured speeds (BalanceSpec), so that all are done
// at the same time. A data rank's part moves half of the way from the one that it has to that of
// its speed, between an equal share divided by and times BalanceSpec.most. Data ranks without a
// speed keep their parts.
//
// Nothing changes while every rank is within a twentieth of an equal share of where it should be.
// This bound grows with the number of times that shares have changed, so that noise cannot make the
// job's record long: after 200 it has doubled.
//
// Changes `next`, which holds what holds up to now, and returns why; empty: nothing changes.
std::string DecideShares(const AdjustmentFacts& facts, v1::Adjustment& next);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_ADJUST_BALANCE_SHARES_H_
