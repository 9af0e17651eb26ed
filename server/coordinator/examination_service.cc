#include "server/coordinator/examination_service.h"

#include <atomic>
#include <functional>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "proto/examination.grpc.pb.h"
#include "server/coordinator/rpc_edge.h"
#include "server/coordinator/update_stream.h"

namespace muster {
namespace {

// The stream of an examination, which ends with it.
class ExaminationStream final
    : public UpdateStream<v1::ExaminationUpdate, ExaminationRequests::Update> {
 public:
  ExaminationStream(CoordinatorLoop& loop, const v1::ExamineRequest& request) : UpdateStream(loop) {
    loop.Post([this, request](Coordinator& coordinator) {
      absl::StatusOr<ExaminationRequests::Ticket> begun = coordinator.examinations().Begin(request);
      if (!begun.ok()) return Finish(AtEdge(begun.status()));
      ticket_ = *std::move(begun);
      Next();
    });
  }

 private:
  void Ask(Coordinator& coordinator, Call<ExaminationRequests::Update> call) override {
    coordinator.examinations().Next(ticket_, std::move(call));
  }

  v1::ExaminationUpdate Take(ExaminationRequests::Update& update) override {
    return std::move(update.update);
  }

  // Written before the first call of Ask.
  ExaminationRequests::Ticket ticket_;
};

class ExaminationService final : public EdgeService<v1::ExaminationService> {
 public:
  explicit ExaminationService(CoordinatorLoop& loop) : EdgeService(loop) {
    Read<v1::ReadClockRequest, v1::ReadClockReply>(
        "ReadClock", [](Coordinator& c, const auto&) { return c.examinations().ReadClock(); });
    Stream<v1::ExamineRequest>("Examine",
                               [](CoordinatorLoop& loop, const v1::ExamineRequest& request,
                                  grpc::CallbackServerContext*) -> RawStream* {
                                 return new ExaminationStream(loop, request);
                               });
    ParkRead<v1::AwaitExaminationRequest, v1::ExaminationOrder>(
        "AwaitExamination", [](Coordinator& c, const auto& request, auto call) {
          c.examinations().Await(request, std::move(call));
        });
    Read<v1::ReportExaminationRequest, v1::ReportExaminationReply>(
        "ReportExamination",
        [](Coordinator& c, const auto& request) { return c.examinations().Report(request); });
  }
};

class ExaminationClientHere final : public ExaminationClient {
 public:
  explicit ExaminationClientHere(CoordinatorLoop& loop) : loop_(loop) {}

  absl::StatusOr<v1::ExaminationOrder> Await(const v1::AwaitExaminationRequest& request,
                                             absl::Duration timeout) override {
    return Wait<v1::ExaminationOrder>(timeout,
                                      [request](Coordinator& c, Call<v1::ExaminationOrder> call) {
                                        c.examinations().AwaitHere(request, std::move(call));
                                      });
  }

  absl::StatusOr<v1::ReportExaminationReply> Report(const v1::ReportExaminationRequest& request,
                                                    absl::Duration timeout) override {
    return Wait<v1::ReportExaminationReply>(
        timeout, [request](Coordinator& c, const Call<v1::ReportExaminationReply>& call) {
          call.done(c.examinations().ReportHere(request));
        });
  }

  absl::StatusOr<v1::ReadClockReply> ReadClock(absl::Duration timeout) override {
    return Wait<v1::ReadClockReply>(timeout,
                                    [](Coordinator& c, const Call<v1::ReadClockReply>& call) {
                                      call.done(c.examinations().ReadClock());
                                    });
  }

  void Interrupt() override {
    absl::MutexLock lock(&state_->mutex);
    state_->interrupted = true;
  }

 private:
  struct State {
    absl::Mutex mutex;
    bool interrupted ABSL_GUARDED_BY(mutex) = false;
  };
  // Shared with calls that are answered after their time.
  template <typename Reply>
  struct Waiting {
    std::shared_ptr<State> state;
    std::optional<absl::StatusOr<Reply>> reply ABSL_GUARDED_BY(state->mutex);

    bool Over() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(state->mutex) {
      return reply.has_value() || state->interrupted;
    }
  };

  template <typename Reply>
  absl::StatusOr<Reply> Wait(absl::Duration timeout,
                             std::function<void(Coordinator&, Call<Reply>)> ask) {
    const auto waiting = std::make_shared<Waiting<Reply>>();
    waiting->state = state_;
    const auto cancelled = std::make_shared<std::atomic<bool>>(false);
    loop_.PostRead([waiting, cancelled, ask = std::move(ask)](Coordinator& coordinator) {
      ask(coordinator, {.done =
                            [waiting](absl::StatusOr<Reply> reply) {
                              absl::MutexLock lock(&waiting->state->mutex);
                              waiting->reply = std::move(reply);
                            },
                        .cancelled = cancelled});
    });
    absl::MutexLock lock(&state_->mutex);
    state_->mutex.AwaitWithTimeout(absl::Condition(waiting.get(), &Waiting<Reply>::Over), timeout);
    if (waiting->reply.has_value()) return *std::move(waiting->reply);
    cancelled->store(true, std::memory_order_release);
    if (state_->interrupted) return absl::CancelledError("the coordinator stops");
    return absl::DeadlineExceededError("the coordinator's own thread does not answer");
  }

  CoordinatorLoop& loop_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace

std::unique_ptr<grpc::Service> MakeExaminationService(CoordinatorLoop& loop) {
  return std::make_unique<ExaminationService>(loop);
}

std::unique_ptr<ExaminationClient> MakeExaminationClientHere(CoordinatorLoop& loop) {
  return std::make_unique<ExaminationClientHere>(loop);
}

}  // namespace muster
