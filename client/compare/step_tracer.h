#ifndef MUSTER_CLIENT_COMPARE_STEP_TRACER_H_
#define MUSTER_CLIENT_COMPARE_STEP_TRACER_H_

#include <cstdint>
#include <string>
#include <thread>
#include <utility>

#include "client/compare/pass_times.h"

namespace muster {

// Traces some steps of a job on a thread of its own, while the job goes on. Used by one thread.
class StepTracer {
 public:
  // `coordinator`: the address of the job's coordinator, which takes plain text.
  StepTracer(std::string coordinator, uint32_t steps)
      : coordinator_(std::move(coordinator)), steps_(steps) {}
  ~StepTracer() { Join(); }

  StepTracer(const StepTracer&) = delete;
  StepTracer& operator=(const StepTracer&) = delete;

  // Begins to trace the next steps of the job; a no-op after the first time.
  void Start(const std::string& job_id);

  // Waits for the end of the trace. Returns the times, which lack those of slots that sent nothing.
  PassTimes Take();

 private:
  void Join();

  const std::string coordinator_;
  const uint32_t steps_;
  std::thread thread_;
  // The thread's, as long as it runs.
  PassTimes times_;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_COMPARE_STEP_TRACER_H_
