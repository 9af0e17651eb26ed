#include "client/compare/step_tracer.h"

#include <utility>

#include "client/cluster/job_client.h"
#include "common/rpc/rpc_credentials.h"
#include "proto/job_service.pb.h"
#include "proto/trace.pb.h"

namespace muster {

void StepTracer::Start(const std::string& job_id) {
  if (thread_.joinable()) return;
  thread_ = std::thread([this, job_id] {
    JobClient jobs(coordinator_, RpcCredentials::PlainText());
    v1::TraceJobRequest request;
    request.set_job_id(job_id);
    request.set_steps(steps_);
    // A job that has ended has no times.
    jobs.Trace(request,
               [this](const v1::TraceChunk& chunk) {
                 AddTimes(chunk, times_);
                 return absl::OkStatus();
               })
        .IgnoreError();
  });
}

PassTimes StepTracer::Take() {
  Join();
  return std::move(times_);
}

void StepTracer::Join() {
  if (thread_.joinable()) thread_.join();
}

}  // namespace muster
