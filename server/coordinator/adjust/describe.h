#ifndef MUSTER_SERVER_COORDINATOR_ADJUST_DESCRIBE_H_
#define MUSTER_SERVER_COORDINATOR_ADJUST_DESCRIBE_H_

#include <string>

#include "proto/adjustment.pb.h"

namespace muster {

// Tells people of a decision: from which step on it holds, what changes from `before`, which held
// until then, and why.
std::string DescribeAdjustment(const v1::Adjustment& before, const v1::Adjustment& next);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_ADJUST_DESCRIBE_H_
