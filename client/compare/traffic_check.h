#ifndef MUSTER_CLIENT_COMPARE_TRAFFIC_CHECK_H_
#define MUSTER_CLIENT_COMPARE_TRAFFIC_CHECK_H_

#include <string>
#include <vector>

#include "client/compare/measured_run.h"

namespace muster {

// Whether the dense parameters that each process moved in a step are, to the byte, those predicted:
// what all workers sent or received, and what all servers sent.
bool WorkersMatch(const MeasuredRun& run, double WorkerTraffic::*direction);
bool ServersMatch(const MeasuredRun& run);

// Of what does not match, a line for each process: "slot 1 sends 8,080 B of dense parameters a
// step, predicted 4,040 B".
std::vector<std::string> TrafficMismatches(const MeasuredRun& run);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMPARE_TRAFFIC_CHECK_H_
