#ifndef MUSTER_SERVER_SHARD_PARTITION_ANSWERS_WAITING_CALLS_H_
#define MUSTER_SERVER_SHARD_PARTITION_ANSWERS_WAITING_CALLS_H_

#include <cstddef>
#include <cstdint>

#include "server/shard/calls/admitted_call.h"
#include "server/shard/calls/parked_calls.h"
#include "server/shard/partition/answers/partition_cuts.h"
#include "server/shard/partition/answers/read_server.h"
#include "server/shard/partition/answers/serve_context.h"

namespace muster {

// Lets pulls, cuts and requests for norms wait until their clock is reached, and then hands them to
// those who answer. Not thread-safe.
class WaitingCalls {
 public:
  // All must outlive it. Calls that wait may take `most_bytes` of memory.
  WaitingCalls(const ServeContext& context, size_t most_bytes, ReadServer& reads,
               PartitionCuts& cuts)
      : context_(context), most_bytes_(most_bytes), reads_(reads), cuts_(cuts) {}

  // Serves the call if its clock is reached, otherwise lets it wait. Refuses it with
  // RESOURCE_EXHAUSTED when too many wait.
  void Await(AdmittedCall& call);
  // Serves all calls whose clock has been reached.
  void Release();
  // Serves a call whose clock is reached. Fails the partition when memory runs out.
  void Serve(AdmittedCall call);

  // Lets calls go whose caller is gone.
  void DropCancelled();
  // Refuses all with the error that the partition is closed with. Needs no memory.
  void RefuseAll();

 private:
  // Answers the call, or lets it wait elsewhere.
  void ServeKnown(AdmittedCall& call);
  void Park(uint64_t clocks, AdmittedCall& call, uint64_t reached, ParkedCalls& parked);

  const ServeContext context_;
  const size_t most_bytes_;
  ReadServer& reads_;
  PartitionCuts& cuts_;
  // Pulls and cuts, by completed clocks; norms, by clocks closed by all.
  ParkedCalls for_completion_;
  ParkedCalls for_closes_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_ANSWERS_WAITING_CALLS_H_
