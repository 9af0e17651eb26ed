#ifndef MUSTER_SERVER_COORDINATOR_PAGE_PAGE_TEST_COORDINATOR_H_
#define MUSTER_SERVER_COORDINATOR_PAGE_PAGE_TEST_COORDINATOR_H_

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "server/coordinator/checkpoints/fake_checkpoint_archive.h"
#include "server/coordinator/coordinator_loop.h"
#include "server/coordinator/page/page_service.h"
#include "server/coordinator/store/memory_job_store_for_testing.h"
#include "server/page/http_listener.h"
#include "server/page/page_security.h"

namespace muster {

// A coordinator that serves its page, for tests and benchmarks: it has a store in memory, real
// threads and a real listener. An error ends the process.
class PageTestCoordinator {
 public:
  // Starts a coordinator on the store, and its page, and has the scheduler look at all jobs; what
  // was there before ends.
  void Start(const PageRules& rules);
  void Stop();

  void Register(v1::DaemonKind kind, const std::string& id, uint32_t slots);
  // Returns the job's id, once the scheduler has looked at the job.
  std::string Submit(const v1::JobSpec& spec, const std::string& request_id);

  CoordinatorLoop& loop() { return *loop_; }
  // Returns the HOST:PORT of the page.
  const std::string& address() const { return listener_->address(); }

 private:
  // Waits until the scheduler has looked at what was asked for before. Reads overtake that.
  void AwaitScheduler();

  RealClock clock_;
  MemoryJobStore store_;
  FakeCheckpointArchive archive_;
  std::unique_ptr<CoordinatorLoop> loop_;
  std::unique_ptr<HttpService> service_;
  std::unique_ptr<HttpListener> listener_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_PAGE_PAGE_TEST_COORDINATOR_H_
