#include "tests/benchmarks/parameter_server/sparse_worker.h"

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
#include "common/base/status_macros.h"
#include "proto/parameter_service.pb.h"
#include "tests/benchmarks/harness/record.h"
#include "tests/benchmarks/parameter_server/bench_client.h"
#include "tests/benchmarks/parameter_server/sparse_requests.h"
#include "worker/strategy/servers/row_groups.h"

namespace muster {
namespace {

constexpr char kSparseJob[] = "sparse-bench";
// As the worker's strategy cuts its messages.
constexpr int64_t kRowsPerMessage = (4 << 20) / (8 + 4 * kSparseDim);

class SparseClient {
 public:
  static absl::StatusOr<std::unique_ptr<SparseClient>> Open(const std::string& way,
                                                            uint32_t partitions,
                                                            const std::string& server,
                                                            const std::shared_ptr<ChannelIo>& io) {
    auto client = std::unique_ptr<SparseClient>(
        new SparseClient(partitions, MakeBenchClient(server, way, io)));
    v1::OpenTablesRequest request;
    request.set_job_id(kSparseJob);
    request.set_generation(1);
    request.set_shard_map_version(1);
    request.set_slots(1);
    v1::TablesSchema& schema = *request.mutable_schema();
    v1::SparseTableSchema& table = *schema.add_sparse();
    table.set_name("rows");
    table.set_dim(kSparseDim);
    table.mutable_initializer()->set_kind(v1::Initializer::CONSTANT);
    schema.set_partitions(partitions);
    schema.set_block_bytes(1 << 20);
    schema.mutable_optimizer()->set_name("sgd");
    schema.mutable_optimizer()->set_learning_rate(0.1f);
    schema.mutable_schedule()->set_name("constant");
    schema.set_total_steps(1 << 30);
    v1::UpdateSpec& update = *request.mutable_update();
    update.set_dense(v1::UpdateSpec::PARAMETER_SERVER);
    update.set_sparse(v1::UpdateSpec::PARAMETER_SERVER);
    update.set_durability(v1::UpdateSpec::CHECKPOINT);
    update.set_partitions(partitions);
    for (uint32_t i = 0; i < partitions; ++i) request.add_partitions()->set_partition(i);
    MUSTER_RETURN_IF_ERROR(client->client_->OpenTables(request, kTablesTimeout).status());
    return client;
  }

  RequestSource& source() { return source_; }

  absl::Status Drop() { return client_->DropTables(kSparseJob, kTablesTimeout); }

  // Both send one request; `done` is called once, with the first error or OK, when all of it is
  // answered.
  void Push(const std::vector<uint64_t>& keys, const std::function<void(absl::Status)>& done) {
    const std::vector<RowGroup> groups = GroupRows(keys, partitions_, kRowsPerMessage);
    const auto each = OnceAll(groups.size() + partitions_, done);
    // As many gradients as the largest request has; what they are does not matter.
    if (gradients_ == nullptr || gradients_->size() < keys.size() * kSparseDim) {
      gradients_ = std::make_shared<std::vector<float>>(keys.size() * kSparseDim, 0.001f);
    }
    const PushedRows pushed = {keys, *gradients_, kSparseDim, gradients_};
    std::vector<uint32_t> chunks(partitions_);
    for (const RowGroup& group : groups) {
      v1::ExchangeRequest request = Header(group.partition);
      v1::SparsePush* push = request.mutable_sparse_push();
      push->set_table(1);
      push->set_chunk(group.chunk);
      push->set_rows(group.positions.size());
      push->set_examples(1);
      ++chunks[group.partition];
      client_->Call(std::move(request), GatherRows(group, pushed, RowCoding(), *memory_),
                    [each](absl::StatusOr<ExchangeResult> result) { each(result.status()); });
    }
    for (uint32_t partition = 0; partition < partitions_; ++partition) {
      v1::ExchangeRequest request = Header(partition);
      request.mutable_close()->set_examples(1);
      request.mutable_close()->add_sparse_chunks(chunks[partition]);
      request.mutable_close()->set_no_dense(true);
      client_->Call(std::move(request), {},
                    [each](absl::StatusOr<ExchangeResult> result) { each(result.status()); });
    }
    ++clock_;
  }

