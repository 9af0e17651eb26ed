#include "tests/benchmarks/parameter_server/bench_worker.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/base/buffer_pool.h"
#include "common/base/payload.h"
#include "common/base/status_macros.h"
#include "common/rpc/parameter_service/parameter_client.h"
#include "common/transport/data_channel/channel_io.h"
#include "proto/parameter_service.pb.h"
#include "tests/benchmarks/harness/record.h"
#include "tests/benchmarks/parameter_server/bench_client.h"

namespace muster {
namespace {

constexpr uint64_t kMostBlockBytes = 1 << 20;
// As the worker's strategy cuts its pushes.
constexpr uint64_t kMessageBytes = 4 << 20;

// Blocks that go in one message.
struct Message {
  int server;
  uint32_t first_block;
  uint32_t blocks;
  uint64_t arena_offset;
  uint64_t bytes;
};

// Memory as a worker's arenas have it: in huge pages, where the system has some.
std::shared_ptr<float> MakeArena(uint64_t bytes) {
  const size_t floats = bytes / sizeof(float);
  const std::shared_ptr<float> arena = BufferPool::Create(0)->Take(floats);
  std::fill_n(arena.get(), floats, 0.001f);
  return arena;
}

// The table on all servers, and the worker's arenas.
class Table {
 public:
  static absl::StatusOr<std::unique_ptr<Table>> Open(std::string job, uint64_t bytes,
                                                     const std::string& way,
                                                     const std::string& durability,
                                                     const std::vector<std::string>& servers,
                                                     const std::shared_ptr<ChannelIo>& io) {
    auto table = std::unique_ptr<Table>(new Table(std::move(job), bytes, way, servers, io));
    v1::OpenTablesRequest request;
    request.set_job_id(table->job_);
    request.set_generation(1);
    request.set_shard_map_version(1);
    request.set_slots(1);
    v1::TablesSchema& schema = *request.mutable_schema();
    v1::TensorSchema& tensor = *schema.add_tensors();
    tensor.set_name("w");
    tensor.add_shape(bytes / sizeof(float));
    tensor.mutable_initializer()->set_kind(v1::Initializer::CONSTANT);
    schema.set_partitions(servers.size());
    schema.set_block_bytes(table->block_bytes_);
    schema.mutable_optimizer()->set_name("sgd");
    schema.mutable_optimizer()->set_learning_rate(0.1f);
    schema.mutable_schedule()->set_name("constant");
    schema.set_total_steps(1 << 30);
    v1::UpdateSpec& update = *request.mutable_update();
    update.set_dense(v1::UpdateSpec::PARAMETER_SERVER);
    update.set_sparse(v1::UpdateSpec::PARAMETER_SERVER);
    update.set_durability(durability == "every-push" ? v1::UpdateSpec::EVERY_PUSH
                                                     : v1::UpdateSpec::CHECKPOINT);
    update.set_partitions(servers.size());
    update.set_block_bytes(table->block_bytes_);
    for (size_t i = 0; i < servers.size(); ++i) {
      request.clear_partitions();
      request.add_partitions()->set_partition(i);
      MUSTER_RETURN_IF_ERROR(table->clients_[i]->OpenTables(request, kTablesTimeout).status());
    }
    return table;
  }

  absl::Status Drop() {
    for (auto& client : clients_) MUSTER_RETURN_IF_ERROR(client->DropTables(job_, kTablesTimeout));
    return absl::OkStatus();
  }

  uint64_t bytes() const { return gradients_.size(); }
  size_t clients() const { return clients_.size(); }
  uint64_t& clock() { return clock_; }

  // Each calls `done` once per message or, for Close, once per server.
  void Push(uint64_t clock, const ParameterClient::Done& done) {
    for (const Message& message : messages_) {
      v1::ExchangeRequest request = Header(message.server, clock);
      request.mutable_dense_push()->set_first_block(message.first_block);
      request.mutable_dense_push()->set_blocks(message.blocks);
      request.mutable_dense_push()->set_examples(1);
      clients_[message.server]->Call(std::move(request),
                                     gradients_.Slice(message.arena_offset, message.bytes), done);
    }
  }
  void Close(uint64_t clock, const ParameterClient::Done& done) {
    for (size_t server = 0; server < clients_.size(); ++server) {
      v1::ExchangeRequest request = Header(server, clock);
      request.mutable_close()->set_examples(1);
      clients_[server]->Call(std::move(request), {}, done);
    }
  }
  void Pull(uint64_t clock, const ParameterClient::Done& done) {
    for (const Message& message : messages_) {
      v1::ExchangeRequest request = Header(message.server, clock);
      request.mutable_dense_pull()->set_first_block(message.first_block);
      request.mutable_dense_pull()->set_blocks(message.blocks);
      // Into the arena, as the worker's strategy has it.
      const absl::Span<std::byte> landing(
          reinterpret_cast<std::byte*>(parameters_.get()) + message.arena_offset, message.bytes);
      clients_[message.server]->CallInto(
          std::move(request), {}, landing, [message, done](absl::StatusOr<ExchangeResult> result) {
            if (result.ok() && result->payload.size() != message.bytes) {
              result = absl::InternalError(absl::StrCat("pulled ", result->payload.size(),
                                                        " bytes instead of ", message.bytes));
            }
            done(std::move(result));
          });
    }
  }
  int64_t messages() const { return messages_.size(); }

