#ifndef MUSTER_WORKER_STRATEGY_SERVERS_SHARD_ROUTER_H_
#define MUSTER_WORKER_STRATEGY_SERVERS_SHARD_ROUTER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/base/payload.h"
#include "common/rpc/parameter_service/parameter_client.h"
#include "common/rpc/retry.h"
#include "worker/strategy/servers/shard_connections.h"

namespace muster {

namespace v1 {
class ExchangeRequest;
class OpenTablesRequest;
class ShardMap;
}  // namespace v1

// The router's ways to servers, coordinator and log.
struct ShardRouterDependencies {
  // A new client of the server at an address.
  ParameterClientFactory make_client;
  // The newest shard map. Aborted or NotFound: the task must end. Unavailable: the one that is
  // known stays in use.
  std::function<absl::StatusOr<v1::ShardMap>()> newest_shard_map;
  // One line for the job's log.
  std::function<void(absl::string_view)> log;
  // Tells the job's status which server the task cannot reach, and why; empty: none any more.
  std::function<void(absl::string_view)> tell_wait = [](absl::string_view) {};
  // Both outlive the router.
  const Clock* clock = nullptr;
  Waiter* waiter = nullptr;
};

// The time that servers may be out of reach or full, without any operation succeeding, before a
// router gives up.
inline constexpr absl::Duration kServersPatience = absl::Minutes(10);

struct ShardRouterOptions {
  uint32_t slot = 0;
  uint64_t incarnation = 0;
  // Says what happens to a contribution once servers have answered it. kKept: it stays until
  // WaitForLanes returns, for a server that is opened anew and may have lost what was only in
  // memory. kDropped: it is dropped, for callers that use the memory of payloads again; a server
  // that has lost it refuses the close that follows.
  enum class Answered { kKept, kDropped };
  Answered answered = Answered::kKept;
};

// One task's connections to the servers of its job: sends operations to the partition's server and
// repeats them, through new connections and newer shard maps, until each has its answer. Repeating
// is right for every operation, as servers apply a contribution once.
//
// Contributions to one partition go through its lane, in order: when one of them is refused or
// lost, those behind it are held until all answers of the lane are in, and then everything
// unanswered is sent again in the first order (go back N). So a close never overtakes the pushes it
// closes. Pulls, cuts and clip exchanges, which may be parked for long, go outside the lanes.
//
// What a lane has sent stays here until WaitForLanes returned (unless the options say otherwise): a
// contribution is kept whole until it is acknowledged whole.
//
// Progress (repeats, reconnecting) is made by the waiting caller. Used by one thread; answers come
// in on any.
class ShardRouter {
 public:
  enum class Order { kLane, kFree };

  // An operation under way. Kept by whoever wants its result; the router keeps it until it is
  // answered.
  class Operation {
   public:
    bool done() const { return state_ == State::kDone; }
    // REQUIRES: done().
    const ExchangeResult& result() const { return result_; }
    // Returns whether the contribution was in before this task sent it: an earlier task of the slot
    // had. What had to be sent again is taken for this task's own. REQUIRES: done().
    bool was_in() const { return was_in_; }

   private:
    friend class ShardRouter;
    enum class State { kInFlight, kRefused, kDone };

    uint64_t id_ = 0;
    Order order_ = Order::kFree;
    State state_ = State::kInFlight;
    std::unique_ptr<v1::ExchangeRequest> request_;
    Payload payload_;
    absl::Span<std::byte> landing_;
    int sent_ = 0;
    bool was_in_ = false;
    // The connection that it was last sent over.
    uint64_t connection_ = 0;
    absl::Status refusal_;
    absl::Duration not_before_ = -absl::InfiniteDuration();
    // True if a newer shard map was looked for on its behalf.
    bool rerouted_ = false;
    ExchangeResult result_;
  };
  using Handle = std::shared_ptr<const Operation>;

  // `tables` is the request to open with, its list of partitions empty; `map` places all partitions
  // of its schema.
  ShardRouter(const v1::OpenTablesRequest& tables, const v1::ShardMap& map,
              const ShardRouterOptions& options, ShardRouterDependencies dependencies);
  // Ends what is under way.
  ~ShardRouter();

  ShardRouter(const ShardRouter&) = delete;
  ShardRouter& operator=(const ShardRouter&) = delete;