  void Pull(const std::vector<uint64_t>& keys, const std::function<void(absl::Status)>& done) {
    std::vector<RowGroup> groups = GroupRows(keys, partitions_, kRowsPerMessage);
    const auto each = OnceAll(groups.size(), done);
    const size_t floats = keys.size() * kSparseDim;
    const std::shared_ptr<float> rows = memory_->Take(floats);
    for (RowGroup& group : groups) {
      v1::ExchangeRequest request = Header(group.partition);
      request.mutable_sparse_pull()->set_table(1);
      request.mutable_sparse_pull()->set_rows(group.positions.size());
      Payload payload = GatherKeys(group, keys);
      const auto kept = std::make_shared<const RowGroup>(std::move(group));
      client_->Call(
          std::move(request), std::move(payload),
          [each, rows, floats, kept](absl::StatusOr<ExchangeResult> result) {
            if (!result.ok()) return each(result.status());
            const size_t bytes = kept->positions.size() * kSparseDim * sizeof(float);
            if (result->payload.size() != bytes) {
              return each(absl::InternalError(
                  absl::StrCat("pulled ", result->payload.size(), " bytes instead of ", bytes)));
            }
            ScatterRows(*kept, result->payload, DType::kF32, kSparseDim, {rows.get(), floats});
            each(absl::OkStatus());
          });
    }
  }

 private:
  SparseClient(uint32_t partitions, std::unique_ptr<ParameterClient> client)
      : partitions_(partitions), client_(std::move(client)) {}

  static std::function<void(absl::Status)> OnceAll(size_t count,
                                                   std::function<void(absl::Status)> done) {
    struct State {
      absl::Mutex mutex;
      absl::Status status ABSL_GUARDED_BY(mutex);
      size_t left ABSL_GUARDED_BY(mutex);
    };
    auto state = std::make_shared<State>();
    absl::MutexLock lock(&state->mutex);
    state->left = count;
    return [state, done = std::move(done)](absl::Status status) {
      {
        absl::MutexLock lock(&state->mutex);
        state->status.Update(status);
        if (--state->left > 0) return;
        status = state->status;
      }
      done(status);
    };
  }

  v1::ExchangeRequest Header(uint32_t partition) const {
    v1::ExchangeRequest request;
    request.set_job_id(kSparseJob);
    request.set_generation(1);
    request.set_partition(partition);
    request.set_incarnation(1);
    request.set_clock(clock_);
    return request;
  }

  const uint32_t partitions_;
  uint64_t clock_ = 0;
  std::shared_ptr<const std::vector<float>> gradients_;
  RequestSource source_;
  const std::shared_ptr<BufferPool> memory_ = BufferPool::Create(size_t{256} << 20);
  // Last: it ends before what its callbacks use.
  const std::unique_ptr<ParameterClient> client_;
};

// Some requests in flight at a time.
class Window {
 public:
  explicit Window(int in_flight) : free_(in_flight), in_flight_(in_flight) {}

  // Waits for room. Returns the first error of a request.
  absl::Status Enter() {
    absl::MutexLock lock(&mutex_);
    const auto room = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return free_ > 0; };
    mutex_.Await(absl::Condition(&room));
    --free_;
    return status_;
  }
  void Leave(absl::Status status, absl::Duration latency) {
    absl::MutexLock lock(&mutex_);
    status_.Update(status);
    latencies_us_.push_back(absl::ToDoubleMicroseconds(latency));
    ++free_;
  }
  absl::StatusOr<std::vector<double>> Drain() {
    absl::MutexLock lock(&mutex_);
    const auto empty = [this]()
                           ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return free_ == in_flight_; };
    mutex_.Await(absl::Condition(&empty));
    if (!status_.ok()) return status_;
    return latencies_us_;
  }

