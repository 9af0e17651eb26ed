#include "worker/collectives/transport/pipes/pipe_waiter.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

constexpr int64_t kMinLookNs = 2'000;
constexpr int64_t kMaxLookNs = 100'000;
// Time for which a look keeps the processor.
constexpr int64_t kKeepNs = 1'500;
// Time between two sleeps that serve only to move to another processor.
constexpr int64_t kMakeWayNs = 1'000'000;
// Time that a broken connection's peer has to say goodbye or to be found dead; then the connection
// itself is what failed.
constexpr absl::Duration kExplanation = absl::Milliseconds(200);

// Sleep of a rank that waits for room before it looks for itself.
constexpr absl::Duration kWriterNap = absl::Milliseconds(10);

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

PipeWaiter::PipeWaiter(Options options, Doorbell& bell, GroupHealth& health)
    : options_(std::move(options)),
      crowded_(options_.local_ranks > options_.processors),
      bell_(bell),
      health_(health),
      look_ns_(kMaxLookNs / 4),
      broken_since_(options_.pipes.size(), absl::InfiniteDuration()) {}

bool PipeWaiter::Moved(uint32_t word, absl::Span<const PipeInterest> interests) const {
  if (bell_.word() != word) return true;
  for (const PipeInterest& interest : interests) {
    if (options_.pipes[interest.peer]->Moved(interest)) return true;
  }
  return !health_.ok();
}

void PipeWaiter::ListSockets(absl::Span<const PipeInterest> interests) {
  polled_.clear();
  polled_.push_back({bell_.event_descriptor(), POLLIN, 0});
  for (const PipeInterest& interest : interests) {
    const HostPipe& pipe = *options_.pipes[interest.peer];
    if (pipe.descriptor() < 0 || !pipe.broken().ok()) continue;
    const short reading = interest.readable ? POLLIN : 0, writing = interest.writable ? POLLOUT : 0;
    if (pipe.descriptor() == pipe.write_descriptor()) {
      polled_.push_back({pipe.descriptor(), static_cast<short>(reading | writing), 0});
      continue;
    }
    if (interest.readable) polled_.push_back({pipe.descriptor(), reading, 0});
    if (interest.writable) polled_.push_back({pipe.write_descriptor(), writing, 0});
  }
}

void PipeWaiter::Wake() {
  bell_.Count();
  if (const Sleep how = asleep_.load(std::memory_order_seq_cst); how != Sleep::kNone) {
    bell_.Ring(static_cast<uint32_t>(how));
  }
}

bool PipeWaiter::SharesProcessor(absl::Span<const PipeInterest> interests) {
  if (crowded_) return false;
  const int here = sched_getcpu();
  bell_.NoteProcessor(here);
  const bool shares = std::any_of(interests.begin(), interests.end(), [&](const auto& interest) {
    return interest.readable && options_.pipes[interest.peer]->processor() == here;
  });
  if (!shares) return false;
  // All processors may be busy with other things; to sleep every time would then cost more.
  const int64_t now = NowNs();
  if (now < made_way_ns_ + kMakeWayNs) return false;
  made_way_ns_ = now;
  return true;
}

bool PipeWaiter::Look(uint32_t word, absl::Span<const PipeInterest> interests, int64_t limit_ns) {
  const int64_t start = NowNs();
  const bool sockets = polled_.size() > 1;
  bool asked_for_processor = false;
  for (int round = 0;; ++round) {
    if (Moved(word, interests)) return true;
    if (sockets && poll(polled_.data() + 1, polled_.size() - 1, 0) > 0) return true;
    // A look at the clock costs more than a look at a ring.
    if (!sockets && !crowded_ && round % 8 != 7) {
      Pause();
      continue;
    }
    const int64_t passed = NowNs() - start;
    if (passed >= limit_ns) return false;
    if (passed >= kKeepNs && !asked_for_processor) {
      asked_for_processor = true;
      if (SharesProcessor(interests)) return false;
    }
    if (crowded_ || passed >= kKeepNs) sched_yield();
  }
}

