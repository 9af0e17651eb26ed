#ifndef MUSTER_TESTS_RECOVERY_NO_LEASE_FOR_TESTING_H_
#define MUSTER_TESTS_RECOVERY_NO_LEASE_FOR_TESTING_H_

#include "absl/time/time.h"

namespace muster {

// A lease for clusters whose tests may not depend on the end of one, and whose daemons may not lose
// theirs on a busy machine.
inline constexpr absl::Duration kNoLease = absl::Hours(1);

}  // namespace muster

#endif  // MUSTER_TESTS_RECOVERY_NO_LEASE_FOR_TESTING_H_
