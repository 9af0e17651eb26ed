#ifndef MUSTER_SERVER_SHARD_PARTITION_ANSWERS_WAITING_CALLS_H_
#define MUSTER_SERVER_SHARD_PARTITION_ANSWERS_WAITING_CALLS_H_

#include <cstddef>
#include <cstdint>

#include "server/shard/calls/admitted_call.h"
#include "server/shard/calls/parked_calls.h"
#include "server/shard/partition/answers/partition_cuts.h"
#include "server/shard/partition/answers/read_server.h"
#include "server/shard/partition/answers/serve_context.h"
#include "server/shard/resources/ended_slots.h"

namespace muster {

// Lets pulls, cuts, entries and requests for norms wait until their clock is reached, and then
// hands them to those who answer. Not thread-safe.
class WaitingCalls {
 public:
  // All must outlive it. Calls that wait may take `most_bytes` of memory. `ended` may be null.
  WaitingCalls(const ServeContext& context, size_t most_bytes, const EndedSlots* ended,
               ReadServer& reads, PartitionCuts& cuts)
      : context_(context), most_bytes_(most_bytes), ended_(ended), reads_(reads), cuts_(cuts) {}

  // Serves the call if its clock is reached, otherwise lets it wait. Refuses it with
  // RESOURCE_EXHAUSTED when too many wait, and with FAILED_PRECONDITION if its clock never comes.
  void Await(AdmittedCall& call);
  // Serves all calls whose clock has been reached.
  void Release();
  // Serves a call whose clock is reached. Fails the partition when memory runs out.
  void Serve(AdmittedCall call);

  // Lets calls go whose caller is gone.
  void DropCancelled();
  // Refuses calls whose clock never comes, since a slot has ended that has not closed it.
  void RefuseUnreachable();
  // Refuses all with the error that the partition is closed with. Needs no memory.
  void RefuseAll();

 private:
  // Answers the call, or lets it wait elsewhere.
  void ServeKnown(AdmittedCall& call);
  absl::Status CheckReachable(uint64_t clocks) const;
  void Park(uint64_t clocks, AdmittedCall& call, uint64_t reached, ParkedCalls& parked);

  const ServeContext context_;
  const size_t most_bytes_;
  const EndedSlots* const ended_;
  ReadServer& reads_;
  PartitionCuts& cuts_;
  // Pulls and cuts, by completed clocks; norms, by clocks closed by all; entries, by decided
  // clocks.
  ParkedCalls for_completion_;
  ParkedCalls for_closes_;
  ParkedCalls for_entries_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_PARTITION_ANSWERS_WAITING_CALLS_H_
