#ifndef MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_COLLECTIVE_RECORDS_H_
#define MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_COLLECTIVE_RECORDS_H_

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "worker/collectives/flight_recorder.h"

namespace muster {

namespace v1 {
class ReportCollectivesRequest;
class ReportProgressRequest;
}  // namespace v1

// Adds the calls of all groups to an empty report, oldest first: the last ones, as many as a report
// may have.
void AddCollectiveRecords(absl::Span<const FlightRecorder* const> recorders,
                          v1::ReportCollectivesRequest& request);

// Adds the times of all calls that the recorders have seen, of all groups together.
void AddCollectiveTimes(absl::Span<const FlightRecorder* const> recorders,
                        v1::ReportProgressRequest& request);

// Adds the oldest call of all groups that has not ended, if it began before `since`.
void AddCallUnderWay(absl::Span<const FlightRecorder* const> recorders, absl::Time since,
                     v1::ReportProgressRequest& request);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_COORDINATOR_CLIENT_COLLECTIVE_RECORDS_H_