void PipeWaiter::CheckPeers(absl::Span<const PipeInterest> interests, absl::Duration timeout) {
  for (const PipeInterest& interest : interests) {
    const HostPipe& pipe = *options_.pipes[interest.peer];
    const absl::Status broken = pipe.broken();
    const bool rings = pipe.descriptor() < 0;
    if (broken.ok() && !rings) continue;
    const std::string& name = options_.names[interest.peer];
    const auto has_left = [&] {
      // A peer's last bytes come before its goodbye; hence this order.
      if (!health_.left(interest.peer) || pipe.Moved(interest)) return false;
      if (!interest.may_leave) {
        health_.Fail(absl::UnavailableError(
            absl::StrCat(name, " has left the group while this rank still needs it")));
      }
      return true;
    };
    if (has_left() || broken.ok()) continue;
    const auto now = [] { return absl::Nanoseconds(NowNs()); };
    absl::Duration& since = broken_since_[interest.peer];
    since = std::min(since, now());
    const absl::Duration patience = since + kExplanation;
    const absl::Duration limit = std::min(patience, now() + timeout);
    while (health_.ok() && !health_.left(interest.peer) && now() < limit) {
      const uint32_t word = bell_.word();
      if (health_.ok() && !health_.left(interest.peer)) {
        bell_.SleepOnFutex(word, limit - now());
      }
    }
    if (!has_left() && now() >= patience) {
      health_.Fail(
          absl::Status(broken.code(), absl::StrCat("the ", pipe.description(), " connection to ",
                                                   name, " broke: ", broken.message())));
    }
  }
}

void PipeWaiter::Wait(uint64_t ticket, absl::Span<const PipeInterest> interests,
                      absl::Duration timeout) {
  const auto word = static_cast<uint32_t>(ticket);
  if (Moved(word, interests)) return;
  ListSockets(interests);
  const int64_t timeout_ns = absl::ToInt64Nanoseconds(timeout);
  const int64_t start = NowNs();
  if (Look(word, interests, std::min(look_ns_, timeout_ns))) {
    look_ns_ = std::min(kMaxLookNs, look_ns_ + look_ns_ / 8);
    return;
  }
  const absl::Duration rest = timeout - absl::Nanoseconds(NowNs() - start);
  if (rest <= absl::ZeroDuration()) return;
  CheckPeers(interests, rest);
  if (!health_.ok()) return;
  FallAsleep(word, interests, rest);
  // A sleep so short that looking would have spared it makes the next look longer, a long sleep
  // makes it shorter.
  const int64_t passed = NowNs() - start;
  look_ns_ = passed < kMaxLookNs ? std::min(kMaxLookNs, look_ns_ * 2)
                                 : std::max(kMinLookNs, look_ns_ - look_ns_ / 4);
}

void PipeWaiter::FallAsleep(uint32_t word, absl::Span<const PipeInterest> interests,
                            absl::Duration timeout) {
  // A reader that has emptied a ring by less than half, and has gone to do something else, wakes
  // nobody.
  for (const PipeInterest& interest : interests) {
    if (interest.writable) timeout = std::min(timeout, kWriterNap);
  }
  for (HostPipe* const pipe : options_.pipes) {
    if (pipe != nullptr) pipe->BeforeSleep();
  }
  const auto how = polled_.size() > 1 ? Sleep::kPoll : Sleep::kFutex;
  for (const PipeInterest& interest : interests) options_.pipes[interest.peer]->Arm(interest, how);
  asleep_.store(how, std::memory_order_seq_cst);
  // A peer that moves from here on sees that this rank sleeps.
  if (!Moved(word, interests)) {
    if (how == Sleep::kFutex) {
      bell_.SleepOnFutex(word, timeout);
    } else {
      const timespec limit = absl::ToTimespec(timeout);
      ppoll(polled_.data(), polled_.size(), timeout == absl::InfiniteDuration() ? nullptr : &limit,
            nullptr);
      if (polled_[0].revents != 0) bell_.DrainEvent();
    }
  }
  asleep_.store(Sleep::kNone, std::memory_order_relaxed);
  for (const PipeInterest& interest : interests) options_.pipes[interest.peer]->Disarm();
}

}  // namespace muster