  // Connects to all servers and opens the tables there; returns what they have of this slot's
  // contributions. Blocks, and repeats while servers are unreachable.
  absl::StatusOr<SlotContributions> Open();

  // Tells the router how many clocks this slot has closed on all partitions. A server found to hold
  // fewer has lost state that it had acknowledged, which is an error.
  void set_closed(uint64_t clocks) { closed_ = clocks; }

  // Sets what contributions (pushes and closes) sent from now on say of the learning rate
  // (ExchangeRequest.rate_factor).
  void set_rate_factor(double factor) { rate_factor_ = factor; }

  // Sends one operation; the router fills in job, generation, term, slot and incarnation. Does not
  // block.
  // An answer whose payload is as long as `landing` is received there: nobody else may use it until
  // the operation is done (or the router gone), even if the handle is dropped.
  Handle Send(uint32_t partition, v1::ExchangeRequest request, Payload payload, Order order,
              absl::Span<std::byte> landing = {});

  // Block until the operation, or all in lanes, are answered. Errors: Aborted and other final
  // refusals, naming partition, clock and operation; Unavailable after `patience`. After an error
  // only destruction is allowed.
  absl::Status Wait(const Handle& operation);
  absl::Status WaitForLanes();

  // Makes the wait under way, and all later ones, return Aborted with this reason unless what they
  // wait for is there: for callers who are waited for elsewhere. An attempt to connect is ended
  // before the next one. For any thread.
  void Interrupt(absl::string_view reason);

 private:
  struct Arrival {
    uint64_t operation = 0;
    uint64_t connection = 0;
    absl::StatusOr<ExchangeResult> result;
  };
  // Shared with callbacks, which may come after the router is gone.
  struct Mailbox {
    absl::Mutex mutex;
    std::vector<Arrival> arrivals ABSL_GUARDED_BY(mutex);
    // Why waits end; OK: they do not.
    absl::Status interruption ABSL_GUARDED_BY(mutex);
  };

  void Transmit(Operation& operation);
  absl::Status WaitUntil(const std::function<bool()>& satisfied);
  absl::Status ReceiveUntil(const std::function<bool()>& satisfied);
  // Takes answers in, waiting at most `timeout` for one or for an interruption.
  absl::Status Receive(absl::Duration timeout);
  absl::Status CheckInterruption() const;
  // Decides what becomes of a refused operation: OK repeats it.
  absl::Status Judge(Operation& operation);
  absl::Status GiveUpAfterPatience(const Operation& operation);
  // Sends again what was refused and whose time has come.
  absl::Status Repeat();
  // Makes every connection whole again, or as a newer map says.
  absl::Status Reconnect();
  // Returns whether partitions have moved since the map in use, or may have, as the coordinator is
  // away; sets `final` when the task must end.
  bool MayHaveNewerMap(absl::Status& final);

  std::string Describe(const Operation& operation) const;
  // Puts what lanes of these partitions had answered back among what is to be sent.
  void SendAgain(const std::vector<uint32_t>& partitions);
  bool LaneHasRefused(uint32_t partition) const;
  // Returns whether something earlier in its lane is not answered.
  bool IsBehindAnother(const Operation& operation) const;

  const std::string job_id_;
  const uint64_t generation_;
  const ShardRouterOptions options_;
  const ShardRouterDependencies dependencies_;
  const std::unique_ptr<v1::ShardMap> initial_map_;
  const std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();

  // All below: caller's thread only.
  double rate_factor_ = 1;
  uint64_t next_operation_ = 1;
  // Everything not answered, in order of first sending.
  std::map<uint64_t, std::shared_ptr<Operation>> operations_;
  size_t lane_operations_ = 0;
  // Answered, in lanes, since all lanes were last empty: sent again where a server is opened anew,
  // as it may have lost what it had only in memory.
  std::map<uint64_t, std::shared_ptr<Operation>> answered_;
  // The number of clocks that set_closed told.
  uint64_t closed_ = 0;
  bool opened_ = false;
  // The time at which the present trouble began; infinite: there is none.
  absl::Duration trouble_since_ = absl::InfiniteDuration();
  // Last, so that its end finds all of the above.
  ShardConnections connections_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_SERVERS_SHARD_ROUTER_H_
