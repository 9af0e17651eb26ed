#ifndef MUSTER_WORKER_STRATEGY_SERVERS_STRATEGY_FIXTURE_H_
#define MUSTER_WORKER_STRATEGY_SERVERS_STRATEGY_FIXTURE_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"
#include "common/rpc/retry.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/parameter_service.pb.h"
#include "worker/strategy/servers/parameter_server_strategy.h"

namespace muster {

// The number of elements of each unit's tensor, and the size of the message that has them all.
inline constexpr int kElements = 8;

// Records what arrived at the server, and holds its answers back.
class Wire {
 public:
  void Arrive(const v1::ExchangeRequest& request, const Payload& payload,
              ParameterClient::Done done) {
    const size_t bytes = payload.size();
    absl::MutexLock lock(&mutex_);
    if (request.has_enter()) {
      arrived_.push_back(absl::StrCat("enter ", request.clock()));
    } else if (request.has_close() && request.close().no_dense()) {
      EXPECT_EQ(request.close().examples(), 0);
      arrived_.push_back(absl::StrCat("close of ", request.clock(), " without ",
                                      absl::StrJoin(request.close().left_out(), " ")));
    } else if (request.has_close()) {
      EXPECT_EQ(request.close().loss_scale().overflowed(), request.close().examples() == 0);
      EXPECT_TRUE(!request.close().has_loss_scale() || held_.empty()) << "pushes are to be in";
      arrived_.push_back(request.close().examples() > 0 ? "close" : "close of an overflow");
      const auto& left_out = request.close().left_out();
      if (!left_out.empty()) {
        absl::StrAppend(&arrived_.back(), " without ", absl::StrJoin(left_out, " "));
      }
    } else if (request.has_sparse_pull()) {
      arrived_.push_back(absl::StrCat("rows ", request.sparse_pull().rows()));
    } else if (request.has_dense_pull()) {
      arrived_.push_back(absl::StrCat("pull ", request.dense_pull().first_block()));
    } else if (request.has_clip()) {
      const bool has_scale = request.clip().has_scale();
      arrived_.push_back(has_scale ? absl::StrCat("scale ", request.clip().scale()) : "norms");
      held_.push_back({has_scale ? 0 : norms_ * sizeof(double), request.clock(), std::move(done)});
      return;
    } else if (request.dense_push().examples() == 0) {
      std::vector<std::byte> content(bytes);
      payload.CopyTo(content.data());
      EXPECT_THAT(content, testing::Each(std::byte{0}));
      arrived_.push_back(absl::StrCat("nothing ", request.dense_push().first_block(), " of ", bytes,
                                      " bytes", MicroBatchOf(request)));
    } else {
      arrived_.push_back(absl::StrCat("push ", request.dense_push().first_block(), " of ", bytes,
                                      " bytes", MicroBatchOf(request)));
      last_push_.resize(bytes);
      payload.CopyTo(last_push_.data());
    }
    const bool is_pull = request.has_dense_pull() || request.has_sparse_pull();
    held_.push_back({is_pull ? bytes_per_pull_ : 0, request.clock(), std::move(done)});
  }

  std::vector<std::string> TakeArrived() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(arrived_, {});
  }
  // Returns the last push of some examples.
  std::vector<std::byte> last_push() {
    absl::MutexLock lock(&mutex_);
    return last_push_;
  }
  // Breaks the connection before all held requests are answered.
  void LoseAll() {
    std::deque<Held> held;
    {
      absl::MutexLock lock(&mutex_);
      held.swap(held_);
    }
    for (Held& lost : held) lost.done(absl::UnavailableError("lost"));
  }
  // Answers the oldest request. `released` is called when its payload is released.
  void AnswerOne(std::function<void()> released = nullptr) {
    Held held;
    {
      absl::MutexLock lock(&mutex_);
      held = std::move(held_.front());
      held_.pop_front();
    }
    Answer(std::move(held), std::move(released));
  }
  // Answers only the newest pull.
  void AnswerNewestPull() {
    Held held;
    {
      absl::MutexLock lock(&mutex_);
      const auto pull = std::find_if(held_.rbegin(), held_.rend(),
                                     [](const Held& other) { return other.bytes > 0; });
      ASSERT_NE(pull, held_.rend());
      held = std::move(*pull);
      held_.erase(std::next(pull).base());
    }
    Answer(std::move(held));
  }
  void AnswerAll() {
    for (size_t left = held(); left > 0; --left) AnswerOne();
  }
  size_t held() {
    absl::MutexLock lock(&mutex_);
    return held_.size();
  }
  void set_bytes_per_pull(size_t bytes) { bytes_per_pull_ = bytes; }
  void set_norms(size_t norms) { norms_ = norms; }
  // Makes answers come from clocks before the one that they were asked at.
  void set_clocks_behind(uint64_t clocks) { clocks_behind_ = clocks; }
  // Makes answers tell of these slots and of this fastest clock.
  void set_left_out(std::vector<uint32_t> slots, uint64_t fastest_clock) {
    left_out_ = std::move(slots);
    fastest_clock_ = fastest_clock;
  }
  void set_already_applied(bool applied) { already_applied_ = applied; }

