#include "common/daemon/answer_watch.h"

#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

TEST(AnswerWatchTest, TellsWhenAPartStopsAnsweringAndWhenItAnswersAgain) {
  absl::Mutex mutex;
  int questions = 0;
  std::function<void()> unanswered;
  std::vector<bool> told;
  absl::Notification silent, back;
  AnswerWatch watch(
      {.interval = absl::ZeroDuration(), .patience = absl::Milliseconds(10)},
      [&](std::function<void()> answer) {
        absl::MutexLock lock(&mutex);
        // The third question stays open for a while; the next ones are answered at once.
        if (++questions == 3) {
          unanswered = std::move(answer);
        } else {
          answer();
        }
      },
      [&](bool answers) {
        absl::MutexLock lock(&mutex);
        told.push_back(answers);
        if (told.size() == 2) silent.Notify();
        if (told.size() == 3) back.Notify();
      });
  silent.WaitForNotification();
  {
    absl::MutexLock lock(&mutex);
    EXPECT_THAT(told, ElementsAre(true, false));
    EXPECT_EQ(questions, 3) << "asked again while it does not answer";
  }
  unanswered();
  back.WaitForNotification();
  absl::MutexLock lock(&mutex);
  EXPECT_THAT(told, ElementsAre(true, false, true));
}

TEST(AnswerWatchTest, EndsWhileNobodyAnswers) {
  std::function<void()> late;
  absl::Notification asked;
  {
    AnswerWatch watch(
        {.patience = absl::Hours(1)},
        [&](std::function<void()> answer) {
          late = std::move(answer);
          asked.Notify();
        },
        [](bool) { ADD_FAILURE() << "nobody has answered"; });
    asked.WaitForNotification();
  }
  late();
}

}  // namespace
}  // namespace muster
