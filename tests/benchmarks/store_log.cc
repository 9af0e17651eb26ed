#include "tests/benchmarks/store_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/base/payload.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/local_storage.h"
#include "proto/parameter_service.pb.h"
#include "server/shard/shard_engine.h"
#include "server/shard/storage/rocksdb_store.h"

namespace muster {
namespace {

constexpr uint64_t kFileBytes = uint64_t{256} << 20;
constexpr size_t kBlockBytes = 1 << 20;
constexpr uint32_t kBlocks = 16;
// So that a run comes by several bases, and writes to files that were written before.
constexpr uint64_t kLogBytes = uint64_t{512} << 20;
constexpr uint64_t kSegmentBytes = uint64_t{64} << 20;

absl::Status FileError(const char* what) {
  return absl::UnavailableError(absl::StrCat(what, " failed: ", strerror(errno)));
}

double Gigabytes(uint64_t bytes, absl::Duration elapsed) {
  return static_cast<double>(bytes) / absl::ToDoubleSeconds(elapsed) / 1e9;
}

class EngineLog final : public BenchLog {
 public:
  absl::Status Start(const std::string& folder) {
    folder_ = folder;
    v1::TablesSchema& schema = *open_.mutable_schema();
    v1::TensorSchema& tensor = *schema.add_tensors();
    tensor.set_name("w");
    tensor.add_shape(kBlocks * kBlockBytes / sizeof(float));
    tensor.mutable_initializer()->set_kind(v1::Initializer::CONSTANT);
    schema.set_partitions(1);
    schema.set_block_bytes(kBlockBytes);
    schema.mutable_optimizer()->set_name("sgd");
    schema.mutable_optimizer()->set_learning_rate(1e-3);
    schema.set_total_steps(uint64_t{1} << 40);
    open_.set_job_id("bench");
    open_.set_generation(1);
    open_.set_slots(1);
    open_.set_incarnation(1);
    open_.mutable_update()->set_unlimited_staleness(true);
    open_.mutable_update()->set_durability(v1::UpdateSpec::EVERY_PUSH);
    open_.add_partitions()->set_partition(0);
    return OpenEngine();
  }

  absl::StatusOr<double> Push(size_t bytes, int in_flight, uint64_t warm_bytes,
                              absl::Duration duration) override {
    const Payload payload = Payload::Of(std::vector<float>(bytes / sizeof(float), 0.5f));
    const uint32_t blocks = bytes / kBlockBytes;
    // So long in answering as the last call is not.
    in_flight_ = 0;
    uint64_t pushed = 0;
    bool warm = warm_bytes == 0;
    absl::Time start = absl::Now();
    while (true) {
      for (uint32_t first = 0; first < kBlocks; first += blocks) {
        v1::ExchangeRequest push = Request();
        push.mutable_dense_push()->set_first_block(first);
        push.mutable_dense_push()->set_blocks(blocks);
        push.mutable_dense_push()->set_examples(1);
        Call(std::move(push), payload, in_flight);
        pushed += bytes;
      }
      v1::ExchangeRequest close = Request();
      close.mutable_close();
      ++clock_;
      Call(std::move(close), Payload(), in_flight);
      const absl::Time now = absl::Now();
      if (!warm && pushed >= warm_bytes) {
        AwaitAtMost(0);
        warm = true;
        pushed = 0;
        start = absl::Now();
      } else if (warm && now - start > duration) {
        AwaitAtMost(0);
        absl::MutexLock lock(&mutex_);
        MUSTER_RETURN_IF_ERROR(failure_);
        return Gigabytes(pushed, absl::Now() - start);
      }
    }
  }

  absl::StatusOr<double> Replay() override {
    const v1::GetServerStatsReply before = engine_->Stats();
    const uint64_t bytes = before.tables(0).log_bytes();
    engine_.reset();
    store_.reset();
    const absl::Time start = absl::Now();
    MUSTER_RETURN_IF_ERROR(OpenEngine());
    return Gigabytes(bytes, absl::Now() - start);
  }

 private:
  absl::Status OpenEngine() {
    MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<RocksDbStore> store,
                            RocksDbStore::Create({.data_dir = folder_}));
    store_ = std::move(store);
    ShardEngine::Options options;
    options.store = store_;
    options.log_dir = folder_ + "/logs";
    options.log_bytes = kLogBytes;
    options.log_segment_bytes = kSegmentBytes;
    options.checkpoint_storage = &checkpoints_;
    MUSTER_ASSIGN_OR_RETURN(engine_, ShardEngine::Create(std::move(options)));
    return engine_->OpenTables(open_).status();
  }

  v1::ExchangeRequest Request() const {
    v1::ExchangeRequest request;
    request.set_job_id("bench");
    request.set_generation(1);
    request.set_incarnation(1);
    request.set_clock(clock_);
    return request;
  }

  void Call(v1::ExchangeRequest request, const Payload& payload, int in_flight) {
    AwaitAtMost(in_flight - 1);
    {
      absl::MutexLock lock(&mutex_);
      ++in_flight_;
    }
    ExchangeCall call;
    call.request = std::make_shared<const v1::ExchangeRequest>(std::move(request));
    call.payload = payload;
    call.done = [this](v1::ExchangeReply reply, Payload) {
      absl::MutexLock lock(&mutex_);
      --in_flight_;
      if (reply.code() != 0) failure_.Update(absl::InternalError(reply.message()));
    };
    engine_->Execute(std::move(call));
  }

  void AwaitAtMost(int calls) {
    absl::MutexLock lock(&mutex_);
    const auto few = [this, calls]()
                         ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return in_flight_ <= calls; };
    mutex_.Await(absl::Condition(&few));
  }

  std::string folder_;
  LocalStorage checkpoints_;
  v1::OpenTablesRequest open_;
  uint64_t clock_ = 0;
  absl::Mutex mutex_;
  int in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  // The engine ends first.
  std::shared_ptr<RocksDbStore> store_;
  std::unique_ptr<ShardEngine> engine_;
};

}  // namespace

absl::StatusOr<double> RawLogSpeed(const std::string& folder, size_t bytes,
                                   absl::Duration duration) {
  const std::string path = folder + "/raw";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return FileError("open");
  const absl::Cleanup close = [&] {
    ::close(fd);
    ::unlink(path.c_str());
  };
  if (::posix_fallocate(fd, 0, kFileBytes) != 0) return FileError("posix_fallocate");
  const std::vector<char> buffer(bytes, 7);
  uint64_t written = 0;
  uint64_t at = 0;
  bool warm = false;
  absl::Time start;
  while (true) {
    if (at + bytes > kFileBytes) {
      // All of it is written now.
      at = 0;
      if (!warm) start = absl::Now();
      if (!warm) written = 0;
      warm = true;
    }
    if (::pwrite(fd, buffer.data(), bytes, at) != static_cast<ssize_t>(bytes)) {
      return FileError("pwrite");
    }
    if (warm && ::fdatasync(fd) != 0) return FileError("fdatasync");
    at += bytes;
    written += bytes;
    if (warm && absl::Now() - start > duration) return Gigabytes(written, absl::Now() - start);
  }
}

absl::StatusOr<std::unique_ptr<BenchLog>> BenchLog::Open(const std::string& folder) {
  auto log = std::make_unique<EngineLog>();
  MUSTER_RETURN_IF_ERROR(log->Start(folder));
  return std::unique_ptr<BenchLog>(std::move(log));
}

}  // namespace muster
