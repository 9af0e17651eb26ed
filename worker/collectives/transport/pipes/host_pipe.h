#ifndef MUSTER_WORKER_COLLECTIVES_TRANSPORT_PIPES_HOST_PIPE_H_
#define MUSTER_WORKER_COLLECTIVES_TRANSPORT_PIPES_HOST_PIPE_H_

#include "absl/status/status.h"
#include "worker/collectives/transport/pipes/doorbell.h"
#include "worker/collectives/transport/transport.h"

namespace muster {

// A pipe as the one who waits for it sees it. The owner's thread only.
class HostPipe : public Pipe {
 public:
  // Whether something may have moved since the last call that looked. Costs a load or two.
  virtual bool Moved(const PipeInterest& interest) const = 0;

  // Asks the peer to ring from now on, and no longer.
  virtual void Arm(const PipeInterest& interest, Sleep how) = 0;
  virtual void Disarm() = 0;

  // This rank is about to sleep: a peer that waits for room that it has is told so.
  virtual void BeforeSleep() = 0;

  // To poll for reading; -1: Arm makes the peer ring instead.
  virtual int descriptor() const = 0;
  // To poll for writing.
  virtual int write_descriptor() const { return descriptor(); }

  // The processor that the peer last ran on, if this is the same machine; -1: not known.
  virtual int processor() const = 0;

  // Why no more bytes will pass, however the peer is; OK: they may.
  virtual absl::Status broken() const = 0;

  virtual const char* description() const = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_TRANSPORT_PIPES_HOST_PIPE_H_
