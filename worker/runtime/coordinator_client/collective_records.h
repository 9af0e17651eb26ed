#ifndef MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_COLLECTIVE_RECORDS_H_
#define MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_COLLECTIVE_RECORDS_H_

#include "worker/collectives/flight_recorder.h"

namespace muster {

namespace v1 {
class ReportCollectivesRequest;
}  // namespace v1

// Adds the recorder's calls to a report, oldest first.
void AddCollectiveRecords(const FlightRecorder& recorder, v1::ReportCollectivesRequest& request);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_COLLECTIVE_RECORDS_H_
