#ifndef MUSTER_TESTS_EQUIVALENCE_WATCHED_CLIENT_H_
#define MUSTER_TESTS_EQUIVALENCE_WATCHED_CLIENT_H_

#include <cstdint>
#include <memory>

#include "common/rpc/parameter_service/parameter_client.h"
#include "tests/equivalence/step_observer.h"

namespace muster {

// Returns a client of a slot's task that passes all on to `client`, and shows the observer, which
// outlives it, the pulls and pushes of dense parameters.
std::unique_ptr<ParameterClient> WatchClient(std::unique_ptr<ParameterClient> client, uint32_t slot,
                                             StepObserver& observer);

}  // namespace muster

#endif  // MUSTER_TESTS_EQUIVALENCE_WATCHED_CLIENT_H_