 private:
  struct Held {
    size_t bytes = 0;
    uint64_t clock = 0;
    ParameterClient::Done done;
  };

  void Answer(Held held, std::function<void()> released = nullptr) {
    auto reply = std::make_shared<v1::ExchangeReply>();
    reply->set_slowest_clock(held.clock - clocks_behind_);
    reply->set_already_applied(already_applied_);
    reply->set_fastest_clock(fastest_clock_);
    reply->mutable_left_out()->Assign(left_out_.begin(), left_out_.end());
    held.done(ExchangeResult{std::move(reply), MakePayload(held.bytes, std::move(released))});
  }

  static std::string MicroBatchOf(const v1::ExchangeRequest& request) {
    const uint32_t micro_batch = request.dense_push().micro_batch();
    return micro_batch == 0 ? "" : absl::StrCat(", micro-batch ", micro_batch);
  }

  static Payload MakePayload(size_t bytes, std::function<void()> released) {
    auto* const values = new std::vector<std::byte>(bytes);
    return Payload({*values}, std::shared_ptr<const void>(values, [=](const void*) {
                     delete values;
                     if (released) released();
                   }));
  }

  absl::Mutex mutex_;
  std::vector<std::string> arrived_ ABSL_GUARDED_BY(mutex_);
  std::deque<Held> held_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::byte> last_push_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_per_pull_ = 0;
  size_t norms_ = 0;
  uint64_t clocks_behind_ = 0;
  bool already_applied_ = false;
  std::vector<uint32_t> left_out_;
  uint64_t fastest_clock_ = 0;
};

class HoldingClient final : public ParameterClient {
 public:
  // Keeps the last request that opened tables in `opened`. `withdrawn`: a former task of the slot
  // has withdrawn gradients of its first clock.
  HoldingClient(Wire& wire, bool withdrawn, v1::OpenTablesRequest& opened)
      : wire_(wire), withdrawn_(withdrawn), opened_(opened) {}

  absl::StatusOr<v1::OpenTablesReply> OpenTables(const v1::OpenTablesRequest& request,
                                                 absl::Duration) override {
    opened_ = request;
    v1::OpenTablesReply reply;
    for (const v1::PartitionTerm& partition : request.partitions()) {
      v1::PartitionClocks* clocks = reply.add_partitions();
      clocks->set_partition(partition.partition());
      clocks->add_closed(0);
      clocks->set_withdrawn(withdrawn_);
    }
    return reply;
  }
  absl::StatusOr<v1::EndGenerationReply> EndGeneration(const v1::EndGenerationRequest&,
                                                       absl::Duration) override {
    return v1::EndGenerationReply();
  }
  absl::Status DropTables(const std::string&, absl::Duration) override { return absl::OkStatus(); }
  absl::StatusOr<v1::GetServerStatsReply> Stats(absl::Duration) override {
    return v1::GetServerStatsReply();
  }
  void Call(v1::ExchangeRequest request, Payload payload, Done done) override {
    wire_.Arrive(request, payload, std::move(done));
  }
  void Abort(absl::Status) override {}

 private:
  Wire& wire_;
  const bool withdrawn_;
  v1::OpenTablesRequest& opened_;
};