 private:
  absl::Mutex mutex_;
  int free_ ABSL_GUARDED_BY(mutex_);
  const int in_flight_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::vector<double> latencies_us_ ABSL_GUARDED_BY(mutex_);
};

absl::Status Fill(SparseClient& client, uint64_t rows) {
  constexpr uint64_t kStep = 100000;
  Window window(2);
  std::vector<uint64_t> keys;
  for (uint64_t begin = 0; begin < rows; begin += kStep) {
    keys.clear();
    for (uint64_t key = begin; key < std::min(rows, begin + kStep); ++key) keys.push_back(key);
    MUSTER_RETURN_IF_ERROR(window.Enter());
    client.Push(keys, [&window](absl::Status status) { window.Leave(status, {}); });
  }
  return window.Drain().status();
}

absl::StatusOr<std::string> RunSparse(SparseClient& client, std::istringstream& words) {
  std::string operation, distribution_name;
  uint64_t rows;
  int64_t keys;
  int in_flight;
  double seconds;
  words >> operation >> distribution_name >> rows >> keys >> in_flight >> seconds;
  if (!words) return absl::InvalidArgumentError("run has other arguments");
  MUSTER_ASSIGN_OR_RETURN(const KeyDistribution distribution,
                          ParseKeyDistribution(distribution_name));
  const std::vector<std::vector<uint64_t>>& requests =
      client.source().Draw(distribution, rows, keys);

  Window window(in_flight);
  int64_t moved = 0;
  int64_t sent = 0;
  const absl::Time start = absl::Now();
  while (sent < 2 || absl::Now() - start < absl::Seconds(seconds)) {
    MUSTER_RETURN_IF_ERROR(window.Enter());
    const std::vector<uint64_t>& request = requests[sent % requests.size()];
    const auto done = [&window, begin = absl::Now()](absl::Status status) {
      window.Leave(std::move(status), absl::Now() - begin);
    };
    if (operation == "push") {
      client.Push(request, done);
    } else {
      client.Pull(request, done);
    }
    moved += request.size();
    ++sent;
  }
  MUSTER_ASSIGN_OR_RETURN(const std::vector<double> latencies, window.Drain());
  return absl::StrFormat("%d %d %.6f %.1f", moved, sent * keys,
                         absl::ToDoubleSeconds(absl::Now() - start), Median(latencies));
}

absl::StatusOr<std::string> Obey(const std::string& line, const std::shared_ptr<ChannelIo>& io,
                                 std::unique_ptr<SparseClient>& client) {
  std::istringstream words(line);
  std::string verb;
  words >> verb;
  if (verb == "open") {
    std::string way, address;
    uint32_t partitions;
    words >> way >> partitions >> address;
    MUSTER_ASSIGN_OR_RETURN(client, SparseClient::Open(way, partitions, address, io));
    return "ok";
  }
  if (client == nullptr) return absl::FailedPreconditionError("no table is open");
  if (verb == "drop") {
    MUSTER_RETURN_IF_ERROR(client->Drop());
    client.reset();
    return "ok";
  }
  if (verb == "fill") {
    uint64_t rows;
    words >> rows;
    MUSTER_RETURN_IF_ERROR(Fill(*client, rows));
    return "ok";
  }
  if (verb == "run") return RunSparse(*client, words);
  return absl::InvalidArgumentError("unknown command: " + line);
}

}  // namespace

int RunSparseWorker() {
  const absl::StatusOr<std::shared_ptr<ChannelIo>> io = ChannelIo::Create();
  if (!io.ok()) {
    std::cout << "error: " << io.status() << std::endl;
    return EXIT_FAILURE;
  }
  std::unique_ptr<SparseClient> client;
  std::string line;
  while (std::getline(std::cin, line)) {
    const absl::StatusOr<std::string> answer = Obey(line, *io, client);
    if (!answer.ok()) {
      std::cout << "error: " << answer.status() << std::endl;
      return EXIT_FAILURE;
    }
    std::cout << *answer << std::endl;
  }
  return EXIT_SUCCESS;
}

}  // namespace muster
