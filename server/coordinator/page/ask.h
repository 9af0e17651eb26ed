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

// Makes a call on the logic thread, which may park it, and blocks until it is answered.
// Unavailable: it is not within kAskPatience; the call is cancelled then.
template <typename Reply>
absl::StatusOr<Reply> AskParked(CoordinatorLoop& loop,
                                std::function<void(Coordinator&, Call<Reply>)> work) {
  // Outlives this call if the answer comes too late.
  const auto answer = std::make_shared<std::promise<absl::StatusOr<Reply>>>();
  const auto cancelled = std::make_shared<std::atomic<bool>>(false);
  std::future<absl::StatusOr<Reply>> known = answer->get_future();
  loop.Post([answer, cancelled, work = std::move(work)](Coordinator& coordinator) {
    work(coordinator,
         {.done = [answer](absl::StatusOr<Reply> reply) { answer->set_value(std::move(reply)); },
          .cancelled = cancelled});
  });
  if (known.wait_for(kAskPatience) == std::future_status::ready) return known.get();
  cancelled->store(true, std::memory_order_release);
  return absl::UnavailableError("the coordinator is busy; try again");
}

// Like AskParked, for a call that is answered at once.
template <typename Reply>
absl::StatusOr<Reply> Ask(CoordinatorLoop& loop,
                          std::function<absl::StatusOr<Reply>(Coordinator&)> work) {
  return AskParked<Reply>(
      loop, [work = std::move(work)](Coordinator& coordinator, Call<Reply> call) {
        call.done(CatchOutOfMemory("the call", [&] { return work(coordinator); }));
      });
}

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_PAGE_ASK_H_
