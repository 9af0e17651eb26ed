#ifndef MUSTER_SERVER_COORDINATOR_EXAMINATION_SERVICE_H_
#define MUSTER_SERVER_COORDINATOR_EXAMINATION_SERVICE_H_

#include <memory>

#include "common/examination/examination_client.h"
#include "server/coordinator/coordinator_loop.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace muster {

// Returns ExaminationService over gRPC, which only translates. The loop outlives it.
std::unique_ptr<grpc::Service> MakeExaminationService(CoordinatorLoop& loop);

// Returns the client by which the coordinator's own process takes part in examinations. The loop
// outlives it.
std::unique_ptr<ExaminationClient> MakeExaminationClientHere(CoordinatorLoop& loop);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_EXAMINATION_SERVICE_H_
