#ifndef MUSTER_WORKER_RUNTIME_TRAINING_STAGE_LINKS_H_
#define MUSTER_WORKER_RUNTIME_TRAINING_STAGE_LINKS_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/work.h"
#include "worker/collectives/communicator.h"
#include "worker/strategy/group/gradients/call_order.h"

namespace muster {

// The content of a message between two stages; its virtual stage follows from the unit.
struct StageMessage {
  // The output of a unit, or its gradient.
  bool gradient = false;
  int unit = 0;
  int micro_batch = 0;

  friend bool operator==(const StageMessage& a, const StageMessage& b) = default;
};

struct StageLinksOptions {
  // The most bytes of a message.
  size_t message_bytes = 0;
  // The most outputs and gradients that are received, from BeginReceive to Release
  // (StageHoldings).
  int received = 2;
  // The most messages that are sent at a time; more wait for them.
  int sent = 2;
  // The timeout of each message, in which a stage may have to wait for slower ones.
  absl::Duration timeout = absl::Minutes(10);
  // The order between messages and a computation that only queues its work, as on devices; null:
  // there is none. Outlives the links.
  CallOrder* order = nullptr;
};

// The messages between one stage and the others, in memory that is taken once. Sends
// and receives are collected, and started together (Communicator::StartMessages); they travel while
// the stage computes. Used by one thread. Errors are the communicator's.
class StageLinks {
 public:
  // Creates the links; a collective call with the same options on all stages. The communicator's
  // ranks are the stages; it outlives the links, and has no other calls while messages are under
  // way.
  static absl::StatusOr<std::unique_ptr<StageLinks>> Create(Communicator& stages,
                                                            const StageLinksOptions& options);

  // Ends messages under way in Abort, for all stages, so that no stage waits for this one.
  ~StageLinks();

  StageLinks(const StageLinks&) = delete;
  StageLinks& operator=(const StageLinks&) = delete;

  // Adds a send to the messages that Start starts, and returns the memory to write it to before.
  // Waits for an earlier send if there is no memory left. FailedPrecondition: the message is longer
  // than the options say.
  absl::StatusOr<absl::Span<std::byte>> AddSend(const StageMessage& message, int peer,
                                                size_t bytes);
  // Adds a receive. FailedPrecondition: there is no memory left, or the message is longer than the
  // options say.
  absl::Status AddReceive(const StageMessage& message, int peer, size_t bytes);
  // Starts what was added since the last call. Also errors of the computation that makes what is
  // sent.
  absl::Status Start();

  // Waits until a message has come whose receive was started, and returns it. It stays until
  // Release.
  absl::StatusOr<absl::Span<const std::byte>> Await(const StageMessage& message);
  void Release(const StageMessage& message);

  // Waits until all that was started has ended.
  absl::Status Finish();

 private:
  struct Place {
    absl::Span<std::byte> memory;
    bool taken = false;
    // The message that is received here; a place that is sent from has none.
    StageMessage message;
    size_t bytes = 0;
    // Null until the message was started, and after it was waited for.
    std::shared_ptr<Work> work;
  };

  StageLinks(Communicator& stages, const StageLinksOptions& options,
             std::unique_ptr<CollectiveBuffer> memory);

  Place* Find(const StageMessage& message);
  // FailedPrecondition: the message is longer than a place.
  absl::Status CheckSize(size_t bytes) const;
  // Adds a message, for which `place` is taken.
  void Add(CollectiveCall call, int peer, size_t bytes, Place& place);

  Communicator& stages_;
  const StageLinksOptions options_;
  const std::unique_ptr<CollectiveBuffer> memory_;
  std::vector<Place> received_;
  // Sends take these by turns.
  std::vector<Place> sent_;
  size_t next_sent_ = 0;
  // Added and not started, and the place of each.
  std::vector<CollectiveCall> added_;
  std::vector<Place*> places_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TRAINING_STAGE_LINKS_H_
