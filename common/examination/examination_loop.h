#ifndef MUSTER_COMMON_EXAMINATION_EXAMINATION_LOOP_H_
#define MUSTER_COMMON_EXAMINATION_EXAMINATION_LOOP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "common/examination/examination_client.h"
#include "common/examination/examiner.h"
#include "common/rpc/retry.h"

namespace muster {

struct ExaminationLoopOptions {
  // The daemon's id in the cluster; empty: the coordinator's process.
  std::string id;
  // Returns the daemon's present incarnation; 0: it is no member now. Thread-safe.
  std::function<uint64_t()> incarnation;
  BackoffOptions backoff = {.first = absl::Seconds(1), .longest = absl::Seconds(10)};
};

// Has a daemon take part in examinations of its cluster: asks the coordinator, by one long poll
// after another, whether there is one, carries it out and reports. Goes on when the coordinator
// restarts. Runs a thread of its own, which sleeps but for examinations and an answer a minute.
class ExaminationLoop {
 public:
  // The examiner outlives the loop.
  ExaminationLoop(std::unique_ptr<ExaminationClient> client, Examiner& examiner,
                  ExaminationLoopOptions options);
  // Ends what is under way. Blocks until the disk has taken a write that is under way.
  ~ExaminationLoop();

 private:
  void Run();
  // Asks once, and carries out the answer. OK, or why to ask again later.
  absl::Status Step();
  absl::Status CarryOut(const v1::ExaminationOrder& order);
  // Forgets the examination that this process takes part in.
  void Leave();

  const std::unique_ptr<ExaminationClient> client_;
  Examiner& examiner_;
  const ExaminationLoopOptions options_;
  RealWaiter waiter_;
  // Loop's thread only: what the last order was. The stage is an ExaminationOrder::Stage.
  uint64_t seen_examination_ = 0;
  int seen_stage_ = 0;
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_EXAMINATION_EXAMINATION_LOOP_H_
