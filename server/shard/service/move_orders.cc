#include "server/shard/service/move_orders.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/text/utf8.h"
#include "proto/cluster_service.pb.h"
#include "proto/parameter_service.pb.h"

namespace muster {
namespace {

// Pause before what failed for now is tried again.
constexpr absl::Duration kPause = absl::Milliseconds(100);
// Time between looks for partitions that stand still without orders, while the orders stay the
// same.
constexpr absl::Duration kLook = absl::Seconds(1);

bool PassesByItself(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsCancelled(status) ||
         absl::IsDeadlineExceeded(status) || absl::IsNotFound(status);
}

bool operator==(const PartitionMove& a, const PartitionMove& b) { return !(a < b) && !(b < a); }

}  // namespace

MoveOrders::MoveOrders(PartitionMover& mover, PartitionSource& source,
                       std::function<void(absl::string_view)> log)
    : mover_(mover),
      source_(source),
      log_(std::move(log)),
      adoptions_([this] { RunAdoptions(); }),
      releases_([this] { RunReleases(); }) {}

MoveOrders::~MoveOrders() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  source_.Cancel();
  adoptions_.join();
  releases_.join();
}

void MoveOrders::SetReportSoon(std::function<void()> report_soon) {
  absl::MutexLock lock(&mutex_);
  report_soon_ = std::move(report_soon);
}

void MoveOrders::TakeOrders(const v1::HeartbeatReply& orders) {
  bool cancel = false;
  {
    absl::MutexLock lock(&mutex_);
    adopt_.clear();
    leaving_.clear();
    released_.clear();
    std::map<PartitionMove, Result> results;
    for (const v1::MoveOrder& order : orders.moves()) {
      const PartitionMove move{.job_id = order.job_id(),
                               .generation = order.generation(),
                               .partition = order.partition(),
                               .term = order.term()};
      if (order.kind() == v1::MoveOrder::HAND_OVER) leaving_.push_back(move);
      // What was done for one order says nothing of another one of the same move.
      int done = v1::MoveReport::STATE_UNSPECIFIED;
      if (order.kind() == v1::MoveOrder::ADOPT) {
        adopt_[move] = order.from_address();
        done = v1::MoveReport::ADOPTED;
      } else if (order.kind() == v1::MoveOrder::RELEASE) {
        released_.push_back(move);
        done = v1::MoveReport::RELEASED;
      }
      const auto known = results_.find(move);
      if (known != results_.end() && known->second.state == done) results.insert(*known);
    }
    results_ = std::move(results);
    ++version_;
    cancel = adopting_ != nullptr && adopt_.count(*adopting_) == 0;
  }
  if (cancel) source_.Cancel();
}

void MoveOrders::Report(v1::HeartbeatRequest& request) const {
  absl::MutexLock lock(&mutex_);
  for (const auto& [move, result] : results_) {
    v1::MoveReport& report = *request.add_moves();
    report.set_job_id(move.job_id);
    report.set_generation(move.generation);
    report.set_partition(move.partition);
    report.set_term(move.term);
    report.set_state(static_cast<v1::MoveReport::State>(result.state));
    report.set_message(ToUtf8(result.message));
  }
}

void MoveOrders::Note(const PartitionMove& move, Result result) {
  std::function<void()> report_soon;
  {
    absl::MutexLock lock(&mutex_);
    const bool released = std::any_of(released_.begin(), released_.end(),
                                      [&](const PartitionMove& other) { return other == move; });
    // The orders may have changed meanwhile.
    if (result.state == v1::MoveReport::RELEASED ? !released : adopt_.count(move) == 0) return;
    results_[move] = std::move(result);
    report_soon = report_soon_;
  }
  if (report_soon) report_soon();
}

void MoveOrders::LogOnce(const std::string& line, std::string& last) {
  if (line == last) return;
  last = line;
  log_(line);
}

bool MoveOrders::NextAdoption(PartitionMove& move, std::string& address) const {
  const auto first = tried_.has_value() ? adopt_.upper_bound(*tried_) : adopt_.begin();
  const auto is_open = [this](const auto& order) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return results_.count(order.first) == 0;
  };
  auto next = std::find_if(first, adopt_.end(), is_open);
  if (next == adopt_.end()) {
    next = std::find_if(adopt_.begin(), first, is_open);
    if (next == first) return false;
  }
  move = next->first;
  address = next->second;
  return true;
}

void MoveOrders::RunAdoptions() {
  std::string last_trouble;
  while (true) {
    PartitionMove move;
    std::string address;
    {
      absl::MutexLock lock(&mutex_);
      const auto any = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || NextAdoption(move, address);
      };
      mutex_.Await(absl::Condition(&any));
      if (stopping_) return;
      adopting_ = std::make_unique<PartitionMove>(move);
      tried_ = move;
    }
    const absl::Status status = mover_.Adopt(move, [&](PartitionMover::ChunkSink sink) {
      return source_.Fetch(address, move, [&](const v1::HandOverChunk& chunk) {
        {
          absl::MutexLock lock(&mutex_);
          if (stopping_ || adopt_.count(move) == 0) {
            return absl::CancelledError("it is not ordered any more");
          }
        }
        return sink(chunk);
      });
    });
    const std::string name = absl::StrCat("partition ", move.partition, " of job ", move.job_id);
    if (status.ok()) {
      log_(absl::StrCat(name, " came from ", address));
      Note(move, {v1::MoveReport::ADOPTED, ""});
    } else if (!PassesByItself(status)) {
      log_(absl::StrCat(name, " cannot come from ", address, ": ", status.message()));
      Note(move, {v1::MoveReport::FAILED, std::string(status.message())});
    } else {
      LogOnce(absl::StrCat(name, " has not come from ", address, " yet: ", status.message()),
              last_trouble);
    }
    absl::MutexLock lock(&mutex_);
    adopting_.reset();
    if (!status.ok()) mutex_.AwaitWithTimeout(absl::Condition(&stopping_), kPause);
  }
}

void MoveOrders::RunReleases() {
  uint64_t done = 0;
  std::string last_trouble;
  while (true) {
    std::vector<PartitionMove> leaving, released;
    uint64_t version = 0;
    bool changed = false;
    {
      absl::MutexLock lock(&mutex_);
      const auto any = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || version_ != done;
      };
      mutex_.AwaitWithTimeout(absl::Condition(&any), kLook);
      if (stopping_) return;
      // Before the first orders come, nobody knows what may go on.
      if (version_ == 0) continue;
      changed = version_ != done;
      leaving = leaving_;
      released = released_;
      version = version_;
    }
    absl::Status status = mover_.Permit(leaving, released);
    if (!changed) released.clear();
    for (const PartitionMove& move : released) {
      const absl::Status deleted = mover_.Release(move);
      if (deleted.ok()) Note(move, {v1::MoveReport::RELEASED, ""});
      status.Update(deleted);
    }
    if (status.ok()) {
      done = version;
      continue;
    }
    LogOnce(absl::StrCat("moves of partitions: ", status.message()), last_trouble);
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(&stopping_), kPause);
  }
}

}  // namespace muster
