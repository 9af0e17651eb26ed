#ifndef MUSTER_CLIENT_COMPARE_TRAFFIC_CHECK_H_
#define MUSTER_CLIENT_COMPARE_TRAFFIC_CHECK_H_

#include <string>
#include <vector>

#include "client/compare/measured_run.h"

namespace muster {

// Return true if every process moved in a step exactly as many bytes of dense parameters as
// predicted: what all workers sent or received, or what all servers sent.
bool WorkersMatch(const MeasuredRun& run, double WorkerTraffic::*direction);
bool ServersMatch(const MeasuredRun& run);

// Returns a line for each process that does not match, such as "slot 1 sends 8,080 B of dense
// parameters a step, predicted 4,040 B".
std::vector<std::string> TrafficMismatches(const MeasuredRun& run);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMPARE_TRAFFIC_CHECK_H_