// A strategy on one partition of a server that holds its answers back. Each unit has one tensor and
// one block; the last one reads the first one's tensor, too. There is one table, whose rows are as
// long as a tensor, and have a message of their own.
class StrategyFixture {
 protected:
  explicit StrategyFixture(int units) : units_(units) {}

  // Begins a step, to the point where its backward may begin.
  void PullAll(uint64_t clock) {
    ASSERT_EQ(strategy_->BeginStep(clock), absl::OkStatus());
    for (int unit = 0; unit < units_; ++unit) {
      wire_.AnswerAll();
      ASSERT_EQ(strategy_->Acquire(unit, Direction::kForward), absl::OkStatus());
    }
    wire_.TakeArrived();
  }

  // Makes the strategy of `spec_`.
  absl::Status Make(uint64_t pull_window_bytes, uint64_t push_window_bytes) {
    v1::TablesSchema schema;
    for (int unit = 0; unit < units_; ++unit) {
      v1::TensorSchema& tensor = *schema.add_tensors();
      tensor.set_name(absl::StrCat("w", unit));
      tensor.add_shape(kElements);
      tensor.set_unit(unit);
      tensor.mutable_initializer()->set_kind(v1::Initializer::CONSTANT);
    }
    schema.mutable_tensors(0)->set_sign_rate(sign_rate_);
    v1::SparseTableSchema& table = *schema.add_sparse();
    table.set_name("rows");
    table.set_dim(kElements);
    table.mutable_initializer()->set_kind(v1::Initializer::CONSTANT);
    v1::TensorSchema& tied = *schema.add_tensors();
    tied = schema.tensors(0);
    tied.set_name("tied");
    tied.set_unit(units_ - 1);
    tied.set_tied_to("w0");
    schema.set_partitions(1);
    schema.set_block_bytes(1024);
    schema.mutable_optimizer()->set_name("sgd");
    schema.mutable_optimizer()->set_learning_rate(0.1f);
    schema.mutable_clipping()->set_by_global_norm(max_norm_);
    schema.mutable_schedule()->set_name("constant");
    schema.set_total_steps(10);
    v1::TaskOrder order;
    order.set_job_id("job");
    order.set_generation(1);
    order.set_incarnation(1);
    *order.mutable_spec() = spec_;
    order.mutable_spec()->set_workers(1);
    order.mutable_shard_map()->set_version(1);
    v1::Replica* replica = order.mutable_shard_map()->add_partitions()->add_replicas();
    replica->set_address("server");
    replica->set_role(v1::Replica::PRIMARY);
    replica->set_term(1);
    ShardRouterDependencies routing;
    routing.make_client = [this](const std::string&) {
      return std::make_unique<HoldingClient>(wire_, withdrawn_, opened_);
    };
    routing.newest_shard_map = [map = order.shard_map()] { return map; };
    routing.log = [](absl::string_view) {};
    routing.clock = &clock_;
    routing.waiter = &waiter_;
    ParameterServerStrategy::Options options;
    options.max_message_bytes = kElements * sizeof(float);
    options.pull_window_bytes = pull_window_bytes;
    options.push_window_bytes = push_window_bytes;
    auto strategy = ParameterServerStrategy::Create(order, schema, options, std::move(routing));
    if (!strategy.ok()) return strategy.status();
    strategy_ = *std::move(strategy);
    EXPECT_EQ(strategy_->Start().value(), 0);
    wire_.set_bytes_per_pull(kElements * element_bytes());
    return absl::OkStatus();
  }

  size_t element_bytes() const {
    const auto wire = spec_.update().wire();
    return wire == v1::UpdateSpec::BF16 || wire == v1::UpdateSpec::F16 ? 2 : 4;
  }
  std::string Push(int block) const {
    return absl::StrCat("push ", block, " of ", kElements * element_bytes(), " bytes");
  }

  const int units_;
  v1::JobSpec spec_;
  float max_norm_ = 0;
  // The first unit's tensor has this one.
  float sign_rate_ = 0;
  bool withdrawn_ = false;
  const RealClock clock_;
  RealWaiter waiter_;
  Wire wire_;
  // The request that opened the tables.
  v1::OpenTablesRequest opened_;
  std::unique_ptr<ParameterServerStrategy> strategy_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_SERVERS_STRATEGY_FIXTURE_H_
