#ifndef MUSTER_SERVER_COORDINATOR_PAGE_ASK_H_
#define MUSTER_SERVER_COORDINATOR_PAGE_ASK_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/catch_out_of_memory.h"
#include "server/coordinator/calls/call.h"
#include "server/coordinator/coordinator_loop.h"

namespace muster {

// Time that the coordinator has for one answer. Tasks have 2 s of it to tell their last collective
// calls.
inline constexpr std::chrono::seconds kAskPatience(5);

// An answer that a thread of the page waits for. Values share it.
template <typename Reply>
class AwaitedAnswer {
 public:
  // Returns the Call that gives the answer. Call once.
  Call<Reply> call() const {
    return {.done = [answer = answer_](
                        absl::StatusOr<Reply> reply) { answer->set_value(std::move(reply)); },
            .cancelled = cancelled_};
  }

  // Blocks until the answer comes. Unavailable: it does not within kAskPatience; then the call is
  // cancelled, and its answer goes nowhere. Call once.
  absl::StatusOr<Reply> Await() {
    std::future<absl::StatusOr<Reply>> known = answer_->get_future();
    if (known.wait_for(kAskPatience) == std::future_status::ready) return known.get();
    cancelled_->store(true, std::memory_order_release);
    return absl::UnavailableError("the coordinator is busy; try again");
  }

 private:
  std::shared_ptr<std::promise<absl::StatusOr<Reply>>> answer_ =
      std::make_shared<std::promise<absl::StatusOr<Reply>>>();
  std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
};

// Makes a call that changes something on the logic thread, which may park it, and blocks until it
// is answered. Unavailable: see AwaitedAnswer.
template <typename Reply>
absl::StatusOr<Reply> AskParked(CoordinatorLoop& loop,
                                std::function<void(Coordinator&, Call<Reply>)> work) {
  AwaitedAnswer<Reply> answer;
  loop.Post([answer, work = std::move(work)](Coordinator& coordinator) {
    const Call<Reply> call = answer.call();
    if (!call.gone()) work(coordinator, call);
  });
  return answer.Await();
}

// Like AskParked, for a call that only reads.
template <typename Reply>
absl::StatusOr<Reply> AskParkedRead(CoordinatorLoop& loop,
                                    std::function<void(Coordinator&, Call<Reply>)> work) {
  AwaitedAnswer<Reply> answer;
  loop.PostRead([answer, work = std::move(work)](Coordinator& coordinator) {
    const Call<Reply> call = answer.call();
    if (!call.gone()) work(coordinator, call);
  });
  return answer.Await();
}

// Like AskParkedRead, for a call that is answered at once.
template <typename Reply>
absl::StatusOr<Reply> AskRead(CoordinatorLoop& loop,
                              std::function<absl::StatusOr<Reply>(Coordinator&)> work) {
  return AskParkedRead<Reply>(
      loop, [work = std::move(work)](Coordinator& coordinator, const Call<Reply>& call) {
        call.done(CatchOutOfMemory("the call", [&] { return work(coordinator); }));
      });
}

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_PAGE_ASK_H_
