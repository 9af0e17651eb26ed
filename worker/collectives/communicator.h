#ifndef MUSTER_WORKER_COLLECTIVES_COMMUNICATOR_H_
#define MUSTER_WORKER_COLLECTIVES_COMMUNICATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/work.h"
#include "worker/collectives/collective_call.h"
#include "worker/collectives/flight_recorder.h"

namespace muster {

// Memory that a communicator's calls read and write without a copy. Zeroed when allocated; aligned
// to 64 bytes at least. The address never changes.
class CollectiveBuffer {
 public:
  virtual ~CollectiveBuffer() = default;
  virtual absl::Span<std::byte> bytes() = 0;
};

// One rank's place in a group of ranks (processes, or threads in tests) that move data together.
//
// Every rank of the group makes the same calls in the same order, except that sends and receives
// are ordered only per pair of ranks and tag. Ranks compare a fingerprint of each call (sequence,
// operation, type, counts, root), so that a group that disagrees ends in an error instead of a hang
// or a wrong sum. Results have the same bits on every rank and in every repetition on these ranks.
//
// Errors, the same on every rank, naming rank, call and what the others were doing:
//   FailedPrecondition  ranks made different calls
//   DeadlineExceeded    a rank did not come, or stopped moving, within the call's timeout
//   Unavailable         a rank has died, or left
//   Aborted             Abort() was called, here or on another rank
//   InvalidArgument     this call is wrong in itself (pointers, counts, root); local and harmless
// After any of them except InvalidArgument every later call returns the same error.
//
// Calls are made by one thread at a time. Abort, recorder() and handles may be used by any thread.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Carries the call out on this thread and returns when this rank's part is done: `out` is
  // complete, `in` may be written again. Calls started earlier come first.
  virtual absl::Status Run(const CollectiveCall& call) = 0;

  // Queues the call behind earlier ones and returns; the call runs in the background. Its memory
  // must stay valid until the handle has ended.
  virtual std::shared_ptr<Work> Start(const CollectiveCall& call) = 0;

  // Starts sends and receives together, of which none waits for another, except that messages of
  // one pair of ranks and one direction keep their order. Returns their handles, in order. On a
  // device, messages that are started one by one wait for one another: two ranks that each send to
  // the other, and receive then, wait for ever. So messages that ranks exchange at one time are
  // started by one call on each; and those of a later call may wait for all of an earlier one. A
  // message that is wrong in itself is refused alone. Unless a communicator says otherwise, Start
  // does not make messages wait for one another. REQUIRES: sends and receives alone, or one call.
  virtual std::vector<std::shared_ptr<Work>> StartMessages(
      absl::Span<const CollectiveCall> messages) {
    std::vector<std::shared_ptr<Work>> works;
    for (const CollectiveCall& message : messages) works.push_back(Start(message));
    return works;
  }

  // Allocates memory for calls without copies; a collective call: every rank asks for the same
  // number of bytes. A call may use any part of the buffer, at the same offset of the same buffer
  // on every rank. The buffer must be destroyed before the communicator.
  virtual absl::StatusOr<std::unique_ptr<CollectiveBuffer>> Allocate(size_t bytes) = 0;

  // Divides the group; a collective call. Ranks with the same colour become a group of their own,
  // ordered by `key`, then by rank. A rank with a negative colour joins none and gets null.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> Split(int colour, int key) = 0;

  // Ends all calls, on all ranks, with Aborted and this reason. Does not block. Idempotent.
  virtual void Abort(const std::string& reason) = 0;

  virtual const FlightRecorder& recorder() const = 0;

  // Returns the payload that this rank has sent to and received from others.
  virtual CollectiveTraffic traffic() const = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_COMMUNICATOR_H_
