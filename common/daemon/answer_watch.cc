#include "common/daemon/answer_watch.h"

#include <optional>
#include <utility>

namespace muster {

AnswerWatch::AnswerWatch(AnswerWatchOptions options, std::function<void(std::function<void()>)> ask,
                         std::function<void(bool)> tell)
    : options_(options), ask_(std::move(ask)), tell_(std::move(tell)), thread_([this] { Run(); }) {}

AnswerWatch::~AnswerWatch() {
  {
    absl::MutexLock lock(&state_->mutex);
    state_->stopping = true;
  }
  thread_.join();
}

void AnswerWatch::Run() {
  std::optional<bool> told;
  bool asked = false;
  while (true) {
    // A part that does not answer is not asked again: its queue would only grow.
    if (!asked) {
      {
        absl::MutexLock lock(&state_->mutex);
        state_->answered = false;
      }
      ask_([state = state_] {
        absl::MutexLock lock(&state->mutex);
        state->answered = true;
      });
      asked = true;
    }
    bool answers = false;
    {
      absl::MutexLock lock(&state_->mutex);
      state_->mutex.AwaitWithTimeout(absl::Condition(state_.get(), &State::StoppingOrAnswered),
                                     options_.patience);
      if (state_->stopping) return;
      answers = state_->answered;
    }
    asked = !answers;
    if (told != answers) tell_(answers);
    told = answers;
    if (!answers) continue;
    absl::MutexLock lock(&state_->mutex);
    if (state_->mutex.AwaitWithTimeout(absl::Condition(&state_->stopping), options_.interval)) {
      return;
    }
  }
}

}  // namespace muster