 private:
  Table(std::string job, uint64_t bytes, const std::string& way,
        const std::vector<std::string>& servers, const std::shared_ptr<ChannelIo>& io)
      : job_(std::move(job)),
        block_bytes_(std::min(kMostBlockBytes, bytes / servers.size())),
        gradient_arena_(MakeArena(bytes)),
        gradients_(
            {Payload::Span(reinterpret_cast<const std::byte*>(gradient_arena_.get()), bytes)},
            gradient_arena_),
        parameters_(MakeArena(bytes)) {
    for (const std::string& server : servers) clients_.push_back(MakeBenchClient(server, way, io));
    // Blocks are equal and dealt evenly, so each server's share is as good as contiguous here.
    const uint64_t share = bytes / servers.size();
    const uint64_t step = std::max(block_bytes_, kMessageBytes / block_bytes_ * block_bytes_);
    for (size_t server = 0; server < servers.size(); ++server) {
      for (uint64_t at = 0; at < share; at += step) {
        const uint64_t size = std::min(step, share - at);
        messages_.push_back({static_cast<int>(server), static_cast<uint32_t>(at / block_bytes_),
                             static_cast<uint32_t>(size / block_bytes_), server * share + at,
                             size});
      }
    }
  }

  v1::ExchangeRequest Header(uint32_t partition, uint64_t clock) const {
    v1::ExchangeRequest request;
    request.set_job_id(job_);
    request.set_generation(1);
    request.set_partition(partition);
    request.set_incarnation(1);
    request.set_clock(clock);
    return request;
  }

  const std::string job_;
  const uint64_t block_bytes_;
  const std::shared_ptr<const float> gradient_arena_;
  const Payload gradients_;
  const std::shared_ptr<float> parameters_;
  std::vector<Message> messages_;
  uint64_t clock_ = 0;
  // Last: they end before what their callbacks use.
  std::vector<std::unique_ptr<ParameterClient>> clients_;
};

// Runs steps for a while, some of them in flight at a time.
class Run {
 public:
  Run(Table& table, std::string operation, int in_flight)
      : table_(table), operation_(std::move(operation)), free_(in_flight), in_flight_(in_flight) {}

  absl::StatusOr<std::string> For(absl::Duration duration) {
    const absl::Time start = absl::Now();
    while (absl::Now() - start < duration) {
      {
        absl::MutexLock lock(&mutex_);
        const auto may_start = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return free_ > 0; };
        mutex_.Await(absl::Condition(&may_start));
        if (!status_.ok()) break;
        --free_;
      }
      StartStep();
    }
    absl::MutexLock lock(&mutex_);
    const auto all_done = [this]()
                              ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return free_ == in_flight_; };
    mutex_.Await(absl::Condition(&all_done));
    MUSTER_RETURN_IF_ERROR(status_);
    const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
    const double bytes =
        double(table_.bytes()) * latencies_us_.size() * (operation_ == "push-pull" ? 2 : 1);
    return absl::StrFormat("%.0f %.6f %.1f", bytes, seconds, Median(latencies_us_));
  }

 private:
  void StartStep() {
    const bool push = operation_ != "pull", pull = operation_ != "push";
    auto left = std::make_shared<std::atomic<int64_t>>(
        (push ? table_.messages() + table_.clients() : 0) + (pull ? table_.messages() : 0));
    const ParameterClient::Done done =
        [this, left, start = absl::Now()](absl::StatusOr<ExchangeResult> result) {
          if (!result.ok()) {
            absl::MutexLock lock(&mutex_);
            status_.Update(result.status());
          }
          if (left->fetch_sub(1) > 1) return;
          const absl::Time end = absl::Now();
          absl::MutexLock lock(&mutex_);
          latencies_us_.push_back(absl::ToDoubleMicroseconds(end - start));
          ++free_;
        };
    if (push) {
      table_.Push(table_.clock(), done);
      table_.Close(table_.clock(), done);
      ++table_.clock();
    }
    if (pull) table_.Pull(table_.clock(), done);
  }

  Table& table_;
  const std::string operation_;
  absl::Mutex mutex_;
  int free_ ABSL_GUARDED_BY(mutex_);
  const int in_flight_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::vector<double> latencies_us_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<std::string> Obey(const std::string& line, const std::shared_ptr<ChannelIo>& io,
                                 std::unique_ptr<Table>& table) {
  std::istringstream words(line);
  std::string verb;
  words >> verb;
  if (verb == "open") {
    std::string job, way, durability, address;
    uint64_t bytes;
    words >> job >> bytes >> way >> durability;
    std::vector<std::string> servers;
    while (words >> address) servers.push_back(address);
    MUSTER_ASSIGN_OR_RETURN(table, Table::Open(job, bytes, way, durability, servers, io));
    return "ok";
  }
  if (table == nullptr) return absl::FailedPreconditionError("no table is open");
  if (verb == "drop") {
    MUSTER_RETURN_IF_ERROR(table->Drop());
    table.reset();
    return "ok";
  }
  std::string operation;
  int in_flight;
  double seconds;
  words >> operation >> in_flight >> seconds;
  if (verb != "run" || !words) return absl::InvalidArgumentError("unknown command: " + line);
  return Run(*table, operation, in_flight).For(absl::Seconds(seconds));
}

}  // namespace

int RunBenchWorker() {
  const absl::StatusOr<std::shared_ptr<ChannelIo>> io = ChannelIo::Create();
  if (!io.ok()) {
    std::cout << "error: " << io.status() << std::endl;
    return EXIT_FAILURE;
  }
  std::unique_ptr<Table> table;
  std::string line;
  while (std::getline(std::cin, line)) {
    const absl::StatusOr<std::string> answer = Obey(line, *io, table);
    if (!answer.ok()) {
      std::cout << "error: " << answer.status() << std::endl;
      return EXIT_FAILURE;
    }
    std::cout << *answer << std::endl;
  }
  return EXIT_SUCCESS;
}

}  // namespace muster
