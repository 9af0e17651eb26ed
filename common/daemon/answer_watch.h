#ifndef MUSTER_COMMON_DAEMON_ANSWER_WATCH_H_
#define MUSTER_COMMON_DAEMON_ANSWER_WATCH_H_

#include <functional>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace muster {

struct AnswerWatchOptions {
  // Time between an answer and the next question.
  absl::Duration interval = absl::Seconds(2);
  // An answer that takes longer counts as none.
  absl::Duration patience = absl::Seconds(5);
};

// Asks a part of a daemon again and again whether it still answers, for example the thread that
// does all of a coordinator's work.
class AnswerWatch {
 public:
  // `ask` gets a function that the part calls once it gets round to it: on any thread, at most
  // once, perhaps after the watch has ended. `tell` is called on the watch's thread when the part
  // answers (true), first or again, and when it no longer does (false).
  AnswerWatch(AnswerWatchOptions options, std::function<void(std::function<void()>)> ask,
              std::function<void(bool)> tell);
  ~AnswerWatch();

 private:
  // Shared with questions that are never answered.
  struct State {
    absl::Mutex mutex;
    bool stopping ABSL_GUARDED_BY(mutex) = false;
    bool answered ABSL_GUARDED_BY(mutex) = false;

    bool StoppingOrAnswered() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
      return stopping || answered;
    }
  };

  void Run();

  const AnswerWatchOptions options_;
  const std::function<void(std::function<void()>)> ask_;
  const std::function<void(bool)> tell_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_DAEMON_ANSWER_WATCH_H_
