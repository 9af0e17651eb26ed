#include "common/step/stage_simulator_for_testing.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <queue>
#include <random>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

using Kind = ActionKind;

std::string Describe(const StepAction& action) {
  return absl::StrCat(NameOf(action.kind), " of chunk ", action.chunk, ", micro-batch ",
                      action.micro_batch);
}

// A value that travels from one virtual stage to a neighbour.
struct Transfer {
  // Number of stages that have got to its batch.
  int ready = 0;
  bool arrived = false;
  int sender = -1;
  int receiver = -1;
};

struct Stage {
  size_t next = 0;
  // A pass runs.
  bool computes = false;
  // Transfers of the batches that were started, in order, and how many of each are not done.
  struct Batch {
    std::vector<int> transfers;
    int open = 0;
  };
  std::deque<Batch> batches;
  // Received and not yet read; made and not yet sent. By gradient or not.
  int received[2] = {};
  int outputs[2] = {};
};

class Simulation {
 public:
  Simulation(const StageShape& shape, absl::Span<const std::vector<StepAction>> lists,
             const SimulatedStages& options)
      : shape_(shape),
        lists_(lists),
        options_(options),
        random_(options.seed),
        stages_(shape.stages),
        transfers_(2 * Passes()),
        delivered_(2 * Passes()),
        forward_(Passes()),
        backward_(Passes()),
        weights_(Passes()) {}

  absl::Status Run() {
    for (int stage = 0; stage < shape_.stages; ++stage) Advance(stage);
    while (!events_.empty() && error_.ok()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      if (event.transfer >= 0) {
        Arrive(event.transfer);
      } else {
        EndPass(event.stage);
      }
    }
    for (int stage = 0; stage < shape_.stages && error_.ok(); ++stage) {
      if (stages_[stage].next < lists_[stage].size()) {
        Fail(stage, "deadlock: it waits for ever");
      } else if (!stages_[stage].batches.empty()) {
        error_ = absl::FailedPreconditionError(
            absl::StrCat("deadlock: the last transfers of stage ", stage, " wait for ever"));
      }
    }
    return error_;
  }

 private:
  // The end of a pass of `stage`, or of a transfer.
  struct Event {
    int64_t time = 0;
    int64_t number = 0;
    int stage = -1;
    int transfer = -1;

    friend bool operator>(const Event& a, const Event& b) {
      return std::tie(a.time, a.number) > std::tie(b.time, b.number);
    }
  };

  int Passes() const { return shape_.virtual_stages() * shape_.micro_batches; }
  int PassOf(int virtual_stage, int micro_batch) const {
    return virtual_stage * shape_.micro_batches + micro_batch;
  }
  // Returns the number of what a virtual stage is given: its input, or the gradient of its output.
  int ValueTo(int virtual_stage, int micro_batch, bool gradient) const {
    return PassOf(virtual_stage, micro_batch) + (gradient ? Passes() : 0);
  }
  int Random(int least, int most) {
    return least + static_cast<int>(random_() % static_cast<uint64_t>(most - least + 1));
  }

  void Fail(int stage, const std::string& what) {
    if (!error_.ok()) return;
    error_ = absl::FailedPreconditionError(
        absl::StrCat("stage ", stage, " at action ", stages_[stage].next, " (",
                     Describe(lists_[stage][stages_[stage].next]), "): ", what));
  }

  // Starts all that the stage need not wait for.
  void Advance(int stage) {
    Stage& at = stages_[stage];
    const std::vector<StepAction>& list = lists_[stage];
    while (!at.computes && at.next < list.size() && error_.ok()) {
      if (list[at.next].transfers()) {
        StartBatch(stage);
      } else if (!StartPass(stage, list[at.next])) {
        return;
      }
    }
  }

  void StartBatch(int stage) {
    Stage& at = stages_[stage];
    const std::vector<StepAction>& list = lists_[stage];
    Stage::Batch batch;
    for (; at.next < list.size() && list[at.next].transfers(); ++at.next) {
      if (!AddTransfer(stage, list[at.next], batch)) return;
    }
    batch.open = static_cast<int>(batch.transfers.size());
    at.batches.push_back(batch);
    if (at.batches.size() == 1) BeginBatch(stage);
  }

  bool AddTransfer(int stage, const StepAction& action, Stage::Batch& batch) {
    Stage& at = stages_[stage];
    const int virtual_stage = shape_.VirtualStage(stage, action.chunk);
    const bool gradient = action.of_gradient();
    int to = virtual_stage;
    if (action.sends()) {
      to = gradient ? virtual_stage - 1 : virtual_stage + 1;
      const std::vector<char>& made = gradient ? backward_ : forward_;
      if (!made[PassOf(virtual_stage, action.micro_batch)]) {
        Fail(stage, "what it sends is not made yet");
        return false;
      }
    } else {
      const int buffers = gradient ? options_.gradient_buffers : options_.activation_buffers;
      if (++at.received[gradient] > buffers) {
        Fail(stage, absl::StrCat("all ", buffers, " buffers are taken"));
        return false;
      }
    }
    if (to < 0 || to >= shape_.virtual_stages() || !Comes(to, gradient)) {
      Fail(stage, "no virtual stage gets it");
      return false;
    }
    const int value = ValueTo(to, action.micro_batch, gradient);
    Transfer& transfer = transfers_[value];
    (action.sends() ? transfer.sender : transfer.receiver) = stage;
    if (const int other = action.sends() ? transfer.receiver : transfer.sender;
        action.peer != (action.sends() ? to
                        : gradient     ? to + 1
                                       : to - 1) %
                           shape_.stages ||
        (other >= 0 && other != action.peer)) {
      Fail(stage, "it has the wrong peer");
      return false;
    }
    batch.transfers.push_back(value);
    return true;
  }

