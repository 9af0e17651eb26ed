#include "common/transport/data_channel/io_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

// Runs `task` on the loop's thread and waits for it.
template <typename Task>
void RunOn(IoLoop& loop, Task task) {
  loop.Post(task);
  loop.Drain();
}

// Counts what it is told, and works while there is anything in `work`.
class CountingSource final : public IoLoop::Source {
 public:
  void OnEvents(uint32_t events) override {
    if ((events & EPOLLIN) != 0) ++events_seen;
    if (on_events) on_events();
  }
  bool Poll() override {
    ++polls;
    const int left = work.load();
    if (left == 0) return false;
    work.store(left - 1);
    return true;
  }
  bool BeforeSleep() override {
    ++sleeps;
    return work.load() == 0;
  }
  void AfterSleep() override { ++wakes; }

  std::atomic<int> events_seen{0}, polls{0}, work{0}, sleeps{0}, wakes{0};
  std::function<void()> on_events;
};

class IoLoopTest : public ::testing::TestWithParam<int64_t> {
 protected:
  IoLoopTest() : loop_(*IoLoop::Create({.max_look_ns = GetParam()})) {}

  template <typename Done>
  static void Await(Done done) {
    while (!done()) std::this_thread::yield();
  }

  std::unique_ptr<IoLoop> loop_;
};

TEST_P(IoLoopTest, RunsTasksInOrderOnItsThread) {
  std::vector<int> ran;
  for (int i = 0; i < 1000; ++i) {
    loop_->Post([&ran, i, loop = loop_.get()] {
      EXPECT_TRUE(loop->OnThread());
      ran.push_back(i);
    });
  }
  loop_->Drain();
  EXPECT_FALSE(loop_->OnThread());
  ASSERT_EQ(ran.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(ran[i], i);
}

TEST_P(IoLoopTest, TasksMayPostAndDrain) {
  absl::Notification ran;
  loop_->Post([&, loop = loop_.get()] {
    loop->Drain();
    loop->Post([&] { ran.Notify(); });
    EXPECT_FALSE(ran.HasBeenNotified());
  });
  ran.WaitForNotification();
}

TEST_P(IoLoopTest, NoWakeUpIsLost) {
  std::atomic<int> ran{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        const int before = ran.load();
        loop_->Post([&] { ++ran; });
        if (i % 50 == 0) Await([&] { return ran.load() > before; });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Await([&] { return ran.load() == 6000; });
}

TEST_P(IoLoopTest, TheDestructorRunsWhatWasPosted) {
  std::atomic<int> ran{0};
  for (int i = 0; i < 100; ++i) loop_->Post([&] { ++ran; });
  loop_.reset();
  EXPECT_EQ(ran, 100);
}

TEST_P(IoLoopTest, TellsOfReadyDescriptorsUntilTheyAreTakenBack) {
  Descriptor event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  CountingSource source;
  RunOn(*loop_, [&] { EXPECT_TRUE(loop_->Watch(event.get(), EPOLLIN, &source).ok()); });
  eventfd_write(event.get(), 1);
  Await([&] { return source.events_seen == 1; });
  eventfd_write(event.get(), 1);
  Await([&] { return source.events_seen == 2; });
  RunOn(*loop_, [&] { loop_->Unwatch(event.get(), &source); });
  eventfd_write(event.get(), 1);
  loop_->Drain();
  EXPECT_EQ(source.events_seen, 2);
}

TEST_P(IoLoopTest, ASourceThatIsTakenBackByAnotherIsNotCalled) {
  Descriptor one(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  Descriptor other(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  auto first = std::make_unique<CountingSource>();
  auto second = std::make_unique<CountingSource>();
  std::atomic<int> left{2};
  // Whichever comes first takes the other back, and destroys it.
  first->on_events = [&] {
    if (second != nullptr) loop_->Unwatch(other.get(), second.get());
    second.reset();
    --left;
  };
  second->on_events = [&] {
    if (first != nullptr) loop_->Unwatch(one.get(), first.get());
    first.reset();
    --left;
  };
  RunOn(*loop_, [&] {
    EXPECT_TRUE(loop_->Watch(one.get(), EPOLLIN, first.get()).ok());
    EXPECT_TRUE(loop_->Watch(other.get(), EPOLLIN, second.get()).ok());
    eventfd_write(one.get(), 1);
    eventfd_write(other.get(), 1);
  });
  Await([&] { return left == 1; });
  RunOn(*loop_, [&] {
    if (first != nullptr) loop_->Unwatch(one.get(), first.get());
    if (second != nullptr) loop_->Unwatch(other.get(), second.get());
  });
  EXPECT_EQ(left, 1);
}

TEST_P(IoLoopTest, DoesAllWorkOfPolledSourcesBeforeItSleeps) {
  CountingSource source;
  source.work = 1000;
  RunOn(*loop_, [&] { loop_->AddPolled(&source); });
  Await([&] { return source.work == 0 && source.sleeps > 0; });
  EXPECT_GE(source.polls, 1001);
  // Work that comes while it sleeps waits for a wake-up, which a task is as well.
  source.work = 5;
  loop_->Post([] {});
  Await([&] { return source.work == 0; });
  RunOn(*loop_, [&] { loop_->RemovePolled(&source); });
  const int polls = source.polls;
  loop_->Drain();
  loop_->Drain();
  EXPECT_EQ(source.polls, polls);
  EXPECT_LE(source.wakes, source.sleeps);
}

INSTANTIATE_TEST_SUITE_P(Looks, IoLoopTest, ::testing::Values(0, 50'000));

}  // namespace
}  // namespace muster
