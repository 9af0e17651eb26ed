#ifndef MUSTER_WORKER_COLLECTIVES_TRANSPORT_PIPES_HOST_PIPE_H_
#define MUSTER_WORKER_COLLECTIVES_TRANSPORT_PIPES_HOST_PIPE_H_

#include "absl/status/status.h"
#include "worker/collectives/transport/pipes/doorbell.h"
#include "worker/collectives/transport/transport.h"

namespace muster {

// A pipe for which a rank can wait. Owner's thread only.
class HostPipe : public Pipe {
 public:
  // Returns true if something may have moved since the last call that looked. Costs a load or two.
  virtual bool Moved(const PipeInterest& interest) const = 0;

  // Arm asks the peer to ring from now on; Disarm ends that.
  virtual void Arm(const PipeInterest& interest, Sleep how) = 0;
  virtual void Disarm() = 0;

  // Called before this rank sleeps: tells a peer that waits for room if there is room.
  virtual void BeforeSleep() = 0;

  // Returns the descriptor to poll for reading; -1 if Arm makes the peer ring instead.
  virtual int descriptor() const = 0;
  // Returns the descriptor to poll for writing.
  virtual int write_descriptor() const { return descriptor(); }

  // Returns the processor that the peer last ran on; -1 if unknown, as on another machine.
  virtual int processor() const = 0;

  // Returns why no more bytes will pass, whatever the peer does; OK while they may.
  virtual absl::Status broken() const = 0;

  virtual const char* description() const = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_TRANSPORT_PIPES_HOST_PIPE_H_
