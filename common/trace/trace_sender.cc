#include "common/trace/trace_sender.h"

#include <algorithm>
#include <utility>

#include "common/trace/trace_piece.h"
#include "proto/trace.pb.h"

namespace muster {
namespace {

// Most events of a piece, some 60 KiB.
constexpr size_t kPieceEvents = 2048;
// Round trips by which clocks are compared before the first piece and before the last.
constexpr int kRoundTrips = 8;
// Attempts at a piece, an interval apart.
constexpr int kAttempts = 30;

}  // namespace

TraceSender::TraceSender(TraceRecorder& recorder, Send send, Options options)
    : recorder_(recorder),
      send_(std::move(send)),
      options_(std::move(options)),
      order_(std::make_unique<v1::TraceOrder>()) {}

TraceSender::~TraceSender() {
  std::optional<std::thread> thread;
  {
    absl::MutexLock lock(&mutex_);
    ending_ = true;
    thread = std::exchange(thread_, std::nullopt);
  }
  if (thread.has_value()) thread->join();
}

void TraceSender::Take(const v1::TraceOrder& order) {
  absl::MutexLock lock(&mutex_);
  if (order.trace() == order_->trace()) return;
  *order_ = order;
  if (order.trace() > begun_ && !ending_ && !thread_.has_value()) {
    thread_.emplace([this] { Run(); });
  }
}

void TraceSender::Run() {
  while (true) {
    v1::TraceOrder order;
    {
      absl::MutexLock lock(&mutex_);
      const auto called = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return ending_ || order_->trace() > begun_;
      };
      mutex_.Await(absl::Condition(&called));
      if (ending_) return;
      order = *order_;
      begun_ = order.trace();
    }
    Carry(order);
    recorder_.Stop();
  }
}

void TraceSender::Carry(const v1::TraceOrder& order) {
  const TraceRecorder::Steps steps = {.first = order.first_step(), .end = order.end_step()};
  const bool by_steps = options_.ends == Ends::kWithItsSteps;
  if (by_steps) {
    recorder_.Start(order.job_id(), steps);
  } else {
    recorder_.StartNow(order.job_id(), steps);
  }
  offset_ = ClockOffset();
  told_to_finish_ = false;
  if (CompareClocks(order) == Next::kEnd) return;
  uint64_t number = 0, sent = 0, beyond = 0;
  bool last = false;
  while (!last) {
    const bool stands = Pause(order.trace());
    if (!stands) return;
    bool over = by_steps ? recorder_.finished() : told_to_finish_;
    {
      absl::MutexLock lock(&mutex_);
      over = over || ending_;
    }
    if (over) recorder_.Stop();
    bool more = true;
    while (more && !last) {
      std::vector<TraceEvent> events;
      recorder_.Take(kPieceEvents, events);
      more = events.size() == kPieceEvents;
      const size_t room = std::min<size_t>(events.size(), order.max_events() - sent);
      beyond += events.size() - room;
      events.resize(room);
      sent += room;
      last = over && !more;
      // A server asks, by an empty piece, whether all tasks have finished.
      if (events.empty() && !last && by_steps) break;
      if (last && CompareClocks(order) == Next::kEnd) return;
      v1::TracePiece piece;
      piece.set_trace(order.trace());
      piece.set_number(++number);
      AddEvents(events, piece);
      piece.set_dropped(recorder_.dropped() + beyond);
      piece.set_last(last);
      if (Deliver(piece) == Next::kEnd) return;
    }
  }
}

TraceSender::Next TraceSender::CompareClocks(const v1::TraceOrder& order) {
  for (int i = 0; i < kRoundTrips; ++i) {
    v1::TracePiece piece;
    piece.set_trace(order.trace());
    if (Deliver(piece) == Next::kEnd) return Next::kEnd;
  }
  return Next::kGoOn;
}

TraceSender::Next TraceSender::Deliver(v1::TracePiece& piece) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (offset_.known()) {
      piece.set_clock_offset_ns(offset_.offset_ns());
      piece.set_clock_error_ns(static_cast<uint64_t>(offset_.error_ns()));
    }
    const int64_t sent_ns = options_.now();
    const absl::StatusOr<v1::TraceReply> reply = send_(piece);
    if (reply.ok()) {
      offset_.Add(sent_ns, reply->clock_ns(), options_.now());
      told_to_finish_ = told_to_finish_ || reply->finish();
      return reply->wanted() ? Next::kGoOn : Next::kEnd;
    }
    if (!absl::IsUnavailable(reply.status()) && !absl::IsDeadlineExceeded(reply.status())) break;
    if (!Pause(piece.trace())) break;
    absl::MutexLock lock(&mutex_);
    if (ending_) break;
  }
  return Next::kEnd;
}

bool TraceSender::Pause(uint64_t trace) {
  absl::MutexLock lock(&mutex_);
  const auto over = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return ending_ || order_->trace() != trace;
  };
  mutex_.AwaitWithTimeout(absl::Condition(&over), options_.interval);
  return order_->trace() == trace;
}

}  // namespace muster