  // Tells that the stage's first batch is under way.
  void BeginBatch(int stage) {
    for (const int value : stages_[stage].batches.front().transfers) {
      if (++transfers_[value].ready < 2) continue;
      Schedule({.time = now_ + Random(0, options_.longest_transfer), .transfer = value});
    }
  }

  void Schedule(Event event) {
    event.number = ++scheduled_;
    events_.push(event);
  }

  void Arrive(int value) {
    const Transfer& transfer = transfers_[value];
    for (const int stage : {transfer.sender, transfer.receiver}) {
      Stage& at = stages_[stage];
      if (--at.batches.front().open > 0) continue;
      for (const int done : at.batches.front().transfers) {
        if (transfers_[done].receiver == stage) {
          delivered_[done] = true;
        } else {
          --at.outputs[done >= Passes()];
        }
      }
      at.batches.pop_front();
      if (!at.batches.empty()) BeginBatch(stage);
    }
    Advance(transfer.sender);
    Advance(transfer.receiver);
  }

  // Returns false if the pass has to wait.
  bool StartPass(int stage, const StepAction& action) {
    Stage& at = stages_[stage];
    const int virtual_stage = shape_.VirtualStage(stage, action.chunk);
    const int pass = PassOf(virtual_stage, action.micro_batch);
    if (action.kind == Kind::kBackwardWeights) {
      if (!backward_[pass]) Fail(stage, "the gradient of its input is not made yet");
    } else {
      const bool gradient = action.kind != Kind::kForward;
      if ((gradient ? backward_ : forward_)[pass]) Fail(stage, "it was done before");
      if (gradient && !forward_[pass]) Fail(stage, "its forward was not");
      if (!HasInput(virtual_stage, action.micro_batch, gradient)) return false;
      if (Leaves(virtual_stage, gradient)) {
        if (at.outputs[gradient] == options_.output_buffers) return false;
        ++at.outputs[gradient];
      }
    }
    if (!error_.ok()) return false;
    at.computes = true;
    Schedule({.time = now_ + Random(1, options_.longest_pass), .stage = stage});
    return true;
  }

  // Returns whether the virtual stage gets its input, or its gradient, from elsewhere.
  bool Comes(int virtual_stage, bool gradient) const {
    return gradient ? virtual_stage + 1 < shape_.virtual_stages() : virtual_stage > 0;
  }
  bool Leaves(int virtual_stage, bool gradient) const {
    return shape_.stages > 1 && Comes(virtual_stage, !gradient);
  }
  bool HasInput(int virtual_stage, int micro_batch, bool gradient) const {
    if (!Comes(virtual_stage, gradient)) return true;
    if (shape_.stages > 1) return delivered_[ValueTo(virtual_stage, micro_batch, gradient)];
    return gradient ? backward_[PassOf(virtual_stage + 1, micro_batch)]
                    : forward_[PassOf(virtual_stage - 1, micro_batch)];
  }

  void EndPass(int stage) {
    Stage& at = stages_[stage];
    const StepAction& action = lists_[stage][at.next];
    const int virtual_stage = shape_.VirtualStage(stage, action.chunk);
    const int pass = PassOf(virtual_stage, action.micro_batch);
    const bool gradient = action.kind != Kind::kForward;
    if (action.kind != Kind::kBackwardWeights) {
      (gradient ? backward_ : forward_)[pass] = true;
      if (shape_.stages > 1 && Comes(virtual_stage, gradient)) --at.received[gradient];
    }
    if (action.kind == Kind::kBackward || action.kind == Kind::kBackwardWeights) {
      if (weights_[pass]) Fail(stage, "it was done before");
      weights_[pass] = true;
    }
    at.computes = false;
    ++at.next;
    Advance(stage);
  }

  const StageShape shape_;
  const absl::Span<const std::vector<StepAction>> lists_;
  const SimulatedStages options_;
  std::mt19937_64 random_;
  std::vector<Stage> stages_;
  // Indexed by ValueTo.
  std::vector<Transfer> transfers_;
  std::vector<char> delivered_;
  // The passes that were made, indexed by PassOf.
  std::vector<char> forward_;
  std::vector<char> backward_;
  std::vector<char> weights_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  int64_t scheduled_ = 0;
  int64_t now_ = 0;
  absl::Status error_;
};

}  // namespace

absl::Status SimulateStages(const StageShape& shape,
                            absl::Span<const std::vector<StepAction>> stages,
                            const SimulatedStages& options) {
  return Simulation(shape, stages, options).Run();
}

}  // namespace muster
